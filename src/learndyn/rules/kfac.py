"""K-FAC: the natural gradient of layers, with blocks that are Kronecker products."""

from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.networks.solvable.matrix_product import (
    KRONECKER_FORMS,
    inverse_power,
    kronecker_inverse,
    sides,
)
from learndyn.rules.curvature import AbstractCurvatureRule, Apply
from learndyn.runtime.bounds import NON_NEGATIVE, POSITIVE, bounded
from learndyn.runtime.checks import non_negative, one_of, positive
from learndyn.runtime.types import Array, Number, Weights
from learndyn.tangent.kronecker import kronecker_factors

ROWS = "inputs or nodes of a layer, or weights that belong to none"


@bounded(learning_rate=POSITIVE, damping=NON_NEGATIVE, clip=POSITIVE)
class KFAC(AbstractCurvatureRule):
    """W ← W − η G⁻¹ (∂loss/∂W) A⁻¹ for each dense layer and convolution, Martens & Grosse 2015.

    A = mean a aᵀ is the second moment of the layer's inputs, with a constant appended for the bias,
    and G = mean Σ δ δᵀ that of the derivatives δ of all outputs by its nodes. As in
    `NaturalGradient`, the second derivative of the loss does not enter, and inverses are
    pseudo-inverses. Derivatives of a layer at different positions, such as the pixels of a
    convolution, are treated as uncorrelated (Grosse & Martens 2016). For other arrays, such as
    those of a layer norm, the exact block of H is used.

    For deep linear networks and for networks of one layer, A ⊗ G is the exact block. The step is
    then that of `NaturalGradient(d η, blocks=True)` for d layers, since here there is no factor
    1/d. The factors are computed from all examples at each step.

    Args:
        learning_rate: η.
        damping: ε ≥ 0.
        damping_form: "factored" is (A + π√ε)⁻¹ and (G + √ε/π)⁻¹ with π² = (mean eigenvalue of A) /
            (that of G); "levenberg" is (A ⊗ G + ε)⁻¹, which exact blocks always use.
        clip: the largest norm of one update, over all weights; None does not clip.

    Raises:
        ValueError: for a rate that is not positive, or a damping, form or clip that is not
            allowed.

    Example:
        >>> import learndyn as ld
        >>> rule = ld.KFAC(0.1, damping=1e-3)
        >>> rule.damping_form, rule.samples
        ('factored', False)
    """

    learning_rate: np.ndarray
    damping: np.ndarray
    damping_form: str = eqx.field(static=True)
    clip: np.ndarray | None

    def __init__(
        self,
        learning_rate: Number,
        *,
        damping: Number = 0.0,
        damping_form: str = "factored",
        clip: Number | None = None,
    ):
        self.learning_rate = positive("learning_rate", learning_rate)
        self.damping = non_negative("damping", damping)
        self.damping_form = one_of("damping_form", damping_form, KRONECKER_FORMS)
        self.clip = None if clip is None else positive("clip", clip)

    def _along(self, apply: Apply, weights: Weights, x: Array, residual: Array) -> Weights:
        gradient = jax.vjp(lambda w: apply(w, x), weights)[1](residual / len(x))[0]
        leaves, structure = jax.tree.flatten(gradient)
        factors = kronecker_factors(apply, weights, x)
        solutions: dict[int, Array] = {}
        for layer, (A, G) in zip(factors.layers, factors.moments[0], strict=True):
            solutions |= layer.arrays(self._solved(A, G, layer.matrix(leaves)), leaves)
        for group, H in zip(factors.rest, factors.moments[1], strict=True):
            self._check_rows(len(H), ROWS)
            g, unravel = ravel_pytree([leaves[leaf] for leaf in group])
            solved = inverse_power(H, g, 1, damping=self.damping, form="levenberg")
            solutions |= dict(zip(group, unravel(solved.astype(g.dtype)), strict=True))
        return jax.tree.unflatten(structure, [solutions[leaf] for leaf in range(len(leaves))])

    def _along_maps(self, weights: Weights, drive: Array, root: Array) -> Weights:
        each = zip(*sides(weights, root), strict=True)
        return tuple(
            self._solved(right @ right.T, left.T @ left, (left.T @ drive @ right.T).T).T
            for left, right in each
        )

    def _solved(self, A: Array, G: Array, gradient: Array) -> Any:
        self._check_rows(max(len(A), len(G)), ROWS)
        options = {"damping": self.damping, "form": self.damping_form}
        return kronecker_inverse(A, G, gradient, **options).astype(gradient.dtype)
