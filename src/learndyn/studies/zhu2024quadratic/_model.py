"""The thesis's systems: two layers without biases, in the NTK parameterisation, and their twins.

The chapter's text has the loss ½ Σ r² (`half_sum`), its figures the mean of r² (`mean_square`).
Weights are normal, as in the authors' programs; the text has signs in the second layer. Inputs and
weights come from different streams of one key.
"""

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.probes.examples import square
from learndyn.theory.quadratic_model.catapult import Regime

WEIGHTS = 1  # stream of the weights; inputs have stream 0


def rng_of(key: int, stream: int = 0) -> np.random.Generator:
    """A generator of one of the key's streams."""
    return np.random.default_rng([key, stream])


def half_sum(x: Any, y: Any) -> ld.Dataset:
    """Examples with the loss ½ Σ r²."""
    return ld.Dataset(np.asarray(x, float), np.asarray(y, float), loss_scale=len(x) / 2)


def mean_square(x: Any, y: Any) -> ld.Dataset:
    """Examples with the mean of r² as the loss."""
    return ld.Dataset(np.asarray(x, float), np.asarray(y, float), loss_scale=1.0)


def two_layers(d: int, m: int, key: int, activation: str = "relu") -> ld.Model:
    """A network d-m-1 with normal weights (Eq. 3.9)."""
    network = ld.MLP([d, m, 1], activation)
    return ld.Model(network, network.sample(rng_of(key, WEIGHTS), (d,)))


def one_example(key: int, d: int) -> np.ndarray:
    """An input of the squared length d, (1, d), in a random direction.

    Its first entry is positive: records of residuals along a line have their own sign then.
    """
    x = rng_of(key).standard_normal(d)
    return (x * np.sign(x[0]) * np.sqrt(d) / np.linalg.norm(x))[None]


def on_a_line(key: int, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Inputs (n, 1) and labels of App. B.14: N(±2, 1) by the label ±1."""
    rng = rng_of(key)
    y = rng.choice([-1.0, 1.0], n)
    return (2 * y + rng.standard_normal(n))[:, None], y


def train(
    data: ld.Dataset,
    network: AbstractNetwork,
    weights: Any,
    rate: float,
    times: Any,
    probes: Mapping[str, Any] | None = None,
) -> xr.Dataset:
    """The record of one network under gradient descent, every step on the weights, float64."""
    system = ld.System(data, network, ld.GradientDescent(float(rate)))
    begin = ld.start(system, weights=weights)
    record = ld.simulate(
        system, times, start=begin, method="direct", dtype="float64", probes=probes
    )
    return record.isel(run=0, drop=True)


def top_kernel(model: ld.Model, x: Any) -> float:
    """The largest eigenvalue of the tangent kernel of a model on examples."""
    return float(np.asarray(ld.probes.ntk_spectrum(model, np.asarray(x, float), 1))[0])


def distance_from(weights: Any) -> Callable[[ld.Model], Any]:
    """A probe: the distance of the weights from those given."""

    def distance(model: ld.Model) -> Any:
        moved = jax.tree.map(lambda now, then: now - jnp.asarray(then), model.weights, weights)
        return jnp.sqrt(square(moved))

    return distance


def regime_of(loss: Any) -> int:
    """How training went by its losses: a `Regime`.

    Divergent above 10⁶ times the first loss, or blank; else converged at 10⁻³ of it, and monotone
    where it never exceeded the first.
    """
    loss = np.asarray(loss, float)
    first, last = loss[0], loss[-1]
    if not last < 1e6 * first:
        return int(Regime.DIVERGENT)
    if last > 1e-3 * first:
        return int(Regime.UNFINISHED)
    return int(Regime.CATAPULT if np.max(loss) > first else Regime.MONOTONE)


def slopes(sizes: Any, values: xr.DataArray, over: str) -> xr.DataArray:
    """Exponents of values ∝ size^x, one for each of the other entries, by least squares."""
    log = np.log(np.asarray(sizes, float))
    weight = xr.DataArray((log - log.mean()) / np.sum((log - log.mean()) ** 2), dims=over)
    return (xr.ufuncs.log(values.astype(float)) * weight).sum(over, skipna=False)


def outputs(model: ld.Model, x: Any) -> np.ndarray:
    """A model's outputs, float64."""
    with jax.enable_x64(True):
        return np.asarray(model.network(model.weights, jnp.asarray(x, jnp.float64)))


def kernel_along(x: Any, p: Any) -> Callable[[ld.Model], Any]:
    """A probe: p̂ᵀ K p̂ = |Jᵀ p̂|² along the rows of p, by derivatives of the network."""
    x, p = np.asarray(x, float), np.asarray(p, float)

    def along(model: ld.Model) -> Any:
        _, pull = jax.vjp(lambda w: model.network(w, jnp.asarray(x)), model.weights)
        return jnp.stack([square(pull(jnp.asarray(row))[0]) for row in p])

    return along


def gram(model: ld.Model, x: Any) -> Any:
    """J Jᵀ of a model on inputs, for probes: by rows of the Jacobian."""
    flat, back = jax.flatten_util.ravel_pytree(model.weights)
    J = jax.jacrev(lambda w: model.network(back(w), jnp.asarray(x)))(flat)
    return J @ J.T
