"""Recursions, closed forms and one-step means against reference values and brute force."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.theory.perturbation import errata, factorisation, node_perturbation, one_step, sgd
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Gram, traces_of

RULES = {"np": ld.NodePerturbation, "sgd": ld.SGD}


def small(reference):
    """The 3-4-2 network of the reference values, and its Gram matrix."""
    given = reference["single_update"]
    W_1, W_2, A = (np.array(given[name]) for name in ("W1", "W2", "A"))
    return Gram(W_2 @ W_2.T, W_1.T @ W_1, W_2 @ W_1, A)


def values(traces):
    return np.array([float(v) for v in (traces.alpha, traces.beta, traces.epsilon, traces.phi)])


@pytest.mark.parametrize("widths", [(100, 1000, 10), (100, 100, 10)])
@pytest.mark.parametrize("rule", RULES)
def test_recursions_are_the_authors_ones(rule, widths, reference, two_layers):
    (name, found) = next(
        pair for pair in reference["meanfield_recursions"].items() if f"Lh{widths[1]}_" in pair[0]
    )
    eta = 0.002 if rule == "sgd" else float(name.split("eta")[1].split("_")[0])
    rows = next(v for k, v in found.items() if k.startswith(rule))
    it = two_layers.system(*widths, RULES[rule](eta))
    record = ld.solve(it, list(map(float, rows)), start=ld.start(it, state=ld.Traces(*rows["0"])))
    table = np.stack([record[n] for n in ("alpha", "beta", "epsilon", "phi")], axis=1)
    np.testing.assert_allclose(table, list(rows.values()), rtol=1e-10)


def test_orders_reach_the_target_when_the_reference_does(reference, two_layers):
    """Steps to 10⁻⁴ of the error of Eq. 68, and with α₂ and the +2 of every size."""
    for row in reference["wide_times"][::4] + reference["times"][:2]:
        it = two_layers.system(100, row["Lh"], 10, ld.NodePerturbation(row["eta"]))
        begin = ld.start(it, state=xavier(it))
        full, finite = row.get("T_68", row.get("T_hit_mf")), row.get("T_68_plus2")
        for order, steps in (("full", full), ("finite", finite or row["T_hit_a2+2"])):
            times = np.array([0.0, steps - 1, steps])
            eps = ld.solve(it, times, start=begin, order=order).epsilon.values
            assert eps[1] > 1e-4 * eps[0] >= eps[2], (order, row)


def xavier(it):
    L_x, L_h, L_y = it.network.widths
    alpha, beta = 2 * L_h / (L_x + L_h), 2 * L_h / (L_h + L_y)
    psi = alpha * beta / L_h
    return ld.Traces(alpha, beta, psi + 2 / (L_x + L_y), -psi)


def test_traces_are_those_of_the_weights(reference):
    expected = reference["single_update"]["order_before"]
    found = traces_of(small(reference))
    for name, value in expected.items():
        if name in ("eps", "alpha", "beta", "phi", "alpha2"):
            ours = getattr(found, "epsilon" if name == "eps" else name)
            np.testing.assert_allclose(ours, value, rtol=1e-13)
    psi = node_perturbation.psi(found)
    np.testing.assert_allclose(psi, expected["psi"], rtol=1e-12)


def test_one_step_means_are_exact(reference):
    expected = reference["one_step_terms_eta1_3_2_4"]
    with jax.enable_x64(True):
        np_ = one_step.node_perturbation(small(reference), 1.0, 0.3, 4.0)
        sgd_ = one_step.sgd(small(reference), 1.0, 0.3)
    names = {"alpha": "d_alpha", "beta": "d_beta", "epsilon": "d_eps", "phi": "d_phi"}
    for name, key in {**names, "alpha2": "d_alpha2"}.items():
        np.testing.assert_allclose(getattr(np_, name), expected["values"][key], rtol=1e-12)
    for name, key in names.items():
        np.testing.assert_allclose(getattr(sgd_, name), expected["sgd"][key], rtol=1e-12)


def test_approximate_terms_are_the_papers(reference):
    """One step of Eq. 68 at the reference's traces, term by term in powers of η."""
    expected = reference["one_step_terms_eta1_3_2_4"]["paper_meanfield_eta1"]
    now, of = traces_of(small(reference)), PerturbationSetting(3, 4, 2, 1.0, 0.3)
    after = node_perturbation.advance(of, now)
    for name in ("alpha", "beta"):
        change = getattr(after, name) - getattr(now, name)
        np.testing.assert_allclose(change, expected[f"d_{name}"], rtol=1e-12)
    # There 60a has α₂ itself, where Eq. 68 has α².
    noise = of.sigma_t2 + of.L_x * now.epsilon
    more = of.L_y * (1 + now.beta) * (now.alpha2 - now.alpha**2) * noise
    signs = {"epsilon": ("d_eps", 1), "phi": ("d_phi", -1)}
    for name, (key, sign) in signs.items():
        change = getattr(after, name) - getattr(now, name)
        found = min(abs(change + sign * m - expected[key]) for m in (0.0, more))
        assert found < 1e-11 * abs(expected[key])
    np.testing.assert_allclose(
        errata.printed_eq62(of, now), expected["d_alpha2_printed62"], rtol=1e-12
    )


@pytest.mark.parametrize("rule", RULES)
def test_one_step_means_against_brute_force(rule, two_layers):
    """The mean over 4·10⁵ steps of the rule; a small rate, so that η³ is below the noise."""
    eta, runs = {"np": 2e-3, "sgd": 6e-3}[rule], 400_000
    it = two_layers.system(4, 12, 3, RULES[rule](eta), noise=0.5)
    begin = ld.start(it, key=5)
    W_1, W_2, A = (jnp.asarray(w, jnp.float32) for w in (*begin.weights, begin.teacher))
    n = 12

    @jax.jit
    def changes(key):
        keys = jax.random.split(key, 4)
        normal = lambda k, size: jax.random.normal(k, (runs // 20, size))
        x, z, a, b = (normal(k, s) for k, s in zip(keys, (4, 3, 12, 3), strict=True))
        h, e = x @ W_1.T, x @ (W_2 @ W_1 - A).T + 0.5 * z
        if rule == "np":
            s = jnp.sum((a @ W_2.T + b) * e, axis=1)[:, None]
            d_1, d_2 = (s * a)[:, :, None] * x[:, None], (s * b)[:, :, None] * h[:, None]
        else:
            d_1, d_2 = (e @ W_2)[:, :, None] * x[:, None], e[:, :, None] * h[:, None]
        # Changes of the traces as such, since in float32 differences of traces would be lost.
        d_1, d_2 = -eta * d_1, -eta * d_2
        dP = W_2 @ d_1 + d_2 @ W_1 + d_2 @ d_1
        E, P = W_2 @ W_1 - A, W_2 @ W_1
        tr = lambda X, Y: jnp.sum(X * Y, axis=(1, 2))
        dN = jnp.swapaxes(d_1, 1, 2) @ W_1
        dN = dN + jnp.swapaxes(dN, 1, 2) + jnp.swapaxes(d_1, 1, 2) @ d_1
        N = W_1.T @ W_1
        return jnp.stack(
            [
                (2 * tr(W_1, d_1) + tr(d_1, d_1)) / 4,
                (2 * tr(W_2, d_2) + tr(d_2, d_2)) / 3,
                (2 * tr(E, dP) + tr(dP, dP)) / n,
                -(tr(P + E, dP) + tr(dP, dP)) / n,
                (2 * tr(N, dN) + tr(dN, dN)) / 4,
            ]
        )

    key = jax.random.key(11)
    drawn = np.concatenate([changes(k) for k in jax.random.split(key, 20)], axis=1, dtype=float)
    vector = lambda c: np.array([c.alpha, c.beta, c.epsilon, c.phi, c.alpha2], float)
    exact = vector(ld.theory_of(it).mean_change(begin.state))
    weak = two_layers.system(4, 12, 3, RULES[rule](eta / 1e4), noise=0.5)
    signal = 1e4 * vector(ld.theory_of(weak).mean_change(begin.state))
    error = drawn.std(axis=1) / np.sqrt(runs)
    assert np.all(np.abs(drawn.mean(axis=1) - exact) < 4 * error)
    assert np.all(np.abs(exact - signal) > 20 * error)  # an η² term that is wrong would be seen


@pytest.mark.parametrize("rule", RULES)
def test_recursions_are_one_step_means_of_large_random_weights(rule, two_layers):
    """Relative errors fall with size: "finite" has what "full" leaves out, but for L_h^(−1/2)."""
    errors = []
    for L_x, L_h, L_y in ((30, 3000, 30), (120, 48000, 120)):
        it = two_layers.system(L_x, L_h, L_y, RULES[rule](1e-5), noise=0.3)
        theory, state = ld.theory_of(it), ld.start(it, key=2).state
        exact, now = theory.mean_change(state), traces_of(state)
        of = PerturbationSetting.of(it)
        # Noise alone: the signal is what is left at a rate that is far smaller.
        weak = ld.theory_of(two_layers.system(L_x, L_h, L_y, RULES[rule](1e-9), noise=0.3))
        signal = jax.tree.map(lambda c: 1e4 * c, weak.mean_change(state))
        module = node_perturbation if rule == "np" else sgd
        steps = {"full": module.advance, "finite": module.advance_finite}
        low = PerturbationSetting(L_x, L_h, L_y, 1e-9, of.sigma_t2)
        for step in steps.values():
            found = np.array([
                (getattr(step(of, now), name) - getattr(now, name)
                 - 1e4 * (getattr(step(low, now), name) - getattr(now, name)))
                / (getattr(exact, name) - getattr(signal, name)) - 1
                for name in ("alpha", "beta", "epsilon")
            ])  # fmt: skip
            errors.append(np.abs(found))
    full, finite, full_large, finite_large = errors
    assert np.all(finite < 0.25) and np.all(finite_large < 0.06)
    assert np.max(full_large) < 0.5 * np.max(full) and np.max(finite) < np.max(full)


def test_the_last_bracket_of_equation_62(two_layers):
    """tr[δW_1ᵀ W_1 W_1ᵀ δW_1 + …]: exact, corrected, and as printed a third of it."""
    it = two_layers.system(100, 1000, 10, ld.NodePerturbation(1e-4), noise=0.3)
    state, of = ld.start(it, key=1).state, PerturbationSetting.of(it)
    M, N, P, E = state.M, state.N, state.P, state.E
    C_N = np.trace(N) * (E @ E.T + 0.09 * np.eye(10)) + 2 * E @ N @ E.T
    X = np.sum(P * E) ** 2 + np.trace(P.T @ E @ P.T @ E) + np.sum((E.T @ P) ** 2)
    X += 0.09 * np.sum(P**2)
    exact = 2 * of.eta**2 / 100 * (np.trace((np.eye(10) + M) @ C_N) + 2 * X)
    now = traces_of(state)
    common = 4 * of.eta * of.L_y * now.alpha * now.phi
    grows = 2 * of.eta**2 * (of.L_h + of.L_x) * of.L_y * now.alpha * (1 + now.beta)
    corrected = node_perturbation.change_of_alpha2(of, now) - common
    corrected -= grows * ((of.L_x + 2) * now.epsilon + of.sigma_t2)
    printed = errata.printed_eq62(of, now) - common - grows * (of.L_x * now.epsilon + of.sigma_t2)
    np.testing.assert_allclose(corrected, exact, rtol=0.08)
    assert 0.25 < printed / exact < 0.4


def test_factorisation_errs_as_the_root_of_the_width(two_layers):
    """Root mean square over 400 starts, against the leading order; its standard error is 3.5 %."""
    A = two_layers.matrix(12, 5)
    for L_h in (400, 6400):
        it = two_layers.system(12, L_h, 5, ld.SGD(0.1), A=A)
        theory = ld.theory_of(it)
        found = [factorisation.ratios(theory.sample(key)[0]) for key in range(400)]
        rms = np.sqrt(np.mean((1 / np.array(found) - 1) ** 2, axis=0))
        expected = factorisation.relative_error(A, L_h)
        bound = 4 * 0.035 + 3 * np.sqrt(12 / L_h)
        np.testing.assert_allclose(rms, expected, rtol=bound)
