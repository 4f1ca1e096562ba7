"""Gaussian averages of the pulls of labels, for students of few units, by quadrature.

A step of unit i is F_i = v_i g'(x_i + b_i) e(output, label), with the label ± of a teacher of one
unit, sgn(B + b). Given the student's pre-activations x, B is Gaussian and the label has the
probability Φ(±(mean + b)/std): the teacher is integrated exactly, and what is left are the K
variables of the student. With x = A u, u standard normal and its first axis along the teacher,
the label depends on u_1 alone, which has a rule that resolves any angle to the teacher
(`numerics.gaussian.graded`); other axes have trapezoid rules.

With C = (student, teacher) the covariance of all pre-activations, Stein's lemma gives

    E[F_i z_m] = Σ_k D_ik C_km,    D_iB = p(B = −b) E[F_i(+) − F_i(−) | B = −b] (1 − 2 flips),

so that the student's columns of D follow from E[F u] without a derivative of e, which may jump. D
is the matrix that acts on every level, as in `theory.committee.dynamics.terms`.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import Committee
from learndyn.numerics.gaussian import AbstractActivation, Erf, Linear, graded
from learndyn.numerics.gaussian.erf_sums import Tanh
from learndyn.numerics.gaussian.points import normal_points
from learndyn.numerics.semidefinite import symmetric_roots
from learndyn.problems import AbstractMarginLoss
from learndyn.runtime.types import Array
from learndyn.theory.online.pull import pull

MOST_UNITS = 3  # of the student
STEPS = {2: 0.3, 3: 0.6}  # of the trapezoid rules of further axes, by the number of units
REACH = 7.5
HALVINGS = {1: 36, 2: 16, 3: 12}  # narrower strips would cost too many points in further axes
ODD = (Linear, Erf, Tanh)  # the output of a single unit changes its sign with the pre-activation
TINY = np.finfo(np.float64).tiny
ndtr = jax.scipy.special.ndtr


class Unit(NamedTuple):
    """What labels: sgn(B + bias), turned by its coefficient, and by noise with a probability."""

    sign: Array
    bias: Array
    flips: Array


class Student(NamedTuple):
    """Units of a student: g, its output weights v, its readout (scale · v), and biases."""

    g: AbstractActivation
    v: Array
    readout: Array
    biases: Array

    def output(self, x: Array) -> Array:
        """The output, for pre-activations (…, K)."""
        return self.g(x + self.biases) @ self.readout

    def steps(self, x: Array, pulls: Array) -> Array:
        """F_i, (…, K)."""
        h = x + self.biases
        return self.v * jax.jvp(self.g, (h,), (jnp.ones_like(h),))[1] * pulls[..., None]


class Averages(NamedTuple):
    """D (K, K + 1), Ω = E[F_i F_j], E[g_i e] and E[F_i]: of weights, noise, outputs and biases."""

    D: Array
    omega: Array
    outputs: Array
    biases: Array


class Frame(NamedTuple):
    """x = A u with standard normal u, and the teacher's B = along · u_1 + rest.

    Attributes:
        A: (K, K).
        inverse: its pseudo-inverse.
        along: the covariance of B and u_1.
        std: the standard deviation of B at given u.
        T: the variance of B.
    """

    A: Array
    inverse: Array
    along: Array
    std: Array
    T: Array

    @staticmethod
    def of(sigma: Array) -> "Frame":
        """The frame of a covariance of student and teacher, (K + 1, K + 1)."""
        root, inverse = symmetric_roots(sigma[:-1, :-1])
        w, T = inverse @ sigma[:-1, -1], sigma[-1, -1]
        along = jnp.sqrt(jnp.sum(w**2))
        # Householder's reflection between w and the first axis; none where they coincide.
        n = (w / jnp.maximum(along, TINY)).at[0].add(-1.0)
        square = jnp.sum(n**2)
        there = (along > 0) & (square > 0)
        H = jnp.eye(len(w)) - 2 * jnp.outer(n, n) * jnp.where(
            there, 1 / jnp.where(there, square, 1.0), 0.0
        )
        return Frame(root @ H, H @ inverse, along, jnp.sqrt(jnp.maximum(T - along**2, 0.0)), T)

    def probability(self, u1: Array, unit: Unit, clean: bool = False) -> Array:
        """That the label is +1, with noise or before it."""
        distance = self.along * u1 + unit.bias
        plus = ndtr(unit.sign * distance / jnp.maximum(self.std, TINY))
        return plus if clean else unit.flips + (1 - 2 * unit.flips) * plus


Points = Callable[[Array], tuple[Array, Array]]


def averages(criterion: AbstractMarginLoss, student: Student, unit: Unit, sigma: Array) -> Averages:
    """The averages at a covariance of the pre-activations, (K + 1, K + 1)."""
    frame, K = Frame.of(sigma), len(sigma) - 1
    panelled = resolved(criterion, K, student.g)
    u, weights = _points(criterion, student, unit, frame, panelled)
    x, plus = u @ frame.A.T, frame.probability(u[:, 0], unit)
    output, units = student.output(x), student.g(x + student.biases)
    omega, mean, along, readout = jnp.zeros((K, K)), 0.0, 0.0, 0.0
    for label, chance in ((1.0, plus), (-1.0, 1 - plus)):
        e, each = pull(criterion, output, jnp.full_like(output, label)), weights * chance
        F = student.steps(x, e)
        omega += (F * each[:, None]).T @ F
        mean, along = mean + each @ F, along + (F * each[:, None]).T @ u
        readout += (each * e) @ units
    teacher = _teacher_column(criterion, student, unit, frame)
    own = (along - jnp.outer(teacher, frame.along * jnp.eye(K)[0])) @ frame.inverse
    D = jnp.concatenate([own, teacher[:, None]], axis=1)
    return Averages(D, omega, jnp.asarray(readout), jnp.asarray(mean))


def _teacher_column(
    criterion: AbstractMarginLoss, student: Student, unit: Unit, frame: Frame
) -> Array:
    """D_iB: the step that changes where the teacher's sign does."""
    middle = -unit.bias * frame.along / frame.T
    std = frame.std / jnp.sqrt(frame.T)
    first = lambda u1: (u1 - middle) / jnp.maximum(std, TINY)
    panelled = resolved(criterion, len(student.v), student.g)
    u, weights = _points(criterion, student, unit, frame, panelled, first)
    u = u.at[:, 0].set(middle + std * u[:, 0])
    x = u @ frame.A.T
    output = student.output(x)
    F = lambda label: student.steps(x, pull(criterion, output, jnp.full_like(output, label)))
    density = jnp.exp(-(unit.bias**2) / (2 * frame.T)) / jnp.sqrt(2 * jnp.pi * frame.T)
    return unit.sign * density * (1 - 2 * unit.flips) * (weights @ (F(1.0) - F(-1.0)))


def mean_of(
    function: Callable[[Array, Array], Array],
    criterion: AbstractMarginLoss,
    student: Student,
    unit: Unit,
    sigma: Array,
) -> Array:
    """E[function(output, label)] over labels without noise."""
    frame = Frame.of(sigma)
    u, weights = _points(criterion, student, unit, frame, True)
    plus, output = frame.probability(u[:, 0], unit, clean=True), student.output(u @ frame.A.T)
    ones = jnp.ones_like(output)
    return weights @ (plus * function(output, ones) + (1 - plus) * function(output, -ones))


def misclassified(
    criterion: AbstractMarginLoss, student: Student, unit: Unit, sigma: Array
) -> Array:
    """The probability that output and label differ in sign; an output of 0 counts as half."""
    frame = Frame.of(sigma)
    odd = len(student.v) == 1 and isinstance(student.g, ODD)
    u, weights = _points(criterion, student, unit, frame, odd)
    plus, output = frame.probability(u[:, 0], unit, clean=True), student.output(u @ frame.A.T)
    wrong = jnp.where(output > 0, 1 - plus, jnp.where(output < 0, plus, 0.5))
    return weights @ wrong


def resolved(criterion: AbstractMarginLoss, units: int, g: AbstractActivation) -> bool:
    """Whether panels end at all jumps: those of losses for a linear unit, kinks for one unit."""
    single = units == 1
    return (single or g.smooth) and (criterion.jump is None or (single and isinstance(g, Linear)))


def _points(
    criterion: AbstractMarginLoss,
    student: Student,
    unit: Unit,
    frame: Frame,
    panelled: bool,
    first: Callable[[Array], Array] = lambda u1: u1,
) -> tuple[Array, Array]:
    """Points (number, K) and their weights: panels along the first axis, or quasi-random points.

    `first` turns places on the first axis into those of the variable that is integrated.
    """
    K = len(student.v)
    if not panelled:  # a jump along a curve that the axes do not follow
        u = jnp.asarray(normal_points(K))
        return u, jnp.full(len(u), 1 / len(u))
    centres = [-unit.bias / jnp.maximum(frame.along, TINY), 0.0]
    if K == 1:
        centres += _jumps(criterion, student, frame)
    places = first(jnp.clip(jnp.stack([jnp.asarray(c) for c in centres]), -1e3, 1e3))
    u1, w1 = graded.points(places, HALVINGS[K])
    if K == 1:
        return u1[:, None], w1
    h = STEPS[K]
    y = h * np.arange(-int(REACH / h), int(REACH / h) + 1)
    w = h * np.exp(-(y**2) / 2) / np.sqrt(2 * np.pi)
    rest = np.stack(np.meshgrid(*[y] * (K - 1), indexing="ij"), -1).reshape(-1, K - 1)
    other = np.prod(np.meshgrid(*[w] * (K - 1), indexing="ij"), axis=0).ravel()
    kept = other > 1e-14
    rest, other = rest[kept], other[kept]
    u = jnp.concatenate([jnp.repeat(u1, len(rest))[:, None], jnp.tile(rest, (len(u1), 1))], axis=1)
    return u, (w1[:, None] * other).ravel()


def _jumps(criterion: AbstractMarginLoss, student: Student, frame: Frame) -> list[Array]:
    """Where a single unit's output is 0, and where it is ± the jump of the loss (linear units)."""
    bias, slope = student.biases[0], frame.A[0, 0]
    slope = jnp.where(slope == 0, TINY, slope)
    places = [-bias / slope]
    if criterion.jump is not None:
        size = criterion.jump / jnp.where(student.readout[0] == 0, TINY, student.readout[0])
        places += [(size - bias) / slope, (-size - bias) / slope]
    return places


def student_of(network: Committee, v: Array | None, biases: Array | None) -> Student:
    """The student's units, with ones and zeros for what it leaves out."""
    v = jnp.ones(network.units) if v is None else jnp.asarray(v)
    b = jnp.zeros(network.units) if biases is None else jnp.asarray(biases)
    return Student(network.g, v, jnp.asarray(network.scale) * v, b)
