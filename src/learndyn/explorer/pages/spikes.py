"""What was found in a loss history, in words and as shaded stretches."""

from typing import TYPE_CHECKING

from learndyn.explorer.views import Span

if TYPE_CHECKING:
    import numpy as np

    from learndyn.analysis.catapults import Catapults


def spans(found: "Catapults", steps: "np.ndarray") -> list[Span]:
    """Spikes from onset to end, each at its steps."""
    at = lambda entry: float(steps[min(entry, len(steps) - 1)])
    return [
        Span(at(s.onset), at(s.end), f"spike at step {at(s.peak):g}, × {s.rise:.3g}")
        for s in found.spikes
    ]


def story(found: "Catapults") -> list[str]:
    """What it is, and what to do about it."""
    sentences = []
    if found.diverged_at is not None:
        sentences.append(
            f"The loss is not finite from entry {found.diverged_at} on: divergence. A lower rate "
            "helps."
        )
    if found.unreturned is not None:
        sentences.append(
            f"From entry {found.unreturned} on the loss rises and does not return by the end: if η "
            "is far above η_crit this is divergence, and a lower rate helps."
        )
    sentences += _of_spikes(found)
    return sentences or [
        "No spike of the loss: nothing rises above the running minimum and returns."
    ]


def _of_spikes(found: "Catapults") -> list[str]:
    if not found.spikes:
        return []
    many = f"{len(found.spikes)} spike{'s' * (len(found.spikes) != 1)} of the loss"
    if found.excesses is None:
        return [
            f"{many}. With a critical rate at every step one could say whether they are catapults."
        ]
    if not found.excesses:
        return [
            f"{many}, while η ≤ η_crit throughout: batches that disturb each other, rather than "
            "catapults. Take a larger batch, or a lower rate."
        ]
    match = found.spike_match
    rate = "" if match is None else f" ({match.rate:.0%} of them; {match.base:.0%} by chance)"
    return [
        f"{many}, with η > η_crit at {found.steps_above} steps{rate}. Spikes where η > η_crit are "
        "catapults: nothing needs to be done, or take a lower rate if they are in the way."
    ]
