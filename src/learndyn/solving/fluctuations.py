"""Linear noise: the standard deviations of a theory's observables at size N."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from learndyn.numerics import ode
from learndyn.numerics.divergence import bound_of, has_diverged
from learndyn.numerics.ode import Trajectory
from learndyn.numerics.progress import Meter
from learndyn.numerics.types import Array
from learndyn.theory import AbstractTheory, Flow, Noise
from learndyn.theory.dynamics import Explicit, Integration, Stabilised, State

MOST_VARIABLES = 2000  # the covariance holds the square of it


@eqx.filter_jit
def integrate_with_noise(
    theory: AbstractTheory,
    flow: Flow,
    noise: Noise,
    how: Integration,
    state: State,
    times: Array,
    per_time: Array,
    size: Array,
    rtol: Array,
    atol: Array,
    meter: Meter | None = None,
) -> Trajectory:
    """Integrates a flow and, next to it, the covariance P of the theory's independent variables.

        dP/dα = J P + P Jᵀ + D / N,    P(0) = 0,

    with J the Jacobian of the drift and D = `noise.diffusion`: the central limit of the
    chain of SGD about its mean, of relative error 1/√N in the standard deviation. That of an
    observable o is √(∇o P ∇oᵀ), to first order in P.

    Args:
        theory: the theory, which observes.
        flow: its flow.
        noise: its noise at the same order.
        how: by which scheme, as `how_with_noise` says.
        state: the state at time 0, where every run begins.
        times: increasing, non-negative.
        per_time: what the rates are multiplied by, for the unit of `times`.
        size: N.
        rtol: relative tolerance of a step, for P as for the state.
        atol: absolute tolerance of a step, for N P as for the state.
        meter: shows the progress.

    Returns:
        The trajectory of observables, each with its standard deviation `<name>_std`.

    Raises:
        ValueError: for more than `MOST_VARIABLES` variables.
    """
    start = jnp.asarray(theory.vector(state))
    n = _allowed(len(start))

    def field(y: tuple[Array, Array]) -> tuple[Array, Array]:
        here = theory.with_vector(state, y[0])
        drift = lambda v: theory.vector(flow.drift(theory.with_vector(state, v)))
        rate, tangent = jax.linearize(drift, y[0])
        half = jax.vmap(tangent, in_axes=1, out_axes=1)(y[1])
        growth = half + half.T + noise.diffusion(here)
        return per_time * rate, per_time * growth

    def save(y: tuple[Array, Array]) -> tuple[dict[str, Any], None]:
        observe = lambda v: theory.observe(theory.with_vector(state, v))
        slopes = jax.jacfwd(observe)(y[0])
        deviation = lambda g: _root(jnp.einsum("...i,ij,...j->...", g, y[1], g) / size)
        stds = {f"{name}_std": deviation(slope) for name, slope in slopes.items()}
        return {**observe(y[0]), **stds}, None

    begin = (start, jnp.zeros((n, n)))  # P is carried as N P, which is of the state's size
    here = lambda y: theory.with_vector(state, y[0])
    return ode.integrate(
        field,
        begin,
        times,
        save,
        rtol=rtol,
        atol=atol,
        diverged=lambda y: has_diverged(here(y), bound_of(state)),
        # The rates of P are sums of two of the state's.
        radius=(lambda y: 2 * per_time * how.radius(here(y)))
        if isinstance(how, Stabilised)
        else None,
        meter=meter,
    )


def how_with_noise(how: Integration, state: State) -> Integration:
    """How to integrate a flow with its covariance, which `how` integrates without.

    Explicitly where the flow is, else by the stabilised scheme, which asks for nothing but the
    spectral radius: the Jacobian of P is J ⊗ 1 + 1 ⊗ J, whose radius is at most twice that of J.
    """
    if isinstance(how, Explicit) or how.radius is None:
        return Explicit(state)
    return Stabilised(state, how.radius)


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
