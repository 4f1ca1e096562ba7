"""`learndyn show`."""

import inspect
import re
from typing import TYPE_CHECKING

from learndyn.cli.options import STUDY

if TYPE_CHECKING:
    from learndyn.studies.claims import Sentence


def show(study: STUDY) -> None:
    """Shows a study: title, parameters of its presets, time, data, claims, notes."""
    from learndyn.studies import registry, sources, times

    module = registry.find(study)
    print(f"{study}  {module.TITLE}\n\n{inspect.getdoc(module) or ''}\n\nParameters")
    for row in _parameters(module.PRESETS):
        print(f"  {row}")
    print(f"\nTime: quick under 1 min on two cores; paper {times.of_paper(study)}")
    print(f"Data: quick reads no files; paper {_data(sources.readers(study))}\n\nClaims")
    for sentence in module.CLAIMS.values():
        print(f"  {_line(sentence)}")


def _line(sentence: "Sentence") -> str:
    """The statement with its source and kind, and the tolerance with its reason."""
    kind = "" if sentence.kind == "claim" else f", {sentence.kind}"
    text = f"{sentence.statement} ({sentence.source}{kind})"
    if within := sentence.within:
        text += f"; within {within.value:g}" if within.value else ""
        text += f"; because: {within.because}"
    return re.sub(r"\{[^{}]*\}", "…", text)


def _parameters(presets) -> list[str]:
    """One line per parameter: its name, and its value in every preset."""
    names = list(vars(next(iter(presets.values()))))
    rows = [["", *presets], *([n, *(str(getattr(p, n)) for p in presets.values())] for n in names)]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join(map(str.ljust, row, widths)).rstrip() for row in rows]


def _data(readers: list[str]) -> str:
    files = [name for name in readers if name != "digits"]
    if not files:
        return "neither"
    return f"may read {', '.join(files)} from --data-dir or LEARNDYN_DATA"
