"""Every Python block of docs/ runs as it stands, and prints what the page says that it prints."""

import contextlib
import importlib.util
import io
import pathlib
import re

import pytest

DOCS = pathlib.Path(__file__).parents[1] / "docs"
# Run by tests of their own, which also look at the results.
ELSEWHERE = {"coverage.md", "formats.md", "instruments.md", "spikes.md", "sweeps.md"}
SLOW = {
    "beside.md", "howto/add.md", "howto/figures.md", "howto/frameworks.md",
    "howto/phase_diagram.md", "howto/predict.md", "theories/mixtures.md",
}  # fmt: skip
# A block, the library that it needs, if any, and the text after it, which is what it prints.
BLOCK = re.compile(
    r"(?:<!-- needs: (?P<needs>\w+) -->\n+)?```python\n(?P<code>.*?)```\n"
    r"(?:\n```text\n(?P<printed>.*?)```)?",
    re.DOTALL,
)
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?")


def pages():
    """The pages with blocks that run here, the slow ones marked."""
    found = []
    written = ("generated", "_build", "results", "_site")
    for path in sorted(DOCS.rglob("*.md")):
        name = path.relative_to(DOCS).as_posix()
        if name.split("/")[0] in written or name in ELSEWHERE:
            continue
        if "```python" in path.read_text("utf-8"):
            found.append(pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []))
    return found


def check(printed: str, promised: str) -> None:
    """What a block printed is what the page shows, with numbers to 2 %: machines differ.

    "…" at the end of what the page shows stands for the rest.
    """
    got, wanted = printed.split(), promised.split()
    if wanted[-1:] == ["…"]:
        wanted = wanted[:-1]
        got = got[: len(wanted)]
    assert NUMBER.sub("#", " ".join(got)) == NUMBER.sub("#", " ".join(wanted))
    numbers = [[float(n) for n in NUMBER.findall(" ".join(text))] for text in (got, wanted)]
    assert numbers[0] == pytest.approx(numbers[1], rel=0.02, abs=1e-6), printed


def output(code, names: dict, fails: bool) -> str:
    """What a block prints, with the error that ends it where the page shows one."""
    out, error = io.StringIO(), ""
    with contextlib.redirect_stdout(out):
        try:
            exec(code, names)
        except ValueError as raised:
            if not fails:
                raise
            error = f"{type(raised).__name__}: {raised}"
    assert bool(error) == fails, "an error was promised"
    return out.getvalue() + error


@pytest.mark.parametrize("name", pages())
def test_a_page_runs(name, tmp_path, monkeypatch):
    text = (DOCS / name).read_text("utf-8")
    monkeypatch.chdir(tmp_path)
    names: dict = {"__name__": "page"}
    for block in BLOCK.finditer(text):
        code = compile(block["code"], name, "exec")
        if block["needs"] and not importlib.util.find_spec(block["needs"]):
            continue
        promised = block["printed"] or ""
        printed = output(code, names, promised.startswith(("ValueError: ", "NoTheory: ")))
        if block["printed"] is not None:
            check(printed, promised)


def test_the_pictures_of_pages_are_what_their_code_draws():
    shown = set()
    for page in pages():
        text = (DOCS / page.values[0]).read_text("utf-8")
        text += (DOCS.parent / "README.md").read_text("utf-8") * ("```{include}" in text)
        for picture in re.findall(r"\]\((?:\.\./)?figures/pages/([\w.]+)\)", text):
            assert f'savefig("{picture}")' in text, picture
            shown.add(picture)
    assert shown == {path.name for path in (DOCS / "figures" / "pages").iterdir()}


def test_what_a_page_promises_is_compared():
    check("R 0.5001 agrees\n", "R 0.5 agrees")
    check("R 0.5001 agrees\n", "R 0.5 …")
    for wrong in ("R 0.6 agrees", "R 0.5 deviates", "R 0.6 …", "R 0.5"):
        with pytest.raises(AssertionError):
            check("R 0.5001 agrees", wrong)
