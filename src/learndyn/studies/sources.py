"""What a study's source says without running it: its claims, and the data that it reads."""

import ast
import pathlib
from collections.abc import Iterator

from learndyn import studies
from learndyn.studies.results import files_of

READERS = frozenset(
    {
        "ag_news", "celeba", "cifar10", "digits", "fashion_mnist", "first_channel", "fsdd",
        "mnist", "sarcos", "svhn", "usps",
    }
)  # fmt: skip


def claims(study: str) -> list[tuple[str, str]]:
    """Statement and source of every `claim(…)` that the study writes, in its order.

    What is known only of data stands in braces.
    """
    found, trees = [], list(_trees(study))
    named: dict[str, ast.expr] = {
        ast.unparse(node.targets[0]): node.value
        for tree in trees
        for node in tree.body
        if isinstance(node, ast.Assign)
    }
    text = lambda node: _text(named.get(ast.unparse(node)) or node)
    for call in (node for tree in trees for node in ast.walk(tree)):
        if isinstance(call, ast.Call) and ast.unparse(call.func) == "claim" and len(call.args) > 1:
            found.append((text(call.args[0]), text(call.args[1])))
    return list(dict.fromkeys(found))


def readers(study: str) -> list[str]:
    """The readers of real data that the study, or a module that it shares, imports."""
    imports = (node for tree in _trees(study) for node in ast.walk(tree))
    names = {a.name for node in imports if isinstance(node, ast.ImportFrom) for a in node.names}
    return sorted(names & READERS)


def _trees(study: str) -> Iterator[ast.Module]:
    folder = pathlib.Path(studies.__file__).parent / study.partition("/")[0]
    for name in files_of(study):
        yield ast.parse((folder / name).read_text(encoding="utf-8"))


def _text(node: ast.expr) -> str:
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        parts = (p if isinstance(p, ast.Constant) else None for p in node.values)
        return "".join("{…}" if part is None else str(part.value) for part in parts)
    return "{" + ast.unparse(node) + "}"
