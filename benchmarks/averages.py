"""Speed and error of Gaussian averages, K = M = 2, 4, 6, against averages over random points.

    python benchmarks/averages.py [student[/teacher] …]

Per evaluation, in milliseconds (the quickest of many, after compilation): the pair tables that the
drift at order "flow" needs, and E[g'_i g'_j Δ²] of order "full". `error` is the stated one, the
change under refinement. `points` is the time of quasi-random points for the latter, times the
factor by which their number must grow to reach that error (or 1e-6): their error is measured at
2^14 points and taken to fall as 1/number, which flatters them at kinks.
"""

import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import NAMED, Units
from learndyn.numerics.gaussian.pairs import points

CASES = ["erf", "relu", "leaky_relu", "sine", "tanh", "sigmoid", "gelu", "swish", "softplus",
         "erf/relu", "relu/tanh", "relu/sign", "tanh/gelu", "quadratic/relu"]  # fmt: skip


def state(K: int) -> tuple[np.ndarray, np.ndarray]:
    """A student half way to its teacher, with standard deviations up to 1.4."""
    rng, N = np.random.default_rng(0), 8 * K
    teacher = np.linalg.qr(rng.standard_normal((N, K)))[0].T
    rows = np.concatenate([rng.standard_normal((K, N)) / N**0.5 + 0.7 * teacher, teacher])
    return rows @ rows.T, np.repeat([-1.0, 1.0], K) / K**0.5


def milliseconds(function, *args) -> float:
    """The quickest of many calls: the others wait for other processes."""
    jax.block_until_ready(function(*args))
    times, end = [], time.perf_counter() + 0.5
    while time.perf_counter() < end or len(times) < 5:
        start = time.perf_counter()
        jax.block_until_ready(function(*args))
        times.append(time.perf_counter() - start)
    return 1e3 * min(times)


def measure(name: str, K: int) -> str:
    """One line of the table."""
    student, teacher = (NAMED[part] for part in (name.split("/") * 2)[:2])
    sigma, c = (jnp.asarray(array) for array in state(K))
    units = Units(student, teacher, K, K).resolved(np.asarray(sigma))
    pairs = milliseconds(jax.jit(lambda s: (units.slopes(s), units.curvatures(s))), sigma)
    omega = jax.jit(units.noise)
    noise = milliseconds(omega, sigma, c)
    error = units.error(sigma, c)
    crude = jax.jit(lambda s, c: points(units, s, None).noise(c))
    exact = omega(sigma, c)
    share = float(jnp.max(jnp.abs(crude(sigma, c) - exact)) / jnp.max(jnp.abs(exact)))
    equal = milliseconds(crude, sigma, c) * max(1.0, share / max(error, 1e-6))
    return (
        f"{name:<16}{K:>3}{pairs:>9.3f}{noise:>9.3f}{error:>10.1e}{equal:>11.1f}  {units.method()}"
    )


def main() -> None:
    """Prints the table."""
    print(f"{'units':<16}{'K':>3}{'pairs':>9}{'noise':>9}{'error':>10}{'points':>11}  method")
    with jax.enable_x64(True):
        for name in sys.argv[1:] or CASES:
            for K in (2, 4, 6):
                print(measure(name, K), flush=True)


if __name__ == "__main__":
    main()
