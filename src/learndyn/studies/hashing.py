"""A hash of what a study computes, by which kept results and stores notice that it has changed."""

import ast
import functools
import hashlib
import io
import pathlib
import tokenize

from learndyn.studies import papers

# Constants of a study that only describe it, and change no number.
_WORDS = ("TITLE", "DIFFERS", "PARTS", "FAILS", "WEAK")
_DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef)


@functools.cache
def source_hash(study: str) -> str:
    """A hash of the code of a study and of the files of its paper's folder that it imports.

    Docstrings, comments, white space, the title and the description of the preset do not enter:
    rewording them changes no number. Files outside that folder do not enter either, so that
    changes of the library alone do not change it.
    """
    folder = papers.folder_of(study.split("/")[0])
    texts = [_code((folder / name).read_text(encoding="utf-8")) for name in files_of(study)]
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()[:16]


def files_of(study: str) -> list[str]:
    """The study's file and those of its paper's folder that it imports, directly or not."""
    paper, figure = study.split("/")
    folder, package = papers.folder_of(paper), papers.packages()[paper]
    return sorted(_imported(folder, package, f"{figure}.py", set()))


def _code(text: str) -> str:
    """The text of a file without comments and words, and with single spaces.

    It is cut from the text, and not written by `ast`, whose output depends on Python's version.
    """
    lines = text.splitlines(keepends=True)
    for (first, start), (last, end) in sorted(_described(text), reverse=True):
        rest = lines[last - 1][end:]
        lines[first - 1 : last] = [lines[first - 1][:start] + rest]
    return " ".join("".join(lines).split())


def _described(text: str) -> list[tuple[tuple[int, int], tuple[int, int]]]:
    """Where comments, docstrings and the constants `_WORDS` are: (line, column) of both ends."""
    found = [
        (token.start, token.end)
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
        if token.type == tokenize.COMMENT
    ]
    tree, lines = ast.parse(text), text.splitlines()
    nodes = [node for node in tree.body if _is_word(node)]
    for each in ast.walk(tree):
        if isinstance(each, _DOCUMENTED) and ast.get_docstring(each) is not None:
            nodes.append(each.body[0])
    # Columns of `ast` count bytes of UTF-8; those of the text count characters.
    column = lambda line, offset: len(lines[line - 1].encode()[:offset].decode())
    for node in nodes:
        assert node.end_lineno is not None and node.end_col_offset is not None
        begin = node.lineno, column(node.lineno, node.col_offset)
        end = node.end_lineno, column(node.end_lineno, node.end_col_offset)
        # Comments inside go with it.
        found = [(a, b) for a, b in found if not begin <= a < end]
        found.append((begin, end))
    return found


def _is_word(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return isinstance(targets[0], ast.Name) and targets[0].id in _WORDS


def _imported(folder: pathlib.Path, package: str, name: str, seen: set[str]) -> set[str]:
    """The file and those of its folder that it imports, directly or not."""
    seen.add(name)
    for module in _modules(folder / name, package):
        if f"{module}.py" not in seen and (folder / f"{module}.py").exists():
            _imported(folder, package, f"{module}.py", seen)
    return seen


@functools.cache  # studies of a paper share files
def _modules(path: pathlib.Path, package: str) -> list[str]:
    """The modules that a file imports from its own folder.

    Read from the source and not from `sys.modules`, so that no study has to be imported.
    """
    modules = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if not isinstance(node, ast.ImportFrom):
            continue
        inside = [package] if node.level == 1 else []
        origin = ".".join([*inside, *filter(None, [node.module])])
        if origin == package:
            modules += [alias.name for alias in node.names]
        elif origin.startswith(f"{package}."):
            modules.append(origin.removeprefix(f"{package}."))
    return modules
