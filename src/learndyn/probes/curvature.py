"""The Hessian of the loss and of the outputs with respect to the weights, by its products."""

from typing import Any, NamedTuple

import equinox as eqx
import numpy as np

from learndyn.networks import as_model
from learndyn.numerics import dense
from learndyn.numerics.checks import non_negative, positive_int, seed
from learndyn.numerics.lanczos import formed, spectral_norm, top_eigen, tridiagonals
from learndyn.numerics.types import Array, Number
from learndyn.probes.examples import Given, checked_inputs, is_traced, part_of
from learndyn.probes.hessian import at_kinks, convention_of, formed_hessian, labelled, operator_of
from learndyn.problems import AbstractLoss


class HessianTop(NamedTuple):
    """The largest eigenvalues of a Hessian.

    Attributes:
        values: descending, (k,).
        vectors: as columns, (weights, k), in the order of `ravel_pytree(model.weights)`.
        convention: which Hessian it is, and what counts at kinks of the network.
    """

    values: Array
    vectors: Array
    convention: str


class Trace(NamedTuple):
    """A trace.

    Attributes:
        value: the trace, or the mean over draws.
        error: its standard error; 0 where it is exact.
        convention: which Hessian it is, and what counts at kinks of the network.
    """

    value: float
    error: float
    convention: str


class SpectralDensity(NamedTuple):
    """A density of eigenvalues as point masses, one quadrature rule a draw.

    Attributes:
        values: Ritz values, (draws, steps).
        masses: their shares, (draws, steps), which sum to 1 in every draw.
        convention: which Hessian it is, and what counts at kinks of the network.
    """

    values: np.ndarray
    masses: np.ndarray
    convention: str

    def moment(self, power: int) -> float:
        """The mean of eigenvalue^power; the trace over the number of weights for 1."""
        return float(np.mean(np.sum(self.masses * self.values**power, axis=1)))

    def at(self, points: Array, width: Number) -> np.ndarray:
        """The density at points, each mass a normal density of standard deviation `width`."""
        z = (np.asarray(points, np.float64)[:, None] - self.values.ravel()) / float(width)
        bumps = np.exp(-(z**2) / 2) / (np.sqrt(2 * np.pi) * float(width))
        return bumps @ self.masses.ravel() / len(self.values)


class _Output(eqx.Module):
    """One output of the only example."""

    index: Array

    def __call__(self, outputs: Array) -> Array:
        return outputs.reshape(-1)[self.index]


class OutputHessianNorm(NamedTuple):
    """Spectral norms of the Hessians of outputs around given weights.

    Attributes:
        largest: over all points, examples and outputs: a lower bound of the supremum in the ball.
        values: (points, examples, outputs); the first point is the centre.
        convention: what counts at kinks of the network.
    """

    largest: float
    values: np.ndarray
    convention: str


def hessian_top(
    model: Any,
    x: Given,
    y: Given,
    *,
    loss: AbstractLoss | None = None,
    k: int = 1,
    tolerance: Number = 0.0,
) -> HessianTop:
    """The k largest eigenvalues of the Hessian of the mean loss, with their vectors.

    By ARPACK's Lanczos; inside `simulate`, for up to 2048 weights, of the Hessian itself.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        k: how many.
        tolerance: relative, of eigenvalues; 0 is machine precision.

    Returns:
        Values (descending), vectors, and the convention.
    """
    tolerance = float(non_negative("tolerance", tolerance))
    model, x, mean = labelled(model, x, y, loss)
    k, said = part_of("k", k, model.size, "weights"), convention_of(model, x, mean)
    if is_traced(model, x, mean):
        values, vectors = dense.eigh(formed_hessian(model, x, mean))
        return HessianTop(values[::-1][:k], vectors[:, ::-1][:, :k], said)
    return HessianTop(*top_eigen(operator_of(model, x, mean), k, tolerance), said)


def hessian_trace(
    model: Any,
    x: Given,
    y: Given,
    *,
    loss: AbstractLoss | None = None,
    draws: int | None = 100,
    key: int = 0,
) -> Trace:
    """The trace of the Hessian of the mean loss, by random signs (Hutchinson's estimator).

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        draws: vectors of random signs, at least 2; None is the exact trace, by one product a
            weight.
        key: seed.

    Returns:
        The trace and its standard error.
    """
    model, x, mean = labelled(model, x, y, loss)
    operator, said = operator_of(model, x, mean), convention_of(model, x, mean)
    if draws is None:
        return Trace(float(np.trace(formed(operator))), 0.0, said)
    if positive_int("draws", draws) < 2:
        raise ValueError(f"draws: got {draws}; allowed are at least 2, or None")
    rng = np.random.default_rng(seed("key", key))
    signs = (_signs(rng, model) for _ in range(draws))
    found = np.array([float(v @ operator.matvec(v)) for v in signs])
    return Trace(float(found.mean()), float(found.std(ddof=1) / np.sqrt(draws)), said)


def spectral_density(
    model: Any,
    x: Given,
    y: Given,
    *,
    loss: AbstractLoss | None = None,
    draws: int = 10,
    steps: int = 80,
    key: int = 0,
) -> SpectralDensity:
    """The density of eigenvalues of the Hessian of the mean loss, by stochastic Lanczos.

    Each draw v, of random signs, gives the Gauss quadrature of its own spectral measure, exact
    for vᵀ H^j v/|v|² up to j = 2 · steps − 1; their mean over draws is tr H^j/p. It holds
    `steps` vectors of weights.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        y: targets or labels.
        loss: None is `SquaredLoss(0.5)`.
        draws: number of start vectors.
        steps: products for each, cut to the number of weights.
        key: seed.

    Returns:
        Point masses; `at` makes a curve of them.
    """
    draws, steps = positive_int("draws", draws), positive_int("steps", steps)
    model, x, mean = labelled(model, x, y, loss)
    rng, operator = np.random.default_rng(seed("key", key)), operator_of(model, x, mean)
    values, masses = np.zeros((2, draws, min(steps, model.size)))
    for i in range(draws):
        *_, last = tridiagonals(operator.matvec, _signs(rng, model), steps)
        found, vectors = last.eigen()  # fewer where the Krylov space is exhausted
        values[i, : len(found)], masses[i, : len(found)] = found, vectors[0] ** 2
    return SpectralDensity(values, masses, convention_of(model, x, mean))


def output_hessian_norm(
    model: Any, x: Given, *, radius: Number = 0.0, draws: int = 1, key: int = 0
) -> OutputHessianNorm:
    """The norm of ∂²f_a(x_i)/∂w² at the weights, and on a sphere around them.

    Args:
        model: a network with its weights, or a module of equinox or PyTorch.
        x: inputs, (n, …).
        radius: R; 0 for the weights alone.
        draws: points of the sphere |w − w_0| = R, drawn at random. Their largest norm bounds the
            supremum over the ball from below.
        key: seed.

    Returns:
        The norms.
    """
    radius, draws = float(non_negative("radius", radius)), positive_int("draws", draws)
    model, x = as_model(model).placed(), checked_inputs("x", x)
    points, rng = [model], np.random.default_rng(seed("key", key))
    for _ in range(draws if radius else 0):
        v = rng.standard_normal(model.size)
        points.append(model.moved(radius * v / np.linalg.norm(v)).placed())
    k = model.outputs_each(x)
    norm = lambda m, i, a: spectral_norm(operator_of(m, x[i : i + 1], _Output(np.asarray(a))))
    norms = [[[norm(m, i, a) for a in range(k)] for i in range(len(x))] for m in points]
    values = np.array(norms)
    said = at_kinks(model, x) or "second derivatives of the outputs"
    return OutputHessianNorm(float(values.max()), values, said)


def _signs(rng: np.random.Generator, model: Any) -> np.ndarray:
    return (2.0 * rng.integers(2, size=model.size) - 1).astype(model.dtype)
