"""What every network must do. Each check takes the network, an input's shape and the target."""

import json
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import Model
from learndyn.networks import AbstractNetwork, Network
from learndyn.probes import ntk
from learndyn.system.encoding import decode, encode
from learndyn.testing.refusals import refused

Shape = tuple[int, ...]


def _drawn(network: AbstractNetwork, shape: Shape, target: Any, seed: int = 0) -> Any:
    return network.sample(np.random.default_rng(seed), shape, target)


def _inputs(shape: Shape, count: int) -> np.ndarray:
    return np.random.default_rng(2).normal(size=(count, *shape))


def outputs_have_the_shape_they_say(network: AbstractNetwork, shape: Shape, target=None) -> None:
    """Of a batch, and of a single example; an example's output does not depend on the others."""
    with jax.enable_x64(True):
        weights, x = jax.tree.map(jnp.asarray, _drawn(network, shape, target)), _inputs(shape, 5)
        axis = network.output_shape(shape)
        of_one = (
            (lambda w, x: network(w, x[0]))
            if network.accepts_single_example
            else lambda w, x: network(w, x[:1])[0]
        )
        several, one = jax.jit(lambda w, x: (network(w, x), of_one(w, x[2:])))(weights, x)
        assert several.shape == (5, *axis), f"outputs: got {several.shape}, stated is {axis}"
        assert one.shape == axis, f"output of one example: got {one.shape}, stated is {axis}"
        np.testing.assert_allclose(several[2], one, rtol=1e-12, atol=1e-12)


def precision_is_that_of_the_weights(network: AbstractNetwork, shape: Shape, target=None) -> None:
    """No constant of the network raises or lowers it."""
    with jax.enable_x64(True):
        for dtype in (np.float32, np.float64):
            drawn = _drawn(network, shape, target)
            weights = jax.tree.map(lambda w, d=dtype: jnp.asarray(w, d), drawn)
            found = jax.eval_shape(network, weights, _inputs(shape, 2).astype(dtype)).dtype
            assert found == dtype, f"outputs: got {found} for weights in {dtype}"


def tangent_kernel_is_the_product_of_jacobians(
    network: AbstractNetwork, shape: Shape, target=None
) -> None:
    """`ld.ntk` against the dense Jacobian of all weights."""
    drawn, x = _drawn(network, shape, target), _inputs(shape, 4)
    weights = jax.tree.map(lambda w: np.asarray(w, np.float64), drawn)
    with jax.enable_x64(True):
        flat = lambda w: network(w, jnp.asarray(x)).reshape(4, -1)
        rows = jax.tree.leaves(jax.jit(jax.jacrev(flat))(weights))
    J = np.concatenate([np.reshape(part, (4, rows[0].shape[1], -1)) for part in rows], axis=2)
    found = ntk(Model(network, weights), x)
    expected = np.einsum("iap,jbp->iajb", J, J)
    assert found.dtype == np.float64
    np.testing.assert_allclose(
        found, expected.reshape(found.shape), rtol=0, atol=1e-13 * expected.max()
    )


def draws_are_float64_and_follow_the_seed(
    network: AbstractNetwork, shape: Shape, target=None
) -> None:
    """The same seed draws the same weights; those of `ld.Network` are as `init` makes them."""
    same, again = (_drawn(network, shape, target, seed=1) for _ in range(2))
    for a, b in zip(jax.tree.leaves(same), jax.tree.leaves(again), strict=True):
        own = isinstance(network, Network)
        assert own or a.dtype == np.float64, f"weights: got {a.dtype}, allowed is float64"
        np.testing.assert_array_equal(a, b)


def inputs_that_do_not_fit_are_refused(network: AbstractNetwork, shape: Shape, target=None) -> None:
    """In one line that says what is allowed."""
    network.check_input(shape)
    if isinstance(network, Network) and network.shape is None:
        return  # its function says what fits
    with refused(r"\A[^\n]*allowed[^\n]*\Z"):
        network.check_input((*shape, 5))


def prints_as_a_call(network: AbstractNetwork, shape: Shape, target=None) -> None:
    """`repr` is the call that makes it."""
    assert repr(network).startswith(f"{type(network).__name__}("), repr(network)


def is_written_and_read_again(network: AbstractNetwork, shape: Shape, target=None) -> None:
    """As JSON, and the network that is read gives the same outputs, bit for bit."""
    text = json.dumps(encode(network))
    if isinstance(network, Network):
        return  # its functions may have no name by which a reader finds them
    again = decode(json.loads(text))
    assert json.dumps(encode(again)) == text
    with jax.enable_x64(True):
        both = jax.jit(lambda w, x: (again(w, x), network(w, x)))
        np.testing.assert_array_equal(*both(_drawn(network, shape, target), _inputs(shape, 3)))


def weights_of_other_shapes_are_refused(
    network: AbstractNetwork, shape: Shape, target=None
) -> None:
    """In one line that names both shapes."""
    weights = _drawn(network, shape, target)
    network.check_weights(weights, shape)
    wrong = jax.tree.map(lambda w: np.stack([w, w]), weights)
    with refused(r"\Aweights: got shapes [^\n]*allowed is [^\n]*\Z"):
        network.check_weights(wrong, shape)


CHECKS = (
    outputs_have_the_shape_they_say,
    precision_is_that_of_the_weights,
    tangent_kernel_is_the_product_of_jacobians,
    draws_are_float64_and_follow_the_seed,
    inputs_that_do_not_fit_are_refused,
    prints_as_a_call,
    is_written_and_read_again,
    weights_of_other_shapes_are_refused,
)
