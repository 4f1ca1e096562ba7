"""Times that show what happens to a system."""

import numpy as np

from learndyn.runtime.checks import positive_int
from learndyn.runtime.interruption import interruptible
from learndyn.solving.solve import solve
from learndyn.starting import Start
from learndyn.system import System
from learndyn.theory import clock_of, theory_of

FIRST, LAST = 10.0, 1e6  # ends of the shortest and of the longest trial, in units of time
FACTOR = 10.0  # between the ends of one trial and of the next
QUIET = 100.0  # ratio of the end to the last change, after which nothing more is expected
SETTLED = 0.01  # of the curve's whole range: smaller changes do not count
BEYOND = 1.25  # ratio of the suggested end to the last change
TRIAL = 128  # times of a trial
LOOSE = 1e-5  # tolerance of a trial


@interruptible
def suggest_times(
    system: System, points: int = 161, *, start: Start | None = None, key: int = 0
) -> np.ndarray:
    """Times from 0 to a little after the error has settled, a whole number of steps apart.

    The theory is solved over longer and longer times, until nothing has changed for a hundred times
    as long as it took to get there: plateaus are waited for. A solution that diverges is followed
    until then.

    Args:
        system: the system; a theory must cover it.
        points: how many times.
        start: the initial condition; None samples `start(system, key=key)`.
        key: seed of that sample.

    Returns:
        The times, in the system's unit.

    Raises:
        NoTheory: if no theory covers the system.

    Example:
        >>> import learndyn as ld
        >>> problem = ld.TeacherStudent(ld.Isotropic(50), ld.Committee(1, "linear"))
        >>> system = ld.System(problem, ld.Committee(1, "linear"), ld.SGD(0.5))
        >>> float(ld.suggest_times(system)[-1]) < 100
        True
    """
    points, end, theory = positive_int("points", points), FIRST, theory_of(system)
    steps = float(clock_of(system, theory).steps)
    while True:
        times = np.geomspace(end / 1e4, end, TRIAL - 1)
        times = np.concatenate([[0.0], np.unique(np.ceil(times * steps)) / steps])
        record = solve(system, times, start=start, key=key, rtol=LOOSE, atol=LOOSE * LOOSE)
        if str(record["outcome"].values) != "finished":
            return _spaced(BEYOND * float(record["diverged_at"]), points, steps)
        last = _last_change(times, record["error"].values)
        if last * QUIET <= end or end >= LAST:
            return _spaced(BEYOND * max(last, times[1]), points, steps)
        end *= FACTOR


def _spaced(end: float, points: int, steps: float) -> np.ndarray:
    """Times a whole number of steps apart, up to `end` or a little further."""
    apart = max(1.0, np.ceil(end * steps / max(points - 1, 1))) / steps
    return np.linspace(0.0, apart * (points - 1), points)


def _last_change(times: np.ndarray, error: np.ndarray) -> float:
    """The last time at which the error is off its final value by more than counts."""
    away = np.abs(error - error[-1]) > SETTLED * np.ptp(error)
    return float(times[np.flatnonzero(away)[-1]]) if away.any() else 0.0
