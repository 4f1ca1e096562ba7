"""How the outputs of an infinitely wide network learn: a Gaussian process with a fixed kernel.

With the kernel K between all inputs and the n training inputs (K₁ its rows of the latter), the
outputs f on all inputs obey, with h = 2 scale η and y the targets,

    f ← f − (h/n) K (f₁ − y)

at every initialisation, so that their mean m and covariance C obey

    m ← m − (h/n) K (m₁ − y),    C ← P C Pᵀ,    P = I − (h/n) K E₁

(E₁ selects training inputs). With K₁ = U diag(λ) Uᵀ and the gain g of a mode after t steps
(`linearised/modes.py`), P^t = I − B E₁ with B = (h/n) K U diag(g) Uᵀ. As t → ∞, B = K K₁⁻¹; if only
the last layer learns, and K is proportional to C₀, this is regression with the Gaussian process C₀
without noise, whose posterior are m and C.
"""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.runtime.checks import instance, numbers
from learndyn.runtime.precision import compiled_in_float64, float64, full_precision, to_numpy
from learndyn.runtime.types import Array, Number
from learndyn.theory.dynamics import STEPS, Clock, Flow, Map, continuous
from learndyn.theory.linearised import modes

NULL = 1e-12  # eigenvalues below this share of the largest count as not learned


class Process(eqx.Module):
    """Outputs on all inputs: those of training first, then of the test and validation sets.

    Args:
        mean: (inputs, outputs), over initialisations.
        covariance: (inputs, inputs) of an output over initialisations; outputs are independent,
            with equal covariances.
    """

    mean: Array = eqx.field(converter=float64("mean"))
    covariance: Array = eqx.field(converter=float64("covariance"))


def checked(state: Any, like: Process) -> Process:
    """The state, or a ValueError that says what is wrong with it."""
    instance("state", state, Process, "a Process, of mean and covariance")
    for name in ("mean", "covariance"):
        came, allowed = (np.shape(getattr(each, name)) for each in (state, like))
        if came != allowed:
            raise ValueError(f"state: got a {name} of shape {came}; allowed is {allowed}")
        numbers(name, getattr(state, name))
    return state


class Learning(eqx.Module):
    """What moves the process.

    Args:
        kernel: K, (inputs, examples).
        targets: of every set, (examples, outputs), in the order of the inputs.
        pull: h/n, the pull of an eigenvalue of 1.
        scale: of the squared loss.
        prefixes: of the observables of every set; those of training, "", come first.
        values: eigenvalues of the kernel of the training inputs, (examples,).
        vectors: its eigenvectors, as columns.
    """

    kernel: Array
    targets: tuple[Array, ...]
    pull: Array
    scale: Array
    prefixes: tuple[str, ...] = eqx.field(static=True)
    values: np.ndarray
    vectors: np.ndarray

    @property
    def n(self) -> int:
        return self.kernel.shape[1]

    def change(self, state: Process) -> Process:
        """What a step adds to mean and covariance, to first order in the pull."""
        K, C = self.pull * jnp.asarray(self.kernel), jnp.asarray(state.covariance)
        moved = K @ C[: self.n]
        residual = jnp.asarray(state.mean)[: self.n] - jnp.asarray(self.targets[0])
        return Process(-K @ residual, -(moved + moved.T))

    def after(self, state: Process) -> Process:
        """The state after a step."""
        K, first = self.pull * jnp.asarray(self.kernel), self.change(state)
        second = K @ jnp.asarray(state.covariance)[: self.n, : self.n] @ K.T
        covariance = jnp.asarray(state.covariance) + first.covariance + second
        return Process(jnp.asarray(state.mean) + first.mean, covariance)

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

    def unlearned(self, state: Process) -> dict[str, Any]:
        """Rows and rank of the kernel of training, and the mean loss outside its range."""
        n, k = self.n, self.targets[0].shape[1]
        outside = self.vectors[:, ~is_learned(self.values)]
        residual = outside.T @ (np.asarray(state.mean)[:n] - np.asarray(self.targets[0]))
        scatter = np.sum(outside * (np.asarray(state.covariance)[:n, :n] @ outside))
        return {
            "kernel_rows": n,
            "kernel_rank": n - outside.shape[1],
            "unlearned_error": float(self.scale * (np.sum(residual**2) + k * scatter) / n),
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
        K, n, h = np.asarray(self.kernel), self.n, float(self.pull)
        m, C = np.asarray(state.mean), np.asarray(state.covariance)
        values, U = self.values, self.vectors
        along, residual = K @ U, m[:n] - np.asarray(self.targets[0])
        means, covariances = [], []
        for t in steps:
            with np.errstate(all="ignore"):  # above the critical rate it overflows
                B = (along * (h * gains(h * np.maximum(values, 0), t, flow))) @ U.T
                moved = B @ C[:n]
                means.append(m - B @ residual)
                covariances.append(C - moved - moved.T + B @ C[:n, :n] @ B.T)
        return Process(np.stack(means), np.stack(covariances))


def gains(pulls: np.ndarray, t: Number, flow: bool) -> np.ndarray:
    """The gain of every mode after t steps; for t = ∞ its limit, and 0 where nothing is learned."""
    law = modes.Law(flow=flow)
    if np.isfinite(t):
        return modes.gain(pulls, t, law)
    learned = is_learned(pulls)
    if np.any(pulls >= modes.largest_pull(law)):
        return np.where(learned, np.nan, 0.0)
    return np.divide(1.0, pulls, out=np.zeros_like(pulls), where=learned)


def is_learned(values: np.ndarray) -> np.ndarray:
    """Which modes learn at all, by their eigenvalues or pulls."""
    return values > NULL * values.max(initial=0)


class ProcessMap(Map):
    """A step of gradient descent."""

    learning: Learning

    @property
    def clock(self) -> Clock:
        return STEPS

    @compiled_in_float64
    def advance(self, y: Process) -> Process:
        return self.learning.after(y)

    def closed_form(self, state: Process, steps: np.ndarray) -> Process:
        return self.learning.after_steps(state, steps)


class ProcessFlow(Flow):
    """The limit of a small learning rate."""

    learning: Learning
    rate: Array

    @property
    def clock(self) -> Clock:
        return continuous(self.rate)

    @compiled_in_float64
    def drift(self, state: Process) -> Process:
        """The change per step, to first order in the learning rate."""
        return self.learning.change(state)

    def closed_form(self, state: Process, times: np.ndarray) -> dict[str, np.ndarray]:
        # One covariance at a time, which may be large.
        each = [self._observed(state, time) for time in times]
        return {name: np.concatenate([row[name] for row in each]) for name in each[0]}

    def _observed(self, state: Process, time: Number) -> dict[str, np.ndarray]:
        steps = np.array([time]) / np.asarray(self.rate)
        with full_precision():
            return to_numpy(
                self.learning.observe(self.learning.after_steps(state, steps, flow=True))
            )
