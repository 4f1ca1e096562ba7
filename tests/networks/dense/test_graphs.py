"""DenseNet, residual networks and networks on graphs: by hand, against each other, bad input."""

import itertools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

X = np.random.default_rng(1).normal(size=(6, 3))
GRAPH = {"x0": ["a", "b"], "x1": ["b", "out"], "x2": ["a"], "a": ["c"], "b": ["c", "out"]}
GRAPH |= {"c": ["out"]}


def weights_of(network, seed=0):
    return network.sample(np.random.default_rng(seed), network.input_shape)


def evaluated(network, weights, x=X):
    with jax.enable_x64(True):
        return np.asarray(eqx.filter_jit(network)(weights, x))


@pytest.mark.parametrize("parameterisation", ["ntk", "standard"])
@pytest.mark.parametrize("dropped", [0.0, 0.5])
def test_dense_net_by_hand(parameterisation, dropped):
    """Neuron by neuron, Eqs. A.5 and A.6, each with the links that it has."""
    network = ld.DenseNet(
        [3, 4, 5, 2], "tanh", dropped=dropped, parameterisation=parameterisation, bias=True
    )
    weights, seen = weights_of(network), X
    for i, (w, b) in enumerate(weights):
        columns = []
        for j, row in enumerate(w):
            there = np.flatnonzero(row)  # a weight of a link that exists is zero with chance zero
            scale = 1 / np.sqrt(len(there)) if parameterisation == "ntk" else 1
            columns.append(scale * seen[:, there] @ row[there] + b[j])
        h = np.stack(columns, axis=1)
        seen = np.concatenate([seen, np.tanh(h)], axis=1) if i < 2 else seen
    np.testing.assert_allclose(evaluated(network, weights), h, rtol=1e-12)


def test_dropped_links_are_of_the_probability_and_leave_one_to_each_neuron():
    network = ld.DenseNet([2, 300, 300, 1], "relu", dropped=0.6, key=3)
    left = np.concatenate([links.ravel() for links in network.links[1:]])
    # A share of n coins is known to √(p(1 − p)/n); rows that are drawn anew play no part here.
    assert np.mean(left) == pytest.approx(0.4, abs=4.5 * np.sqrt(0.24 / left.size))
    # With two inputs 0.36 of the first layer's neurons would have lost both.
    assert all(links.any(axis=1).all() for links in network.links)
    other = ld.DenseNet([2, 300, 300, 1], "relu", dropped=0.6, key=4)
    assert np.any(other.links[1] != network.links[1])


def test_links_that_do_not_exist_have_no_gradient_and_play_no_part():
    network = ld.DenseNet([3, 4, 1], "tanh", dropped=0.5, key=1)
    weights = weights_of(network)
    with jax.enable_x64(True):
        gradient = jax.jit(jax.grad(lambda w: jnp.sum(network(w, X))))(weights)
    first, last = (np.asarray(g.weight) for g in gradient)
    np.testing.assert_array_equal(last != 0, network.links[1])
    heard = network.links[1][0, 3:]  # a neuron that the output does not see has no gradient
    np.testing.assert_array_equal(first != 0, network.links[0] & heard[:, None])
    assert heard.any() and not network.links[0][heard].all()
    anything = tuple(w._replace(weight=np.where(l, w.weight, 7.0)) for w, l in zip(
        weights, network.links, strict=True))  # fmt: skip
    np.testing.assert_array_equal(evaluated(network, weights), evaluated(network, anything))


@pytest.mark.parametrize("skip", [1, 2])
def test_residual_network_by_hand(skip):
    network = ld.ResidualMLP([3, 4, 4, 4, 2], "swish", skip=skip, bias=True)
    weights, f = weights_of(network), [X]
    for i, (w, b) in enumerate(weights):
        h = f[-1] @ w.T / np.sqrt(w.shape[1]) + b
        f.append(h / (1 + np.exp(-h)) + (f[i + 1 - skip] if skip <= i < 3 else 0))
    np.testing.assert_allclose(evaluated(network, weights), h, rtol=1e-12)


def by_hand(graph, value, x, g):
    """The outputs of a graph, vertex by vertex; value(u, v) is the weight of an edge."""
    before = {}
    for u, after in graph.items():
        for v in after:
            before.setdefault(v, []).append(u)
    known = {f"x{i}": x[:, i] for i in range(x.shape[1])}

    def neuron(v):
        if v not in known:
            h = sum(value(u, v) * neuron(u) for u in before[v]) / np.sqrt(len(before[v]))
            known[v] = g(h) if v in graph else h
        return known[v]

    return neuron("out")


def test_graph_by_hand():
    """Layers are (a, b), (c) and (out): weights of a layer span all that it may see."""
    network = ld.DAG(GRAPH, "tanh", inputs=["x0", "x1", "x2"])
    first, second, third = (w.weight for w in weights_of(network))
    assert first.shape == (2, 3) and second.shape == (1, 2) and third.shape == (1, 5)
    at = {
        ("x0", "a"): first[0, 0], ("x2", "a"): first[0, 2], ("x0", "b"): first[1, 0],
        ("x1", "b"): first[1, 1], ("a", "c"): second[0, 0], ("b", "c"): second[0, 1],
        ("x1", "out"): third[0, 0], ("b", "out"): third[0, 3], ("c", "out"): third[0, 4],
    }  # fmt: skip
    assert np.count_nonzero(first) + np.count_nonzero(second) + np.count_nonzero(third) == len(at)
    expected = by_hand(GRAPH, lambda u, v: at[u, v], X, np.tanh)
    np.testing.assert_allclose(evaluated(network, weights_of(network)), expected, rtol=1e-12)
    assert [d.tolist() for d in network.degrees] == [[2, 2], [2], [3]] and network.width == 2


def test_graphs_of_the_other_networks_are_the_other_networks():
    """An MLP and a half-dropped DenseNet, given by their edges."""
    mlp = ld.MLP([3, 4, 2], "tanh")
    layers = [range(3), range(3, 7), range(7, 9)]
    edges = [e for a, b in itertools.pairwise(layers) for e in itertools.product(a, b)]
    weights = weights_of(mlp)
    np.testing.assert_allclose(
        evaluated(ld.DAG(edges, "tanh"), weights), evaluated(mlp, weights), rtol=1e-13
    )
    dense = ld.DenseNet([3, 8, 7, 2], "relu", dropped=0.5, key=1)
    starts = np.cumsum([3, 8, 7])
    edges = [
        (int(u), int(start + v))
        for start, links in zip(starts, dense.links, strict=True)
        for v, u in np.argwhere(links)
    ]
    # A neuron of the second layer that kept links to inputs alone would change its layer.
    assert all(links[:, 3:].any(axis=1).all() for links in dense.links[1:])
    graph, weights = ld.DAG(edges, "relu", inputs=range(3), outputs=[18, 19]), weights_of(dense)
    spans = [w.weight[:, a:b] for w, (_, a, b) in zip(weights, graph.layers, strict=True)]
    again = tuple(w._replace(weight=s) for w, s in zip(weights, spans, strict=True))
    np.testing.assert_allclose(evaluated(graph, again), evaluated(dense, weights), rtol=1e-13)


def test_edges_are_dropped_before_degrees_and_layers_are_counted():
    layers = [range(20), range(20, 60), range(60, 61)]
    edges = [e for a, b in itertools.pairwise(layers) for e in itertools.product(a, b)]
    network = ld.DAG(edges, "relu", dropped=0.5, key=2)
    kept = sum(int(d.sum()) for d in network.degrees)
    assert abs(kept - len(edges) / 2) < 4.5 * np.sqrt(len(edges) / 4)
    assert network.input_shape == (20,) and network.output_shape((20,)) == ()
    weights = weights_of(network)
    assert sum(np.count_nonzero(w.weight) for w in weights) == kept
    assert min(d.min() for d in network.degrees) >= 1


def test_bottleneck_neurons_and_outputs_of_different_layers():
    """Fig. 2.3: a neuron n of in-degree 1; and outputs that do not stand in one layer."""
    graph = {"x0": ["a", "b", "o1"], "x1": ["a", "b"], "a": ["n"], "b": ["o2"], "n": ["o2"]}
    network = ld.DAG(graph, "tanh", outputs=["o2", "o1"])
    weights, x = weights_of(network), X[:, :2]
    assert network.width == 1 and network.output_shape((2,)) == (2,)
    # Layers are (a, b, o1), (n), (o2), the last over the columns b, o1, n.
    first, second, third = (w.weight for w in weights)
    a, b = (np.tanh(x @ first[i] / np.sqrt(2)) for i in range(2))
    n = np.tanh(a * second[0, 0])
    expected = np.stack([(b * third[0, 0] + n * third[0, 2]) / np.sqrt(2), x[:, 0] * first[2, 0]])
    np.testing.assert_allclose(evaluated(network, weights, x), expected.T, rtol=1e-12)
    assert first[2, 1] == 0 and third[0, 1] == 0


def test_networkx_graphs():
    networkx = pytest.importorskip("networkx")
    graph = networkx.DiGraph(GRAPH)
    network, other = ld.DAG(graph, "tanh"), ld.DAG(GRAPH, "tanh")
    weights = weights_of(network)
    np.testing.assert_array_equal(evaluated(network, weights), evaluated(other, weights))
    with pytest.raises(ValueError, match=r"graph: got an undirected graph"):
        ld.DAG(networkx.Graph(GRAPH), "tanh")
    drawn = networkx.gnp_random_graph(40, 0.3, seed=1)
    acyclic = networkx.DiGraph([(u, v) for u, v in drawn.edges if u < v])
    generations = list(networkx.topological_generations(acyclic))
    network = ld.DAG(acyclic, "relu")
    assert [n for n, _, _ in network.layers] == [len(each) for each in generations[1:]]


SYSTEMS = {
    "dense net": ld.DenseNet([3, 4, 4, 1], "relu", dropped=0.5, key=2, bias=True),
    "residual": ld.ResidualMLP([3, 4, 4, 1], "tanh", output="tanh"),
    "graph": ld.DAG(GRAPH, "swish", dropped=0.2, key=5),
}


@pytest.mark.parametrize("network", SYSTEMS.values(), ids=SYSTEMS)
def test_systems_are_written_and_read_again(network):
    it = ld.System(ld.Dataset(X, np.ones(6)), network, ld.GradientDescent(0.1))
    again = ld.System.from_json(it.to_json())
    assert again.to_json() == it.to_json() and it.not_in_json() == []
    assert repr(again.network) == repr(network) and "links" not in repr(network)
    weights = weights_of(network)
    np.testing.assert_array_equal(evaluated(again.network, weights), evaluated(network, weights))


def test_a_rule_with_nodes_teaches_a_graph():
    it = ld.System(ld.Dataset(X, np.ones(6)), SYSTEMS["graph"], ld.NodePerturbation(0.02))
    record = ld.simulate(it, [0, 300], key=2, dtype="float64")
    assert record.error[0, 1] < record.error[0, 0]


CHAIN = {0: [2], 1: [2], 2: [3]}
BAD = [
    (lambda: ld.DAG({"a": ["b"], "b": ["c"], "c": ["b", "d"]}, "relu"), "graph: got the cycle"),
    (lambda: ld.DAG({0: [0, 1]}, "relu"), "graph: got the cycle 0 → 0"),
    (
        lambda: ld.DAG(CHAIN, "relu", inputs=[0]),
        "graph: got the neuron 1 without inputs; allowed are neurons with an incoming edge",
    ),
    (lambda: ld.DAG({**CHAIN, 4: []}, "relu"), "graph: got the neuron 4 without inputs"),
    (lambda: ld.DAG([(0, 1), (0, 1)], "relu"), "graph: got 0 → 1 twice"),
    (lambda: ld.DAG([], "relu"), "graph: got no edges"),
    (lambda: ld.DAG(3, "relu"), "graph: got an int; allowed is a networkx.DiGraph"),
    (lambda: ld.DAG(CHAIN, "relu", inputs=[0, 2]), "inputs: got 2; allowed are vertices"),
    (lambda: ld.DAG(CHAIN, "relu", outputs=[2]), "outputs: got 2; allowed are vertices"),
    (lambda: ld.DAG(CHAIN, "relu", outputs=["z"]), "outputs: got 'z'"),
    (lambda: ld.DAG(CHAIN, "relu", outputs=[3, 3]), "outputs: got [3, 3]; allowed are different"),
    (lambda: ld.DAG(CHAIN, "relu", dropped=1.0), "dropped: got 1.0; allowed is a number from 0"),
    (lambda: ld.DenseNet([3], "relu"), "widths: got (3,)"),
    (lambda: ld.DenseNet([3, 1], "relu", dropped=-0.1), "dropped: got -0.1"),
    (lambda: ld.DenseNet([3, 1], "step"), "activation: got 'step'"),
    (lambda: ld.ResidualMLP([3, 4, 5, 1], "relu"), "widths: got hidden widths 4 and 5"),
    (lambda: ld.ResidualMLP([3, 4, 4, 1], "relu", skip=0), "skip: got 0"),
    (lambda: ld.ResidualMLP([3, 4, 1], "relu", output="max"), "output: got 'max'"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "said"), BAD)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
