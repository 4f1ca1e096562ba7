"""Natural-gradient updates of deep linear networks, as ratios measured in one run.

The kernel form (map space, N² × N²) against what one would do otherwise: the explicit Gauss-Newton
matrix of all weights (dN² × dN²) and its eigendecomposition, both compiled, float64, d = 4, N = 16.
Then d = 4, N = 32 by the kernel alone, and Fig. 3 of curvature2020linear in its quick preset.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.networks.solvable.matrix_product import natural_direction, product
from learndyn.studies import registry


def layers(d: int, n: int) -> tuple[jax.Array, ...]:
    rng = np.random.default_rng(0)
    return tuple(jnp.asarray(rng.standard_normal((n, n)) / np.sqrt(n)) for _ in range(d))


def explicit(weights, gap, power: float):
    """−H^(−power) g by the eigendecomposition of H = JᵀJ, the pseudo-inverse by a cut-off."""
    flat, unravel = ravel_pytree(weights)
    J = jax.jacobian(lambda v: product(unravel(v)).ravel())(flat)
    values, vectors = jnp.linalg.eigh(J.T @ J)
    kept = values > 1e-12 * values[-1]
    powers = jnp.where(kept, jnp.where(kept, values, 1.0) ** -power, 0.0)
    return unravel(-vectors @ (powers * (vectors.T @ (J.T @ gap.ravel()))))


def per_call(function, *arguments, calls: int) -> float:
    jax.block_until_ready(function(*arguments))
    best = np.inf
    for _ in range(calls):
        begin = time.perf_counter()
        jax.block_until_ready(function(*arguments))
        best = min(best, time.perf_counter() - begin)
    return best


def updates() -> None:
    weights = layers(4, 16)
    gap = product(weights) - 1.5 * jnp.eye(16)
    for power in (0.5, 1.0):
        ours = jax.jit(lambda w, g, p=power: natural_direction(w, g, p))
        theirs = jax.jit(lambda w, g, p=power: explicit(w, g, p))
        a, b = ours(weights, gap), theirs(weights, gap)
        apart = max(float(jnp.max(jnp.abs(x + y))) for x, y in zip(a, b, strict=True))
        ratio = per_call(theirs, weights, gap, calls=3) / per_call(ours, weights, gap, calls=10)
        print(f"d = 4, N = 16, power {power}: {ratio:.1f}× per update, results {apart:.1e} apart")
    entries = (4 * 16**2) ** 2 / (16**2) ** 2
    print(f"matrix entries: {entries:.0f}× fewer")


def larger() -> None:
    weights = layers(4, 32)
    gap = product(weights) - 1.5 * jnp.eye(32)
    for power in (0.5, 1.0):
        ours = jax.jit(lambda w, g, p=power: natural_direction(w, g, p))
        took = per_call(ours, weights, gap, calls=2)
        print(f"d = 4, N = 32 (kernel 1024 × 1024), power {power}: {took:.2f} s an update")


def fig3() -> None:
    study = registry.find("curvature2020linear/fig3")
    begin = time.perf_counter()
    study.compute(study.PRESETS["quick"], lambda f: None)
    print(f"curvature2020linear/fig3, quick preset: {time.perf_counter() - begin:.1f} s")


if __name__ == "__main__":
    with jax.enable_x64(True):
        updates()
        larger()
    if "--all" in sys.argv:
        fig3()
