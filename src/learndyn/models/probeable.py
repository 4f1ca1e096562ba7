"""The interface of models that probes use."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from learndyn.networks.parts.dense_layers import DenseLayers
from learndyn.runtime.types import Array

Loss = Callable[[Array], Array]


@runtime_checkable
class Probeable(Protocol):
    """The interface of models that probes use, whatever library a model was written in.

    A vector v of weights contains all arrays of the model in order, each flattened; outputs u are
    flattened to (examples, outputs). Each example's outputs depend on its own input alone. Called
    by a user, methods compute in the precision of the weights and return NumPy arrays; called on
    tracers, they are traced. Products with a vector that is `on_device` stay there.
    """

    @property
    def size(self) -> int:
        """The number p of weights."""
        ...

    @property
    def dtype(self) -> Any:
        """The precision of the weights."""
        ...

    def placed(self) -> Any:
        """The model with its weights on the device, for many calls."""
        ...

    def held(self, x: Any) -> Any:
        """Inputs on the device, for many calls."""
        ...

    def on_device(self, v: Array) -> Any:
        """An array in the precision and on the device of the weights, in the model's library."""
        ...

    def outputs_each(self, x: Any) -> int:
        """The number k of outputs of one example."""
        ...

    def kinks(self, x: Any) -> list[str]:
        """Names of operations that do not have a second derivative everywhere."""
        ...

    def vector(self) -> Array:
        """The weights, (p,)."""
        ...

    def moved(self, v: Array) -> Any:
        """The model at its weights + v."""
        ...

    def outputs(self, x: Any) -> Array:
        """The outputs, not flattened, (n, …)."""
        ...

    def jvp(self, x: Any, v: Array) -> Array:
        """J v, (n, k), with J = ∂outputs/∂weights."""
        ...

    def vjp(self, x: Any, u: Array) -> Array:
        """Jᵀ u, (p,)."""
        ...

    def kernel(self, x: Any, x2: Any | None = None) -> Array:
        """J J'ᵀ, (n, k, n', k), from inputs and node gradients of affine layers."""
        ...

    def hessian_product(self, loss: Loss, x: Any, v: Array) -> Array:
        """∂² loss(outputs)/∂weights² v, (p,)."""
        ...

    def hessian_products(self, loss: Loss, x: Any) -> Callable[[Array], Array]:
        """The same for many vectors."""
        ...

    def dense_layers(self) -> DenseLayers:
        """The dense layers that the model applies one after the other, or a one-line error."""
        ...

    def input_gradients(self, x: Any) -> Array:
        """∂outputs/∂x of every example, (n, k, *input)."""
        ...
