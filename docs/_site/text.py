"""Texts and numbers of results, as Markdown."""

import importlib
import re
from collections.abc import Mapping
from typing import Any


def escaped(value: Any) -> str:
    """A text as it stands, in Markdown and in the cell of a table."""
    return re.sub(r"([\\|*_<>\[\]$`#~{}])", r"\\\1", " ".join(str(value).split()))


def number(value: Any) -> str:
    """A number in four digits; an interval as both of its ends."""
    if isinstance(value, list):
        return " to ".join(map(number, value))
    return f"{value:.4g}" if isinstance(value, int | float) else escaped(value)


def expected(row: Mapping[str, Any]) -> str:
    """What a claim expects, with its relation."""
    value = row.get("expected")
    return "" if value is None else f"{row.get('relation', '')} {number(value)}".strip()


def label(study: str) -> str:
    """The anchor of a study."""
    return f"study-{study}".replace("/", "-").replace("_", "-").lower()


def about(paper: str) -> str:
    """The title of a paper, as the package of its studies has it."""
    return escaped(importlib.import_module(f"learndyn.studies.{paper}").__doc__ or "")
