"""Records: whole files, equal after a round trip, joined and parted."""

import numpy as np
import pytest

import learndyn as ld
from learndyn.records import join, part, schema, whole_file


@pytest.fixture(scope="module")
def pair():
    data = ld.TeacherStudent(ld.Isotropic(40), ld.Committee(1, "erf"))
    system = ld.System(data, ld.Committee(2, "erf"), ld.SGD(0.5))
    return ld.solve(system, [0, 1, 2]), ld.simulate(system, [0, 1, 2], runs=2)


def test_round_trip_is_identical(pair, tmp_path):
    for number, record in enumerate(pair):
        ld.save(record, tmp_path / f"{number}.nc")
        assert ld.load(tmp_path / f"{number}.nc").identical(record)


def test_joined_records_part_again(pair, tmp_path):
    joined = join(theory=pair[0], simulation=pair[1])
    ld.save(joined, tmp_path / "both.nc")
    again = ld.load(tmp_path / "both.nc")
    for name, record in zip(("theory", "simulation"), pair, strict=True):
        assert part(again, name).identical(record)


def test_records_of_different_times_can_be_joined(pair):
    other = pair[0].isel(time=[0, 2])
    joined = join(a=pair[0], b=other)
    assert part(joined, "a").equals(pair[0]) and part(joined, "b").equals(other)


def test_a_failed_write_leaves_nothing(tmp_path):
    (tmp_path / "kept.txt").write_text("old")
    with pytest.raises(RuntimeError), whole_file(tmp_path / "kept.txt") as path:
        path.write_text("half")
        raise RuntimeError
    assert [p.name for p in tmp_path.iterdir()] == ["kept.txt"]
    assert (tmp_path / "kept.txt").read_text() == "old"


def test_attributes_say_what_ran(pair):
    for record, engine in zip(pair, ("solve", "simulate"), strict=True):
        assert record.attrs["engine"] == engine
        assert record.attrs["wall_seconds"] > 0
        assert record.attrs["version_learndyn"] == ld.__version__
        assert all(isinstance(v, int | float | str | np.number) for v in record.attrs.values())


def test_a_version_that_is_not_known_loses_nothing(monkeypatch):
    def missing(name):
        raise schema.importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(schema.importlib.metadata, "version", missing)
    schema._version.cache_clear()
    try:
        assert schema.provenance()["version_learndyn"] == "unknown (not installed)"
    finally:
        schema._version.cache_clear()
