"""How the outputs of an infinitely wide network learn: a Gaussian process with a fixed kernel.

With the kernel K between all inputs and the n training inputs (K₁ its rows of the latter), the
outputs f on all inputs obey, with h = 2 scale η and y the targets,

    f ← f − (h/n) K (f₁ − y)

at every initialisation, so that their mean m and covariance C obey

    m ← m − (h/n) K (m₁ − y),    C ← P C Pᵀ,    P = I − (h/n) K E₁

(E₁ selects training inputs). With K₁ = U diag(λ) Uᵀ, P^t = I − B E₁ and B = K U diag(a) Uᵀ, where
−a is the course of a mode that begins at distance 1 from its target (`linearised/course.py`), also
with momentum and rates that change. As t → ∞, B = K K₁⁻¹; if only the last layer learns, and K is
proportional to C₀, this is regression with the Gaussian process C₀ without noise, whose posterior
are m and C.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.precision import compiled_in_float64, full_precision, to_numpy
from learndyn.runtime.types import Array, Number
from learndyn.theory.dynamics import STEPS, Clock, Explicit, Flow, Map, continuous
from learndyn.theory.infinite_width.state import Process
from learndyn.theory.linearised.course import Modes, course
from learndyn.theory.linearised.descent import Descent
from learndyn.theory.linearised.modes import largest_pull
from learndyn.theory.linearised.moments import stepped

NULL = 1e-12  # eigenvalues below this share of the largest count as not learned


class Reading(eqx.Module):
    """What is read of the process.

    Args:
        targets: of every set, (examples, outputs), in the order of the inputs.
        scale: of the squared loss.
        prefixes: of the observables of every set; those of training, "", come first.
    """

    targets: tuple[Array, ...]
    scale: Array
    prefixes: tuple[str, ...] = eqx.field(static=True)

    def observe(self, state: Process) -> dict[str, Any]:
        """Means, variances and mean losses of every set; states may have leading axes."""
        mean = jnp.asarray(state.mean)
        # Rounding may make a variance that should be zero slightly negative.
        variance = jnp.maximum(jnp.diagonal(jnp.asarray(state.covariance), 0, -2, -1), 0)
        found, first = {}, 0
        for prefix, y in zip(self.prefixes, self.targets, strict=True):
            m, v = mean[..., first : first + len(y), :], variance[..., first : first + len(y)]
            first += len(y)
            squares = jnp.sum((m - y) ** 2, (-2, -1)) + y.shape[1] * jnp.sum(v, -1)
            found |= {f"{prefix}output_mean": m, f"{prefix}output_variance": v}
            found[f"{prefix}error"] = self.scale * squares / len(y)
        return found


class Learning(eqx.Module):
    """What moves the process.

    Args:
        kernel: K, (inputs, examples).
        reading: with the targets and the scale of the loss.
        descent: the rule.
        values: eigenvalues of the kernel of the training inputs, (examples,).
        vectors: its eigenvectors, as columns.
    """

    kernel: Array
    reading: Reading
    descent: Descent
    values: np.ndarray
    vectors: np.ndarray

    @property
    def n(self) -> int:
        return self.kernel.shape[1]

    @property
    def strength(self) -> Array:
        """The pull of an eigenvalue of 1 per learning rate."""
        return 2 * self.reading.scale / self.n

    def pulled(self, rate: Array, values: Array) -> Array:
        """(h/n) K times the rows of training."""
        return self.strength * rate * jnp.asarray(self.kernel) @ values[: self.n]

    def force(self, rate: Array, mean: Array) -> Array:
        """What a step subtracts from the mean, without momentum."""
        away = jnp.asarray(mean)[: self.n] - jnp.asarray(self.reading.targets[0])
        return self.pulled(rate, away)

    def unlearned(self, state: Process) -> dict[str, Any]:
        """Rows and rank of the kernel of training, and the mean loss outside its range."""
        n, k = self.n, self.reading.targets[0].shape[1]
        outside = self.vectors[:, ~is_learned(self.values)]
        residual = outside.T @ (np.asarray(state.mean)[:n] - np.asarray(self.reading.targets[0]))
        scatter = np.sum(outside * (np.asarray(state.covariance)[:n, :n] @ outside))
        return {
            "kernel_rows": n,
            "kernel_rank": n - outside.shape[1],
            "unlearned_error": float(self.reading.scale * (np.sum(residual**2) + k * scatter) / n),
        }

    def after_steps(self, state: Process, steps: np.ndarray, *, flow: bool = False) -> Process:
        """The states after these numbers of steps, with a leading axis.

        Args:
            state: at the start.
            steps: any of them may be infinite.
            flow: whether to take the limit of a small learning rate.

        Returns:
            The states.
        """
        K, n, U = np.asarray(self.kernel), self.n, self.vectors
        m, C = np.asarray(state.mean), np.asarray(state.covariance)
        along, residual = K @ U, m[:n] - np.asarray(self.reading.targets[0])
        rows = []
        for t in steps:
            with np.errstate(all="ignore"):  # above the critical rate it overflows
                learned, velocity = self._moved(t, flow)
                B = (along * learned) @ U.T
                moved, inner = B @ C[:n], C[:n, :n]
                row = m - B @ residual, C - moved - moved.T + B @ inner @ B.T
                if state.velocity is not None:
                    V = (along * velocity) @ U.T
                    row += V @ residual, (C[:, :n] - B @ inner) @ V.T, V @ inner @ V.T
                rows.append(row)
        parts = [np.stack(each) for each in zip(*rows, strict=True)]
        return Process(*parts, step=None if state.step is None else steps)

    def _moved(self, t: Number, flow: bool) -> tuple[np.ndarray, np.ndarray]:
        """a of every mode after t steps, and its velocity.

        For t = ∞ the limit, and 0 where nothing is learned.
        """
        every = np.ones(len(self.values))
        law, rates = self.descent.law(flow), np.asarray(self.descent.rates)
        force = np.asarray(self.strength) * every
        values = np.maximum(self.values, 0)
        changes = np.asarray(self.descent.changes)
        modes = Modes(values, force, every, 0 * every, 0.0, law, rates, changes)
        if np.isfinite(t):
            found = course(modes, np.array([t]))
            return -found.alpha[0], found.velocity[0]
        learned = is_learned(values)
        if np.any(modes.pulls[-1] >= largest_pull(law)):
            return np.where(learned, np.nan, 0.0), 0 * every
        return np.divide(1.0, values, out=np.zeros_like(values), where=learned), 0 * every


def is_learned(values: np.ndarray) -> np.ndarray:
    """Which modes learn at all, by their eigenvalues."""
    return values > NULL * values.max(initial=0)


class ProcessMap(Map):
    """A step of gradient descent."""

    learning: Learning

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Process) -> Process:
        learning, descent = self.learning, self.learning.descent
        rate, beta = descent.rate_at(y.step), descent.momentum
        left = lambda C: learning.pulled(rate, C)
        force, mean = learning.force(rate, y.mean), jnp.asarray(y.mean)
        covariances = stepped(y, jnp.zeros(()), left, jnp.transpose, beta, descent.nesterov)
        outputs, cross, velocities = covariances
        step = None if y.step is None else y.step + 1
        if beta is None:
            return Process(mean - force, outputs, step=step)
        velocity = beta * jnp.asarray(y.velocity) + force
        along = force + beta * velocity if descent.nesterov else velocity
        ratio = descent.rate_at(step) / rate  # the velocity that a rule keeps has no rate in it
        scaled = ratio * velocity, ratio * cross, ratio**2 * velocities
        return Process(mean - along, outputs, *scaled, step)

    def closed_form(self, state: Process, steps: np.ndarray) -> Process | None:
        return None if state.moves else self.learning.after_steps(state, steps)


class ProcessFlow(Flow):
    """The limit of a small learning rate, in which momentum makes it 1/(1 − β) times as fast."""

    learning: Learning

    @property
    def clock(self) -> Clock:
        return continuous(self._rate)

    @property
    def _rate(self) -> Number:
        return np.asarray(self.learning.descent.rates)[0]

    @compiled_in_float64
    def drift(self, state: Process) -> Process:
        """The change per step, to first order in the learning rate."""
        beta = self.learning.descent.momentum
        rate = jnp.asarray(self.learning.descent.rates)[0] / (1 - (0.0 if beta is None else beta))
        moved = self.learning.pulled(rate, jnp.asarray(state.covariance))
        return Process(-self.learning.force(rate, state.mean), -(moved + moved.T))

    def integration(self, state: Process, end: float) -> Explicit:
        return Explicit(Process(state.mean, state.covariance))  # its velocity follows its force

    def closed_form(self, state: Process, times: np.ndarray) -> dict[str, np.ndarray]:
        # One covariance at a time, which may be large.
        each = [self._observed(Process(state.mean, state.covariance), time) for time in times]
        return {name: np.concatenate([row[name] for row in each]) for name in each[0]}

    def _observed(self, state: Process, time: Number) -> dict[str, np.ndarray]:
        steps = np.array([time]) / self._rate
        with full_precision():
            return to_numpy(
                self.learning.reading.observe(self.learning.after_steps(state, steps, flow=True))
            )
