"""What a name in JSON text refers to, and which names untrusted text may use."""

import dataclasses
import importlib
import sys
from typing import Any

import equinox as eqx
import numpy as np

from learndyn.numerics.gaussian import AbstractActivation
from learndyn.runtime.jax_versions import COMPUTING
from learndyn.runtime.values import Value

KNOWN = (
    "classes of learndyn, your own subclasses of them once imported, functions of jax.nn, "
    "elementwise ones of jax.numpy, or trusted=True, which imports what the text names"
)

# Classes that are written with their module, and have moved since older texts were written.
MOVED = {"learndyn.networks.module:ModuleNetwork": "learndyn.models.module:ModuleNetwork"}


def qualified(value: Any) -> str:
    """The name by which a class or a function can be found: `module:path`."""
    return f"{value.__module__}:{value.__qualname__}"


def look_up(name: str) -> Any:
    """What a qualified name refers to, imported if needed; None if it does not exist."""
    module, _, path = name.partition(":")
    try:
        found = importlib.import_module(module)
        for part in path.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError):
        return None
    return found


def find(name: str, path: str, trusted: bool) -> Any:
    """What a qualified name refers to.

    Args:
        name: the name.
        path: its place in the text, for errors.
        trusted: whether the text may name, and so import, anything.

    Returns:
        A class or a function.

    Raises:
        ValueError: for a name that does not exist, or that the text may not use.
    """
    name = MOVED.get(name, name)
    if not trusted and not _may_name(name):
        raise ValueError(f"{path}: got {name!r}; allowed are {KNOWN}")
    found = look_up(name)
    if found is None:
        raise ValueError(f"{path}: {name} was not found; allowed is what can be imported here")
    return found


def find_class(name: str, path: str, trusted: bool) -> Any:
    """As `find`, for a class that `encode` writes as its name and fields."""
    kind = find(name, path, trusted)
    known = isinstance(kind, type) and (issubclass(kind, eqx.Module) or hasattr(kind, "_fields"))
    if not known and not dataclasses.is_dataclass(kind):
        raise ValueError(f"kind: got {name!r}; allowed is a class of learndyn, or one by its name")
    return kind


def _may_name(name: str) -> bool:
    """Whether a name refers, without importing other modules, to something a system may contain.

    What it refers to must have exactly this name. Otherwise a name could reach, through a module,
    the modules that it imports, such as `os`.
    """
    module, _, path = name.partition(":")
    known = module.startswith((*COMPUTING, "learndyn."))
    if not known and module not in sys.modules:
        return False
    found = look_up(name)
    if not callable(found) or _name_of(found) != name:
        return False
    if isinstance(found, type):
        return issubclass(found, Value | AbstractActivation | np.generic)
    if module in ("numpy", "jax.numpy"):  # other functions of these modules read files
        return isinstance(getattr(np, path, None), np.ufunc)
    return module.startswith(COMPUTING)  # of others, functions read files or call their arguments


def _name_of(value: Any) -> str:
    try:
        return qualified(value)
    except AttributeError:
        return ""
