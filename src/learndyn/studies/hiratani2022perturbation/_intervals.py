"""Claims on one number per seed: the interval of their mean has to clear a bound."""

from typing import Any

from learndyn.studies import intervals
from learndyn.studies.claims import Claim, Sentence


def surely_below(sentence: Sentence, values: Any, bound: float, **fields: Any) -> Claim:
    """The mean over seeds is below a bound; fields fill in the sentence.

    A run that never arrives has the value NaN, with which the claim fails.
    """
    return sentence.format(**fields).at_most(intervals.of_mean(values, "seeds"), bound)


def surely_above(sentence: Sentence, values: Any, bound: float, **fields: Any) -> Claim:
    """The mean over seeds is above a bound; see `surely_below`."""
    return sentence.format(**fields).at_least(intervals.of_mean(values, "seeds"), bound)


def least_below(sentence: Sentence, values: Any, bound: float) -> Claim:
    """The least of several means over seeds is below a bound.

    Their intervals hold together: the least was chosen by the same seeds.
    """
    least = intervals.of_mean(values, "seeds", over="seed", which="least")
    return sentence.at_most(least, bound)
