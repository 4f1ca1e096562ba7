"""Hessians of the loss and of the outputs by the weights, from products with vectors."""

import dataclasses
import math
from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from learndyn.models import as_model
from learndyn.numerics import dense
from learndyn.numerics.lanczos import eigen, outermost, spectral_norm, tridiagonal
from learndyn.numerics.vectors import as_numpy
from learndyn.probes.arguments import (
    ArrayLike,
    LossLike,
    checked_inputs,
    is_traced,
    known,
    output_shape,
    part_of,
)
from learndyn.probes.batches import progressing
from learndyn.probes.hessian import (
    at_kinks,
    convention_of,
    formed_hessian,
    most_products,
    operator_of,
    prepared,
    product_of,
    start_of,
)
from learndyn.runtime.checks import (
    integer,
    non_negative,
    numbers,
    one_of,
    positive,
    positive_int,
    seed,
)
from learndyn.runtime.types import Array, Number

ENDS = ("largest", "smallest", "both")


@dataclasses.dataclass(frozen=True)
class HessianTop:
    """The outermost eigenvalues of a Hessian.

    Attributes:
        values: descending, (k,).
        residuals: |H v − λ v| of each: an eigenvalue is within this distance of λ.
        on_device: vectors as rows, (k, weights), an array of the model's library on its device.
        convention: the Hessian in words, and how kinks of the network are treated.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> top = ld.hessian_top(model, x, y, k=2)
        >>> top.values.round(6).tolist(), top.vectors.shape
        ([8.0, 2.0], (2, 2))
    """

    values: Array
    residuals: Array
    on_device: Any
    convention: str

    @property
    def vectors(self) -> Array:
        """Vectors as columns, (weights, k), in the order of `ravel_pytree(model.weights)`."""
        rows = self.on_device
        return rows.T if is_traced(rows) else as_numpy(rows).T


class Trace(NamedTuple):
    """The trace of a Hessian, exact or estimated.

    Attributes:
        value: the trace, or the mean over draws.
        error: its standard error; 0 where it is exact.
        convention: the Hessian in words, and how kinks of the network are treated.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> trace = ld.probes.hessian_trace(model, x, y, draws=None)
        >>> round(trace.value, 6), trace.error
        (10.0, 0.0)
    """

    value: float
    error: float
    convention: str


class SpectralDensity(NamedTuple):
    """A density of eigenvalues as point masses, one quadrature rule per draw.

    Attributes:
        values: Ritz values, (draws, steps).
        masses: their weights, (draws, steps), which sum to 1 in every draw.
        convention: the Hessian in words, and how kinks of the network are treated.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> density = ld.spectral_density(model, x, y, draws=2, steps=2)
        >>> grid = np.linspace(-5.0, 15.0, 201)
        >>> curve = density.at(grid, width=0.5)
        >>> round(float(curve.sum() * (grid[1] - grid[0])), 3)
        1.0
    """

    values: np.ndarray
    masses: np.ndarray
    convention: str

    def moment(self, power: int) -> float:
        """The mean of eigenvalue^power; power 1 is the trace over the number of weights.

        Args:
            power: an integer.

        Returns:
            The mean over eigenvalues and draws.

        Raises:
            ValueError: for a power that is no integer.
        """
        power = integer("power", power)
        return float(np.mean(np.sum(self.masses * self.values**power, axis=1)))

    def at(self, points: Array, width: Number) -> np.ndarray:
        """The density, with each mass spread to a normal density.

        Args:
            points: eigenvalues, in one row.
            width: standard deviation of the normal density.

        Returns:
            The density at the points, the mean over draws.

        Raises:
            ValueError: for points that are not numbers in one row, or a width that is not positive.
        """
        wide, row = float(positive("width", width)), numbers("points", points, 1)
        z = (row[:, None] - self.values.ravel()) / wide
        bumps = np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * wide)
        return bumps @ self.masses.ravel() / len(self.values)


class _Output(eqx.Module):
    """One output of the only example."""

    index: Array

    def __call__(self, outputs: Array) -> Array:
        return outputs.reshape(-1)[self.index]


class OutputHessianNorm(NamedTuple):
    """Spectral norms of the outputs' Hessians at the weights and around them.

    Attributes:
        largest: the maximum over all points, examples and outputs: a lower bound of the supremum in
            the ball.
        values: (points, examples, outputs); the first point is the centre.
        convention: how kinks of the network are treated.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: (x @ w) ** 2)
        >>> model, x = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0])
        >>> norms = ld.probes.output_hessian_norm(model, x)
        >>> norms.values.round(6).tolist(), round(float(norms.largest), 6)
        ([[[8.0], [32.0]]], 32.0)
    """

    largest: float
    values: np.ndarray
    convention: str


def hessian_top(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    k: int = 1,
    which: str = "largest",
    tolerance: Number = 1e-3,
    basis: int | None = None,
    progress: Any = False,
) -> HessianTop:
    """The k outermost eigenvalues of the Hessian of the mean loss, with their vectors.

    They come from Lanczos iteration on the model's device, restarted when its basis is full. Inside
    `simulate`, and for up to 64 weights, the Hessian itself is formed; for up to 2048 weights in
    the first case.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        k: number of eigenvalues.
        which: "largest", "smallest", or "both": k at each end.
        tolerance: relative tolerance of eigenvalues; 0 is machine precision.
        basis: number of vectors of weights that are held at most; None for 2 k + 18 (4 k + 18 for
            both ends), or fewer if less memory is free.
        progress: whether to show progress, or a function of the fraction done.

    Returns:
        Values (descending), residuals, vectors, and the convention. If the tolerance is not
        reached, as for an eigenvalue near 0, the iteration ends after 300 products, or 20 per
        eigenvalue.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> top = ld.hessian_top(model, np.eye(4), np.zeros(4))
        >>> top.values.round(6).tolist()
        [0.0625]
    """
    tolerance, which = float(non_negative("tolerance", tolerance)), one_of("which", which, ENDS)
    basis = None if basis is None else positive_int("basis", basis)
    model, x, mean = prepared(model, x, y, loss)
    k, convention = part_of("k", k, model.size, "weights"), convention_of(model, x, mean)
    if is_traced(model, x, mean):
        values, vectors = dense.eigh(formed_hessian(model, x, mean))
        outer = outermost(np.zeros(model.size), which, k)
        return HessianTop(values[outer], np.zeros(len(outer)), vectors[:, outer].T, convention)
    sought, product = 2 * k if which == "both" else k, product_of(model, x, mean)
    with progressing(product, x, progress, "Hessian", most_products(model, sought)) as product:
        found = eigen(
            product, start_of(model, sought), k, which=which, tolerance=tolerance, basis=basis
        )  # fmt: skip
    values = known(model, "Hessian", found.values.astype(model.dtype))
    return HessianTop(values, found.residuals, found.vectors, convention)


def hessian_trace(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    draws: int | None = 100,
    key: int = 0,
    progress: Any = False,
) -> Trace:
    """The trace of the Hessian of the mean loss, by random signs (Hutchinson's estimator).

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        draws: number of vectors of random signs, at least 2; None gives the exact trace, by one
            product per weight.
        key: seed.
        progress: whether to show progress, or a function of the fraction done.

    Returns:
        The trace and its standard error.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> trace = ld.probes.hessian_trace(model, x, y, draws=10)  # H is diagonal
        >>> round(trace.value, 6), round(trace.error, 6)
        (10.0, 0.0)
    """
    model, x, mean = prepared(model, x, y, loss)
    operator, convention = operator_of(model, x, mean), convention_of(model, x, mean)
    products = model.size if draws is None else positive_int("draws", draws)
    if products < 2 and draws is not None:
        raise ValueError(f"draws: got {draws}; allowed is 2 or more, or None")
    rng = np.random.default_rng(seed("key", key))
    with progressing(operator.matvec, x, progress, "trace", products) as product:
        if draws is None:
            units = (unit for unit in np.eye(model.size, dtype=model.dtype))
            exact = sum(float(product(unit)[i]) for i, unit in enumerate(units))
            return Trace(exact, 0.0, convention)
        signs = (_signs(rng, model) for _ in range(products))
        samples = np.array([float(v @ product(v)) for v in signs])
    return Trace(float(samples.mean()), float(samples.std(ddof=1) / np.sqrt(products)), convention)


def spectral_density(
    model: Any,
    x: ArrayLike,
    y: ArrayLike | None = None,
    *,
    loss: LossLike = None,
    draws: int = 10,
    steps: int = 80,
    key: int = 0,
    progress: Any = False,
) -> SpectralDensity:
    """The density of eigenvalues of the Hessian of the mean loss, by stochastic Lanczos.

    Each draw v of random signs gives a Gauss quadrature of its spectral measure, exact for
    vᵀ H^j v/|v|² up to j = 2 · steps − 1, whose mean over draws is tr H^j/p. This needs memory for
    `steps` vectors of weights.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …), or batches of examples: a DataLoader, another iterable of pairs (x, y),
            or a function that returns one; y is None then.
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`; also your own, see docs/formats.md.
        draws: number of start vectors.
        steps: products per start vector, at most the number of weights.
        key: seed.
        progress: whether to show progress, or a function of the fraction done.

    Returns:
        Point masses; `at` turns them into a curve.

    Raises:
        ValueError: for a model, inputs or targets that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> density = ld.spectral_density(model, x, y, draws=2, steps=2)
        >>> density.values.round(6).tolist()
        [[2.0, 8.0], [2.0, 8.0]]
    """
    draws, steps = positive_int("draws", draws), positive_int("steps", steps)
    model, x, mean = prepared(model, x, y, loss)
    rng, product = np.random.default_rng(seed("key", key)), product_of(model, x, mean)
    steps = min(steps, model.size)
    values, masses = np.zeros((2, draws, steps))
    with progressing(product, x, progress, "density", draws * steps) as product:
        for i in range(draws):
            last = tridiagonal(product, model.on_device(_signs(rng, model)), steps)
            known(model, "Hessian", last.diagonal)
            ritz, vectors = last.eigen()  # fewer if the Krylov space is exhausted
            values[i, : len(ritz)], masses[i, : len(ritz)] = ritz, vectors[0] ** 2
    return SpectralDensity(values, masses, convention_of(model, x, mean))


def output_hessian_norm(
    model: Any,
    x: ArrayLike,
    *,
    radius: Number = 0.0,
    draws: int = 1,
    tolerance: Number = 0.0,
    key: int = 0,
) -> OutputHessianNorm:
    """The norm of ∂²f_a(x_i)/∂w² at the weights, and on a sphere around them.

    Args:
        model: a `Model`, or an equinox or PyTorch module.
        x: inputs, (n, …).
        radius: R; 0 for the weights only.
        draws: number of random points on the sphere |w − w_0| = R. Their largest norm is a lower
            bound of the supremum over the ball.
        tolerance: relative tolerance of the norms; 0 is machine precision.
        key: seed.

    Returns:
        The norms.

    Raises:
        ValueError: for a model and inputs that do not fit together.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(None, lambda w, x: (x @ w) ** 2)
        >>> model, x = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0])
        >>> round(float(ld.probes.output_hessian_norm(model, x, radius=1.0, draws=2).largest), 6)
        32.0
    """
    radius, draws = float(non_negative("radius", radius)), positive_int("draws", draws)
    tolerance = float(non_negative("tolerance", tolerance))
    model, x = as_model(model).placed(), checked_inputs("x", x)
    points, rng = [model], np.random.default_rng(seed("key", key))
    for _ in range(draws if radius else 0):
        v = rng.standard_normal(model.size)
        # A normalised Gaussian vector is uniform on the sphere.
        points.append(model.moved(radius * v / np.linalg.norm(v)).placed())
    k = math.prod(output_shape(model, x))
    of = lambda m, i, a: product_of(m, x[i : i + 1], _Output(np.asarray(a)))
    norm = lambda m, i, a: spectral_norm(of(m, i, a), start_of(m), tolerance)
    norms = [[[norm(m, i, a) for a in range(k)] for i in range(len(x))] for m in points]
    values = known(model, "Hessian", np.array(norms))
    convention = at_kinks(model, x) or "second derivatives of the outputs"
    return OutputHessianNorm(float(values.max()), values, convention)


def _signs(rng: np.random.Generator, model: Any) -> np.ndarray:
    return (2.0 * rng.integers(2, size=model.size) - 1).astype(model.dtype)
