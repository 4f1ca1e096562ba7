"""A PyTorch module as what probes look at."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.affine import Affine
from learndyn.networks.chain import KINDS, Chain, chained, kind_of
from learndyn.networks.kernel import check_fits
from learndyn.networks.probed import Loss
from learndyn.networks.pytorch.evaluation import (
    PRECISIONS,
    call,
    checked,
    derivatives,
    flat,
    nn,
    torch,
    trainable,
)
from learndyn.networks.pytorch.kernel import graph_of, kernel
from learndyn.numerics.precision import in_float64
from learndyn.numerics.types import Array

KINKED = ("Relu", "LeakyRelu", "Hardtanh", "Hardsigmoid", "Abs", "Clamp", "Max", "Min", "Threshold")
ELEMENTWISE = (nn.ReLU, nn.LeakyReLU, nn.Identity, nn.Tanh, nn.Sigmoid, nn.GELU, nn.SiLU, nn.ELU)
SKIPPED = (nn.Flatten, nn.modules.dropout._DropoutNd)


def _differentiating(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with derivatives():
            return method(*args, **kwargs)

    return wrapped


class TorchModel:
    """A module at given weights (`Probed` says how), which is left as it was.

    Weights are the parameters that require gradients, in the order of `named_parameters`.

    Args:
        module: a `torch.nn.Module`, in eval mode where modes differ.
        weights: name → tensor; None are its own.
    """

    def __init__(self, module: Any, weights: Mapping[str, Any] | None = None):
        self.module = checked(module)
        self.weights = trainable(module) if weights is None else dict(weights)
        self._forwards = True  # whether Hessians go forward over reverse

    def __call__(self, x: Any) -> np.ndarray:
        return self.outputs(x)

    def __repr__(self) -> str:
        return f"TorchModel({type(self.module).__name__}, {self.size} weights)"

    @property
    def size(self) -> int:
        return sum(w.numel() for w in self.weights.values())

    @property
    def dtype(self) -> Any:
        return PRECISIONS[self._first.dtype]

    def placed(self) -> "TorchModel":
        return self

    @_differentiating
    def outputs_each(self, x: Any) -> int:
        with torch.no_grad():
            return math.prod(call(self.module, self.weights, self._inputs(x[:1])).shape[1:])

    @_differentiating
    def kinks(self, x: Any) -> list[str]:
        outputs = call(self.module, self._leaves(), self._inputs(x[:1]))
        names = {type(node).__name__ for node in graph_of(outputs)}
        stems = {name.partition("Backward")[0] for name in names}
        return sorted(s for s in stems if s in KINKED or s.startswith(("MaxPool", "AdaptiveMaxP")))

    def vector(self) -> np.ndarray:
        return _numpy(torch.cat([w.reshape(-1) for w in self.weights.values()]))

    def moved(self, v: Any) -> "TorchModel":
        change = self._unravelled(v)
        return TorchModel(self.module, {n: w + change[n] for n, w in self.weights.items()})

    @_differentiating
    def outputs(self, x: Any) -> np.ndarray:
        with torch.no_grad():
            return _numpy(call(self.module, self.weights, self._inputs(x)))

    @_differentiating
    def jvp(self, x: Any, v: Any) -> np.ndarray:
        change, x = self._unravelled(v), self._inputs(x)
        with torch.no_grad(), torch.autograd.forward_ad.dual_level():
            outputs = call(self.module, _duals(self.weights, change), x)
            return _numpy(_tangent(flat(outputs)))

    @_differentiating
    def vjp(self, x: Any, u: Any) -> np.ndarray:
        leaves, x = self._leaves(), self._inputs(x)
        outputs = flat(call(self.module, leaves, x))
        return self._ravelled(self._pulled(outputs, leaves, self._like(u).reshape(outputs.shape)))

    @_differentiating
    def kernel(self, x: Any, x2: Any | None = None) -> np.ndarray:
        x, x2 = self._inputs(x), None if x2 is None else self._inputs(x2)
        others = len(x if x2 is None else x2)
        check_fits(len(x), others, self.outputs_each(x), np.dtype(self.dtype).itemsize)
        return _numpy(kernel(self.module, self.weights, x, x2))

    @_differentiating
    def hessian_product(self, loss: Loss, x: Any, v: Any) -> np.ndarray:
        x = self._inputs(x)
        if self._forwards:
            try:
                return self._forward_over_reverse(loss, x, v)
            except NotImplementedError:  # not every operation's gradient has a tangent
                self._forwards = False
        return self._reverse_over_reverse(loss, x, v)

    def _forward_over_reverse(self, loss: Loss, x: Any, v: Any) -> np.ndarray:
        """In one pass: H v is the tangent of Jᵀ ∂loss/∂output."""
        leaves = self._leaves()
        with torch.autograd.forward_ad.dual_level():
            outputs = call(self.module, _duals(leaves, self._unravelled(v)), x)
            value, change = _numpy(outputs), _numpy(_tangent(outputs))
            slope, bend = (self._like(a) for a in _slope_and_bend(loss, value, change))
            slope = torch.autograd.forward_ad.make_dual(slope, bend)
            pulled = self._pulled(outputs, leaves, slope)
            return self._ravelled([_tangent(p) for p in pulled])

    def _reverse_over_reverse(self, loss: Loss, x: Any, v: Any) -> np.ndarray:
        """H v = ∂(vᵀ Jᵀ u)/∂w + Jᵀ A J v, where J v = ∂(vᵀ Jᵀ u)/∂u."""
        leaves, change = self._leaves(), self._unravelled(v)
        outputs = call(self.module, leaves, x)
        value = _numpy(outputs)
        u = self._like(_slope_and_bend(loss, value, np.zeros_like(value))[0]).requires_grad_()
        pulled = self._pulled(outputs, leaves, u, create_graph=True)
        along = sum((p * c).sum() for p, c in zip(pulled, change.values(), strict=True))
        (moved,) = torch.autograd.grad(along, u, retain_graph=True, materialize_grads=True)
        bend = self._like(_slope_and_bend(loss, value, _numpy(moved))[1])
        whole = along + (outputs * bend).sum()
        return self._ravelled(self._pulled(whole, leaves, torch.ones_like(whole)))

    @_differentiating
    def input_gradients(self, x: Any) -> np.ndarray:
        x = self._inputs(x).detach().clone().requires_grad_()
        outputs = flat(call(self.module, self.weights, x))
        self._check_graph(outputs, "inputs")
        columns = outputs.sum(0).unbind()
        pull = lambda column: torch.autograd.grad(column, x, retain_graph=True)[0]
        return _numpy(torch.stack([pull(column) for column in columns], 1))

    def chain(self) -> Chain:
        return chained(_parts(self.module))

    @property
    def _first(self) -> Any:
        return next(iter(self.weights.values()))

    def _like(self, array: Any) -> Any:
        """An array, in the precision and on the device of the weights."""
        given = torch.from_numpy(np.array(array))
        return given.to(self._first.device, self._first.dtype)

    def _inputs(self, x: Any) -> Any:
        given = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x))
        precision = self._first.dtype if given.is_floating_point() else given.dtype
        return given.detach().to(self._first.device, precision)

    def _leaves(self) -> dict[str, Any]:
        return {n: w.detach().requires_grad_() for n, w in self.weights.items()}

    def _unravelled(self, v: Any) -> dict[str, Any]:
        parts = self._like(v).split([w.numel() for w in self.weights.values()])
        pairs = zip(self.weights.items(), parts, strict=True)
        return {n: part.reshape(w.shape) for (n, w), part in pairs}

    def _pulled(
        self, outputs: Any, leaves: dict[str, Any], u: Any, create_graph: bool = False
    ) -> list[Any]:
        self._check_graph(outputs, "weights")
        found = torch.autograd.grad(
            outputs, list(leaves.values()), u, allow_unused=True, create_graph=create_graph
        )
        pairs = zip(found, self.weights.values(), strict=True)
        return [torch.zeros_like(w) if g is None else g for g, w in pairs]

    def _check_graph(self, outputs: Any, by: str) -> None:
        if not outputs.requires_grad:
            raise ValueError(
                f"outputs: PyTorch has no derivative of them by the {by}; allowed is a module that "
                "does not detach them"
            )

    def _ravelled(self, parts: list[Any]) -> np.ndarray:
        return _numpy(torch.cat([part.reshape(-1) for part in parts]))


@in_float64
def _slope_and_bend(loss: Loss, outputs: Array, change: Array) -> tuple[Array, Array]:
    """∂loss/∂output, and its change."""
    return _compiled_slope(loss, outputs, change)


@eqx.filter_jit
def _compiled_slope(loss: Loss, outputs: Array, change: Array) -> tuple[Array, Array]:
    return jax.jvp(jax.grad(loss), (jnp.asarray(outputs),), (jnp.asarray(change),))


def _duals(weights: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    make = torch.autograd.forward_ad.make_dual
    return {n: make(w, change[n]) for n, w in weights.items()}


def _tangent(dual: Any) -> Any:
    value, tangent = torch.autograd.forward_ad.unpack_dual(dual)
    return torch.zeros_like(value) if tangent is None else tangent


def _numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _parts(module: Any) -> list[Any]:
    if type(module) is nn.Sequential:
        return [part for child in module for part in _parts(child)]
    if type(module) is nn.Linear:
        bias = None if module.bias is None else _numpy(module.bias).copy()
        return [Affine(_numpy(module.weight).copy(), bias)]
    if isinstance(module, ELEMENTWISE):
        return [kind_of(lambda z: _numpy(module(torch.from_numpy(z.copy()))))]
    if isinstance(module, SKIPPED):
        return []
    raise ValueError(f"model: got a {type(module).__name__}; allowed is {KINDS}")
