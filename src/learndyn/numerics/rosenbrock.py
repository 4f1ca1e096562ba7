"""A stiff solver for diffrax, where the Jacobian has a structure that makes it cheap to solve.

RODAS of Hairer and Wanner (Solving Ordinary Differential Equations II, Sec. IV.7): six
stages, order 4 with an embedded error of order 3, stiffly accurate and L-stable. Each step
needs one linearisation and six solves with (w − J), which the caller provides; a dense
Jacobian is never formed.
"""

from collections.abc import Callable
from typing import Any, ClassVar

import diffrax
import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics.types import Array

Solve = Callable[[Any], Any]
Linearise = Callable[[Any, Array], Solve]

_GAMMA = 0.25
_A = (
    (),
    (1.544,),
    (0.9466785280815826, 0.2557011698983284),
    (3.314825187068521, 2.896124015972201, 0.9986419139977817),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950),
    (1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1.0),
)
_C = (
    (),
    (-5.6688,),
    (-2.430093356833875, -0.2063599157091915),
    (-0.1073529058151375, -9.594562251023355, -20.47028614809616),
    (7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160),
    (
        8.083246795921522,
        -7.981132988064893,
        -31.52159432874371,
        16.31930543123136,
        -6.058818238834054,
    ),
)


class Rodas(diffrax.AbstractAdaptiveSolver):
    """RODAS for an autonomous dy/dt = f(y).

    Args:
        linearise: (y, w) → the function b ↦ x with (w − J) x = b, J the Jacobian of f at y.
    """

    linearise: Linearise = eqx.field(static=True)

    term_structure: ClassVar = diffrax.AbstractTerm
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms) -> int:
        return 4

    def init(self, terms, t0, t1, y0, args) -> None:
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tau = t1 - t0
        solve = self.linearise(y0, 1 / (_GAMMA * tau))
        stages: list[Any] = []
        shown = y0
        for a, c in zip(_A, _C, strict=True):
            shown = _combined(y0, a, stages)
            slope = terms.vf(t0, shown, args)
            stages.append(solve(_combined(slope, [number / tau for number in c], stages)))
        y1 = _combined(shown, [1.0], stages[-1:])
        dense = {"y0": y0, "y1": y1}
        return y1, stages[-1], dense, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def _combined(base: Any, weights, stages: list[Any]) -> Any:
    """The sum base + Σ weight · stage."""
    add = lambda y, *ks: y + sum((w * k for w, k in zip(weights, ks, strict=True)), jnp.zeros(()))
    return jax.tree.map(add, base, *stages)
