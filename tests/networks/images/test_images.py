"""Wide ResNet, Myrtle network and vision transformer: layers, nodes, and values by equinox."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld

X = np.random.default_rng(1).normal(size=(3, 8, 8, 3))
KEY = jax.random.key(0)


def weights_of(network, shape=(8, 8, 3)):
    return network.sample(np.random.default_rng(0), shape)


def convolved(layer, x, stride=1):
    """A convolution of equinox, whose images are (channels, height, width), on a batch."""
    kernel, _, before, after = layer.weight.shape
    scale = 1 / np.sqrt(np.prod(layer.weight.shape[:3]))
    module = eqx.nn.Conv2d(
        before, after, kernel, stride, (kernel - 1) // 2, use_bias=False, key=KEY
    )
    weight = scale * jnp.moveaxis(jnp.asarray(layer.weight), (3, 2), (0, 1))
    return jax.vmap(eqx.tree_at(lambda m: m.weight, module, weight))(x)


def relu(x):
    return jnp.maximum(x, 0)


def finished(layer, x):
    """Mean over pixels of (batch, channels, height, width), then the dense layer."""
    w = layer.weight
    return x.mean((2, 3)) @ w.T / np.sqrt(w.shape[1])


def test_wide_resnet_by_equinox():
    network = ld.WideResNet(10, 2, 4)
    w = weights_of(network)
    with jax.enable_x64(True):
        x = convolved(w[0], jnp.moveaxis(X, -1, 1))
        for block, stride in enumerate((1, 2, 2)):
            first, second, skip = w[1 + 3 * block : 4 + 3 * block]
            # A padded window of stride 2 is centred on the even pixels, in equinox too.
            inner = convolved(second, relu(convolved(first, relu(x), stride)))
            x = inner + convolved(skip, relu(x), stride)
        np.testing.assert_allclose(network(w, X), finished(w[-1], relu(x)), rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize(
    ("depth", "widen", "million"), [(28, 10, 36.5), (40, 4, 8.9), (16, 8, 11.0)]
)
def test_wide_resnets_have_their_published_sizes(depth, widen, million):
    """Table 4 of Zagoruyko & Komodakis (2016); norms, which we leave out, are below 0.1 %."""
    layers = ld.WideResNet(depth, widen, 10).layers((32, 32, 3))
    count = sum(np.prod(layer.shape) for layer in layers)
    assert count == pytest.approx(1e6 * million, abs=6e4)  # printed to 0.1 million


def test_blocks_that_change_nothing_pass_x_on():
    network = ld.WideResNet(16, 1, 2)
    w = list(weights_of(network))
    for second in (2, 4, 6, 9, 11, 14):  # W₂ of each block: its sum is the shortcut alone
        w[second] = w[second]._replace(weight=0 * w[second].weight)
    assert [layer.weight.shape[0] for layer in w[:-1]] == [
        3,
        3,
        3,
        3,
        3,
        3,
        3,
        1,
        3,
        3,
        3,
        3,
        1,
        3,
        3,
    ]
    with jax.enable_x64(True):
        x = convolved(w[0], jnp.moveaxis(X, -1, 1))
        for skip in (7, 12):
            x = convolved(w[skip], relu(x), 2)
        np.testing.assert_allclose(network(tuple(w), X), finished(w[-1], relu(x)), rtol=1e-10)


def test_myrtle_by_equinox():
    network, pool = ld.Myrtle(4, 3), eqx.nn.AvgPool2d(2, 2)
    w = weights_of(network)
    assert len(w) == 5
    with jax.enable_x64(True):
        x = jnp.moveaxis(X, -1, 1)
        for i, layer in enumerate(w[:-1]):
            x = jax.vmap(pool)(x) if i in (2, 3) else x
            x = relu(convolved(layer, x))
        np.testing.assert_allclose(network(w, X), finished(w[-1], x), rtol=1e-10)
    assert [len(ld.Myrtle(2, 1, depth=d).layers((8, 8, 3))) for d in (7, 10)] == [7, 10]


def test_transformer_by_equinox():
    """Attention and norms of equinox, one image at a time; weights of norms are not 1."""
    network = ld.ViT(4, 6, 2, 3, 5, hidden=7)
    drawn = weights_of(network)
    rng = np.random.default_rng(3)
    w = drawn._replace(norms=jax.tree.map(lambda a: a + rng.normal(size=a.shape), drawn.norms))
    dense = lambda layer, x: x @ layer.weight.T / np.sqrt(layer.weight.shape[1])

    def norm(n, x):
        module = eqx.nn.LayerNorm(6)
        return jax.vmap(eqx.tree_at(lambda m: (m.weight, m.bias), module, tuple(n)))(x)

    def attention(qkv, projection, x):
        module = eqx.nn.MultiheadAttention(3, 6, key=KEY)
        parts = [part / np.sqrt(6) for part in (*np.split(qkv.weight, 3), projection.weight)]
        names = ("query_proj", "key_proj", "value_proj", "output_proj")
        where = lambda m: [getattr(m, name).weight for name in names]
        return eqx.tree_at(where, module, [jnp.asarray(p) for p in parts])(x, x, x)

    def one(x):
        patches = [x[i : i + 4, j : j + 4].reshape(-1) for i in (0, 4) for j in (0, 4)]
        x = jnp.stack([w.token, *(dense(w.layers[0], p) for p in patches)]) + w.position
        for block in range(2):
            a, b, up, down = w.layers[1 + 4 * block : 5 + 4 * block]
            x = x + attention(a, b, norm(w.norms[2 * block], x))
            x = x + dense(down, relu(dense(up, norm(w.norms[2 * block + 1], x))))
        return dense(w.layers[-1], norm(w.norms[-1], x)[0])

    with jax.enable_x64(True):
        expected = np.stack([one(jnp.asarray(x)) for x in X])
        np.testing.assert_allclose(network(w, X), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    ("network", "nodes"),
    [(ld.WideResNet(10, 2, 1), 11), (ld.Myrtle(2, 1), 5), (ld.ViT(4, 4, 2, 2, 1), 10)],
)
def test_every_layer_is_a_node(network, nodes):
    _, found = ld.forward(network, weights_of(network), X)
    assert list(found) == [f"layer{i}" for i in range(1, nodes + 1)]
    assert len(network.layers((8, 8, 3))) == nodes


@pytest.mark.parametrize(
    "make",
    [
        lambda way: ld.WideResNet(10, 1, 1, parameterisation=way),
        lambda way: ld.Myrtle(4, 1, parameterisation=way),
        lambda way: ld.ViT(4, 4, 2, 2, 1, parameterisation=way),
    ],
)
def test_parameterisations_are_one_function_of_scaled_weights(make):
    """w/√fan_in in "standard" is w in "ntk"."""
    ntk, standard = make("ntk"), make("standard")
    w = weights_of(ntk)
    layers = w.layers if hasattr(w, "layers") else w
    fans = [layer.fan_in for layer in ntk.layers((8, 8, 3))]
    scaled = tuple(
        l._replace(weight=l.weight / np.sqrt(f)) for l, f in zip(layers, fans, strict=True)
    )
    moved = w._replace(layers=scaled) if hasattr(w, "layers") else scaled
    with jax.enable_x64(True):
        np.testing.assert_allclose(standard(moved, X), ntk(w, X), rtol=1e-10)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.WideResNet(12, 2, 1), "depth: got 12; allowed is 6 n + 4"),
        (lambda: ld.WideResNet(10, 0, 1), "widen: got 0"),
        (lambda: ld.Myrtle(4, 1, depth=6), "depth: got 6; allowed is one of 5, 7, 10"),
        (lambda: ld.ViT(4, 6, 2, 4, 1), "width: got 6; allowed are multiples of the 4 heads"),
        (
            lambda: ld.ViT(4, 8, 2, 4, 1).check_input((10, 8, 3)),
            "allowed are sides that are multiples of 4",
        ),
        (
            lambda: ld.Myrtle(4, 1).check_input((6, 8, 3)),
            "allowed are sides that are multiples of 4",
        ),
        (lambda: ld.WideResNet(10, 1, 1).check_input((8, 8)), "allowed is ('any', 'any', 'any')"),
        (
            lambda: ld.System(
                ld.Dataset(np.ones((2, 6, 6, 1)), np.ones(2)), ld.Myrtle(4, 1), ld.SGD(0.1)
            ),
            "got inputs of shape (6, 6, 1); allowed are sides that are multiples of 4",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)
