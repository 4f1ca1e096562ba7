"""Layers whose Jacobian rows follow from their inputs and node gradients.

A mode sees every call of a known function of PyTorch, whether a module or the user's own code makes
it, with the weights it is called with. The examples may be on any axis of its output, or merged
with positions; where there is a choice, the gradients of single examples decide.
"""

import inspect
from collections.abc import Iterator
from typing import Any, NamedTuple
from unittest import mock

from learndyn.models.pytorch.evaluation import functional, overrides, torch
from learndyn.models.pytorch.rows import Dense, Looked, Plain

CONVOLUTIONS = {functional.conv1d: 1, functional.conv2d: 2, functional.conv3d: 3}
BY_SHAPE = (functional.layer_norm, functional.rms_norm)
NORMS = (functional.batch_norm, functional.group_norm, *BY_SHAPE)
BY_CHANNEL = (*CONVOLUTIONS, functional.batch_norm, functional.group_norm)  # on the second axis
# Functions of C have no signature.
ARGUMENTS = {
    functional.linear: ("input", "weight", "bias"),
    **dict.fromkeys(
        CONVOLUTIONS, ("input", "weight", "bias", "stride", "padding", "dilation", "groups")
    ),
}


class Site(NamedTuple):
    """One call of a function.

    Attributes:
        function: such as `torch.nn.functional.linear`.
        options: its arguments by name, with detached inputs.
        node: what it returned.
        roles: "weight" and "bias" → the name of the weight.
    """

    function: Any
    options: dict[str, Any]
    node: Any
    roles: dict[str, str]

    @property
    def features(self) -> int:
        """The number of the node's last axes that a weight acts on, with channels last."""
        return len(self.options["normalized_shape"]) if self.function in BY_SHAPE else 1

    @property
    def lead(self) -> tuple[int, ...]:
        """The axes of the node in which examples may be."""
        by_channel = self.function in BY_CHANNEL
        return tuple(self.node.shape[: 1 if by_channel else self.node.ndim - self.features])

    def rows(self, role: str, order: "Order", at_nodes: list[Any]) -> Any:
        """The rows of a weight, from the gradients of every output by the node."""
        delta = torch.stack([self._ordered(g, order) for g in at_nodes], 1)  # (n, k, …, features)
        if role == "bias":
            return self._summed(delta)
        if self.function in NORMS:
            none = {role: None for role in ("weight", "bias") if role in self.options}
            bare = self.function(**self.options | none)
            return self._summed(delta * self._ordered(bare, order)[:, None])
        inputs, delta = self.options["input"], delta.flatten(2, -2)
        if self.function is functional.embedding:
            tokens, weight = order(inputs, inputs.ndim), self.options["weight"]
            return Looked(tokens, delta, weight.new_empty(len(tokens), 0, weight.numel()))
        if self.function is functional.linear:
            return Dense(order(inputs, len(self.lead)), delta)
        windows = order(self._windows(), 1).flatten(1, -2)
        return _of_groups(windows, delta, self.options.get("groups", 1))

    def _ordered(self, node: Any, order: "Order") -> Any:
        """Something of the node's shape as (examples, …, features)."""
        node = order(node, len(self.lead))
        return node.movedim(2, -1) if self.function in BY_CHANNEL else node

    def _summed(self, rows: Any) -> Plain:
        """Rows of a weight that acts on every entry alone, summed over positions."""
        return Plain(rows.flatten(-self.features).flatten(2, -2).sum(2))

    def _windows(self) -> Any:
        """The inputs of a convolution as (n, positions, channels · window)."""
        options, sides = self.options, CONVOLUTIONS[self.function]
        each = lambda name, value: _repeated(options.get(name, value), sides)
        window, x = tuple(options["weight"].shape[2:]), options["input"]
        stride, dilation = each("stride", 1), each("dilation", 1)
        padding = options.get("padding", 0)
        if padding == "same":  # an odd number has the larger part at the end
            whole = [d * (w - 1) for w, d in zip(window, dilation, strict=True)]
            around = [(p // 2, p - p // 2) for p in whole]
        else:
            around = [(p, p) for p in _repeated(0 if padding == "valid" else padding, sides)]
        x = functional.pad(x, [p for pair in reversed(around) for p in pair])
        for i in range(sides):
            x = x.unfold(2 + i, (window[i] - 1) * dilation[i] + 1, stride[i])[..., :: dilation[i]]
        positions = range(2, 2 + sides)
        x = x.permute(0, *positions, 1, *range(2 + sides, 2 + 2 * sides))
        return x.flatten(1 + sides).flatten(1, sides)


class Order(NamedTuple):
    """Where the examples are: on an axis, alone, or merged with positions before or after them."""

    examples: int
    axis: int
    first: bool = True

    def __call__(self, array: Any, lead: int) -> Any:
        """The array as (examples, the other leading axes as one, …)."""
        array = array.movedim(self.axis, 0)
        shape = (self.examples, -1) if self.first else (-1, self.examples)
        array = array.unflatten(0, shape)
        array = array if self.first else array.transpose(0, 1)
        return array.flatten(1, lead)


class Watching(overrides.TorchFunctionMode):
    """A mode that keeps every call of a known function with a weight.

    Args:
        leaves: name → weight.
    """

    def __init__(self, leaves: Any):
        super().__init__()
        self.names = {id(leaf): name for name, leaf in leaves.items()}
        self.sites: list[Site] = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func is functional.multi_head_attention_forward:
            # Its own layers are to be seen: it is run inside the mode.
            own = {"has_torch_function": lambda _: False, "_in_projection_packed": _projected}
            own = {name: own[name] for name in own if hasattr(functional, name)}  # private names
            with mock.patch.multiple(functional, **own), self:
                return func(*args, **kwargs)
        node = func(*args, **kwargs)
        if func not in ARGUMENTS and func not in NORMS and func is not functional.embedding:
            return node
        options = _named(func, args, kwargs)
        roles = {r: self.names.get(id(options.get(r))) for r in ("weight", "bias")}
        roles = {role: name for role, name in roles.items() if name is not None}
        if not roles or not _is_known(func, options):
            return node
        held = {n: a.detach() if isinstance(a, torch.Tensor) else a for n, a in options.items()}
        self.sites.append(Site(func, held, node, roles))
        return node.clone()  # in-place activations then change the clone and not the node


def _projected(q: Any, k: Any, v: Any, weight: Any, bias: Any = None) -> tuple[Any, ...]:
    """Attention's packed projections, by calls with the whole weight, of which no part is cut."""
    parts = [q] if q is k and k is v else [q, k, v]
    found = [functional.linear(part, weight, bias).chunk(3, -1) for part in parts]
    return tuple(found[min(i, len(found) - 1)][i].contiguous() for i in range(3))


def orders_of(outputs: Any, sites: list[Site]) -> dict[int, Order]:
    """Number of a site → where its examples are; sites where this is not known are left out."""
    n = len(outputs)
    choices = {i: list(_orders(site, n)) for i, site in enumerate(sites)}
    unsure = [i for i, found in choices.items() if found and sites[i].lead != (n,) and n > 1]
    if unsure:
        nodes = [sites[i].node for i in unsure]
        pull = lambda output: torch.autograd.grad(
            output.sum(), nodes, retain_graph=True, materialize_grads=True
        )
        single = {example: pull(outputs[example]) for example in {0, n // 2, n - 1}}
        for place, i in enumerate(unsure):
            found = {example: pulled[place] for example, pulled in single.items()}
            choices[i] = [o for o in choices[i] if _keeps_apart(o, len(sites[i].lead), found)]
    return {i: found[0] for i, found in choices.items() if found}


def _orders(site: Site, n: int) -> Iterator[Order]:
    """Where the examples may be."""
    for axis, size in enumerate(site.lead):
        if size == n:
            yield Order(n, axis)
    for axis, size in enumerate(site.lead):
        if size % n == 0 and size != n:
            yield Order(n, axis)
            yield Order(n, axis, first=False)


def _keeps_apart(order: Order, lead: int, single: dict[int, Any]) -> bool:
    """Whether the gradients of every example's outputs are 0 at all other examples."""
    others = (torch.cat([a[:e], a[e + 1 :]]) for e, g in single.items() for a in [order(g, lead)])
    return not any(bool(part.any()) for part in others)


def _is_known(function: Any, options: dict[str, Any]) -> bool:
    if function is functional.batch_norm:
        return not options["training"] and options["running_mean"] is not None
    if function is functional.embedding:
        return not options["sparse"] and options["max_norm"] is None
    if function in CONVOLUTIONS:
        return options["input"].ndim == 2 + CONVOLUTIONS[function]
    return options["input"].ndim > 1


def _named(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Arguments by name."""
    if function in ARGUMENTS:
        return {**dict(zip(ARGUMENTS[function], args, strict=False)), **kwargs}
    bound = inspect.signature(function).bind(*args, **kwargs)
    bound.apply_defaults()
    return dict(bound.arguments)


def _repeated(value: Any, number: int) -> tuple[int, ...]:
    return (value,) * number if isinstance(value, int) else tuple(value) * (number // len(value))


def _of_groups(windows: Any, delta: Any, groups: int) -> Any:
    """The rows of a convolution; those of several groups are few, and are formed."""
    if groups == 1:
        return Dense(windows, delta)
    windows, delta = windows.unflatten(2, (groups, -1)), delta.unflatten(3, (groups, -1))
    return Plain(torch.einsum("ntgd,nktgm->nkgmd", windows, delta).flatten(2))
