"""A system as text: what is written out, what is named, what only a hash can tell."""

import functools
import json

import jax
import jax.numpy as jnp
import numpy as np
import optax
import pytest

import learndyn as ld

DATA = ld.Dataset(np.arange(12, dtype=np.uint8).reshape(4, 3), [0, 1, 1, 0])


def init(key):
    return jax.random.normal(key, (3,))


def apply(weights, x):
    return x @ weights


def system(network=None, rule=None, data=DATA):
    return ld.System(data, network or ld.Network(init, apply), rule or ld.SGD(0.1))


def test_functions_with_a_name_come_back():
    it = system()
    again = ld.System.from_json(it.to_json())
    assert again.network.apply is apply and again.network.init is init
    assert again.to_json() == it.to_json() and it.not_in_json() == []
    np.testing.assert_array_equal(again.problem.x, DATA.x)
    assert again.problem.x.dtype == np.uint8 and again.problem.y.dtype == np.int32


def test_lambdas_are_told_apart_and_not_rebuilt():
    one, other = (system(ld.Network(init, f)) for f in (lambda w, x: x @ w, lambda w, x: x @ w + 1))
    assert one.to_json() != other.to_json()
    (said,) = one.not_in_json()
    assert said.startswith("system.network.apply: the function") and "<lambda>" in said
    with pytest.raises(
        ValueError, match=r"\Asystem.network.apply: the function [^\n]*give it anew"
    ):
        ld.System.from_json(one.to_json())


def test_what_a_function_closes_over_counts():
    def scaled(factor):
        return lambda w, x: factor * (x @ w)

    texts = {system(ld.Network(init, scaled(f))).to_json() for f in (1.0, 2.0, np.arange(3.0))}
    assert len(texts) == 3


def test_rates_inside_of_optax_count():
    texts = {
        system(rule=ld.Optax(t, batch=2)).to_json()
        for t in (
            optax.adam(1e-3),
            optax.adam(1e-2),
            optax.sgd(1e-2),
            optax.sgd(1e-2, momentum=0.9),
            optax.sgd(optax.cosine_decay_schedule(1e-2, 10)),
        )
    }
    assert len(texts) == 5
    same = {system(rule=ld.Optax(optax.adam(1e-3), batch=2)).to_json() for _ in range(2)}
    assert len(same) == 1


def test_callable_objects_are_told_by_what_they_hold():
    both = [system(ld.Network(init, functools.partial(_shifted, shift=s))) for s in (0.0, 1.0)]
    assert both[0].to_json() != both[1].to_json()


def _shifted(w, x, shift):
    return x @ w + shift


def test_a_run_with_a_lambda_is_kept(tmp_path):
    it = system(ld.Network(lambda key: jnp.ones(3), lambda w, x: x @ w), ld.Optax(optax.sgd(0.1)))
    record = ld.simulate(it, [0, 3])
    ld.save(record, tmp_path / "r.nc")
    again = ld.load(tmp_path / "r.nc")
    assert again.identical(record) and "network.apply" in again.attrs["not_rebuilt"]
    assert json.loads(again.attrs["system"])["kind"] == "System"


def test_large_arrays_are_hashes():
    x = np.random.default_rng(0).normal(size=(2000, 3))
    one = system(data=ld.Dataset(x, x[:, 0]))
    other = system(data=ld.Dataset(x + 1e-9, x[:, 0]))
    assert one.to_json() != other.to_json() and len(one.to_json()) < 50_000
    assert one.not_in_json()[0].startswith("system.problem.x: an array of shape (2000, 3)")


def test_text_cannot_call_what_is_no_part_of_a_system():
    text = json.dumps({"kind": "os:system", "command": "true"})
    with pytest.raises(ValueError, match="kind: got 'os:system'"):
        ld.System.from_json(text)
