"""The overlaps of a committee under one-pass SGD as an exact Markov chain, for every N.

The input ξ of a step acts on the overlaps only through its component in the span of the weights
and the squared length of the rest, and for Gaussian inputs these two are independent. In level l,
in an orthonormal frame whose first M axes span the teacher and whose next K axes complete the
span of the student,

    teacher rows  √N (B, 0)      T_l = B Bᵀ      (never changes)
    student rows  √N (U, V)      R_l = U Bᵀ,     Q_l = U Uᵀ + S,   S = V Vᵀ
    input         √λ (g_T, g_S, rest),           |rest|² = χ², N_l − K − M degrees of freedom

with standard normal g. Then x = Σ_l √λ_l (U g_T + V g_S), y = Σ_l √λ_l B g_T, and with
δ_i = v_i g'(x_i + b_i) e, e = target − output, a step of the weights w_i ← k w_i + (h/√N) δ_i ξ is

    U ← k U + s δ g_Tᵀ
    S ← k² S + k s (δ (V g_S)ᵀ + (V g_S) δᵀ) + s² δ δᵀ (|g_S|² + χ²),    s = h √λ_l / N,

where h = 2 · loss_scale · η · a and k = 1 − decay/N, or s = 0 and k = 1 in a level that does not
learn. Outputs and biases that learn move with the same example,

    v ← (1 − output_decay/N) v + (h_v/N) g(x + b) e,    b ← b + (h_b/N) δ,

where h_v and h_b have the factor 2 · loss_scale · a too. This is the exact distribution of the
state for any two activations, and its mean over a step gives the equations of `terms` as N → ∞. Any
root V gives the same distribution, so only S is stored. See `numerics.semidefinite` for how a
singular S is treated.

A batch of b examples averages δ over them: s has 1/b, the terms are summed over examples, and
χ² becomes the Gram matrix of the b rests, a Wishart matrix (Bartlett's triangular factor A).
For b > K only D A enters, D = (δ of every example), which is distributed as F A with F Fᵀ = D Dᵀ
and a K × K factor A.

A level with N_l < K + M has N_l axes and no rest: first those of the teacher, then as many of
the student's as remain. If V uses fewer of them, unused components of g_S stand for the others,
so that the length of the input has N_l squared normals.

With momentum the rows are Z = (w, V), 2K of them, where V is the velocity in units of the rate:
V ← β V + d and w ← w − η V are one linear map of Z, to which the step δ ξ is added. The frame then
has M + 2K axes, and S is that of all rows. They are 3K where weights decay while the rate changes.
"""

from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.numerics.gaussian import AbstractActivation
from learndyn.numerics.semidefinite import gram_factor, root_times, rounding
from learndyn.rules.law import Inertia
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.types import Array
from learndyn.theory.chain import LANES, AbstractChain
from learndyn.theory.committee.dynamics.velocities import Momentum
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Overlaps

Steps = tuple[Array | float, Array | float]  # of outputs and biases
LARGE = 256  # numbers in a state from which on a single run is as fast as eight runs together


class Coordinates(NamedTuple):
    """What a step changes: U (K, M, L, runs) and the lower triangle of S (K, K, L, runs).

    Also the outputs and the biases of the student, (K, runs), where they are part of the state, and
    the number of steps taken, (runs,), where the learning rate depends on it. With momentum U and S
    have 2K or 3K rows, and outputs and biases have velocities too, (2, K, runs). Runs are the last
    axis, so that small matrices of many runs fill the vector units.
    """

    U: Array
    S: Array
    outputs: Array | None = None
    biases: Array | None = None
    taken: Array | None = None
    velocities: tuple[Array | None, Array | None] = (None, None)


class Constants(NamedTuple):
    """The teacher: B (M, M, L, 1), and its outputs and biases (M, 1) if the state has them."""

    B: Array
    outputs: Array | None = None
    biases: Array | None = None


class Parts(NamedTuple):
    """A committee's part of the chain: g, its scale, and the numbers that it states itself."""

    g: AbstractActivation
    scale: np.ndarray
    outputs: np.ndarray | None
    biases: np.ndarray | None

    @staticmethod
    def of(network: Committee) -> "Parts":
        stated = lambda name: None if network.carries(name) else _column(getattr(network, name))
        return Parts(network.g, network.scale, stated("outputs"), stated("biases"))


class Scales(NamedTuple):
    """The factors of a step, per example: s of every level, (L,), and of outputs and biases."""

    rows: Array
    outputs: Array
    biases: Array

    @staticmethod
    def of(setting: CommitteeSetting, roots: Array, examples: Array) -> "Scales":
        """The factors at the setting's learning rate, from the √λ_l and N batch."""
        outputs, biases = setting.part_rates
        rows = setting.h * setting.student.scale * setting.learning
        parts = setting.student.scale / examples
        return Scales(rows * roots / examples, outputs * parts, biases * parts)


class CommitteeChain(AbstractChain):
    """The chain that the module's docstring describes.

    Args:
        setting: a covered system whose rule samples examples.
    """

    normals: int = eqx.field(static=True)
    degrees: np.ndarray
    units: int = eqx.field(static=True)
    teacher_units: int = eqx.field(static=True)
    rows: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    train: tuple[str, ...] = eqx.field(static=True)
    scarce: bool = eqx.field(static=True)
    split: bool = eqx.field(static=True)
    own_rates: tuple[bool, bool] = eqx.field(static=True)
    roots: np.ndarray
    counts: np.ndarray
    networks: tuple[Parts, Parts]
    noise: np.ndarray
    inertia: Inertia | None
    scales: Scales
    scheduled: CommitteeSetting | None
    kept: tuple[np.ndarray | None, np.ndarray | None]

    def __init__(self, setting: CommitteeSetting):
        problem, student, teacher, rule, spectrum, _ = setting
        assert rule.batch is not None
        K, M, L, N = student.units, teacher.units, spectrum.levels, spectrum.dim
        self.units, self.teacher_units, self.batch = K, M, rule.batch
        self.inertia, self.split = rule.inertia, rule.splits and rule.decay is not None
        self.own_rates = rule.output_rate is not None, rule.bias_rate is not None
        self.rows = K if rule.inertia is None else (2 + self.split) * K
        self.train = student.train
        self.scarce = bool(np.any(spectrum.counts < self.rows + M))
        self.roots, self.counts = np.sqrt(spectrum.values), spectrum.counts.astype(np.float64)
        self.networks, self.noise = (Parts.of(student), Parts.of(teacher)), problem.label_noise
        examples = np.asarray(N * rule.batch)
        self.scheduled = setting if rule.scheduled else None
        now = setting._replace(rule=rule.at_most(0))
        self.scales = Scales.of(now, self.roots, examples)
        learning = np.asarray(setting.learning)
        # None where nothing decays: the factor is then left out of the program.
        decays = rule.decay, rule.output_decay
        factors = (None if d is None else 1 - d / N for d in decays)
        of_rows, of_outputs = factors
        of_rows = None if of_rows is None else np.where(learning > 0, of_rows, 1.0)[:, None]
        self.kept = of_rows, of_outputs
        m = min(self.batch, K)
        # Bartlett's factor: diagonal entry j of A has j degrees of freedom fewer than entry 0.
        rest = spectrum.counts - self.rows - M - np.arange(m)[:, None]
        self.degrees = np.maximum(rest, 0).astype(np.float64).ravel()
        below = L * m * (m - 1) // 2
        # Label noise is drawn even where it is zero, so that all its sizes share one program.
        self.normals = self.batch * (self.rows + M) * L + below + self.batch

    def begin(self, state: Overlaps) -> tuple[Constants, Coordinates]:
        """Coordinates in the frame; the teacher's rows, then the student's, fill its axes."""
        M = self.teacher_units
        levels = zip(np.asarray(state.gram), self.counts, strict=True)
        rows = np.stack([_coordinates(C, self.units, int(n)) for C, n in levels], axis=-1)
        B, U, V = rows[:M, :M], rows[M:, :M], rows[M:, M:]
        own = state.outputs, state.biases
        teacher = _column(state.teacher_outputs), _column(state.teacher_biases)
        taken = None if self.scheduled is None else np.zeros(())
        S = np.einsum("ijl,kjl->ikl", V, V)
        velocities = (None, None)
        if self.inertia is not None:  # they are 0 at first
            more = self.rows - self.units
            U, S = np.pad(U, ((0, more), (0, 0), (0, 0))), np.pad(S, ((0, more), (0, more), (0, 0)))
            still = lambda part: None if part is None else np.zeros((2, *np.shape(part)))
            velocities = still(state.outputs), still(state.biases)
        moving = Coordinates(U, S, *own, taken, velocities)
        return Constants(B[..., None], *teacher), moving

    def state(self, constants: Constants, now: Coordinates) -> Overlaps:
        K = self.units
        B, U = constants.B[..., 0], now.U[:K]
        lower = jnp.tril(jnp.moveaxis(now.S[:K, :K], -1, 0))
        S = lower + jnp.tril(lower, -1).swapaxes(1, 2)
        product = lambda left, right: jnp.einsum("ijl,kjl->lik", left, right)
        flat = lambda part: None if part is None else part[:, 0]
        teacher = flat(constants.outputs), flat(constants.biases)
        overlaps = product(U, U) + S, product(U, B), product(B, B)
        time = None if now.taken is None else Elapsed(now.taken / jnp.sum(self.counts))
        return Overlaps(*overlaps, now.outputs, now.biases, *teacher, time)

    def step(
        self, constants: Constants, now: Coordinates, normals: Array, chi_squares: Array
    ) -> Coordinates:
        K, M, b, L = self.rows, self.teacher_units, self.batch, len(self.roots)
        runs = normals.shape[-1]
        own, below, noise = self._split(normals)
        g = own.reshape(b, M + K, L, runs)
        g_T, g_S = g[:, :M], g[:, M:]
        U, S = now.U, now.S
        # Only levels of few dimensions bound the rank; without them the test is left out.
        room = jnp.clip(self.counts - M, 0, K)[:, None] if self.scarce else None
        v, used = root_times(S, g_S, room)
        if self.scarce:
            g_T = jnp.where(jnp.arange(M)[:, None, None] < self.counts[:, None], g_T, 0.0)
            g_S = jnp.where(_counted(used, room), g_S, 0.0)
        lam = jnp.asarray(self.roots)[:, None]
        x = jnp.sum(lam * (_times(U, g_T) + v), axis=2)[:, : self.units]
        y = jnp.sum(lam * _times(constants.B, g_T), axis=2)
        scales, taken, rate = self.scales, now.taken, 1.0
        if self.scheduled is not None and taken is not None:
            setting = self.scheduled.at_step(taken[0])  # the same in all runs
            examples = jnp.sum(self.counts) * self.batch
            scales, taken = Scales.of(setting, self.roots, examples), taken + 1
            rate = setting.rule.learning_rate
        delta, steps = self._moved(constants, now, x, y, noise, scales)
        s, k = jnp.asarray(scales.rows)[:, None], self.kept[0]
        rest = self._rest(delta, g_S, below, chi_squares.reshape(-1, L, runs))
        if self.inertia is None:
            parts, velocities = self._parts(now, steps), now.velocities
        else:
            carried = Momentum.of(self.inertia, rate, 1.0 if k is None else k, self.split)
            S = carried.rows(carried.rows(S).swapaxes(0, 1))
            U, v = carried.rows(U), carried.rows(v, 1)
            delta, rest = carried.spread(delta, 1), carried.spread(carried.spread(rest, 0), 1)
            parts, velocities = self._carried_parts(carried, now, steps)
        d = delta[:, :, None, None]  # (b, K, 1, 1, runs)
        cross = jnp.sum(d * v[:, None], axis=0)
        cross = cross + cross.swapaxes(0, 1)
        if self.inertia is None and k is not None:
            U, S, cross = k * U, k**2 * S, k * cross
        U, S = U + s * jnp.sum(d * g_T[:, None], axis=0), S + s * cross + s**2 * rest
        return Coordinates(U, S, parts[0], parts[1], taken, velocities)

    def _split(self, normals: Array) -> tuple[Array, Array, Array]:
        """The normals of a step: input components, entries of A below its diagonal, label noise."""
        size = self.batch * (self.rows + self.teacher_units) * len(self.roots)
        end = len(normals) - self.batch
        return normals[:size], normals[size:end], normals[end:]

    def _moved(
        self,
        constants: Constants,
        now: Coordinates,
        x: Array,
        y: Array,
        noise: Array,
        scales: "Scales",
    ) -> tuple[Array, "Steps"]:
        """δ, (b, K, runs), and what its gradient adds to outputs and biases; 0 if they rest."""
        student, teacher = self.networks
        v, b = _first(now.outputs, student.outputs), _first(now.biases, student.biases)
        t, c = _first(constants.outputs, teacher.outputs), _first(constants.biases, teacher.biases)
        x, y = x if b is None else x + b, y if c is None else y + c
        values, slopes = jax.jvp(student.g, (x,), (jnp.ones_like(x),))
        summed = lambda weights, units: jnp.sum(
            units if weights is None else weights * units, axis=1
        )
        target, output = teacher.scale * summed(t, teacher.g(y)), student.scale * summed(v, values)
        e = self.pull(target, output, self.noise * noise)[:, None]
        delta = slopes * e if v is None else v * slopes * e
        outputs, biases = 0.0, 0.0
        if "outputs" in self.train:
            outputs = scales.outputs * jnp.sum(values * e, axis=0)
        if "biases" in self.train:
            biases = scales.biases * jnp.sum(delta, axis=0)
        return delta, (outputs, biases)

    @property
    def _kept_outputs(self) -> Array | None:
        return self.kept[1] if "outputs" in self.train else None

    def _parts(self, now: Coordinates, steps: Steps) -> tuple[Array | None, Array | None]:
        """Outputs and biases after steps that the gradient adds to them."""
        after = lambda part, step: None if part is None else part + step
        kept, outputs = self._kept_outputs, now.outputs
        outputs = outputs if kept is None or outputs is None else kept * outputs
        return after(outputs, steps[0]), after(now.biases, steps[1])

    def _carried_parts(self, carried: Momentum, now: Coordinates, steps: Steps) -> tuple[Any, Any]:
        """Outputs and biases with momentum, and their velocities."""
        # A rate of their own is constant, and may be 1.
        of = [carried._replace(rate=1.0) if own else carried for own in self.own_rates]
        outputs, of_outputs = of[0].part(
            now.outputs, now.velocities[0], steps[0], self._kept_outputs
        )
        biases, of_biases = of[1].part(now.biases, now.velocities[1], steps[1], None)
        return (outputs, biases), (of_outputs, of_biases)

    def pull(self, target: Array, output: Array, noise: Array) -> Array:
        """E, which multiplies the gradient of the output: that of a squared loss."""
        return target - output + noise

    def _rest(self, delta: Array, g_S: Array, below: Array, chi_squares: Array) -> Array:
        """Σ_ab δ_a δ_bᵀ (g_a · g_b + rest_a · rest_b) over a batch, (K, K, L, runs)."""
        # For one example the Wishart matrix is the chi-square itself.
        if self.batch == 1:
            d, lengths = delta[0, :, None], jnp.sum(g_S[0] ** 2, axis=0) + chi_squares[0]
            return d[:, None] * d * lengths
        along = jnp.sum(delta[:, :, None, None] * g_S[:, None], axis=0)  # (K, K, L, runs)
        A = self._bartlett(below, chi_squares)
        if self.batch <= self.units:
            outside = jnp.sum(delta[:, :, None, None] * A[:, None], axis=0)
        else:
            gram = jnp.sum(delta[:, :, None] * delta[:, None], axis=0)[:, :, None]
            outside = root_times(gram, A.swapaxes(0, 1))[0].swapaxes(0, 1)
        square = lambda Y: jnp.sum(Y[:, None] * Y, axis=2)
        return square(along) + square(outside)

    def _bartlett(self, below: Array, chi_squares: Array) -> Array:
        """The lower triangular A of the rests, (m, m, L, runs), m = min(b, K)."""
        m, L, runs = chi_squares.shape
        rows, columns = np.tril_indices(m, -1)
        # A column without degrees of freedom does not exist.
        there = (jnp.asarray(self.degrees).reshape(m, L, 1) > 0)[columns]
        entries = jnp.where(there, below.reshape(len(rows), L, runs), 0.0)
        A = jnp.zeros((m, m, L, runs)).at[rows, columns].set(entries)
        return A.at[np.arange(m), np.arange(m)].set(jnp.sqrt(chi_squares))

    @property
    def lanes(self) -> int:
        size = len(self.roots) * self.rows * (self.rows + self.teacher_units)
        return 1 if size >= LARGE else LANES

    @property
    def operations(self) -> float:
        K, b, L, d = self.rows, self.batch, len(self.roots), self.rows + self.teacher_units
        return L * (K**3 / 3 + b * (d**2 + 3 * K * d) + (b > 1) * K**3)


def _first(carried: Array | None, stated: Array | None) -> Array | None:
    return stated if carried is None else carried


def _column(part: Array | None) -> Array | None:
    return None if part is None else part[:, None]


def _times(rows: Array, g: Array) -> Array:
    """Rows (n, M, L, runs) times g (b, M, L, runs): (b, n, L, runs)."""
    return jnp.sum(rows * g[:, None], axis=2)


def _counted(used: Array, room: Array) -> Array:
    """Which components of g_S stand for an axis: those in use, then others up to `room`."""
    spare = room - jnp.sum(used, axis=0)
    unused_before = jnp.cumsum(~used, axis=0) - ~used
    return used | (unused_before < spare)


def _coordinates(C: np.ndarray, units: int, count: int) -> np.ndarray:
    """Rows (teacher, then student) whose Gram matrix is C, (d, d), in at most `count` axes.

    A factor of C, rotated so that the teacher's rows are lower triangular. Coordinates as small as
    rounding become zero, so that a student inside the teacher's span has no axis outside it.
    """
    d = len(C)
    C = np.roll(C, d - units, axis=(0, 1))  # teacher first
    F = gram_factor(C)
    rank = F.shape[1]
    if rank > count:
        raise ValueError(
            f"state: the overlaps of a level have rank {rank}; "
            f"allowed is at most its dimension {count}"
        )
    turn, _ = np.linalg.qr(F[: d - units].T, mode="complete")
    rows, lengths = F @ turn, np.sqrt(np.maximum(np.diag(C), 0.0))
    rows[np.abs(rows) <= rounding(d) * lengths[:, None]] = 0.0
    return np.pad(rows, ((0, 0), (0, d - rank)))
