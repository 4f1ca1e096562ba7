"""Linear noise: the standard deviations of a theory's observables at size N."""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.numerics import covariance
from learndyn.numerics.covariance import NODES, PLACES, Stretch
from learndyn.numerics.ode import Trajectory
from learndyn.runtime.interruption import stop_if_interrupted
from learndyn.runtime.precision import to_numpy
from learndyn.runtime.progress import Report
from learndyn.runtime.types import Array
from learndyn.solving.integrate import NONE, integrate
from learndyn.theory import AbstractTheory, Flow, Noise
from learndyn.theory.dynamics import Integration, State

MOST_VARIABLES = 2000  # the covariance has the square of this many entries
LOOSER = 1000  # ratio of the tolerances of P and of the flow: linear noise itself errs by 1/√N
BEST = 1e-8  # smallest tolerance of P
ROWS = 32  # largest number of times read in one stretch of the path
FIRST = 1e-3  # length of the first stretch, relative to the whole path
GROWTH = 3.0  # largest ratio of the lengths of consecutive stretches
LEAST = 0.2  # smallest such ratio
# The cubic polynomial with the values and slopes of e^x at x = 0 and h has the error h⁴/384; the
# quintic one, which matches second derivatives too, has h⁶/46080 = 0.16 × (the former)^1.5.
COARSE = 384**1.5 / 46080
LEFT = 100.0  # ratio of the last term of the polynomials that is kept to the first one left out
LEAST_CUT = 1 / 64  # smallest part of a stretch; only cancellation to rounding would need less
SHORTEST = 1e-12  # shortest stretch, relative to the time so far


def integrate_with_noise(
    theory: AbstractTheory,
    flow: Flow,
    noise: Noise,
    how: Integration,
    times: np.ndarray,
    per_time: Array,
    size: float,
    rtol: Any,
    atol: Any,
    report: Report = lambda fraction: None,
) -> Trajectory:
    """Integrates a flow and, along its path, the covariance P of the independent variables.

        dP/dα = J P + P Jᵀ + D / N,    P(0) = 0,

    with J the Jacobian of the drift and D = `noise.diffusion`. This is the central limit of the
    Markov chain of SGD around its mean; the standard deviations have relative errors of order
    1/√N. An observable o has the standard deviation √(∇o P ∇oᵀ), to first order in P.

    Args:
        theory: the theory, which defines the observables.
        flow: its flow.
        noise: its noise at the same order.
        how: how to integrate the flow.
        times: increasing, non-negative.
        per_time: factor from the rates to the unit of `times`.
        size: N.
        rtol: relative tolerance of a step; for P it is `LOOSER` times that, but at least `BEST`.
        atol: absolute tolerance of a step, for N P as for the state.
        report: called with the fraction done.

    Returns:
        The trajectory of (observables with their standard deviations `<name>_std`, states).

    Raises:
        ValueError: for more than `MOST_VARIABLES` variables.
    """
    n = len(theory.vector(flow.state(how.begin)))
    if n > MOST_VARIABLES:
        raise ValueError(
            f"fluctuations: got True for a state of {n} variables; "
            f"allowed are at most {MOST_VARIABLES}"
        )
    solve = lambda how, places, stops: integrate(
        theory, flow, how, places, per_time, rtol, atol, stops=stops, states=True
    )
    stops = flow.stops(float(times[-1]))
    path = solve(how, times, stops)
    observables, states = path.saved
    reached = times[times <= path.end] if path.diverged else times
    walk = _Walk(
        lambda y, places: solve(eqx.tree_at(lambda h: h.begin, how, y), places, NONE),
        lambda states: _linearised(theory, flow, noise, states, per_time),
        lambda rows: _slopes(theory, jax.tree.map(lambda leaf: leaf[rows], states)),
        stops,
        max(LOOSER * float(rtol), BEST),
        float(atol),
        report,
    )
    flat, names = ravel_pytree({name: values[0] for name, values in observables.items()})
    variances = np.full((len(times), len(flat)), np.nan)
    end = walk.along(how.begin, reached, variances)
    # Rounding may make a variance that should be zero slightly negative.
    stds = jax.vmap(names)(jnp.sqrt(np.maximum(variances, 0) / size))
    saved = {**observables, **{f"{name}_std": np.asarray(std) for name, std in stds.items()}}
    path = path._replace(saved=(saved, states))
    return path if end is None else path._replace(end=np.asarray(end), succeeded=np.asarray(False))


class _Walk(NamedTuple):
    """Carries N P along a path, stretch by stretch.

    Attributes:
        move: (y, places) → the flow from y at these times.
        linearise: states at the nodes → J and D there.
        slopes: indices of times → gradients of the observables there.
        stops: times at which a stretch ends.
        rtol: relative tolerance.
        atol: absolute tolerance.
        report: called with the fraction done.
    """

    move: Callable[[State, np.ndarray], Trajectory]
    linearise: Callable[[State], tuple[Array, Array]]
    slopes: Callable[[np.ndarray], Array]
    stops: np.ndarray
    rtol: float
    atol: float
    report: Report

    def along(self, y: State, times: np.ndarray, variances: np.ndarray) -> float | None:
        """Fills in the variances at `times`; returns where it had to stop, or None at the end."""
        t, P, row = 0.0, None, int(np.count_nonzero(times == 0))
        variances[:row] = 0.0
        length, cut = FIRST * times[-1] if row < len(times) else 0.0, 1.0
        while row < len(times) and length > SHORTEST * t:
            end = min(t + cut * length, times[min(row + ROWS, len(times)) - 1])
            end = min(end, np.min(self.stops, initial=np.inf, where=self.stops > t))
            nodes = self.move(y, (end - t) * PLACES)
            stretch = Stretch(jnp.asarray(end - t), *self.linearise(nodes.saved[1]))
            P = jnp.zeros_like(stretch.J[0]) if P is None else P
            kept, wanted = self._judged(stretch, P)
            # `length` is what J and D allow; `cut` shortens it where reading needs more accuracy.
            length = max(wanted, length) if kept else wanted / cut
            if not kept:
                continue
            rows = np.arange(row, np.searchsorted(times, end, side="right"))
            last, values, apart = self._carried(stretch, P, rows, (times[rows] - t) / (end - t))
            if COARSE * apart**1.5 > self.rtol and cut > LEAST_CUT:
                cut /= 4
                continue
            variances[rows] = values
            t, P, y, row, cut = end, last, nodes.last, row + len(rows), min(1.0, GROWTH * cut)
            self.report(t / times[-1])
            stop_if_interrupted()
        return None if row == len(times) else t

    def _judged(self, stretch: Stretch, P: Array) -> tuple[bool, float]:
        """Whether J and D are accurate enough on a stretch, and how long the next one may be."""
        floor = self.atol / self.rtol  # so that `atol` is the absolute tolerance
        miss = float(_misfit(stretch, P, floor)) / (LEFT * self.rtol)
        factor = 0.9 * max(miss, 1e-30) ** (-1 / (NODES - 1)) if np.isfinite(miss) else LEAST
        return miss <= 1, float(stretch.length) * float(np.clip(factor, LEAST, GROWTH))

    def _carried(
        self, stretch: Stretch, P: Array, rows: np.ndarray, places: np.ndarray
    ) -> tuple[Array, np.ndarray, float]:
        """P at the end of a stretch, the variances at its rows, and an error estimate of these."""
        ends = _carry(stretch, P)
        if len(rows) == 0:
            return ends[-1], np.zeros((0, 1)), 0.0
        # Always the same number of rows, so that it compiles once.
        slopes = to_numpy(self.slopes(np.resize(rows, ROWS)))
        read = [_variances(stretch, ends, *at) for at in zip(places, slopes, strict=False)]
        values, away = (np.stack(each) for each in zip(*to_numpy(read), strict=True))
        return ends[-1], values, float(np.max(away / (np.abs(values) + self.atol)))


_misfit, _carry = jax.jit(covariance.misfit), jax.jit(covariance.carry)
_variances = jax.jit(covariance.variances)


@eqx.filter_jit
def _linearised(
    theory: AbstractTheory, flow: Flow, noise: Noise, states: State, per_time: Array
) -> tuple[Array, Array]:
    """J and D at every state, (states, n, n), per unit of time."""

    def at(state: State) -> tuple[Array, Array]:
        drift = lambda v: theory.vector(flow.drift(theory.with_vector(state, v)))
        J = jax.jacfwd(drift)(jnp.asarray(theory.vector(state)))
        return per_time * J, per_time * noise.diffusion(state)

    return jax.lax.map(at, states)


@eqx.filter_jit
def _slopes(theory: AbstractTheory, states: State) -> Array:
    """The gradients of the observables at every state, (states, numbers, n)."""

    def at(state: State) -> Array:
        observe = lambda v: ravel_pytree(theory.observe(theory.with_vector(state, v)))[0]
        return jax.jacfwd(observe)(jnp.asarray(theory.vector(state)))

    return jax.lax.map(at, states)
