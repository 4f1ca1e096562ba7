"""The tangent kernel of a PyTorch module, from inputs and node gradients of its layers.

Hooks record the inputs and nodes of layers during one call. If a dense layer or convolution is
called once, and its weight is used nowhere else in the graph, the products of its Jacobian rows are
computed without forming the rows (see `tangent/jacobian.py`). Rows of other weights are formed.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from learndyn.models.pytorch.evaluation import call, flat, nn, torch
from learndyn.tangent.jacobian import pairs_are_cheaper
from learndyn.tangent.kernel import BLOCK

PROBED = 16  # number of examples from which the size of rows is estimated


class Dense(NamedTuple):
    """Rows Σ_t δ_t a_tᵀ of a dense layer: a (n, t, d), δ (n, k, t, m)."""

    inputs: Any
    at_nodes: Any

    def gram(self, other: "Dense") -> Any:
        """Products of all rows with all of another set, (n, k, n', k')."""
        if self._in_pairs(len(other.inputs)):
            inputs = torch.tensordot(self.inputs, other.inputs, ([2], [2]))
            at_nodes = torch.tensordot(self.at_nodes, other.at_nodes, ([3], [3]))
            if inputs.shape[1] == 1:
                return inputs[:, 0, :, 0][:, None, :, None] * at_nodes[:, :, 0, :, :, 0]
            return torch.einsum("itjs,iatjbs->iajb", inputs, at_nodes)
        return torch.tensordot(self._rows(), other._rows(), ([2, 3], [2, 3]))

    def numbers(self) -> int:
        """How many numbers one example needs, stored and formed by `gram`."""
        held = self.inputs[0].numel() + self.at_nodes[0].numel()
        formed = self.at_nodes.shape[1] * self.at_nodes.shape[3] * self.inputs.shape[2]
        return held + (0 if self._in_pairs(len(self.inputs)) else formed)

    def _rows(self) -> Any:
        return torch.einsum("ntd,nktm->nkdm", self.inputs, self.at_nodes)

    def _in_pairs(self, others: int) -> bool:
        return pairs_are_cheaper(self.at_nodes.shape, self.inputs.shape[2], others)


class Plain(NamedTuple):
    """The rows themselves, (n, k, entries)."""

    rows: Any

    def gram(self, other: "Plain") -> Any:
        """Products of all rows with all of another set, (n, k, n', k')."""
        return torch.tensordot(self.rows, other.rows, ([2], [2]))

    def numbers(self) -> int:
        """How many numbers one example needs."""
        return self.rows[0].numel()


class Seen(NamedTuple):
    """One call of a layer."""

    layer: Any
    inputs: Any
    node: Any


def kernel(
    module: Any, weights: Mapping[str, Any], x: Any, x2: Any | None = None, *, block: int = BLOCK
) -> Any:
    """⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩, (n, k, n', k), in blocks of examples where rows are many."""
    rows = lambda part: _rows_of(module, weights, part)
    parts = _parts_of(rows, x, block)
    if x2 is None and len(parts) == 1:
        return _gram(parts[0](), parts[0]())
    others = parts if x2 is None else _parts_of(rows, x2, block)
    lines = []
    for mine in parts:
        held = mine()
        lines.append(torch.cat([_gram(held, theirs()) for theirs in others], dim=2))
    return torch.cat(lines)


def _parts_of(rows: Callable[[Any], list[Any]], x: Any, block: int) -> list[Callable[[], Any]]:
    """Functions that return the rows of the examples, in parts of at most `block` numbers.

    If there is only one part, its rows are computed once and kept.
    """
    first = rows(x[:PROBED])
    each = max(1, sum(part.numbers() for part in first))
    size = max(1, block // each)
    if len(x) <= PROBED and len(x) <= size:
        return [lambda: first]
    if len(x) <= size:
        rest = rows(x[PROBED:])
        join = lambda a, b: type(a)(*map(torch.cat, zip(a, b, strict=True)))
        whole = list(map(join, first, rest))
        return [lambda: whole]
    return [lambda part=part: rows(part) for part in x.split(size)]


def _gram(rows: list[Any], others: list[Any]) -> Any:
    total = rows[0].gram(others[0])
    for mine, theirs in zip(rows[1:], others[1:], strict=True):
        total += mine.gram(theirs)
    return total


def _rows_of(module: Any, weights: Mapping[str, Any], x: Any) -> list[Any]:
    """The Jacobian's rows for a batch, by one backward pass per output."""
    leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
    outputs, seen = _watched(module, leaves, x)
    if not outputs.requires_grad:
        raise ValueError(
            "outputs: PyTorch has no derivative of them by the weights; allowed is a module that "
            "does not detach them"
        )
    sites = _sites(module, leaves, outputs, seen)
    # Weight and bias of a layer share a node, which is differentiated once.
    nodes = {id(s.node): s.node for s in sites.values()}
    at_nodes = dict(zip(nodes, _pulled(outputs, list(nodes.values())), strict=True))
    all_rows: list[Any] = []
    for name, site in sites.items():
        delta = _positions(site, at_nodes[id(site.node)])
        if name.rpartition(".")[2] == "bias":
            all_rows.append(Plain(delta.sum(2)))
        else:
            all_rows.append(Dense(_patches(site), delta))
    rest = [name for name in leaves if name not in sites]
    return all_rows + ([Plain(_plain(module, weights, rest, x))] if rest else [])


def _watched(module: Any, leaves: Mapping[str, Any], x: Any) -> tuple[Any, list[Seen]]:
    """Outputs, and every call of a layer of a known kind."""
    seen: list[Seen] = []

    def hook(layer: Any, arguments: Any, node: Any) -> Any:
        seen.append(Seen(layer, arguments[0].detach() if arguments else None, node))
        return node.clone()  # in-place activations then change the clone and not the node

    handles = [
        layer.register_forward_hook(hook, prepend=True)
        for layer in module.modules()
        if _is_known(layer)
    ]
    try:
        return flat(call(module, leaves, x)), seen
    finally:
        for handle in handles:
            handle.remove()


def _is_known(layer: Any) -> bool:
    """Whether a layer is a plain dense layer, or a convolution with one group and zero padding."""
    if "forward" in vars(layer):  # replaced for this instance
        return False
    if type(layer).forward is nn.Linear.forward:
        return True
    convolution = type(layer).forward is nn.Conv2d.forward
    plain = convolution and layer.groups == 1 and layer.padding_mode == "zeros"
    return plain and not isinstance(layer.padding, str)


def _sites(
    module: Any, leaves: Mapping[str, Any], outputs: Any, seen: list[Seen]
) -> dict[str, Seen]:
    """Weight → the only place where it is used; weights used elsewhere, or twice, are left out."""
    uses = _uses(outputs)
    names = {id(layer): name for name, layer in module.named_modules()}
    calls = [id(s.layer) for s in seen]
    only_uses = {}
    for site in _with_examples_first(outputs, seen):
        if calls.count(id(site.layer)) > 1 or site.node.grad_fn not in uses.nodes:
            continue
        for kind in ("weight", "bias"):
            name = f"{names[id(site.layer)]}.{kind}".removeprefix(".")
            if name in leaves and uses.of(leaves[name]) == 1:
                only_uses[name] = site
    return only_uses


def _with_examples_first(outputs: Any, seen: list[Seen]) -> list[Seen]:
    """The calls whose first axis is that of the examples.

    An axis of positions may have the same length and come first. To exclude that, the derivatives
    of the first and of the last example's outputs must be 0 at all other examples.
    """
    n = len(outputs)
    fits = [s for s in seen if s.inputs is not None and s.node.ndim > 1 and len(s.node) == n]
    # A node with two axes has no positions, and convolutions always have the examples first.
    several = [s.node for s in fits if s.node.ndim > 2 and isinstance(s.layer, nn.Linear)]
    if not several or n == 1:
        return fits
    pull = lambda output: torch.autograd.grad(
        output.sum(), several, retain_graph=True, materialize_grads=True
    )
    pairs = zip(several, pull(outputs[0]), pull(outputs[-1]), strict=True)
    mixed = {id(node) for node, first, last in pairs if first[1:].any() or last[:-1].any()}
    return [s for s in fits if id(s.node) not in mixed]


class _Uses(NamedTuple):
    """Nodes of a graph, and how often each leaf is used in it."""

    nodes: set[Any]
    counts: dict[int, int]

    def of(self, leaf: Any) -> int:
        return self.counts.get(id(leaf), 0)


def _uses(outputs: Any) -> _Uses:
    nodes, counts = set(), {}
    for node in graph_of(outputs):
        nodes.add(node)
        for after, _ in node.next_functions:
            leaf = getattr(after, "variable", None)
            if leaf is not None:
                counts[id(leaf)] = counts.get(id(leaf), 0) + 1
    return _Uses(nodes, counts)


def graph_of(outputs: Any) -> Iterator[Any]:
    """Every operation of the graph that computed the outputs, once."""
    waiting, met = [outputs.grad_fn], set()
    while waiting:
        node = waiting.pop()
        if node is not None and node not in met:
            met.add(node)
            waiting += [after for after, _ in node.next_functions]
            yield node


def _pulled(outputs: Any, nodes: list[Any]) -> list[Any]:
    """∂output/∂node, (n, k, …), one backward pass per output."""
    if not nodes:
        return []
    # A sum over examples keeps them apart, since no output depends on another example.
    columns = outputs.sum(0).unbind()
    pull = lambda column: torch.autograd.grad(
        column, nodes, retain_graph=True, materialize_grads=True
    )
    return [torch.stack(each, 1) for each in zip(*map(pull, columns), strict=True)]


def _positions(site: Seen, at_node: Any) -> Any:
    """δ as (n, k, positions, outputs of the layer)."""
    n, k = at_node.shape[:2]
    if isinstance(site.layer, nn.Linear):
        return at_node.reshape(n, k, -1, at_node.shape[-1])
    return at_node.reshape(n, k, at_node.shape[2], -1).transpose(2, 3)


def _patches(site: Seen) -> Any:
    """Inputs as (n, positions, inputs of the layer)."""
    layer, inputs = site.layer, site.inputs
    if isinstance(layer, nn.Linear):
        return inputs.reshape(len(inputs), -1, inputs.shape[-1])
    options = layer.kernel_size, layer.dilation, layer.padding, layer.stride
    return nn.functional.unfold(inputs, *options).transpose(1, 2)


def _plain(module: Any, weights: Mapping[str, Any], names: list[str], x: Any) -> Any:
    """Rows of some weights, (n, k, entries), example by example."""
    own = {name: weights[name] for name in names}
    others = {name: w for name, w in weights.items() if name not in own}

    def outputs(own: Any, x: Any) -> Any:
        return flat(call(module, {**others, **own}, x[None]))[0]

    try:
        with warnings.catch_warnings():
            # The warning is about operations without a batching rule; it is faster nevertheless.
            warnings.filterwarnings("ignore", "There is a performance drop")
            jacobians = torch.func.vmap(torch.func.jacrev(outputs), (None, 0))(own, x)
        parts = list(jacobians.values())
    except RuntimeError:  # `vmap` does not support every operation
        return torch.stack([_plain_of_one(module, weights, names, example) for example in x])
    return torch.cat([part.reshape(*part.shape[:2], -1) for part in parts], 2)


def _plain_of_one(module: Any, weights: Mapping[str, Any], names: list[str], x: Any) -> Any:
    leaves = {n: w.detach().requires_grad_(n in names) for n, w in weights.items()}
    outputs = flat(call(module, leaves, x[None]))[0]
    own = [leaves[name] for name in names]
    pull = lambda output: torch.autograd.grad(
        output, own, retain_graph=True, materialize_grads=True
    )
    rows = [torch.cat([g.reshape(-1) for g in pull(output)]) for output in outputs]
    return torch.stack(rows)
