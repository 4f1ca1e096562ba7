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
from learndyn import cli
from learndyn.cli.app import app
from learndyn.cli.judging import FILES
from learndyn.studies import registry, sources, times
from learndyn.studies.claims import Tolerance, claim

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


FIG1, FIG5 = "bocchi2026escape/fig1", "bocchi2026escape/fig5"
KEYS = ["--axis", "key=1:3", "--store", "s"]
MINUTES = [word.replace("N=40", "N=1000000") for word in TINY]


def command(*arguments, first=""):
    """The command line, after what the child does first (a fork with threads may not do it)."""
    return [sys.executable, "-c", f"{first}\nfrom learndyn.cli import main; main()", *arguments]


def learndyn(*arguments, first="", cwd=None):
    given = command(*arguments, first=first)
    return subprocess.run(given, capture_output=True, text=True, cwd=cwd)


@pytest.fixture
def ran(capsys):
    """Runs a command in this process, which has imported everything: exit code, output, errors."""

    def run(*arguments):
        code = app(list(arguments), standalone_mode=False) or 0
        return code, *capsys.readouterr()

    return run


def refusal(*arguments):
    """The line that a command ends with, without a process of its own: an import takes seconds."""
    with pytest.raises(Exception) as error:
        app(list(arguments), standalone_mode=False)
    return cli._one_line(error.value)


def test_list_is_one_line_a_study(ran):
    _, out, _ = ran("list")
    lines = out.splitlines()
    assert [line.split()[0] for line in lines] == list(registry.names())
    assert any(line.startswith("bocchi2026escape/fig1 ") for line in lines)


def test_list_takes_a_word_and_a_paper(ran):
    _, out, _ = ran("list", "CATAPULT", "--paper", "zhu2024quadratic")
    assert out and all(line.startswith("zhu2024quadratic/") for line in out.splitlines())
    assert all("catapult" in line.casefold() for line in out.splitlines())
    rows = json.loads(ran("list", "--paper", "curvature2020linear", "--json")[1])
    assert {row["paper"] for row in rows} == {"curvature2020linear"}
    assert [row["title"] for row in rows if row["name"] == "curvature2020linear/fig1"] == [
        registry.title("curvature2020linear/fig1")
    ]
    assert "got 'nosuchword'; allowed" in refusal("list", "nosuchword")
    assert "--paper: got 'nobody'" in refusal("list", "--paper", "nobody")


def test_list_groups_by_paper_on_a_terminal(ran, monkeypatch):
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    _, out, _ = ran("list", "--paper", "curvature2020linear")
    assert out.splitlines()[:2] == ["", "curvature2020linear"]
    assert any(line.startswith("  fig1 ") for line in out.splitlines())


def test_characters_that_an_output_cannot_show_are_question_marks(monkeypatch, ran):
    """Pipes of Windows have 256 characters, and those of a locale without UTF-8 fewer."""
    titles = [registry.title(name) for name in registry.names()]
    monkeypatch.setenv("PYTHONIOENCODING", "ascii")
    found = learndyn("list")
    assert found.returncode == 0 and not found.stderr
    lines = [line.partition("  ")[2] for line in found.stdout.splitlines()]
    assert lines == [title.encode("ascii", "replace").decode() for title in titles] != titles
    text = ran("list", "--json")[1]  # for programs, nothing is lost
    assert text.isascii() and [row["title"] for row in json.loads(text)] == titles


def test_cite(ran):
    code, out, _ = ran("cite", "bocchi2026escape")
    assert code == 0 and "@article{bocchi2026escape" in out
    assert "node perturbation" in ran("cite", "hiratani2022perturbation")[1]
    assert "allowed are bocchi2026escape" in refusal("cite", "nobody")


# Whoever imports one of these fails: what only reads takes a fraction of a second.
LIGHT = "import sys; sys.modules.update(dict.fromkeys(['jax', 'xarray', 'matplotlib', 'scipy']))"


def test_what_only_reads_imports_no_engine():
    for arguments in (["list"], ["cite", "saad1995online"], ["--help"], [], ["--version"]):
        found = learndyn(*arguments, first=LIGHT)
        assert found.returncode == 0 and found.stdout.strip() and not found.stderr, arguments
    assert found.stdout == f"learndyn {ld.__version__}\n"


def test_the_package_is_the_command_too():
    words = [sys.executable, "-m", "learndyn", "--version"]
    assert subprocess.check_output(words, text=True) == f"learndyn {ld.__version__}\n"


def test_show_says_what_a_run_would_do(capsys):
    app(["show", FIG1], standalone_mode=False)
    found = capsys.readouterr()
    assert not found.err
    assert found.out.startswith("bocchi2026escape/fig1  Order parameters of simulated")
    assert re.search(r"\n +quick +paper\n", found.out)
    assert re.search(r"\n  N +1000 +10000\n", found.out)
    said = "Time: quick under 1 min on two cores; paper about 20 min on one core (estimated)\n"
    assert said in found.out and "Data: quick reads no" in found.out
    assert found.out.count("(Fig. 1") >= 2


def test_show_lists_the_table_of_claims(capsys, monkeypatch):
    within = Tolerance(0.1, "Student's t, {count} runs")
    monkeypatch.setattr(registry.find(FIG1), "CLAIMS", {
        "a": claim("{panel}: the loss falls", "Fig. {n}", kind="finding", within=within),
        "b": claim("the norm", "Eq. 1", because="rounding"),
    })  # fmt: skip
    app(["show", FIG1], standalone_mode=False)
    rows = capsys.readouterr().out.split("Claims\n")[1].splitlines()
    assert rows == [
        "  …: the loss falls (Fig. …, finding); within 0.1; because: Student's t, … runs",
        "  the norm (Eq. 1); because: rounding",
    ]


def test_times_and_data_of_studies():
    assert set(times.PAPER) <= set(registry.names())
    assert times.of_paper("curvature2020linear/figS1") == "not measured"
    assert "cifar10" in sources.readers("zhu2024linearity/fig2_2")
    assert sources.readers("bocchi2026escape/fig1") == []


SMALL = ["--set", "sizes=4,6", "--set", "factor=2"]  # a study without anything to compile


@pytest.mark.parametrize(
    ("study", "options", "changed"),
    [
        (FIG5, SMALL, {"sizes": [[5, 10, 15], [4, 6]], "factor": [1.5, 2.0]}),
        pytest.param(FIG1, TINY, {"N": [1000, 40], "runs": [96, 4]}, marks=pytest.mark.slow),
    ],
)
def test_run_writes_four_files(tmp_path, monkeypatch, ran, study, options, changed):
    monkeypatch.chdir(tmp_path)
    code, out, errors = ran("run", study, *options, "--key", "4")
    assert code in (0, 1) and not errors, errors
    folder = tmp_path / "results" / study
    assert sorted(p.name for p in folder.iterdir()) == [
        "claims.json",
        "data.nc",
        "figure.png",
        "figure.svg",
    ]
    result = json.loads((folder / "claims.json").read_text("utf-8"))
    claims = result["claims"]
    assert result["study"] == study and result["preset"] == "quick"
    assert changed.items() <= result["differs"].items() and result["params"]["key"] == 4
    assert (code == 1) == any(c["status"] == "fails" for c in claims)
    data = ld.load(folder / "data.nc")
    params = json.loads(data.attrs["params"])
    assert all(params[name] == now for name, (_, now) in changed.items()) and params["key"] == 4
    assert "statement" in out and str(claims[0]["source"]) in out


def test_options_reach_the_study(tmp_path, monkeypatch):
    def compute(params, report):
        raise ValueError("here")

    monkeypatch.setattr(registry.find(FIG1), "compute", compute)
    line = refusal("run", FIG1, *TINY, "--key", "4", "--out", str(tmp_path))
    changed = "eta=0.1, N=40, alpha=20.0, points=5, runs=4, key=4"
    assert line.startswith(f"--set: got {changed}, with which the study fails (here)")


TWICE = ["--set", "eta=0.1", "--set", "eta=0.2"]
BOTH = ["--set", "eta=0.1", "--axis", "eta=0.1,0.2"]
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
    (["run", "bocchi2026escape/fig5", "--set", "factor=1e9"], "--set: got factor=1000000000.0, w"),
    (["run", "bocchi2026escape/fig5", "--set", "factor=nan"], "--set factor: got 'nan'; allowed"),
    (["run", "bocchi2026escape/fig5", "--set", "factor=inf"], "--set factor: got 'inf'; allowed"),
    (["run", "bocchi2026escape/fig5", "--set", "factor="], "--set factor: got ''; allowed is a"),
    (
        ["run", "curvature2020linear/fig3", "--set", "snr_of="],
        "--set snr_of: got ''; allowed is text",
    ),
    (
        ["run", "bocchi2026escape/fig1", "--key", "3", "--set", "key=4"],
        "--set key: got --key as well",
    ),
    (
        ["run", "bocchi2026escape/fig1", "--runs", "5", "--set", "runs=6"],
        "--set runs: got --runs as well",
    ),
    (
        ["run", "bocchi2026escape/fig1", *TWICE],
        "--set eta: got '0.1' and '0.2'; allowed is one value",
    ),
    (["replicate", "bocchi2026escape/fig1", *TWICE], "--set eta: got '0.1' and '0.2'; allowed"),
    (["replicate", "bocchi2026escape/fig1", "--set", "key=4"], "--set key: got 4; allowed are --f"),
    (["sweep", "bocchi2026escape/fig1", "--store", "s", *TWICE], "--set eta: got '0.1' and '0.2'"),
    (
        ["sweep", "bocchi2026escape/fig1", "--store", "s", *BOTH],
        "--set eta: got --axis eta as well",
    ),
]


def test_bad_input_is_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for arguments, said in BAD:
        line = refusal(*arguments)
        assert said in line and "\n" not in line, line
    assert list(tmp_path.rglob("*.nc")) == []


def test_bad_input_is_exit_code_2(tmp_path):
    """What `refusal` looks at is what is printed."""
    found = learndyn(*BAD[0][0], cwd=tmp_path)
    assert found.returncode == 2 and not found.stdout
    assert found.stderr.startswith(f"learndyn: {BAD[0][1]}") and found.stderr.count("\n") == 1


HUNG = 300  # seconds
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
    arguments = ["run", "bocchi2026escape/fig1", *MINUTES, "--out", str(tmp_path)]
    given = command(*arguments, first=first)
    found = subprocess.run(given, capture_output=True, text=True, timeout=HUNG)
    assert found.returncode == 130
    assert re.fullmatch(r"learndyn: interrupted.*\n", found.stderr), found.stderr
    assert list(tmp_path.iterdir()) == []


def test_interruption_leaves_nothing_half_written(tmp_path):
    ours, theirs = os.openpty()  # a terminal, which is shown the bar
    arguments = ["run", "bocchi2026escape/fig1", *MINUTES, "--out", str(tmp_path)]
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
        _, said = work.communicate(timeout=HUNG)
    finally:
        work.kill()
        os.close(ours)
    assert work.returncode == 130
    assert "interrupted" in said and "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def wait_for_progress(terminal, limit=HUNG):
    """Reads until the bar has moved: compiled work is under way."""
    shown, end = "", time.monotonic() + limit
    while not re.search(r"[1-9]\d*%", shown):
        assert time.monotonic() < end, shown
        if select.select([terminal], [], [], 1)[0]:
            shown += os.read(terminal, 65536).decode(errors="replace")


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, capsys):
    (tmp_path / "file").write_text("")
    line = refusal("run", FIG1, "--out", str(tmp_path / "file" / "in"))
    assert line.startswith("--out: got") and "\n" not in line
    assert not capsys.readouterr().out  # the work begins with a line that names the parameters


def test_a_reader_that_has_seen_enough_ends_the_list():
    line = f"{sys.executable} -c 'from learndyn.cli import main; main()' list | head -n 1"
    found = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert len(found.stdout.splitlines()) == 1 and not found.stderr


def test_a_closed_output_is_one_line():
    found = subprocess.run(
        ["sh", "-c", '"$@" >&-', "sh", *command("list")], capture_output=True, text=True
    )
    assert found.returncode == 2 and found.stderr.startswith(
        "learndyn: output: got a closed stream;"
    )
    assert found.stderr.count("\n") == 1


def test_a_platform_that_is_not_there_is_one_line(monkeypatch):
    monkeypatch.setenv("JAX_PLATFORMS", "nonsense")
    line = "JAX_PLATFORMS: got 'nonsense'; allowed is a platform that JAX finds on this computer"
    found = learndyn("run", FIG5)
    assert found.returncode == 2 and found.stderr.count("\n") == 1 and not found.stdout
    assert found.stderr.startswith(f"learndyn: {line}")

    def fail():
        raise AssertionError  # what JAX raises for a platform that it knows and that is not here

    monkeypatch.setattr("jax.devices", fail)
    for arguments in (["run", FIG5], ["replicate", FIG5], ["sweep", FIG5, *KEYS]):
        assert refusal(*arguments).startswith(line)


def test_too_little_memory_is_one_line():
    for error in (MemoryError("Unable to allocate 8. GiB for an array"), MemoryError()):
        line = cli._one_line(error)
        assert re.match(r"memory: (Unable to allocate 8. GiB for an array|there is not e)", line)


def test_errors_are_one_line_without_assertions_and_docstrings(monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    found = learndyn("cite", "nobody")
    assert found.returncode == 2 and found.stderr.count("\n") == 1


@pytest.mark.slow
def test_a_study_runs_without_assertions_and_docstrings(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONOPTIMIZE", "2")
    shown = learndyn("show", FIG5)
    assert shown.returncode == 0 and not shown.stderr and "None" not in shown.stdout
    found = learndyn("run", FIG5, cwd=tmp_path)
    assert found.returncode == 0 and not found.stderr
    bad = learndyn("run", FIG5, "--set", "factor=-1", cwd=tmp_path)
    assert bad.returncode == 2 and bad.stderr.count("\n") == 1


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
    # Programs that are cut off would be kept for the next tests, which could not read them.
    first += "; import os; os.environ['JAX_ENABLE_COMPILATION_CACHE'] = 'false'"
    found = learndyn("run", "bocchi2026escape/fig1", *TINY, "--out", str(tmp_path), first=first)
    assert found.returncode == 2
    assert re.fullmatch(
        r"learndyn: path: got '.*' \(File too large\); allowed is .*\n", found.stderr
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == kept
    assert all(f"{tmp_path}/.{name}" not in found.stderr for name in FILES)
