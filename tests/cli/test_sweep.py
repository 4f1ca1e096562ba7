"""`learndyn sweep` and `learndyn run PAPER --all`."""

import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import xarray as xr

import learndyn as ld
from learndyn.cli.axes import axes_of
from learndyn.studies import registry
from learndyn.studies.evaluation import Evaluation

PARAMS = registry.find("bocchi2026escape/fig2").PRESETS["quick"]
TINY = ["--set", "N=40", "--set", "alpha=20", "--set", "points=5", "--set", "runs=4"]


def learndyn(*arguments, cwd):
    words = [sys.executable, "-c", "from learndyn.cli import main; main()", *arguments]
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd)


def test_axes_are_read_as_the_parameters_are():
    axes = axes_of(["epsilon=1e-4:1e-1:4:log", "key=0:5", "points=5,9", "spacing=0:1:3"], PARAMS)
    assert axes["epsilon"] == [1e-4, 1e-3, 1e-2, 1e-1] and axes["key"] == [0, 1, 2, 3, 4]
    assert axes["points"] == [5, 9] and axes["spacing"] == [0.0, 0.5, 1.0]
    assert all(type(x) is float for x in axes["spacing"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("epsilon", "--axis: got 'epsilon'; allowed is name=a,b,c"),
        ("epsilon=", "--axis: got 'epsilon='"),
        ("epsilon=1:2:3:4:5", "--axis: got 'epsilon=1:2:3:4:5'"),
        ("epsilon=1:2:3:lin", "--axis: got"),
        ("epsilon=-1:2:3:log", "--axis: got"),
        (
            "key=0:1000000000",
            "--axis: got 'key=0:1000000000' with 1,000,000,000 values",
        ),
        (
            "epsilon=0:1:1000000000",
            "--axis: got 'epsilon=0:1:1000000000' with 1,000,000,000 values",
        ),
        ("epsilon=0:1:-3", "--axis: got 'epsilon=0:1:-3'; allowed is name=a,b,c"),
        ("key=0.5", "--axis key: got '0.5'; allowed is an integer"),
        ("eta=1", "--axis eta: no such parameter; allowed are p, p_star"),
    ],
)
def test_bad_axes_are_one_line(text, said):
    with pytest.raises(ValueError) as error:
        axes_of([text], PARAMS)
    assert str(error.value).startswith(said)


def test_an_evaluation_is_the_studys_own_compute():
    function = Evaluation("bocchi2026escape/fig1", "quick", {"N": "40"})
    assert function.params().N == 40
    assert function.version() == Evaluation("bocchi2026escape/fig1", "paper", {}).version()
    with pytest.raises(ValueError, match="study: got 'nothing'"):
        Evaluation("nothing", "quick", {}).params()


@pytest.mark.slow
def test_a_sweep_from_the_command_line(tmp_path):
    study = ["sweep", "bocchi2026escape/fig1", *TINY, "--store", "s.zarr", "--workers", "1"]
    done = learndyn(*study, "--axis", "eta=0.05,0.1", cwd=tmp_path)
    assert done.returncode == 0 and "s.zarr: 2 finished" in done.stdout
    data = ld.open_sweep(tmp_path / "s.zarr")
    params = Evaluation("bocchi2026escape/fig1", "quick", dict(w.split("=") for w in TINY[1::2]))
    alone = params(eta=0.1)
    assert np.array_equal(data["theory__error"].sel(eta=0.1), alone["theory__error"])
    assert learndyn("sweep", "--status", "s.zarr", cwd=tmp_path).returncode == 0
    assert learndyn("sweep", "--resume", "s.zarr", cwd=tmp_path).returncode == 0
    other = learndyn(*study, "--axis", "eta=0.05,0.2", cwd=tmp_path)
    assert other.returncode == 2 and "eta[1] (0.1 against 0.2)" in other.stderr
    failing = [*study[:-3], "f.zarr", "--workers", "1", "--axis", "eta=0.1,-1"]
    failed = learndyn(*failing, cwd=tmp_path)
    assert failed.returncode == 1 and "failed at eta=-1.0: ValueError" in failed.stdout
    for words in (["sweep"], ["sweep", "--resume", "nothing"], ["sweep", "a/b", "--store", "x"]):
        bad = learndyn(*words, cwd=tmp_path)
        assert bad.returncode == 2 and len(bad.stderr.splitlines()) == 1, bad.stderr


@pytest.mark.slow
def test_an_interrupted_sweep_says_how_to_go_on(tmp_path):
    words = ["sweep", "bocchi2026escape/fig1", *TINY, "--store", "s.zarr", "--workers", "1"]
    code = "from learndyn.cli import main; main()"
    process = subprocess.Popen(
        [sys.executable, "-c", code, *words, "--axis", "key=0:400"],
        cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    while not (tmp_path / "s.zarr" / "point_status").exists():
        assert process.poll() is None
        time.sleep(0.2)
    process.send_signal(signal.SIGINT)
    assert "continue with: learndyn sweep --resume s.zarr" in process.communicate(timeout=300)[1]
    assert process.returncode == 130


@pytest.mark.slow
def test_all_studies_of_a_paper(tmp_path, monkeypatch):
    from learndyn.cli import run_all

    two = ["bocchi2026escape/equations", "bocchi2026escape/nothing", "other/fig1"]
    monkeypatch.setattr(registry, "names", lambda: iter(two))
    code = run_all.run_all("bocchi2026escape", str(tmp_path), "2", ["--preset", "quick"])
    assert code == 1 and (tmp_path / "equations" / "claims.json").exists()
    assert "bocchi2026escape/equations" in (tmp_path / "report.html").read_text("utf-8")
    with pytest.raises(ValueError, match="paper: got 'x'; allowed are bocchi2026escape, other"):
        run_all.run_all("x", str(tmp_path), "", [])


@pytest.mark.slow
def test_a_sweep_computes_the_parts_of_a_study(tmp_path):
    """Every part has a folder, and together they are the study."""
    study, options = "bocchi2026escape/escape", ["--set", "starts=8"]
    parts = ["--parts", "widths", "--store", "parts.zarr", "--workers", "1", "--out", "parts"]
    done = learndyn("sweep", study, *options, *parts, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 finished" in done.stdout and "learndyn join" in done.stdout
    folders = sorted(str(path) for path in (tmp_path / "parts").iterdir())
    joined = learndyn("join", *folders, "--out", "joined", cwd=tmp_path)
    whole = learndyn("run", study, *options, "--out", "whole", cwd=tmp_path)
    assert whole.returncode == joined.returncode < 2, whole.stderr  # few starts: a claim may fail
    ours, theirs = (ld.load(tmp_path / name / "data.nc") for name in ("joined", "whole"))
    xr.testing.assert_identical(ours, theirs)
