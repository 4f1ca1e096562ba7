"""How often a student's output differs in sign from that of a teacher that classifies.

The teacher's units are signs. For a linear student without biases and a teacher of one unit both
outputs have the sign of a Gaussian number, and they differ with the probability arccos(ρ)/π, ρ the
correlation of the two. Otherwise it is the share of fixed quasi-random pre-activations at
which they differ, with an error of about 1e-3; a sum of signs that is 0 counts as different. It is
a step function of the state, so that it has no derivative, and no standard deviation by linear
noise.
"""

import jax.numpy as jnp

from learndyn.numerics.gaussian import Linear
from learndyn.numerics.gaussian.points import normal_points
from learndyn.numerics.gaussian.sign import Sign
from learndyn.numerics.semidefinite import symmetric_roots
from learndyn.runtime.types import Array
from learndyn.theory.committee.setting import CommitteeSetting
from learndyn.theory.committee.state import Factors, Overlaps


def classifies(setting: CommitteeSetting) -> bool:
    """Whether the teacher's labels are signs, or sums of signs."""
    return isinstance(setting.teacher.g, Sign)


def error(setting: CommitteeSetting, state: Overlaps | Factors, sigma: Array) -> Array:
    """The probability that student and teacher differ in sign.

    Args:
        setting: a system whose teacher classifies.
        state: its state.
        sigma: the covariance of the pre-activations, (K + M, K + M).

    Returns:
        A number from 0 to 1.
    """
    K, c, b = setting.student.units, setting.c(state), setting.biases(state)
    if b is None and isinstance(setting.student.g, Linear) and setting.teacher.units == 1:
        readout = jnp.zeros((2, K + 1)).at[0, :K].set(-c[:K]).at[1, K].set(c[K])
        (q, r), (_, t) = readout @ sigma @ readout.T
        return jnp.arctan2(jnp.sqrt(jnp.maximum(q * t - r**2, 0.0)), r) / jnp.pi
    z = normal_points(len(c)) @ symmetric_roots(sigma)[0]
    z = z if b is None else z + b
    parts = c * setting.units.activations(z)
    output, target = -jnp.sum(parts[:, :K], axis=1), jnp.sum(parts[:, K:], axis=1)
    return jnp.mean(jnp.sign(output) != jnp.sign(target))
