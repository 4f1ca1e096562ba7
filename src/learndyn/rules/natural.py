"""Natural gradient and its fractional, layer-restricted and damped relatives.

With J the Jacobian of the outputs, r̂ = ∂loss/∂output and means over examples, g = mean Jᵀ r̂
and H = mean JᵀJ (without the second derivative of the loss). The update is −η H^(−power) g. If
there are fewer outputs than weights it is computed from the smaller matrix JJᵀ, by the identity
H^(−s) Jᵀ = Jᵀ (JJᵀ)^(−s).
"""

import copy
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.networks import AbstractNetwork
from learndyn.networks.solvable.matrix_product import FORMS, inverse_power, natural_direction
from learndyn.problems import AbstractProblem
from learndyn.rules.curvature import AbstractCurvatureRule, Apply
from learndyn.runtime.bounds import NON_NEGATIVE, POSITIVE, SHARE, bounded
from learndyn.runtime.checks import non_negative, number, one_of, positive, shown
from learndyn.runtime.types import Array, Number, Weights
from learndyn.tangent.gauss_newton import gauss_newton
from learndyn.tangent.grouping import layers_of
from learndyn.tangent.kernel import kernel

Labels = Callable[[Weights], Any]


@bounded(learning_rate=POSITIVE, power=SHARE, damping=NON_NEGATIVE, clip=POSITIVE)
class NaturalGradient(AbstractCurvatureRule):
    """w ← w − η H^(−power) g in the pseudo-inverse sense; power = 1/q.

    power 0 is gradient descent, 1/2 is √NGD, 1 is the natural gradient.

    Args:
        learning_rate: η.
        power: between 0 and 1.
        blocks: whether each of the d layers uses its own block of H, at the rate η · d^(−power). A
            layer is an array that multiplies data, together with its biases
            (`tangent/grouping.py`). For other blocks give a function weights → labels, a pytree
            like the weights: arrays with the same label form one block, and d is the number of
            labels.
        damping: ε ≥ 0.
        damping_form: "paper" is Eq. 17 of curvature2020linear, (1+ε)(H+ε)⁻¹; "levenberg"
            drops the factor 1+ε.
        clip: the largest norm of one update, over all weights; None does not clip.

    On a `Dataset` a step computes the tangent kernel (examples × outputs rows) or H (one row per
    weight), whichever is smaller, and for power 1 its Cholesky factor. Other powers, and singular
    matrices without damping, need the eigenvalues, which takes much longer. With `blocks` the
    Jacobian itself is computed, and the kernel of each layer.

    Raises:
        ValueError: for a rate that is not positive, a power outside 0 to 1, or another
            argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> rule = ld.NaturalGradient(0.1, power=0.5, damping=1e-3)
        >>> float(rule.power), rule.damping_form
        (0.5, 'paper')
    """

    learning_rate: np.ndarray
    power: np.ndarray
    blocks: bool | Labels = eqx.field(static=True)
    damping: np.ndarray
    damping_form: str = eqx.field(static=True)
    clip: np.ndarray | None
    # The power if it is 0 or 1, for which there are shorter ways; other powers share a program.
    known_power: int | None = eqx.field(init=False, static=True)

    def __init__(
        self,
        learning_rate: Number,
        *,
        power: Number = 1.0,
        blocks: bool | Labels = False,
        damping: Number = 0.0,
        damping_form: str = "paper",
        clip: Number | None = None,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        allowed = "a number from 0 to 1 (power = 1/q with q ≥ 1)"
        self.power = number("power", power, allowed)
        if not 0 <= self.power <= 1:
            raise ValueError(f"power: got {power!r}; allowed is {allowed}")
        self.known_power = int(self.power) if self.power in (0, 1) else None
        self.blocks = blocks if callable(blocks) else one_of("blocks", blocks, (False, True))
        self.damping = non_negative("damping", damping)
        self.damping_form = one_of("damping_form", damping_form, FORMS)
        self.clip = None if clip is None else positive("clip", clip)

    def check_network(self, problem: AbstractProblem, network: AbstractNetwork) -> None:
        super().check_network(problem, network)
        if callable(self.blocks) and (like := network.like(problem.input_shape)) is not None:
            _grouped(self.blocks(like), like)

    def of_any_power(self) -> "NaturalGradient":
        """The same rule without the shorter ways of powers 0 and 1: it shares others' programs."""
        same = copy.copy(self)
        object.__setattr__(same, "known_power", None)
        return same

    @property
    def _knows_maps(self) -> bool:
        return not callable(self.blocks)

    def direction(
        self, jacobian: Weights, residual: Array, layers: Sequence[Sequence[int]] | None = None
    ) -> Weights:
        """H^(−power) g from per-example Jacobians and ∂loss/∂output.

        Args:
            jacobian: the weights' pytree, leaves (examples, outputs, *weight).
            residual: ∂loss/∂output, (examples, outputs).
            layers: for a rule with blocks, the indices of the leaves that form each block.

        Returns:
            The direction, in the shape of the weights.
        """
        if self.blocks and layers is None:
            raise ValueError("layers: got None for a rule with blocks; allowed are lists of leaves")
        leaves, structure = jax.tree.flatten(jacobian)
        layers = [range(len(leaves))] if layers is None else layers
        blocks = {}
        for layer in layers:
            solved = self._solved([leaves[i] for i in layer], residual, len(layers))
            blocks |= dict(zip(layer, solved, strict=True))
        return jax.tree.unflatten(structure, [blocks[i] for i in range(len(leaves))])

    def _solved(self, jacobian: Weights, residual: Array, layers: int) -> Weights:
        examples, outputs = residual.shape
        flat = lambda leaf: leaf.reshape(examples * outputs, -1)
        J = jnp.concatenate([flat(leaf) for leaf in jax.tree.leaves(jacobian)], axis=1)
        # With J/√n and r/√n, JᵀJ and Jᵀr are the means over examples.
        J, r = J / np.sqrt(examples), residual.reshape(-1) / np.sqrt(examples)
        solution = float(layers) ** -self._power(J.dtype) * (J.T @ self._inverse(J @ J.T, r))
        shape = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape[2:], leaf.dtype), jacobian)
        return ravel_pytree(shape)[1](solution)

    def _inverse(self, kernel: Array, r: Array) -> Array:
        self._check_rows(len(kernel), "examples × outputs or, without blocks, weights")
        power = self._power(kernel.dtype)
        return inverse_power(kernel, r, power, damping=self.damping, form=self.damping_form)

    def _power(self, dtype: Any) -> Any:
        """The power, as a number that is known when compiled if there is a shorter way for it."""
        return jnp.asarray(self.power, dtype) if self.known_power is None else self.known_power

    def _along(self, apply: Apply, weights: Weights, x: Array, residual: Array) -> Weights:
        if self.blocks:  # the kernel of a single layer needs its part of the Jacobian
            one = lambda x: jax.jacobian(lambda w: apply(w, x[None])[0].reshape(-1))(weights)
            layers = self._layers(apply, weights, x)
            return self.direction(jax.vmap(one)(x), residual.reshape(len(x), -1), layers)
        pull = jax.vjp(lambda w: apply(w, x), weights)[1]
        if sum(leaf.size for leaf in jax.tree.leaves(weights)) < residual.size:
            g, unravel = ravel_pytree(pull(residual / len(x))[0])
            return unravel(self._inverse(gauss_newton(apply, weights, x) / len(x), g))
        # `kernel` contracts layer by layer, which costs less than forming the Jacobian.
        K = kernel(apply, weights, x).reshape(residual.size, residual.size)
        solution = self._inverse(K / len(x), residual.reshape(-1) / len(x))
        return pull(solution.reshape(residual.shape).astype(residual.dtype))[0]

    def _layers(self, apply: Apply, weights: Weights, x: Array) -> list[list[int]]:
        if callable(self.blocks):
            return _grouped(self.blocks(weights), weights)
        return layers_of(apply, weights, x).groups

    def _along_maps(self, weights: Weights, drive: Array, root: Array) -> Weights:
        return natural_direction(
            weights, drive, self._power(drive.dtype), root=root, blocks=bool(self.blocks),
            damping=self.damping, form=self.damping_form,
        )  # fmt: skip


def _grouped(labels: Any, weights: Weights) -> list[list[int]]:
    """Indices of the arrays of each label, in the order of first appearance."""
    leaves, structure = jax.tree.flatten(labels)
    if structure != jax.tree.structure(weights):
        came = f"labels of the structure {shown(str(structure))}"
        raise ValueError(f"blocks: got {came}; allowed is one label for each array")
    groups: dict[Any, list[int]] = {}
    for leaf, label in enumerate(leaves):
        groups.setdefault(label, []).append(leaf)
    return list(groups.values())
