"""The times at which a trajectory is recorded, and the steps nearest to them."""

from typing import Any

import jax
import numpy as np

from learndyn.runtime.checks import finite, numbers
from learndyn.runtime.interruption import warn

LARGEST_STEP = 2**62  # below 2^63, so that a block of steps can be added without overflow
FEWEST = 64  # number of times that fewer are padded to
OFF_GRID = 0.01  # relative distance between a time and its nearest step that causes no warning


def increasing_times(times: Any) -> np.ndarray:
    """Returns the times as float64, or raises if they are not non-negative and increasing."""
    values = np.atleast_1d(numbers("times", times))
    if values.ndim != 1 or values.size == 0:
        raise ValueError(f"times: got shape {values.shape}; allowed is a non-empty list of numbers")
    finite("times", values)
    if values[0] < 0:
        raise ValueError(f"times: got {values[0]:g} first; allowed are non-negative times")
    if np.any(np.diff(values) <= 0):
        i = int(np.argmax(np.diff(values) <= 0))
        pair = f"{values[i]:g} before {values[i + 1]:g}"
        raise ValueError(f"times: got {pair}; allowed are strictly increasing times")
    return values


def padded(times: np.ndarray) -> np.ndarray:
    """The times, the last one repeated up to one of a few lengths, so that programs are shared."""
    return padded_rows(times, len(times))


def padded_rows(rows: Any, count: int) -> Any:
    """A pytree of `count` rows, the last one repeated likewise."""
    more = max(FEWEST, 1 << (count - 1).bit_length()) - count
    pad = lambda leaf: np.pad(leaf, [(0, more), *[(0, 0)] * (np.ndim(leaf) - 1)], mode="edge")
    return jax.tree.map(pad, rows)


def step_numbers(times: np.ndarray, steps_per_time: Any) -> np.ndarray:
    """The step nearest to each time, as int64; raises for a time beyond step 2^62."""
    times = np.asarray(times, dtype=np.float64)
    with np.errstate(over="ignore"):  # an infinite step is refused below, like any too large one
        steps = np.rint(times * np.float64(steps_per_time))
    beyond = np.flatnonzero(~(steps <= LARGEST_STEP))
    if len(beyond):
        time, step = times.flat[beyond[0]], steps.flat[beyond[0]]
        raise ValueError(
            f"times: got {time:g}, which is step {step:g}; allowed are steps up to 2^62"
        )
    return steps.astype(np.int64)


def warn_off_grid(times: np.ndarray, steps: np.ndarray, steps_per_time: Any, what: str) -> None:
    """Warns, once, if the recorded steps stand for times other than the requested ones.

    A time is moved by at most half a step, which matters only for early times: changes of up to
    1 % cause no warning.

    Args:
        times: the requested times.
        steps: the step numbers that stand for them.
        steps_per_time: the number of steps per unit of time.
        what: the public function that was called.
    """
    taken = steps / np.float64(steps_per_time)
    moved = np.flatnonzero(np.abs(taken - times) > OFF_GRID * times)
    if len(moved):
        i = moved[0]
        warn(
            f"{what}: {len(moved)} times lie between steps; {times[i]:g} stands for step "
            f"{steps[i]}, which is time {taken[i]:g}"
        )
