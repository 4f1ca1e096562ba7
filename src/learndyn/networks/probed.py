"""What probes ask of a model."""

from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from learndyn.numerics.types import Array

Loss = Callable[[Array], Array]


@runtime_checkable
class Probed(Protocol):
    """What probes need of a model, whatever it was written in.

    Vectors v of weights have the order of all its arrays, each flattened; outputs u are flattened
    to (examples, outputs). Each example's outputs depend on its own input alone. Called by a user,
    methods compute in the precision of the weights and return NumPy; called on tracers, they are
    traced.
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

    def outputs_each(self, x: Array) -> int:
        """The number k of outputs of one example."""
        ...

    def kinks(self, x: Array) -> list[str]:
        """Operations without a second derivative everywhere, by name."""
        ...

    def vector(self) -> Array:
        """The weights, (p,)."""
        ...

    def moved(self, v: Array) -> Any:
        """The model at its weights + v."""
        ...

    def outputs(self, x: Array) -> Array:
        """The outputs in their own shape, (n, …)."""
        ...

    def jvp(self, x: Array, v: Array) -> Array:
        """J v, (n, k), with J = ∂outputs/∂weights."""
        ...

    def vjp(self, x: Array, u: Array) -> Array:
        """Jᵀ u, (p,)."""
        ...

    def kernel(self, x: Array, x2: Array | None = None) -> Array:
        """J J'ᵀ, (n, k, n', k), from inputs and node gradients of affine layers."""
        ...

    def hessian_product(self, loss: Loss, x: Array, v: Array) -> Array:
        """∂² loss(outputs)/∂weights² v, (p,)."""
        ...

    def chain(self) -> Any:
        """Its dense layers (`networks/chain.py`), or a one-line error where it is no chain."""
        ...

    def input_gradients(self, x: Array) -> Array:
        """∂outputs/∂x of every example, (n, k, *input)."""
        ...
