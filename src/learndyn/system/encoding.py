"""Values as JSON: numbers written out, large arrays as a hash, functions and classes by name.

Text that cannot be turned back (an array kept as a hash, a lambda, a closure) still tells two
values apart: its hash is of all that the value is made of.
"""

import dataclasses
import functools
import hashlib
import importlib
import inspect
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn import networks, problems, rules
from learndyn.numerics.values import Value

_INLINE = 4096  # larger arrays are written as shape and hash
_PLAIN = (np.float64, np.int64, np.bool_)  # what a list of numbers is read as
_OWN = {
    name: kind
    for room in (networks, problems, rules)
    for name, kind in vars(room).items()
    if isinstance(kind, type) and issubclass(kind, Value)
}


def encode(value: Any) -> Any:
    """A value as what `json` writes."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, np.ndarray | np.generic | jax.Array):
        return _array(np.asarray(value))
    if isinstance(value, dict):
        return {str(name): encode(item) for name, item in value.items()}
    fields = _fields(value)
    if fields is not None:
        return {"kind": _name(type(value)), **{name: encode(v) for name, v in fields.items()}}
    if isinstance(value, tuple | list):
        return [_item(item) for item in value]
    return _function(value) if callable(value) else {"object": _qualified(type(value))}


def decode(text: Any, path: str = "system") -> Any:
    """What `encode` was given.

    Raises:
        ValueError: for what the text does not hold, which has to be given anew.
    """
    if isinstance(text, list):
        return [decode(item, f"{path}[{i}]") for i, item in enumerate(text)]
    if not isinstance(text, dict):
        return text
    why = _lost(text)
    if why:
        raise ValueError(f"{path}: {why}; give it anew")
    if "array" in text:
        return np.asarray(text["array"], text["dtype"])
    if "function" in text:
        return _found(text["function"])
    fields = {n: decode(v, f"{path}.{n}") for n, v in text.items() if n != "kind"}
    return _class(text["kind"])(**fields) if "kind" in text else fields


def missing(text: Any, path: str = "system") -> Iterator[str]:
    """What of an encoded value cannot be rebuilt from its text, a line each."""
    items = enumerate(text) if isinstance(text, list) else ()
    items = text.items() if isinstance(text, dict) else items
    why = _lost(text) if isinstance(text, dict) else ""
    if why:
        yield f"{path}: {why}"
        return
    for name, item in items:
        yield from missing(item, f"{path}.{name}" if isinstance(name, str) else f"{path}[{name}]")


def _lost(text: dict) -> str:
    if "shape" in text and "sha256" in text:
        return f"an array of shape {tuple(text['shape'])} was kept as a hash"
    if "sha256" in text:
        return f"the function {text['function']} has no name to find it by"
    return f"a {text['object']} has no text form" if "object" in text else ""


def _fields(value: Any) -> dict[str, Any] | None:
    """The fields of a module, a data class or a named tuple that its constructor takes."""
    if isinstance(value, eqx.Module) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        given = [f.name for f in dataclasses.fields(value) if f.init]  # pyright: ignore
        return {name: getattr(value, name) for name in given}
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._asdict()  # pyright: ignore
    return None


def _item(value: Any) -> Any:
    """An item of a list: one that is an array comes back as one, not as a longer list."""
    whole = isinstance(value, np.ndarray | jax.Array) and value.size <= _INLINE
    return _typed(np.asarray(value)) if whole else encode(value)


def _array(value: np.ndarray) -> Any:
    if value.size > _INLINE:
        digest = hashlib.sha256(np.ascontiguousarray(value).tobytes()).hexdigest()
        return {"shape": list(value.shape), "dtype": str(value.dtype), "sha256": digest}
    if value.dtype in _PLAIN:
        return value.tolist()
    return _typed(value)


def _typed(value: np.ndarray) -> Any:
    return {"array": value.tolist(), "dtype": str(value.dtype)}


def _function(value: Any) -> dict[str, str]:
    name = _qualified(value if hasattr(value, "__qualname__") else type(value))
    if "<" not in name and _or_none(name) is value:
        return {"function": name}
    return {"function": name, "sha256": hashlib.sha256(_source(value).encode()).hexdigest()}


def _source(value: Any, depth: int = 8) -> str:
    """All that a function is made of, as text: its source, its constants, what it closes over."""
    code = getattr(value, "__code__", None)
    if depth == 0 or not callable(value):
        return repr(encode(value)) if depth else ""
    if code is None:
        held = _held(value)
        return "\n".join([_qualified(type(value)), *(_source(part, depth - 1) for part in held)])
    try:
        text = inspect.getsource(code)
    except (OSError, TypeError):
        text = code.co_code.hex()
    constants = [c for c in code.co_consts if not inspect.iscode(c)]
    cells = [_content(cell) for cell in value.__closure__ or ()]
    held = [*cells, *(value.__defaults__ or ()), *(value.__kwdefaults__ or {}).values()]
    parts = [_source(part, depth - 1) for part in held]
    return "\n".join([text, repr(constants), repr(code.co_names), *parts])


def _held(value: Any) -> list[Any]:
    """What a callable object is made of."""
    if isinstance(value, functools.partial):
        return [value.func, *value.args, *value.keywords.items()]
    if inspect.ismethod(value):
        return [value.__func__, value.__self__]
    if hasattr(value, "__wrapped__"):
        return [value.__wrapped__]
    return [_fields(value) or getattr(value, "__dict__", {})]


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # a cell that is not filled yet
        return None


def _name(kind: type) -> str:
    own = _OWN.get(kind.__name__) is kind or kind.__module__.startswith("learndyn.system")
    return kind.__name__ if own else _qualified(kind)


def _qualified(value: Any) -> str:
    return f"{value.__module__}:{value.__qualname__}"


def _class(name: str) -> Any:
    if name == "System":
        from learndyn.system.system import System

        return System
    kind = _found(name) if ":" in name else _OWN.get(name)
    known = isinstance(kind, type) and (issubclass(kind, eqx.Module) or hasattr(kind, "_fields"))
    if not known and not dataclasses.is_dataclass(kind):
        raise ValueError(f"kind: got {name!r}; allowed is a class of learndyn, or one by its name")
    return kind


def _found(name: str) -> Any:
    found = _or_none(name)
    if found is None:
        raise ValueError(f"{name}: not found; allowed is what can be imported here")
    return found


def _or_none(name: str) -> Any:
    module, _, path = name.partition(":")
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found
