"""Closed forms of one mode against the same matrix power in sixty digits."""

from decimal import Decimal, getcontext

import numpy as np
import pytest

from learndyn.theory.linearised.modes import Law, factor, gain, largest_pull, powers

EPS = 2.0**-52
LAWS = [Law(), *(Law(beta, nesterov) for beta in (0.5, 0.99) for nesterov in (False, True))]


def exact(pull: Decimal, beta: Decimal, nesterov: bool, steps: int) -> list[float]:
    """The matrix of `steps` steps in (u, v), and (1 − own)/pull."""
    getcontext().prec = 60
    b = beta * beta if nesterov else beta
    step = [[1 - pull - (beta * pull if nesterov else 0), -b], [pull, beta]]
    whole = [[Decimal(1), Decimal(0)], [Decimal(0), Decimal(1)]]
    times = lambda A, B: [
        [sum(A[i][k] * B[k][j] for k in range(2)) for j in range(2)] for i in range(2)
    ]
    while steps:
        whole = times(whole, step) if steps % 2 else whole
        step, steps = times(step, step), steps // 2
    own, *rest = (float(entry) for row in whole for entry in row)
    rest[1] = float(whole[1][0] / pull)
    return [own, *rest, float((1 - whole[0][0]) / pull)]


def pulls(law: Law) -> list[float]:
    """From rounding to the largest one, and close to those at which two roots meet."""
    beta = float(law.momentum)
    slow = (1 - beta) / (1 + beta) if law.nesterov else 1 - np.sqrt(beta)
    meet = [slow**2] if law.nesterov else [slow**2, (1 + np.sqrt(beta)) ** 2]
    near = [m * (1 + d) for m in meet for d in (0, 1e-15, -1e-12, 1e-8, -1e-4)]
    every = [1e-18, 1e-10, 1e-3, 0.3, 1.0, 1.2, 1.9, 3.5, *(near if beta else [])]
    return [x for x in every if x < largest_pull(law)]


@pytest.mark.parametrize("law", LAWS, ids=str)
@pytest.mark.parametrize("steps", [0, 1, 2, 7, 1001, 10**6])
def test_any_number_of_steps_at_once(law, steps):
    """As accurate as rounding of pull and momentum allows."""
    x = pulls(law)
    found = np.stack(powers(np.array(x), steps, law), axis=1)
    if not law.momentum:  # nothing to keep
        found[:, 1:4] = 0
    for pull, row in zip(x, found, strict=True):
        settings = Decimal(pull), Decimal(float(law.momentum))
        wanted = np.array(exact(*settings, law.nesterov, steps))
        around = [
            exact(
                settings[0] * (1 + Decimal(a)), settings[1] * (1 + Decimal(b)), law.nesterov, steps
            )
            for a, b in ((EPS, 0), (0, EPS))
        ]
        if not law.momentum:
            wanted[1:4] = 0
            around = [np.where([1, 0, 0, 0, 1], each, 0) for each in around]
        allowed = 20 * sum(np.abs(each - wanted) for each in around) + 1e-13 * np.maximum(
            1, np.abs(wanted)
        )
        # The gain is 1 − own over a pull that is not small for all that is not overdamped.
        allowed[4] += 20 * EPS * np.max(np.abs(row[0] - 1) + 1) / max(pull, slow_of(law))
        assert np.all(np.abs(row - wanted) <= allowed), (pull, row, wanted)


def slow_of(law: Law) -> float:
    return ((1 - float(law.momentum)) / (1 + float(law.momentum))) ** 2 / 2


@pytest.mark.parametrize("law", LAWS, ids=str)
def test_modes_grow_above_the_largest_pull_only(law):
    edge = largest_pull(law)
    below, above = np.abs(factor(edge * np.array([1 - 1e-3, 1 + 1e-3]), 10**5, law))
    assert below < 1e-3 and above > 1e3


@pytest.mark.parametrize("law", [Law(flow=True), Law(0.9, flow=True), Law(0.9, True, True)])
def test_a_flow_is_the_limit_of_many_small_steps(law):
    """The distance falls in proportion to the step."""
    t, x = 2.0, np.array([0.03, 0.1])
    wanted, miss = factor(x, t, law), []
    for parts in (1000, 2000):
        miss.append(factor(x / parts, t * parts, law._replace(flow=False)) - wanted)
    np.testing.assert_allclose(miss[0] / miss[1], 2, rtol=0.05)
    np.testing.assert_allclose(gain(0.0, t, law), t / (1 - law.momentum))
    np.testing.assert_allclose(gain(x, t, law) * x, 1 - wanted, rtol=1e-12)


def test_divergence_gives_infinities_without_a_warning():
    assert np.isinf(factor(3.0, 10**6)) and np.isinf(gain(3.0, 10**6))
    assert factor(1.0, np.array([0, 1, 5])).tolist() == [1, 0, 0]
