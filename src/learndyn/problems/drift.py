"""Teachers that move while the student learns."""

import jax.numpy as jnp
import numpy as np

from learndyn.numerics.random import Source, Stream
from learndyn.problems.inputs import Gaussian
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import positive
from learndyn.runtime.types import Array, Number
from learndyn.runtime.values import Value


@bounded(diffusion=POSITIVE, rotation=POSITIVE)
class Drift(Value):
    """How the rows B of a teacher's weights move after every step, in time α = steps/N.

    Diffusion at the rate δ: B ← (1 − δ/N) B + noise, so that the overlap with an earlier B decays
    as exp(−δ α). The noise keeps the mean square of the teacher's initial distribution.

    Rotation at the angular speed ω: B ← B cos(ω/N) + J B sin(ω/N), where J turns each pair of
    neighbouring coordinates (of the eigenbasis of the inputs) by a right angle. Every row then
    rotates rigidly, by the angle ω α, and all overlaps between teachers stay.

    Args:
        diffusion: δ, per α.
        rotation: ω, in radians per α; every level of the inputs then has an even dimension.

    Raises:
        ValueError: unless exactly one of both is given, and it is positive.

    Example:
        >>> import learndyn as ld
        >>> teacher = ld.Committee(1, "linear")
        >>> problem = ld.TeacherStudent(ld.Isotropic(100), teacher, drift=ld.Drift(diffusion=0.1))
        >>> problem.drift
        Drift(diffusion=0.1, rotation=None)
    """

    diffusion: np.ndarray | None
    rotation: np.ndarray | None

    def __init__(self, *, diffusion: Number | None = None, rotation: Number | None = None):
        if (diffusion is None) == (rotation is None):
            came = "neither a diffusion nor" if diffusion is None else "both a diffusion and"
            raise ValueError(f"diffusion: got {came} a rotation; allowed is one of them")
        self.diffusion = None if diffusion is None else positive("diffusion", diffusion)
        self.rotation = None if rotation is None else positive("rotation", rotation)

    def check_inputs(self, inputs: Gaussian) -> None:
        """Raises a ValueError for levels that cannot rotate in planes, and a diffusion too fast."""
        if self.rotation is not None and np.any(np.asarray(inputs.spectrum.counts) % 2):
            odd = next(int(n) for n in np.asarray(inputs.spectrum.counts) if n % 2)
            raise ValueError(
                f"drift: got a rotation for a level of dimension {odd}; allowed are even dimensions"
            )
        if self.diffusion is not None and self.diffusion >= inputs.dim:
            came = f"diffusion={float(self.diffusion):g} for N = {inputs.dim}"
            raise ValueError(f"drift: got {came}; allowed is below N")

    def moved(self, rows: Array, inputs: Gaussian, std: Array, source: Source) -> Array:
        """The rows (M, N) after a step.

        Args:
            rows: those before it.
            inputs: whose eigenbasis the planes of a rotation are in.
            std: of an entry of the teacher's initial distribution.
            source: the step's random numbers.

        Returns:
            The rows, in their precision.
        """
        dim = rows.shape[-1]
        number = lambda value: jnp.asarray(value).astype(rows.dtype)
        if self.rotation is not None:
            angle = jnp.asarray(self.rotation) / dim
            turned = number(jnp.sin(angle)) * partners(rows, inputs)
            return rows + (turned - number(2 * jnp.sin(angle / 2) ** 2) * rows)
        lost = jnp.asarray(self.diffusion) / dim
        noise = source.normal(rows.shape, rows.dtype, Stream.TEACHER)
        # The small numbers first: beside a row, those of a slow teacher would be lost in rounding.
        return rows + (number(std * jnp.sqrt(lost * (2 - lost))) * noise - number(lost) * rows)


def partners(rows: Array, inputs: Gaussian) -> Array:
    """J B of rows B (…, N): each pair (a, b) of coordinates of the eigenbasis becomes (−b, a)."""
    own = inputs.in_eigenbasis(rows)
    xp = np if isinstance(own, np.ndarray) else jnp
    pairs = own.reshape(*own.shape[:-1], -1, 2)
    turned = xp.stack([-pairs[..., 1], pairs[..., 0]], axis=-1).reshape(own.shape)
    return inputs.from_eigenbasis(turned)
