"""Products in full precision, but where the caller has asked for another."""

from typing import Any

import jax
import jax.numpy as jnp

from learndyn.numerics.precision import full_precision, in_float64


def precision_of(function):
    text = str(jax.make_jaxpr(function)(jnp.ones((2, 2), jnp.float32)))
    return "HIGHEST" in text


def test_products_are_full_inside_alone():
    square = lambda x: x @ x
    assert not precision_of(square)
    with full_precision():
        assert precision_of(square)
    assert not precision_of(square)


def test_probes_compute_so():
    seen, config = [], jax.config
    now: Any = lambda: getattr(config, "jax_default_matmul_precision")  # noqa: B009
    in_float64(lambda: seen.append(now()))()
    assert seen == ["highest"] and now() is None


def test_who_asks_for_another_precision_gets_it():
    with jax.default_matmul_precision("default"), full_precision():
        assert not precision_of(lambda x: x @ x)
