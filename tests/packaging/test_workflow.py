"""What the hosted runners do is what `make` does here."""

import importlib.util
import pathlib
import re
import tomllib

import yaml

ROOT = pathlib.Path(__file__).parents[2]
JOBS = yaml.safe_load((ROOT / ".github/workflows/tests.yml").read_text(encoding="utf-8"))["jobs"]


STEP = re.compile(r"make ([\w-]+)( PYTHON=python)?")


def test_every_step_is_a_make_target():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    called = set()
    for job in JOBS.values():
        for target in job.get("strategy", {}).get("matrix", {}).get("target", [""]):
            for step in job["steps"]:
                line = step.get("run", "make check").replace("${{ matrix.target }}", target)
                made = STEP.fullmatch(line)
                assert made, line
                called.add(made[1])
    assert called <= set(re.findall(r"^([\w-]+):", makefile, re.MULTILINE))
    assert {"check", "docs", "test", "test-all", "dist-newest", "dist-oldest"} <= called


def test_the_matrix_has_the_systems_and_the_promised_versions_of_python():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    promised = re.findall(r"Python :: (3\.\d+)'", str(project["classifiers"]))
    for name in ("test", "archives"):
        matrix = JOBS[name]["strategy"]["matrix"]
        assert matrix["python"] == promised
        systems = {system.split("-")[0] for system in matrix["os"]}
        assert systems == {"ubuntu", "macos", "windows"}


def test_the_lines_that_archives_are_tried_with_are_found():
    path = ROOT / "tests/packaging/try_archive.py"
    spec = importlib.util.spec_from_file_location("try_archive", path)
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    lines = script.ten_lines().strip()
    assert lines.startswith("import") and "ld.compare(theory, runs).verdict" in lines
    compile(lines + script.AGREES, "README.md", "exec")


def test_the_longer_tests_are_there():
    for line in (ROOT / "tests/long.txt").read_text(encoding="utf-8").splitlines():
        path, of_a_file, name = line.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert not of_a_file or f"def {name.partition('[')[0]}(" in text, line
