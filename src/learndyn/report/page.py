"""The page: one HTML file that needs no other, and may load none."""

import base64
import datetime
import hashlib
import importlib.resources
import math
import pathlib
from collections import Counter
from typing import Any

import jinja2
from markupsafe import Markup

from learndyn.report.studies import entries, tallies
from learndyn.report.sweeps import sweeps
from learndyn.studies.claims import KINDS, STATUSES
from learndyn.studies.tables import PLURALS

LONG = {"holds": "hold", "fails": "fail", "open": "are open"}


def page(folder: pathlib.Path) -> str:
    """The page about a folder.

    Args:
        folder: results of studies, ours or your own, stores of sweeps, or folders with either.

    Returns:
        HTML. Whatever comes from the files is escaped; a policy in the page allows its own style
        and script only, by their hashes, and pictures that are part of it.

    Raises:
        ValueError: if there is no result in the folder, or a file in it that `learndyn` did not
            write.
    """
    studies, stores = entries(folder), sweeps(folder)
    if not studies and not stores:
        allowed = "a folder with results of `learndyn run`, or the store of a sweep"
        raise ValueError(f"{folder}: got no claims.json and no store in it; allowed is {allowed}")
    style, script = _part("page.css"), _part("page.js")
    by_paper = tallies(studies)
    return (
        _environment()
        .get_template("page.html")
        .render(
            folder=folder.resolve().name,
            date=datetime.date.today().isoformat(),
            style=Markup(style),
            script=Markup(script),
            style_hash=_hash(style),
            script_hash=_hash(script),
            studies=studies,
            sweeps=stores,
            tallies=by_paper,
            total=sum(by_paper.values(), Counter()),
            kinds=KINDS,
            plurals=PLURALS,
            statuses=STATUSES,
            long=LONG,
        )
    )


def _environment() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.FunctionLoader(_part),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {"number": _number, "plain": _plain, "duration": _duration}
    return environment


def _part(name: str) -> str:
    return (importlib.resources.files("learndyn.report") / name).read_text("utf-8")


def _hash(text: str) -> str:
    return f"sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}"


def _number(value: Any) -> str:
    """Four digits; None is what JSON has instead of NaN and infinity."""
    if value is None:
        return "not finite"
    return f"{value:.4g}" if isinstance(value, int | float) else str(value)


def _plain(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _duration(seconds: float) -> str:
    if not math.isfinite(seconds) or seconds < 120:
        return f"{seconds:.3g} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"
