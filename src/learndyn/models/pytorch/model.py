"""PyTorch modules as models."""

import functools
import math
from collections.abc import Callable, Mapping
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models.dense_layers import ALLOWED, no_dense_layers
from learndyn.models.inputs import Inputs, joined, shapes_of
from learndyn.models.probeable import Loss
from learndyn.models.pytorch.checks import PRECISIONS, checked, unwrapped
from learndyn.models.pytorch.evaluation import call, derivatives, flat, nn, torch, trainable
from learndyn.models.pytorch.kernel import graph_of, kernel
from learndyn.models.pytorch.losses import TorchLoss, TorchMean
from learndyn.networks.parts.affine import Affine
from learndyn.networks.parts.dense_layers import DenseLayers, kind_of
from learndyn.runtime.memory import check_weights_fit
from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array
from learndyn.tangent.kernel import check_fits

# Operations whose slopes jump, by the names of their backward functions.
KINKED = {
    *("Relu", "LeakyRelu", "PreluKernel", "RreluWithNoise", "Elu", "Threshold"),
    *("Hardtanh", "Hardsigmoid", "Hardswish", "Hardshrink", "Softshrink"),
    *("Abs", "Clamp", "ClampMin", "ClampMax", "Maximum", "Minimum", "Fmax", "Fmin"),
    *("Max", "Min", "Amax", "Amin", "Cummax", "Cummin", "Median", "Sort", "Topk"),
}
# Activations whose kind can be determined from their values; other modules are refused.
ELEMENTWISE = (
    *(nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh, nn.Tanh, nn.Sigmoid, nn.Softsign),
    *(nn.GELU, nn.SiLU, nn.Mish, nn.ELU, nn.CELU, nn.SELU, nn.Softplus, nn.LogSigmoid),
)
SKIPPED = (nn.Flatten, nn.modules.dropout._DropoutNd)


def _differentiating(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        with derivatives():
            return method(*args, **kwargs)

    return wrapped


class TorchModel:
    """A PyTorch module at given weights, as a `Probeable`; the module is not changed.

    Weights are the parameters that require gradients, in the order of `named_parameters`.

    Args:
        module: a `torch.nn.Module`, in eval mode if it behaves differently in training mode.
        weights: name → tensor; None for the module's own weights.
        output: what counts of several outputs, see `models.inputs.chosen`.
    """

    def __init__(
        self, module: Any, weights: Mapping[str, Any] | None = None, *, output: Any = None
    ):
        self.module = checked(unwrapped(module))
        if weights is None:
            own = [w for w in self.module.parameters() if w.requires_grad]
            count = sum(w.numel() for w in own)
            check_weights_fit(own[0].new_zeros(1), count, 1, "a copy")
        self.weights = trainable(self.module) if weights is None else dict(weights)
        self.output = output
        self._forwards = True  # whether Hessian products use forward over reverse mode

    def __call__(self, x: Any) -> np.ndarray:
        return self.outputs(joined(x))

    def __repr__(self) -> str:
        return f"TorchModel({type(self.module).__name__}, {self.size} weights)"

    def parameters(self) -> dict[str, Any]:
        """Name → the module's own parameter, in the order of the weights."""
        own = dict(self.module.named_parameters())
        return {name: own[name] for name in self.weights}

    @property
    def size(self) -> int:
        return sum(w.numel() for w in self.weights.values())

    @property
    def dtype(self) -> Any:
        return PRECISIONS[self._first.dtype]

    def own_loss(self, loss: Any) -> TorchLoss:
        """A loss of PyTorch, for probes of this model."""
        return loss if isinstance(loss, TorchLoss) else TorchLoss(loss)

    def placed(self) -> "TorchModel":
        return self

    def held(self, x: Any) -> Any:
        return self._inputs(x)

    def on_device(self, v: Any) -> Any:
        return self._like(v)

    @_differentiating
    def outputs_each(self, x: Any) -> int:
        weights = {n: w.clone().requires_grad_() for n, w in self.weights.items()}
        try:
            outputs = call(self.module, weights, self._inputs(x[:1]))
        except (RuntimeError, TypeError, IndexError) as error:
            why = str(error).strip().partition("\n")[0]
            raise ValueError(
                f"x: got {shapes_of(x)}, for which the model fails ({why}); allowed is "
                "(examples, …) of inputs that it takes"
            ) from None
        self._check_call(weights, outputs)
        return math.prod(outputs.shape[1:])

    @_differentiating
    def kinks(self, x: Any) -> list[str]:
        outputs = call(self.module, self._leaves(), self._inputs(x[:1]))
        nodes = list(graph_of(outputs))
        smooth = {_abs_of_softsign(node) for node in nodes}
        return sorted({name for node in nodes if node not in smooth and (name := _kink(node))})

    def vector(self) -> np.ndarray:
        return _numpy(torch.cat([w.reshape(-1) for w in self.weights.values()]))

    def moved(self, v: Any) -> "TorchModel":
        change = self._unravelled(v)
        weights = {n: w + change[n] for n, w in self.weights.items()}
        return TorchModel(self.module, weights, output=self.output)

    @_differentiating
    def outputs(self, x: Any) -> np.ndarray:
        with torch.no_grad():
            return _numpy(call(self.module, self.weights, self._inputs(x)))

    @_differentiating
    def jvp(self, x: Any, v: Any) -> Any:
        change, x = self._unravelled(v), self._inputs(x)
        try:
            with torch.no_grad(), torch.autograd.forward_ad.dual_level():
                outputs = call(self.module, _duals(self.weights, change), x)
                return _as_given(_tangent(flat(outputs)), v)
        except NotImplementedError:  # not every operation has a forward derivative
            leaves = self._leaves()
            outputs = flat(call(self.module, leaves, x))
            u = torch.zeros_like(outputs, requires_grad=True)
            return _as_given(self._pushed(outputs, leaves, u, change)[1], v)

    @_differentiating
    def vjp(self, x: Any, u: Any) -> Any:
        leaves, x = self._leaves(), self._inputs(x)
        outputs = flat(call(self.module, leaves, x))
        pulled = self._pulled(outputs, leaves, self._like(u).reshape(outputs.shape))
        return _as_given(_ravelled(pulled), u)

    @_differentiating
    def kernel(self, x: Any, x2: Any | None = None) -> np.ndarray:
        x, x2 = self._inputs(x), None if x2 is None else self._inputs(x2)
        others = len(x if x2 is None else x2)
        check_fits(len(x), others, self.outputs_each(x), np.dtype(self.dtype).itemsize)
        return _numpy(kernel(self.module, self.weights, x, x2))

    @_differentiating
    def hessian_product(self, loss: Loss, x: Any, v: Any) -> Any:
        x = self._inputs(x)
        if self._forwards:
            try:
                return _as_given(self._forward_over_reverse(loss, x, v), v)
            except NotImplementedError:  # not every operation's gradient has a forward derivative
                self._forwards = False  # it would fail again for every later product
        return _as_given(self._reverse_over_reverse(loss, x, v), v)

    def hessian_products(self, loss: Loss, x: Any) -> Callable[[Any], Any]:
        """v ↦ H v for many vectors.

        The graph of the gradient is kept, so that a product is one backward pass. Where PyTorch
        cannot differentiate it, or has no memory for it, every product is computed by itself.
        """
        x, alone = self._inputs(x), lambda v: self.hessian_product(loss, x, v)
        if not isinstance(loss, TorchMean):
            return alone
        try:
            kept = self._gradient_graph(loss, x)
        except RuntimeError:
            return alone

        def product(v: Any) -> Any:
            nonlocal kept
            if kept is not None:
                try:
                    return _as_given(self._bent(*kept, v), v)
                except RuntimeError:
                    kept = None
            return alone(v)

        return product

    @_differentiating
    def _gradient_graph(self, loss: TorchMean, x: Any) -> tuple[dict[str, Any], list[Any]]:
        """Weights, and the gradient of the mean loss by them, which can be differentiated."""
        leaves = self._leaves()
        mean = loss.each(call(self.module, leaves, x)).mean()
        return leaves, self._pulled(mean, leaves, torch.ones_like(mean), create_graph=True)

    @_differentiating
    def _bent(self, leaves: dict[str, Any], gradient: list[Any], v: Any) -> Any:
        """H v as the derivative of the gradient along v."""
        change = self._unravelled(v).values()
        pairs = [(g, c) for g, c in zip(gradient, change, strict=True) if g.requires_grad]
        if not pairs:
            return torch.zeros_like(_ravelled(gradient))
        parts, along = zip(*pairs, strict=True)
        bent = torch.autograd.grad(
            parts, list(leaves.values()), along, retain_graph=True, materialize_grads=True
        )
        return _ravelled(list(bent))

    def _forward_over_reverse(self, loss: Loss, x: Any, v: Any) -> Any:
        """H v in one pass, as the forward derivative of Jᵀ ∂loss/∂output along v."""
        leaves = self._leaves()
        with torch.autograd.forward_ad.dual_level():
            outputs = call(self.module, _duals(leaves, self._unravelled(v)), x)
            value, change = torch.autograd.forward_ad.unpack_dual(outputs)[0], _tangent(outputs)
            slope, bend = self._slope_and_bend(loss, value, change)
            slope = torch.autograd.forward_ad.make_dual(slope, bend)
            pulled = self._pulled(outputs, leaves, slope)
            return _ravelled([_tangent(p) for p in pulled])

    def _reverse_over_reverse(self, loss: Loss, x: Any, v: Any) -> Any:
        """H v = ∂(vᵀ Jᵀ u)/∂w + Jᵀ A J v, where J v = ∂(vᵀ Jᵀ u)/∂u."""
        leaves, change = self._leaves(), self._unravelled(v)
        outputs = call(self.module, leaves, x)
        value = outputs.detach()
        u = self._slope_and_bend(loss, value, torch.zeros_like(value))[0].requires_grad_()
        along, moved = self._pushed(outputs, leaves, u, change)
        bend = self._slope_and_bend(loss, value, moved)[1]
        whole = along + (outputs * bend).sum()
        return _ravelled(self._pulled(whole, leaves, torch.ones_like(whole)))

    def _slope_and_bend(self, loss: Loss, outputs: Any, change: Any) -> tuple[Any, Any]:
        """∂loss/∂output, and its derivative along `change`, as tensors."""
        if isinstance(loss, TorchMean):
            return loss.slope_and_bend(outputs.detach(), change.detach())
        slope, bend = _slope_and_bend(loss, _numpy(outputs), _numpy(change))
        return self._like(slope), self._like(bend)

    @_differentiating
    def input_gradients(self, x: Any) -> np.ndarray:
        x = self._tensor(x).clone().requires_grad_()
        outputs = flat(call(self.module, self.weights, self._inputs(x, attached=True)))
        self._check_graph(outputs, "inputs")
        columns = outputs.sum(0).unbind()
        pull = lambda column: torch.autograd.grad(column, x, retain_graph=True)[0]
        return _numpy(torch.stack([pull(column) for column in columns], 1))

    def dense_layers(self) -> DenseLayers:
        parts = _parts(self.module)
        weights = {id(m.weight) for m in self.module.modules() if type(m) is nn.Linear}
        if sum(isinstance(part, Affine) for part in parts) > len(weights):
            raise ValueError(
                f"model: got layers that share weights; allowed is {ALLOWED}, unshared"
            )
        return DenseLayers.from_parts(parts)

    @property
    def _first(self) -> Any:
        return next(iter(self.weights.values()))

    def _like(self, array: Any) -> Any:
        """An array as a tensor in the precision and on the device of the weights."""
        if isinstance(array, torch.Tensor):
            return array.detach().to(self._first.device, self._first.dtype)
        tensor = torch.from_numpy(np.array(array))  # a copy: PyTorch warns about read-only arrays
        return tensor.to(self._first.device, self._first.dtype)

    def _inputs(self, x: Any, attached: bool = False) -> Any:
        """Tensors of the inputs, with what counts of the outputs."""
        if isinstance(x, Inputs):
            return Inputs(x.map(self._tensor).arrays, self.output)
        tensor = x if attached else self._tensor(x)
        return tensor if self.output is None else Inputs(tensor, self.output)

    def _tensor(self, x: Any) -> Any:
        tensor = x if isinstance(x, torch.Tensor) else torch.from_numpy(np.array(x))
        precision = self._first.dtype if tensor.is_floating_point() else tensor.dtype
        return tensor.detach().to(self._first.device, precision)

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
        gradients = torch.autograd.grad(
            outputs, list(leaves.values()), u, allow_unused=True, create_graph=create_graph
        )
        pairs = zip(gradients, self.weights.values(), strict=True)
        return [torch.zeros_like(w) if g is None else g for g, w in pairs]

    def _pushed(
        self, outputs: Any, leaves: dict[str, Any], u: Any, change: Mapping[str, Any]
    ) -> tuple[Any, Any]:
        """vᵀ Jᵀ u and its derivative with respect to u, which is J v, by reverse mode alone."""
        pulled = self._pulled(outputs, leaves, u, create_graph=True)
        along = sum((p * c).sum() for p, c in zip(pulled, change.values(), strict=True))
        (moved,) = torch.autograd.grad(along, u, retain_graph=True, materialize_grads=True)
        return along, moved

    def _check_call(self, weights: Mapping[str, Any], outputs: Any) -> None:
        """Refuses modules that change their weights, or whose derivatives would be wrong."""
        # NaN is not equal to itself, and weights that are NaN are reported elsewhere.
        same = (
            torch.equal(w.nan_to_num(), self.weights[n].nan_to_num()) for n, w in weights.items()
        )
        if not all(same):
            raise ValueError(
                "model: it changes its weights when called; allowed is one that does not"
            )
        own = {id(p) for p in self.module.parameters()}
        nodes = list(graph_of(outputs))
        if any("DifferentiableGraph" in node.name() for node in nodes):
            raise ValueError(
                "model: it calls a function of torch.jit, which loses derivatives; allowed is the "
                "function that it was made from"
            )
        if any(id(getattr(node, "variable", None)) in own for node in nodes):
            raise ValueError(
                "model: it holds a parameter where it cannot be replaced, as in a closure; allowed "
                "are attributes, lists and dicts of its parts"
            )

    def _check_graph(self, outputs: Any, by: str) -> None:
        if not outputs.requires_grad:
            raise ValueError(
                f"outputs: PyTorch has no derivative of them by the {by}; allowed is a module that "
                "does not detach them"
            )


@in_float64
def _slope_and_bend(loss: Loss, outputs: Array, change: Array) -> tuple[Array, Array]:
    """∂loss/∂output, and its derivative along `change`; losses are JAX functions."""
    return _compiled_slope(loss, outputs, change)


@eqx.filter_jit
def _compiled_slope(loss: Loss, outputs: Array, change: Array) -> tuple[Array, Array]:
    return jax.jvp(jax.grad(loss), (jnp.asarray(outputs),), (jnp.asarray(change),))


def _kink(node: Any) -> str | None:
    """The name of the operation if its slope jumps, else None."""
    name = type(node).__name__.partition("Backward")[0]
    if name == "Elu" and node._saved_alpha * node._saved_input_scale == 1:
        return None  # slope 1 on both sides of 0
    return name if name in KINKED or name.startswith(("MaxPool", "AdaptiveMaxP")) else None


def _abs_of_softsign(node: Any) -> Any:
    """The |z| of a quotient z / (1 + |z|), whose slope does not jump, else None."""
    after = [each for each, _ in node.next_functions]
    if not type(node).__name__.startswith("Div") or len(after) != 2 or after[1] is None:
        return None
    below = [each for each, _ in after[1].next_functions if each is not None]
    named = [type(each).__name__.partition("Backward")[0] for each in (after[1], *below)]
    same = named == ["Add", "Abs"] and [z for z, _ in below[0].next_functions] == after[:1]
    return below[0] if same else None


def _duals(weights: Mapping[str, Any], change: Mapping[str, Any]) -> dict[str, Any]:
    make = torch.autograd.forward_ad.make_dual
    return {n: make(w, change[n]) for n, w in weights.items()}


def _tangent(dual: Any) -> Any:
    value, tangent = torch.autograd.forward_ad.unpack_dual(dual)
    return torch.zeros_like(value) if tangent is None else tangent


def _ravelled(parts: list[Any]) -> Any:
    return torch.cat([part.reshape(-1) for part in parts]).detach()


def _as_given(tensor: Any, given: Any) -> Any:
    """A tensor if a tensor was given, else NumPy."""
    return tensor.detach() if isinstance(given, torch.Tensor) else _numpy(tensor)


def _numpy(tensor: Any) -> np.ndarray:
    return tensor.detach().cpu().numpy()


def _parts(module: Any) -> list[Any]:
    # Exact types: a subclass may compute anything in its `forward`.
    if type(module) is nn.Sequential:
        return [part for child in module for part in _parts(child)]
    if type(module) is nn.Linear:
        bias = None if module.bias is None else _numpy(module.bias).copy()
        return [Affine(_numpy(module.weight).copy(), bias)]
    if isinstance(module, ELEMENTWISE):
        return [kind_of(lambda z: _numpy(module(torch.from_numpy(z.copy()))))]
    if isinstance(module, SKIPPED):
        return []
    raise no_dense_layers(type(module).__name__)
