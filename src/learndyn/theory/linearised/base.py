"""What the theories of linear models share: kernel, modes, and the course of the mean."""

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.models import Model
from learndyn.networks import Network
from learndyn.problems import CrossEntropy, SquaredLoss
from learndyn.problems.examples import as_inputs
from learndyn.problems.losses import as_outputs
from learndyn.rules import Piecewise
from learndyn.runtime.checks import a_kind, finite, non_negative, numbers, one_of
from learndyn.runtime.precision import full_precision
from learndyn.runtime.times import increasing_times
from learndyn.runtime.types import Array, Weights
from learndyn.system import System
from learndyn.theory.base import AbstractTheory, sample_weights
from learndyn.theory.dynamics import STEPS, Clock, Refused, continuous
from learndyn.theory.linearised import landmarks
from learndyn.theory.linearised.course import Course, Modes, course
from learndyn.theory.linearised.descent import Descent
from learndyn.theory.linearised.dynamics import Forces
from learndyn.theory.linearised.kernel import (
    Kernel,
    Sets,
    Spectrum,
    expansion,
    kernel_of,
    offset_of,
    spectrum_of,
    too_large,
)
from learndyn.theory.linearised.state import Outputs

NAMES = {
    "": "all examples of the data set",
    "test_": "the test set",
    "validation_": "the validation set",
}


class AbstractLinearised(AbstractTheory):
    """A theory of a model that is linear in its weights, on a data set."""

    def __init__(self, system: System):
        self.system = system

    def clock(self, order: str) -> Clock:
        one_of("order", order, self.orders)
        return STEPS if order == "full" else continuous(Descent.of(self.system.rule).rates[0])

    @property
    def examples(self) -> Mapping[str, Any]:
        with full_precision():
            return self.system.problem.measured_on((), jnp.float64)

    @property
    def shape(self) -> tuple[int, ...]:
        problem = self.system.problem
        shape = self.system.network.output_shape(problem.input_shape, problem.input_dtype)
        return (sum(len(each.x) for each in self.examples.values()), *shape)

    @property
    def inputs(self) -> Array:
        """The inputs of all sets."""
        return Sets.of(self.system.problem).x

    @property
    def outputs(self) -> int:
        """The number of outputs of an example."""
        return int(np.prod(self.shape[1:]))

    @property
    def places(self) -> list[slice]:
        """The examples of each set."""
        with full_precision():
            return list(Sets.of(self.system.problem).places.values())

    @property
    def targets(self) -> np.ndarray:
        """The targets of the training set as numbers, in the shape of its outputs."""
        like = self.kernel.offset[: self.trained]
        with full_precision():
            y = Sets.of(self.system.problem).targets[""]
            return np.asarray(as_outputs(jnp.asarray(like), y, like.ndim - 1))

    def _at_rest(self, values: Array) -> Outputs:
        rule = self.system.rule  # whose numbers may be traced
        velocity = None if rule.inertia is None else 0 * values
        return Outputs(values, velocity, np.asarray(0) if isinstance(rule, Piecewise) else None)

    def weights_of(self, values: np.ndarray, key: int) -> tuple[Weights, Weights] | Refused:
        """Weights (those closest to the expansion's) with these outputs, by one vjp; a teacher."""
        problem = self.system.problem
        with full_precision():
            x, model = np.asarray(self.inputs), self.expansion
            wanted = (values - np.asarray(model.outputs(x))).reshape(-1)
            if len(wanted) ** 2 * 8 > 2**31:
                return Refused(f"{len(wanted)} outputs are too many to find weights for")
            kernel = np.asarray(model.kernel(x)).reshape(len(wanted), len(wanted))
            alpha = np.linalg.lstsq((kernel + kernel.T) / 2, wanted, rcond=1e-12)[0]
            if np.abs(kernel @ alpha - wanted).max() > 1e-8 * max(np.abs(values).max(), 1):
                return Refused("no weights have these outputs: the kernel is singular")
            return self.moved(model, x, alpha), problem.draw_teacher(np.random.default_rng(key))

    @property
    def trained(self) -> int:
        """The number of examples in the training set."""
        return len(self.examples[""].x)

    @property
    def expansion(self) -> Model:
        return expansion(self.system.network, self.system.problem.input_shape)

    @property
    def kernel(self) -> Kernel:
        """The kernel of all examples with those of the training set."""
        return kernel_of(self.system.problem, self.system.network)

    @property
    def spectrum(self) -> Spectrum:
        """The eigenvectors of the kernel of the training set."""
        return spectrum_of(self.system.problem, self.system.network)

    def forces(self) -> Forces:
        problem, descent = self.system.problem, Descent.of(self.system.rule)
        kernel = self.kernel
        matrix = kernel.matrix
        if descent.power is not None:
            spectrum = self.spectrum
            weighted = spectrum.vectors * descent.preconditioner(spectrum.values, self.trained)
            matrix = spectrum.features @ weighted.T
        with full_precision():
            targets = np.asarray(Sets.of(problem).targets[""])
        return Forces(matrix, kernel.offset, targets, problem.loss, descent)

    def modes(self, values: np.ndarray, flow: bool = False) -> Modes | None:
        """The modes that learn from outputs on all examples; None unless the loss is squared."""
        loss, descent, spectrum = (
            self.system.problem.loss,
            Descent.of(self.system.rule),
            self.spectrum,
        )
        if not isinstance(loss, SquaredLoss):
            return None
        offset = self.kernel.offset[: self.trained]
        along = lambda outputs: spectrum.vectors.T @ (outputs - offset).reshape(-1)
        force = 2 * loss.scale / self.trained
        return Modes(
            spectrum.values,
            force * descent.preconditioner(spectrum.values, self.trained),
            along(values[: self.trained]),
            along(self.targets),
            0.0 if descent.decay is None else float(descent.decay),
            descent.law(flow),
            np.asarray(descent.rates),
            np.asarray(descent.changes),
        )

    def states_at(self, state: Outputs, steps: np.ndarray, flow: bool = False) -> Outputs | None:
        """The states after these numbers of steps; None where they have no closed form.

        A state that moves already, by momentum, or whose rate is not the first, has none.
        """
        if np.any(state.velocity) or np.any(state.step):
            return None
        values = np.asarray(state.values)
        modes = self.modes(values, flow)
        if modes is None:
            return None
        found, above = course(modes, np.asarray(steps, np.float64)), values - self.kernel.offset
        outputs = lambda kept, alpha: self._outputs(above, kept, alpha)
        return Outputs(
            self.kernel.offset + outputs(found.kept, found.alpha),
            None if state.velocity is None else outputs(found.kept_velocity, found.velocity),
            None if state.step is None else steps,
        )

    def _outputs(self, above: np.ndarray, kept: np.ndarray, alpha: np.ndarray) -> np.ndarray:
        """c q(0) + K' U α on all examples, (times, examples, …)."""
        with np.errstate(all="ignore"):  # what diverges overflows
            learned = (alpha @ self.spectrum.features.T).reshape(-1, *above.shape)
            return kept.reshape(-1, *(1 for _ in above.shape)) * above + learned

    def _course(self, weights: Weights, times: Any, order: str) -> tuple[Course, Modes]:
        clock, rule = self.clock(order), Descent.of(self.system.rule)
        if order == "flow":
            rule.check_flow()
        for leaf in jax.tree.leaves(weights):
            finite("weights", numbers("weights", leaf))
        state = self.project(weights, ())
        modes = self.modes(np.asarray(state.values), order == "flow")
        if modes is None:
            raise ValueError(
                "loss: got CrossEntropy, without a closed form; allowed is SquaredLoss (solve(…, "
                "states=True) has the outputs of a test set)"
            )
        steps = increasing_times(times) * clock.steps
        return course(modes, steps if order == "flow" else np.rint(steps)), modes

    def predict(
        self, times: Any, x: Any, *, weights: Weights = None, order: str = "full"
    ) -> np.ndarray:
        """The outputs on inputs that are in none of the sets, during training.

        Args:
            times: increasing, in the unit of the order's clock.
            x: inputs, (examples, …), which are converted as those of a `Dataset` are.
            weights: the initial weights; None for `start(system)`.
            order: as in `solve`.

        Returns:
            The outputs, (times, examples, …).

        Raises:
            ValueError: for inputs that do not fit the data set, and for a loss without closed form.
        """
        came, allowed = finite("x", numbers("x", x)).shape, self.system.problem.input_shape
        if came[1:] != allowed or not came or not came[0]:
            shape = f"(examples, …) of shape {allowed}, at least one"
            raise ValueError(f"x: got shape {came}; allowed is {shape}")
        weights = sample_weights(self.system, 0)[0] if weights is None else weights
        found, _ = self._course(weights, times, order)
        with full_precision():
            x, sets, model = (
                as_inputs(jnp.asarray(x), jnp.float64),
                Sets.of(self.system.problem),
                self.expansion,
            )
            doubles = jax.tree.map(lambda w: jnp.asarray(w, jnp.float64), weights)
            first, offset = np.asarray(self.system.network(doubles, x)), offset_of(model, x)
            kernel = np.asarray(model.kernel(x, sets.x[: self.trained]))
        features = kernel.reshape(first.size, -1) @ self.spectrum.vectors
        learned = (found.alpha @ features.T).reshape(-1, *first.shape)
        kept = found.kept.reshape(-1, *(1 for _ in first.shape))
        return offset + kept * (first - offset) + learned

    def weights_at(self, time: Any, *, weights: Weights = None, order: str = "full") -> Weights:
        """The weights at a time, by one vjp: c(t) w(0) + Jᵀ U α(t).

        Args:
            time: in the unit of the order's clock.
            weights: the initial weights; None for `start(system)`.
            order: as in `solve`.

        Returns:
            The weights, float64.

        Raises:
            ValueError: for several times, and for a loss without closed form.
        """
        weights = sample_weights(self.system, 0)[0] if weights is None else weights
        found, _ = self._course(weights, non_negative("time", time), order)
        with full_precision():
            model, x = self.expansion, np.asarray(Sets.of(self.system.problem).x[: self.trained])
            alpha = self.spectrum.vectors @ found.alpha[0]
            scaled = jax.tree.map(lambda w: found.kept[0] * np.asarray(w, np.float64), weights)
            return self.moved(Model(model.network, scaled), x, alpha, model)

    def mode_times(self, target: float = 0.01) -> np.ndarray:
        """Steps after which each mode of the kernel is learned, at the last learning rate.

        Args:
            target: the part of a mode's residual that counts as learned.

        Returns:
            The times, (modes,), of the eigenvalues of the kernel in ascending order; infinite for
            those that never get there. With momentum, those of the envelope of oscillations.

        Raises:
            ValueError: for a loss without closed form.
        """
        modes = self.modes(np.zeros(self.shape))
        if modes is None:
            raise ValueError("loss: got CrossEntropy, without modes; allowed is SquaredLoss")
        return landmarks.mode_times(modes, target)

    def moved(self, model: Model, x: np.ndarray, alpha: np.ndarray, at: Any = None) -> Weights:
        """The weights of a model plus Jᵀ α, with J at the weights of another one."""
        tangent = model if at is None else at
        pulled = tangent.vjp(x, alpha.reshape(len(x), -1))
        flat, back = ravel_pytree(jax.tree.map(jnp.asarray, model.weights))
        return jax.tree.map(np.asarray, back(flat + pulled))


def beyond(system: System) -> str | None:
    """Why neither theory of linear models covers a problem and a network; None if they may."""
    problem, network = system.problem, system.network
    if network.affine_form(problem.input_shape) is None:
        said = "; Network(…, linear=True) says so" if isinstance(network, Network) else ""
        return (
            f"the network is {a_kind(network)}, which is not linear in its weights"
            f"{said}; ld.linearise(model) is"
        )
    if problem.examples() is None:
        return f"the problem is {a_kind(problem)}, not a Dataset"
    if not isinstance(problem.loss, SquaredLoss | CrossEntropy):
        return f"the loss is {type(problem.loss).__name__}, not SquaredLoss or CrossEntropy"
    return too_large(problem, network)
