"""Directed acyclic graphs: reading them, and arranging their vertices in layers."""

from collections.abc import Hashable, Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any, NamedTuple

import numpy as np

from learndyn.runtime.checks import a_kind, shown


class Graph(NamedTuple):
    """A directed graph whose vertices are numbered from 0.

    Attributes:
        edges: (edges, 2) of vertices (from, to).
        inputs: vertices without incoming edges, in the order of the network's inputs.
        outputs: vertices without outgoing edges, in the order of the network's outputs.
    """

    edges: np.ndarray
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]

    @property
    def size(self) -> int:
        """The number of vertices."""
        return 1 + max(int(self.edges.max()), *self.inputs)


def read(graph: Any, inputs: Iterable[Any] | None, outputs: Iterable[Any] | None) -> Graph:
    """A user's graph, checked.

    Vertices named 0 … V−1 keep their numbers; others are numbered in order of appearance.

    Args:
        graph: a networkx.DiGraph, a mapping vertex → successors, or pairs (from, to).
        inputs: the input vertices in their order; None for all without incoming edges.
        outputs: the output vertices in their order; None for all without outgoing edges.

    Returns:
        The graph.

    Raises:
        ValueError: for a cycle, a neuron without incoming edges, or a repeated edge.
    """
    names, pairs = _pairs(graph)
    ends = [_listed("inputs", inputs), _listed("outputs", outputs)]
    # An input may be a vertex without edges, which a list of pairs does not mention.
    number = _numbered([*names, *(v for pair in pairs for v in pair), *(ends[0] or ())])
    names = list(number)
    edges = np.array([(number[u], number[v]) for u, v in pairs], dtype=np.int64).reshape(-1, 2)
    _check_edges(edges, names)
    fed, feeding = (np.bincount(edges[:, i], minlength=len(names)) > 0 for i in (1, 0))
    first = _ends("inputs", ends[0], number, ~fed, feeding)
    last = _ends("outputs", ends[1], number, ~feeding & fed, fed)
    alone = next((v for v in range(len(names)) if not fed[v] and v not in first), None)
    if alone is not None:
        came = f"the neuron {names[alone]!r} without inputs"
        allowed = "neurons with an incoming edge; list all others in `inputs`"
        raise ValueError(f"graph: got {came}; allowed are {allowed}")
    return Graph(edges, first, last)


def _listed(name: str, vertices: Any) -> list[Any] | None:
    if vertices is None:
        return None
    if not isinstance(vertices, list | tuple | np.ndarray | range):
        raise ValueError(f"{name}: got {shown(vertices)}; allowed is a list of vertices, or None")
    number = isinstance(vertices, np.ndarray) and vertices.ndim == 0
    if number or not all(isinstance(v, Hashable) for v in vertices):
        raise ValueError(f"{name}: got {shown(vertices)}; allowed are vertices of the graph")
    return list(vertices)


def _numbered(names: list[Any]) -> dict[Any, int]:
    names = list(dict.fromkeys(names))  # without repetitions, in order of appearance
    whole = all(isinstance(v, int | np.integer) for v in names)
    plain = whole and set(names) == set(range(len(names)))
    return {name: i for i, name in enumerate(sorted(names) if plain else names)}


def layers(edges: np.ndarray, inputs: tuple[int, ...], size: int) -> list[list[int]]:
    """Vertices by the longest path that leads to them (Def. 2.2.1), inputs left out."""
    before: dict[int, list[int]] = {v: [] for v in range(size)}
    for u, v in edges.tolist():
        before[v].append(u)
    level = dict.fromkeys(inputs, 0)
    # Predecessors come first in a topological order, so that their levels are known.
    for v in TopologicalSorter(before).static_order():
        level[v] = 1 + max(level[u] for u in before[v]) if before[v] else 0
    deepest = max(level.values())
    return [sorted(v for v in level if level[v] == l) for l in range(1, deepest + 1)]


def _pairs(graph: Any) -> tuple[list[Any], list[tuple[Any, Any]]]:
    """Names of vertices, if they are given besides the edges, and the edges."""
    if hasattr(graph, "nodes") and hasattr(graph, "edges"):
        if not graph.is_directed():
            raise ValueError("graph: got an undirected graph; allowed is a networkx.DiGraph")
        # Edges of a MultiDiGraph are triples (from, to, key).
        return list(graph.nodes), [(u, v) for u, v, *_ in graph.edges]
    try:
        if isinstance(graph, Mapping):
            return list(graph), [(u, v) for u, after in graph.items() for v in after]
        return [], [(u, v) for u, v in graph]
    except Exception:  # objects of other kinds may raise anything when iterated
        allowed = "a networkx.DiGraph, a dict vertex → successors, or pairs (from, to)"
        raise ValueError(f"graph: got {a_kind(graph)}; allowed is {allowed}") from None


def _check_edges(edges: np.ndarray, names: list[Any]) -> None:
    if not len(edges):
        raise ValueError("graph: got no edges; allowed is at least one")
    _, first, count = np.unique(edges, axis=0, return_index=True, return_counts=True)
    if np.any(count > 1):
        u, v = edges[first[np.argmax(count > 1)]]
        raise ValueError(f"graph: got {names[u]!r} → {names[v]!r} twice; allowed is one edge")
    before: dict[int, list[int]] = {}
    for u, v in edges.tolist():
        before.setdefault(v, []).append(u)
    try:
        TopologicalSorter(before).prepare()
    except CycleError as error:
        shown = " → ".join(repr(names[v]) for v in error.args[1])
        raise ValueError(
            f"graph: got the cycle {shown}; allowed is a graph without cycles"
        ) from None


def _ends(
    argument: str, named: list[Any] | None, number: dict[Any, int], eligible: np.ndarray,
    connected: np.ndarray,
) -> tuple[int, ...]:  # fmt: skip
    """The vertices that are inputs or outputs: the named ones, or all that qualify.

    A vertex without any edge is eligible as an input, but only if it is named.
    """
    if named is None:
        return tuple(np.flatnonzero(eligible & connected).tolist())
    for name in named:
        if name not in number or not eligible[number[name]]:
            kind = "incoming" if argument == "inputs" else "outgoing"
            allowed = f"vertices of the graph without {kind} edges"
            raise ValueError(f"{argument}: got {name!r}; allowed are {allowed}")
    if len(set(named)) != len(named) or not named:
        raise ValueError(f"{argument}: got {named}; allowed are different vertices, at least one")
    return tuple(number[name] for name in named)
