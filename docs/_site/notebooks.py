"""Examples and pages as notebooks, with the pictures and results that the site shows."""

import ast
import base64
import itertools
import pathlib
import re
from collections.abc import Iterator

import jupytext
import nbformat
from nbformat.v4 import new_output

PAGES = ("start.md", "instruments.md", "formats.md", "spikes.md", "beside.md", "howto", "theories")
ROLE = re.compile(r"\{[a-z:]+\}`([^`<]+?)(?:\s*<[^>]*>)?`")
LINK = re.compile(r"(?<!!)\[([^]]+)\]\((?!https?:)[^)]*\)")
PICTURE = re.compile(r"!\[([^]]*)\]\(([^)]+)\)")
NEEDS = re.compile(r"<!-- needs: \w+ -->\n+")
INCLUDE = re.compile(
    r"```\{include\} (?P<path>\S+)\n"
    r':start-after: "(?P<after>.*)"\n:end-before: "(?P<before>.*)"\n```'
)
KERNEL = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}


def write(docs: pathlib.Path, folder: pathlib.Path) -> None:
    """Writes a notebook per example and per page with code, and the page that lists them."""
    folder.mkdir(parents=True, exist_ok=True)
    names: dict[str, list[tuple[str, str]]] = {"examples": [], "pages": []}
    for path in sorted((docs.parent / "examples").glob("*.py")):
        picture = docs / "figures" / "examples" / f"{path.stem}.png"
        names["examples"].append(_saved(of_example(path, picture), folder / "examples", path.stem))
    for path in pages(docs):
        name = path.relative_to(docs).with_suffix("").as_posix().replace("/", "_")
        names["pages"].append(_saved(of_page(path), folder / "pages", name))
    (folder / "index.md").write_text("\n".join(_index(names)) + "\n", "utf-8")


def pages(docs: pathlib.Path) -> list[pathlib.Path]:
    """The pages that become notebooks: those that show Python."""
    found = [docs / name for name in PAGES if name.endswith(".md")]
    found += [path for name in PAGES for path in sorted((docs / name).glob("*.md"))]
    return [path for path in found if "```python" in path.read_text("utf-8")]


def of_page(path: pathlib.Path) -> nbformat.NotebookNode:
    """A page; what a block prints, as the page shows it, is the output of its cell."""
    text = INCLUDE.sub(lambda found: _included(path, found), path.read_text("utf-8"))
    notebook = jupytext.reads(LINK.sub(r"\1", ROLE.sub(r"`\1`", NEEDS.sub("", text))), fmt="md")
    for code, after in itertools.pairwise(notebook.cells):
        shown = re.match(r"```text\n(.*?\n)```\n*", after.source + "\n", re.DOTALL)
        if code.cell_type == "code" and after.cell_type == "markdown" and shown:
            code.outputs = [new_output("stream", text=shown[1])]
            after.source = (after.source + "\n")[shown.end() :].strip()
    notebook.cells = [cell for cell in notebook.cells if cell.source]
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            _attach(cell, path.parent)
    return notebook


def _included(path: pathlib.Path, found: re.Match[str]) -> str:
    """The part of another file that a page includes."""
    text = (path.parent / found["path"]).read_text("utf-8")
    return text.split(found["after"] + "\n", 1)[1].split(found["before"], 1)[0].strip()


def _attach(cell: nbformat.NotebookNode, folder: pathlib.Path) -> None:
    """Puts the pictures that a cell shows into it."""
    shown = {pathlib.Path(each[1]).name: folder / each[1] for each in PICTURE.findall(cell.source)}
    if shown:
        cell.attachments = {name: {"image/png": _encoded(each)} for name, each in shown.items()}
        named = lambda found: f"![{found[1]}](attachment:{pathlib.Path(found[2]).name})"
        cell.source = PICTURE.sub(named, cell.source)


def _encoded(picture: pathlib.Path) -> str:
    return base64.b64encode(picture.read_bytes()).decode()


def of_example(path: pathlib.Path, picture: pathlib.Path) -> nbformat.NotebookNode:
    """A script; its last cell calls `main`, and has the script's picture."""
    text = path.read_text("utf-8")
    about, *statements = ast.parse(text).body
    assert isinstance(about, ast.Expr)
    lines, cells = text.splitlines(), [_commented(ast.literal_eval(about.value))]
    starts = [about.end_lineno, *(_begin(each) - 1 for each in statements if _parts(each))]
    for first, last in zip(starts, [*starts[1:], None], strict=True):
        cells.append("# %%\n" + "\n".join(lines[first:last]).strip())
    cells[-1] = cells[-1].split('if __name__ == "__main__":')[0].strip()
    cells.append("# %%\n" + ("main()[0]" if picture.exists() else "main()"))
    notebook = jupytext.reads("\n\n".join(cells) + "\n", fmt="py:percent")
    if picture.exists():
        image = {"image/png": _encoded(picture)}
        notebook.cells[-1].outputs = [new_output("display_data", image)]
    return notebook


def _parts(statement: ast.stmt) -> bool:
    """Whether a statement begins a cell: a function or a class."""
    return isinstance(statement, ast.FunctionDef | ast.ClassDef)


def _begin(statement: ast.stmt) -> int:
    """The line of a statement, decorators included."""
    decorators = getattr(statement, "decorator_list", [])
    return min([statement.lineno, *(each.lineno for each in decorators)])


def _commented(text: str) -> str:
    title, _, rest = text.strip().partition("\n")
    rest = re.sub(r"^\s*python examples/.*\n", "", rest, flags=re.MULTILINE)
    return "\n".join(["# %% [markdown]", f"# # {title}", *(f"# {x}" for x in rest.splitlines())])


def _saved(notebook: nbformat.NotebookNode, folder: pathlib.Path, name: str) -> tuple[str, str]:
    """Writes a notebook; returns its name and its title."""
    folder.mkdir(parents=True, exist_ok=True)
    notebook.metadata = nbformat.from_dict(KERNEL)
    for number, cell in enumerate(notebook.cells):
        cell.id, cell.metadata = f"cell-{number}", {}
    nbformat.validate(notebook)
    nbformat.write(notebook, folder / f"{name}.ipynb")
    title = notebook.cells[0].source.partition("\n")[0].removeprefix("# ")
    return name, title.partition(":")[0].rstrip(".")


def _index(names: dict[str, list[tuple[str, str]]]) -> Iterator[str]:
    yield "# Notebooks\n\nThe examples and the pages of this site as notebooks to download, with"
    yield "the pictures and results shown here. They are written when the site is built."
    for title, found in names.items():
        yield f"\n## {title.capitalize()}\n"
        yield from (f"- {{download}}`{text} <{title}/{name}.ipynb>`" for name, text in found)
