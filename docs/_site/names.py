"""The public names, each with the one address under which the site documents it."""

import functools
import inspect
import types

import learndyn as ld
import learndyn.plotting

# The groups of the top level, by the module that has the object.
GROUPS = {
    "system": (
        "Systems and records",
        "system starting solving simulation records runtime sweeping",
    ),
    "problems": ("Problems", "problems"),
    "networks": ("Networks", "networks numerics tangent"),
    "models": ("Models", "models"),
    "rules": ("Update rules", "rules"),
    "theory": ("Theories", "theory"),
    "probes": ("Probes", "probes"),
    "analysis": ("Analysis", "analysis"),
    "plotting": ("Figures", "plotting"),
    "testing": ("Tests of your own parts", "testing"),
}

# What objects are that have no docstring of their own.
DATA = {
    "learndyn.log": "The logger of the package: at level INFO, what long work does and how long.",
    "learndyn.testing.THEORY": "The checks of a theory; each takes a system that it covers.",
    "learndyn.testing.RULE": "The checks of a rule; each takes a system that the rule trains.",
    "learndyn.testing.NETWORK": (
        "The checks of a network; each takes it, the shape of an input, and the target."
    ),
    "learndyn.theory.THEORIES": "The theories that are registered, in the order of the search.",
}


def exported(room: types.ModuleType) -> dict[str, object]:
    """The objects that a room offers: what it has under a name without an underscore."""
    names = [name for name in vars(room) if not name.startswith("_")]
    found = {name: getattr(room, name) for name in names}
    return {k: v for k, v in found.items() if not isinstance(v, types.ModuleType)}


@functools.cache
def public() -> dict[str, object]:
    """Address → object; an object at the top level and in a room has the shorter address."""
    top = {name: getattr(ld, name) for name in ld.__all__ if name != "__version__"}
    rooms = {name: each for name, each in top.items() if isinstance(each, types.ModuleType)}
    found = {f"learndyn.{name}": each for name, each in top.items() if name not in rooms}
    rooms["plotting"] = learndyn.plotting  # what studies draw with; it is imported by its own name
    known = {id(each) for each in found.values()}
    for room, module in rooms.items():
        for name, each in exported(module).items():
            if id(each) not in known:
                known.add(id(each))
                found[f"learndyn.{room}.{name}"] = each
    return found


@functools.cache
def addresses() -> dict[str, str]:
    """Every way in which a text may write a public object → its address."""
    found = {}
    for address, each in public().items():
        home = f"{getattr(each, '__module__', '')}.{getattr(each, '__qualname__', '')}"
        short = address.removeprefix("learndyn.")
        found |= {home: address, address: address, short: address, f"ld.{short}": address}
        found.setdefault(address.rsplit(".", 1)[1], address)
    return found


def group_of(address: str, each: object) -> str:
    """The page of the reference on which an object stands."""
    module = getattr(each, "__module__", None) or address
    home = address if address.count(".") == 2 else module
    room = home.partition("learndyn.")[2].split(".")[0]
    named = [key for key, (_, rooms) in GROUPS.items() if room in rooms.split()]
    return named[0] if named else "system"


def kind_of(each: object) -> str:
    """The directive of autodoc for an object."""
    if inspect.isclass(each):
        return "autoexception" if issubclass(each, BaseException) else "autoclass"
    return "autofunction" if callable(each) else "autodata"


def base_of(each: type) -> type | None:
    """The nearest public class that a class is derived from."""
    known = {id(other) for other in public().values()}
    return next((base for base in each.__mro__[1:] if id(base) in known), None)
