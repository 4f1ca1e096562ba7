"""A stiff solver for diffrax, for Jacobians whose structure makes linear systems cheap to solve.

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
import numpy as np

from learndyn.runtime.types import Array

Solve = Callable[[Any], Any]
Linearise = Callable[[Any, Array], Solve]

_GAMMA = 0.25
_A = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [1.544, 0, 0, 0, 0, 0],
        [0.9466785280815826, 0.2557011698983284, 0, 0, 0, 0],
        [3.314825187068521, 2.896124015972201, 0.9986419139977817, 0, 0, 0],
        [1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 0, 0],
        [1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1, 0],
        [1.221224509226641, 6.019134481288629, 12.53708332932087, -0.6878860361058950, 1, 1],
    ]
)
_C = np.array(
    [
        [0, 0, 0, 0, 0, 0],
        [-5.6688, 0, 0, 0, 0, 0],
        [-2.430093356833875, -0.2063599157091915, 0, 0, 0, 0],
        [-0.1073529058151375, -9.594562251023355, -20.47028614809616, 0, 0, 0],
        [7.496443313967647, -10.24680431464352, -33.99990352819905, 11.70890893206160, 0, 0],
        [
            8.083246795921522,
            -7.981132988064893,
            -31.52159432874371,
            16.31930543123136,
            -6.058818238834054,
            0,
        ],
    ]
)


class Rodas(diffrax.AbstractAdaptiveSolver):
    """RODAS for an autonomous dy/dt = f(y).

    Args:
        linearise: (y, w) → the function b ↦ x with (w − J) x = b, J the Jacobian of f at y.
    """

    linearise: Linearise = eqx.field(static=True)

    term_structure: ClassVar = diffrax.AbstractTerm
    # Never evaluated inside a step: `integrate` makes steps end on the times that are saved.
    interpolation_cls: ClassVar = diffrax.LocalLinearInterpolation

    def order(self, terms) -> int:
        return 4

    def init(self, terms, t0, t1, y0, args) -> None:
        return None

    def step(self, terms, t0, t1, y0, args, solver_state, made_jump):
        tau = t1 - t0
        solve = self.linearise(y0, 1 / (_GAMMA * tau))

        def stage(i: Array, stages: Any) -> Any:
            slope = terms.vf(t0, _combined(y0, jnp.asarray(_A)[i], stages), args)
            solution = solve(_combined(slope, jnp.asarray(_C)[i] / tau, stages))
            return jax.tree.map(lambda kept, new: kept.at[i].set(new), stages, solution)

        # A loop, so that slope and solve are compiled once and not once per stage.
        nothing = jax.tree.map(lambda y: jnp.zeros((len(_C), *y.shape), y.dtype), y0)
        stages = jax.lax.fori_loop(0, len(_C), stage, nothing)
        y1 = _combined(y0, jnp.asarray(_A)[-1], stages)
        # y1 and the embedded solution of order 3 differ by the last stage alone.
        error = jax.tree.map(lambda kept: kept[-1], stages)
        return y1, error, {"y0": y0, "y1": y1}, None, diffrax.RESULTS.successful

    def func(self, terms, t0, y0, args):
        return terms.vf(t0, y0, args)


def _combined(base: Any, weights: Array, stages: Any) -> Any:
    """base + Σ weight · stage; stages that are still to come are zero."""
    return jax.tree.map(lambda y, ks: y + jnp.tensordot(weights, ks, 1), base, stages)
