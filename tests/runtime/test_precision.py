"""Products in full precision, but where the caller has asked for another."""

import contextlib
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.runtime.jax_versions import struct
from learndyn.runtime.precision import full_precision, in_float64


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


def test_an_explicit_precision_is_respected():
    with jax.default_matmul_precision("default"), full_precision():
        assert not precision_of(lambda x: x @ x)


def test_a_shape_has_the_type_of_an_array_here():
    """JAX 0.12 warns where they differ."""
    with jax.enable_x64(False):
        assert struct((2, 3), np.float64) == jax.ShapeDtypeStruct((2, 3), np.float32)
    with jax.enable_x64(True):
        assert struct([2], np.float64) == jax.ShapeDtypeStruct((2,), np.float64)


def main_calls():
    """What the main calls give: a diverging run, a committee's theory and run, and probes."""
    rng = np.random.default_rng(0)
    x, labels = rng.normal(size=(6, 4)), np.array([0, 1, 1, 0, 1, 0])
    data = ld.Dataset(x, labels, loss_scale=1.0)
    net = ld.MLP([4, 5, 2], "relu", bias=True)
    system = ld.System(data, net, ld.SGD(1e3, batch=2))
    start = ld.start(system)
    model = ld.Model(net, start.weights)
    run = ld.simulate(system, [0, 2, 9], start=start)
    problem = ld.TeacherStudent(ld.Isotropic(20), ld.Committee(1, "linear"))
    committee = ld.System(problem, ld.Committee(1, "linear"), ld.SGD(0.1))
    return {
        "run": run["error"].values,
        "outcome": run["outcome"].values,
        "solve": ld.solve(committee, [0, 1.0])["error"].values,
        "simulate": ld.simulate(committee, [0, 1.0], runs=2)["error"].values,
        "outputs": np.asarray(model(x)),
        "ntk": ld.probes.ntk(model, x),
        "hessian": ld.probes.hessian_top(model, x, labels).values,
        "rate": ld.probes.critical_learning_rate(model, x, labels).value,
    }


def test_the_main_calls_do_not_depend_on_the_callers_settings():
    expected = main_calls()
    assert "diverged" in expected["outcome"]
    nothing_hidden = jax.debug_nans(True), jax.disable_jit(True)
    strict = jax.numpy_dtype_promotion("strict"), jax.numpy_rank_promotion("raise")
    with contextlib.ExitStack() as stack:
        for setting in (*nothing_hidden, *strict):
            stack.enter_context(setting)
        found = main_calls()
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)
