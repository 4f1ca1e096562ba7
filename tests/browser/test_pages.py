"""Every page: it is drawn, its code gives the same curve, and axe finds nothing serious."""

import pathlib

import numpy as np
import pytest

import learndyn as ld
from learndyn.explorer.controls import Choice, Slider
from learndyn.explorer.pages import PAGES
from learndyn.explorer.server import MOST_FILE

EVENTS = pathlib.Path(__file__).parents[1] / "records" / "written_by_torch.tfevents"
# Small, as all of it is computed twice: by the page, and by its code.
STATES = {
    "committee": "#committee?K=2&M=2&horizon=20&N=50&runs=1&eta=0.5&std=0.1&noise=0.1",
    "spectra": "#spectra?levels=4&dim=256&horizon=20&runs=1",
    "deep-linear": "#deep-linear?horizon=50&power=0.5",
    "node-perturbation": "#node-perturbation?inputs=4&hidden=8&outputs=2&horizon=200&runs=1",
    "catapult": "#catapult?width=64&steps=20",
}
OTHERS = {
    "studies": "#studies", "study": "#studies?study=worschech2024scaling/fig7", "log": "#log",
    "sweeps": "#sweeps", "sweep": "#sweeps?store=store.zarr&cell=0%2C%201",
}  # fmt: skip


def is_accessible(look):
    """In light at 1280 pixels and in dark at 800."""
    for width, scheme in ((1280, "light"), (800, "dark")):
        look.page.set_viewport_size({"width": width, "height": 900})
        look.page.emulate_media(color_scheme=scheme)
        fits = f"innerWidth === {width} && document.documentElement.scrollWidth <= innerWidth"
        look.until(fits)  # charts are drawn anew
        assert look.axe() == [], (width, scheme)


def code_of(look):
    """What the copied code defines."""
    look.page.click("#copy")
    look.until("document.querySelector('#copy').textContent === 'Copied'")
    names = {}
    exec(look("navigator.clipboard.readText()"), names)
    return names


@pytest.mark.parametrize("name", STATES)
def test_a_page_of_a_system(look, name):
    look.go(STATES[name])
    chart = look("learndyn.charts[0].drawn")
    names = code_of(look)
    record = names["record"].isel(run=0) if name == "catapult" else names["theory"]
    np.testing.assert_allclose(chart["x"], record["time"], rtol=1e-9)
    shown = np.array(chart["series"][0]["y"], float)
    np.testing.assert_allclose(shown, record["error"], rtol=1e-6, atol=1e-12)
    assert look.page.inner_text("#equation") and "Eq" in look.page.inner_text("#equation")
    spec = look("learndyn.view.charts")
    assert all(each["x"]["label"] and each["y"]["label"] for each in spec)
    is_accessible(look)


@pytest.mark.parametrize("name", STATES)
def test_sliders_of_a_page_compile_nothing(look, name):
    look.go(STATES[name])
    free = {n: c for n, c in PAGES[name].controls.items() if not c.compiles}
    for control, moved in free.items():
        if isinstance(moved, Slider):
            low, high = moved.low, moved.high
            value = low * (high / low) ** 0.4 if moved.log else low + 0.4 * (high - low)
            look.move(control, int(value) if moved.whole else f"{value:.3g}")
        elif isinstance(moved, Choice):
            look.page.select_option(f"#c-{control}", moved.options[2])
        else:
            continue  # the band needs programs of its own
        look.settle()
        assert look.page.inner_text("#error") == ""
        measured = look("learndyn.measured.at(-1)")
        assert (measured["name"], measured["compiled"]) == (control, 0)


def test_errors_far_below_rounding_are_drawn(look):
    """Nor do the ticks of the axis take long, or come to no end."""
    look.go("#node-perturbation?inputs=4&hidden=8&outputs=2&horizon=100000&runs=1")
    assert look("learndyn.charts[0].drawn.series[0].y.some(v => v > 0 && v < 1e-40)")
    assert look("document.querySelectorAll('.plot canvas').length") == 3
    assert not look.complaints


@pytest.mark.parametrize("name", OTHERS)
def test_a_page_of_files(look, name):
    look.go(OTHERS[name])
    assert look.page.inner_text("#status")
    if name == "study":
        look.until("document.querySelector('img').naturalWidth > 0")
    is_accessible(look)
    if name == "sweep":
        assert look("learndyn.view.heats[0].status[1][1]") == "failed"
        look.page.click("table.heat td button >> nth=0")
        look.settle()
        assert "cell=0%2C+0" in look("location.hash")
        curve = np.array(look("learndyn.charts[0].drawn.series[0].y"), float)
        np.testing.assert_allclose(curve, 0.1 * np.exp(-np.arange(5.0)), rtol=1e-6)
        current = "document.querySelector('table.heat [aria-current]')"
        assert look(f"document.activeElement === {current} && {current}.textContent === '0.00183'")


def test_one_can_go_back_from_a_study(look):
    look.go("#studies?verdict=all&search=worschech")
    rows = "document.querySelectorAll('tbody tr').length"
    count = look(rows)
    look.page.click("tbody tr:last-child button")
    look.until("learndyn.settled && location.hash.includes('study=worschech')")
    assert look("scrollY") == 0 and look("document.activeElement.id") == "main"
    look.page.go_back()
    look.until(f"learndyn.settled && {rows} === {count}")
    assert look.page.input_value("#c-search") == "worschech"


def test_a_study_is_run(look):
    look.go(OTHERS["study"])
    look.page.click("#train")
    look.until("document.querySelector('#verdict b') !== null")
    assert look.page.inner_text("#verdict").lower().startswith("no claim fails")
    look.until("document.querySelector('img').src.startsWith('data:')")
    look.page.click("text=Back to all studies")
    look.settle()
    assert look("document.querySelectorAll('tbody tr').length") > 90
    look.page.fill("#c-search", "plateau symmetric")
    look.until("learndyn.settled && document.querySelectorAll('tbody tr').length < 20")


def test_a_planted_spike_is_shaded_at_its_step(look, tmp_path):
    losses = [1.0 / (1 + step) * (30 if 52 <= step <= 54 else 1) for step in range(120)]
    rows = "".join(f"{10 * step},{loss},0.1,0.05\n" for step, loss in enumerate(losses))
    (tmp_path / "my.csv").write_text(f"step,loss,lr,critical_rate\n{rows}")
    look.go("#log")
    look.page.set_input_files("#c-file", tmp_path / "my.csv")
    look.until("learndyn.settled && learndyn.view.charts.length === 2")
    spans = look("learndyn.view.charts[0].spans")
    assert len(spans) == 1 and 500 <= spans[0]["begin"] <= 520 <= spans[0]["end"] <= 560
    assert spans[0]["label"] in look.page.get_attribute(".plot >> nth=0", "aria-label")
    assert "a catapult: " in look.page.inner_text("#parts")
    # The shade is drawn: the canvas differs there from what lies left of it.
    colours = """steps => {
        const plot = document.querySelector('.plot'), canvas = plot.querySelector('canvas');
        const over = plot.querySelector('.u-over'), ratio = devicePixelRatio;
        const low = Math.round((over.offsetTop + over.clientHeight - 3) * ratio);
        const row = canvas.getContext('2d').getImageData(0, low, canvas.width, 1).data;
        const place = step => over.offsetLeft + over.clientWidth * step / 1190;
        const colour = at => [...row.slice(4 * at, 4 * at + 3)];
        return steps.map(step => colour(Math.round(place(step) * ratio)));
    }"""
    inside, left, right = look.page.evaluate(colours, [530, 450, 610])
    assert inside != left and left == right
    is_accessible(look)


def test_files_that_are_cut_off(look, tmp_path):
    look.go("#log")
    (tmp_path / "cut.nc").write_bytes(b"\x89HDF\r\n\x1a\n")
    look.page.set_input_files("#c-file", tmp_path / "cut.nc")
    look.until("document.querySelector('#error').textContent !== ''")
    said = look.page.inner_text("#error")
    assert said.startswith("file: ") and "\n" not in said and str(tmp_path) not in said
    (tmp_path / "events.out.tfevents.1.a.0").write_bytes(EVENTS.read_bytes()[:-5])
    look.page.set_input_files("#c-file", tmp_path / "events.out.tfevents.1.a.0")
    look.until("learndyn.settled && learndyn.view.charts.length > 0")
    assert "cut off" in look.page.inner_text("#parts")


def test_a_file_that_is_too_large_is_refused(look, tmp_path):
    look.go("#log")
    with open(tmp_path / "large.csv", "wb") as file:
        file.truncate(MOST_FILE + 1)
    look.page.set_input_files("#c-file", tmp_path / "large.csv")
    look.until("document.querySelector('#error').textContent.startsWith('large.csv: ')")
    assert "too large" in look.page.inner_text("#error")
    look.complaints.clear()  # the browser's own, about what was refused


def saved_by(look, folder):
    """The two files of a page, by their names."""
    files = []
    look.page.on("download", lambda download: files.append(download))
    look.page.click("#files")
    look.until("learndyn.saved === 2")
    while len(files) < 2:
        look.page.wait_for_timeout(20)
    saved = {file.suggested_filename: folder / file.suggested_filename for file in files}
    for file in files:
        file.save_as(saved[file.suggested_filename])
    return saved


def test_kept_results_are_saved(look, tmp_path):
    look.go(OTHERS["study"])
    saved = saved_by(look, tmp_path)
    kept = EVENTS.parents[2] / "docs" / "results" / "worschech2024scaling" / "fig7"
    for name in ("claims.json", "figure.png"):
        assert saved[name].read_bytes() == (kept / name).read_bytes()


def test_record_and_figure_are_saved(look, tmp_path):
    look.go(STATES["deep-linear"])
    saved = saved_by(look, tmp_path)
    record = ld.load(saved["deep-linear-theory.nc"])
    shown = np.array(look("learndyn.charts[0].drawn.series[0].y"), float)
    np.testing.assert_allclose(record.error, shown, rtol=1e-6, atol=1e-12)
    assert saved["deep-linear.png"].read_bytes().startswith(b"\x89PNG")
