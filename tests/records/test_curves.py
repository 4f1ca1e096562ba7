"""Curves of logs: records, CSV files, and an event file that PyTorch's SummaryWriter wrote."""

import pathlib

import numpy as np
import pytest

from learndyn.records import events
from learndyn.records.curves import Curve, read_curves

EVENTS = pathlib.Path(__file__).parent / "written_by_torch.tfevents"


def table(tmp_path, text, name="a.csv"):
    (tmp_path / name).write_text(text)
    return read_curves(tmp_path / name)


def test_scalars_of_tensorboard():
    """Three curves, as `simple_value`, as a float and as a double tensor; a histogram, a text."""
    curves = read_curves(EVENTS).curves
    assert set(curves) == {"loss", "lr", "double"}
    i = np.arange(6)
    np.testing.assert_array_equal(curves["loss"].steps, 10 * i)
    np.testing.assert_array_equal(curves["loss"].values, np.float32(1.0 / (1 + i)))
    np.testing.assert_array_equal(curves["lr"].values, np.float32(0.5 / (1 + i)))
    np.testing.assert_array_equal(curves["double"].steps, 5 * i)
    np.testing.assert_array_equal(curves["double"].values, 0.1 * i)


def test_a_checksum():
    """The check value of CRC-32C (RFC 3720, B.4, and catalogues of checksums)."""
    assert events._crc(b"123456789") == 0xE3069283


def test_an_event_file_that_is_cut_off_is_read_as_far_as_it_goes():
    content = EVENTS.read_bytes()
    whole, complete = events.scalars(content)
    assert complete
    ends = 0
    for length in range(len(content)):
        curves, complete = events.scalars(content[:length])
        ends += complete
        for tag, (steps, values) in curves.items():
            assert steps == whole[tag][0][: len(steps)] and values == whole[tag][1][: len(values)]
    assert ends > 20  # prefixes that end with a record


def test_a_damaged_event_file_is_an_error_of_one_line_or_other_numbers(tmp_path):
    content = bytearray(EVENTS.read_bytes())
    refused = 0
    for at in range(len(content)):
        content[at] ^= 0xFF
        try:
            events.scalars(bytes(content))
        except ValueError as error:
            refused += "\n" not in str(error)
        content[at] ^= 0xFF
    assert refused > 100
    (tmp_path / "x.tfevents").write_bytes(b"\x89HDF" * 9)
    with pytest.raises(ValueError, match=r"\Afile: got 'x.tfevents' \([^\n]*no event file\)"):
        read_curves(tmp_path / "x.tfevents")


def test_a_file_that_is_being_written_has_a_remark(tmp_path):
    (tmp_path / "x.tfevents").write_bytes(EVENTS.read_bytes()[:-5])
    logged = read_curves(tmp_path / "x.tfevents")
    assert "cut off" in logged.remark and "loss" in logged.curves


def test_columns_of_a_table(tmp_path):
    text = "Step,loss,note,val\n0,3,a,\n10,nan,b,7\n20,1,c,\n"
    curves = table(tmp_path, text).curves
    assert set(curves) == {"loss", "val"}
    np.testing.assert_array_equal(curves["loss"].values, [3, np.nan, 1])
    assert curves["val"].steps.tolist() == [10] and curves["val"].values.tolist() == [7]


def test_of_entries_of_one_step_the_last_holds(tmp_path):
    curves = table(tmp_path, "step\tloss\n0\t5\n10\t4\n20\t3\n10\t2\n", "a.TSV").curves
    assert curves["loss"].steps.tolist() == [0, 10, 20]
    assert curves["loss"].values.tolist() == [5, 2, 3]


def test_rows_count_without_a_column_of_steps(tmp_path):
    assert table(tmp_path, "\ufeffloss\n5\n4\n").curves["loss"].steps.tolist() == [0, 1]


def test_values_at_other_steps_are_the_last_known_ones():
    curve = Curve(np.array([10.0, 20.0]), np.array([1.0, 2.0]))
    np.testing.assert_array_equal(curve.at(np.array([5, 10, 19, 50])), [np.nan, 1, 1, 2])


BAD = {
    "none.csv": "", "texts.csv": "a,b\nx,y\n", "steps.csv": "step,loss\nx,1\n",
    "nul.csv": "a\n\0\n", "some.exe": "MZ", "none.nc": "",
    "cut.nc": "\x89HDF\r\n", "none.tfevents": "",
}  # fmt: skip


@pytest.mark.parametrize("name", [*BAD, "absent.csv"])
def test_what_cannot_be_read_is_one_sentence(tmp_path, name):
    if name in BAD:
        (tmp_path / name).write_bytes(BAD[name].encode())
    with pytest.raises(ValueError, match=rf"\Afile: got '{name}' \([^\n]+\); allowed is [^\n]+\Z"):
        read_curves(tmp_path / name)
    with pytest.raises(ValueError, match=r"\Afile: got 'folder\.csv'"):
        (tmp_path / "folder.csv").mkdir()
        read_curves(tmp_path / "folder.csv")
