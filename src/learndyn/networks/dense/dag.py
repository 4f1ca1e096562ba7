"""Networks on directed acyclic graphs: one neuron per vertex, one weight per edge."""

from collections.abc import Iterable
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.dense import graph, links
from learndyn.networks.dense.links import Links
from learndyn.networks.parts import affine
from learndyn.runtime.checks import fraction, seed
from learndyn.runtime.types import Array, Number, Weights


class DAG(AbstractNetwork):
    """f_v = g(h_v), h_v = 1/√in(v) Σ_u w_uv f_u over edges u → v: Eq. 2.2 of zhu2024linearity.

    A vertex without incoming edges is an input; a vertex without outgoing edges is an output, and
    has no activation. Layer l consists of the neurons whose longest path from the inputs has l
    edges (Defs. 2.2.1-2.2.5). A layer is computed at once, by a matrix that covers all earlier
    neurons from the first to the last one that it sees. In-degrees count the edges that are left
    after dropping. Parameterisations are those of `MLP`. Weights are a tuple of
    `Affine(weight, bias)`, one per layer, zero where there is no edge; nodes are called "layer1" …
    A single output is a scalar.

    Args:
        edges: a networkx.DiGraph, a mapping vertex → successors, or pairs (from, to); stored as
            pairs of integers from 0.
        activation: as in `MLP`.
        inputs: the input vertices in the order of an input's entries; None for all vertices without
            incoming edges, in the graph's order.
        outputs: the output vertices in their order; None for all without outgoing edges.
        dropped: probability with which each edge is dropped, before training; every neuron keeps at
            least one.
        key: seed of the dropped edges.
        parameterisation: "ntk" or "standard", as in `MLP`.
        bias: whether neurons have biases.
        output: map of the outputs' pre-activations: "identity", "softmax", "sigmoid" or "tanh".
        gain: factor of the initial weights.

    Raises:
        ValueError: for no edges, a cycle, outputs that are no ends of the graph, an unknown
            activation, or another argument that is not allowed.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.DAG({"a": ["h", "out"], "b": ["h"], "h": ["out"]}, "tanh")
        >>> [layer.weight.shape for layer in network.like((2,))]
        [(1, 2), (1, 3)]
    """

    edges: np.ndarray
    activation: Any = eqx.field(static=True)
    inputs: tuple[int, ...] = eqx.field(static=True)
    outputs: tuple[int, ...] = eqx.field(static=True)
    dropped: np.ndarray
    key: int = eqx.field(static=True)
    parameterisation: str = eqx.field(static=True)
    bias: bool = eqx.field(static=True)
    output: str = eqx.field(static=True)
    gain: np.ndarray
    links: tuple[Links | None, ...] = eqx.field(init=False)
    # Per layer: number of neurons, and first and last column of earlier neurons that it sees.
    layers: tuple[tuple[int, int, int], ...] = eqx.field(init=False, static=True)
    # Positions of the outputs among all neurons.
    columns: tuple[int, ...] = eqx.field(init=False, static=True)

    def __init__(
        self,
        edges: Any,
        activation: Any,
        *,
        inputs: Iterable[Any] | None = None,
        outputs: Iterable[Any] | None = None,
        dropped: Number = 0.0,
        key: int = 0,
        parameterisation: str = "ntk",
        bias: bool = False,
        output: str = "identity",
        gain: Number = 1.0,
    ):
        parsed = graph.read(edges, inputs, outputs)
        self.edges, self.inputs, self.outputs = parsed
        self.dropped, self.key = fraction("dropped", dropped), seed("key", key)
        self.activation, self.parameterisation, self.bias, self.output, self.gain = affine.checked(
            activation, parameterisation, bias, output, gain
        )
        self.links, self.layers, self.columns = _arranged(parsed, self.dropped, self.key)

    @property
    def degrees(self) -> tuple[np.ndarray, ...]:
        """The in-degree of every neuron, layer by layer."""
        pairs = zip(self.links, self.layers, strict=True)
        full = lambda layer: np.full(layer[0], layer[2] - layer[1])
        return tuple(full(l) if k is None else np.sum(k, axis=1) for k, l in pairs)

    @property
    def width(self) -> int:
        """The smallest in-degree after the first layer, Eq. 2.8; 0 if there is only one layer."""
        return int(min((d.min() for d in self.degrees[1:]), default=0))

    @property
    def input_shape(self) -> Shape | None:
        return (len(self.inputs),)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return () if len(self.outputs) == 1 else (len(self.outputs),)

    @property
    def gives_logits(self) -> bool:
        return self.output == "identity"

    def __call__(self, weights: Weights, x: Array) -> Array:
        g, seen, nodes = affine.function(self.activation), x, []
        parts = zip(weights, self.layers, self.links, strict=True)
        for i, (layer, (_, first, stop), kept) in enumerate(parts, 1):
            inputs = seen[..., first:stop]
            nodes.append(links.layer(f"layer{i}", layer, inputs, kept, self.parameterisation))
            seen = jnp.concatenate([seen, g(nodes[-1])], axis=-1)
        # Outputs have no outgoing edges, but they may lie in any layer.
        h = jnp.concatenate(nodes, axis=-1)[..., np.array(self.columns)]
        return affine.finish(h, self.output)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        options = self.parameterisation, self.gain, self.bias
        pairs = zip(self._shapes, self.links, strict=True)
        return tuple(links.draw(rng, shape, kept, *options) for shape, kept in pairs)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return tuple(affine.like((n, m), n if self.bias else None) for n, m in self._shapes)

    @property
    def _shapes(self) -> list[tuple[int, int]]:
        return [(n, stop - first) for n, first, stop in self.layers]


def _arranged(parsed: graph.Graph, dropped: Array, key: int) -> tuple[Any, Any, Any]:
    """Links and sizes of the layers, and the positions of the outputs among the neurons."""
    edges = _remaining_edges(parsed, dropped, key)
    levels = graph.layers(edges, parsed.inputs, parsed.size)
    column = np.zeros(parsed.size, int)  # of each vertex: inputs first, then layer by layer
    order = [*parsed.inputs, *(v for level in levels for v in level)]
    column[order] = np.arange(len(order))
    sources, ends = column[edges[:, 0]], column[edges[:, 1]]
    kept, sizes, done = [], [], len(parsed.inputs)
    for level in levels:
        here = (ends >= done) & (ends < done + len(level))
        first, stop = sources[here].min(), sources[here].max() + 1
        there = np.zeros((len(level), stop - first), bool)
        there[ends[here] - done, sources[here] - first] = True
        kept.append(None if there.all() else there)  # None: `links.layer` needs no mask
        sizes.append((len(level), int(first), int(stop)))
        done += len(level)
    # Inputs have no pre-activation: positions of outputs are counted without them.
    columns = column[list(parsed.outputs)] - len(parsed.inputs)
    return tuple(kept), tuple(sizes), tuple(columns.tolist())


def _remaining_edges(parsed: graph.Graph, dropped: Array, key: int) -> np.ndarray:
    """The edges that are left after each is dropped with the probability `dropped`."""
    if dropped == 0:
        return parsed.edges
    rng, ends = np.random.default_rng(key), parsed.edges[:, 1]
    kept, again = np.zeros(len(ends), bool), np.ones(len(ends), bool)
    while again.any():  # edges of neurons that lost all of them are drawn again
        kept[again] = rng.random(int(again.sum())) >= dropped
        again = np.bincount(ends[kept], minlength=parsed.size)[ends] == 0
    return parsed.edges[kept]
