"""learndyn predicts how neural networks learn, and checks the prediction."""

# Names are imported on first use (PEP 562), so that `import learndyn` is fast. The stub
# `__init__.pyi` lists them, for type checkers and for this file.
import ast
import importlib
import pkgutil
from typing import Any

from learndyn.runtime.importing import whole as _whole


def _homes() -> dict[str, str]:
    """Name → module that has it, from the imports of the stub."""
    stub = ast.parse(pkgutil.get_data(__name__, "__init__.pyi") or b"")
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


_HOMES = _homes()
globals()["__all__"] = ["__version__", *sorted(_HOMES)]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value = importlib.import_module("importlib.metadata").version(__name__)
    elif name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    else:
        is_room = _HOMES[name] == __name__
        with _whole():
            module = importlib.import_module(f"{__name__}.{name}" if is_room else _HOMES[name])
        value = module if is_room else getattr(module, name)
    globals()[name] = value  # the next access does not call this function
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), "__version__", *_HOMES})
