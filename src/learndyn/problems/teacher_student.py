"""A teacher network labels Gaussian inputs."""

from typing import cast

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Committee, LinearTeacher
from learndyn.networks.base import Weights
from learndyn.numerics.checks import non_negative, positive
from learndyn.numerics.gaussian import tabulate
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array, Number
from learndyn.problems.base import AbstractProblem, MapStatistics, Sampler
from learndyn.problems.inputs import Gaussian
from learndyn.problems.spectra import Spectrum

NOISE_LANE = 1  # the lane of random numbers for label noise; inputs are lane 0


class TeacherStudent(AbstractProblem):
    """Examples (x, y): x from `inputs`, y = teacher(x) + label_noise · standard normal.

    loss = loss_scale · |y − output|², summed over outputs, averaged over examples.
    loss_scale is 1 in bocchi2026escape and 1/2 in worschech2024scaling.

    Args:
        inputs: a `Gaussian`, or a spectrum, which stands for Gaussian inputs that have it.
        teacher: the network that labels; its `init` is the law of its weights.
        label_noise: standard deviation of the noise on y.
        loss_scale: factor of the squared error.
    """

    inputs: Gaussian
    teacher: AbstractNetwork
    label_noise: np.ndarray
    loss_scale: np.ndarray

    def __init__(
        self,
        inputs: Gaussian | Spectrum,
        teacher: AbstractNetwork,
        *,
        label_noise: Number = 0.0,
        loss_scale: Number = 0.5,
    ):
        self.inputs = Gaussian(inputs) if isinstance(inputs, Spectrum) else inputs
        self.teacher = teacher
        teacher.check_input(self.inputs.dim)
        self.label_noise = non_negative("label_noise", label_noise)
        self.loss_scale = positive("loss_scale", loss_scale)

    @property
    def dim(self) -> int:
        return self.inputs.dim

    @property
    def outputs(self) -> int | None:
        return self.teacher.outputs

    @property
    def fixed_teacher(self) -> Weights | None:
        return self.teacher.matrix if isinstance(self.teacher, LinearTeacher) else None

    def draw_teacher(self, rng: np.random.Generator) -> Weights:
        return self.teacher.sample(rng, self.dim)

    def noiseless(self) -> "TeacherStudent":
        return TeacherStudent(self.inputs, self.teacher, loss_scale=self.loss_scale)

    def sampler(self, teacher: Weights, dtype) -> Sampler:
        inputs = self.inputs.sampler(teacher.shape[-1], dtype)
        noise = jnp.asarray(self.label_noise).astype(dtype)
        axis = () if self.outputs is None else (self.outputs,)

        def sample(source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
            x = inputs(source, shape)
            error = source.normal((*shape, *axis), dtype, NOISE_LANE)
            return x, self.teacher(teacher, x) + noise * error

        return sample

    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        if not isinstance(self.teacher, LinearTeacher):
            return None
        dim = teacher.shape[-1]
        root = jnp.diag(jnp.sqrt(self.inputs.variances(dim)) * jnp.ones(dim))
        turn = self.inputs.from_eigenbasis
        return MapStatistics(teacher, turn(turn(root).T))

    def population_loss(self, network: Committee, covariance: Array) -> Array:
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
