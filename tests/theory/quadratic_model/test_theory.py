"""The closed map against quadratic models that are really trained, and against reference values."""

import importlib.util
import pathlib

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.quadratic_model import closed_map, errata

_here = pathlib.Path(__file__).with_name("conftest.py")
_spec = importlib.util.spec_from_file_location("quadratic_cases", _here)
cases = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(cases)

NINE = np.arange(9.0)  # the start and eight steps
NAMES = [
    "relu, one example", "relu, on the axis", "relu, on a line", "relu, one point repeated",
    "linear twin of itself", "linear, itself, on a line", "general",
]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_the_map_is_what_training_does(configurations, name):
    """Eight steps in float64 on all weights; the kernel by derivatives of the network."""
    system, model = configurations[name]
    begin = ld.start(system, weights=model.weights)
    theory = ld.solve(system, NINE, start=begin)
    runs = ld.simulate(system, NINE, start=begin, dtype="float64")
    assert theory.attrs["theory"] == "quadratic model" and theory.attrs["coverage"] == "exact"
    for what in ("residual", "kernel", "error"):
        scale = np.abs(theory[what]).max()
        np.testing.assert_allclose(runs[what][0], theory[what], rtol=0, atol=1e-10 * scale)
    assert np.ptp(theory["kernel"].values[:, 0]) > 1e-3  # it moves: a constant one would be seen


def test_directions_are_all_that_the_kernel_has(configurations):
    """K = Σ λ_i p̂_i p̂_iᵀ (Prop. B.11.1), and nothing moves outside of it (Prop. B.11.3)."""
    system, model = configurations["relu, on a line"]
    theory = ld.theory_of(system)
    p = theory.setting.p
    np.testing.assert_allclose(p @ p.T, np.eye(2), atol=1e-15)

    def kernel(weights):
        J = jax.jacobian(lambda w: system.network(w, theory.x))(weights)
        rows = jnp.concatenate([j.reshape(6, -1) for j in jax.tree.leaves(J)], axis=1)
        return rows @ rows.T, system.network(weights, theory.x)

    with jax.enable_x64(True):
        before, after = model.weights, ld.update(system, model.weights)
        (K, g), (_, moved) = (jax.tree.map(np.asarray, jax.jit(kernel)(w)) for w in (before, after))
    lam = theory.project(before, ()).kernel
    np.testing.assert_allclose(K, np.einsum("i,in,im->nm", lam, p, p), atol=1e-13)
    change = moved - g
    np.testing.assert_allclose(change - p.T @ (p @ change), 0, atol=1e-13)


def test_reference_single_example():
    of = cases.REFERENCE["nqm_single"]
    for run in of["runs"]:
        system, model = cases.two_layers(
            "relu", of["U0"], of["v0"], np.array([of["x"]]), np.array([run["y"]]), run["eta"]
        )
        theory = ld.theory_of(system)
        np.testing.assert_allclose(theory.setting.c, of["c_factor"], rtol=1e-14)
        state = theory.project(model.weights, ())
        np.testing.assert_allclose(state.kernel, of["lambda0"], rtol=1e-12)
        for g, lam in zip(run["g"][:8], run["lam"][:8], strict=True):
            np.testing.assert_allclose(state.r[0] + run["y"], g, rtol=of["rtol"])
            np.testing.assert_allclose(state.kernel[0], lam, rtol=of["rtol"])
            state = theory.advance(state)


def test_reference_one_dimensional():
    of = cases.REFERENCE["nqm_multi_1d"]
    x, y = np.array(of["x"]), np.array(of["y"])
    u0 = np.array(of["u0"])[:, None]
    system, model = cases.two_layers("relu", u0, of["v0"], x[:, None], y, of["eta"])
    theory = ld.theory_of(system)
    np.testing.assert_allclose(theory.setting.c, [of["reduced_c1"], of["reduced_c2"]], rtol=1e-14)
    np.testing.assert_allclose(theory.setting.rest, of["orth_residual_norm"] ** 2, rtol=1e-9)
    record = ld.solve(system, NINE, start=ld.start(system, weights=model.weights))
    lam = np.stack([of["lambda_p1"], of["lambda_p2"]], axis=1)
    np.testing.assert_allclose(record["kernel"], lam, rtol=of["rtol"])
    np.testing.assert_allclose(record["error"], of["loss"], rtol=of["rtol"])


def test_reference_two_layer_linear():
    """f = vᵀ U x / √m of the reference has no 1/√d: inputs times √d here."""
    of = cases.REFERENCE["two_layer_linear_y0"]
    x = np.array([of["x"]]) * np.sqrt(3)
    for run in of["runs"]:
        args = "linear", of["U0"], of["v0"], x, np.zeros(1), run["eta"]
        system, model = cases.two_layers(*args, twin=False)
        theory = ld.theory_of(system)
        state = theory.project(model.weights, ())
        for g, lam in zip(run["f"][:8], run["lam"][:8], strict=True):
            np.testing.assert_allclose(state.r[0], g, rtol=of["rtol"])
            np.testing.assert_allclose(state.kernel[0], lam, rtol=of["rtol"])
            state = theory.advance(state)


def test_reduced_variables_and_the_product_form(configurations):
    """(u, v, w) of Eqs. 3.13-3.14 and (1 ∓ ρ)² (λ ± H), along three steps of the map."""
    theory = ld.theory_of(configurations["relu, on the axis"][0])
    of, state = theory.setting, theory.sample(0)[0]
    for _ in range(3):
        after = theory.advance(state)
        now, then = (closed_map.reduced(s.r, s.kernel, of.c, of.a, of.eta) for s in (state, after))
        np.testing.assert_allclose(closed_map.advance_reduced(*now), then, rtol=1e-12, atol=1e-15)
        rho, H = of.eta * np.sqrt(of.c) * state.r, 2 * np.sqrt(of.c) * (state.r + of.a)
        H_after = 2 * np.sqrt(of.c) * (after.r + of.a)
        for sign in (1, -1):
            product = (1 - sign * rho) ** 2 * (state.kernel + sign * H)
            np.testing.assert_allclose(after.kernel + sign * H_after, product, rtol=1e-11)
        state = after


@pytest.fixture(scope="module")
def dense_step():
    """J, G, and the next residuals and kernel of a quadratic model that does not close."""
    rng = np.random.default_rng(0)
    x, y, rate = rng.normal(size=(4, 3)), rng.normal(size=4), 0.05
    network = ld.MLP([3, 5, 1], "tanh")
    model = ld.Model(network, network.sample(rng, (3,)))
    system = ld.System(cases.half_sum(x, y), ld.quadratic(model), ld.GradientDescent(rate))
    with jax.enable_x64(True):
        # One step away from the centre, so that J is not that of the network.
        weights = ld.update(system, model.weights)
        after = ld.update(system, weights)
        back = jax.flatten_util.ravel_pytree(weights)[1]
        f = lambda w: system.network(back(w), x)
        # Forward: XLA (0.10.2, CPU) compiles some reverse Jacobians of ravelled weights wrongly.
        found = jax.jit(lambda w: (f(w), jax.jacfwd(f)(w), jax.hessian(f)(w)))
        (g, J, H), (g1, J1, _) = (
            jax.tree.map(np.asarray, found(jax.flatten_util.ravel_pytree(w)[0]))
            for w in (weights, after)
        )
    r = g - y
    return r, J, np.einsum("j,jp,ipq->iq", r, J, H), g1 - y, J1 @ J1.T, rate


def test_equations_315_and_316_hold_along_training(dense_step):
    r, J, G, r1, K1, rate = dense_step
    np.testing.assert_allclose(closed_map.next_residual(r, J, G, rate), r1, rtol=1e-11)
    np.testing.assert_allclose(closed_map.next_kernel(J, G, rate), K1, rtol=1e-11, atol=1e-13)


def test_the_printed_forms_miss(dense_step, configurations):
    _, J, G, _, K1, rate = dense_step
    miss = lambda a, b: np.linalg.norm(a - b) / np.linalg.norm(b)
    # Relative to what the step changes: the whole kernel hardly moves.
    change = K1 - J @ J.T
    assert miss(errata.printed_eq316(J, G, rate) - J @ J.T, change) > 0.1
    assert miss(closed_map.next_kernel(J, G, rate) - J @ J.T, change) < 1e-9
    system, model = configurations["relu, on the axis"]
    theory = ld.theory_of(system)
    of, state, width = theory.setting, theory.project(model.weights, ()), 30
    after = theory.advance(state)
    expected = closed_map.reduced(after.r, after.kernel, of.c, of.a, of.eta)
    with jax.enable_x64(True):
        r = np.asarray(system.network(model.weights, theory.x)) - theory.y
    for i, p in enumerate(of.p):
        raw = p * np.sqrt(of.c[i] * width)
        for used in (raw, p):
            printed = errata.printed_eqB9(r, theory.y, used, state.kernel[i], width, of.eta)
            u, v, _ = closed_map.advance_reduced(*printed)
            assert max(miss(u, expected[0][i]), miss(v, expected[1][i])) > 1e-3
    run = cases.REFERENCE["two_layer_linear_y0"]["runs"][0]
    squared = np.sum(np.square(cases.REFERENCE["two_layer_linear_y0"]["x"]))
    printed = errata.printed_eqB13(run["f"][0], run["lam"][0], 1 / np.sqrt(4), squared, run["eta"])
    right = closed_map.advance(run["f"][0], run["lam"][0], squared / 4, 0.0, run["eta"])
    np.testing.assert_allclose(right, [run["f"][1], run["lam"][1]], rtol=1e-9)
    assert abs(printed[1] - run["lam"][1]) > 0.5 * abs(run["lam"][0] - run["lam"][1])


def test_the_missed_equilibrium_and_the_printed_one():
    """u = 4, v = 4 + w stays where it is; v = 2 − u + w does not, nor is μ = −1 there."""
    u, w = 4.0, -0.3
    np.testing.assert_allclose(closed_map.advance_reduced(u, 4 + w, w), (u, 4 + w, w), rtol=1e-15)
    u, w = 0.5, -0.1
    v = errata.printed_equilibrium(u, w)
    assert abs(closed_map.advance_reduced(u, v, w)[0] - u) > 0.1
    np.testing.assert_allclose(closed_map.advance_reduced(u, 2 + u + w, w)[2], -w, rtol=1e-14)


ONE, LINE = np.array([[1.0, 2.0]]), np.array([[1.0], [-2.0]])
OFFSETS = np.array([1.0, 1.0])  # ⟨y, p̂_i⟩ of LINE with the targets 1 and −1: p̂_i = ±1


def twin_of(activation, d=2, **options):
    network = ld.MLP([d, 6, 1], activation, **options)
    return ld.Model(network, network.sample(np.random.default_rng(0), (d,)))


def refused(network, x=ONE, y=(1.0,), rule=None, **loss):
    return ld.System(ld.Dataset(x, np.array(y), **loss), network, rule or ld.GradientDescent(0.1))


REFUSED = {
    "relu itself": (lambda: refused(ld.MLP([2, 6, 1], "relu")), "ld.quadratic(model) is"),
    "tanh": (lambda: refused(ld.quadratic(twin_of("tanh"))), "tanh has a second derivative"),
    "swish": (lambda: refused(ld.quadratic(twin_of("swish"))), "swish has a second derivative"),
    "bias": (lambda: refused(ld.quadratic(twin_of("relu", bias=True))), "has a bias"),
    "sampling": (lambda: refused(ld.quadratic(twin_of("relu")), rule=ld.SGD(0.1)), "rule is SGD"),
    "plane": (
        lambda: refused(ld.quadratic(twin_of("relu")), np.eye(2), (1.0, 1.0)),
        "the 2 inputs do not lie on a line",
    ),
    "zero": (
        lambda: refused(ld.quadratic(twin_of("relu")), np.zeros((1, 2))),
        "all inputs are zero, and so is the tangent kernel",
    ),
    "cross-entropy": (
        lambda: refused(ld.quadratic(twin_of("relu")), loss=ld.CrossEntropy()), "loss is Cross",
    ),
    "three layers": (lambda: refused(ld.MLP([2, 3, 3, 1], "linear")), "has widths (2, 3, 3, 1)"),
    "two examples": (
        lambda: refused(ld.GeneralQuadratic([1.0, -1.0]), np.eye(2), (1.0, 1.0)),
        "general quadratic model has 2 examples",
    ),
    "other sigma": (
        lambda: refused(ld.GeneralQuadratic([1.0, 2.0])), "Σ³ = s Σ and Σ² φ = s φ do not hold",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_systems_that_do_not_close_are_refused_with_the_reason(case):
    make, reason = REFUSED[case]
    with pytest.raises(ld.NoTheory, match=r"\A[^\n]*quadratic model: [^\n]*\Z") as caught:
        ld.theory_of(make())
    assert reason in str(caught.value)


def test_linear_twins_are_left_to_the_theory_of_linear_models():
    system = refused(ld.linearise(twin_of("relu")))
    with pytest.raises(ld.NoTheory, match="the linear twin keeps its kernel"):
        ld.theory_of(system, "quadratic model")
    assert ld.theory_of(system).name == "linearised"


def test_a_sigma_with_zeros_closes_where_phi_lies_in_its_range():
    """Prop. B.13.1 asks for Σ² ∝ I; what is needed is Σ³ = s Σ and Σ² φ = s φ."""
    network = ld.GeneralQuadratic(np.diag([2.0, -2.0, 0.0]), gamma=0.3)
    inside = refused(network, np.array([[1.0, 0.5, 0.0]]), (0.4,), ld.GradientDescent(0.2))
    weights = np.array([0.5, -1.0, 2.0])
    begin = ld.start(inside, weights=weights)
    theory = ld.solve(inside, NINE, start=begin)
    runs = ld.simulate(inside, NINE, start=begin, dtype="float64")
    np.testing.assert_allclose(runs["kernel"][0], theory["kernel"], rtol=1e-11)
    outside = refused(network, np.array([[1.0, 0.5, 0.1]]), (0.4,))
    with pytest.raises(ld.NoTheory, match="do not hold"):
        ld.theory_of(outside)


def test_one_point_repeated_is_one_direction():
    """Every copy has the same output; the map is that of one example with as many times the c."""
    model = twin_of("relu")
    x, y, rule = np.repeat(ONE, 3, axis=0), (0.3, 0.5, 0.7), ld.GradientDescent(0.2)
    system = refused(ld.quadratic(model), x, y, rule, loss_scale=1.5)
    begin = ld.start(system, weights=model.weights)
    theory = ld.solve(system, NINE, start=begin)
    runs = ld.simulate(system, NINE, start=begin, dtype="float64")
    for name in ("residual", "kernel", "error"):
        np.testing.assert_allclose(runs[name][0], theory[name], rtol=1e-10, atol=1e-12)
    assert theory["kernel"].shape == (9, 1)
    kernel = ld.probes.ntk(model, x)
    np.testing.assert_allclose(theory["kernel"][0, 0], 3 * kernel[0, 0], rtol=1e-6)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda s: ld.start(s, state=ld.Residuals([1.0], [1.0])), "state: got directions of shape"),
        (
            lambda s: ld.start(s, state=ld.Residuals([1.0, 2.0], [9.0, 1e-9])),
            "state: got the kernel 1e-09 in direction 1; allowed is at least",
        ),
        (lambda s: ld.start(s, state=ld.Residuals([1.0, 1.0], [np.nan, 9])), "not finite"),
        (lambda s: ld.Residuals([1.0], [1.0, 2.0]), "r: got shape (1,) beside kernel (2,)"),
        (
            lambda s: ld.start(s, state=ld.Residuals([1.0, 1.0], [9.0, 9.0])).weights,
            "start: got a state, but many weights have the same residuals and kernel",
        ),
        (
            lambda s: ld.theory_of(s).landmarks(state=ld.Residuals(-OFFSETS, [0.0, 0.0])),
            "state: got the kernel 0; allowed is a positive one",
        ),
        (lambda s: ld.GeneralQuadratic([[1.0, 2.0], [0.0, 1.0]]), "sigma: got shape (2, 2)"),
    ],
)  # fmt: skip
def test_bad_input_is_one_line(make, said):
    system = refused(ld.quadratic(twin_of("relu", 1)), LINE, (1.0, -1.0))
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make(system)
    assert said in str(caught.value)
