"""The exact chain of the overlaps, for any loss of margins and for teachers that move."""

from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.semidefinite import root_times
from learndyn.problems import AbstractMarginLoss
from learndyn.runtime.divergence import Elapsed
from learndyn.runtime.types import Array
from learndyn.theory.committee.dynamics.chain import (
    CommitteeChain,
    Constants,
    Coordinates,
    Scales,
)
from learndyn.theory.committee.state import Overlaps
from learndyn.theory.online.pull import pull
from learndyn.theory.online.setting import OnlineSetting


class OnlineChain(CommitteeChain):
    """The chain of committees with the pull of another loss.

    Args:
        setting: a covered system whose rule samples examples and whose teacher is at rest.
    """

    criterion: AbstractMarginLoss | None

    def __init__(self, setting: OnlineSetting):
        super().__init__(setting.committee)
        self.criterion = setting.criterion

    def pull(self, target: Array, output: Array, noise: Array) -> Array:
        if self.criterion is None:
            return super().pull(target, output, noise)
        return pull(self.criterion, output, jnp.sign(target + noise))


class MovingChain(OnlineChain):
    """The chain of a student and a teacher that moves.

    Student and teacher are rows Z = √N V of one Gram matrix S per level (with the partners of the
    teacher where it rotates). A step is Z ← A Z + P E, with a fixed linear map A and with P E
    from the inputs of the batch and, for diffusion, one noise vector per teacher. All vectors of E
    are standard normal: their components in the span of the rows are normals g, those outside have
    a Wishart matrix, by Bartlett's factor. Then

        S ← A S Aᵀ + A (V g) Pᵀ + transpose + P (g gᵀ + rest) Pᵀ.

    Coordinates hold U = 0 and S of all rows.
    """

    extra: int = eqx.field(static=True)
    turn: tuple[np.ndarray, np.ndarray] | None
    fade: tuple[np.ndarray, np.ndarray] | None

    def __init__(self, setting: OnlineSetting):
        super().__init__(setting)
        own = setting.committee
        drift, N = own.problem.drift, own.spectrum.dim
        assert drift is not None
        K, M, b, L = self.units, self.teacher_units, self.batch, len(self.roots)
        turns, self.turn, self.fade = drift.rotation is not None, None, None
        if drift.rotation is not None:
            self.turn = np.cos(drift.rotation / N), np.sin(drift.rotation / N)
        if drift.diffusion is not None:
            lost = drift.diffusion / N
            noise = own.problem.teacher_std * np.sqrt(lost * (2 - lost) / N)
            self.fade = np.asarray(1 - lost), np.asarray(noise)
        self.rows, self.extra = K + M * (2 if turns else 1), 0 if turns else M
        m = b + self.extra
        rest = own.spectrum.counts - self.rows - np.arange(m)[:, None]
        self.degrees = np.maximum(rest, 0).astype(np.float64).ravel()
        self.normals = m * self.rows * L + m * (m - 1) // 2 * L + b
        self.scarce = False

    def begin(self, state: Any) -> tuple[Constants, Coordinates]:
        L, n = state.Q.shape[0], self.rows
        S = np.moveaxis(np.asarray(state.gram), 0, -1)
        column = lambda part: None if part is None else np.asarray(part)[:, None]
        teacher = column(state.teacher_outputs), column(state.teacher_biases)
        constants = Constants(np.zeros((0, 0, L, 1)), *teacher)
        taken = None if self.scheduled is None else np.zeros(())
        numbers = lambda part: None if part is None else np.asarray(part)
        parts = numbers(state.outputs), numbers(state.biases)
        return constants, Coordinates(np.zeros((n, 0, L)), S, *parts, taken)

    def state(self, constants: Constants, now: Coordinates) -> Overlaps:
        C, K = jnp.moveaxis(now.S, -1, 0), self.units
        C = jnp.tril(C) + jnp.tril(C, -1).swapaxes(1, 2)
        flat = lambda part: None if part is None else part[:, 0]
        teacher = flat(constants.outputs), flat(constants.biases)
        time = None if now.taken is None else Elapsed(now.taken / jnp.sum(self.counts))
        blocks = C[:, :K, :K], C[:, :K, K:], C[:, K:, K:]
        return Overlaps(*blocks, now.outputs, now.biases, *teacher, time)

    def step(
        self, constants: Constants, now: Coordinates, normals: Array, chi_squares: Array
    ) -> Coordinates:
        K, M, b, n, L = self.units, self.teacher_units, self.batch, self.rows, len(self.roots)
        runs, m = normals.shape[-1], self.batch + self.extra
        ends = m * n * L, normals.shape[0] - b
        g = normals[: ends[0]].reshape(m, n, L, runs)
        below, noise = normals[ends[0] : ends[1]], normals[ends[1] :]
        inner, _ = root_times(now.S, g)  # V g, (m, n, L, runs)
        fields = jnp.sum(jnp.asarray(self.roots)[:, None] * inner[:b], axis=2)
        scales, taken = self.scales, now.taken
        if self.scheduled is not None and taken is not None:
            setting = self.scheduled.at_step(taken[0])
            scales, taken = Scales.of(setting, self.roots, jnp.sum(self.counts) * b), taken + 1
        x, y = fields[:, :K], fields[:, K : K + M]
        delta, steps = self._moved(constants, now, x, y, noise, scales)
        # P, (rows, vectors, levels, runs): examples move the student, noise moves the teacher.
        P = jnp.zeros((n, m, L, runs))
        push = jnp.asarray(scales.rows)[:, None] * delta.swapaxes(0, 1)[:, :, None]
        P = P.at[:K, :b].set(push)
        if self.fade is not None:
            each = jnp.arange(M)
            P = P.at[K + each, b + each].set(jnp.asarray(self.fade[1]))
        A = self._bartlett(below, chi_squares.reshape(m, L, runs))
        E = jnp.concatenate([g, A], axis=1)  # components inside and outside of the span
        PE = jnp.sum(P[:, :, None] * E, axis=1)  # (rows, n + m, levels, runs)
        cross = self._mapped(jnp.sum(P[:, None, :] * inner.swapaxes(0, 1), axis=2).swapaxes(0, 1))
        S = self._mapped(self._mapped(self._full(now.S)).swapaxes(0, 1))
        S = S + cross + cross.swapaxes(0, 1) + jnp.sum(PE[:, None] * PE, axis=2)
        return Coordinates(now.U, S, *self._parts(now, steps), taken)

    def _full(self, S: Array) -> Array:
        """The symmetric matrix of a lower triangle, (rows, rows, levels, runs)."""
        lower = jnp.tril(jnp.ones((self.rows, self.rows)))[:, :, None, None]
        return jnp.where(lower > 0, S, S.swapaxes(0, 1))

    def _mapped(self, rows: Array) -> Array:
        """A applied to the first axis, (rows, …, levels, runs)."""
        K, M, k = self.units, self.teacher_units, self.kept[0]
        student, teacher = rows[:K], rows[K:]
        student = student if k is None else k * student
        if self.turn is not None:
            cos, sin = self.turn
            own, partner = teacher[:M], teacher[M:]
            teacher = jnp.concatenate([cos * own + sin * partner, cos * partner - sin * own])
        else:
            assert self.fade is not None
            teacher = self.fade[0] * teacher
        return jnp.concatenate([student, teacher])

    @property
    def operations(self) -> float:
        n, m, L = self.rows, self.batch + self.extra, len(self.roots)
        return L * (n**3 / 3 + 4 * n**2 * (n + m) + m * n**2)
