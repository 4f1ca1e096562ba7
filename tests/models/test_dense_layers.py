"""Kinds of activations."""

import jax
import jax.numpy as jnp
import pytest

from learndyn.networks.parts.dense_layers import kind_of

KINDS = {
    "identity": (lambda z: z, "linear"),
    "relu": (jax.nn.relu, "relu"),
    "leaky_relu": (jax.nn.leaky_relu, "relu"),
    "relu6": (jax.nn.relu6, "other"),
    "hard_tanh": (jax.nn.hard_tanh, "other"),
    "softplus": (jax.nn.softplus, "other"),
    "elu": (jax.nn.elu, "other"),
    "gelu": (jax.nn.gelu, "other"),
    "silu": (jax.nn.silu, "other"),
    "tanh": (jnp.tanh, "other"),
    "softmax": (jax.nn.softmax, "other"),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds_of_activations(name):
    activation, kind = KINDS[name]
    assert kind_of(activation) == kind
