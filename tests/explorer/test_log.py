"""My log: files that can be read, and one sentence for those that cannot."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.explorer.controls import starts
from learndyn.explorer.pages import PAGES

LOG = PAGES["log"]


def shown(tmp_path, name, content=None):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    return LOG.show({**starts(LOG.controls), "file": name}, {"sent": str(tmp_path)})


def test_spikes_of_a_csv_are_at_its_steps(tmp_path):
    losses = [1.0 / (1 + step) * (30 if 52 <= step <= 54 else 1) for step in range(120)]
    rows = "".join(f"{10 * step},{loss},note\n" for step, loss in enumerate(losses))
    view = shown(tmp_path, "a.csv", f"step,loss,text\n{rows}".encode())
    (span,) = view.charts[0].spans
    assert (span.begin, span.end) == (510.0, 550.0) and "spike at step 52" in span.label
    assert view.offers["variable"] == ["loss"] and "1 spike" in view.notes[0]


def test_rates_say_whether_spikes_are_catapults(tmp_path):
    losses = [1.0 / (1 + step) * (30 if 52 <= step <= 54 else 1) for step in range(120)]
    for critical, word in ((0.05, "catapults: nothing"), (0.5, "larger batch")):
        rows = "".join(f"{loss},0.1,{critical}\n" for loss in losses)
        view = shown(tmp_path, "a.csv", f"loss,rate,critical_rate\n{rows}".encode())
        assert len(view.charts) == 2 and word in view.notes[0]


def test_records_are_read(tmp_path):
    recorder, model = ld.Recorder({}), ld.Model(ld.MLP([1, 1], "tanh"), (np.ones((1, 1)),))
    for step in range(9):
        recorder(step, model, loss=1.0 / (1 + step))
    ld.save(recorder.record(), tmp_path / "a.nc")
    view = shown(tmp_path, "a.nc")
    np.testing.assert_allclose(view.charts[0].series[0].y, 1.0 / np.arange(1, 10))


BAD = {
    "cut.nc": b"\x89HDF\r\n\x1a\n", "none.nc": b"", "bytes.csv": b"\xff\xfe\x00", "none.csv": b"",
    "texts.csv": b"a,b\nx,y\n", "short.csv": b"step,loss\n1,2\n", "some.exe": b"MZ",
    "../etc.csv": None, "absent.csv": None,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unreadable_files_are_explained_in_one_sentence(tmp_path, name):
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as error:
        shown(tmp_path, name, BAD[name])
    assert str(tmp_path) not in str(error.value)
