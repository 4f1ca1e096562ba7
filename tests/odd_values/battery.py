"""Puts odd values into every argument of every public name; run as a program, without type checks.

The outcome is a result, a warning, or a ValueError of one line that names the argument, what came
and what is allowed. The tests' type checks would refuse most of it before the library can.
"""

import json
import os
import re
import signal
import sys
import warnings
from pathlib import Path
from typing import Any

import hypothesis
from hypothesis import strategies as st

sys.path.insert(0, str(Path(__file__).parent))

import calls
import values

PROFILES = {"small": (30, 12), "large": (400, 120)}  # examples a name: cheap, costly
HANG = 120  # seconds after which a call is called hanging; calls take milliseconds
LINE = re.compile(r"\A(?P<head>[A-Za-z_]\w*)[^\n]*: [^\n]*; (allowed|give) [^\n]*\Z")


class Hanging(BaseException):
    """A call that does not return."""


def complaint(name: str, argument: str, value: Any) -> str | None:
    """What is wrong with the outcome of a call with one odd value; None where it is right."""
    function, call = calls.public()[name], calls.CALLS[name]()
    given = {**call.arguments, argument: value}
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # NumPy's, which names no argument
            warnings.simplefilter("ignore", UserWarning)
            _timed(function, given)
    except ValueError as error:
        return _said(str(error), {*given, *call.heads})
    except Hanging:
        return f"hangs for {HANG} s"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:200]}"
    never = any(value is each for each in values.NEVER)
    return "a result" if never and argument not in call.free else None


def _said(text: str, heads: set[str]) -> str | None:
    """What is wrong with a message."""
    found = LINE.match(text)
    if found is None:
        return f"not one line of its kind: {text[:200]!r}"
    return None if found["head"] in heads else f"names no argument: {text[:200]!r}"


def _timed(function: Any, given: dict[str, Any]) -> Any:
    signal.signal(signal.SIGALRM, _stop)
    signal.alarm(HANG)
    try:
        return function(**given)
    finally:
        signal.alarm(0)


def _stop(*_: Any) -> None:
    raise Hanging


def search(name: str, examples: int, costly: bool) -> list[str]:
    """Complaints about a name, one for each argument and kind of complaint."""
    found: dict[tuple[str, str], str] = {}
    arguments = st.sampled_from([*calls.CALLS[name]().arguments])
    odd = st.sampled_from(values.NEVER) if costly else values.anything()

    @hypothesis.settings(
        max_examples=examples, deadline=None, derandomize=True, database=None,
        suppress_health_check=[*hypothesis.HealthCheck],
    )  # fmt: skip
    @hypothesis.given(arguments, odd)
    def tried(argument: str, value: Any) -> None:
        said = complaint(name, argument, value)
        if said is not None:
            shown = f"{name}({argument}={_shown(value)}): {said}"
            found.setdefault((argument, said[:30]), shown)

    try:
        tried()
    except Exception as error:  # of the battery itself
        found[name, "battery"] = f"{name}: {type(error).__name__}: {error}"
    return list(found.values())


def _shown(value: Any) -> str:
    try:
        return repr(value)[:60]
    except Exception:
        return type(value).__name__


def works(name: str) -> str | None:
    """What is wrong with the call itself; None where it works."""
    try:
        calls.public()[name](**calls.CALLS[name]().arguments)
    except Exception as error:
        return f"{name}: the table's own call fails: {type(error).__name__}: {error}"
    return None


def main(profile: str, *only: str) -> None:
    """Prints complaints as JSON."""
    os.chdir(calls.FOLDER)  # `save` takes almost any text for a file
    cheap, costly = PROFILES[profile]
    found = []
    for name in only or calls.CALLS:
        call = calls.CALLS[name]()
        is_costly = call.costly
        if call.works and (not is_costly or profile == "large"):
            found += filter(None, [works(name)])
        examples = costly if is_costly else cheap
        found += search(name, examples, is_costly and profile == "small")
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
