"""Claims on one number per seed: an end of the interval of their mean has to clear a bound."""

from typing import Any

import numpy as np

from learndyn.studies.claims import Claim, Sentence, claim
from learndyn.studies.statistics import student_bound, student_tolerance


def mean_claim(statement: str, source: str, **options: Any) -> Sentence:
    """A sentence that also gives the mean over seeds, which is not part of its name."""
    return claim(f"{statement} (mean {{mean:.3g}})", source, name=statement, **options)


def ends(values: Any) -> tuple[float, float]:
    """The ends of Student's interval of the mean, each passed with the chance LEVEL.

    They are NaN where a value is: a run that never arrives does not fulfil a claim.
    """
    values = np.asarray(values, np.float64)
    half = student_bound(len(values), sides=1) * values.std(ddof=1) / np.sqrt(len(values))
    return float(values.mean() - half), float(values.mean() + half)


def surely_below(sentence: Sentence, values: Any, bound: float, **fields: Any) -> Claim:
    """The mean over seeds lies below a bound, beyond what chance allows; see `mean_claim`."""
    filled = sentence.format(mean=np.asarray(values, np.float64).mean(), **fields)
    return filled.at_most(ends(values)[1], bound, _chance(values))


def surely_above(sentence: Sentence, values: Any, bound: float, **fields: Any) -> Claim:
    """The mean over seeds lies above a bound, beyond what chance allows; see `mean_claim`."""
    filled = sentence.format(mean=np.asarray(values, np.float64).mean(), **fields)
    return filled.at_least(ends(values)[0], bound, _chance(values))


def _chance(values: Any):
    return student_tolerance(0.0, len(values), "seeds", sides=1)
