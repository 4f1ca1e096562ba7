"""Values as JSON: numbers written out, large arrays as a hash, functions and classes by name.

A value that cannot be rebuilt from its text (a large array, a lambda, a closure) is written as a
hash of its content, so that different values still have different texts.
"""

import dataclasses
import functools
import hashlib
import inspect
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import numpy as np

from learndyn import models, networks, problems, rules
from learndyn.runtime.values import Value, written
from learndyn.system.names import find, find_class, look_up, qualified

_INLINE = 4096  # larger arrays are written as shape and hash
_PLAIN = (np.float64, np.int64, np.bool_)  # types that a plain list of numbers is read back as
_OWN = {
    name: kind
    for room in (networks, models, problems, rules)
    for name, kind in vars(room).items()
    if isinstance(kind, type) and issubclass(kind, Value)
}


def encode(value: Any) -> Any:
    """A value in the form that `json` writes."""
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
    return _function(value) if callable(value) else {"object": qualified(type(value))}


def decode(text: Any, path: str = "system", *, trusted: bool = True) -> Any:
    """The value that `encode` encoded.

    Args:
        text: the result of `encode`.
        path: its name in errors.
        trusted: whether the text may name anything that can be imported; `names.py` lists what
            other texts may name.

    Returns:
        The value.

    Raises:
        ValueError: for a value that the text does not contain, and for names that it may not use.
    """
    if isinstance(text, list):
        return [decode(item, f"{path}[{i}]", trusted=trusted) for i, item in enumerate(text)]
    if not isinstance(text, dict):
        return text
    why = _lost(text)
    if why:
        raise ValueError(f"{path}: {why}; give it anew")
    if "array" in text:
        try:
            return np.asarray(text["array"], text["dtype"])
        except ValueError as error:
            raise ValueError(f"{path}: {error}; allowed is an array of numbers") from None
    if "function" in text and "kind" not in text:  # a class may have a field of that name
        return find(text["function"], path, trusted)
    kind = _class(text["kind"], path, trusted) if "kind" in text else dict
    items = {n: v for n, v in text.items() if n != "kind"}
    fields = {n: decode(v, f"{path}.{n}", trusted=trusted) for n, v in items.items()}
    return kind(**fields)


def missing(text: Any, path: str = "system") -> Iterator[str]:
    """The parts of an encoded value that cannot be rebuilt from its text, one line each."""
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
    """The constructor arguments of a module, data class or named tuple; None for other values."""
    if isinstance(value, eqx.Module) or (
        dataclasses.is_dataclass(value) and not isinstance(value, type)
    ):
        return written(value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return value._asdict()  # pyright: ignore
    return None


def _item(value: Any) -> Any:
    """An item of a list; an array is written with its type, so that it is read back as an array."""
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
    name = qualified(value if hasattr(value, "__qualname__") else type(value))
    if "<" not in name and look_up(name) is value:
        return {"function": name}
    return {"function": name, "sha256": hashlib.sha256(_source(value).encode()).hexdigest()}


def _source(value: Any, depth: int = 8) -> str:
    """The content of a function as text: its source, its constants, what it closes over."""
    code = getattr(value, "__code__", None)
    if depth == 0 or not callable(value):
        return repr(encode(value)) if depth else ""
    if code is None:
        held = _held(value)
        return "\n".join([qualified(type(value)), *(_source(part, depth - 1) for part in held)])
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
    """The parts of a callable object."""
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
    except ValueError:  # an empty cell
        return None


def _name(kind: type) -> str:
    own = _OWN.get(kind.__name__) is kind or kind.__module__.startswith("learndyn.system")
    return kind.__name__ if own else qualified(kind)


def _class(name: str, path: str, trusted: bool) -> Any:
    if name == "System":
        from learndyn.system.system import System

        return System
    return _OWN.get(name) or find_class(name, path, trusted)
