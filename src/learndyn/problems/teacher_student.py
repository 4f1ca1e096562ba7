"""A teacher network labels Gaussian inputs."""

from collections.abc import Callable

import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Committee
from learndyn.networks.base import Weights
from learndyn.numerics.checks import non_negative, positive
from learndyn.numerics.gaussian import tabulate
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array, Number
from learndyn.numerics.values import Value
from learndyn.problems.inputs import Gaussian
from learndyn.problems.spectra import Spectrum

NOISE_LANE = 1  # the lane of random numbers for label noise; inputs are lane 0


class TeacherStudent(Value):
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
    teacher: Committee
    label_noise: np.ndarray
    loss_scale: np.ndarray

    def __init__(
        self,
        inputs: Gaussian | Spectrum,
        teacher: Committee,
        *,
        label_noise: Number = 0.0,
        loss_scale: Number = 0.5,
    ):
        self.inputs = Gaussian(inputs) if isinstance(inputs, Spectrum) else inputs
        self.teacher = teacher
        self.label_noise = non_negative("label_noise", label_noise)
        self.loss_scale = positive("loss_scale", loss_scale)

    def noiseless(self) -> "TeacherStudent":
        """The same problem without label noise."""
        return TeacherStudent(self.inputs, self.teacher, loss_scale=self.loss_scale)

    def sampler(self, teacher: Weights) -> Callable[[Source, tuple[int, ...]], tuple[Array, Array]]:
        """Draws fresh labelled examples of a given shape, for given teacher weights."""
        dtype = teacher.dtype
        inputs = self.inputs.sampler(teacher.shape[-1], dtype)
        noise = jnp.asarray(self.label_noise).astype(dtype)

        def sample(source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
            x = inputs(source, shape)
            return x, self.teacher(teacher, x) + noise * source.normal(shape, dtype, NOISE_LANE)

        return sample

    def loss(self, network: AbstractNetwork, weights: Weights, x: Array, y: Array) -> Array:
        """The mean loss over given examples."""
        scale = jnp.asarray(self.loss_scale).astype(x.dtype)
        return scale * jnp.mean((y - network(weights, x)) ** 2)

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
        """C with target − output = Σ_k c_k g(z_k), z = (student, teacher) pre-activations."""
        student = jnp.full(network.units, -jnp.asarray(network.scale))
        teacher = jnp.full(self.teacher.units, jnp.asarray(self.teacher.scale))
        return jnp.concatenate([student, teacher])

    def covariance(self, weights: Weights, teacher: Weights) -> Array:
        """The covariance of the (student, teacher) pre-activations, (K + M, K + M)."""
        rows = jnp.concatenate([weights, teacher])
        dim = rows.shape[-1]
        return (rows * self.inputs.variances(dim).astype(rows.dtype)) @ rows.T / dim
