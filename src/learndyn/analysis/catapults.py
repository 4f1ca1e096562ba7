"""Catapults of a loss: spikes that return, and steps at a rate above the critical one.

There are two definitions, which are kept apart. By the loss, a catapult is a *spike*: a rise above
the running minimum, followed by a return. By the rule, it is an *excess*: steps with
η − η_crit(batch) > 10⁻⁸ (zhu2024catapults, Sec. 4.4). A `Match` says how often they coincide,
together with the base rate.

Entry t of every history belongs to the weights after t steps and to the next step: the loss at
these weights, and η and η_crit of the examples of step t → t + 1.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from learndyn.analysis.arguments import variable_of
from learndyn.runtime.checks import numbers, positive, shown
from learndyn.runtime.tables import Shown, shown_as_table
from learndyn.runtime.types import Number

EXCESS = 1e-8  # smallest η − η_crit of an excess, as in Sec. 4.4
FLOOR = 1e-12  # relative to the first loss: smaller losses are rounding errors
LARGEST = 700.0  # exp of this is still finite
SHORTEST = 3  # entries of a history: before, peak and after
NORMAL = 1.4826  # standard deviation over median absolute deviation, for a normal distribution
LAGS, STRETCHES = (
    (1, 2, 4, 8, 16),
    50,
)  # lags of bends, and how many of the longest must fit into a history
OPTIONAL = ("rate", "critical_rate", "kernel_norm", "loss_top", "batch_loss", "batch_loss_after")


class Spike(NamedTuple):
    """A catapult by the loss.

    Attributes:
        onset: step of the running minimum that it rises from.
        peak: step of its largest loss.
        end: first step after the peak at which it has returned.
        rise: ratio of the losses at the peak and at the onset.
        kernel_drop: 1 − ratio of the kernel norms at the end and at the onset; NaN if not recorded.
        top_share: share of the rise in the top s eigenspaces of the kernel; NaN if not recorded.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> loss = np.exp(-0.1 * np.arange(40.0))
        >>> loss[20:24] *= [3, 9, 4, 1]
        >>> critical = np.where((np.arange(40) > 18) & (np.arange(40) < 22), 0.5, 2.0)
        >>> found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=critical)
        >>> spike = found.spikes[0]
        >>> spike.onset, spike.peak, spike.end, round(float(spike.rise), 2)
        (19, 21, 23, 7.37)
    """

    onset: int
    peak: int
    end: int
    rise: float
    kernel_drop: float
    top_share: float


class Excess(NamedTuple):
    """A catapult by the rule: consecutive steps with η − η_crit > 10⁻⁸.

    Attributes:
        onset: the first of them.
        end: the last of them.
        largest: the largest η/η_crit there.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> loss = np.exp(-0.1 * np.arange(40.0))
        >>> loss[20:24] *= [3, 9, 4, 1]
        >>> critical = np.where((np.arange(40) > 18) & (np.arange(40) < 22), 0.5, 2.0)
        >>> found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=critical)
        >>> found.excesses[0]
        Excess(onset=19, end=21, largest=2.0)
    """

    onset: int
    end: int
    largest: float


class Match(NamedTuple):
    """How often events of one definition coincide with the other, and the base rate.

    Attributes:
        rate: share of the events with η > η_crit; NaN without events.
        base: the same share among all steps (or all stretches as long as the events).
        events: the number of events.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> loss = np.exp(-0.1 * np.arange(40.0))
        >>> loss[20:24] *= [3, 9, 4, 1]
        >>> critical = np.where((np.arange(40) > 18) & (np.arange(40) < 22), 0.5, 2.0)
        >>> found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=critical)
        >>> match = found.increase_match  # steps that raised the loss, and all steps
        >>> match.events, match.rate, round(match.base, 3)
        (2, 1.0, 0.077)
    """

    rate: float
    base: float
    events: int


@shown_as_table
class Catapults(NamedTuple):
    """The result of `find_catapults`.

    Attributes:
        spikes: catapults by the loss.
        excesses: catapults by the rule; None unless rate and critical rate are known at every step.
        spike_match: spikes with an excess between onset and peak, against stretches as long.
        increase_match: steps that raise the loss and have η > η_crit (Table 4.2).
        batch_match: the same for steps that raise the loss of the examples they saw.
        unreturned: onset of a rise that has not returned by the end; None if there is none.
        diverged_at: the first step at which the loss is not finite; None if there is none.
        threshold: the smallest rise that counts as a spike.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> loss = np.exp(-0.1 * np.arange(40.0))
        >>> loss[20:24] *= [3, 9, 4, 1]
        >>> critical = np.where((np.arange(40) > 18) & (np.arange(40) < 22), 0.5, 2.0)
        >>> found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=critical)
        >>> len(found.spikes), len(found.excesses), found.diverged_at
        (1, 1, None)
    """

    spikes: tuple[Spike, ...]
    excesses: tuple[Excess, ...] | None
    spike_match: Match | None
    increase_match: Match | None
    batch_match: Match | None
    unreturned: int | None
    diverged_at: int | None
    threshold: float

    @property
    def steps_above(self) -> int | None:
        """The number of steps with η − η_crit > 10⁻⁸: the thesis's count of catapults."""
        return None if self.excesses is None else sum(e.end - e.onset + 1 for e in self.excesses)

    def _shown(self) -> Shown:
        """The spikes, one per row, and in the caption what happened besides."""
        texts = [f"{len(self.spikes)} spike{'' if len(self.spikes) == 1 else 's'}"]
        texts += [f"{self.steps_above} steps above η_crit"] if self.excesses is not None else []
        for name in ("spike", "increase", "batch"):
            match = getattr(self, f"{name}_match")
            if match is not None:
                texts.append(f"{name} match {match.rate:.0%} (base rate {match.base:.0%})")
        texts += [f"not returned since step {self.unreturned}"] * (self.unreturned is not None)
        texts += [f"diverged at step {self.diverged_at}"] * (self.diverged_at is not None)
        rows = [(number, *spike) for number, spike in enumerate(self.spikes, 1)]
        return Shown("Catapults: " + "; ".join(texts), rows, ("", *Spike._fields))


def find_catapults(
    record: Any,
    *,
    variable: str | None = None,
    run: int | None = None,
    rise: Number = 1.1,
    noise: Number = 9.0,
    back: Number = 0.5,
    rate: Any = None,
    critical_rate: Any = None,
    kernel_norm: Any = None,
    loss_top: Any = None,
) -> Catapults:
    """Catapults of a loss history, by the loss and by the rule.

    A spike begins where ln loss exceeds its running minimum by max(ln rise, noise · σ), with σ the
    standard deviation of the noise, estimated from medians of second differences. It has returned
    where it has lost the share `back` of its height in ln loss. After that the running minimum
    starts anew. A rise that never returns is not a spike.

    False positives, on losses with noise and without spikes (five curves of 1000 steps; 300 draws
    for each size of noise, with seeds that were not used during development): with independent
    noise in ln loss of five sizes from 0.01 to 0.5, no spike in 1500 histories. With correlated
    noise, AR(1), 0 of 1500 at correlation 0.8, 1 at 0.9, and 2.5 % at 0.95. In return, spikes must
    stand out: with noise of 0.03 in ln loss, a factor of 1.5 is found, one of 1.3 mostly not.

    Args:
        record: a record of `simulate` or `Recorder`, or a loss history with one entry per step.
        variable: the loss in a record; None is `error`, or `loss` if there is no `error`.
            Values that are not finite before the run diverged are missing values, and left out.
        run: the run, for a record with several.
        rise: smallest ratio of a spike to the running minimum.
        noise: smallest height of a spike, in standard deviations of independent noise.
        back: share of its height, in ln loss, that a spike must lose to have returned, in (0, 1].
        rate: η, one number or one per step; None is the record's `rate`.
        critical_rate: η_crit of the examples that each step sees, for the optimiser in use; None is
            the record's. It may be NaN at the beginning, where a preconditioned optimiser has no
            state: these steps count as not above.
        kernel_norm: ‖K‖ at each step; None is the record's.
        loss_top: the loss in the top s eigenspaces, in the loss's own units; None is the record's.

    Returns:
        Events by both definitions, and how often they match.

    Raises:
        ValueError: for a history too short for a spike, negative losses, or unequal lengths.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> loss = np.exp(-0.1 * np.arange(40.0))
        >>> loss[20:24] *= [3, 9, 4, 1]
        >>> found = ld.analysis.find_catapults(loss, rate=1.0, critical_rate=np.full(40, 2.0))
        >>> [(s.onset, s.peak, s.end) for s in found.spikes], found.steps_above
        ([(19, 21, 23)], 0)
    """
    rise, noise, back = _checked(rise, noise, back)
    histories = {"rate": rate, "critical_rate": critical_rate, "kernel_norm": kernel_norm}
    loss, steps, rest = _histories(record, variable, run, histories | {"loss_top": loss_top})
    bad = np.flatnonzero(~np.isfinite(loss))
    end = int(bad[0]) if len(bad) else len(loss)
    gone = int(steps[end]) if len(bad) else None
    loss, steps = loss[:end], steps[:end]
    rest = {name: values[: end + 1] for name, values in rest.items()}
    height, spikes, open_ = _spikes(loss, np.log(rise), noise, back)
    above = _above(rest, end) if np.all(np.diff(steps) == 1) else None
    return Catapults(
        tuple(_spike(loss, steps, rest, *each) for each in spikes),
        None if above is None else _excesses(above, steps, rest),
        _spike_match(spikes, above) if above is not None else None,
        _increase_match(loss[:-1], loss[1:], above) if above is not None else None,
        _batch_match(rest, above) if above is not None and "batch_loss_after" in rest else None,
        None if open_ is None or gone is not None else int(steps[open_]),
        gone,
        float(np.exp(min(height, LARGEST))),
    )


def _checked(rise: Number, noise: Number, back: Number) -> tuple[float, float, float]:
    if not float(positive("rise", rise)) > 1:
        raise ValueError(f"rise: got {rise!r}; allowed is a number above 1")
    if not float(positive("back", back)) <= 1:
        raise ValueError(f"back: got {back!r}; allowed is a number above 0, up to 1")
    return float(rise), float(positive("noise", noise)), float(back)


def _histories(record: Any, variable: str | None, run: int | None, histories: dict[str, Any]):
    """The loss, its steps, and the other histories, with one entry per step each."""
    if isinstance(record, xr.Dataset):
        record, loss = _one_run(record, variable, run)
        known = {name: record[name].values for name in OPTIONAL if name in record}
        steps = record["step"].values if "step" in record.coords else np.arange(len(loss))
    else:
        loss, known = numbers("record", record), {}
        steps = np.arange(loss.size)
    _check_loss(loss)
    known |= {name: value for name, value in histories.items() if value is not None}
    rest = {name: _like(name, value, len(loss)) for name, value in known.items()}
    kept = np.ones(len(loss), bool)
    if isinstance(record, xr.Dataset) and "diverged_at" in record and "time" in record.coords:
        diverged = (
            record["time"].values >= record["diverged_at"].values
        )  # False if it did not diverge: diverged_at is NaN then
        kept = np.isfinite(loss) | diverged
    return loss[kept], steps[kept], {name: values[kept] for name, values in rest.items()}


def _one_run(record: xr.Dataset, variable: str | None, run: int | None):
    """One run of a record, and its loss."""
    curve = variable_of(record, variable)
    count = record.sizes.get("run", 1)
    if run is not None and not (isinstance(run, int | np.integer) and 0 <= run < count):
        raise ValueError(f"run: got {shown(run)}; allowed is None, or a number below {count}")
    if "run" not in curve.dims:
        return record, curve.values
    if run is None and record.sizes["run"] > 1:
        raise ValueError(f"run: got None; allowed is one of the record's {record.sizes['run']}")
    return record.isel(run=run or 0), curve.isel(run=run or 0).values


def _check_loss(loss: np.ndarray) -> None:
    if loss.ndim != 1:
        raise ValueError(f"record: got a loss of shape {loss.shape}; allowed is one entry per step")
    if len(loss) < SHORTEST:
        raise ValueError(f"record: got {len(loss)} losses; allowed are at least {SHORTEST}")
    if np.any(loss < 0):
        raise ValueError(
            f"record: got the loss {np.nanmin(loss):g}; allowed are non-negative losses"
        )


def _like(name: str, value: Any, length: int) -> np.ndarray:
    value = numbers(name, value)
    if value.ndim and value.shape != (length,):
        raise ValueError(
            f"{name}: got shape {value.shape}; allowed is one entry per step, {length}"
        )
    return np.broadcast_to(value, length)


def _spikes(loss: np.ndarray, least: float, noise: float, back: float):
    """The threshold, (onset, peak, end) of every spike, and the onset of an unreturned rise."""
    if len(loss) < SHORTEST:
        return least, [], None
    x = np.log(np.maximum(loss, FLOOR * (loss[0] or 1.0)))
    height = max(least, noise * _spread(x))
    spikes, low, peak = [], 0, None
    for t in range(1, len(x)):
        if peak is None:
            low = t if x[t] < x[low] else low
            peak = t if x[t] - x[low] > height else None
        elif x[t] > x[peak]:
            peak = t
        elif x[t] <= x[peak] - back * (x[peak] - x[low]):
            spikes.append((low, peak, t))
            low, peak = t, None
    return height, spikes, None if peak is None else low


def _spread(x: np.ndarray) -> float:
    """The standard deviation of noise around a smooth curve, also of correlated noise.

    It is estimated from the second differences x(t − k) − 2 x(t) + x(t + k), which have variance
    6 σ² for independent noise. Straight stretches cancel in them, and curved ones nearly do if k is
    far below the length. Spikes are rare, so medians ignore them. Correlated noise shows only at
    larger k.
    """
    lags = [k for k in LAGS if k == 1 or k * STRETCHES <= len(x)]
    bends = [np.median(np.abs(x[2 * k :] - 2 * x[k:-k] + x[: -2 * k])) for k in lags]
    return NORMAL * float(max(bends)) / np.sqrt(6)


def _spike(loss, steps, rest: dict[str, np.ndarray], onset: int, peak: int, end: int) -> Spike:
    kernel, top = rest.get("kernel_norm"), rest.get("loss_top")
    drop = np.nan if kernel is None else 1 - kernel[end] / kernel[onset]
    share = np.nan if top is None else (top[peak] - top[onset]) / (loss[peak] - loss[onset])
    rise = loss[peak] / (loss[onset] or np.nan)
    first, top_step, last = (int(steps[i]) for i in (onset, peak, end))
    return Spike(first, top_step, last, float(rise), float(drop), float(share))


def _above(rest: dict[str, np.ndarray], end: int) -> np.ndarray | None:
    """Whether η − η_crit > 10⁻⁸, at every step that was taken; None if that is not known."""
    if "rate" not in rest or "critical_rate" not in rest:
        return None
    unknown = np.isnan(rest["critical_rate"][:end])
    begun = int(np.argmin(unknown)) if not unknown.all() else 0
    excess = (rest["rate"] - rest["critical_rate"])[:end]
    return None if np.any(np.isnan(excess[begun:])) else excess > EXCESS


def _excesses(above: np.ndarray, steps: np.ndarray, rest: dict[str, np.ndarray]):
    ratio = (rest["rate"] / rest["critical_rate"])[: len(above)]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], above, [False]]).astype(int)))
    ends = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return tuple(
        Excess(int(steps[a]), int(steps[b - 1]), float(np.max(ratio[a:b]))) for a, b in ends
    )


def _spike_match(spikes: list[tuple[int, int, int]], above: np.ndarray) -> Match:
    hits = [bool(above[onset:peak].any()) for onset, peak, _ in spikes]
    bases = [_share_of_stretches(above, peak - onset) for onset, peak, _ in spikes]
    mean = lambda shares: float(np.mean(shares)) if spikes else float("nan")
    return Match(mean(hits), mean(bases), len(spikes))


def _share_of_stretches(above: np.ndarray, length: int) -> float:
    """The share of stretches of a given length that contain an excess."""
    return float(np.lib.stride_tricks.sliding_window_view(above, length).any(axis=1).mean())


def _increase_match(before: np.ndarray, after: np.ndarray, above: np.ndarray) -> Match:
    above = above[: len(before)]
    grew = after > before
    rate = float(above[grew].mean()) if grew.any() else np.nan
    return Match(rate, float(above.mean()), int(grew.sum()))


def _batch_match(rest: dict[str, np.ndarray], above: np.ndarray) -> Match:
    last = len(above) - 1
    return _increase_match(rest["batch_loss"][:last], rest["batch_loss_after"][1 : last + 1], above)
