"""Networks of equinox that know nothing of this library, with dense Jacobians and Hessians."""

import functools
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import learndyn as ld

EXAMPLES = 5


class Convolutional(eqx.Module):
    """Strides, padding, dilation and groups, then a dense layer."""

    layers: list

    def __init__(self, key):
        keys = jax.random.split(key, 4)
        self.layers = [
            eqx.nn.Conv2d(2, 3, 3, padding=1, stride=2, key=keys[0]),
            eqx.nn.Conv2d(3, 4, (2, 3), dilation=2, padding=1, key=keys[1]),
            eqx.nn.Conv2d(4, 2, 2, groups=2, use_bias=False, key=keys[2]),
            eqx.nn.Linear(6, 3, key=keys[3]),
        ]

    def __call__(self, x):
        for layer in self.layers[:-1]:
            x = jax.nn.gelu(layer(x))
        return self.layers[-1](x.reshape(-1))


class Attention(eqx.Module):
    """A block with normalisation: the same one is used twice, so its weights are tied."""

    norm: eqx.nn.LayerNorm
    attention: eqx.nn.MultiheadAttention
    dense: eqx.nn.MLP

    def __init__(self, key):
        keys = jax.random.split(key)
        self.norm = eqx.nn.LayerNorm(4)
        self.attention = eqx.nn.MultiheadAttention(2, 4, use_query_bias=True, key=keys[0])
        self.dense = eqx.nn.MLP(4, 4, 5, 1, activation=jnp.tanh, key=keys[1])

    def __call__(self, x):
        h = jax.vmap(self.norm)(x)
        x = x + self.attention(h, h, h)
        return jnp.mean(x + jax.vmap(self.dense)(jax.vmap(self.norm)(x)), axis=0)[:2]


class Case(NamedTuple):
    """A module with examples, a loss, and what it was differentiated to in one piece."""

    module: Any
    x: np.ndarray
    x2: np.ndarray
    y: np.ndarray
    loss: Any
    J: np.ndarray  # (n, k, p)
    J2: np.ndarray
    outputs: np.ndarray
    hessian: np.ndarray  # of the mean loss

    @property
    def kernel(self) -> np.ndarray:
        """The kernel as a matrix."""
        rows = self.J.reshape(-1, self.J.shape[-1])
        return rows @ rows.T


def in_float64(module):
    """The module with NumPy weights in float64: no setting of JAX is needed for them."""
    return jax.tree.map(
        lambda w: np.asarray(w, np.float64) if eqx.is_inexact_array(w) else w, module
    )


def drawn(module, shape, loss, labels: bool, seed=0) -> Case:
    """Draws examples, and differentiates the module."""
    rng, module = np.random.default_rng(seed), in_float64(module)
    x, x2 = rng.normal(size=(EXAMPLES, *shape)), rng.normal(size=(2, *shape))
    with jax.enable_x64(True):
        weights, rest = eqx.partition(jax.tree.map(_as_jax, module), eqx.is_inexact_array)
        flat, unravel = ravel_pytree(weights)
        of = lambda v, x: jax.vmap(eqx.combine(unravel(v), rest))(x)
        outputs = of(flat, x)
        y = rng.integers(2, size=EXAMPLES) if labels else rng.normal(size=outputs.shape)
        mean = lambda v: jnp.mean(loss.each(of(v, x), jnp.asarray(y), outputs.ndim - 1))
        J, J2 = (jax.jit(jax.jacrev(of))(flat, each) for each in (x, x2))
        hessian = jax.jit(jax.hessian(mean))(flat)
    rows = lambda J: np.asarray(J).reshape(len(J), -1, flat.size)
    return Case(module, x, x2, y, loss, rows(J), rows(J2), np.asarray(outputs), np.asarray(hessian))


def _as_jax(leaf):
    return jnp.asarray(leaf) if isinstance(leaf, np.ndarray) else leaf


@functools.cache  # differentiated once for all tests
def case_of(name: str) -> Case:
    """One of the modules below."""
    key, squared = jax.random.key(0), ld.SquaredLoss(0.7)
    if name == "convolution":
        return drawn(Convolutional(key), (2, 8, 8), ld.CrossEntropy(), labels=True)
    if name == "attention":
        return drawn(Attention(key), (4, 4), squared, labels=False)
    tanh = eqx.nn.MLP(3, 2, 6, 2, activation=jnp.tanh, key=key)
    return drawn(tanh, (3,), squared, labels=False)


@pytest.fixture(params=["MLP", "convolution", "attention"])
def case(request) -> Case:
    """A module with its dense Jacobian and Hessian."""
    return case_of(request.param)
