"""Inputs from a mixture of Gaussians, and problems whose target is a constant per cluster."""

from typing import Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import dense
from learndyn.numerics.commuting import common_eigenbasis
from learndyn.numerics.random import Source, Stream
from learndyn.problems import base
from learndyn.problems.base import AbstractProblem
from learndyn.problems.inputs import Gaussian
from learndyn.problems.losses import AbstractLoss, SquaredLoss, loss_given
from learndyn.problems.spectra import Spectrum
from learndyn.runtime.bounds import NON_NEGATIVE, POSITIVE, bounded
from learndyn.runtime.checks import finite, instance, non_negative, numbers
from learndyn.runtime.types import Array, Number, Weights
from learndyn.runtime.values import Value


class Commuting(Value):
    """Covariances of clusters that commute: in every level each cluster has one variance.

    Args:
        values: the variances, (clusters, levels).
        counts: the dimensions N_l of the levels; their sum is the dimension N.
        frame: an orthogonal matrix (N, N) whose columns are the common eigenvectors, those of the
            first level first; None for the eigenbasis itself.

    Raises:
        ValueError: for variances that are not positive, counts that do not fit them, or a
            frame that is not orthogonal.

    Example:
        >>> import learndyn as ld
        >>> apart = ld.Commuting([[1.0, 0.5], [0.5, 1.0]], counts=[100, 200])
        >>> ld.Mixture([[1.0], [-1.0]], apart).dim
        300
    """

    values: np.ndarray
    counts: np.ndarray
    frame: np.ndarray | None

    def __init__(self, values: Any, counts: Any, frame: Any = None):
        self.values = finite("values", numbers("values", values, 2))
        if not self.values.size or np.any(self.values <= 0):
            came = f"{self.values.min():g}" if self.values.size else f"shape {self.values.shape}"
            raise ValueError(f"values: got {came}; allowed are positive variances")
        # The checks of counts are those of a spectrum with as many levels.
        falling = np.arange(self.values.shape[1], 0, -1)
        self.counts = Spectrum(falling, counts).counts
        # The checks of the frame are those of Gaussian inputs.
        self.frame = Gaussian(Spectrum([1.0], [int(self.counts.sum())]), frame).frame


class Mixture(Value):
    """Inputs x = mean of a cluster + Gaussian noise with the cluster's covariance.

    Means whose length stays of order 1 as N grows shift pre-activations w·x/√N by an amount of
    order 1, if weights learn them. Theories need covariances that commute, that is, share their
    eigenvectors; networks are trained with any.

    Args:
        means: (clusters, n) with n ≤ N; coordinates beyond n are zero.
        covariances: a `Spectrum` that all clusters share; a list of spectra, one per cluster, in
            the same eigenbasis; variances of the coordinates, (clusters, N); covariance matrices
            (clusters, N, N); or `Commuting`, which the others become if they commute.
        weights: the probabilities of the clusters, up to a common factor; None for equal ones.

    Raises:
        ValueError: for means, covariances and weights whose numbers or dimensions do not
            agree, and for weights that are not positive.

    Example:
        >>> import learndyn as ld
        >>> corners = [[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]]
        >>> ld.Mixture(corners, ld.Isotropic(500)).dim
        500
    """

    means: np.ndarray
    covariances: Any
    weights: np.ndarray | None
    size: int = eqx.field(init=False, static=True)  # N, which counts do not tell while tracing

    def __init__(self, means: Any, covariances: Any, *, weights: Any = None):
        means = finite("means", numbers("means", means, 2))
        if not means.size:
            raise ValueError(f"means: got shape {means.shape}; allowed is (clusters, coordinates)")
        self.covariances = _covariances(covariances, len(means))
        self.size = _dim(self.covariances)
        if means.shape[1] > self.size:
            raise ValueError(
                f"means: got {means.shape[1]} coordinates; allowed are at most {self.size}, the "
                "dimension of the covariances"
            )
        self.means = means
        self.weights = None if weights is None else _weights(weights, len(means))

    @property
    def dim(self) -> int:
        """The dimension N."""
        return self.size

    @property
    def clusters(self) -> int:
        """The number of clusters."""
        return len(self.means)

    @property
    def probabilities(self) -> Array:
        """The probability of every cluster, (clusters,)."""
        if self.weights is None:
            return np.full(self.clusters, 1 / self.clusters)
        return self.weights / self.weights.sum()

    @property
    def full_means(self) -> Array:
        """The means with all coordinates, (clusters, N)."""
        xp = np if isinstance(self.means, np.ndarray) else jnp
        return xp.pad(self.means, ((0, 0), (0, self.dim - self.means.shape[1])))

    @property
    def commute(self) -> bool:
        """Whether the covariances of the clusters commute."""
        return isinstance(self.covariances, Spectrum | Commuting)

    @property
    def levels(self) -> tuple[Array, Array]:
        """The variances (clusters, levels) and dimensions (levels,), if covariances commute."""
        values = self.covariances.values
        if isinstance(self.covariances, Spectrum):
            xp = np if isinstance(values, np.ndarray) else jnp
            values = xp.broadcast_to(values, (self.clusters, len(values)))
        return values, self.covariances.counts

    @property
    def frame(self) -> Array | None:
        """The common eigenvectors as columns, (N, N); None for the eigenbasis itself."""
        return getattr(self.covariances, "frame", None)

    def in_eigenbasis(self, rows: Array) -> Array:
        """Rows (…, dim) in the coordinates of the eigenbasis, in the precision of the rows."""
        return rows if self.frame is None else rows @ self.frame.astype(rows.dtype)

    def from_eigenbasis(self, rows: Array) -> Array:
        """The inverse of `in_eigenbasis`."""
        return rows if self.frame is None else rows @ self.frame.T.astype(rows.dtype)

    def sampler(self, dim: int, dtype) -> "MixtureSampler":
        """A function that draws inputs, with everything that is constant computed once."""
        if self.commute:
            values, counts = map(jnp.asarray, self.levels)
            # The length is given, since counts are traced inside a compiled run.
            scales = jnp.repeat(jnp.sqrt(values), counts, axis=1, total_repeat_length=dim)
        else:
            scales = dense.cholesky(jnp.asarray(self.covariances))
        means = jnp.asarray(self.full_means)
        edges = jnp.cumsum(jnp.asarray(self.probabilities))[:-1]
        return MixtureSampler(self, means.astype(dtype), jnp.asarray(scales).astype(dtype), edges)


class MixtureSampler(NamedTuple):
    """Draws inputs of a mixture.

    Attributes:
        inputs: the mixture.
        means: (clusters, N).
        scales: standard deviations along common eigenvectors, or else roots of the covariances.
        edges: the cumulative probabilities of the clusters but the last.
    """

    inputs: Mixture
    means: Array
    scales: Array
    edges: Array

    def __call__(self, source: Source, shape: tuple[int, ...]) -> Array:
        """Fresh inputs (*shape, dim)."""
        return self.labelled(source, shape)[0]

    def labelled(self, source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
        """Fresh inputs (*shape, dim), and the cluster of each."""
        index = jnp.arange(int(np.prod(shape)), dtype=jnp.uint32)
        u = source.uniform_at(index, Stream.CLUSTERS).reshape(shape)
        cluster = jnp.sum(u[..., None] > self.edges, axis=-1)
        z = source.normal((*shape, self.means.shape[1]), self.means.dtype)
        if not self.inputs.commute:
            noise = jnp.einsum("...ij,...j->...i", self.scales[cluster], z)
        else:
            noise = self.inputs.from_eigenbasis(self.scales[cluster] * z)
        return self.means[cluster] + noise, cluster


@bounded(label_noise=NON_NEGATIVE, loss_scale=POSITIVE)
class LabelledMixture(AbstractProblem):
    """Examples (x, y): x from a mixture, y the target of its cluster + label noise.

    loss = loss_scale · |y − output|², summed over outputs, averaged over examples. A network
    classifies an input by the target that is nearest to its output: with targets ±1 by the sign,
    with one-hot targets by the largest output.

    Args:
        inputs: the mixture.
        targets: one number per cluster, or rows (clusters, outputs) for several outputs.
        label_noise: standard deviation of the noise on y.
        loss: a loss; None is `SquaredLoss(loss_scale)`.
        loss_scale: factor of the squared error, 1/2 by default.

    Raises:
        ValueError: for targets that fit neither the clusters nor the loss, negative noise,
            and both `loss` and `loss_scale`.

    Example:
        >>> import learndyn as ld
        >>> corners = [[2.0, 0.0], [-2.0, 0.0], [0.0, 2.0], [0.0, -2.0]]
        >>> xor = ld.LabelledMixture(ld.Mixture(corners, ld.Isotropic(500)), [1, 1, -1, -1])
        >>> xor.dim, xor.output_shape
        (500, ())
    """

    inputs: Mixture
    targets: np.ndarray
    label_noise: np.ndarray
    loss: AbstractLoss

    def __init__(
        self,
        inputs: Mixture,
        targets: Any,
        *,
        label_noise: Number = 0.0,
        loss: AbstractLoss | None = None,
        loss_scale: Number | None = None,
    ):
        self.inputs = instance("inputs", inputs, Mixture, "a Mixture")
        targets = finite("targets", numbers("targets", targets))
        if targets.ndim not in (1, 2) or len(targets) != inputs.clusters or not targets.size:
            allowed = f"one number, or one row of outputs, for each of {inputs.clusters} clusters"
            raise ValueError(f"targets: got shape {targets.shape}; allowed is {allowed}")
        self.targets = targets
        self.label_noise = non_negative("label_noise", label_noise)
        self.loss = loss_given(loss, loss_scale)
        self.loss.check_numbers("targets", targets)

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
        return self.targets.shape[1:]

    def sampler(self, teacher: Weights, dtype) -> base.Sampler:
        return self._sampler(dtype, noisy=True)

    def _sampler(self, dtype, noisy: bool) -> base.Sampler:
        inputs = self.inputs.sampler(self.inputs.dim, dtype)
        targets = jnp.asarray(self.targets).astype(dtype)
        noise = jnp.asarray(self.label_noise).astype(dtype)

        def sample(source: Source, shape: tuple[int, ...]) -> tuple[Array, Array]:
            x, cluster = inputs.labelled(source, shape)
            y = targets[cluster]
            error = source.normal(y.shape, dtype, Stream.LABEL_NOISE) if noisy else 0
            return x, y + noise * error

        return sample

    def _measured(self, teacher: Weights, dtype) -> base.Sampler:
        return self._sampler(dtype, noisy=False)

    @property
    def _measured_how(self) -> str:
        return " without label noise"


def _covariances(value: Any, clusters: int) -> Any:
    """A Spectrum, `Commuting`, or matrices that do not commute."""
    if isinstance(value, Spectrum):
        return value
    if isinstance(value, Commuting):
        return _one_each(value, len(value.values), clusters)
    if isinstance(value, list | tuple) and any(isinstance(each, Spectrum) for each in value):
        return _one_each(_of_spectra(value), len(value), clusters)
    array = finite("covariances", numbers("covariances", value))
    square = array.ndim == 2 or (array.ndim == 3 and array.shape[1] == array.shape[2])
    if not square or not array.size:
        allowed = "a Spectrum, a list of spectra, Commuting(…), variances (clusters, N) or "
        allowed += "matrices (clusters, N, N)"
        raise ValueError(f"covariances: got shape {array.shape}; allowed is {allowed}")
    _one_each(array, len(array), clusters)
    if array.ndim == 3:
        _check_matrices(array)
        common = common_eigenbasis(array)
        return array if common is None else Commuting(*_grouped(common[0]), common[1])
    if np.any(array <= 0):
        bad = array[array <= 0][0]
        raise ValueError(f"covariances: got the variance {bad:g}; allowed are positive variances")
    return Commuting(*_grouped(array))


def _one_each(covariances: Any, count: int, clusters: int) -> Any:
    if count != clusters:
        came = f"those of {count} clusters for means of {clusters}"
        raise ValueError(f"covariances: got {came}; allowed is one for each, or a Spectrum")
    return covariances


def _of_spectra(values: Any) -> Commuting:
    allowed = "a Spectrum per cluster"
    spectra = [instance("covariances", each, Spectrum, allowed) for each in values]
    if len({each.dim for each in spectra}) > 1:
        came = f"spectra of dimensions {sorted(each.dim for each in spectra)}"
        raise ValueError(f"covariances: got {came}; allowed is one dimension")
    # Levels begin wherever those of a spectrum begin.
    ends = [np.cumsum(each.counts) for each in spectra]
    edges = np.unique(np.concatenate(ends))
    at = [s.values[np.searchsorted(end, edges)] for s, end in zip(spectra, ends, strict=True)]
    return Commuting(np.stack(at), np.diff(edges, prepend=0))


def _dim(covariances: Any) -> int:
    known = isinstance(covariances, Spectrum | Commuting)
    return int(covariances.counts.sum()) if known else covariances.shape[-1]


def _check_matrices(array: np.ndarray) -> None:
    for c, matrix in enumerate(array):
        if not np.allclose(matrix, matrix.T, rtol=1e-9, atol=1e-12):
            came = f"a matrix of cluster {c} that is not symmetric"
            raise ValueError(f"covariances: got {came}; allowed are symmetric matrices")
        if (lowest := np.linalg.eigvalsh(matrix)[0]) <= 0:
            came = f"a matrix of cluster {c} with the eigenvalue {lowest:.3g}"
            raise ValueError(f"covariances: got {came}; allowed are positive definite matrices")


def _grouped(variances: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Values and counts of runs of coordinates whose variances are the same in every cluster."""
    new = np.any(np.diff(variances, axis=1) != 0, axis=0)
    first = np.concatenate([[0], np.flatnonzero(new) + 1])
    return variances[:, first], np.diff(np.append(first, variances.shape[1]))


def _weights(value: Any, clusters: int) -> np.ndarray:
    weights = finite("weights", numbers("weights", value))
    if weights.shape != (clusters,) or np.any(weights <= 0):
        came = (
            f"shape {weights.shape}" if weights.shape != (clusters,) else "a weight below or at 0"
        )
        raise ValueError(f"weights: got {came}; allowed are {clusters} positive numbers")
    return weights
