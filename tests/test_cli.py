"""The command line as a person uses it."""

import json
import signal
import subprocess
import sys
import time

import pytest

import learndyn as ld
from learndyn.studies import registry

TINY = [
    "--set",
    "N=40",
    "--set",
    "alpha=20",
    "--set",
    "points=5",
    "--set",
    "eta=0.1",
    "--runs",
    "4",
]


def learndyn(*arguments, cwd=None):
    command = [sys.executable, "-c", "from learndyn.cli import main; main()", *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd)


def test_list_is_one_line_a_study():
    lines = learndyn("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry.names())
    assert any(line.startswith("bocchi2026escape/fig1 ") for line in lines)


def test_cite():
    said = learndyn("cite", "bocchi2026escape")
    assert said.returncode == 0 and "@article{bocchi2026escape" in said.stdout
    wrong = learndyn("cite", "nobody")
    assert wrong.returncode == 2 and "allowed are bocchi2026escape" in wrong.stderr


def test_run_writes_four_files(tmp_path):
    said = learndyn("run", "bocchi2026escape/fig1", *TINY, "--key", "3", cwd=tmp_path)
    assert said.returncode in (0, 1) and not said.stderr, said.stderr
    folder = tmp_path / "results" / "bocchi2026escape" / "fig1"
    assert sorted(p.name for p in folder.iterdir()) == [
        "claims.json",
        "data.nc",
        "figure.png",
        "figure.svg",
    ]
    claims = json.loads((folder / "claims.json").read_text())
    assert (said.returncode == 1) == any(c["status"] == "fails" for c in claims)
    data = ld.load(folder / "data.nc")
    params = json.loads(data.attrs["params"])
    assert params["N"] == 40 and params["runs"] == 4 and params["key"] == 3
    assert "statement" in said.stdout and str(claims[0]["source"]) in said.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "bocchi2026escape/fig99"], "study: got 'bocchi2026escape/fig99'; allowed"),
        (["run", "bocchi2026escape/fig1", "--preset", "huge"], "--preset: got 'huge'; allowed"),
        (["run", "bocchi2026escape/fig1", "--set", "q=1"], "--set q: no such parameter"),
        (["run", "bocchi2026escape/fig1", "--set", "N=many"], "--set N: got 'many'; allowed"),
        (["run", "bocchi2026escape/fig1", "--set", "N"], "--set: got 'N'; allowed is name=value"),
        (["run", "bocchi2026escape/fig1", "--runs", "many"], "--runs: got 'many'; allowed"),
        (["run"], "Missing argument"),
        (["draw"], "No such command 'draw'"),
        (["run", "bocchi2026escape/fig1", "--set", "N=-5"], "dim: got -5; allowed is a positive"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, said, tmp_path):
    found = learndyn(*arguments, cwd=tmp_path)
    assert found.returncode == 2
    assert said in found.stderr and len(found.stderr.strip().splitlines()) == 1


def test_interruption_leaves_nothing_half_written(tmp_path):
    command = [sys.executable, "-u", "-c", "from learndyn.cli import main; main()"]
    command += ["run", "bocchi2026escape/fig1", "--out", str(tmp_path), "--preset", "paper"]
    work = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert "preset paper" in work.stdout.readline()  # hours of work begin here
    time.sleep(8)
    work.send_signal(signal.SIGINT)
    _, said = work.communicate()
    assert work.returncode == 130
    assert "interrupted" in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    found = learndyn("run", "bocchi2026escape/fig1", "--out", str(tmp_path / "file" / "in"))
    assert found.returncode == 2 and "--out: got" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1
