"""The function of a sweep: whether its parameters match the axes, its version, its pickling."""

import ast
import functools
import hashlib
import inspect
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import cloudpickle

from learndyn.runtime.checks import function as check_function
from learndyn.system.encoding import encode

SEED = "key"  # a parameter of this name without a default, and not an axis, is the point's seed
PLAIN = (bool, int, float, str, tuple)
DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


def takes_key(function: Any, names: Iterable[str]) -> bool:
    """Whether the function takes a seed; raises if its parameters do not match the axes.

    Args:
        function: the function of a point.
        names: the names of the axes.

    Returns:
        Whether it has a parameter `key` that has no default and is not an axis.

    Raises:
        ValueError: for axes that are not parameters, and for parameters that are not axes.
    """
    check_function("function", function)
    names = set(names)
    parameters = inspect.signature(function).parameters.values()
    open_ended = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    strange = sorted(names - {p.name for p in named})
    if strange and not open_ended:
        allowed = ", ".join(p.name for p in named) or "none: it has no parameters"
        raise ValueError(f"axes: got {strange[0]!r}; the function's parameters are {allowed}")
    needed = [p.name for p in named if p.default is p.empty and p.name not in names]
    if any(name != SEED for name in needed):
        lacking = next(name for name in needed if name != SEED)
        raise ValueError(f"function: needs {lacking!r}; allowed are axes for all it needs")
    return SEED in needed


def version(function: Any) -> str:
    """A hash of the code of a function and of what it refers to in its own module.

    A function can define a method `version` instead. Comments, docstrings and layout do not
    count, nor do the contents of other modules.
    """
    if callable(getattr(function, "version", None)):
        return str(function.version())
    parts = _parts(function, _module(function), set())
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _module(value: Any) -> str | None:
    while isinstance(value, functools.partial):
        value = value.func
    return getattr(value, "__module__", None)


def _parts(value: Any, module: str | None, seen: set[int]) -> Iterator[str]:
    if id(value) in seen:  # functions may refer to each other
        return
    seen.add(id(value))
    if isinstance(value, functools.partial):
        yield repr(encode([*value.args, *value.keywords.items()]))
        yield from _parts(value.func, module, seen)
    elif inspect.ismethod(value):
        yield from _parts(value.__func__, module, seen)
        yield from _parts(value.__self__, module, seen)
    elif inspect.isfunction(value):
        yield from _code(value, module, seen)
    elif inspect.isclass(value):
        yield _text(value)
    elif hasattr(value, "__wrapped__"):
        yield from _parts(value.__wrapped__, module, seen)
    elif callable(value) and type(value).__module__ == module:
        yield repr(encode(value))
        yield _text(type(value))
    else:
        yield repr(encode(value))


def _code(function: Any, module: str | None, seen: set[int]) -> Iterator[str]:
    yield _text(function)
    held = [*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()]
    for cell in function.__closure__ or ():
        try:
            held.append(cell.cell_contents)
        except ValueError:  # an empty cell
            continue
    for part in held:
        yield from _parts(part, module, seen)
    for name in sorted(_names(function.__code__)):
        value = function.__globals__.get(name)
        if isinstance(value, PLAIN):
            yield f"{name} = {value!r}"
        elif getattr(value, "__module__", None) == module and callable(value):
            yield from _parts(value, module, seen)


def _names(code: Any) -> set[str]:
    inner = [c for c in code.co_consts if inspect.iscode(c)]
    return set(code.co_names).union(*map(_names, inner))


def _text(value: Any) -> str:
    """The syntax tree without docstrings; the bytecode of functions without separate source."""
    try:
        if getattr(value, "__name__", "") == "<lambda>":  # its source would be the whole line
            raise OSError
        tree = ast.parse(textwrap.dedent(inspect.getsource(value)))
    except (OSError, TypeError, SyntaxError):
        code = getattr(value, "__code__", None)
        if code is None:
            return repr(value)
        # The repr of an inner code object contains its address, which differs between processes.
        constants = [c.co_code.hex() if inspect.iscode(c) else c for c in code.co_consts]
        return code.co_code.hex() + repr(constants)
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            node.body = node.body[1:]
    return ast.dump(tree)


def described(function: Any) -> Any:
    """The function as JSON: its name and fields; its code is in the version."""
    encoded = encode(function)
    return {"function": encoded["function"]} if "sha256" in encoded else encoded


def packed(function: Any) -> bytes:
    """A function as bytes.

    Raises:
        ValueError: if it cannot be sent to a worker.
    """
    return _sendable(
        "function:",
        function,
        "a function of a module, which creates what does not pickle (files, locks, clients) when "
        "it is called",
    )


def check_values(axes: Mapping[str, Sequence[Any]]) -> None:
    """Raises for values of axes that cannot be sent to a worker.

    Raises:
        ValueError: for the first axis that has such a value.
    """
    for name, values in axes.items():
        _sendable(f"axes: {name}", values, "values that pickle")


def _sendable(what: str, value: Any, allowed: str) -> bytes:
    try:
        return cloudpickle.dumps(value)
    except Exception as error:
        why = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"{what} cannot be sent to a worker ({why}); allowed is {allowed}"
        ) from None


@functools.lru_cache(maxsize=8)
def unpacked(content: bytes) -> Any:
    """The function, cached once per worker, so that its compiled code serves later points.

    Raises:
        ValueError: if this process cannot load it.
    """
    try:
        return cloudpickle.loads(content)
    except Exception as error:
        why = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise ValueError(
            f"function: a worker cannot load it ({why}); allowed is a function of a module "
            "that workers can import, or one of the script that runs"
        ) from None
