"""A function with its weights."""

import math
from collections.abc import Callable, Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.flatten_util import ravel_pytree

from learndyn.models.dense_layers import no_dense_layers
from learndyn.models.inputs import Inputs, apart, shapes_of
from learndyn.models.probeable import Loss
from learndyn.networks.base import AbstractNetwork, check_learns
from learndyn.networks.parts.dense_layers import DenseLayers
from learndyn.runtime.checks import a_kind, instance, shown
from learndyn.runtime.jaxprs import called
from learndyn.runtime.precision import (
    compiled_in_float64,
    compiled_on_device,
    full_precision,
    in_float64,
    usual_settings,
)
from learndyn.runtime.types import Array, Weights
from learndyn.runtime.values import frozen
from learndyn.tangent.kernel import kernel

# Operations and functions whose slopes jump, by their names in a jaxpr.
_KINKED = {"max", "min", "abs", "clamp", "reduce_window_max"}
_KINKED_FUNCTIONS = {"relu", "relu6", "leaky_relu", "hard_tanh", "hard_sigmoid"}
_SMOOTH_FUNCTIONS = {"logaddexp", "logaddexp2", "celu", "soft_sign"}  # made of kinked operations
# Operations that keep a positive number positive.
_SAME_SIGN = {"reduce_sum", "broadcast_in_dim", "reshape", "convert_element_type", "stop_gradient"}


class Model(eqx.Module):
    """A network at given weights, which is what probes measure (see `Probeable`).

    Args:
        network: the function.
        weights: its weights; writeable NumPy arrays are copied.

    Raises:
        ValueError: for what is not a network, and for weights that are not arrays of real
            numbers.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> float(model(np.ones((3, 4)))[0])
        2.0
    """

    network: AbstractNetwork
    weights: Weights

    def __init__(self, network: AbstractNetwork, weights: Weights):
        self.network = instance("network", network, AbstractNetwork, "a network such as MLP")
        check_learns(weights)
        for leaf in jax.tree.leaves(weights):
            if not (callable(leaf) or isinstance(leaf, bool) or _is_real(leaf)):
                raise ValueError(f"weights: got {a_kind(leaf)}; allowed are arrays of real numbers")
        of_numpy = lambda leaf: isinstance(leaf, np.ndarray)
        self.weights = jax.tree.map(lambda w: frozen(w) if of_numpy(w) else w, weights)

    def __call__(self, x: Any) -> Any:
        try:
            with usual_settings():
                return self.network(self.weights, x)
        except Exception as error:  # if the weights are those of another network, say so instead
            self._check_weights(x, str(error))
            raise

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.weights))

    @property
    def dtype(self) -> Any:
        return jax.tree.leaves(self.weights)[0].dtype

    def placed(self) -> "Model":
        with full_precision():
            return Model(self.network, jax.tree.map(jnp.asarray, self.weights))

    def held(self, x: Any) -> Any:
        with full_precision():
            return jax.tree.map(jnp.asarray, x)

    def on_device(self, v: Array) -> Array:
        with full_precision():
            return jnp.asarray(v, self.dtype)

    def outputs_each(self, x: Any) -> int:
        self._check_weights(x)
        try:
            output = _shape_of(self, x)
        except Exception as error:  # a user's function may raise anything
            why = str(error).strip().partition("\n")[0]
            self._check_weights(x, why)
            raise ValueError(
                f"x: got {shapes_of(x)}, for which the model fails ({why}); allowed is "
                "(examples, …) of inputs that it takes"
            ) from None
        if not isinstance(output, jax.ShapeDtypeStruct):
            came = f"{a_kind(output)} of {len(jax.tree.leaves(output))}"
            raise ValueError(f"outputs: got {came}; allowed is one array, (examples, …)")
        if output.shape[:1] != (1,):
            came = f"shape {output.shape} for one example"
            raise ValueError(f"outputs: got {came}; allowed is (examples, …)")
        if not jnp.issubdtype(output.dtype, jnp.floating):
            raise ValueError(
                f"outputs: got {output.dtype}; allowed are floats, which can be differentiated"
            )
        return math.prod(output.shape[1:])

    def kinks(self, x: Any) -> list[str]:
        with full_precision():
            arrays, rest = eqx.partition(self, eqx.is_array)
            jaxpr = jax.make_jaxpr(lambda a, x: eqx.combine(a, rest)(inputs_of(self, x)))(arrays, x)
        return sorted(set(_kinks(jaxpr.jaxpr)))

    @compiled_in_float64
    def vector(self) -> Array:
        return ravel_pytree(self.weights)[0]

    @compiled_on_device
    def moved(self, v: Array) -> "Model":
        add = lambda w, change: jnp.asarray(w) + change
        return Model(self.network, jax.tree.map(add, self.weights, self._unravel(v)))

    @compiled_in_float64
    def outputs(self, x: Any) -> Array:
        self._check_weights(x)  # while tracing: it costs nothing later
        return self(inputs_of(self, x))

    @compiled_on_device
    def jvp(self, x: Any, v: Array) -> Array:
        return jax.jvp(self._flat(x), (self.weights,), (self._unravel(v),))[1]

    @compiled_on_device
    def vjp(self, x: Any, u: Array) -> Array:
        outputs, pull = jax.vjp(self._flat(x), self.weights)
        return ravel_pytree(pull(u.astype(outputs.dtype)))[0]

    @compiled_in_float64
    def kernel(self, x: Any, x2: Any | None = None) -> Array:
        self.outputs_each(x)  # refuses outputs that are not one array
        if isinstance(x, Inputs):  # examples by number, of which the network takes its arrays
            n, both = len(x), x if x2 is None else jax.tree.map(_joined, x, x2)
            own = lambda weights, rows: self.network(weights, inputs_of(self, both[rows]))
            rows = jnp.arange(n), None if x2 is None else jnp.arange(n, len(both))
            return kernel(own, self.weights, *rows).astype(self.dtype)
        x, x2 = inputs_of(self, x), None if x2 is None else inputs_of(self, x2)
        return kernel(self.network, self.weights, x, x2).astype(self.dtype)

    @compiled_on_device
    def hessian_product(self, loss: Loss, x: Any, v: Array) -> Array:
        x = inputs_of(self, x)
        gradient = jax.grad(lambda weights: loss(self.network(weights, x)))
        return ravel_pytree(jax.jvp(gradient, (self.weights,), (self._unravel(v),))[1])[0]

    def hessian_products(self, loss: Loss, x: Any) -> Callable[[Any], Array]:
        """v ↦ H v for many vectors."""
        return lambda v: self.hessian_product(loss, x, v)

    @compiled_in_float64
    def input_gradients(self, x: Any) -> Array:
        flat = lambda x: self(x).reshape(len(x), -1)
        outputs, pull = jax.vjp(flat, inputs_of(self, x))
        rows = jnp.eye(outputs.shape[1], dtype=outputs.dtype)
        # One backward pass per output serves all examples, since none depends on another's input.
        each = jax.vmap(lambda row: pull(jnp.broadcast_to(row, outputs.shape))[0])(rows)
        return jnp.moveaxis(each, 0, 1)

    def dense_layers(self) -> DenseLayers:
        layers = self.network.dense_layers(self.weights)
        if layers is None:
            raise no_dense_layers(type(self.network).__name__)
        return layers

    def _check_weights(self, x: Any, why: str = "") -> None:
        """Raises a ValueError if the weights are those of another network.

        `why` is the error of an evaluation that failed. Sizes that depend on an input of any length
        are not checked here: the evaluation fails if they are wrong.
        """
        input_shape = () if isinstance(x, Inputs) else np.shape(x)[1:]
        try:
            self.network.check_input(input_shape)
            like = self.network.like(input_shape)
        except Exception:  # the inputs do not fit: the evaluation reports that
            return
        came, allowed = (_shapes(tree) for tree in (self.weights, like))
        axes = [len(shape) for shape in came] != [len(shape) for shape in allowed]
        sizes = came != allowed and self.network.input_shape == input_shape
        # Another structure alone is no error: a list often works in place of a tuple.
        failed = bool(why) and jax.tree.structure(self.weights) != jax.tree.structure(like)
        if like is not None and (axes or sizes or failed):
            raise ValueError(
                f"weights: got {a_kind(self.weights)} of shapes {shown(came)}; allowed for this "
                f"network is {a_kind(like)} of shapes {shown(allowed)}"
            )

    def _flat(self, x: Any) -> Callable[[Weights], Array]:
        x = inputs_of(self, x)
        return lambda weights: _flattened(self.network(weights, x))

    def _unravel(self, v: Array) -> Weights:
        like = jax.tree.map(jnp.asarray, self.weights)
        return ravel_pytree(like)[1](v.astype(self.dtype))


def _shapes(tree: Any) -> list[tuple[int, ...]]:
    """The shapes of a tree's arrays; other leaves, such as functions, have none."""
    return [tuple(leaf.shape) for leaf in jax.tree.leaves(tree) if hasattr(leaf, "shape")]


def _is_real(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", type(leaf))
    try:
        return any(jnp.issubdtype(kind, real) for real in (jnp.floating, jnp.integer))
    except TypeError:  # not a type of numbers
        return False


@in_float64
def _shape_of(model: Model, x: Any) -> Any:
    one = jax.tree.map(lambda a: jax.ShapeDtypeStruct((1, *np.shape(a)[1:]), a.dtype), x)
    return eqx.filter_eval_shape(lambda m, x: m(inputs_of(m, x)), model, one)


def _kinks(jaxpr: Any) -> Iterator[str]:
    """The operations and functions whose slopes jump, by name."""
    jaxpr = getattr(jaxpr, "jaxpr", jaxpr)
    makers = {v: equation for equation in jaxpr.eqns for v in equation.outvars}
    for equation in jaxpr.eqns:
        name, primitive = _function(equation), equation.primitive.name
        # Functions come first: looking inside relu would only find the maximum that it is made of.
        if name in _KINKED_FUNCTIONS or (name == "elu" and _bends(equation)):
            yield name
        elif primitive in _KINKED and not _is_smooth(equation, makers):
            yield primitive
        elif name not in _SMOOTH_FUNCTIONS:
            for inner in called(equation):
                yield from _kinks(inner)


def _function(equation: Any) -> str:
    """The name of the function that an equation calls, if it has one."""
    inner = equation.params.get("call_jaxpr")  # of a function with a custom derivative
    debug_info = getattr(getattr(inner, "jaxpr", inner), "debug_info", None)
    return str(equation.params.get("name", getattr(debug_info, "func_name", "")))


def _bends(elu: Any) -> bool:
    """Whether the slope of an elu jumps at 0, from alpha to 1; it may if alpha is not known."""
    return any(not isinstance(a, core.Literal) or a.val != 1 for a in elu.invars[1:])


def _is_smooth(equation: Any, makers: dict[Any, Any]) -> bool:
    """Whether it is a maximum with −∞, as in softmax, or |positive number|, as in logsumexp."""
    bounds = (v.val for v in equation.invars if isinstance(v, core.Literal))
    unbounded = any(np.ndim(b) == 0 and np.isinf(b) for b in bounds)
    maker = lambda v: None if isinstance(v, core.Literal) else makers.get(v)
    source = maker(equation.invars[0])
    while source is not None and source.primitive.name in _SAME_SIGN:
        source = maker(source.invars[0])
    positive = source is not None and source.primitive.name == "exp"
    return unbounded or (positive and equation.primitive.name == "abs")


def inputs_of(model: Model, x: Any) -> Any:
    """Inputs in the precision of the weights; integers, such as tokens, are left as they are."""

    def each(x: Any) -> Array:
        x = x if isinstance(x, jax.ShapeDtypeStruct) else jnp.asarray(x)
        return x.astype(model.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x

    return jax.tree.map(each, apart(x))


def _flattened(outputs: Array) -> Array:
    return outputs.reshape(len(outputs), -1)


def _joined(array: Array, other: Array) -> Array:
    return jnp.concatenate([array, other])
