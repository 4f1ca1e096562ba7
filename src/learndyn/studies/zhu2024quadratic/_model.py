"""The thesis's systems: two layers without biases, in the NTK parameterisation, and their twins.

The chapter's text uses the loss ½ Σ r² (`half_sum`), its figures the mean of r² (`mean_square`).
Weights are normal, as in the authors' programs; the text has signs in the second layer. Inputs and
weights come from different random streams of the same key.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.flatten_util
import jax.numpy as jnp
import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.probes.arguments import square
from learndyn.runtime.precision import compiled_in_float64
from learndyn.theory.quadratic_model.catapult import Regime

WEIGHTS = 1  # stream of the weights; inputs have stream 0


def rng_of(key: int, stream: int = 0) -> np.random.Generator:
    """A generator of one of the key's random streams."""
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


def twin(model: ld.Model, name: str) -> Any:
    """A model's network by name: "f" itself, its linear "f_lin" or quadratic twin "f_quad"."""
    if name == "f":
        return model.network
    return ld.linearise(model) if name == "f_lin" else ld.quadratic(model)


def general_model(size: int, gamma: float, seed: int) -> tuple[ld.Dataset, Any, np.ndarray]:
    """One example with target 1, a general quadratic model with signs Σ, and its weights."""
    rng = rng_of(seed)
    network = ld.GeneralQuadratic(rng.choice([-1.0, 1.0], size), gamma=gamma)
    phi = rng.standard_normal(size)
    data = half_sum((phi / np.linalg.norm(phi))[None], [1.0])
    return data, network, rng_of(seed, WEIGHTS).standard_normal(size)


def one_example(key: int, d: int) -> np.ndarray:
    """An input of the squared length d, (1, d), in a random direction.

    Its first entry is positive, so that residuals along a line keep their sign in records.
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
    return float(np.asarray(ld.probes.ntk_spectrum(model, np.asarray(x, float), 1, tolerance=0))[0])


def distance_from(weights: Any) -> Callable[[ld.Model], Any]:
    """A probe: the distance of the weights from those given."""

    def distance(model: ld.Model) -> Any:
        moved = jax.tree.map(lambda now, then: now - jnp.asarray(then), model.weights, weights)
        return jnp.sqrt(square(moved))

    return distance


def stacked(rows: Sequence[xr.Dataset], **dims: Any) -> xr.Dataset:
    """Records of all combinations as one dataset.

    Args:
        rows: one per combination; the last dimension varies fastest.
        dims: name → its coordinates, or their number if it has none.

    Returns:
        The dataset.
    """
    for name, values in reversed(dims.items()):
        bare = isinstance(values, int)
        count, dim = (values, name) if bare else (len(values), xr.Variable(name, list(values)))
        rows = [xr.concat(rows[i : i + count], dim) for i in range(0, len(rows), count)]
    return rows[0]


def regime_of(loss: Any) -> int:
    """The `Regime` of a training, judged by its losses.

    Divergent above 10⁶ times the first loss, or if NaN; otherwise converged at 10⁻³ of it, and
    monotone if it never exceeded the first.
    """
    loss = np.asarray(loss, float)
    first, last = loss[0], loss[-1]
    if not last < 1e6 * first:
        return int(Regime.DIVERGENT)
    if last > 1e-3 * first:
        return int(Regime.UNFINISHED)
    return int(Regime.CATAPULT if np.max(loss) > first else Regime.MONOTONE)


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


@compiled_in_float64
def derivatives(network: AbstractNetwork, weights: Any, x: Any, y: Any) -> tuple[Any, Any]:
    """J and the rows G_i = Σ_j r_j ∇g_j H_i, by derivatives of the network."""
    flat, back = jax.flatten_util.ravel_pytree(weights)
    outputs = lambda w: network(back(w), jnp.asarray(x))
    jacobian = jax.jacrev(outputs)
    slope = jacobian(flat).T @ (outputs(flat) - y)
    return jacobian(flat), jax.jvp(jacobian, (flat,), (slope,))[1]
