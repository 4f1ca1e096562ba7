"""The pages of the API reference, one per group of names."""

import inspect
import pathlib
from typing import Any

from . import names


def write(folder: pathlib.Path) -> None:
    """Writes one page per group, and the page that lists them all."""
    folder.mkdir(parents=True, exist_ok=True)
    groups: dict[str, dict[str, object]] = {key: {} for key in names.GROUPS}
    for address, each in names.public().items():
        groups.setdefault(names.group_of(address, each), {})[address] = each
    for key, members in groups.items():
        (folder / f"{key}.rst").write_text(_page(_title(key), members), "utf-8")
    (folder / "index.rst").write_text(_index(groups), "utf-8")


def _title(key: str) -> str:
    return names.GROUPS.get(key, (key.capitalize(), ""))[0]


def _heading(title: str) -> str:
    return f"{title}\n{'=' * len(title)}\n\n"


def _page(title: str, members: dict[str, object]) -> str:
    # Short addresses first: what is at the top level is what most people need.
    ordered = sorted(members.items(), key=lambda item: (item[0].count("."), item[0].lower()))
    return _heading(title) + "\n".join(_entry(*item) for item in ordered)


def _entry(address: str, each: Any) -> str:
    kind = names.kind_of(each)
    lines = [f".. {kind}:: {address}"]
    if kind == "autoclass":
        lines += ["   :members:"] + ["   :show-inheritance:"] * bool(names.base_of(each))
    if kind == "autodata":
        lines.append("   :no-value:")
    return "\n".join(lines) + "\n"


def _index(groups: dict[str, dict[str, object]]) -> str:
    text = _heading("API reference")
    text += "Every public name. ``ld`` stands for ``import learndyn as ld``.\n\n"
    text += ".. toctree::\n   :hidden:\n\n" + "".join(f"   {key}\n" for key in groups) + "\n"
    for key, members in groups.items():
        title = _title(key)
        text += f"{title}\n{'-' * len(title)}\n\n.. list-table::\n   :widths: 35 65\n\n"
        ordered = sorted(members, key=lambda name: (name.count("."), name.lower()))
        text += "".join(_row(address, members[address]) for address in ordered) + "\n"
    return text


def _row(address: str, each: object) -> str:
    short = address.replace("learndyn", "ld", 1)
    return f"   * - :py:obj:`{short} <{address}>`\n     - {summary(each)}\n"


def summary(each: object) -> str:
    """The first line of a docstring, with its backticks doubled for reStructuredText."""
    own = inspect.getdoc(each) if callable(each) else None
    line = (own or "").strip().split("\n\n")[0].replace("\n", " ")
    for letter in "\\*|":
        line = line.replace(letter, f"\\{letter}")
    return line.replace("``", "`").replace("`", "``").replace("_ ", "\\_ ")
