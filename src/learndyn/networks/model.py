"""A function with its weights."""

import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core
from jax.flatten_util import ravel_pytree

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.networks.chain import Chain, chain_of
from learndyn.networks.kernel import kernel
from learndyn.networks.probed import Loss
from learndyn.numerics.checks import a_kind, instance
from learndyn.numerics.jaxprs import equations
from learndyn.numerics.precision import compiled_in_float64, in_float64
from learndyn.numerics.types import Array

_KINKED = {"max", "min", "abs", "clamp", "reduce_window_max"}
_KINKED_FUNCTIONS = {"relu", "relu6", "leaky_relu", "hard_tanh", "hard_sigmoid"}


class Model(eqx.Module):
    """A network at given weights: what probes look at (`Probed` says how).

    Args:
        network: the function.
        weights: its weights.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.Committee(1, "linear"), np.ones((1, 4)))
        >>> float(model(np.ones((3, 4)))[0])
        2.0
    """

    network: AbstractNetwork
    weights: Weights

    def __check_init__(self):
        instance("network", self.network, AbstractNetwork, "a network such as MLP or Network")
        for leaf in jax.tree.leaves(self.weights):
            if not (callable(leaf) or isinstance(leaf, bool) or _is_real(leaf)):
                raise ValueError(f"weights: got {a_kind(leaf)}; allowed are arrays of real numbers")

    def __call__(self, x: Array) -> Any:
        return self.network(self.weights, x)

    @property
    def size(self) -> int:
        return sum(leaf.size for leaf in jax.tree.leaves(self.weights))

    @property
    def dtype(self) -> Any:
        return jax.tree.leaves(self.weights)[0].dtype

    def placed(self) -> "Model":
        with jax.enable_x64(True):
            return Model(self.network, jax.tree.map(jnp.asarray, self.weights))

    def outputs_each(self, x: Array) -> int:
        try:
            found = _shape_of(self, x)
        except (TypeError, ValueError) as error:
            why = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"x: got shape {np.shape(x)}, for which the model fails ({why}); allowed is "
                "(examples, …) of inputs that it takes"
            ) from None
        if not isinstance(found, jax.ShapeDtypeStruct):
            came = f"{a_kind(found)} of {len(jax.tree.leaves(found))}"
            raise ValueError(f"outputs: got {came}; allowed is one array, (examples, …)")
        if found.shape[:1] != (1,):
            came = f"shape {found.shape} for one example"
            raise ValueError(f"outputs: got {came}; allowed is (examples, …)")
        if not jnp.issubdtype(found.dtype, jnp.floating):
            raise ValueError(
                f"outputs: got {found.dtype}; allowed are floats, which can be differentiated"
            )
        return math.prod(found.shape[1:])

    def kinks(self, x: Array) -> list[str]:
        with jax.enable_x64(True):
            arrays, rest = eqx.partition(self, eqx.is_array)
            found = jax.make_jaxpr(lambda a, x: eqx.combine(a, rest)(inputs_of(self, x)))(arrays, x)
        return sorted({name for each in equations(found) if (name := _kink(each))})

    @compiled_in_float64
    def vector(self) -> Array:
        return ravel_pytree(self.weights)[0]

    @compiled_in_float64
    def moved(self, v: Array) -> "Model":
        add = lambda w, change: jnp.asarray(w) + change
        return Model(self.network, jax.tree.map(add, self.weights, self._unravel(v)))

    @compiled_in_float64
    def outputs(self, x: Array) -> Array:
        return self(inputs_of(self, x))

    @compiled_in_float64
    def jvp(self, x: Array, v: Array) -> Array:
        return jax.jvp(self._flat(x), (self.weights,), (self._unravel(v),))[1]

    @compiled_in_float64
    def vjp(self, x: Array, u: Array) -> Array:
        outputs, pull = jax.vjp(self._flat(x), self.weights)
        return ravel_pytree(pull(u.astype(outputs.dtype)))[0]

    @compiled_in_float64
    def kernel(self, x: Array, x2: Array | None = None) -> Array:
        self.outputs_each(x)  # refuses what is no array
        x, x2 = inputs_of(self, x), None if x2 is None else inputs_of(self, x2)
        return kernel(self.network, self.weights, x, x2).astype(self.dtype)

    @compiled_in_float64
    def hessian_product(self, loss: Loss, x: Array, v: Array) -> Array:
        x = inputs_of(self, x)
        gradient = jax.grad(lambda weights: loss(self.network(weights, x)))
        return ravel_pytree(jax.jvp(gradient, (self.weights,), (self._unravel(v),))[1])[0]

    @compiled_in_float64
    def input_gradients(self, x: Array) -> Array:
        flat = lambda x: self(x).reshape(len(x), -1)
        outputs, pull = jax.vjp(flat, inputs_of(self, x))
        rows = jnp.eye(outputs.shape[1], dtype=outputs.dtype)
        each = jax.vmap(lambda row: pull(jnp.broadcast_to(row, outputs.shape))[0])(rows)
        return jnp.moveaxis(each, 0, 1)

    def chain(self) -> Chain:
        return chain_of(self.network, self.weights)

    def _flat(self, x: Array) -> Callable[[Weights], Array]:
        x = inputs_of(self, x)
        return lambda weights: self.network(weights, x).reshape(len(x), -1)

    def _unravel(self, v: Array) -> Weights:
        like = jax.tree.map(jnp.asarray, self.weights)
        return ravel_pytree(like)[1](v.astype(self.dtype))


def _is_real(leaf: Any) -> bool:
    kind = getattr(leaf, "dtype", type(leaf))
    try:
        return any(jnp.issubdtype(kind, real) for real in (jnp.floating, jnp.integer))
    except TypeError:  # no type of numbers
        return False


@in_float64
def _shape_of(model: Model, x: Array) -> Any:
    one = jax.ShapeDtypeStruct((1, *np.shape(x)[1:]), x.dtype)
    return eqx.filter_eval_shape(lambda m, x: m(inputs_of(m, x)), model, one)


def _kink(equation: Any) -> str | None:
    called_so, primitive = str(equation.params.get("name", "")), equation.primitive.name
    if called_so in _KINKED_FUNCTIONS:
        return called_so
    bounds = (v.val for v in equation.invars if isinstance(v, core.Literal))
    endless = any(np.ndim(b) == 0 and np.isinf(b) for b in bounds)  # the largest of a softmax
    return primitive if primitive in _KINKED and not endless else None


def inputs_of(model: Model, x: Array) -> Array:
    """Inputs in the precision of the weights; integers stay."""
    x = jnp.asarray(x)
    return x.astype(model.dtype) if jnp.issubdtype(x.dtype, jnp.floating) else x
