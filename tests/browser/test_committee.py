"""The first page as a person uses it: sliders, runs, stop, recovery, code, files."""

import json
import os
import signal
import time

import numpy as np

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pages.base import RUNS_KEY

MOVES = 40
SECONDS = 90.0  # a run that goes on is found by this
SMALL = "#committee?K=2&M=2&horizon=20&N=50&runs=3&eta=0.5&std=0.1"
LONG = "#committee?K=2&M=2&horizon=2000&N=10000&runs=8&eta=0.5&std=0.1"


def values_of(look):
    query = dict(pair.split("=") for pair in look("location.hash").split("?")[1].split("&"))
    known, texts = starts(PAGES["committee"].controls), ("activation",)
    return {name: query[name] if name in texts else json.loads(query[name]) for name in known}


def drawn(look, which=0):
    """The theory's curve as it is drawn."""
    return np.array(look(f"learndyn.charts[{which}].drawn.series[0].y"), float)


def test_sliders_move_the_theory_and_compile_nothing(look, theory_of):
    look.go("#committee?K=3&M=3")
    for move, eta in enumerate(np.geomspace(0.1, 2, MOVES)):
        look.move("eta", f"{eta:.3g}")
        look.settle()
        if move in (0, MOVES // 2, MOVES - 1):
            theory = theory_of(values_of(look))[2]
            np.testing.assert_allclose(drawn(look), theory.error, rtol=1e-6, atol=1e-12)
            overlap = drawn(look, 1)
            np.testing.assert_allclose(overlap, theory.R[:, 0, 0], rtol=1e-6, atol=1e-9)
    assert values_of(look)["eta"] == 2.0
    moves = look("learndyn.measured.filter(m => m.name === 'eta')")
    assert len(moves) == MOVES and not any(move["compiled"] for move in moves)
    for name, value in (("noise", 0.2), ("N", 500), ("horizon", 300), ("key", 3), ("std", 0.1)):
        look.move(name, value)
        look.settle()
        assert look("learndyn.measured.at(-1)")["compiled"] == 0, name


def test_sliders_listen_to_the_keyboard(look, theory_of):
    look.go(SMALL)
    look.page.focus("#c-eta")
    for _ in range(20):  # faster than they are answered: only the latest question is
        look.page.keyboard.press("ArrowLeft")
    look.settle()
    values = values_of(look)
    assert values["eta"] < 0.5
    np.testing.assert_allclose(drawn(look), theory_of(values)[2].error, rtol=1e-6, atol=1e-12)


def test_the_address_holds_the_whole_state(look, looking):
    look.go(SMALL + "&axes0=10&axes1=11&key=7&noise=0.25&activation=quadratic&band=false")
    look.page.click("#link")
    look.until("document.querySelector('#link').textContent === 'Copied'")
    link = look("navigator.clipboard.readText()")
    other = looking()
    other.page.context.add_cookies(look.page.context.cookies())
    other.open(link)
    assert values_of(other) == values_of(look) and values_of(other)["key"] == 7
    assert other("learndyn.charts.map(c => c.axes)") == [
        {"x": True, "y": False}, {"x": True, "y": True},
    ]  # fmt: skip


def test_networks_train_on_top_of_the_theory(look, theory_of):
    look.go(SMALL)
    look.page.click("#train")
    look.until("learndyn.done !== undefined")
    measured = look("learndyn.measured.map(m => m.name)")
    assert measured.index("rows") < measured.index("verdict")
    values = values_of(look)
    system, start, theory = theory_of(values)
    options = {"runs": values["runs"], "key": RUNS_KEY, "method": "reduced"}
    runs = ld.simulate(system, theory.time.values, start=start, **options)
    shown = np.array(look("learndyn.charts[0].drawn.runs"), float)
    np.testing.assert_allclose(shown, runs.error, rtol=1e-6, atol=1e-12)
    verdict = look.page.inner_text("#verdict")
    comparison = ld.compare(theory, runs)
    assert verdict.lower().startswith(comparison.verdict) and comparison.reason in verdict
    assert "3 runs" in verdict


def test_stop_ends_a_run_and_the_page_goes_on(look):
    look.go(LONG)
    look.page.click("#train")
    look.until("learndyn.measured.some(m => m.name === 'rows')")
    look.page.click("#stop")
    look.until("learndyn.measured.some(m => m.name === 'stopped')")
    assert look.page.inner_text("#verdict") == "Stopped."
    assert look.page.is_enabled("#train")
    look.move("eta", 0.7)
    look.settle()


def test_a_run_ends_when_its_page_is_closed(looking, explorer):
    look = looking()
    look.open(explorer.address)
    look.go(
        LONG.replace("runs=8", "runs=64")
    )  # many networks: by itself it would take many minutes
    look.page.click("#train")
    look.until("learndyn.measured.some(m => m.name === 'rows')")
    look.page.close()
    end, used, quiet = time.monotonic() + SECONDS, explorer.used(), 0
    while quiet < 10 and time.monotonic() < end:  # neighbouring sizes may compile for a while
        time.sleep(0.1)
        before, used = used, explorer.used()
        quiet = quiet + 1 if used == before else 0
    assert quiet == 10


def test_a_killed_process_is_replaced_and_the_page_recovers(look, explorer, theory_of):
    look.go(LONG)
    look.page.click("#train")
    look.until("learndyn.measured.some(m => m.name === 'rows')")
    before = explorer.workers()
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    look.until("document.querySelector('#error').textContent.includes('has ended')")
    look.move("eta", 0.3)
    look.settle()
    assert not set(before) & set(explorer.workers()) and explorer.workers()
    theory = theory_of(values_of(look))[2]
    np.testing.assert_allclose(drawn(look), theory.error, rtol=1e-6, atol=1e-12)


def test_bad_values_are_refused_in_words(look):
    look.go(SMALL)
    for name, typed in (("eta", "1e9"), ("K", "2.5"), ("N", "many"), ("runs", "")):
        look.move(name, typed)
        look.until("document.querySelector('#error').textContent !== ''")
        said = look.page.inner_text("#error")
        assert said.startswith(f"{name}: got ") and "; allowed is " in said
        look.page.click("#reset")
        look.until("document.querySelector('#error').textContent === ''")
        look.settle()


def test_new_sizes_say_that_they_are_computed(look):
    look.go(SMALL)
    states = look(
        """new Promise(done => {
            const states = new Set(), state = document.querySelector('#state');
            new MutationObserver(() => states.add(state.textContent)).observe(
                state, {childList: true, characterData: true, subtree: true});
            const exact = document.querySelector('#v-K');
            exact.value = '7'; exact.dispatchEvent(new Event('change'));
            const wait = () => {
                const busy = document.querySelector('#view').ariaBusy === 'true';
                if (states.size && !busy) done([...states]); else setTimeout(wait, 20);
            };
            setTimeout(wait, 400);
        })"""
    )
    assert any("computing" in state for state in states)
    assert values_of(look)["K"] == 7
    assert look("learndyn.charts[1].drawn.series.length") == 7 * 2


def test_what_is_compiled_stays_live_while_new_sizes_compile(look, theory_of):
    """Asked for are K = 8, which compiles, and at once K = 2 again at other rates."""
    look.go(SMALL)
    look.move("K", 8)
    look.until("document.querySelector('#state').textContent.includes('computing')")
    look.move("K", 2)
    for eta in (0.3, 0.4, 0.6):
        look.move("eta", eta)
        look.settle()
        theory = theory_of(values_of(look))[2]
        np.testing.assert_allclose(drawn(look), theory.error, rtol=1e-6, atol=1e-12)


def test_a_narrow_window_has_one_column(looking, explorer):
    look = looking(400)
    look.open(explorer.address)
    assert look("document.documentElement.scrollWidth <= innerWidth")
