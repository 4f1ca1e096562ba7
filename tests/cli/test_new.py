"""`learndyn new`, and packages of others: their studies and theories are found once installed."""

import importlib
import importlib.metadata
import pathlib
import runpy
import subprocess
import sys
import tomllib

import numpy as np
import pytest

import learndyn as ld
from learndyn import cli
from learndyn.cli.app import app
from learndyn.studies import hashing, papers, registry
from learndyn.theory import THEORIES
from learndyn.theory import registry as theories


def refusal(*arguments):
    with pytest.raises(Exception) as error:
        app(list(arguments), standalone_mode=False)
    return cli._one_line(error.value)


@pytest.fixture
def install(tmp_path, monkeypatch):
    """Puts a package on the path as pip does, with its entry points; forgets it afterwards."""

    def forget():
        for cached in (papers.packages, papers._folder, theories._add_installed):
            cached.cache_clear()
        importlib.invalidate_caches()

    def install(package, folder, entry_points):
        about = tmp_path / "site" / f"{package}-0.1.0.dist-info"
        about.mkdir(parents=True)
        (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1.0\n")
        lines = (f"[{group}]\n{entry}\n" for group, entry in entry_points)
        (about / "entry_points.txt").write_text("".join(lines))
        monkeypatch.syspath_prepend(str(folder))
        monkeypatch.syspath_prepend(str(about.parent))
        forget()

    before, modules = list(THEORIES), set(sys.modules)
    yield install
    THEORIES[:] = before
    for name in set(sys.modules) - modules:
        if name.startswith("smith2027"):
            del sys.modules[name]
    monkeypatch.undo()
    forget()


def made(tmp_path, capsys, *arguments):
    """What `learndyn new` writes: the package's folder, and its entry points."""
    app(["new", *arguments, "--out", str(tmp_path)], standalone_mode=False)
    said = capsys.readouterr().out
    root = tmp_path / arguments[1].split("/")[0]
    assert "test_" in said and "pip install -e" in said
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    found = [(g, f"{name} = {value}") for g, each in points.items() for name, value in each.items()]
    return root, found


def test_a_new_study_is_listed_runs_and_fails(tmp_path, capsys, install):
    root, points = made(tmp_path, capsys, "study", "smith2027width/fig1")
    install("smith2027width", root, points)
    app(["list"], standalone_mode=False)
    lines = capsys.readouterr().out.splitlines()
    assert "smith2027width/fig1  The title of the figure" in lines
    assert lines[0].startswith("biehl1993drifting/") and len(lines) == len(list(registry.names()))
    study = "smith2027width/fig1"
    app(["show", study], standalone_mode=False)
    assert "a sentence of the paper" in capsys.readouterr().out
    assert app(["run", study, "--out", str(tmp_path / "out")], standalone_mode=False) == 1
    said = capsys.readouterr().out
    assert "fails and is not listed: a sentence of the paper" in said
    test = runpy.run_path(str(root / "tests" / "test_fig1.py"))
    with pytest.raises(AssertionError, match="a sentence of the paper"):
        test["test_the_claims_hold"]()


def test_a_study_of_another_package_has_a_hash_of_its_own_files(tmp_path, capsys, install):
    root, points = made(tmp_path, capsys, "study", "smith2027width/fig1")
    made(tmp_path, capsys, "study", "smith2027width/fig2")
    folder = root / "smith2027width"
    (folder / "_model.py").write_text("SIZE = 3\n")
    text = (folder / "fig1.py").read_text()
    (folder / "fig1.py").write_text(f"{text}\nfrom ._model import SIZE\n")
    install("smith2027width", root, points)
    assert hashing.files_of("smith2027width/fig1") == ["_model.py", "fig1.py"]
    assert hashing.files_of("smith2027width/fig2") == ["fig2.py"]
    assert [n for n in registry.names() if n.startswith("smith")] == [
        "smith2027width/fig1", "smith2027width/fig2",
    ]  # fmt: skip
    assert not papers.is_ours("smith2027width")


THEORY = """
from learndyn.theory import Coverage, DeepLinearTheory

class Halved(DeepLinearTheory):
    name = "smith2027halved"

    @classmethod
    def covers(cls, system):
        if type(system.network).__name__ != "MLP":
            return Coverage("none", "the network is no MLP")
        return Coverage("exact", "an MLP")
"""


def system():
    problem = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.ones((2, 3))))
    return ld.System(problem, ld.MLP([3, 4, 2], "tanh"), ld.SGD(0.01))


def test_a_theory_of_another_package_covers_and_gives_its_reasons(tmp_path, install):
    with pytest.raises(ld.NoTheory) as before:
        ld.theory_of(system())
    assert "smith2027halved" not in str(before.value)
    (tmp_path / "smith2027theory.py").write_text(THEORY)
    point = "halved = smith2027theory:Halved"
    install("smith2027theory", tmp_path, [("learndyn.theories", point)])
    assert ld.theory_of(system()).name == "smith2027halved"
    other = ld.System(system().problem, ld.ResidualMLP([3, 4, 4, 2], "tanh"), system().rule)
    with pytest.raises(ld.NoTheory, match="smith2027halved: the network is no MLP"):
        ld.theory_of(other)


@pytest.mark.parametrize(
    ("group", "point", "said"),
    [
        ("learndyn.theories", "x = smith2027nothing:T", "theory 'x = smith2027nothing:T' is left"),
        ("learndyn.theories", "x = pathlib:Path", "theory 'x = pathlib:Path' is left out: "),
        ("learndyn.theories", "x = smith2027theory:Copy", "there is a theory of the name"),
        ("learndyn.studies", "x = smith2027nothing", "left out: there is no such package"),
        ("learndyn.studies", "saad1995online = pathlib", "there are studies of learndyn"),
    ],
)  # fmt: skip
def test_invalid_entry_points_are_left_out_with_a_warning(tmp_path, install, group, point, said):
    copy = "class Copy(DeepLinearTheory):\n    name = 'committee'\n"
    text = f"from learndyn.theory import DeepLinearTheory\n\n{copy}"
    (tmp_path / "smith2027theory.py").write_text(text)
    install("smith2027other", tmp_path, [(group, point)])
    with pytest.warns(UserWarning, match=said):
        everything = list(registry.names()) if "studies" in group else ld.theory.theories()
    assert everything and not any("smith" in str(each) for each in everything)


def test_a_new_theory_fails_until_it_covers_something(tmp_path, capsys, install):
    root, points = made(tmp_path, capsys, "theory", "smith2027mean")
    install("smith2027mean", root, points)
    with pytest.raises(ld.NoTheory, match=r"smith2027mean: smith2027mean/theory\.py is still"):
        ld.theory_of(system())
    test = runpy.run_path(str(root / "tests" / "test_theory.py"))
    with pytest.raises(AssertionError, match="still a skeleton"):
        test["test_it_covers_the_system"](system())


def test_existing_files_are_not_overwritten_and_names_are_checked(tmp_path, capsys):
    root, _ = made(tmp_path, capsys, "study", "smith2027width/fig1")
    (root / "pyproject.toml").write_text("mine")
    out = ["--out", str(tmp_path)]
    again = refusal("new", "study", "smith2027width/fig1", *out)
    assert "fig1.py exists; allowed is a name" in again
    app(["new", "study", "smith2027width/fig2", *out], standalone_mode=False)
    assert (root / "pyproject.toml").read_text() == "mine"
    for arguments, said in (
        (("probe", "x"), "kind: got 'probe'; allowed are study, theory"),
        (("study", "x"), "name: got 'x'; allowed is paper/figure, of lower-case"),
        (("study", "../x"), "name: got '../x'"),
        (("theory", "class"), "name: got 'class'; allowed is one word"),
        (("theory", "A b"), "name: got 'A b'"),
        (("study", "saad1995online/fig9"), "which is one of learndyn's; allowed is a name that no"),
    ):
        assert said in refusal("new", *arguments, *out)
    assert [path.name for path in tmp_path.iterdir()] == ["smith2027width"]


def test_a_theory_beside_a_study_says_which_entry_point_is_missing(tmp_path, capsys, install):
    root, _ = made(tmp_path, capsys, "study", "smith2027width/fig1")
    app(["new", "study", "smith2027width/fig2", "--out", str(tmp_path)], standalone_mode=False)
    assert "add to" not in capsys.readouterr().out  # the paper's entry point is there
    app(["new", "theory", "smith2027width", "--out", str(tmp_path)], standalone_mode=False)
    lines = capsys.readouterr().out.split("so that learndyn finds it:\n\n")[1].split("\n\n")[0]
    path = root / "pyproject.toml"
    path.write_text(f"{path.read_text()}\n{lines}\n")
    points = tomllib.loads(path.read_text())["project"]["entry-points"]
    pairs = [(g, f"{name} = {value}") for g, p in points.items() for name, value in p.items()]
    install("smith2027width", root, pairs)
    (root / "smith2027width" / "broken.py").write_text("TITLE = (")
    theirs = [name for name in registry.names() if name.startswith("smith")]
    assert theirs == ["smith2027width/fig1", "smith2027width/fig2"]  # theory.py is no study
    assert points["learndyn.theories"] == {"smith2027width": "smith2027width.theory:Theory"}
    assert points["learndyn.studies"] == {"smith2027width": "smith2027width"}


def test_skeletons_are_written_as_we_write(tmp_path, capsys):
    """The linter of this package has nothing to say about them."""
    made(tmp_path, capsys, "study", "smith2027width/fig1")
    made(tmp_path, capsys, "theory", "smith2027mean")
    config = ["--config", str(pathlib.Path(__file__).parents[2] / "pyproject.toml"), str(tmp_path)]
    for command in (["check", "--ignore=D,I"], ["format", "--check"]):
        ruff = [sys.executable, "-m", "ruff", *command, *config]
        found = subprocess.run(ruff, capture_output=True, text=True)
        assert not found.returncode, found.stdout + found.stderr
