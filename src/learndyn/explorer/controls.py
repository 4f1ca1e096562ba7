"""What a page may be asked for: its controls, with the values that they allow. Without JAX."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from learndyn.runtime.checks import shown

MOST_CHARACTERS = 300  # of a text


@dataclasses.dataclass(frozen=True)
class Slider:
    """A number between two bounds.

    Attributes:
        label: what it is, with its letter.
        low: the smallest value.
        high: the largest.
        start: the value at first.
        whole: whether only integers are allowed.
        log: whether the slider moves by factors.
        compiles: whether another value may need other programs, which takes seconds.
    """

    label: str
    low: float | int
    high: float | int
    start: float | int
    whole: bool = False
    log: bool = False
    compiles: bool = False
    kind: Literal["slider"] = "slider"

    def checked(self, name: str, value: Any) -> float | int:
        """The value as a number, or a ValueError that says what is allowed."""
        number = isinstance(value, int | float) and not isinstance(value, bool)
        inside = number and self.low <= value <= self.high
        if not inside or (self.whole and value != int(value)):
            what = "an integer" if self.whole else "a number"
            allowed = f"{what} from {self.low:g} to {self.high:g}"
            raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
        return int(value) if self.whole else float(value)


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several texts.

    Attributes:
        label: what is chosen.
        options: the texts; the first one is chosen at first.
        compiles: whether another one may need other programs.
    """

    label: str
    options: Sequence[str]
    compiles: bool = False
    kind: Literal["choice"] = "choice"

    @property
    def start(self) -> str:
        """The first option."""
        return self.options[0]

    def checked(self, name: str, value: Any) -> str:
        """The value, or a ValueError that lists the options."""
        if value not in self.options:
            allowed = ", ".join(self.options)
            raise ValueError(f"{name}: got {shown(value)}; allowed is one of {allowed}")
        return value


@dataclasses.dataclass(frozen=True)
class Flag:
    """Yes or no."""

    label: str
    start: bool = False
    compiles: bool = False
    kind: Literal["flag"] = "flag"

    def checked(self, name: str, value: Any) -> bool:
        """The value, or a ValueError."""
        if not isinstance(value, bool):
            raise ValueError(f"{name}: got {shown(value)}; allowed is true or false")
        return value


@dataclasses.dataclass(frozen=True)
class Text:
    """A text: typed, chosen among what the page offers, or the name of a file that was sent.

    Attributes:
        label: what it is.
        source: "typed"; "offered", for one of the options that a view has; "file".
    """

    label: str
    source: Literal["typed", "offered", "file"] = "typed"
    start: str = ""
    compiles: bool = False
    kind: Literal["text"] = "text"

    def checked(self, name: str, value: Any) -> str:
        """The value, or a ValueError."""
        if not isinstance(value, str) or len(value) > MOST_CHARACTERS or not _printable(value):
            allowed = f"a text of at most {MOST_CHARACTERS} printable characters"
            raise ValueError(f"{name}: got {shown(value)}; allowed is {allowed}")
        return value


Control = Slider | Choice | Flag | Text
Values = dict[str, Any]


def checked(controls: Mapping[str, Control], values: Any) -> Values:
    """The values of all controls, or a ValueError for the first that is not allowed."""
    if not isinstance(values, dict) or set(values) != set(controls):
        allowed = ", ".join(controls) or "none"
        raise ValueError(f"values: got {shown(values)}; allowed are exactly {allowed}")
    return {name: control.checked(name, values[name]) for name, control in controls.items()}


def starts(controls: Mapping[str, Control]) -> Values:
    """The values at first."""
    return {name: control.start for name, control in controls.items()}


def _printable(text: str) -> bool:
    return all(character.isprintable() for character in text)
