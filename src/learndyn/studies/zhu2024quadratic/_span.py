"""Inputs in coordinates of their span: exact for what a first layer learns from them.

Gradients of a fully connected first layer lie in the span of the training inputs. A network on
coordinates in an orthonormal basis of this span has the same outputs, kernels and descent, with
fewer weights; normal weights of it are those of the wide one, projected. What the first layer makes
of the rest of a test input never changes, and is a constant for each unit (`Spanned`).
"""

from typing import Any, cast

import numpy as np

import learndyn as ld
from learndyn.networks.base import AbstractNetwork
from learndyn.networks.parts import affine


def basis_of(x: np.ndarray) -> np.ndarray:
    """An orthonormal basis of the span of inputs (n, d), as columns (d, n): n must not exceed d."""
    return np.linalg.qr(np.asarray(x, float).T)[0]


def coordinates(x: np.ndarray) -> np.ndarray:
    """Inputs (n, d) in coordinates of their span, (n, n); unchanged if n exceeds d.

    They are scaled so that a first layer in the NTK parameterisation, which divides by the root of
    the number of its inputs, gives what it gave.
    """
    n, d = x.shape
    return x if n >= d else np.asarray(x, float) @ basis_of(x) * np.sqrt(n / d)


class Spanned(AbstractNetwork):
    """An MLP without biases on coordinates, to whose first layer constants are added.

    An input is (coordinates, constants of the units of the first layer).

    Args:
        network: the MLP, on coordinates, in the NTK parameterisation.
    """

    network: ld.MLP

    def __call__(self, weights: Any, x: Any) -> Any:
        g, r = affine.function(self.network.activation), weights[0].weight.shape[1]
        h = x[:, :r] @ weights[0].weight.T / np.sqrt(r) + x[:, r:]
        for layer in weights[1:]:
            h = g(h) @ layer.weight.T / np.sqrt(layer.weight.shape[1])
        return h[:, 0]

    @property
    def input_shape(self) -> tuple[int]:
        return (sum(self.network.widths[:2]),)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return ()

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Any = None
    ) -> Any:
        return self.network.sample(rng, self.network.widths[:1])


def in_span(data: ld.Dataset, model: ld.Model) -> tuple[ld.Dataset, ld.Model]:
    """An MLP of one output, and its training and test inputs, in coordinates of the span.

    Args:
        data: fewer training inputs than each has entries; the loss is the mean of r².
        model: the MLP.

    Returns:
        Both, with the same outputs throughout gradient descent, by all examples or by batches.
    """
    x, (first, *rest) = np.asarray(data.x, float), model.weights
    test, labels = cast(tuple[np.ndarray, np.ndarray], data.test)
    (n, d), Q, whole = x.shape, basis_of(x), cast(ld.MLP, model.network)
    W = np.asarray(first.weight, float)
    outside = (test - test @ Q @ Q.T) @ W.T / np.sqrt(d)
    both = lambda x, constant: np.concatenate([x @ Q * np.sqrt(n / d), constant], axis=1)
    z, tested = both(x, np.zeros((n, len(W)))), both(np.asarray(test, float), outside)
    single = lambda x: np.asarray(x, np.float32)
    net = ld.MLP([n, *whole.widths[1:]], whole.activation)
    problem = ld.Dataset(single(z), data.y, loss_scale=1.0, test=(single(tested), labels))
    return problem, ld.Model(Spanned(net), (first._replace(weight=W @ Q), *rest))
