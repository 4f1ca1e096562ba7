"""A stabilised explicit solver for diffrax, for mildly stiff systems with a large Jacobian.

RKC of Sommeijer, Shampine and Verwer (J. Comput. Appl. Math. 88, 1998): order 2, with as
many stages s as stability requires. With s stages the stability region extends to 0.65 s² along
the negative real axis, compared with 2 s for s steps of Euler's method. The method suits
Jacobians whose spectrum lies near the negative real axis, as that of a gradient flow does.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.runtime.types import Array

Radius = Callable[[Any], Array]

_DAMPING = 2 / 13  # ε of the paper: widens the stability region, which would touch the axis
# Bounds the work of one attempted step. A step that needs more stages is unstable, so the
# controller rejects it for its error and tries a shorter one.
_MOST_STAGES = 400


class Chebyshev(diffrax.AbstractAdaptiveSolver):
    """RKC for an autonomous dy/dt = f(y).

    Args:
        radius: y → a bound on the spectral radius of the Jacobian of f there.
    """

    radius: Radius = eqx.field(static=True)

    term_structure: ClassVar = diffrax.AbstractTerm
    # Never evaluated inside a step: `integrate` makes steps end on the times that are saved.
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms) -> int:
        return 2

    def error_order(self, terms) -> int:
        return 3  # the estimate below is the local error itself, of order τ³

    def init(self, terms, t0, t1, y0, args) -> None:
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tau, f = t1 - t0, lambda y: terms.vf(t0, y, args)
        # s stages are stable for τ · radius ≤ 0.65 (s² − 1); 1.54 is just above 1 / 0.65.
        wanted = 1 + jnp.ceil(jnp.sqrt(1 + 1.54 * tau * self.radius(y0)))
        f0 = f(y0)
        y1 = _stages(f, y0, f0, tau, jnp.clip(wanted, 2, _MOST_STAGES))
        # The paper's error estimate: it costs only f(y1), whatever the number of stages.
        estimate = lambda a, b, fa, fb: 0.8 * (a - b) + 0.4 * tau * (fa + fb)
        error = jax.tree.map(estimate, y0, y1, f0, f(y1))
        return y1, error, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def _stages(f: Callable[[Any], Any], y0: Any, f0: Any, tau: Array, s: Array) -> Any:
    """The last of s stages, Y_j = (1 − μ − ν) Y_0 + μ Y_{j−1} + ν Y_{j−2} + τ (μ̃ F_{j−1} + γ̃ F_0).

    The letters are those of the paper, with T_j the Chebyshev polynomials at w_0.
    """
    w0 = 1 + _DAMPING / s**2
    root = jnp.sqrt(w0**2 - 1)
    # w_0 > 1, where T_j(w_0) = cosh(j arccosh w_0): closed forms, so that a loop over a traced
    # number of stages needs no recurrence for T_j and its derivatives.
    angle = jnp.log(w0 + root)
    T = lambda j: jnp.cosh(j * angle)
    slope = lambda j: j * jnp.sinh(j * angle) / root
    second = lambda j: (j**2 * T(j) - w0 * slope(j)) / root**2
    w1 = slope(s) / second(s)
    # T_0 and T_1 have no second derivative; the paper sets b_0 = b_1 = b_2.
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
