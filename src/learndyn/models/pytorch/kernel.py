"""The tangent kernel of a PyTorch module, from inputs and node gradients of its layers.

Inputs and nodes of layers are seen during one call (`layers.py`). If a weight is used in these
alone, the products of its Jacobian rows follow from them (`rows.py`), for dense layers and
embeddings without forming the rows. Rows of other weights are formed example by example.
"""

import warnings
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from learndyn.models.pytorch.evaluation import call, flat, torch
from learndyn.models.pytorch.layers import Watching, orders_of
from learndyn.models.pytorch.rows import Plain, joined, summed
from learndyn.runtime.memory import free_memory
from learndyn.tangent.kernel import BLOCK, ROWS

PROBED = 16  # number of examples from which the size of rows is estimated
PASSES = 4  # what a backward pass holds, in units of the gradients at nodes


def kernel(
    module: Any,
    weights: Mapping[str, Any],
    x: Any,
    x2: Any | None = None,
    *,
    block: int | None = None,
) -> Any:
    """⟨∂f_a(x_i)/∂w, ∂f_b(x'_j)/∂w⟩, (n, k, n', k), in blocks of examples where rows are many.

    `block` is how many numbers the rows of one block may take; None for `block_of` the device.
    """
    block = block_of(next(iter(weights.values()))) if block is None else block
    rows = lambda part: _rows_of(module, weights, part, block)
    parts = _parts_of(rows, x, block)
    if x2 is None and len(parts) == 1:
        return _gram(parts[0](), parts[0]())
    others = parts if x2 is None else _parts_of(rows, x2, block)
    lines = []
    for mine in parts:
        held = mine()
        lines.append(torch.cat([_gram(held, theirs()) for theirs in others], dim=2))
    return torch.cat(lines)


def block_of(weight: Any) -> int:
    """How many numbers the rows of one block may take: an eighth of what an accelerator has free.

    As for JAX (`tangent/kernel.py`): other blocks repeat the backward passes.
    """
    if weight.device.type == "cpu":
        return BLOCK
    return max(BLOCK, free_memory(weight) // (ROWS * weight.element_size()))


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
        whole = list(map(joined, first, rest))
        return [lambda: whole]
    return [lambda part=part: rows(part) for part in x.split(size)]


def _gram(rows: list[Any], others: list[Any]) -> Any:
    total = rows[0].gram(others[0])
    for mine, theirs in zip(rows[1:], others[1:], strict=True):
        total += mine.gram(theirs)
    return total


def _rows_of(module: Any, weights: Mapping[str, Any], x: Any, block: int) -> list[Any]:
    """The Jacobian's rows for a batch, by one backward pass per output."""
    leaves = {n: w.detach().requires_grad_() for n, w in weights.items()}
    with (watching := Watching(leaves)):
        outputs = flat(call(module, leaves, x))
    if not outputs.requires_grad:
        raise ValueError(
            "outputs: PyTorch has no derivative of them by the weights; allowed is a module that "
            "does not detach them"
        )
    uses = _uses(outputs)
    sites = [site for site in watching.sites if site.node.grad_fn in uses.nodes]
    orders = orders_of(outputs, sites)
    places: dict[str, list[tuple[int, str]]] = {}
    for i in orders:
        for role, name in sites[i].roles.items():
            places.setdefault(name, []).append((i, role))
    # A weight that is also used elsewhere has further rows.
    known = {name: at for name, at in places.items() if len(at) == uses.of(leaves[name])}
    # Weight and bias of a layer share a node, which is differentiated once.
    nodes = {i: sites[i].node for at in known.values() for i, _ in at}
    tensors = list(nodes.values())
    held = max(1, PASSES * sum(node.numel() for node in tensors))
    # On a CPU one pass keeps it busy.
    together = max(1, block // held) if outputs.device.type != "cpu" else 1
    at_nodes = dict(zip(nodes, _pulled(outputs, tensors, together), strict=True))
    rows = lambda i, role: sites[i].rows(role, orders[i], at_nodes[i])
    all_rows = [summed([rows(i, role) for i, role in at]) for at in known.values()]
    rest = [name for name in leaves if name not in known]
    return all_rows + ([Plain(_plain(module, weights, rest, x))] if rest else [])


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


def _pulled(outputs: Any, nodes: list[Any], together: int) -> list[list[Any]]:
    """∂output/∂node of every output, `together` of them in one backward pass."""
    if not nodes:
        return []
    # A sum over examples keeps them apart, since no output depends on another example.
    k = outputs.shape[1]
    rows = torch.eye(k, dtype=outputs.dtype, device=outputs.device)[:, None].expand(
        k, *outputs.shape
    )
    pull = lambda u, batched: torch.autograd.grad(
        outputs, nodes, u, retain_graph=True, materialize_grads=True, is_grads_batched=batched
    )
    pulled: list[list[Any]] = [[] for _ in nodes]
    for part in rows.split(together):
        try:
            found = pull(part, True) if len(part) > 1 else None
        except RuntimeError:  # not every operation can be batched
            found = None
        if found is None:
            found = [
                torch.stack(each) for each in zip(*(pull(u, False) for u in part), strict=True)
            ]
        for kept, each in zip(pulled, found, strict=True):
            kept += each
    return pulled


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
