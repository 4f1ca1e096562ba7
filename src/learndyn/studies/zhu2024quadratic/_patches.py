"""Two-layer relu networks as sums over blocks of hidden units, whose kernels fit into memory.

f(x) = Σ_k Σ_p a_pk relu(V_k · u_p) over units or channels k and patches u_p of the input. In a
fully connected network all inputs are one patch; in a CNN patches are the windows of the pixels.
No weight belongs to two blocks of k, so that outputs, Taylor twins and tangent kernels are sums
over blocks.
"""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import learndyn as ld
from learndyn.models.taylor import Taylor
from learndyn.networks.base import AbstractNetwork

NUMBERS = 2**23  # the largest arrays of a block, 64 MB in float64
ORDERS = {"f_lin": 1, "f_quad": 2}


class Blocks(AbstractNetwork):
    """A network of patches, (n, patches, inputs of a unit), or its Taylor twin.

    Args:
        V: weights of the first layer at the start, (blocks, inputs of a unit, units).
        a: those of the second, (blocks, patches, units).
        name: "f", or one of its twins around these weights, "f_lin" or "f_quad".
    """

    V: np.ndarray
    a: np.ndarray
    name: str = eqx.field(static=True)

    def __call__(self, weights: Any, x: Any) -> Any:
        block = jax.checkpoint(lambda *of: self._block(*of))  # not the method: it would be hashed
        each = lambda pair: block(*pair, x)
        return jnp.sum(jax.lax.map(each, (weights, (self.V, self.a))), axis=0)

    def gram(self, weights: Any, x: Any) -> Any:
        """J Jᵀ on patches, for probes."""
        slopes = jax.vmap(jax.grad(lambda w, c, u: self._block(w, c, u[None])[0]), (None, None, 0))

        def each(K: Any, pair: Any) -> tuple[Any, None]:
            rows = [part.reshape(len(K), -1) for part in slopes(*pair, jnp.asarray(x))]
            return K + sum(row @ row.T for row in rows), None

        start = jnp.zeros((len(x), len(x)), weights[0].dtype)
        return jax.lax.scan(each, start, (weights, (self.V, self.a)))[0]

    def _block(self, weights: Any, centre: Any, x: Any) -> Any:
        relu = ld.Network(None, _two_layers)
        twin = relu if self.name == "f" else Taylor(relu, centre, ORDERS[self.name])
        return twin(weights, x)

    @property
    def input_shape(self) -> tuple[int, int]:
        return self.a.shape[1], self.V.shape[1]

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Any = None
    ) -> Any:
        """The weights at the start: nothing is drawn."""
        return self.V, self.a


def blocks_of(model: ld.Model, x: Any, numbers: int = NUMBERS) -> tuple[Blocks, np.ndarray]:
    """A network of two layers, an `ld.MLP` or an `ld.CNN` of windows of 3 × 3, and its patches.

    Args:
        model: it has one output, relu, no biases, and the NTK parameterisation.
        x: inputs, (n, d) or (n, height, width, channels).
        numbers: how many the largest arrays of a block may have.

    Returns:
        The network, named "f", and the patches of the inputs.
    """
    convolutional = isinstance(model.network, ld.CNN)
    first, last = (np.asarray(layer.weight, float) for layer in model.weights)
    u = windows(x) if convolutional else np.asarray(x, float)[:, None]
    n, p, d = u.shape
    V = first.reshape(d, -1) if convolutional else first.T
    a, m = last.reshape(p, -1), V.shape[1]
    fits = [c for c in range(1, m + 1) if m % c == 0 and n * max(p, d) * c <= numbers]
    split = lambda w: np.moveaxis(w.reshape(len(w), -1, max(fits, default=1)), 1, 0)
    # Both layers' factors of the NTK parameterisation: relu(s h) = s relu(h) for s > 0.
    return Blocks(split(V), split(a), "f"), u / np.sqrt(d * p * m)


def windows(x: Any) -> np.ndarray:
    """The windows of 3 × 3 pixels of images padded with zeros, (n, pixels, 9 channels)."""
    padded = np.pad(np.asarray(x, float), ((0, 0), (1, 1), (1, 1), (0, 0)))
    views = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(1, 2))
    return np.moveaxis(views, 3, -1).reshape(len(x), x.shape[1] * x.shape[2], -1)


def _two_layers(weights: Any, u: Any) -> Any:
    V, a = weights
    return jnp.einsum("npk,pk->n", jax.nn.relu(u @ V), a)
