"""The Gram matrix of two linear layers as an exact Markov chain, at a cost independent of L_h.

A step of node perturbation adds −κ ξ_1 xᵀ to W_1 and −κ ξ_2 (W_1 x)ᵀ to W_2, with

    κ = η s,    s = u · e + (σ/2) |u|²,    u = W_2 ξ_1 + ξ_2,    e = (W_2 W_1 − A) x + σ_t z,

and σ = 0 in the limit of small perturbations. Take an orthonormal frame Q of r axes whose span
contains all columns of U = (W_2ᵀ, W_1) = Q (R_2, R_1). The noise is then ξ_1 = Q ζ + ρ q with ζ
standard normal, q a unit vector orthogonal to the frame, and ρ² chi-square with L_h − r degrees of
freedom. So W_2 ξ_1 = R_2ᵀ ζ, and

    R_2 ← R_2 − κ (R_1 x) ξ_2ᵀ,    R_1 ← R_1 − κ ζ xᵀ,    q joins the frame: a new row (0, −κ ρ xᵀ).

This is the exact distribution of G = RᵀR. Beyond the m = L_x + L_y rows that the columns need,
there is room for b new ones. Once these are used, R is replaced by the triangular factor of its QR
decomposition, which has m rows and the same G. A step thus costs of the order of m (m + b)
operations, and m³/b for the decomposition.

Every step draws m + b normal numbers for ζ. Those of axes that do not exist yet are squared and
added to ρ², so that its chi-square number has L_h − m − b degrees of freedom in every step.

A step may draw several perturbations, for the examples of a batch or repeatedly for each example.
Each has its own ζ. The parts outside the frame then have a Wishart matrix as their Gram matrix;
its triangular factor (Bartlett) gives as many new rows as there are draws.
"""

from typing import cast

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics import dense
from learndyn.problems import TeacherStudent
from learndyn.rules import NodePerturbation
from learndyn.runtime.types import Array
from learndyn.system import System
from learndyn.theory.chain import AbstractChain
from learndyn.theory.dynamics import Refused
from learndyn.theory.perturbation.gradient_chain import GradientChain
from learndyn.theory.perturbation.realisation import Sizes
from learndyn.theory.perturbation.rows import Rows, begin, gram_of
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Gram, Traces

ROOM = (
    48  # rows beyond m: with fewer, decompositions are too frequent; with more, steps take longer
)


class PerturbationChain(AbstractChain):
    """The chain of the module's docstring.

    Args:
        system: a system that the theory covers, under node perturbation.
        sizes: its widths.
        room: b, the number of rows beyond m.
    """

    normals: int = eqx.field(static=True)
    degrees: np.ndarray
    sizes: Sizes = eqx.field(static=True)
    room: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    repeats: int = eqx.field(static=True)
    shared: bool = eqx.field(static=True)
    noisy: bool = eqx.field(static=True)
    rate: np.ndarray
    label_noise: np.ndarray
    sigma: np.ndarray | None

    def __init__(self, system: System, sizes: Sizes, room: int):
        rule, problem = cast(NodePerturbation, system.rule), cast(TeacherStudent, system.problem)
        self.sizes, self.room = sizes, room
        self.batch, self.repeats, self.shared = rule.batch, rule.perturbations, rule.shared
        self.noisy, self.label_noise = bool(problem.label_noise > 0), problem.label_noise
        self.rate, self.sigma = np.asarray(PerturbationSetting.of(system).eta), rule.sigma
        n, (L_x, L_h, L_y) = self.draws, sizes
        rows = L_x + L_y + room
        self.degrees = (L_h - rows - np.arange(n)).astype(np.float64)
        below = n * (n - 1) // 2
        self.normals = self.batch * (L_x + self.noisy * L_y) + n * (L_y + rows) + below

    @property
    def draws(self) -> int:
        """The number of perturbations that a step draws."""
        return self.repeats * (1 if self.shared else self.batch)

    def begin(self, state: Gram | Traces) -> tuple[np.ndarray, Rows]:
        return begin(state, self.sizes, self.room)

    def state(self, constants: Array, now: Rows) -> Gram:
        return gram_of(constants, now)

    def step(self, constants: Array, now: Rows, normals: Array, chi_squares: Array) -> Rows:
        return self.steps(constants, now, normals[None], chi_squares[None], 0, 1)

    def steps(
        self,
        constants: Array,
        now: Rows,
        normals: Array,
        chi_squares: Array,
        first: Array,
        last: Array,
    ) -> Rows:
        """Alternates between steps until all rows are used and one decomposition."""
        n = self.draws
        each = jax.vmap(self._moved, in_axes=(None, -1, -1, None, -1, -1), out_axes=-1)

        def stretch(carry: tuple[Array, Rows]) -> tuple[Array, Rows]:
            at, now = carry
            used = now.used[0]
            # All runs use rows at the same pace, so the first run's count holds for all.
            stop = jnp.minimum(last, at + (self.room - used) // n)

            def one(i: Array, R: tuple[Array, Array]) -> tuple[Array, Array]:
                return each(constants, *R, used + (i - at) * n, normals[i], chi_squares[i])

            R_2, R_1 = jax.lax.fori_loop(at, stop, one, (now.R_2, now.R_1))
            used = used + (stop - at) * n
            full = used + n > self.room
            compressed = lambda *R: self._compressed(*R)  # bound methods cannot be hashed
            R_2, R_1 = jax.lax.cond(full, compressed, lambda *R: R, R_2, R_1)
            used = jnp.broadcast_to(jnp.where(full, 0, used), now.used.shape)
            return stop, Rows(R_2, R_1, used.astype(now.used.dtype))

        first, last = jnp.asarray(first), jnp.asarray(last)
        return jax.lax.while_loop(lambda carry: carry[0] < last, stretch, (first, now))[1]

    def _moved(
        self, A: Array, R_2: Array, R_1: Array, used: Array, normals: Array, chi_squares: Array
    ) -> tuple[Array, Array]:
        """The rows of one run after a step."""
        x, z, xi_2, zeta, below = self._split(normals)
        hidden = x @ R_1.T  # (batch, rows)
        e = hidden @ R_2 - x @ A.T
        e = e + self.label_noise * z if self.noisy else e
        u = zeta @ R_2 + xi_2  # (draws, L_y); the rows of axes that do not exist yet are zero
        s = u @ e.T
        if self.sigma is not None:
            s = s + self.sigma / 2 * jnp.sum(u**2, axis=1, keepdims=True)
        if not self.shared and self.batch > 1:
            # A perturbation acts only on the example that it was drawn for.
            own = np.arange(self.draws)[:, None] % self.batch == np.arange(self.batch)
            s = jnp.where(own, s, 0.0)
        kappa = self.rate / (self.batch * self.repeats) * s  # (draws, batch)
        xi_1 = self._components(zeta, below, chi_squares, used)
        return R_2 - (kappa @ hidden).T @ xi_2, R_1 - xi_1.T @ (kappa @ x)

    def _components(self, zeta: Array, below: Array, chi_squares: Array, used: Array) -> Array:
        """ξ_1 along the axes, (draws, rows): the existing ones, and one new axis per draw."""
        n, (L_x, _, L_y) = self.draws, self.sizes
        place = jnp.arange(zeta.shape[1]) - (
            L_x + L_y + used
        )  # 0, 1, … for new axes, else negative
        unseen = jnp.sum(jnp.where(place >= 0, zeta, 0.0) ** 2, axis=1)
        rest = jnp.diag(jnp.sqrt(chi_squares + unseen))
        if n > 1:
            rest = rest.at[np.tril_indices(n, -1)].set(below)
        new = jnp.where((place >= 0) & (place < n), rest[:, jnp.clip(place, 0, n - 1)], 0.0)
        return jnp.where(place < 0, zeta, new)

    def _split(self, normals: Array) -> tuple[Array, Array, Array, Array, Array]:
        """Inputs, label noise, ξ_2, ζ, and the entries of Bartlett's factor below its diagonal."""
        n, (L_x, _, L_y) = self.draws, self.sizes
        shapes = [(self.batch, L_x), (self.batch, L_y * self.noisy), (n, L_y)]
        shapes += [(n, L_x + L_y + self.room), (n * (n - 1) // 2,)]
        ends = np.cumsum([int(np.prod(shape)) for shape in shapes])
        parts = jnp.split(normals, ends[:-1])
        x, z, xi_2, zeta, below = (p.reshape(s) for p, s in zip(parts, shapes, strict=True))
        return x, z, xi_2, zeta, below

    def _compressed(self, R_2: Array, R_1: Array) -> tuple[Array, Array]:
        """Rows with the same Gram matrices, of which only the first m are not zero."""
        L_y = self.sizes.outputs

        def one(R_2: Array, R_1: Array) -> tuple[Array, Array]:
            R = dense.triangular(jnp.concatenate([R_2, R_1], axis=1))
            R = jnp.pad(R, ((0, self.room), (0, 0)))
            return R[:, :L_y], R[:, L_y:]

        return jax.vmap(one, in_axes=-1, out_axes=-1)(R_2, R_1)

    @property
    def lanes(self) -> int:
        return 1

    @property
    def operations(self) -> float:
        m, n = self.sizes.inputs + self.sizes.outputs, self.draws
        steps = 2 * (self.batch + n) * m * (m + self.room)
        decompositions = 2 * m**2 * (m + self.room) / (self.room // n)
        return steps + decompositions


def chain_of(system: System, sizes: Sizes) -> AbstractChain | Refused:
    """The chain of a covered system, or why it has none.

    Args:
        system: the system.
        sizes: its widths.

    Returns:
        The chain; under node perturbation, refused if the hidden layer is too narrow for its rows.
    """
    if not isinstance(system.rule, NodePerturbation):
        return GradientChain(system, sizes)
    rule, m = system.rule, sizes.inputs + sizes.outputs
    n = rule.perturbations * (1 if rule.shared else rule.batch)
    room = min(max(ROOM, n), sizes.hidden - m - n + 1)
    if room < n:
        others = f"{m} inputs and outputs and {n} perturbations per step"
        return Refused(f"{sizes.hidden} hidden units are too few to eliminate beside {others}")
    return PerturbationChain(system, sizes, room)
