"""A stabilised explicit solver for diffrax: mildly stiff systems whose Jacobian is too large.

RKC of Sommeijer, Shampine and Verwer (J. Comput. Appl. Math. 88, 1998): order 2, with as
many stages s as stability asks for. s stages reach 0.65 s² down the negative real axis,
where s steps of Euler's method reach 2 s. For spectra near the negative real axis, as
gradient flows have.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics.types import Array

Radius = Callable[[Any], Array]

_DAMPING = 2 / 13
_MOST_STAGES = 400


class Chebyshev(diffrax.AbstractAdaptiveSolver):
    """RKC for an autonomous dy/dt = f(y).

    Args:
        radius: y → a bound on the spectral radius of the Jacobian of f there.
    """

    radius: Radius = eqx.field(static=True)

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms) -> int:
        return 2

    def error_order(self, terms) -> int:
        return 3  # the estimate below is the local error itself, of order τ³

    def init(self, terms, t0, t1, y0, args) -> None:
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tau, f = t1 - t0, lambda y: terms.vf(t0, y, args)
        wanted = 1 + jnp.ceil(jnp.sqrt(1 + 1.54 * tau * self.radius(y0)))
        f0 = f(y0)
        y1 = _stages(f, y0, f0, tau, jnp.clip(wanted, 2, _MOST_STAGES))
        half = lambda a, b, fa, fb: 0.8 * (a - b) + 0.4 * tau * (fa + fb)
        error = jax.tree.map(half, y0, y1, f0, f(y1))
        return y1, error, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def _stages(f: Callable[[Any], Any], y0: Any, f0: Any, tau: Array, s: Array) -> Any:
    """The last of s stages, Y_j = (1 − μ − ν) Y_0 + μ Y_{j−1} + ν Y_{j−2} + τ (μ̃ F_{j−1} + γ̃ F_0).

    The letters are those of the paper, with T_j the Chebyshev polynomials at w_0.
    """
    w0 = 1 + _DAMPING / s**2
    root = jnp.sqrt(w0**2 - 1)
    angle = jnp.log(w0 + root)
    T = lambda j: jnp.cosh(j * angle)
    slope = lambda j: j * jnp.sinh(j * angle) / root
    second = lambda j: (j**2 * T(j) - w0 * slope(j)) / root**2
    w1 = slope(s) / second(s)
    b = lambda j: second(jnp.maximum(j, 2.0)) / slope(jnp.maximum(j, 2.0)) ** 2

    def stage(j: Array, before: Any, last: Any) -> Any:
        mu, nu = 2 * b(j) * w0 / b(j - 1), -b(j) / b(j - 2)
        push = 2 * b(j) * w1 / b(j - 1)
        gamma = -(1 - b(j - 1) * T(j - 1)) * push
        mix = lambda y, f0, old, new, g: (
            (1 - mu - nu) * y + mu * new + nu * old + tau * (push * g + gamma * f0)
        )
        return jax.tree.map(mix, y0, f0, before, last, f(last))

    first = jax.tree.map(lambda y, g: y + b(1.0) * w1 * tau * g, y0, f0)
    body = lambda j, pair: (pair[1], stage(j.astype(jnp.float64), *pair))
    return jax.lax.fori_loop(2, s.astype(jnp.int64) + 1, body, (y0, first))[1]
