"""Parts of a study, joined, are what the whole study computes, and are judged once."""

import dataclasses
import itertools
import json
import types

import numpy as np
import pytest
import xarray as xr
from typer.testing import CliRunner

from learndyn.cli import join as joining
from learndyn.cli.app import app
from learndyn.cli.part import PartOf
from learndyn.plotting import panels
from learndyn.studies import hashing, parts, registry, results
from learndyn.studies.claims import claim


@dataclasses.dataclass(frozen=True)
class Params:
    tasks: tuple[str, ...] = ("rank2", "images", "rank4")
    seeds: int = 4
    first_seed: int = 0
    factor: float = 1.0
    key: int = 10


def compute(params, report):
    """By task and seed, with integers, texts, truths and curves of different lengths."""
    rows = []
    for task in params.tasks:
        of_task = []
        first = params.key + params.first_seed
        for seed in range(first, first + params.seeds):
            value = np.random.default_rng([len(task), seed]).standard_normal()
            length = 3 if task == "images" else 5
            of_task.append(
                xr.Dataset(
                    {
                        "value": params.factor * value,
                        "count": seed,
                        "title": f"{task} of seed {seed}",
                        "good": value > 0,
                        "curve": ("step", np.arange(length) + value),
                    }
                )
            )
        rows.append(xr.concat(of_task, "seed"))
    pad = lambda data: data.pad(step=(0, 5 - data.sizes["step"]))
    data = xr.concat([pad(row) for row in rows], xr.Variable("task", list(params.tasks)))
    data = data.isel(step=slice(3 if params.tasks == ("images",) else 5))
    raw = [task for task in params.tasks if task != "images"]
    data["raw_good"] = (("raw", "seed"), np.ones((len(raw), params.seeds), dtype=bool))
    return data.assign_coords(raw=raw).assign_attrs(factor=params.factor)


def check(data):
    mean = float(data["value"].mean())
    return [claim("the mean is small", "Eq. 1", because="chance").at_most(abs(mean), 10.0)]


def draw(data):
    figure, (axis,) = panels(1)
    axis.set_xlabel("nothing")
    return figure


@pytest.fixture
def study(monkeypatch):
    made = types.SimpleNamespace(TITLE="t", CLAIMS={}, PRESETS={"quick": Params()}, FAILS={})
    made.PARTS = {"tasks": "task", "seeds": "seed"}
    made.compute, made.check, made.draw = compute, check, draw
    monkeypatch.setattr(registry, "find", lambda name: made)
    for module in (results, hashing):
        monkeypatch.setattr(module, "source_hash", lambda name: "abc")
    return made


def learndyn(*arguments):
    return CliRunner().invoke(app, [str(a) for a in arguments])


def run_part(folder, *texts):
    options = [word for text in texts for word in ("--part", text)]
    found = learndyn("run", "a/b", *options, "--out", folder)
    assert found.exit_code == 0, found.output
    return folder


GRIDS = {
    "tasks": [["tasks=rank4"], ["tasks=images"], ["tasks=rank2"]],
    "seeds": [["seeds=2,3"], ["seeds=0,1"]],
    "both": [
        ["tasks=rank2", "seeds=0,1,2"],
        ["tasks=rank2", "seeds=3"],
        ["tasks=images,rank4", "seeds=0,1,2"],
        ["tasks=images,rank4", "seeds=3"],
    ],
}


@pytest.mark.parametrize("grid", GRIDS)
def test_joined_parts_are_the_whole(study, tmp_path, grid):
    folders = [run_part(tmp_path / f"{i}", *texts) for i, texts in enumerate(GRIDS[grid])]
    assert not (folders[0] / "claims.json").exists()  # parts are not judged
    found = learndyn("join", *folders, "--out", tmp_path / "joined")
    assert found.exit_code == 0, found.output
    whole = learndyn("run", "a/b", "--out", tmp_path / "whole")
    assert whole.exit_code == 0, whole.output
    joined, one = (xr.load_dataset(tmp_path / name / "data.nc") for name in ("joined", "whole"))
    xr.testing.assert_identical(joined, one)
    assert {n: v.dtype for n, v in joined.items()} == {n: v.dtype for n, v in one.items()}
    ours, theirs = (
        json.loads((tmp_path / name / "claims.json").read_text()) for name in ("joined", "whole")
    )
    assert ours["claims"] == theirs["claims"] and ours["differs"] == {}
    wanted = {"device", "commit", "part", "seconds"}
    assert len(ours["parts"]) == len(folders)
    assert all(wanted <= set(row) and row["device"] for row in ours["parts"])
    assert [row["part"] for row in ours["parts"]] == [
        json.loads((folder / "part.json").read_text())["part"] for folder in folders
    ]


def test_a_sweep_over_parts_writes_what_join_reads(study, tmp_path):
    function = PartOf("a/b", "quick", {"factor": "2"}, str(tmp_path))
    axes = function.axes(["tasks", "seeds"])
    assert axes == {"tasks": ["rank2", "images", "rank4"], "seeds": [0, 1, 2, 3]}
    for task, seed in itertools.product(*axes.values()):
        assert float(function(tasks=task, seeds=seed)["seconds"]) >= 0
    folders = sorted(tmp_path.glob("part_*"))
    assert len(folders) == 12
    found = learndyn("join", *folders, "--out", tmp_path / "joined")
    assert found.exit_code == 0, found.output
    whole = compute(Params(factor=2.0), None).drop_attrs()
    xr.testing.assert_equal(xr.load_dataset(tmp_path / "joined" / "data.nc"), whole)
    with pytest.raises(ValueError, match="--part factor: got a parameter that divides nothing"):
        function.axes(["factor"])


def test_values_that_no_part_has_are_named_as_a_difference(study, tmp_path):
    folder = run_part(tmp_path / "0", "tasks=rank4,rank2")
    found = learndyn("join", folder, "--out", tmp_path / "joined")
    assert found.exit_code == 0, found.output
    result = json.loads((tmp_path / "joined" / "claims.json").read_text())
    assert result["differs"] == {"tasks": [["rank2", "images", "rank4"], ["rank2", "rank4"]]}


@pytest.mark.parametrize(
    ("grid", "line"),
    [
        (
            [["tasks=rank2"], ["tasks=rank2,images"]],
            "parts: got tasks=rank2 twice; allowed is once",
        ),
        (
            [["tasks=rank2", "seeds=0,1"], ["tasks=images", "seeds=1,2"]],
            "in no part; allowed is once",
        ),
        ([["tasks=rank2"], ["seeds=1"]], "parts along different parameters"),
        ([["seeds=1,2"]], "parts: got seeds (1, 2); allowed are the first ones, without gaps"),
    ],
)
def test_parts_that_do_not_fit_are_one_line(study, tmp_path, grid, line):
    folders = [run_part(tmp_path / f"{i}", *texts) for i, texts in enumerate(grid)]
    found = learndyn("join", *folders, "--out", tmp_path / "joined")
    assert isinstance(found.exception, ValueError) and line in str(found.exception)
    assert "\n" not in str(found.exception)
    assert not (tmp_path / "joined" / "claims.json").exists()


def test_parts_of_different_runs_are_refused(study, tmp_path, monkeypatch):
    folders = [run_part(tmp_path / f"{i}", text) for i, text in enumerate(["seeds=0,1", "seeds=2"])]
    content = json.loads((folders[1] / "part.json").read_text())
    content["params"]["factor"] = 2.0
    (folders[1] / "part.json").write_text(json.dumps(content))
    found = learndyn("join", *folders, "--out", tmp_path / "joined")
    assert str(found.exception).startswith(f"{folders[1]}: got params ")
    monkeypatch.setattr(hashing, "source_hash", lambda name: "later")
    found = learndyn("join", folders[0], "--out", tmp_path / "joined")
    assert "another version of the study" in str(found.exception)
    found = learndyn("join", tmp_path, "--out", tmp_path / "joined")
    assert str(found.exception).startswith(f"{tmp_path}: got no part.json in it; allowed is")


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"study": ["a/b"]}, "unexpected content (study is ['a/b'])"),
        ({"preset": "huge"}, "--preset: got 'huge'; allowed are quick"),
        ({"params": "abc"}, "unexpected content (params is 'abc')"),
        ({"params": {"nothing": 3}}, "params: got 'nothing'; allowed are tasks, seeds"),
        ({"part": {}}, "unexpected content (part is {})"),
        ({"part": {"tasks": []}}, "unexpected content (part is {'tasks': []})"),
        ({"part": {"tasks": [["rank2"]]}}, "unexpected content (part is {'tasks': [['rank2']]})"),
        ({"part": {"tasks": ["mnist"]}}, "part tasks: got 'mnist'; allowed are values among rank2"),
        ({"part": {"factor": [1.0]}}, "--part factor: got a parameter that divides nothing"),
        ({"seconds": None}, "unexpected content (seconds is None)"),
    ],
)
def test_a_damaged_part_is_one_line(study, tmp_path, changed, line):
    folder = run_part(tmp_path / "0", "tasks=rank2,images,rank4")
    content = json.loads((folder / "part.json").read_text())
    (folder / "part.json").write_text(json.dumps(content | changed))
    found = learndyn("join", folder, "--out", tmp_path / "joined")
    assert isinstance(found.exception, ValueError) and line in str(found.exception)
    assert "\n" not in str(found.exception) and not (tmp_path / "joined").exists()


def test_a_join_does_not_replace_the_data_of_a_part(study, tmp_path):
    folder = run_part(tmp_path / "0", "tasks=rank2,images,rank4")
    before = (folder / "data.nc").read_bytes()
    (tmp_path / "link").symlink_to(folder)
    for out in (folder, tmp_path / "link", tmp_path / "0" / ".." / "0"):
        found = learndyn("join", folder, "--out", out)
        assert str(found.exception).startswith(f"--out: got '{out}', the folder of a part; allowed")
    assert (folder / "data.nc").read_bytes() == before
    found = learndyn(
        "sweep", "a/b", "--axis", "factor=1,2", "--store", tmp_path / "s", "--out", "x"
    )
    assert str(found.exception) == "--out: got 'x' without --parts; allowed are both, or neither"


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("factor=2", "--part factor: got a parameter that divides nothing; allowed: tasks, seeds"),
        ("tasks=mnist", "--part tasks: got 'mnist'; allowed are different values among rank2, im"),
        ("tasks=rank2,rank2", "--part tasks: got 'rank2,rank2'; allowed are different values"),
        ("seeds=0,2", "--part seeds: got '0,2'; allowed are neighbours among 0, 1, 2, 3"),
        ("seeds=one", "--part seeds: got 'one'; allowed is an integer"),
        ("seeds", "--part: got 'seeds'; allowed is name=value"),
    ],
)
def test_a_part_that_does_not_exist_is_one_line(study, text, line):
    with pytest.raises(ValueError) as error:
        parts.choose(study, Params(), joining.options.settings([text], "--part"))
    assert str(error.value).startswith(line)


def test_parts_that_studies_list_exist():
    """Parameters are tuples or the number of seeds; what is joined needs no more."""
    listed = 0
    for name in registry.names():
        study = registry.find(name)
        for parameter in parts.dimensions(study):
            params = study.PRESETS["quick"]
            if parameter == parts.SEEDS:
                assert params.first_seed == 0, name
            else:
                assert isinstance(getattr(params, parameter), tuple), (name, parameter)
            listed += 1
    assert listed >= 10
