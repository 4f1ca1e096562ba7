"""Taylor twins: a network's expansion in its weights, itself a network."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.core
import jax.numpy as jnp
import numpy as np

from learndyn.models.model import Model
from learndyn.models.module import as_model
from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.runtime.checks import finite, instance, one_of
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array, Weights
from learndyn.runtime.values import frozen
from learndyn.tangent.taps import revisit


class Taylor(AbstractNetwork):
    """f(c) + f'(c) d, with ½ f''(c)[d, d] at order 2, d = weights − c.

    These are f_lin and f_quad, Eqs. 3.1 and 3.2 of zhu2024quadratic. Derivatives along d are
    computed by forward mode; no Hessian is formed. At a kink they are those of JAX: relu has
    g'(0) = g'' = 0, so that each unit stays on or off as it is at c.

    The twin has no nodes. A truncated series of outputs is not a function of the truncated series
    of pre-activations, so that noise at nodes would train another model; rules that need nodes
    refuse the twin. To expand a node, take the twin of a network that returns this node.

    Args:
        network: f.
        centre: the weights c, any pytree, which are also the initial weights of the twin; stored
            as a tuple of its arrays.
        order: 1 or 2.
    """

    network: AbstractNetwork
    centre: tuple[Array, ...]
    order: int = eqx.field(static=True)
    structure: Any = eqx.field(init=False, static=True)

    def __init__(self, network: Any, centre: Weights, order: int):
        self.network = instance("network", network, AbstractNetwork, "a network")
        leaves, self.structure = jax.tree.flatten(eqx.filter(centre, eqx.is_inexact_array))
        # Values of traced arrays are not known, and cannot be checked.
        known = lambda w: finite("centre", frozen(np.asarray(w)))
        self.centre = tuple(w if isinstance(w, jax.core.Tracer) else known(w) for w in leaves)
        self.order = one_of("order", order, (1, 2))
        if not leaves:
            raise ValueError("centre: got no arrays of floats; allowed are a network's weights")

    def __call__(self, weights: Weights, x: Array) -> Array:
        arrays, rest = eqx.partition(weights, eqx.is_inexact_array)
        leaves, structure = jax.tree.flatten(arrays)
        plain = revisit(self.network, lambda name, h: h)  # without nodes
        whole = lambda leaves: eqx.combine(jax.tree.unflatten(structure, leaves), rest)
        centre = [jnp.asarray(c, jnp.result_type(w)) for c, w in self._pairs(leaves)]
        step = [w - c for w, c in zip(leaves, centre, strict=True)]
        return _series(lambda w: plain(whole(w), x), centre, step, self.order)

    def _pairs(self, leaves: list[Array]) -> list[tuple[Array, Array]]:
        came, allowed = ([np.shape(w) for w in each] for each in (leaves, self.centre))
        if came != allowed:
            raise ValueError(f"weights: got shapes {came}; allowed is {allowed}")
        return list(zip(self.centre, leaves, strict=True))

    @property
    def input_shape(self) -> Shape | None:
        return self.network.input_shape

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        narrow = lambda w: jax.ShapeDtypeStruct(w.shape, jnp.float32)
        weights = jax.tree.map(narrow, self._structured(input_shape))
        example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        with full_precision():  # as in `Network.output_shape`
            return tuple(jax.eval_shape(self.network, weights, example).shape[1:])

    @property
    def gives_logits(self) -> bool:
        return True  # a polynomial is unbounded, whatever the network's output map

    @property
    def accepts_single_example(self) -> bool:
        return self.network.accepts_single_example

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        self.network.check_input(input_shape)

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        """The centre: nothing is drawn."""
        return self._structured(input_shape)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        struct = lambda w: jax.ShapeDtypeStruct(np.shape(w), np.float64)
        return jax.tree.map(struct, self._structured(input_shape))

    def affine_form(self, input_shape: tuple[int, ...]) -> tuple[AbstractNetwork, Weights] | None:
        return (self.network, self._structured(input_shape)) if self.order == 1 else None

    def dim_of(self, weights: Weights) -> int:
        return self.network.dim_of(weights)

    def _structured(self, input_shape: tuple[int, ...]) -> Weights:
        """The centre in the network's pytree structure, which is not stored in JSON."""
        like = self.network.like(input_shape)
        structure = self.structure if like is None else jax.tree.structure(like)
        return jax.tree.unflatten(structure, self.centre)


def linearise(model: Any) -> Taylor:
    """The linear twin of a model: its first-order expansion around its weights.

    Args:
        model: a `Model`, or an equinox module that takes one example.

    Returns:
        A network with the same weights. At `model.weights` it has the model's outputs, gradients
        and tangent kernel; its kernel is the same at all weights.

    Raises:
        ValueError: for anything but a model.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> weights = (np.array([[2.0]]), np.array([[3.0]]))
        >>> twin = ld.linearise(ld.Model(ld.DeepLinear([1, 1, 1]), weights))
        >>> moved = (np.array([[2.1]]), np.array([[3.1]]))
        >>> round(float(np.ravel(twin(moved, np.array([[1.0]])))[0]), 4)  # 6 + 0.2 + 0.3
        6.5
    """
    return _twin(model, 1)


def quadratic(model: Any) -> Taylor:
    """The quadratic twin of a model: its second-order expansion around its weights.

    Args:
        model: a `Model`, or an equinox module that takes one example.

    Returns:
        A network with the same weights.

    Raises:
        ValueError: for anything but a model.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.MLP([3, 8, 1], "relu")
        >>> model = ld.Model(network, network.sample(np.random.default_rng(0), (3,)))
        >>> system = ld.System(
        ...     ld.Dataset(np.eye(3), np.ones(3)), ld.quadratic(model), ld.GradientDescent(0.1)
        ... )
        >>> begin = ld.start(system, weights=model.weights)
    """
    return _twin(model, 2)


def _twin(model: Any, order: int) -> Taylor:
    allowed = "a Model(network, weights) or an equinox module"
    checked = instance("model", as_model(model), Model, allowed)
    return Taylor(checked.network, checked.weights, order)


def _series(f: Callable[[Any], Array], centre: Any, step: Any, order: int) -> Array:
    """f(c) + f'(c) d, and ½ f''(c)[d, d] at order 2."""
    along = lambda w: jax.jvp(f, (w,), (step,))
    if order == 1:
        value, slope = along(centre)
        return value + slope
    (value, slope), (_, curvature) = jax.jvp(along, (centre,), (step,))
    return value + slope + curvature / 2
