"""The command line as a person uses it."""

import json
import os
import re
import select
import signal
import subprocess
import sys
import time

import pytest

import learndyn as ld
from learndyn.cli.run import FILES
from learndyn.studies import registry, sources, times

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


MINUTES = ["--set", "N=10000000"]


def command(*arguments, first=""):
    """The command line, after what the child does first (a fork with threads may not do it)."""
    return [sys.executable, "-c", f"{first}\nfrom learndyn.cli import main; main()", *arguments]


def learndyn(*arguments, first="", cwd=None):
    given = command(*arguments, first=first)
    return subprocess.run(given, capture_output=True, text=True, cwd=cwd)


# Imports once and forks for every case: an import takes longer than what is tested here.
MANY = """
import json, os, subprocess, sys, warnings
warnings.simplefilter("ignore")
from learndyn.cli import main
import learndyn.studies.summary, learndyn.studies.bocchi2026escape.fig1
found = []
for arguments in json.loads(sys.argv[1]):
    read, write = os.pipe()
    child = os.fork()
    if not child:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1), os.dup2(write, 2)
        sys.argv = ["learndyn", *arguments]
        main()
    os.close(write)
    with os.fdopen(read) as text:
        said = text.read()
    found.append([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), said])
print(json.dumps(found))
"""


def learndyn_each(cases, cwd):
    """Exit code and what was said of an error, for many command lines."""
    given = [sys.executable, "-c", MANY, json.dumps(cases)]
    done = subprocess.run(given, capture_output=True, text=True, cwd=cwd)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_list_is_one_line_a_study():
    lines = learndyn("list").stdout.splitlines()
    assert [line.split()[0] for line in lines] == list(registry.names())
    assert any(line.startswith("bocchi2026escape/fig1 ") for line in lines)


def test_cite():
    said = learndyn("cite", "bocchi2026escape")
    assert said.returncode == 0 and "@article{bocchi2026escape" in said.stdout
    assert "node perturbation" in learndyn("cite", "hiratani2022perturbation").stdout
    wrong = learndyn("cite", "nobody")
    assert wrong.returncode == 2 and "allowed are bocchi2026escape" in wrong.stderr


# Whoever imports one of these fails: what only reads takes a fraction of a second.
LIGHT = "import sys; sys.modules.update(dict.fromkeys(['jax', 'xarray', 'matplotlib', 'scipy']))"


def test_what_only_reads_imports_no_engine():
    for arguments in (["list"], ["cite", "saad1995online"], ["--help"], [], ["--version"]):
        found = learndyn(*arguments, first=LIGHT)
        assert found.returncode == 0 and found.stdout.strip() and not found.stderr, arguments
    assert found.stdout == f"learndyn {ld.__version__}\n"


def test_show_says_what_a_run_would_do():
    found = learndyn("show", "bocchi2026escape/fig1")
    assert found.returncode == 0 and not found.stderr
    assert found.stdout.startswith("bocchi2026escape/fig1  Order parameters of simulated")
    assert re.search(r"\n +quick +paper\n", found.stdout)
    assert re.search(r"\n  N +1000 +10000\n", found.stdout)
    said = "Time: quick under 1 min on two cores; paper about 20 min on one core (estimated)\n"
    assert said in found.stdout and "Data: quick reads no" in found.stdout
    assert found.stdout.count("(Fig. 1") >= 2


def test_claims_and_data_are_read_from_the_source():
    names = list(registry.names())
    claims = {study: sources.claims(study) for study in names}
    assert all(claims.values())
    every = [(said, source) for rows in claims.values() for said, source in rows]
    assert not any("{" in said + source for said, source in every)
    # Those of whose sentence nothing is known without data are few.
    assert sum(not any(map(str.isalpha, said)) for said, _ in every) < len(every) / 10
    assert set(times.PAPER) <= set(names)
    assert times.of_paper("curvature2020linear/figS1") == "not measured"
    assert "cifar10" in sources.readers("zhu2024linearity/fig2_2")
    assert sources.readers("bocchi2026escape/fig1") == []


def test_run_writes_four_files(tmp_path):
    said = learndyn("run", "bocchi2026escape/fig1", *TINY, "--key", "4", cwd=tmp_path)
    assert said.returncode in (0, 1) and not said.stderr, said.stderr
    folder = tmp_path / "results" / "bocchi2026escape" / "fig1"
    assert sorted(p.name for p in folder.iterdir()) == [
        "claims.json",
        "data.nc",
        "figure.png",
        "figure.svg",
    ]
    result = json.loads((folder / "claims.json").read_text("utf-8"))
    claims = result["claims"]
    assert result["study"] == "bocchi2026escape/fig1" and result["preset"] == "quick"
    assert result["differs"]["N"] == [1000, 40] and result["params"]["key"] == 4
    assert (said.returncode == 1) == any(c["status"] == "fails" for c in claims)
    data = ld.load(folder / "data.nc")
    params = json.loads(data.attrs["params"])
    assert params["N"] == 40 and params["runs"] == 4 and params["key"] == 4
    assert "statement" in said.stdout and str(claims[0]["source"]) in said.stdout


BAD = [
    (["run", "bocchi2026escape/fig99"], "study: got 'bocchi2026escape/fig99'; allowed"),
    (["run", "bocchi2026escape/fig1", "--preset", "huge"], "--preset: got 'huge'; allowed"),
    (["run", "bocchi2026escape/fig1", "--set", "q=1"], "--set q: no such parameter"),
    (["run", "bocchi2026escape/fig1", "--set", "N=many"], "--set N: got 'many'; allowed"),
    (["run", "bocchi2026escape/fig5", "--set", "sizes=,"], "--set sizes: got ','; allowed are"),
    (["run", "bocchi2026escape/fig1", "--set", "N"], "--set: got 'N'; allowed is name=value"),
    (["run", "bocchi2026escape/fig1", "--runs", "many"], "--runs: got 'many'; allowed"),
    (["run", "bocchi2026escape/fig1", "--runs", "0"], "--runs: got 0; allowed is a positive"),
    (["run", "bocchi2026escape/fig1", "--set", "runs=0"], "--set runs: got 0; allowed is a pos"),
    (["show", "nowhere/fig1"], "study: got 'nowhere/fig1'; allowed"),
    (["run", "bocchi2026escape/fig1", "--key", "-1"], "--key: got -1; allowed is an integer"),
    (["run", "bocchi2026escape/fig1", "--key", str(2**63)], "--key: got 9223372036854775808"),
    (["run", "bocchi2026escape/fig1", "--key", "1.5"], "--key: got '1.5'; allowed is an int"),
    (["run"], "Missing argument"),
    (["replicate", "bocchi2026escape/fig1", "--keys", "0"], "--keys: got 0; allowed is a positive"),
    (["results", "nowhere"], "folder: got 'nowhere'; allowed is a folder"),
    (["draw"], "No such command 'draw'"),
    (["run", "bocchi2026escape/fig1", "--set", "N=-5"], "--set: got N=-5, with which the"),
]


def test_bad_input_is_one_line_and_exit_code_2(tmp_path):
    found = learndyn_each([arguments for arguments, _ in BAD], tmp_path)
    for (arguments, said), (code, printed) in zip(BAD, found, strict=True):
        assert code == 2, arguments
        assert said in printed and len(printed.strip().splitlines()) == 1, printed
    assert len(found) == len(BAD) and list(tmp_path.rglob("*.nc")) == []


# A parent in the background ignores interruptions, and so would its child.
HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
# In the midst of the imports, once by itself and once in a callback of the collector, which
# swallows exceptions.
INTERRUPTIONS = {
    "importing": "import threading; threading.Timer(1, signal.raise_signal, [2]).start()",
    "collecting": """
import gc, sys
def interrupt(phase, info):
    if "xarray" in sys.modules:
        gc.callbacks.clear()
        signal.raise_signal(2)
gc.callbacks.append(interrupt)
""",
}


@pytest.mark.parametrize("when", INTERRUPTIONS)
def test_an_interruption_is_one_line_wherever_it_comes(tmp_path, when):
    first = f"{HEED}\n{INTERRUPTIONS[when]}"
    arguments = ["run", "bocchi2026escape/fig1", *TINY, *MINUTES, "--out", str(tmp_path)]
    given = command(*arguments, first=first)
    found = subprocess.run(given, capture_output=True, text=True, timeout=60)
    assert found.returncode == 130
    assert re.fullmatch(r"learndyn: interrupted.*\n", found.stderr), found.stderr
    assert list(tmp_path.iterdir()) == []


def test_interruption_leaves_nothing_half_written(tmp_path):
    ours, theirs = os.openpty()  # a terminal, which is shown the bar
    arguments = ["run", "bocchi2026escape/fig1", *TINY, *MINUTES, "--out", str(tmp_path)]
    work = subprocess.Popen(
        command(*arguments, first=HEED),
        stdout=theirs,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TERM": "xterm", "COLUMNS": "120"},
    )
    os.close(theirs)
    try:
        wait_for_progress(ours)
        work.send_signal(signal.SIGINT)
        _, said = work.communicate(timeout=60)
    finally:
        work.kill()
        os.close(ours)
    assert work.returncode == 130
    assert "interrupted" in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def wait_for_progress(terminal, limit=300):
    """Reads until the bar has moved: compiled work is under way."""
    shown, end = "", time.monotonic() + limit
    while not re.search(r"[1-9]\d*%", shown):
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "file").write_text("")
    found = learndyn("run", "bocchi2026escape/fig1", "--out", str(tmp_path / "file" / "in"))
    assert found.returncode == 2 and "--out: got" in found.stderr
    assert len(found.stderr.strip().splitlines()) == 1


def test_a_reader_that_has_seen_enough_ends_the_list():
    line = f"{sys.executable} -c 'from learndyn.cli import main; main()' list | head -n 1"
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert len(found.stdout.splitlines()) == 1 and not found.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_output_that_cannot_be_written_is_one_line():
    with open("/dev/full", "w") as full:
        found = subprocess.run(command("list"), stdout=full, stderr=subprocess.PIPE, text=True)
    assert found.returncode == 2
    assert found.stderr == "learndyn: output: No space left on device\n"


@pytest.mark.parametrize(
    ("limit", "kept"),
    [
        pytest.param(1000, [], marks=pytest.mark.slow),
        pytest.param(100_000, ["claims.json", "data.nc"], marks=pytest.mark.slow),
    ],
)
def test_a_full_disk_is_one_line_and_leaves_whole_files_only(tmp_path, limit, kept):
    """A largest file size stands for the disk: beyond it a write fails."""
    first = f"import resource; resource.setrlimit(resource.RLIMIT_FSIZE, ({limit}, {limit}))"
    found = learndyn("run", "bocchi2026escape/fig1", *TINY, "--out", str(tmp_path), first=first)
    assert found.returncode == 2
    assert re.fullmatch(
        r"learndyn: path: got '.*' \(File too large\); allowed is .*\n", found.stderr
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == kept
    assert all(f"{tmp_path}/.{name}" not in found.stderr for name in FILES)
