"""Claims on seeds: an end of the interval of a mean has to lie on the right side."""

import numpy as np

from learndyn.studies.claims import Claim, claim
from learndyn.studies.statistics import student_bound

LEVEL = 0.01
BECAUSE = "end of the {:.0%} interval of the mean over {} seeds, Student t, against the bound"


def ends(values) -> tuple[float, float]:
    """The ends, each passed with a chance of LEVEL, of the mean of one number a seed."""
    values = np.asarray(values, np.float64)
    half = student_bound(len(values), level=LEVEL, sides=1) * values.std(ddof=1)
    half /= np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def surely_below(text: str, source: str, values, bound: float, **more) -> Claim:
    """The mean over seeds lies below a bound, beyond what chance allows."""
    values = np.asarray(values, np.float64)
    said = claim(f"{text} (mean {values.mean():.3g})", source, name=text, **more)
    return said.at_most(ends(values)[1], bound, because=_because(values), rate=1 - LEVEL)


def surely_above(text: str, source: str, values, bound: float, **more) -> Claim:
    """The mean over seeds lies above a bound, beyond what chance allows."""
    values = np.asarray(values, np.float64)
    said = claim(f"{text} (mean {values.mean():.3g})", source, name=text, **more)
    return said.at_least(ends(values)[0], bound, because=_because(values), rate=1 - LEVEL)


def _because(values: np.ndarray) -> str:
    return BECAUSE.format(1 - LEVEL, len(values))


def exponents(x, values) -> np.ndarray:
    """The exponent in x of every seed's numbers, values (seed, x); NaN where one is missing."""
    log = np.log(np.asarray(values, np.float64))
    whole = np.isfinite(log).all(1)
    found = np.full(len(log), np.nan)
    if whole.any():
        found[whole] = np.polyfit(np.log(np.asarray(x, np.float64)), log[whole].T, 1)[0]
    return found
