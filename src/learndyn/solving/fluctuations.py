"""Linear noise: the standard deviations of a theory's observables at size N."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import ode
from learndyn.numerics.ode import Trajectory, largest
from learndyn.numerics.types import Array
from learndyn.theory import AbstractTheory
from learndyn.theory.base import DIVERGED, State

MOST_VARIABLES = 2000  # the covariance holds the square of it


@eqx.filter_jit
def integrate_with_noise(
    theory: AbstractTheory,
    state: State,
    times: Array,
    order: str,
    per_time: Array,
    size: Array,
    rtol: Array,
    atol: Array,
) -> Trajectory:
    """Integrates `theory.drift` and, next to it, the covariance P of the moving variables.

        dP/dα = J P + P Jᵀ + D / N,    P(0) = 0,

    with J the Jacobian of the drift and D = `theory.diffusion`: the central limit of the
    chain of SGD about its mean, of relative error 1/√N in the standard deviation. That of an
    observable o is √(∇o P ∇oᵀ), to first order in P.

    Args:
        theory: the theory, bound to its system; one that states a `diffusion`.
        state: the state at time 0, where every run begins.
        times: increasing, non-negative.
        order: passed to `drift` and `diffusion`.
        per_time: what the rates are multiplied by, for the unit of `times`.
        size: N.
        rtol: relative tolerance of a step, for P as for the state.
        atol: absolute tolerance of a step, for N P as for the state.

    Returns:
        The trajectory of observables, each with its standard deviation `<name>_std`.

    Raises:
        ValueError: for more than `MOST_VARIABLES` moving variables.
    """
    start = jnp.asarray(theory.moving(state))
    n = _allowed(len(start))

    def field(y: tuple[Array, Array]) -> tuple[Array, Array]:
        here = theory.with_moving(state, y[0])
        drift = lambda v: theory.moving(theory.drift(theory.with_moving(state, v), order))
        rate, tangent = jax.linearize(drift, y[0])
        half = jax.vmap(tangent, in_axes=1, out_axes=1)(y[1])
        growth = half + half.T + theory.diffusion(here, order)
        return per_time * rate, per_time * growth

    def save(y: tuple[Array, Array]) -> dict[str, Any]:
        observe = lambda v: theory.observe(theory.with_moving(state, v))
        slopes = jax.jacfwd(observe)(y[0])
        deviation = lambda g: _root(jnp.einsum("...i,ij,...j->...", g, y[1], g) / size)
        stds = {f"{name}_std": deviation(slope) for name, slope in slopes.items()}
        return {**observe(y[0]), **stds}

    bound = DIVERGED * largest(state)
    begin = (start, jnp.zeros((n, n)))  # P is carried as N P, which is of the state's size
    return ode.integrate(
        field, begin, times, save, rtol=rtol, atol=atol, bound=bound, watched=lambda y: y[0]
    )


def _allowed(n: int) -> int:
    if n > MOST_VARIABLES:
        raise ValueError(
            f"fluctuations: got True for a state of {n} variables; "
            f"allowed are at most {MOST_VARIABLES}"
        )
    return n


def _root(variance: Array) -> Array:
    # Rounding may leave a variance that is zero a little below it.
    return jnp.sqrt(jnp.maximum(variance, 0))
