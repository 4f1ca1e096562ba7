"""What a study's source says without running it: its claims, and the data that it reads."""

import ast
import pathlib
from collections.abc import Iterator

from learndyn import studies
from learndyn.studies.results import files_of
from learndyn.studies.sentences import Sentences

READERS = frozenset(
    {
        "ag_news", "celeba", "cifar10", "digits", "fashion_mnist", "first_channel", "fsdd",
        "mnist", "sarcos", "svhn", "usps",
    }
)  # fmt: skip


def claims(study: str) -> list[tuple[str, str]]:
    """Statement and source of every `claim(…)` that the study writes, in its order.

    What is known only of data is "…".
    """
    found, written = [], Sentences(list(_trees(study)))
    for call, inside in written.calls:
        if ast.unparse(call.func) == "claim" and len(call.args) > 1:
            found += map(tuple, written.texts(call.args[:2], inside))
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
