"""A system as the Python program that makes it, and that computes its curves."""

import contextlib
import inspect
from collections.abc import Iterator
from typing import Any

import numpy as np

import learndyn
from learndyn.problems import PowerLaw, Spectrum
from learndyn.runtime.checks import instance, one_of, seed
from learndyn.runtime.times import increasing_times
from learndyn.runtime.values import Value, written
from learndyn.system.encoding import encode
from learndyn.system.names import qualified
from learndyn.system.system import System

WIDTH = 88  # a call that would be longer has an argument per line
METHODS = ("auto", "direct", "reduced", "flow")  # of `simulate`
# Classes that are not public themselves, and the public functions of the same arguments.
MADE_BY = {"learndyn.theory.infinite_width.network:InfiniteNetwork": "infinite"}
HEAD = "import numpy as np\n\nimport learndyn as ld\n\n"


def code_of(
    system: System,
    times: Any = None,
    *,
    key: int = 0,
    runs: int = 0,
    runs_key: int = 1,
    method: str = "auto",
    fluctuations: bool = False,
) -> str:
    """The Python program that makes a system, and if times are given, computes its curves.

    Args:
        system: the system; all of it must be in its JSON form.
        times: for `solve`, whose theory must cover the system, and `simulate`; None leaves both
            out.
        key: seed of the start.
        runs: how many networks to train and compare; 0 leaves `simulate` out.
        runs_key: seed of `simulate`.
        method: the engine of `simulate`.
        fluctuations: whether `solve` predicts the spread of runs, too.

    Returns:
        The text. Executed, it defines `system`, and `start`, `times`, `theory` and `runs` if it
        computes them.

    Raises:
        ValueError: for a system with parts that no text can contain (a large array, a lambda).

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(2, "erf"))
        >>> print(ld.code_of(ld.System(problem, ld.Committee(3, "erf"), ld.SGD(0.1))))
        import numpy as np
        <BLANKLINE>
        import learndyn as ld
        <BLANKLINE>
        problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(2, "erf"))
        network = ld.Committee(3, "erf")
        rule = ld.SGD(0.1)
        system = ld.System(problem, network, rule)
        <BLANKLINE>
    """
    instance("system", system, System, "a System")
    key, runs, runs_key = seed("key", key), seed("runs", runs), seed("runs_key", runs_key)
    one_of("method", method, METHODS)
    one_of("fluctuations", fluctuations, (False, True))
    lost = system.not_in_json()
    if lost:
        raise ValueError(f"system: got one whose text lacks {lost[0]}; allowed is all of it")
    parts = {name: getattr(system, name) for name in ("problem", "network", "rule")}
    lines = [f"{name} = {_text(part, len(name) + 3)}" for name, part in parts.items()]
    lines += ["system = ld.System(problem, network, rule)"]
    if times is not None:
        how = "" if method == "auto" else f', method="{method}"'
        options = f"runs={runs}, key={runs_key}{how}" if runs else ""
        predicting = ", fluctuations=True" if fluctuations else ""
        lines += _computing(increasing_times(times), key, predicting, options)
    return HEAD + "\n".join(lines) + "\n"


def _computing(times: np.ndarray, key: int, predicting: str, runs: str) -> Iterator[str]:
    yield f"start = ld.start(system, key={key})"
    yield f"times = {_times(times)}"
    yield f"theory = ld.solve(system, times, start=start{predicting})"
    if runs:
        yield f"runs = ld.simulate(system, times, start=start, {runs})"
        yield "print(ld.compare(theory, runs).verdict)"


def _times(times: np.ndarray) -> str:
    ends = f"{_number(times[0])}, {_number(times[-1])}, {len(times)}"
    spaced = {"linspace": np.linspace(times[0], times[-1], len(times))}
    if times[0] > 0:
        spaced["geomspace"] = np.geomspace(times[0], times[-1], len(times))
    for name, values in spaced.items():
        if np.array_equal(values, times):
            return f"np.{name}({ends})"
    return f"np.array({times.tolist()})"


def _text(value: Any, indent: int) -> str:
    """The expression for a value, which begins `indent` characters from the left."""
    if isinstance(value, Spectrum):
        return _spectrum(value)
    if isinstance(value, Value):
        return _call(value, indent)
    if isinstance(value, np.ndarray) and value.ndim:
        exact = value.dtype in (np.float64, np.int64)
        text = repr(value.tolist())
        return text if exact else f"np.array({text}, np.{value.dtype})"
    if isinstance(value, np.ndarray | np.generic):
        return _number(value)
    if isinstance(value, tuple | list):
        items = ", ".join(_text(item, indent) for item in value)
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"
    if callable(value):
        raise ValueError(f"system: got the function {qualified(value)}; allowed are named ones")
    return repr(value).replace("'", '"') if isinstance(value, str) else repr(value)


def _spectrum(spectrum: Spectrum) -> str:
    """A spectrum by the function that gives it, if there is one that can be seen."""
    if spectrum.levels == 1 and spectrum.values[0] == 1.0:
        return f"ld.Isotropic({spectrum.dim})"
    if spectrum.levels > 1:
        # What was asked for has fewer digits than that.
        exponent = float(round(np.log2(spectrum.values[0] / spectrum.values[1]) - 1, 9))
        with contextlib.suppress(ValueError):  # no power law has these numbers
            if encode(PowerLaw(spectrum.dim, spectrum.levels, exponent)) == encode(spectrum):
                return f"ld.PowerLaw({spectrum.dim}, {spectrum.levels}, {exponent!r})"
    return f"ld.Spectrum({spectrum.values.tolist()}, {spectrum.counts.tolist()})"


def _call(value: Value, indent: int) -> str:
    """The call of the constructor, without arguments that have their default."""
    name, arguments = _name(value), list(_arguments(value))
    # A problem wraps a plain spectrum in an input distribution of its own.
    if name == "ld.Gaussian" and len(arguments) == 1:
        return arguments[0][1]
    flat = ", ".join(f"{keyword}{text}" for keyword, text in arguments)
    if indent + len(name) + len(flat) + 2 <= WIDTH or len(arguments) < 2:
        return f"{name}({flat})"
    rows = "".join(
        f"    {keyword}{text.replace(chr(10), chr(10) + '    ')},\n" for keyword, text in arguments
    )
    return f"{name}(\n{rows})"


def _arguments(value: Value) -> Iterator[tuple[str, str]]:
    fields = written(value)
    for name, parameter in inspect.signature(type(value)).parameters.items():
        if name not in fields or (
            parameter.default is not parameter.empty and _follows(value, name)
        ):
            continue
        positional = parameter.kind is not parameter.KEYWORD_ONLY
        plain = positional and parameter.default is parameter.empty
        yield "" if plain else f"{name}=", _text(fields[name], 4)


def _follows(value: Value, name: str) -> bool:
    """Whether the constructor gives this field the same content without being told."""
    others = {field: content for field, content in written(value).items() if field != name}
    try:
        return encode(type(value)(**others)) == encode(value)
    except ValueError:  # one of several arguments must be given
        return False


def _name(value: Value) -> str:
    kind = type(value)
    if getattr(learndyn, kind.__name__, None) is kind:
        return f"ld.{kind.__name__}"
    if getattr(learndyn.rules, kind.__name__, None) is kind:
        return f"ld.rules.{kind.__name__}"
    if qualified(kind) in MADE_BY:
        return f"ld.{MADE_BY[qualified(kind)]}"
    raise ValueError(f"system: got a {qualified(kind)}; allowed is what one call of ld makes")


def _number(value: Any) -> str:
    return repr(np.asarray(value).item())
