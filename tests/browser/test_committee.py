"""The first page as a person uses it: sliders, runs, stop, recovery, code, files."""

import json
import os
import signal

import numpy as np
from tests.browser.promised import soon

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.pages.base import RUNS_KEY

MOVES = 40
COPIED = 1200  # milliseconds for which the page says so
DRAWN, BUSY, STOPPED, LEFT = 0.15, 0.3, 0.5, 1.0  # seconds that are promised
SMALL = "#committee?K=2&M=2&horizon=20&N=50&runs=3&eta=0.5&std=0.1"
LONG = "#committee?K=2&M=2&horizon=2000&N=10000&runs=8&eta=0.5&std=0.1"
# Moves a slider in every frame until some views are drawn; the number of those that were not.
MOVING = """views => new Promise(done => {
    const slider = document.querySelector('#c-eta');
    let seen = learndyn.view, left = views, frames = 0;
    const move = () => {
        slider.value = 80 + frames % 40;
        slider.dispatchEvent(new Event('input'));
        frames += 1;
        if (learndyn.view !== seen) left -= 1;
        seen = learndyn.view;
        left && frames < 2000 ? requestAnimationFrame(move) : done(left);
    };
    requestAnimationFrame(move);
})"""
# Types a number of units; the milliseconds until the page says that it is computing, and what it
# says then: "ready" if the view came before.
COMPUTING = """size => new Promise(done => {
    const state = document.querySelector('#state'), exact = document.querySelector('#v-K');
    const began = performance.now();
    new MutationObserver((_, watching) => {
        if (!state.textContent.includes('computing') && !learndyn.settled) return;
        watching.disconnect();
        done([performance.now() - began, state.textContent]);
    }).observe(state, {childList: true, characterData: true, subtree: true});
    exact.value = size;
    exact.dispatchEvent(new Event('change'));
})"""


def values_of(look):
    query = dict(pair.split("=") for pair in look("location.hash").split("?")[1].split("&"))
    known, texts = starts(PAGES["committee"].controls), ("activation",)
    return {name: query[name] if name in texts else json.loads(query[name]) for name in known}


def drawn(look, which=0):
    """The theory's curve as it is drawn."""
    return np.array(look(f"learndyn.charts[{which}].drawn.series[0].y"), float)


def test_sliders_move_the_theory_and_compile_nothing(look, theory_of):
    look.go("#committee?K=3&M=3")

    def moved():
        """The seconds after which 90 % of the moves are drawn."""
        look("learndyn.measured.length = 0")
        for eta in np.geomspace(0.1, 2, MOVES):
            look.move("eta", f"{eta:.3g}")
            look.settle()
        moves = look("learndyn.measured")
        assert len(moves) == MOVES and not any(move["compiled"] for move in moves)
        return np.percentile([move["ms"] for move in moves], 90) / 1e3

    soon(DRAWN, moved)
    for eta in (0.123, 0.7, 2):
        look.move("eta", eta)
        look.settle()
        theory = theory_of(values_of(look))[2]
        np.testing.assert_allclose(drawn(look), theory.error, rtol=1e-6, atol=1e-12)
        overlap = drawn(look, 1)
        np.testing.assert_allclose(overlap, theory.R[:, 0, 0], rtol=1e-6, atol=1e-9)
    assert values_of(look)["eta"] == 2.0
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


def test_the_curve_follows_a_slider_that_does_not_rest(look, theory_of):
    look.go(SMALL)
    assert look.page.evaluate(MOVING, 5) == 0
    look.settle()
    theory = theory_of(values_of(look))[2]  # the last one drawn is that of the values
    np.testing.assert_allclose(drawn(look), theory.error, rtol=1e-6, atol=1e-12)


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


def test_a_page_that_is_loaded_again_shows_the_same(look):
    look.go(SMALL + "&axes0=10&noise=0.25")
    for _ in range(2):
        look.page.reload()
        look.settle()
        assert values_of(look)["noise"] == 0.25
        assert look("learndyn.charts[0].axes") == {"x": True, "y": False}


def test_an_address_that_is_not_one_of_ours_leads_to_a_page(look):
    for odd in ("#%zz", "#nothing?x=%zz", "#?", "#committee?axes9=&axesx=1&more=1"):
        look.go(odd)
        assert look.page.inner_text("h1") == "Committee machines"


def test_what_is_copied_twice_is_not_called_copied_for_ever(look):
    for _ in range(2):
        look.page.click("#copy")
    for text in ("Copied", "Copy code"):
        look.until(f"document.querySelector('#copy').textContent === '{text}'")
    look.page.wait_for_timeout(2 * COPIED)
    assert look.page.inner_text("#copy") == "Copy code"


def test_a_curve_of_one_value_is_a_point_until_it_is_a_line(look):
    look.go(SMALL + "&activation=quadratic")
    look.move("eta", 8)
    look.settle()
    dots = "document.querySelectorAll('figure:first-child .swatch.dot').length"
    assert "diverged" in look.page.inner_text("#parts") and look(dots) == 1
    look.move("eta", 0.1)
    look.settle()
    assert look(dots) == 0


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


def test_a_band_is_predicted_and_the_verdict_uses_it(look):
    look.go("#committee?activation=linear&K=1&M=1&N=500&horizon=20&std=0.5&runs=8&band=true")
    look.until("!!learndyn.view.charts[0].band")
    page, values = PAGES["committee"], values_of(look)
    system = page.system(values)
    start = ld.start(system, key=values["key"])
    theory = ld.solve(system, page.times(values), start=start, fluctuations=True)
    curves = {s["name"]: s["y"] for s in look("learndyn.charts[0].drawn.series")}
    for edge, sign in (("above", 2), ("below", -2)):
        expected = theory.error + sign * theory.error_std
        np.testing.assert_allclose(np.array(curves[edge], float), expected, rtol=1e-6, atol=1e-9)
    look.page.click("#train")
    look.until("learndyn.done !== undefined")
    assert "band predicted by the theory (normal test, 8 runs)" in look.page.inner_text("#verdict")


def trains(look):
    """Starts a run, and waits for its first rows."""
    look("learndyn.measured.length = 0")
    look.page.click("#train")
    look.until("learndyn.measured.some(m => m.name === 'rows')")


def test_stop_ends_a_run_and_the_page_goes_on(look):
    look.go(LONG)

    def stopped():
        trains(look)
        look.page.click("#stop")
        look.until("learndyn.measured.at(-1).name === 'stopped'")
        assert look.page.inner_text("#verdict") == "Stopped."
        assert look.page.is_enabled("#train")
        return look("learndyn.measured.at(-1).ms") / 1e3

    soon(STOPPED, stopped)
    look.move("eta", 0.7)
    look.settle()


def test_a_run_ends_when_its_page_is_closed(looking, explorer):
    def left():
        look = looking()
        look.open(explorer.address)
        look.go(LONG.replace("runs=8", "runs=64"))  # by itself it would take many minutes
        explorer.rest()  # neighbouring sizes are compiled
        trains(look)
        look.page.close()
        return explorer.rest()

    soon(LEFT, left)


def test_a_killed_process_is_replaced_and_the_page_recovers(look, explorer, theory_of):
    look.go(LONG)
    trains(look)
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
        label = PAGES["committee"].controls[name].label
        assert said.startswith(f"{label}: got ") and "; allowed is " in said
        look.page.click("#reset")
        look.until("document.querySelector('#error').textContent === ''")
        look.settle()
    look("location.hash = '#committee?activation=relu'")
    look.until("document.querySelector('#error').textContent.startsWith('activation: got ')")
    assert "got 'relu'; allowed is one of erf, " in look.page.inner_text("#error")


def test_new_sizes_say_that_they_are_computed(look):
    look.go(SMALL)

    def said():
        """Asks for a size that nobody has asked for; the seconds until the page says so."""
        size = sizes.pop()
        milliseconds, state = look.page.evaluate(COMPUTING, size)
        states.append(state)
        look.settle()
        assert values_of(look)["K"] == size
        assert look("learndyn.charts[1].drawn.series.length") == size * 2
        return milliseconds / 1e3

    # Later ones may have been compiled ahead, as neighbours.
    sizes, states = [4, 6, 8, 5, 7], []
    soon(BUSY, said)
    assert "computing" in states[0]


def test_what_is_compiled_stays_live_while_new_sizes_compile(look, theory_of):
    """Asked for are K = 8, which compiles, and at once K = 2 again at other rates."""
    look.go(SMALL + "&activation=quadratic")  # of which no other test compiles K = 8
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
