"""Distributions from which the layers of a deep linear network are drawn."""

import abc
import itertools

import numpy as np

from learndyn.numerics.linalg import orthonormal_rows
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import finite, numbers, positive
from learndyn.runtime.types import Array, Number
from learndyn.runtime.values import Value


class AbstractLayers(Value):
    """A distribution for the weights w_i of shape (widths[i], widths[i−1])."""

    @abc.abstractmethod
    def sample(
        self, rng: np.random.Generator, widths: tuple[int, ...], target: Array | None
    ) -> tuple[np.ndarray, ...]:
        """The layers, in float64; `target` is the map to be learned, or None if it is not known."""


@bounded(scale=POSITIVE)
class Xavier(AbstractLayers):
    """Normal entries of variance scale² · 2/(inputs + outputs) of the layer.

    Args:
        scale: factor of every layer.

    Raises:
        ValueError: if `scale` is not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> layers = ld.Xavier().sample(np.random.default_rng(0), (3, 5, 2), None)
        >>> [layer.shape for layer in layers]
        [(5, 3), (2, 5)]
    """

    scale: np.ndarray

    def __init__(self, scale: Number = 1.0):
        self.scale = positive("scale", scale)

    def sample(
        self, rng: np.random.Generator, widths: tuple[int, ...], target: Array | None
    ) -> tuple[np.ndarray, ...]:
        std = lambda n, m: self.scale * np.sqrt(2 / (n + m))
        pairs = itertools.pairwise(widths)
        return tuple(std(n, m) * rng.standard_normal((n, m)) for m, n in pairs)


@bounded(largest=POSITIVE)
class SmallRandom(AbstractLayers):
    """Normal entries, each layer scaled so that its largest singular value is `largest`.

    Args:
        largest: the largest singular value of every layer (0.05 in curvature2020linear).

    Raises:
        ValueError: if `largest` is not positive.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> (layer,) = ld.SmallRandom(0.05).sample(np.random.default_rng(0), (3, 5), None)
        >>> round(float(np.linalg.norm(layer, 2)), 6)
        0.05
    """

    largest: np.ndarray

    def __init__(self, largest: Number):
        self.largest = positive("largest", largest)

    def sample(
        self, rng: np.random.Generator, widths: tuple[int, ...], target: Array | None
    ) -> tuple[np.ndarray, ...]:
        drawn = [rng.standard_normal((n, m)) for m, n in itertools.pairwise(widths)]
        return tuple(self.largest * w / np.linalg.norm(w, ord=2) for w in drawn)


class Aligned(AbstractLayers):
    """Layers whose singular vectors match the target's and each other's, with given strengths.

    R_1 = R_*, L_d = L_*, R_{i+1} = L_i; the inner vectors are random. Modes beyond the
    width of a layer have strength 0 there.

    Args:
        strengths: σ of every mode and layer: a number, (layers,), or (modes, layers).

    Raises:
        ValueError: for strengths that are not finite numbers.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> target = np.diag([3.0, 1.0])
        >>> first, second = ld.Aligned(0.5).sample(np.random.default_rng(0), (2, 2, 2), target)
        >>> np.round(np.abs(np.diag(second @ first)), 6).tolist()  # σ̄ = 0.5² in both modes
        [0.25, 0.25]
    """

    strengths: np.ndarray

    def __init__(self, strengths: Number | list):
        self.strengths = finite("strengths", numbers("strengths", strengths))

    def sample(
        self, rng: np.random.Generator, widths: tuple[int, ...], target: Array | None
    ) -> tuple[np.ndarray, ...]:
        if target is None:
            raise ValueError(
                "init: got Aligned without a linear target map; allowed are Xavier and SmallRandom"
            )
        modes, layers = min(widths[0], widths[-1]), len(widths) - 1
        try:
            sigma = np.broadcast_to(self.strengths, (modes, layers))
        except ValueError:
            came = self.strengths.shape
            allowed = f"a number, ({layers},) or ({modes}, {layers})"
            raise ValueError(f"strengths: got shape {came}; allowed is {allowed}") from None
        return aligned_layers(rng, widths, np.asarray(target), sigma)


def aligned_layers(
    rng: np.random.Generator, widths: tuple[int, ...], target: np.ndarray, sigma: np.ndarray
) -> tuple[np.ndarray, ...]:
    """Layers w_i = Σ_k σ_ki u_ki u_{k,i−1}ᵀ between the target's singular vectors."""
    left, _, right = np.linalg.svd(target, full_matrices=False)
    inner = [_frame(rng, len(sigma), width) for width in widths[1:-1]]
    frames = [right, *inner, left.T]  # one frame per width, whose rows are the vectors of the modes
    pairs = zip(frames[1:], frames[:-1], sigma.T, strict=True)
    return tuple((a.T * s) @ b for a, b, s in pairs)


def _frame(rng: np.random.Generator, modes: int, width: int) -> np.ndarray:
    """Orthonormal vectors (modes, width); zero for modes that do not fit."""
    drawn = orthonormal_rows(rng.standard_normal((min(modes, width), width)))
    return np.concatenate([drawn, np.zeros((modes - len(drawn), width))])
