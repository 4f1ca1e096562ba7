"""The examples on the README and the pages of docs/ run as they stand."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest

README = pathlib.Path(__file__).parents[1] / "README.md"
FOLDERS = ("docs", "docs/theories", "docs/howto")
DOCS = [
    path.relative_to(README.parent)
    for folder in FOLDERS
    for path in sorted(README.parent.glob(f"{folder}/*.md"))
]


def test_the_ten_lines_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    names: dict = {}
    exec(compile(blocks[0], "README.md", "exec"), names)
    assert capsys.readouterr().out.strip().startswith("agrees")
    assert (tmp_path / "learning.png").stat().st_size > 10_000
    reason = names["ld"].compare(names["theory"], names["runs"]).reason
    blank = lambda text: re.sub(r"[\d.]+", "#", text)  # machines differ in the last digits
    assert len(blocks) == 1 and blank(f"\n    {reason}\n") in blank(README.read_text())


def test_the_page_on_coverage_runs():
    page = (README.parent / "docs" / "coverage.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict = {}
    exec(compile(block, "coverage.md", "exec"), names)
    assert names["record"]["test_accuracy"].values[0, -1] > 0.85


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", *map(str, DOCS)])
def test_every_file_that_a_page_names_is_there(page):
    path = README.parent / page
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        # Pages that are written from the code are checked in the built site.
        if "://" not in target and "generated/" not in target:
            assert (path.parent / target).exists(), target


def test_every_source_file_that_a_page_names_is_there():
    root = README.parent
    ours = [path for folder in ("src", "tests", "benchmarks", "examples") for path in
            (root / folder).rglob("*.py")]  # fmt: skip
    ends = tuple(f"/{path.relative_to(root).as_posix()}" for path in ours)
    theirs = {"_src/stax/linear.py", "_src/predict.py", "pyhessian/hessian.py"}
    theirs |= {"example_eigenvalues.py"}
    for page in ("README.md", "CONTRIBUTING.md", *DOCS):
        named = set(re.findall(r"`([\w./]+\.py)(?:::\w+)?`", (root / page).read_text("utf-8")))
        for name in named - theirs:
            assert any(end.endswith(f"/{name}") for end in ends), f"{page}: {name}"


def test_the_page_on_instruments_runs(capsys):
    page = (README.parent / "docs" / "instruments.md").read_text()
    first, loop = re.findall(r"```python\n(.*?)```", page, flags=re.DOTALL)
    names: dict = {}
    exec(compile(first, "instruments.md", "exec"), names)
    exec(compile(loop, "instruments.md", "exec"), names)
    record = names["record"]
    assert record.sizes["time"] == 301 and np.all(record["loss"] == 1)
    assert record["critical_rate"].dropna("time")["step"].values.tolist() == [0, 100, 200, 300]
    rate, sharpness = float(names["rate"]), names["top"].values[0]
    assert abs(rate * sharpness - 2) < 1e-4 and names["kernel"].shape == (20, 3, 20, 3)
    assert "relu" in capsys.readouterr().out


LIBRARIES = {"PyTorch": "torch", "Flax linen": "flax", "Flax nnx": "flax", "Haiku": "haiku"}


@pytest.mark.filterwarnings("ignore")  # half precision, and what other libraries warn about
def test_the_page_on_formats_runs(capsys):
    """The sections on libraries that are not installed are left out."""
    page = (README.parent / "docs" / "formats.md").read_text()
    names: dict = {}
    for section in page.split("\n## ")[1:]:
        title, _, text = section.partition("\n")
        if importlib.util.find_spec(LIBRARIES.get(title, "learndyn")) is not None:
            (block,) = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
            exec(compile(block, f"formats.md, {title}", "exec"), names)
    assert names["sharpness"] > 0 and 0 < float(names["rate"]) < np.inf
    whole = names["ld"].hessian_top(
        names["module"], names["inputs"], names["targets"], loss=names["log_cosh"], k=3
    )
    np.testing.assert_allclose(names["top"].values, whole.values, rtol=1e-4)


def test_the_page_on_spikes_runs():
    page = (README.parent / "docs" / "spikes.md").read_text()
    names: dict = {}
    blocks = re.findall(r"(<!-- needs: torch -->\n+)?```python\n(.*?)```", page, flags=re.DOTALL)
    assert any(needs for needs, _ in blocks)
    for needs, block in blocks:
        if not needs or importlib.util.find_spec("torch"):
            exec(compile(block, "spikes.md", "exec"), names)
    by_recorder = names["ld"].analysis.find_catapults(names["recorder"].record())
    assert by_recorder.steps_above is not None and names["found"].diverged_at is None
