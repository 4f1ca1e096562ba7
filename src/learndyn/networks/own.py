"""Your own function as a network."""

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape, check_learns
from learndyn.runtime.checks import flag, function, widths
from learndyn.runtime.precision import full_precision
from learndyn.runtime.types import Array, Weights


class Network(AbstractNetwork):
    """Any JAX function apply(weights, x) of weights and a batch of inputs x.

    Weights are any pytree, for example an equinox module: leaves that are not arrays (functions,
    sizes) are set aside and put back for `apply`. All arrays are trained: running statistics and
    other fixed arrays belong in `apply`, which may close over them.

    Args:
        init: key → weights, with a `jax.random` key; None if you always give the weights yourself.
        apply: (weights, x) → outputs, (batch, …); scalars are (batch,).
        shape: of one input; None for any shape.
        linear: whether outputs are linear in the weights, up to a constant; the theory of such
            networks then covers it (it checks that this is true).

    Raises:
        ValueError: for an `init` or `apply` that is not a function, and for a shape with
            negative numbers.

    Example:
        >>> import equinox as eqx, jax
        >>> import learndyn as ld
        >>> init = lambda key: eqx.nn.MLP(8, "scalar", 32, 2, key=key)
        >>> network = ld.Network(init, lambda module, x: jax.vmap(module)(x))
        >>> network.output_shape((8,))
        ()

        Statistics that are not trained, as flax keeps them beside the parameters:

        >>> variables = {"params": {"w": jax.numpy.ones(3)}, "batch_stats": {"mean": 1.0}}
        >>> def apply(params, x):
        ...     return (x - variables["batch_stats"]["mean"]) @ params["w"]
        >>> model = ld.Model(ld.Network(None, apply), variables["params"])
        >>> model.size
        3
    """

    init: Callable[[Any], Any] | None = eqx.field(static=True)
    apply: Callable[[Any, Any], Any] = eqx.field(static=True)
    shape: tuple[int, ...] | None = eqx.field(static=True)
    linear: bool = eqx.field(static=True)

    unwritten: ClassVar[dict[str, Any]] = {"linear": False}

    def __init__(
        self,
        init: Any,
        apply: Any,
        *,
        shape: Sequence[int] | None = None,
        linear: bool = False,
    ):
        self.init = None if init is None else function("init", init)
        self.apply = function("apply", apply)
        self.shape = None if shape is None else widths("shape", shape, least=0)
        self.linear = flag("linear", linear)

    @property
    def input_shape(self) -> Shape | None:
        return self.shape

    def __call__(self, weights: Weights, x: Any) -> Array:
        return self.apply(self._whole(weights), x)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        like = self.like(input_shape)
        if like is None:
            raise ValueError("init: got None; allowed here is a function key → weights")
        example = jax.ShapeDtypeStruct((1, *input_shape), dtype)
        narrow = jax.tree.map(lambda w: jax.ShapeDtypeStruct(w.shape, jnp.float32), like)
        # JAX keeps the arrays that `apply` closes over as it first converts them, and without
        # float64 it would round them for good.
        with full_precision():
            return tuple(jax.eval_shape(self, narrow, example).shape[1:])

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        """The weights from `init`, for a key drawn from `rng`."""
        if self.init is None:
            raise ValueError("init: got None; allowed here is a function key → weights")
        # NumPy's generator seeds that of JAX, so that the run's key determines these weights too.
        key = jax.random.key(int(rng.integers(2**31)))
        arrays = eqx.filter(self.init(key), eqx.is_array)
        check_learns(arrays, "init")
        _refuse_integers(arrays)
        return jax.tree.map(np.asarray, arrays)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        return None if self.init is None else eqx.filter(self._abstract(), _is_struct)

    def affine_form(self, input_shape: tuple[int, ...]) -> tuple[AbstractNetwork, Weights] | None:
        like = self.like(input_shape)
        if not self.linear or like is None:
            return None
        return self, jax.tree.map(lambda w: np.zeros(w.shape), like)

    def _abstract(self) -> Any:
        """The result of `init`, with shapes in place of arrays."""
        assert self.init is not None
        return eqx.filter_eval_shape(self.init, jax.random.key(0))

    def _whole(self, weights: Weights) -> Any:
        if self.init is None:
            return weights
        # Functions and sizes are not carried along with the weights: `init` gives them again.
        return eqx.combine(weights, eqx.filter(self._abstract(), _is_struct, inverse=True))


def _is_struct(leaf: Any) -> bool:
    return isinstance(leaf, jax.ShapeDtypeStruct)


def _refuse_integers(arrays: Any) -> None:
    for leaf in jax.tree.leaves(arrays):
        if not jnp.issubdtype(leaf.dtype, jnp.floating):
            raise ValueError(
                f"init: got weights of type {leaf.dtype}; allowed are floats "
                "(arrays that are not trained belong in `apply`)"
            )
