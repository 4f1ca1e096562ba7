"""The Gram matrix of two linear layers under SGD as an exact Markov chain, independent of L_h.

W_1 gains −η W_2ᵀ e xᵀ and W_2 gains −η e (W_1 x)ᵀ, averaged over a batch. Both stay in the span of
the columns of U = (W_2ᵀ, W_1). The rows R of `rows` therefore obey the same update as the weights,
with min(L_x + L_y, L_h) rows instead of L_h.
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.problems import TeacherStudent
from learndyn.rules import SGD
from learndyn.runtime.types import Array
from learndyn.system import System
from learndyn.theory.chain import AbstractChain
from learndyn.theory.perturbation.realisation import Sizes
from learndyn.theory.perturbation.rows import Rows, begin, gram_of
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Gram, Traces


class GradientChain(AbstractChain):
    """The chain of the module's docstring.

    Args:
        system: a system that the theory covers, under SGD.
        sizes: its widths.
    """

    normals: int = eqx.field(static=True)
    degrees: np.ndarray
    sizes: Sizes = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    rate: np.ndarray
    label_noise: np.ndarray

    def __init__(self, system: System, sizes: Sizes):
        problem = cast(TeacherStudent, system.problem)
        self.sizes, self.batch = sizes, cast(SGD, system.rule).batch
        self.noisy, self.label_noise = bool(problem.label_noise > 0), problem.label_noise
        self.rate, self.degrees = np.asarray(PerturbationSetting.of(system).eta), np.zeros(0)
        self.normals = self.batch * (sizes.inputs + self.noisy * sizes.outputs)

    def begin(self, state: Gram | Traces) -> tuple[np.ndarray, Rows]:
        return begin(state, self.sizes, 0)

    def state(self, constants: Array, now: Rows) -> Gram:
        return gram_of(constants, now)

    def step(self, constants: Array, now: Rows, normals: Array, chi_squares: Array) -> Rows:
        L_x, eta, A = self.sizes.inputs, self.rate / self.batch, constants

        def one(R_2: Array, R_1: Array, normals: Array) -> tuple[Array, Array]:
            parts = jnp.split(normals, [self.batch * L_x])
            x, z = (part.reshape(self.batch, -1) for part in parts)
            hidden = x @ R_1.T
            e = hidden @ R_2 - x @ A.T
            e = e + self.label_noise * z if self.noisy else e
            return R_2 - eta * hidden.T @ e, R_1 - eta * (R_2 @ e.T) @ x

        moved = jax.vmap(one, in_axes=-1, out_axes=-1)(now.R_2, now.R_1, normals)
        return Rows(*moved, now.used)

    @property
    def lanes(self) -> int:
        return 1

    @property
    def operations(self) -> float:
        m = self.sizes.inputs + self.sizes.outputs
        rows = min(m, self.sizes.hidden)
        return 4.0 * self.batch * rows * m
