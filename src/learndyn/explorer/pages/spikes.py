"""What was found in a loss history, in words and as shaded stretches."""

from typing import TYPE_CHECKING

from learndyn.explorer.views import Span

if TYPE_CHECKING:
    import numpy as np

    from learndyn.analysis.catapults import Catapults

RETURNS = ": the loss returns by itself. Nothing needs to be done; a lower rate avoids that"
CATAPULTS = {True: "catapults" + RETURNS, False: "a catapult" + RETURNS}
OFTEN = 0.5  # of the stretches, above which a match says little
WEAK = (
    ". As η exceeds η_crit most of the time, that says little: in a catapult the norm of the "
    "tangent kernel drops, too"
)
NOISE = (
    "no catapult: batches that pull apart, or examples that stand out. Take a larger batch or a "
    "lower rate, or look at the examples of these steps"
)


def spans(found: "Catapults", steps: "np.ndarray") -> list[Span]:
    """Spikes from onset to end, each at its steps."""
    at = lambda entry: float(steps[min(entry, len(steps) - 1)])
    return [
        Span(at(s.onset), at(s.end), f"spike at step {at(s.peak):g}, × {s.rise:.3g}")
        for s in found.spikes
    ]


def story(found: "Catapults", steps: "np.ndarray") -> list[str]:
    """What it is, and what to do about it."""
    at = lambda entry: f"{steps[min(entry, len(steps) - 1)]:g}"
    sentences = []
    if found.diverged_at is not None:
        first = at(found.diverged_at)
        sentences.append(
            f"The loss is not finite from step {first} on: divergence. A lower rate helps."
        )
    if found.unreturned is not None:
        sentences.append(
            f"From step {at(found.unreturned)} on the loss rises and does not return by the end: "
            "if η is far above η_crit this is divergence, and a lower rate helps."
        )
    if found.spikes:
        sentences.append(_of_spikes(found))
    return sentences or [
        "No spike of the loss: nothing rises above the running minimum and returns."
    ]


def _of_spikes(found: "Catapults") -> str:
    count, match = len(found.spikes), found.spike_match
    many = f"{count} spike{'s' * (count != 1)} of the loss"
    if match is None:
        return (
            f"{many}. With the learning rate and the critical one at every step one could say "
            "whether they are catapults: `ld.Recorder` records them."
        )
    above = round(match.rate * count)  # with η > η_crit between onset and peak
    if above == 0:
        none = "none with" if count > 1 else "without"
        return f"{many}, {none} η > η_crit on the way up: {NOISE}."
    chance = f"by chance, {match.base:.0%} of stretches as long have that"
    what = f"({chance}): {CATAPULTS[above > 1]}" + WEAK * (match.base > OFTEN)
    if above == count:
        whole = "all " * (count > 1)
        return f"{many}, {whole}with η > η_crit on the way up {what}."
    some = f"{above} with η > η_crit on the way up {what}"
    return f"{many}, {some}. The others: {NOISE}."
