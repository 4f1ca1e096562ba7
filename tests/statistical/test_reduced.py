"""The reduced engine has the law of the direct one, at sizes where every term of it counts.

Means, variances and autocovariances of Q, R and the error over many runs, in standard errors.
"""

import functools

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.random import Source, keys_of_runs
from learndyn.simulation import reduced

RUNS = 20_000
BOUND = 4.8  # standard errors: 400 comparisons exceed it once in 1500 tests


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


def system(activation, spectrum, K, M, eta, batch=1, noise=0.0, scale=0.7):
    teacher = ld.Committee(M, activation, scale=scale)
    data = ld.TeacherStudent(spectrum, teacher, label_noise=noise)
    return ld.System(data, ld.Committee(K, activation, scale=scale), ld.SGD(eta, batch=batch))


SYSTEMS = {
    "erf": system("erf", ld.Isotropic(20), 2, 2, 4.0, noise=0.3),
    "quadratic": system("quadratic", ld.Isotropic(30), 3, 2, 0.15, scale=0.3),
    "linear": system("linear", ld.Isotropic(25), 2, 1, 1.5, batch=3, noise=0.5),
    "levels, batch": system("erf", ld.Spectrum([2.0, 0.5], [10, 20]), 3, 1, 4.0, batch=2),
    "scarce levels": system("erf", ld.Spectrum([3.0, 1.5, 0.7], [1, 3, 22]), 2, 2, 3.0, noise=0.2),
    "large batch": system("erf", ld.Spectrum([2.0, 0.5], [3, 17]), 2, 1, 6.0, batch=5),
}


def start(it):
    return ld.start(it, key=3)


def times(it):
    return np.array([1.0, 4.0]) if it.rule.batch == 1 else np.array([0.5, 2.0])


@functools.cache
def direct(name, key):
    """Many runs of the rule's own step in one kernel; what the theory observes of them."""
    it = SYSTEMS[name]
    begin, theory, ends = start(it), ld.theory_of(it), np.rint(times(it) * it.dim).astype(int)
    teacher = jnp.asarray(begin.teacher)

    @eqx.filter_jit
    def all_runs(words):
        step = it.rule.bind(it.problem, it.network, teacher, jnp.float64).step

        def one(words):
            body = lambda i, w: step(w, (), Source(words, i))[0]
            middle = jax.lax.fori_loop(0, ends[0], body, jnp.asarray(begin.weights))
            last = jax.lax.fori_loop(ends[0], ends[1], body, middle)
            seen = [theory.observe(theory.project(w, teacher)) for w in (middle, last)]
            return jax.tree.map(lambda *v: jnp.stack(v), *seen)

        return jax.lax.map(one, words.T, batch_size=500)

    with jax.enable_x64(True):
        return {k: np.asarray(v) for k, v in all_runs(keys_of_runs(key, slice(0, RUNS))).items()}


def chain_runs(name, key):
    it = SYSTEMS[name]
    record = ld.simulate(it, times(it), start=start(it), runs=RUNS, key=key, method="reduced")
    assert np.all(record.outcome == "finished")
    return {name: record[name].values for name in ("Q", "R", "error")}


def distances(a, b):
    """Largest distance of means, of variances and of autocovariances, in standard errors."""
    found = {"mean": [], "variance": [], "autocovariance": []}
    for name in a:
        u, v = (x[name].reshape(RUNS, 2, -1) for x in (a, b))
        found["mean"].append(_apart(u, v))
        u, v = u - u.mean(axis=0), v - v.mean(axis=0)
        found["variance"].append(_apart(u**2, v**2))
        found["autocovariance"].append(_apart(u[:, 0] * u[:, 1], v[:, 0] * v[:, 1]))
    return {what: float(np.max(np.concatenate(values))) for what, values in found.items()}


def _apart(u, v):
    error = np.sqrt((u.var(axis=0) + v.var(axis=0)) / RUNS)
    return np.ravel(np.abs(u.mean(axis=0) - v.mean(axis=0)) / error)


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["levels, batch", slow("erf"), slow("scarce levels")])
def test_the_two_engines_have_one_law(name, seed=1):
    found = distances(direct(name, seed), chain_runs(name, seed + 100))
    assert max(found.values()) < BOUND, found


@pytest.mark.slow
@pytest.mark.statistical
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("name", SYSTEMS)
def test_the_two_engines_have_one_law_at_other_seeds(name, seed):
    test_the_two_engines_have_one_law(name, seed)


def _mean_chi_square(draw):
    def drawn(chain, words, steps):
        normals, chi_squares = draw(chain, words, steps)
        return normals, jnp.broadcast_to(chain.degrees[:, None], chi_squares.shape)

    return drawn


def _louder_labels(draw):
    def drawn(chain, words, steps):
        normals, chi_squares = draw(chain, words, steps)
        return normals.at[:, -1].multiply(1.04), chi_squares

    return drawn


@pytest.mark.statistical
@pytest.mark.parametrize("wrong", [slow(_mean_chi_square), slow(_louder_labels)])
def test_small_errors_in_the_noise_are_seen(wrong, monkeypatch):
    """The chi-square as its mean, and label noise louder by 4 %: the comparison sees either."""
    right = direct("erf", 1)
    monkeypatch.setattr(reduced, "_random_numbers", wrong(reduced._random_numbers))
    jax.clear_caches()
    found = distances(right, chain_runs("erf", 101))
    jax.clear_caches()
    assert max(found.values()) > 1.3 * BOUND, found
