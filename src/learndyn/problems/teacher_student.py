"""Gaussian inputs with labels from a teacher network."""

from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Committee
from learndyn.networks.closed_forms import joined
from learndyn.numerics.gaussian import Units
from learndyn.numerics.random import Source, Stream
from learndyn.problems.base import AbstractProblem, Loss, MapStatistics, Sampler
from learndyn.problems.drift import Drift
from learndyn.problems.inputs import Gaussian
from learndyn.problems.losses import AbstractLoss, SquaredLoss, loss_given
from learndyn.problems.mixture import Mixture
from learndyn.problems.spectra import Spectrum
from learndyn.runtime.bounds import NON_NEGATIVE, POSITIVE, bounded
from learndyn.runtime.checks import a_kind, instance, non_negative
from learndyn.runtime.types import Array, Number, Weights


@bounded(label_noise=NON_NEGATIVE, loss_scale=POSITIVE)
class TeacherStudent(AbstractProblem):
    """Examples (x, y): x from `inputs`, y = teacher(x) + label_noise · standard normal.

    loss = loss_scale · |y − output|², summed over outputs, averaged over examples.
    loss_scale is 1 in bocchi2026escape and 1/2 in worschech2024scaling. Without a theory, the error
    is measured on fresh examples without label noise.

    Args:
        inputs: a `Gaussian`, the spectrum of Gaussian inputs, or a `Mixture`.
        teacher: the network that labels; its `init` is the distribution of its weights.
        label_noise: standard deviation of the noise on y.
        loss: a loss; None is `SquaredLoss(loss_scale)`.
        loss_scale: factor of the squared error, 1/2 by default.
        drift: how the teacher, a `Committee`, moves after every step; None is a teacher at rest.

    Raises:
        ValueError: for inputs, a teacher or a drift of another kind, inputs that the
            teacher cannot take, negative noise, and both `loss` and `loss_scale`.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(2, "erf", init=ld.Orthonormal(1.0))
        >>> ld.TeacherStudent(ld.Isotropic(300), teacher, label_noise=0.1).dim
        300
    """

    unwritten: ClassVar[dict[str, Any]] = {"drift": None}

    inputs: Gaussian | Mixture
    teacher: AbstractNetwork
    label_noise: np.ndarray
    loss: AbstractLoss
    drift: Drift | None
    # The dimension, if the teacher does not state it: `inputs.dim` is not known while tracing.
    size: int | None = eqx.field(init=False, static=True)

    def __init__(
        self,
        inputs: Gaussian | Mixture | Spectrum,
        teacher: AbstractNetwork,
        *,
        label_noise: Number = 0.0,
        loss: AbstractLoss | None = None,
        loss_scale: Number | None = None,
        drift: Drift | None = None,
    ):
        self.inputs = Gaussian(inputs) if isinstance(inputs, Spectrum) else inputs
        self.teacher = teacher
        allowed = "a spectrum such as Isotropic, a Gaussian, or a Mixture"
        instance("inputs", self.inputs, (Gaussian, Mixture), allowed)
        instance("teacher", teacher, AbstractNetwork, "a network such as Committee or Network")
        teacher.check_teacher()
        teacher.check_input((self.inputs.dim,))
        self.size = self.inputs.dim if teacher.input_shape is None else None
        self.label_noise = non_negative("label_noise", label_noise)
        self.loss = loss_given(loss, loss_scale)
        self.drift = drift
        if drift is not None:
            instance("drift", drift, Drift, "a Drift or None")
            if not isinstance(self.inputs, Gaussian):
                came = a_kind(self.inputs)
                raise ValueError(f"drift: got one with {came} as inputs; allowed is a Gaussian")
            drift.check_inputs(self.inputs)
            if not isinstance(teacher, Committee):
                came = a_kind(teacher)
                raise ValueError(f"drift: got one for {came}; allowed is a Committee as teacher")

    @property
    def teacher_std(self) -> Array:
        """The root mean square of an entry of a teacher that moves."""
        assert isinstance(self.teacher, Committee)
        return self.teacher.init.root_mean_square

    @property
    def moves_teacher(self) -> bool:
        return self.drift is not None

    def moved_teacher(self, teacher: Weights, source: Source) -> Weights:
        if self.drift is None:
            return teacher
        assert isinstance(self.teacher, Committee) and isinstance(self.inputs, Gaussian)
        rows = teacher if self.teacher.is_array else teacher.inputs
        rows = self.drift.moved(rows, self.inputs, self.teacher_std, source)
        return rows if self.teacher.is_array else teacher._replace(inputs=rows)

    @property
    def loss_scale(self) -> Array:
        """The factor of the squared loss, for theories that cover only this loss."""
        assert isinstance(self.loss, SquaredLoss)
        return self.loss.scale

    @property
    def input_shape(self) -> tuple[int, ...]:
        return (self.inputs.dim,)

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        return self.teacher.output_shape(self.input_shape)

    @property
    def input_axes(self) -> int:
        return 1  # the dimension itself is not known while tracing

    @property
    def teacher_network(self) -> AbstractNetwork | None:
        return self.teacher

    @property
    def fixed_teacher(self) -> Weights | None:
        return self.teacher.fixed_weights

    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        return self.teacher.sample(rng, self.input_shape, None)

    def check_teacher(self, teacher: Weights) -> None:
        self.teacher.check_weights(teacher, self.input_shape, "teacher")

    def _dim(self, teacher: Weights) -> int:
        return self.teacher.dim_of(teacher) if self.size is None else self.size

    def sampler(self, teacher: Weights, dtype) -> Sampler:
        return self._sampler(teacher, dtype, noisy=True)

    def _sampler(self, teacher: Weights, dtype, noisy: bool) -> Sampler:
        inputs = self.inputs.sampler(self._dim(teacher), dtype)
        noise = jnp.asarray(self.label_noise).astype(dtype)

        def sample(source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
            x = inputs(source, shape)
            y = self.teacher(teacher, x)
            error = source.normal(y.shape, dtype, Stream.LABEL_NOISE) if noisy else 0
            return x, y + noise * error

        return sample

    def _measured(self, teacher: Weights, dtype) -> Sampler:
        return self._sampler(teacher, dtype, noisy=False)

    @property
    def _measured_how(self) -> str:
        return " without label noise"

    def population_loss(self, network: AbstractNetwork, teacher: Weights) -> Loss | None:
        """By Gaussian averages, for linear maps and for committees of any two activations."""
        gaussian = isinstance(self.inputs, Gaussian)
        if not (isinstance(self.loss, SquaredLoss) and gaussian) or self.moves_teacher:
            return None
        statistics = self.map_statistics(teacher)
        if statistics is not None and network.is_linear:
            # The outputs for the unit vectors are the columns of a linear network's matrix.
            unit = jnp.eye(self._dim(teacher))
            matrix = lambda w: network(w, unit).T
            return lambda w: map_loss(self.loss_scale, matrix(w), statistics)
        student, labels = network.unit_sum, self.teacher.unit_sum
        if student is None or labels is None:
            return None
        units = Units(student.activation, labels.activation, student.units, labels.units)

        def loss(weights: Weights) -> Array:
            """loss_scale · E[Δ²], Δ = Σ_k c_k f_k(z_k + b_k) = target − output."""
            rows = jnp.concatenate([student.rows(weights), labels.rows(teacher)])
            c = jnp.concatenate([-student.coefficients(weights), labels.coefficients(teacher)])
            biases = joined(student.biases(weights), labels.biases(teacher), (units.K, units.M))
            return self.loss_scale * (c @ units.values(self.covariance(rows), biases) @ c)

        return loss

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        target = self.teacher.matrix_of(teacher)
        if target is None or not isinstance(self.inputs, Gaussian) or self.moves_teacher:
            return None
        dim = self._dim(teacher)
        root = jnp.diag(jnp.sqrt(self.inputs.variances(dim)) * jnp.ones(dim))
        # Both sides are turned into the frame of the inputs, so that the root is symmetric.
        turn = self.inputs.from_eigenbasis
        return MapStatistics(target, turn(turn(root).T))

    def covariance(self, rows: Array) -> Array:
        """The covariance of pre-activations row · x/√N, (rows, rows)."""
        assert isinstance(self.inputs, Gaussian)
        rows = self.inputs.in_eigenbasis(rows)
        dim = rows.shape[-1]
        return (rows * self.inputs.variances(dim).astype(rows.dtype)) @ rows.T / dim


def map_loss(scale: Array, map_: Array, statistics: MapStatistics) -> Array:
    """scale · tr[(w̄ − w̄*) Σ (w̄ − w̄*)ᵀ], the loss of a linear map above its minimum (Eq. 1)."""
    return scale * jnp.sum(((map_ - statistics.target) @ statistics.root) ** 2)
