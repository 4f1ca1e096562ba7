"""A teacher network labels Gaussian inputs."""

from typing import cast

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Committee, LinearTeacher
from learndyn.networks.base import Weights
from learndyn.numerics.checks import instance, non_negative
from learndyn.numerics.gaussian import tabulate
from learndyn.numerics.random import Source, Stream
from learndyn.numerics.types import Array, Number
from learndyn.problems.base import AbstractProblem, Loss, MapStatistics, Sampler
from learndyn.problems.inputs import Gaussian
from learndyn.problems.losses import AbstractLoss, SquaredLoss, loss_given
from learndyn.problems.spectra import Spectrum


class TeacherStudent(AbstractProblem):
    """Examples (x, y): x from `inputs`, y = teacher(x) + label_noise · standard normal.

    loss = loss_scale · |y − output|², summed over outputs, averaged over examples.
    loss_scale is 1 in bocchi2026escape and 1/2 in worschech2024scaling. Without a theory the
    error is measured on fresh examples without label noise.

    Args:
        inputs: a `Gaussian`, or a spectrum, which stands for Gaussian inputs that have it.
        teacher: the network that labels; its `init` is the law of its weights.
        label_noise: standard deviation of the noise on y.
        loss: a loss; None is `SquaredLoss(loss_scale)`.
        loss_scale: factor of the squared error, 1/2 by default.
    """

    inputs: Gaussian
    teacher: AbstractNetwork
    label_noise: np.ndarray
    loss: AbstractLoss
    # The dimension, which is not known while tracing, where the teacher does not say it either.
    size: int | None = eqx.field(init=False, static=True)

    def __init__(
        self,
        inputs: Gaussian | Spectrum,
        teacher: AbstractNetwork,
        *,
        label_noise: Number = 0.0,
        loss: AbstractLoss | None = None,
        loss_scale: Number | None = None,
    ):
        self.inputs = Gaussian(inputs) if isinstance(inputs, Spectrum) else inputs
        self.teacher = teacher
        instance("inputs", self.inputs, Gaussian, "a spectrum such as Isotropic, or a Gaussian")
        instance("teacher", teacher, AbstractNetwork, "a network such as Committee or Network")
        teacher.check_input((self.inputs.dim,))
        self.size = self.inputs.dim if teacher.input_shape is None else None
        self.label_noise = non_negative("label_noise", label_noise)
        self.loss = loss_given(loss, loss_scale)

    @property
    def loss_scale(self) -> Array:
        """The factor of the squared loss, for theories that cover no other."""
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
        """A closed form for linear maps, and for committees that share their activation."""
        if not isinstance(self.loss, SquaredLoss):
            return None
        statistics = self.map_statistics(teacher)
        if statistics is not None and network.is_linear:
            # A linear network's matrix is what it makes of the unit vectors, transposed.
            unit = jnp.eye(self._dim(teacher))
            matrix = lambda w: network(w, unit).T
            return lambda w: map_loss(self.loss_scale, matrix(w), statistics)
        if not (isinstance(network, Committee) and isinstance(self.teacher, Committee)):
            return None
        seen = lambda w: self.covariance(network.learning(w), teacher)
        same = network.activation == self.teacher.activation
        return (lambda w: self.committee_loss(network, seen(w))) if same else None

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        if not isinstance(self.teacher, LinearTeacher):
            return None
        dim = self._dim(teacher)
        root = jnp.diag(jnp.sqrt(self.inputs.variances(dim)) * jnp.ones(dim))
        turn = self.inputs.from_eigenbasis
        return MapStatistics(teacher, turn(turn(root).T))

    def committee_loss(self, network: Committee, covariance: Array) -> Array:
        """⟨loss⟩ without label noise, from the covariance of the pre-activations.

        A closed form where student and teacher share their activation.

        Args:
            network: the student.
            covariance: of (student, teacher) pre-activations, (K + M, K + M).

        Returns:
            The generalisation error.
        """
        c = self.output_weights(network)
        every = range(len(c))
        return self.loss_scale * (c @ tabulate(network.g.I2, covariance, every, every) @ c)

    def output_weights(self, network: Committee) -> Array:
        """The c of target − output = Σ_k c_k g(z_k), z = (student, teacher) pre-activations."""
        student = jnp.full(network.units, -jnp.asarray(network.scale))
        other = cast(Committee, self.teacher)
        teacher = jnp.full(other.units, jnp.asarray(other.scale))
        return jnp.concatenate([student, teacher])

    def covariance(self, weights: Weights, teacher: Weights) -> Array:
        """The covariance of the (student, teacher) pre-activations, (K + M, K + M)."""
        rows = self.inputs.in_eigenbasis(jnp.concatenate([weights, teacher]))
        dim = rows.shape[-1]
        return (rows * self.inputs.variances(dim).astype(rows.dtype)) @ rows.T / dim


def map_loss(scale: Array, map_: Array, statistics: MapStatistics) -> Array:
    """scale · tr[(w̄ − w̄*) Σ (w̄ − w̄*)ᵀ], the loss of a linear map above its floor (Eq. 1)."""
    return scale * jnp.sum(((map_ - statistics.target) @ statistics.root) ** 2)
