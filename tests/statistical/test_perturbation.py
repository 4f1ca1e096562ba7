"""The chain of two linear layers has the law of the rule on all weights, at small sizes.

Means, variances and autocovariances of log α, log β and log ε over many runs, in standard errors.
Rates are below those at which a few runs run away and carry the ensemble's means with them.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.random import Source, keys_of_runs
from learndyn.runtime.pieces import Piece
from learndyn.simulation import reduced
from learndyn.simulation.following import Group
from learndyn.theory.perturbation import chain as chains

RUNS, FEW = 20_000, 4000
STEPS = np.array([20, 60])
BOUND = 4.2  # standard errors: 15 comparisons exceed it once in 2500 tests
NAMES = ("alpha", "beta", "epsilon")
NP = ld.NodePerturbation


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def system(L_h, rule, noise=0.0):
    A = np.random.default_rng(0).standard_normal((3, 6)) * np.sqrt(2 / 9)
    data = ld.TeacherStudent(ld.Isotropic(6), ld.LinearTeacher(3, A), label_noise=noise)
    return ld.System(data, ld.DeepLinear([6, L_h, 3]), rule)


SYSTEMS = {
    "labels": system(80, NP(1.2e-3), noise=0.3),
    "narrow": system(12, NP(2e-3)),
    "sigma": system(40, NP(1.5e-3, sigma=0.5)),
    "batch": system(30, NP(4e-3, batch=3), noise=0.3),
    "shared": system(30, NP(3e-3, batch=2, perturbations=2, shared=True)),
    "sgd": system(20, ld.SGD(0.02, batch=2), noise=0.3),
}


@functools.cache
def direct(name, key, runs=RUNS):
    """Many runs of the rule's own step in one kernel; what the theory observes of them."""
    it = SYSTEMS[name]
    begin, theory = ld.start(it, key=3), ld.theory_of(it)

    @eqx.filter_jit
    def all_runs(words):
        weights, teacher = jax.tree.map(jnp.asarray, (begin.weights, begin.teacher))
        step = it.rule.bind(it.problem, it.network, teacher, jnp.float64).step

        def one(words):
            body = lambda i, w: step(w, (), Source(words, i))[0]
            middle = jax.lax.fori_loop(0, STEPS[0], body, weights)
            last = jax.lax.fori_loop(STEPS[0], STEPS[1], body, middle)
            seen = [theory.observe(theory.project(w, teacher)) for w in (middle, last)]
            return jax.tree.map(lambda *v: jnp.stack(v), *seen)

        return jax.lax.map(one, words.T, batch_size=1000)

    with jax.enable_x64(True):
        found = all_runs(keys_of_runs(key, slice(0, runs)))
    return {k: np.log(np.asarray(found[k])) for k in NAMES}


def chain_runs(name, key, runs=RUNS):
    """The reduced engine with many runs side by side: one by one they would be 20 000 calls."""
    it = SYSTEMS[name]
    theory, state = ld.theory_of(it), ld.start(it, key=3).state
    width = 1000
    engine = reduced.Reduced(theory, theory.chain(), [state], key, width)
    piece = Piece(np.int64(0), STEPS, np.int64(2), 0, 2)
    found = []
    with jax.enable_x64(True):
        for first in range(0, runs, width):
            carried = engine.begin(Group(0, slice(first, first + width)))
            found.append(engine.record(carried, piece)[1][0])
    return {k: np.log(np.concatenate([np.asarray(f[k]) for f in found])) for k in NAMES}


def distances(a, b):
    """Largest distance of means, of variances and of autocovariances, in standard errors."""
    found = {"mean": [], "variance": [], "autocovariance": []}
    for name in NAMES:
        u, v = a[name], b[name]
        found["mean"].append(_apart(u, v))
        u, v = u - u.mean(axis=0), v - v.mean(axis=0)
        found["variance"].append(_apart(u**2, v**2))
        found["autocovariance"].append(_apart(u[:, :1] * u[:, 1:], v[:, :1] * v[:, 1:]))
    return {what: float(np.max(np.concatenate(values))) for what, values in found.items()}


def _apart(u, v):
    error = np.sqrt((u.var(axis=0) + v.var(axis=0)) / len(u))
    return np.ravel(np.abs(u.mean(axis=0) - v.mean(axis=0)) / error)


@pytest.mark.statistical
@pytest.mark.parametrize(
    ("name", "seed", "runs"),
    [("labels", 5, FEW), *(slow(name, seed, RUNS) for name in SYSTEMS for seed in range(1, 4))],
)
def test_the_chain_has_the_law_of_the_rule(name, seed, runs):
    found = distances(direct(name, seed, runs), chain_runs(name, seed + 100, runs))
    assert max(found.values()) < BOUND, found


def _more_degrees(monkeypatch):
    """Chi-squares of four degrees of freedom too many, beside 80 hidden units."""
    init = chains.PerturbationChain.__init__

    def wrong(self, system, sizes, room):
        init(self, system, sizes, room)
        object.__setattr__(self, "degrees", self.degrees + 4)

    monkeypatch.setattr(chains.PerturbationChain, "__init__", wrong)


def _no_unused(monkeypatch):
    """The squared normals of axes that are not there yet, left out."""
    right = chains.PerturbationChain._components

    def wrong(self, zeta, below, chi_squares, used):
        place = jnp.arange(zeta.shape[1]) - (sum(self.sizes) - self.sizes.hidden + used)
        return right(self, jnp.where(place < 0, zeta, 0.0), below, chi_squares, used)

    monkeypatch.setattr(chains.PerturbationChain, "_components", wrong)


def _no_new_axis(monkeypatch):
    """The part of a perturbation outside the frame, left out."""
    right = chains.PerturbationChain._components

    def wrong(self, zeta, below, chi_squares, used):
        place = jnp.arange(zeta.shape[1]) - (sum(self.sizes) - self.sizes.hidden + used)
        return jnp.where(place < 0, right(self, zeta, below, chi_squares, used), 0.0)

    monkeypatch.setattr(chains.PerturbationChain, "_components", wrong)


def _louder_outputs(monkeypatch):
    """Perturbations of the outputs that are 3 % too loud."""
    right = chains.PerturbationChain._split

    def wrong(self, normals):
        x, z, xi_2, *others = right(self, normals)
        return x, z, 1.03 * xi_2, *others

    monkeypatch.setattr(chains.PerturbationChain, "_split", wrong)


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [_no_unused, _more_degrees, _no_new_axis, _louder_outputs])
def test_small_errors_are_seen(wrong, monkeypatch):
    right = direct("labels", 1)
    wrong(monkeypatch)
    jax.clear_caches()
    found = distances(right, chain_runs("labels", 101))
    jax.clear_caches()
    assert max(found.values()) > 1.3 * BOUND, found


def steps_to(target, L_h, part, key, runs=2):
    """Mean steps until ε is `target` times the first, at a part of the critical rate."""
    A = np.random.default_rng(0).standard_normal((10, 100))
    A *= np.sqrt(2 / 110 / np.mean(A**2))
    data = ld.TeacherStudent(ld.Isotropic(100), ld.LinearTeacher(10, A))
    make = lambda rate: ld.System(data, ld.DeepLinear([100, L_h, 10]), NP(rate))
    found = ld.theory_of(make(1e-5)).landmarks(target=target)
    it = make(part * found["critical_learning_rate"])
    times = np.arange(0, 40_000, 100)
    record = ld.simulate(it, times, runs=runs, key=key, method="reduced")
    below = record.epsilon.values <= target * record.epsilon.values[:, :1]
    orders = {
        order: times[np.argmax(curve.epsilon.values <= target * curve.epsilon.values[0])]
        for order in ("full", "finite")
        for curve in [ld.solve(it, times, key=key, order=order)]
    }
    return np.mean(times[np.argmax(below, axis=1)]), found, orders


@pytest.mark.slow
@pytest.mark.statistical
def test_minimal_times_of_wide_layers(key=1):
    """Eqs. 80-81 at 10⁶ hidden units, where β/α at the end is 7 %: that much may be missing.

    At 10⁴ it is a third, and the limit is as wrong; the recursion with all sizes is not.
    """
    wide = [steps_to(1e-4, 10**6, part, key) for part in (0.7, 0.8, 0.9)]
    found = min(wide, key=lambda each: each[0])
    assert found[0] == pytest.approx(found[1]["minimal_time"], rel=0.07)
    assert found[0] < min(wide[0][0], wide[2][0]) * 1.05 and found[0] == wide[1][0]
    narrow, landmarks, orders = steps_to(1e-4, 10**4, 0.8, key)
    assert landmarks["minimal_time"] > 1.3 * narrow
    assert orders["finite"] == pytest.approx(narrow, rel=0.05)
    assert orders["full"] < orders["finite"] and orders["full"] < 0.97 * narrow
