"""The data that a study reads, found in its source without importing it."""

import ast
from collections.abc import Iterator

from learndyn.studies import papers
from learndyn.studies.hashing import files_of

READERS = frozenset(
    {
        "ag_news", "celeba", "cifar10", "digits", "fashion_mnist", "first_channel", "fsdd",
        "mnist", "sarcos", "svhn", "usps",
    }
)  # fmt: skip


def readers(study: str) -> list[str]:
    """The readers of real data that the study, or a module that it shares, imports."""
    imports = (node for tree in _trees(study) for node in ast.walk(tree))
    names = {a.name for node in imports if isinstance(node, ast.ImportFrom) for a in node.names}
    return sorted(names & READERS)


def _trees(study: str) -> Iterator[ast.Module]:
    folder = papers.folder_of(study.partition("/")[0])
    for name in files_of(study):
        yield ast.parse((folder / name).read_text(encoding="utf-8"))
