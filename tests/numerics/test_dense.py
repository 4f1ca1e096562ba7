"""Dense linear algebra against NumPy, one by one and in batches, and that no batch can hang."""

import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn
from learndyn.networks.solvable.matrix_product import natural_direction
from learndyn.numerics import dense

SOURCE = Path(learndyn.__file__).parent
HUNG = 300  # seconds; the work takes about ten


def definite(*shape):
    A = np.random.default_rng(0).standard_normal((*shape, shape[-1]))
    return A @ A.swapaxes(-1, -2) + np.eye(shape[-1])


def right_hand_sides(*shape):
    return np.random.default_rng(1).standard_normal(shape)


def from_eigh(A):
    values, U = dense.eigh(A)
    return values, (U * values) @ U.T


CASES = {
    "eigh": (from_eigh, lambda A, b: (np.linalg.eigvalsh(A), A)),
    "cholesky": (dense.cholesky, lambda A, b: np.linalg.cholesky(A)),
    "triangular": (
        lambda A: dense.triangular(A[:, :3]).T @ dense.triangular(A[:, :3]),
        lambda A, b: A[..., :3].swapaxes(-1, -2) @ A[..., :3],
    ),
    "orthonormal": (
        lambda A: dense.orthonormal(A[:, :3]) @ dense.orthonormal(A[:, :3]).T,
        lambda A, b: A[..., :3] @ np.linalg.pinv(A[..., :3]),
    ),
    "pinv": (lambda A: dense.pinv(A[:, :3]), lambda A, b: np.linalg.pinv(A[..., :3])),
    "spectral_norm": (
        lambda A: dense.spectral_norm(A[:3]),
        lambda A, b: np.linalg.norm(A[..., :3, :], 2, axis=(-2, -1)),
    ),
    "solve": (dense.solve, np.linalg.solve),
    "solve_cholesky": (lambda A, b: dense.solve_cholesky(dense.cholesky(A), b), np.linalg.solve),
    "solve_lower": (
        lambda A, b: dense.solve_lower(dense.cholesky(A), b),
        lambda A, b: np.linalg.solve(np.linalg.cholesky(A), b),
    ),
}
BINARY = ("solve", "solve_cholesky", "solve_lower")


def arguments(name, *lead):
    A, b = definite(*lead, 4), right_hand_sides(*lead, 4, 2)
    return ((A, b) if name in BINARY else (A,)), CASES[name][1](A, b)


def agree(found, expected):
    jax.tree.map(
        lambda f, e: np.testing.assert_allclose(f, e, rtol=1e-11, atol=1e-12), *(found, expected)
    )


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("lead", [(), (3,), (3, 2)])
def test_values_alone_and_under_vmap(name, lead):
    function, (given, expected) = CASES[name][0], arguments(name, *lead)
    for _ in lead:
        function = jax.vmap(function)
    with jax.enable_x64(True):
        agree(jax.jit(function)(*given), expected)
        agree(function(*given), expected)


def test_leading_axes():
    A, b = definite(3, 2, 4), right_hand_sides(3, 2, 4, 1)
    with jax.enable_x64(True):
        values, U = jax.jit(dense.eigh)(A)
        agree((U * values[..., None, :]) @ U.swapaxes(-1, -2), A)
        agree(dense.cholesky(A), np.linalg.cholesky(A))
        agree(dense.solve(A, b), np.linalg.solve(A, b))
        agree(dense.pinv(A[..., :3]), np.linalg.pinv(A[..., :3]))
        agree(dense.spectral_norm(A), np.linalg.norm(A, 2, axis=(-2, -1)))
        vector = b[0, 0, :, 0]
        agree(dense.solve(A[0, 0], vector), np.linalg.solve(A[0, 0], vector))


def test_only_some_arguments_are_batched():
    A, b = definite(3, 4), right_hand_sides(5, 4, 2)
    with jax.enable_x64(True):
        over_b = jax.vmap(dense.solve, (None, 0))
        agree(over_b(A[0], b), np.linalg.solve(A[0], b))
        both = jax.jit(jax.vmap(over_b, (0, None)))(A, b)
        agree(both, np.linalg.solve(A[:, None], b))


@pytest.mark.parametrize("name", CASES)
def test_forward_derivatives(name):
    """Of one matrix, of a batch, and whole Jacobians of a batch, against finite differences."""
    given, _ = arguments(name, 3)
    rng, h = np.random.default_rng(2), 1e-5
    symmetric = lambda x: x + x.swapaxes(-1, -2) if x.shape[-1] == x.shape[-2] else x
    tangents = tuple(symmetric(rng.standard_normal(x.shape)) for x in given)
    function = lambda *xs: jax.tree.leaves(CASES[name][0](*xs))[0]
    move = lambda s: tuple(x + s * h * t for x, t in zip(given, tangents, strict=True))

    def along(tangents, *xs):
        return jax.jvp(function, xs, tangents)[1]

    with jax.enable_x64(True):
        every = jax.jit(jax.vmap(function))
        expected = (every(*move(1)) - every(*move(-1))) / (2 * h)
        found = jax.jit(jax.vmap(along))(tangents, *given)
        np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-7)
        one = [x[0] for x in given]
        np.testing.assert_allclose(along(tuple(t[0] for t in tangents), *one), found[0], atol=1e-12)
        J = jax.jit(jax.vmap(jax.jacfwd(function)))(*given)
        if len(given) == 1:
            contracted = jnp.einsum("b...ij,bij->b...", J, tangents[0])
            np.testing.assert_allclose(contracted, found, atol=1e-11)


def batched_work(A, B):
    U = dense.eigh(A + A.T)[1]
    return U + dense.cholesky(B) + dense.eigh(B)[1] + dense.solve(B, A) + dense.pinv(A)


def batched_step(*weights):
    return natural_direction(weights, weights[0], 0.5, blocks=True)


def batched_solve(*weights):
    return natural_direction(weights, weights[0], 1)


def two_layers(*weights):
    return natural_direction(weights, weights[0], 0.5, root=weights[0])


PROGRAMS = {
    "functions": (batched_work, 2),
    "their derivatives": (jax.jacfwd(batched_work), 2),
    "blocks": (batched_step, 3),
    "natural gradient": (batched_solve, 3),
    "two layers": (two_layers, 2),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_batch_reaches_lapack_on_a_cpu(name):
    function, arguments = PROGRAMS[name]
    traced = jax.jit(jax.vmap(jax.vmap(function))).trace(*arguments * [np.ones((5, 6, 4, 4))])
    text = traced.lower(lowering_platforms=("cpu",)).as_text()
    assert "lapack" in text
    assert set(re.findall(r'num_batch_dims = "(\d+)"', text)) == {"0"}


def test_an_accelerator_takes_the_batch_at_once():
    traced = jax.jit(jax.vmap(jax.vmap(dense.eigh))).trace(np.ones((5, 6, 4, 4)))
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert 'num_batch_dims = "2"' in text and "stablehlo.while" not in text


def test_a_batch_takes_only_the_branch_that_it_needs():
    """A batched `cond` would compute both: here, eigenvalues beside every Cholesky factor."""
    weights = 3 * [np.ones((5, 4, 4))]
    text = jax.jit(jax.vmap(batched_solve)).lower(*weights).as_text()
    assert "stablehlo.case" in text


def test_nothing_else_calls_jax_linear_algebra():
    other = re.compile(r"(jnp|jsp|lax|jax\.numpy|jax\.scipy)\.linalg|from jax\S* import .*linalg\b")
    used = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if other.search(path.read_text(encoding="utf-8"))
    }
    assert used == {"numerics/dense.py"}


CHILD = """
import os

os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:2])  # before JAX counts the cores

import jax
import numpy as np

from learndyn.numerics import dense
from learndyn.networks.solvable.matrix_product import natural_direction

jax.config.update("jax_enable_x64", True)


def work(A, B):
    values, U = dense.eigh(A + A.T)
    return values.sum() + U[0, 0] + dense.cholesky(B).sum() + dense.eigh(B)[0].sum()


def step(*weights):
    return natural_direction(weights, weights[0], 0.5, blocks=True)


# Batches of this size hang within tens of calls where LAPACK is given them whole.
A = np.random.default_rng(0).standard_normal((4000, 8, 8))
B = A @ A.swapaxes(1, 2) + np.eye(8)
works, steps = jax.jit(jax.vmap(work)), jax.jit(jax.vmap(step))
for i in range(60):
    jax.block_until_ready(works(A, B))
    if i % 4 == 0:
        jax.block_until_ready(steps(A, A, A))
print("done")
"""


def test_two_cores_do_not_hang():
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1"}
    child = subprocess.run(
        [sys.executable, "-c", CHILD],
        capture_output=True,
        text=True,
        timeout=HUNG,
        env=environment,
        check=False,
    )
    assert child.stdout == "done\n", child.stderr
