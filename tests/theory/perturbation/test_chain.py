"""The chains against a step of the rule on weights and perturbations that are written out."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.runtime.precision import to_numpy
from learndyn.theory.dynamics import Refused
from learndyn.theory.perturbation import chain as chains
from learndyn.theory.perturbation.chain import PerturbationChain, Rows

L_X, L_Y = 4, 3
NP = ld.NodePerturbation


@eqx.filter_jit
def stepped_by(chain, constants, now, normals, chi_squares, first, last):
    return chain.steps(constants, now, normals, chi_squares, first, last)


def with_runs(now):
    return jax.tree.map(lambda leaf: jnp.asarray(leaf)[..., None], now)


def alone(now):
    return jax.tree.map(lambda leaf: np.asarray(leaf)[..., 0], now)


def gram(W_1, W_2):
    U = np.concatenate([W_2.T, W_1], axis=1)
    return U.T @ U


def explicit(it, chain, A, now, normals, chi_squares, rng):
    """The Gram matrix after one step of the rule in L_h dimensions, with the chain's numbers."""
    rule, L_h = it.rule, it.network.widths[1]
    B, n, m = rule.batch, chain.draws, L_X + L_Y
    noisy = it.problem.label_noise > 0
    parts = np.split(normals, np.cumsum([B * L_X, B * L_Y * noisy, n * L_Y, n * (m + chain.room)]))
    x, z, xi_2, zeta, below = parts
    x, zeta, xi_2 = x.reshape(B, L_X), zeta.reshape(n, -1), xi_2.reshape(n, L_Y)
    z = z.reshape(B, L_Y) if noisy else np.zeros((B, L_Y))
    there = m + int(now.used)
    frame = np.linalg.qr(rng.standard_normal((L_h, L_h)))[0]
    W_2, W_1 = (frame[:, :there] @ R[:there] for R in (now.R_2, now.R_1))
    W_2 = W_2.T
    rest = np.zeros((n, L_h - there))
    rest[np.tril_indices(n, -1)] = below
    np.fill_diagonal(rest, np.sqrt(chi_squares + np.sum(zeta[:, there:] ** 2, axis=1)))
    xi_1 = zeta[:, :there] @ frame[:, :there].T + rest @ frame[:, there:].T
    y = x @ A.T - it.problem.label_noise * z
    out = lambda a, b: (x @ W_1.T + a) @ W_2.T + b
    loss = lambda outputs: it.problem.loss_scale * np.sum((outputs - y) ** 2, axis=1)
    d_1, d_2 = np.zeros_like(W_1), np.zeros_like(W_2)
    for draw in range(n):
        seen = np.arange(B) if rule.shared else [draw % B]
        # Without sigma by central differences, which are exact: along a line the loss is quadratic.
        size = 1.0 if rule.sigma is None else rule.sigma
        at = lambda c, draw=draw, size=size: loss(out(c * size * xi_1[draw], c * size * xi_2[draw]))
        s = (at(1) - at(-1)) / 2 if rule.sigma is None else (at(1) - at(0)) / size
        for i in seen:
            d_1 += s[i] * np.outer(xi_1[draw], x[i])
            d_2 += s[i] * np.outer(xi_2[draw], W_1 @ x[i])
    step = rule.learning_rate / (B * rule.perturbations)
    return gram(W_1 - step * d_1, W_2 - step * d_2)


RULES = {
    "limit": (NP(0.003), {}),
    "labels": (NP(0.002), {"noise": 0.4, "loss_scale": 1.0}),
    "sigma": (NP(0.003, sigma=0.3), {}),
    "batch": (NP(0.006, batch=3), {"noise": 0.2}),
    "repeated": (NP(0.006, batch=2, perturbations=2, sigma=0.2), {}),
    "shared": (NP(0.006, batch=3, perturbations=2, shared=True), {"noise": 0.3}),
}


@pytest.mark.parametrize("name", RULES)
def test_steps_are_those_of_the_rule(name, two_layers, monkeypatch):
    """Eleven steps, over full rows, each against the rule in all hidden dimensions."""
    rule, options = RULES[name]
    it = two_layers.system(L_X, 30, L_Y, rule, **options)
    monkeypatch.setattr(chains, "ROOM", 5)
    chain, rng = ld.theory_of(it).chain(), np.random.default_rng(3)
    state = ld.start(it, key=1).state
    used = set()
    with jax.enable_x64(True):
        A, now = chain.begin(state)
        now = with_runs(now)
        for _ in range(11):
            normals = rng.standard_normal(chain.normals)
            chi_squares = rng.chisquare(chain.degrees)
            expected = explicit(it, chain, A, alone(now), normals, chi_squares, rng)
            given = normals[None, :, None], chi_squares[None, :, None]
            before, now = alone(now), stepped_by(chain, A, now, *given, np.int64(0), np.int64(1))
            used.add(int(before.used))
            found = to_numpy(chain.state(A, alone(now))).matrix
            np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)
            assert np.max(np.abs(found - gram(before.R_1, before.R_2.T))) > 1e-3
    assert len(used) == max(1, chain.room // chain.draws)


@pytest.mark.parametrize("batch", [1, 3])
def test_steps_of_sgd(batch, two_layers):
    it = two_layers.system(L_X, 30, L_Y, ld.SGD(0.05, batch=batch), noise=0.3)
    chain, rng = ld.theory_of(it).chain(), np.random.default_rng(3)
    begin = ld.start(it, key=1)
    (W_1, W_2), A = begin.weights, begin.teacher
    with jax.enable_x64(True):
        A, now = chain.begin(begin.state)
        now = with_runs(now)
        for _ in range(3):
            normals = rng.standard_normal(chain.normals)
            now = stepped_by(
                chain, A, now, normals[None, :, None], np.zeros((1, 0, 1)), np.int64(0), np.int64(1)
            )
            x, z = normals[: batch * L_X].reshape(batch, -1), normals[batch * L_X :]
            e = x @ (W_2 @ W_1 - A).T + 0.3 * z.reshape(batch, -1)
            W_1, W_2 = (
                W_1 - 0.05 / batch * W_2.T @ e.T @ x,
                W_2 - 0.05 / batch * e.T @ (x @ W_1.T),
            )
        found = to_numpy(chain.state(A, alone(now))).matrix
    np.testing.assert_allclose(found, gram(W_1, W_2), rtol=0, atol=1e-12)


def test_blocks_of_steps_are_single_steps(two_layers, monkeypatch):
    it = two_layers.system(L_X, 30, L_Y, NP(0.02))
    monkeypatch.setattr(chains, "ROOM", 5)
    chain, rng = ld.theory_of(it).chain(), np.random.default_rng(0)
    normals = rng.standard_normal((17, chain.normals, 2))
    chi_squares = rng.chisquare(chain.degrees[:, None], (17, 1, 2))
    with jax.enable_x64(True):
        A, now = chain.begin(ld.start(it).state)
        now = jax.tree.map(lambda leaf: jnp.repeat(jnp.asarray(leaf)[..., None], 2, axis=-1), now)
        once = stepped_by(chain, A, now, normals, chi_squares, np.int64(2), np.int64(16))
        for i in range(2, 16):
            now = stepped_by(chain, A, now, normals, chi_squares, np.int64(i), np.int64(i + 1))
    for name in Rows._fields:
        np.testing.assert_allclose(getattr(once, name), getattr(now, name), atol=1e-13)


def test_begin_keeps_the_state(two_layers):
    for rule in (NP(0.1), ld.SGD(0.1)):
        it = two_layers.system(L_X, 90, L_Y, rule)
        state, chain = ld.start(it, key=4).state, ld.theory_of(it).chain()
        with jax.enable_x64(True):
            again = to_numpy(chain.state(*chain.begin(state)))
        np.testing.assert_allclose(again.matrix, state.matrix, atol=1e-13)
        np.testing.assert_array_equal(again.A, state.A)


def test_begins_from_weights_of_lower_rank(two_layers):
    it = two_layers.system(L_X, 90, L_Y, NP(0.02))
    W_1, W_2 = np.zeros((90, L_X)), np.zeros((L_Y, 90))
    W_1[:2, :2], W_2[0, 0] = np.eye(2), 1.0
    begin = ld.start(it, weights=(W_1, W_2))
    record = ld.simulate(it, [0, 30], start=begin, method="reduced")
    assert (
        record.alpha[0, 0] == 0.5 and np.all(np.isfinite(record.alpha)) and record.alpha[0, 1] > 0.5
    )


def test_the_degrees_are_those_of_all_hidden_units(two_layers):
    """Squared lengths of a perturbation add up to L_h, wherever the rows end."""
    for L_h in (10, 30, 10**7):
        chain = ld.theory_of(two_layers.system(L_X, L_h, L_Y, NP(0.1))).chain()
        assert chain.degrees[0] + L_X + L_Y + chain.room == L_h


def test_work_does_not_depend_on_the_hidden_width(two_layers):
    """One program, of one operation count, for every L_h: only numbers in it differ."""
    chain_of = lambda L_h: ld.theory_of(two_layers.system(L_X, L_h, L_Y, NP(0.1))).chain()
    narrow, wide = chain_of(10**3), chain_of(10**7)
    assert narrow.operations == wide.operations and narrow.normals == wide.normals
    shapes = [
        [leaf.shape for leaf in jax.tree.leaves(chain.begin(ld.start(it).state))]
        for chain, it in (
            (c, two_layers.system(L_X, w, L_Y, NP(0.1)))
            for c, w in ((narrow, 10**3), (wide, 10**7))
        )
    ]
    assert shapes[0] == shapes[1]


def test_too_narrow_a_layer_has_no_chain(two_layers):
    for L_h, batch in ((7, 1), (12, 4)):
        found = ld.theory_of(two_layers.system(L_X, L_h, L_Y, NP(0.1, batch=batch))).chain()
        assert isinstance(found, Refused) and "too few to eliminate" in found.reason
    assert isinstance(
        ld.theory_of(two_layers.system(L_X, 8, L_Y, NP(0.1))).chain(), PerturbationChain
    )


def test_traces_begin_no_chain_and_no_weights(two_layers):
    it = two_layers.system(L_X, 90, L_Y, NP(0.02))
    begin = ld.start(it, state=ld.Traces(1.0, 1.0, 0.5, 0.0))
    with pytest.raises(ValueError, match="state: got a Traces, which no chain begins from"):
        ld.simulate(it, [1], start=begin, method="reduced")
    with pytest.raises(ValueError, match="start: got a state, but many networks have"):
        ld.simulate(it, [1], start=begin, method="direct")


def test_a_run_does_not_depend_on_the_times(two_layers):
    it = two_layers.system(L_X, 90, L_Y, NP(0.02))
    once = ld.simulate(it, [130], method="reduced", key=7, runs=3)
    often = ld.simulate(it, [7, 60, 130], method="reduced", key=7, runs=2)
    np.testing.assert_array_equal(often.epsilon[:, -1], once.epsilon[:2, -1])
