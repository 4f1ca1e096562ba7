"""Catapults of a loss: spikes that return, and steps at a rate above the critical one.

Two definitions, which are kept apart. The loss's: a *spike*, a rise over the running minimum with a
return. The rule's: an *excess*, steps with η − η_crit(batch) > 10⁻⁸ (zhu2024catapults, Sec. 4.4).
How often they meet is a `Match`, which always has its base rate beside it.

Entry t of every history belongs to the weights after t steps, and to the step that follows: the
loss there, and η and η_crit of the examples that step t → t + 1 sees.
"""

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from learndyn.numerics.checks import numbers, positive, shown
from learndyn.numerics.types import Number

EXCESS = 1e-8  # of η over η_crit, as in Sec. 4.4
FLOOR = 1e-12  # of the first loss: below this, losses are rounding
LARGEST = 700.0  # logarithm of a number still
SHORTEST = 3  # before, peak and after
NORMAL = 1.4826  # a normal law's standard deviation over its median absolute deviation
LAGS, STRETCHES = (1, 2, 4, 8, 16), 50  # of bends, and how often the largest fits a history
OPTIONAL = ("rate", "critical_rate", "kernel_norm", "loss_top", "batch_loss", "batch_loss_after")


class Spike(NamedTuple):
    """A catapult by the loss.

    Attributes:
        onset: step of the running minimum that it rises from.
        peak: step of its largest loss.
        end: first step after the peak at which it has returned.
        rise: loss at the peak over that at the onset.
        kernel_drop: 1 − kernel norm at the end over that at the onset; NaN where not recorded.
        top_share: share of the rise in the top s eigenspaces of the kernel; NaN likewise.
    """

    onset: int
    peak: int
    end: int
    rise: float
    kernel_drop: float
    top_share: float


class Excess(NamedTuple):
    """A catapult by the rule: steps in a row with η − η_crit > 10⁻⁸.

    Attributes:
        onset: the first of them.
        end: the last of them.
        largest: the largest η/η_crit there.
    """

    onset: int
    end: int
    largest: float


class Match(NamedTuple):
    """How often events of one definition are ones of the other, and how often anything is.

    Attributes:
        rate: share of the events with η > η_crit; NaN without events.
        base: the share that steps (or stretches as long as the events) have at any time.
        events: how many there are.
    """

    rate: float
    base: float
    events: int


class Catapults(NamedTuple):
    """What `find_catapults` finds.

    Attributes:
        spikes: by the loss.
        excesses: by the rule; None where rate and critical rate are not known at every step.
        spike_match: spikes with an excess between onset and peak, against stretches as long.
        increase_match: steps that raise the loss, and η > η_crit in them (Table 4.2).
        batch_match: steps that raise the loss of the very examples they saw.
        unreturned: onset of a rise that the history ends in; None without one.
        diverged_at: the first step at which the loss is not finite; None without one.
        threshold: the least rise that counted as a spike.
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


def find_catapults(
    record: Any,
    *,
    variable: str = "error",
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
    standard deviation of the history's noise, by medians of its bends, and has returned where it
    has lost the share `back` of its height in ln loss. The minimum begins anew where a spike has
    returned. A rise that never returns is no spike.

    On losses with noise and no spike (five curves of 1000 steps; 300 draws for each size of noise,
    with seeds that were not used while writing) one is found in none of 1500 histories with
    independent noise of ln loss of five sizes from 0.01 to 0.5. Noise that follows itself, AR(1),
    is mistaken for one in 0 of 1500 at 0.8, 1 at 0.9, and 2.5 % at 0.95. Spikes must stand out for
    that: beside noise of 0.03 in ln loss one of a factor 1.5 is found, one of 1.3 mostly not.

    Args:
        record: a record of `simulate` or `Recorder`, or a loss history, one entry a step.
        variable: the loss in a record.
        run: which run of a record with several.
        rise: least ratio of a spike to the running minimum.
        noise: least height of a spike, in standard deviations of independent noise.
        back: share of its height, in ln loss, that a spike must lose to have returned, in (0, 1].
        rate: η, a number or one a step; None is the record's `rate`.
        critical_rate: η_crit of the examples that each step sees; None is the record's.
        kernel_norm: ‖K‖ at each step; None is the record's.
        loss_top: the loss in the top s eigenspaces, in the loss's own units; None is the record's.

    Returns:
        Events by both definitions, and how often they match.

    Raises:
        ValueError: for a history too short for a spike, negative losses, other lengths.

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
    given = {"rate": rate, "critical_rate": critical_rate, "kernel_norm": kernel_norm}
    loss, steps, rest = _histories(record, variable, run, given | {"loss_top": loss_top})
    bad = np.flatnonzero(~np.isfinite(loss))
    end = int(bad[0]) if len(bad) else len(loss)
    gone = int(steps[end]) if len(bad) else None
    loss, steps = loss[:end], steps[:end]
    rest = {name: values[: end + 1] for name, values in rest.items()}
    height, found, open_ = _spikes(loss, np.log(rise), noise, back)
    above = _above(rest, end) if np.all(np.diff(steps) == 1) else None
    return Catapults(
        tuple(_spike(loss, steps, rest, *each) for each in found),
        None if above is None else _excesses(above, steps, rest),
        _spike_match(found, above) if above is not None else None,
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


def _histories(record: Any, variable: str, run: int | None, given: dict[str, Any]):
    """The loss, its steps, and what else is known, each one entry a step."""
    if isinstance(record, xr.Dataset):
        record = _one_run(record, variable, run)
        loss = record[variable].values
        known = {name: record[name].values for name in OPTIONAL if name in record}
        steps = record["step"].values if "step" in record.coords else np.arange(len(loss))
    else:
        loss, known = numbers("record", record), {}
        steps = np.arange(loss.size)
    _check_loss(loss)
    known |= {name: value for name, value in given.items() if value is not None}
    return loss, steps, {name: _like(name, value, len(loss)) for name, value in known.items()}


def _one_run(record: xr.Dataset, variable: str, run: int | None) -> xr.Dataset:
    if not isinstance(variable, str) or variable not in record:
        names = ", ".join(map(str, record.data_vars))
        raise ValueError(f"variable: got {shown(variable)}; allowed is one of {names}")
    count = record.sizes.get("run", 1)
    if run is not None and not (isinstance(run, int | np.integer) and 0 <= run < count):
        raise ValueError(f"run: got {shown(run)}; allowed is None, or a number below {count}")
    if "run" not in record[variable].dims:
        return record
    if run is None and record.sizes["run"] > 1:
        raise ValueError(f"run: got None; allowed is one of the record's {record.sizes['run']}")
    return record.isel(run=run or 0)


def _check_loss(loss: np.ndarray) -> None:
    if loss.ndim != 1:
        raise ValueError(f"record: got a loss of shape {loss.shape}; allowed is one entry a step")
    if len(loss) < SHORTEST:
        raise ValueError(f"record: got {len(loss)} losses; allowed are at least {SHORTEST}")
    if np.any(loss < 0):
        raise ValueError(f"record: got the loss {np.nanmin(loss):g}; allowed are none below 0")


def _like(name: str, value: Any, length: int) -> np.ndarray:
    value = numbers(name, value)
    if value.ndim and value.shape != (length,):
        raise ValueError(f"{name}: got shape {value.shape}; allowed is one entry a step, {length}")
    return np.broadcast_to(value, length)


def _spikes(loss: np.ndarray, least: float, noise: float, back: float):
    """The threshold, (onset, peak, end) of every spike, and the onset of one that is not over."""
    if len(loss) < SHORTEST:
        return least, [], None
    x = np.log(np.maximum(loss, FLOOR * (loss[0] or 1.0)))
    height = max(least, noise * _spread(x))
    found, low, peak = [], 0, None
    for t in range(1, len(x)):
        if peak is None:
            low = t if x[t] < x[low] else low
            peak = t if x[t] - x[low] > height else None
        elif x[t] > x[peak]:
            peak = t
        elif x[t] <= x[peak] - back * (x[peak] - x[low]):
            found.append((low, peak, t))
            low, peak = t, None
    return height, found, None if peak is None else low


def _spread(x: np.ndarray) -> float:
    """The standard deviation of noise around a smooth curve, also of noise that follows itself.

    By the bends x(t − k) − 2 x(t) + x(t + k), of variance 6 σ² for independent noise, in which
    straight stretches cancel and, for k far below the length, curved ones nearly do. Spikes are
    few: medians do not see them. Noise that follows itself shows at the larger k alone.
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
    """Whether η − η_crit > 10⁻⁸, at every step that was taken."""
    if "rate" not in rest or "critical_rate" not in rest:
        return None
    return (rest["rate"] - rest["critical_rate"])[:end] > EXCESS


def _excesses(above: np.ndarray, steps: np.ndarray, rest: dict[str, np.ndarray]):
    ratio = (rest["rate"] / rest["critical_rate"])[: len(above)]
    edges = np.flatnonzero(np.diff(np.concatenate([[False], above, [False]]).astype(int)))
    ends = zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True)
    return tuple(
        Excess(int(steps[a]), int(steps[b - 1]), float(np.max(ratio[a:b]))) for a, b in ends
    )


def _spike_match(found: list[tuple[int, int, int]], above: np.ndarray) -> Match:
    hits = [bool(above[onset:peak].any()) for onset, peak, _ in found]
    bases = [_share_of_stretches(above, peak - onset) for onset, peak, _ in found]
    mean = lambda shares: float(np.mean(shares)) if found else float("nan")
    return Match(mean(hits), mean(bases), len(found))


def _share_of_stretches(above: np.ndarray, length: int) -> float:
    """The share of all stretches of a length that have an excess."""
    return float(np.lib.stride_tricks.sliding_window_view(above, length).any(axis=1).mean())


def _increase_match(before: np.ndarray, after: np.ndarray, above: np.ndarray) -> Match:
    above = above[: len(before)]
    grew = after > before
    rate = float(above[grew].mean()) if grew.any() else np.nan
    return Match(rate, float(above.mean()), int(grew.sum()))


def _batch_match(rest: dict[str, np.ndarray], above: np.ndarray) -> Match:
    last = len(above) - 1
    return _increase_match(rest["batch_loss"][:last], rest["batch_loss_after"][1 : last + 1], above)
