"""Networks that are linear in their weights, under mini-batches."""

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.problems import SquaredLoss
from learndyn.problems.losses import as_outputs
from learndyn.rules import SGD, Piecewise
from learndyn.runtime.checks import a_kind, one_of
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array, Weights
from learndyn.system import System
from learndyn.theory.base import Coverage, Reference, Variable
from learndyn.theory.dynamics import Flow, Map, Noise, Refused, Spread
from learndyn.theory.linearised import landmarks
from learndyn.theory.linearised.base import NAMES, AbstractLinearised, beyond
from learndyn.theory.linearised.descent import SCHEDULED, Descent, is_scheduled, refusal
from learndyn.theory.linearised.dynamics import OutputMap
from learndyn.theory.linearised.kernel import Sets
from learndyn.theory.linearised.moments import (
    DiagonalMoments,
    ExactMoments,
    Moments,
    shared_examples,
)
from learndyn.theory.linearised.stability import largest_stable_rate
from learndyn.theory.linearised.state import Outputs, checked


class LinearisedBatchTheory(AbstractLinearised):
    """Mean loss of a model that is linear in its weights, over mini-batches with replacement.

    The first two moments of the outputs close, so that the mean of a squared loss over runs is
    exact. `solve(fluctuations=True)` adds the standard deviation of a run, as if outputs were
    Gaussian. With more than 512 outputs on all sets the modes of the kernel are taken to be
    uncorrelated, and the coverage is "approximate".

    Args:
        system: a system that it covers.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.zeros(2), lambda w, x: x @ w, linear=True)
        >>> data = ld.Dataset(np.diag([2.0, 4.0]), np.ones(2))
        >>> system = ld.System(data, network, ld.SGD(0.05, batch=1))
        >>> record = ld.solve(system, [0, 10], fluctuations=True)
        >>> record["error"].values.round(4).tolist(), bool(record["error_std"][-1] > 0)
        ([0.5, 0.0347], True)
    """

    name: ClassVar[str] = "linearised, mini-batches"
    orders: ClassVar[tuple[str, ...]] = ("full",)
    reference: ClassVar[tuple[Reference, ...]] = (
        Reference("lee2019wide", "the model; the moments are derived here (moments.py)"),
    )
    units: ClassVar[dict[str, str]] = landmarks.UNITS
    most_exact: ClassVar[int] = 512  # outputs on all sets whose covariances are all followed

    @classmethod
    def covers(cls, system: System) -> Coverage:
        why = beyond(system) or _refusal(system)
        if why is not None:
            return Coverage("none", why)
        rows = _rows(system)
        if rows <= cls.most_exact:
            return Coverage("exact", "the first two moments of the outputs close")
        more = f"{rows} outputs are more than {cls.most_exact}"
        return Coverage("approximate", f"{more}: modes are taken to be uncorrelated")

    @property
    def variables(self) -> dict[str, Variable]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The mean loss on every set."""
        return {f"{p}error": Variable((), f"loss on {NAMES[p]}", "") for p in self.examples}

    def as_state(self, state: Any) -> Moments:
        if not isinstance(state, Moments):
            raise ValueError(f"state: got {a_kind(state)}; allowed is a Moments")
        like = self._certain(self._at_rest(np.zeros(self.shape)))
        checked(state.mean, like.mean)
        shapes = lambda each: [np.shape(leaf) for leaf in jax.tree.leaves(each)]
        if shapes(state) != shapes(like):
            came, allowed = shapes(state), shapes(like)
            raise ValueError(f"state: got a Moments with shapes {came}; allowed is {allowed}")
        return state

    @compiled_in_float64
    def project(self, weights: Weights, teacher: Weights) -> Moments:
        """The outputs, without scatter; momentum starts at rest."""
        doubles = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), weights)
        return self._certain(self._at_rest(self.system.network(doubles, self.inputs)))

    def _certain(self, mean: Outputs) -> Moments:
        """A state without scatter."""
        rows, columns = _rows(self.system), self.trained * self.outputs
        exact = self._is_exact
        none = np.zeros((rows, rows) if exact else columns)
        moving = None if mean.velocity is None else none
        scatter = None if exact else np.zeros(len(self.examples))
        return Moments(mean.values, none, mean.velocity, moving, moving, mean.step, scatter)

    @property
    def _is_exact(self) -> bool:
        return _rows(self.system) <= self.most_exact

    def realise(self, state: Moments, key: int) -> tuple[Weights, Weights] | Refused:
        if np.any(state.covariance):
            return Refused("the state is that of many runs, which have different weights")
        return self.weights_of(np.asarray(state.values), key)

    def dynamics(self, order: str) -> Flow | Map | Refused:
        one_of("order", order, self.orders)
        forces, loss = self.forces(), self.system.problem.loss
        assert isinstance(loss, SquaredLoss)
        scale = 2 * loss.scale
        common = (
            forces,
            OutputMap(forces, self),
            self.targets.reshape(self.trained, -1),
            np.asarray(scale**2 / _sgd(self.system).batch),
            np.asarray(scale / self.trained),
        )
        if self._is_exact:
            return ExactMoments(*common)
        spectrum = self.spectrum
        places = [slice(p.start * self.outputs, p.stop * self.outputs) for p in self.places]
        lengths = np.stack([np.sum(spectrum.features[place] ** 2, axis=0) for place in places])
        shared = shared_examples(spectrum.vectors, self.trained)
        return DiagonalMoments(*common, spectrum.values, spectrum.vectors, shared, lengths)

    def noise(self, order: str) -> Noise | Spread | Refused:
        one_of("order", order, self.orders)
        if not self._is_exact:
            return Refused("modes that are taken to be uncorrelated say nothing of single runs")
        return GaussianSpread(self)

    @compiled_in_float64
    def observe(self, state: Moments) -> dict[str, Any]:
        sets, loss, found = Sets.of(self.system.problem), self.system.problem.loss, {}
        assert isinstance(loss, SquaredLoss)
        for number, (prefix, place) in enumerate(sets.places.items()):
            outputs = jnp.asarray(state.values)[place]
            if state.scatter is None:
                variances = jnp.diag(jnp.asarray(state.covariance))
                scatter = jnp.sum(variances.reshape(len(sets.x), -1)[place])
            else:
                scatter = jnp.asarray(state.scatter)[number]
            mean = loss(outputs, sets.targets[prefix], outputs.ndim - 1)
            found[f"{prefix}error"] = mean + loss.scale * scatter / len(outputs)
        return found

    def attributes(self, state: Moments) -> dict[str, Any]:
        """The rank of the kernel, and the loss of the mean outside its range."""
        return landmarks.attributes(self, state.mean)

    def landmarks(self, *, state: Any = None, target: float = 0.01) -> dict[str, float]:
        """As of full batches, and the largest rate at which the mean loss stays bounded.

        Args:
            state: the initial state; None for that of `start(system)`.
            target: as of `LinearisedTheory.landmarks`.

        Returns:
            Those of `LinearisedTheory.landmarks` but `final_error`, which are those of the mean
            outputs, and `largest_stable_rate`, below `critical_learning_rate`.
        """
        begin: Moments = self.sample(0)[0] if state is None else self.as_state(state)
        found = landmarks.of(self, begin.mean, target)
        found.pop("final_error", None)
        return found | {"largest_stable_rate": self._largest_stable_rate()}

    def _largest_stable_rate(self) -> float:
        """In the diagonal approximation where the theory is in it."""
        descent, n = Descent.of(self.system.rule), self.trained
        learns = self.spectrum.values > 0
        values, vectors = self.spectrum.values[learns], self.spectrum.vectors[:, learns]
        if not np.any(learns):
            return landmarks.critical_rate(self)
        diagonal = not self._is_exact
        parts, shared = vectors.reshape(n, -1, len(values)), np.zeros(0)
        if diagonal:
            shared = shared_examples(vectors, n)

        def noise(C: np.ndarray) -> np.ndarray:
            if diagonal:
                scatter = values**2 * C
                return scale * (shared @ scatter / n - scatter / n**2)
            scatter = values[:, None] * C * values
            along = (vectors @ scatter).reshape(parts.shape)
            single = np.einsum("nkm,nlm->nkl", along, parts)
            whole = np.einsum("nkl,nlm->nkm", single, parts).reshape(-1, len(values))
            return scale * (vectors.T @ whole / n - scatter / n**2)

        loss: Any = self.system.problem.loss
        scale = (2 * float(loss.scale)) ** 2 / _sgd(self.system).batch
        return largest_stable_rate(
            noise,
            2 * float(loss.scale) / n * values,
            descent.law(),
            0.0 if descent.decay is None else float(descent.decay),
            landmarks.critical_rate(self),
            diagonal=diagonal,
        )


class GaussianSpread(Spread):
    """Standard deviations of losses, as if outputs were Gaussian."""

    theory: LinearisedBatchTheory

    @compiled_in_float64
    def deviations(self, state: Moments) -> dict[str, Array]:
        sets, loss, found = Sets.of(self.theory.system.problem), self.theory.system.problem.loss, {}
        assert isinstance(loss, SquaredLoss)
        scale = loss.scale
        k = self.theory.outputs
        for prefix, place in sets.places.items():
            outputs, y = jnp.asarray(state.values)[place], sets.targets[prefix]
            r = (outputs - as_outputs(outputs, y, outputs.ndim - 1)).reshape(-1)
            rows = slice(place.start * k, place.stop * k)
            C = jnp.asarray(state.covariance)[rows, rows]
            variance = 2 * jnp.sum(C**2) + 4 * r @ C @ r
            # Rounding may make a variance that should be zero slightly negative.
            found[f"{prefix}error"] = scale / len(outputs) * jnp.sqrt(jnp.maximum(variance, 0))
        return found


def _sgd(system: System) -> Any:
    """The rule; that of the first piece, if rates change."""
    return system.rule.rule if isinstance(system.rule, Piecewise) else system.rule


def _refusal(system: System) -> str | None:
    inner = _sgd(system)
    if not isinstance(inner, SGD):
        return f"the rule is {type(inner).__name__}, which draws no mini-batches of a data set"
    if is_scheduled(inner):
        return SCHEDULED
    if inner.sampling != "replacement":
        return refusal(system.rule, system.problem) or "every step sees all examples"
    if not isinstance(system.problem.loss, SquaredLoss):
        return f"the loss is {type(system.problem.loss).__name__}: no moments close"
    return None


def _rows(system: System) -> int:
    """Outputs on all sets."""
    shape = system.network.output_shape(system.problem.input_shape, system.problem.input_dtype)
    every = system.problem.measured_on((), np.float64).values()
    return int(np.prod(shape)) * sum(len(each.x) for each in every)
