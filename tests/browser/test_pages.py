"""Every page: it is drawn, and the accessibility checker finds nothing serious."""

import pytest

from learndyn.explorer.pages import PAGES


@pytest.mark.parametrize("name", [name for name in PAGES if name != "committee"])
def test_a_page_is_drawn_and_accessible(look, name):
    look.go(f"#{name}")
    look.until(f"document.querySelector('#pages [aria-current]').dataset.page === {name!r}")
    look.until("learndyn.view !== null && document.querySelector('#state').textContent === 'ready'")
    assert look.page.inner_text("#error") == "" and look.page.inner_text("#status")
    assert look("document.documentElement.scrollWidth <= innerWidth")
    assert look.axe() == []


def test_a_planted_spike_is_shaded_at_its_step(look, tmp_path):
    losses = [1.0 / (1 + step) * (30 if 52 <= step <= 54 else 1) for step in range(120)]
    rows = "".join(f"{10 * step},{loss}\n" for step, loss in enumerate(losses))
    (tmp_path / "my.csv").write_text(f"step,loss\n{rows}")
    look.go("#log")
    look.page.set_input_files("#c-file", tmp_path / "my.csv")
    look.until("learndyn.view && learndyn.view.charts.length > 0")
    spans = look("learndyn.view.charts[0].spans")
    assert len(spans) == 1 and 500 <= spans[0]["begin"] <= 520 <= spans[0]["end"] <= 560
    (tmp_path / "cut.nc").write_bytes(b"\x89HDF\r\n\x1a\n")
    look.page.set_input_files("#c-file", tmp_path / "cut.nc")
    look.until("document.querySelector('#error').textContent !== ''")
    said = look.page.inner_text("#error")
    assert said.startswith("file: ") and "\n" not in said and str(tmp_path) not in said
