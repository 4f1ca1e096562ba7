"""The overlaps of a committee on a mixture as an exact Markov chain, for every N.

As `dynamics.chain`, in a frame whose first axes span the teacher and the means. In cluster c, which
a step draws for each example with probability p_c, the input in level l is

    (μ_c + √λ_lc g_T, √λ_lc g_S, √λ_lc rest),

so that √λ_lc, which was part of s, now belongs to the examples:

    U ← k U + s δ (μ_c + √λ_lc g_T)ᵀ,    s = h / N
    S ← k² S + k s √λ_lc (δ (V g_S)ᵀ + (V g_S) δᵀ) + s² λ_lc δ δᵀ (|g_S|² + χ²)

With several outputs δ_i = g'_i Σ_o v_io e_o. It is the exact distribution of the state for Gaussian
noise, any means, and variances λ_lc that share their eigenvectors.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy

from learndyn.networks import Committee
from learndyn.numerics.gaussian import AbstractActivation
from learndyn.numerics.semidefinite import root_times
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.types import Array
from learndyn.theory.chain import LANES, AbstractChain
from learndyn.theory.committee.dynamics.chain import (
    LARGE,
    Constants,
    Coordinates,
    _coordinates,
    _counted,
    _times,
)
from learndyn.theory.committee.general.setting import GeneralSetting
from learndyn.theory.committee.state import Overlaps


class Parts(NamedTuple):
    """A committee's part of the chain: g, its scale, and the numbers that it states itself."""

    g: AbstractActivation
    scale: np.ndarray
    outputs: np.ndarray | None
    biases: np.ndarray | None

    @staticmethod
    def of(network: Committee) -> "Parts":
        stated = lambda name: None if network.carries(name) else getattr(network, name)
        return Parts(network.g, network.scale, stated("outputs"), stated("biases"))

    def v(self, carried: Array | None) -> Array:
        """The output weights, (K, outputs), with a last axis for runs if they are carried."""
        weights = self.outputs if carried is None else carried
        if weights is None:
            return jnp.ones((1, 1, 1))
        runs = () if carried is None else carried.shape[-1:]
        return jnp.asarray(weights).reshape(len(weights), -1, *(runs or (1,)))

    def b(self, carried: Array | None) -> Array:
        """The biases, (K, 1) or (K, runs), or zeros."""
        biases = self.biases if carried is None else carried
        return jnp.zeros((1, 1)) if biases is None else jnp.asarray(biases).reshape(len(biases), -1)


class GeneralChain(AbstractChain):
    """The chain that the module's docstring describes.

    Args:
        setting: a covered system whose rule samples examples.
    """

    normals: int = eqx.field(static=True)
    degrees: np.ndarray
    rows: int = eqx.field(static=True)
    teachers: int = eqx.field(static=True)
    fixed: int = eqx.field(static=True)
    outputs: int = eqx.field(static=True)
    batch: int = eqx.field(static=True)
    scarce: bool = eqx.field(static=True)
    roots: np.ndarray
    thresholds: np.ndarray
    counts: np.ndarray
    networks: tuple[Parts, Parts]
    setting: GeneralSetting

    def __init__(self, setting: GeneralSetting):
        clusters, student, rule = setting.clusters, setting.student, setting.rule
        assert rule.batch is not None
        K, M, L = student.units, setting.fixed, clusters.levels
        self.rows, self.teachers, self.fixed, self.batch = K, setting.teachers, M, rule.batch
        self.outputs = int(np.prod(student.columns))
        self.scarce = bool(np.any(clusters.counts < K + M))
        self.roots, self.counts = np.sqrt(clusters.values), clusters.counts.astype(np.float64)
        self.thresholds = scipy.special.ndtri(np.cumsum(clusters.probabilities)[:-1])
        self.networks = Parts.of(student), Parts.of(setting.teacher)
        self.setting = setting
        m = min(self.batch, K)
        # Bartlett's factor: diagonal entry j of A has j degrees of freedom fewer than entry 0.
        rest = clusters.counts - K - M - np.arange(m)[:, None]
        self.degrees = np.maximum(rest, 0).astype(np.float64).ravel()
        below = L * m * (m - 1) // 2
        # Of inputs, of A below its diagonal, of label noise, and of the choice of clusters.
        self.normals = self.batch * (K + M) * L + below + self.batch * (self.outputs + 1)

    def begin(self, state: Overlaps) -> tuple[Constants, Coordinates]:
        """Coordinates in the frame; teachers and means, then the student, fill its axes."""
        M = self.fixed
        levels = zip(np.asarray(state.gram), self.counts, strict=True)
        rows = np.stack([_coordinates(C, self.rows, int(n)) for C, n in levels], axis=-1)
        B, U, V = rows[:M, :M], rows[M:, :M], rows[M:, M:]
        taken = np.zeros(()) if self.setting.rule.scheduled else None
        S = np.einsum("ijl,kjl->ikl", V, V)
        constants = Constants(B, state.teacher_outputs, state.teacher_biases)
        return constants, Coordinates(U, S, state.outputs, state.biases, taken)

    def state(self, constants: Constants, now: Coordinates) -> Overlaps:
        lower = jnp.tril(jnp.moveaxis(now.S, -1, 0))
        S = lower + jnp.tril(lower, -1).swapaxes(1, 2)
        product = lambda left, right: jnp.einsum("ijl,kjl->lik", left, right)
        B, U = constants.B, now.U
        overlaps = product(U, U) + S, product(U, B), product(B, B)
        time = None if now.taken is None else Elapsed(now.taken / jnp.sum(self.counts))
        teacher = constants.outputs, constants.biases
        return Overlaps(*overlaps, now.outputs, now.biases, *teacher, time)

    def step(
        self, constants: Constants, now: Coordinates, normals: Array, chi_squares: Array
    ) -> Coordinates:
        K, M, b, L, runs = self.rows, self.fixed, self.batch, len(self.counts), normals.shape[-1]
        own, below, noise, choice = self._split(normals)
        g = own.reshape(b, M + K, L, runs)
        g_T, g_S = g[:, :M], g[:, M:]
        room = jnp.clip(self.counts - M, 0, K)[:, None] if self.scarce else None
        v, used = root_times(now.S, g_S, room)
        if self.scarce:
            g_T = jnp.where(jnp.arange(M)[:, None, None] < self.counts[:, None], g_T, 0.0)
            g_S = jnp.where(_counted(used, room), g_S, 0.0)
        cluster = jnp.sum(choice[:, None] > self.thresholds[:, None], axis=1)  # (b, runs)
        lam = jnp.moveaxis(jnp.asarray(self.roots)[cluster], -1, 1)[:, None]  # (b, 1, L, runs)
        along = lam * g_T + self._means(constants, cluster)
        x = jnp.sum(_times(now.U, along) + lam * v, axis=2)
        y = jnp.sum(_times(constants.B[: self.teachers, :, :, None], along), axis=2)
        setting, taken = self.setting, now.taken
        if taken is not None:
            setting, taken = setting.at_step(taken[0]), taken + 1  # the same in all runs
        rule, N = setting.rule, jnp.sum(self.counts)
        learning = jnp.asarray(setting.learning)[:, None]
        s = setting.h * setting.student.scale * learning / (N * b)
        k = 1.0 if rule.decay is None else 1 - jnp.asarray(rule.decay) * learning / N
        delta, outputs, biases = self._moved(setting, constants, now, x, y, noise, cluster)
        d = delta[:, :, None, None]  # (b, K, 1, 1, runs)
        cross = jnp.sum(d * (lam * v)[:, None], axis=0)
        cross = cross + cross.swapaxes(0, 1)
        scaled = delta[:, :, None] * lam  # (b, K, L, runs)
        rest = self._rest(scaled, g_S, below, chi_squares.reshape(-1, L, runs))
        U = k * now.U + s * jnp.sum(d * along[:, None], axis=0)
        S = k**2 * now.S + k * s * cross + s**2 * rest
        return Coordinates(U, S, outputs, biases, taken)

    def _split(self, normals: Array) -> tuple[Array, Array, Array, Array]:
        """The normals of a step by their use; label noise (batch, outputs, runs)."""
        b, size = self.batch, self.batch * (self.rows + self.fixed) * len(self.counts)
        end = len(normals) - b * (self.outputs + 1)
        noise = normals[end : end + b * self.outputs].reshape(b, self.outputs, -1)
        return normals[:size], normals[size:end], noise, normals[-b:]

    def _means(self, constants: Constants, cluster: Array) -> Array:
        """The mean of the cluster of each example on the first axes, (b, M, L, runs)."""
        if not self.fixed - self.teachers:
            return jnp.zeros((1, 1, 1, 1))
        return jnp.moveaxis(jnp.asarray(constants.B)[self.teachers :][cluster], 1, -1)

    def _moved(
        self,
        setting: GeneralSetting,
        constants: Constants,
        now: Coordinates,
        x: Array,
        y: Array,
        noise: Array,
        cluster: Array,
    ) -> tuple[Array, Array | None, Array | None]:
        """δ, (b, K, runs), and outputs and biases after the step."""
        (student, teacher), rule, N = self.networks, setting.rule, jnp.sum(self.counts)
        x, v = x + student.b(now.biases), student.v(now.outputs)
        values, slopes = jax.jvp(student.g, (x,), (jnp.ones_like(x),))
        summed = lambda weights, units: jnp.sum(weights * units[:, :, None], axis=1)
        if setting.targets is None:
            stated = lambda part: None if part is None else jnp.asarray(part)[..., None]
            y = teacher.g(y + teacher.b(stated(constants.biases)))
            target = teacher.scale * summed(teacher.v(stated(constants.outputs)), y)
        else:
            target = jnp.moveaxis(jnp.asarray(setting.targets)[cluster], -1, 1)
        e = target - student.scale * summed(v, values) + setting.problem.label_noise * noise
        delta = slopes * jnp.sum(v * e[:, None], axis=2)
        outputs, biases, trained = now.outputs, now.biases, setting.student.train
        of_outputs, of_biases = (
            rate * student.scale / (N * self.batch) for rate in setting.part_rates
        )
        if "outputs" in trained:
            kept = 1.0 if rule.output_decay is None else 1 - jnp.asarray(rule.output_decay) / N
            moved = jnp.sum(values[:, :, None] * e[:, None], axis=0)
            shape = jnp.shape(jnp.asarray(outputs))
            outputs = kept * jnp.asarray(outputs) + of_outputs * moved.reshape(shape)
        if "biases" in trained:
            biases = biases + of_biases * jnp.sum(delta, axis=0)
        return delta, outputs, biases

    def _rest(self, scaled: Array, g_S: Array, below: Array, chi_squares: Array) -> Array:
        """Σ_ab δ_a δ_bᵀ (g_a · g_b + rest_a · rest_b) over a batch, (K, K, L, runs).

        `scaled` is δ √λ of every example, (batch, K, L, runs), whose covariance differs by cluster.
        """
        if self.batch == 1:
            d, lengths = scaled[0], jnp.sum(g_S[0] ** 2, axis=0) + chi_squares[0]
            return d[:, None] * d * lengths
        along = jnp.sum(scaled[:, :, None] * g_S[:, None], axis=0)
        A = self._bartlett(below, chi_squares)
        if self.batch <= self.rows:
            outside = jnp.sum(scaled[:, :, None] * A[:, None], axis=0)
        else:
            gram = jnp.sum(scaled[:, :, None] * scaled[:, None], axis=0)
            outside = root_times(gram, A.swapaxes(0, 1))[0].swapaxes(0, 1)
        square = lambda Y: jnp.sum(Y[:, None] * Y, axis=2)
        return square(along) + square(outside)

    def _bartlett(self, below: Array, chi_squares: Array) -> Array:
        """The lower triangular A of the rests, (m, m, L, runs), m = min(b, K)."""
        m, L, runs = chi_squares.shape
        rows, places = np.tril_indices(m, -1)
        # A column without degrees of freedom does not exist.
        there = (jnp.asarray(self.degrees).reshape(m, L, 1) > 0)[places]
        entries = jnp.where(there, below.reshape(len(rows), L, runs), 0.0)
        A = jnp.zeros((m, m, L, runs)).at[rows, places].set(entries)
        return A.at[np.arange(m), np.arange(m)].set(jnp.sqrt(chi_squares))

    @property
    def lanes(self) -> int:
        size = len(self.counts) * self.rows * (self.rows + self.fixed)
        return 1 if size >= LARGE else LANES

    @property
    def operations(self) -> float:
        K, b, L, d = self.rows, self.batch, len(self.counts), self.rows + self.fixed
        return L * (K**3 / 3 + b * (d**2 + 3 * K * d) + (b > 1) * K**3)
