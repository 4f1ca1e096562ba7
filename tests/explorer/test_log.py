"""My log: files that can be read, and one sentence for those that cannot."""

import pathlib

import numpy as np
import pytest
import xarray as xr

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
    late = lambda step: 0.05 if step > 70 else 0.5  # above the critical rate, but after the spike
    cases = {
        "loss, with η > η_crit": lambda step: 0.05, "larger batch": lambda step: 0.5,
        "without η > η_crit": late,
    }  # fmt: skip
    for words, critical in cases.items():
        rows = "".join(f"{loss},0.1,{critical(step)}\n" for step, loss in enumerate(losses))
        view = shown(tmp_path, "a.csv", f"loss,rate,critical_rate\n{rows}".encode())
        assert len(view.charts) == 2 and words in view.notes[0]
        always = critical(0) < 0.1  # above the critical rate at every step
        assert ("says little" in view.notes[0]) == always


def test_no_spike_is_thinned_out(tmp_path):
    losses = np.full(200_000, 1.0)
    losses[123_457] = 50.0
    rows = "\n".join(map(str, losses))
    view = shown(tmp_path, "a.csv", f"loss\n{rows}\n".encode())
    chart = view.charts[0]
    assert len(chart.at) < 20_000 and chart.series[0].y.max() == 50.0
    assert chart.spans[0].begin <= 123_457 <= chart.spans[0].end


def test_events_of_tensorboard_are_read(tmp_path):
    events = (pathlib.Path(__file__).parents[1] / "records/written_by_torch.tfevents").read_bytes()
    view = shown(tmp_path, "0f-events.out.tfevents.1.host.0", events)
    assert view.offers["variable"] == ["loss", "lr", "double"] and len(view.charts) == 2
    np.testing.assert_array_equal(view.charts[0].at, 10.0 * np.arange(6))
    view = shown(tmp_path, "0f-events.out.tfevents.1.host.0", events[:-9])
    assert "cut off" in view.notes[0]


def test_the_code_of_the_view_finds_the_same(tmp_path, monkeypatch, capsys):
    losses = [1.0 / (1 + step) * (30 if 52 <= step <= 54 else 1) for step in range(120)]
    rows = "".join(f"{10 * step},{loss},0.1,0.05\n" for step, loss in enumerate(losses))
    content = f"step,loss,lr,critical_rate\n{rows}".encode()
    view = shown(tmp_path, "0f-my.csv", content)
    (tmp_path / "my.csv").write_bytes(content)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(view.code, names)
    np.testing.assert_array_equal(names["loss"], view.charts[0].series[0].y)
    assert names["found"].steps_above == 120 and "520" in capsys.readouterr().out


def test_a_record_of_the_curves_is_saved(tmp_path):
    shown(tmp_path, "0f-a.csv", b"step,loss,rate\n0,3,0.1\n10,2,0.1\n20,1,0.2\n")
    values = {**starts(LOG.controls), "file": "0f-a.csv"}
    records = LOG.records(values, {"sent": str(tmp_path)})
    assert records["runs"]["step"].values.tolist() == [0, 10, 20]
    assert records["runs"]["rate"].values.tolist() == [0.1, 0.1, 0.2]
    assert LOG.figure(values, records) is not None


def test_records_are_read(tmp_path):
    recorder, model = ld.Recorder({}), ld.Model(ld.MLP([1, 1], "tanh"), (np.ones((1, 1)),))
    for step in range(9):
        recorder(step, model, loss=1.0 / (1 + step))
    ld.save(recorder.record(), tmp_path / "a.nc")
    view = shown(tmp_path, "a.nc")
    np.testing.assert_allclose(view.charts[0].series[0].y, 1.0 / np.arange(1, 10))
    assert not view.notes[0].endswith("runs.")
    ld.save(xr.concat([recorder.record()] * 3, "run"), tmp_path / "runs.nc")
    assert shown(tmp_path, "runs.nc").notes[0] == "These are the curves of the first of 3 runs."


TABLE = "step;train loss\r\n0;3,5\r\n10;1,25\r\n20;1e-1\r\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
@pytest.mark.parametrize("name", ["a.csv", "a.tsv", "a.txt"])
def test_tables_of_other_programs_are_read(tmp_path, name, encoding):
    """With semicolons and decimal commas, or with tabs, in the encodings of Excel."""
    for table in (TABLE, TABLE.replace(",", ".").replace(";", "\t")):
        view = shown(tmp_path, name, table.encode(encoding))
        assert view.charts[0].at.tolist() == [0, 10, 20]
        assert view.charts[0].series[0].y.tolist() == [3.5, 1.25, 0.1]


def test_errors_name_the_file_as_its_owner_does(tmp_path):
    with pytest.raises(ValueError, match=r"\Afile: got 'my.csv' "):
        shown(tmp_path, "0123-my.csv", b"step,loss\n")


def test_a_column_that_is_no_loss_is_refused_by_its_control(tmp_path):
    with pytest.raises(ValueError, match=r"\Avariable: got the loss -2\S*; allowed are non-neg"):
        shown(tmp_path, "a.csv", b"step,loss\n0,1\n1,-2\n2,1\n")


BAD = {
    "numbers.csv": b"0,1\n1,2\n2,1\n", "binary.csv": b"\x89HDF\r\n\x1a\n", "half.csv": b"\xff\xfea",
    "cut.nc": b"\x89HDF\r\n\x1a\n", "none.nc": b"", "bytes.csv": b"\xff\xfe\x00", "none.csv": b"",
    "texts.csv": b"a,b\nx,y\n", "short.csv": b"step,loss\n1,2\n", "some.exe": b"MZ",
    "../etc.csv": None, "absent.csv": None,
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_unreadable_files_are_explained_in_one_sentence(tmp_path, name):
    with pytest.raises(ValueError, match=r"\A[^\n]+\Z") as error:
        shown(tmp_path, name, BAD[name])
    assert str(tmp_path) not in str(error.value)
