"""The claims of Fig. 3: order of the rules, early stopping, and where training ends."""

import numpy as np
import xarray as xr

from learndyn.studies.claims import Claim

CONVERGED = 1e-3  # of the training loss at the start, below which a run has ended
ROOTS = ["√NGD", "√NGD-d"]
NATURAL = ["NGD", "NGD-d"]


def claims_of(data: xr.Dataset) -> list[Claim]:
    """All claims: the first case's are the paper's, the others say that its choices matter not."""
    first = data.isel(case=0)
    rankings = [claim for case in data["case"].values for claim in _rankings(data.sel(case=case))]
    ends = [_end(first, str(rule)) for rule in data["rule"].values]
    separate = [_separation(first, faster, slower, int(data.attrs["rank"]))
                for faster, slower in [("NGD", "√NGD"), ("√NGD", "SGD")]]  # fmt: skip
    return [*rankings, *separate, _straight(first), *ends, _unshared(first)]


def _rankings(case: xr.Dataset) -> list[Claim]:
    """√NGD generalises as SGD does and stops as early as NGD: each of the two nearer the one."""
    best, stop = case["best"], xr.ufuncs.log(case["stop"])
    sgd, ngd = best.sel(rule="SGD"), best.sel(rule="NGD")
    worst = best.sel(rule=["SGD", *ROOTS]).max() / best.sel(rule=NATURAL).min()
    near_sgd = ((best.sel(rule=ROOTS) - sgd) / (ngd - sgd)).max()
    lead = stop.sel(rule=ROOTS) - stop.sel(rule="NGD")
    near_ngd = (lead / (stop.sel(rule="SGD") - stop.sel(rule="NGD"))).max()
    numbers = ", ".join(f"{r} {float(best.sel(rule=r)):.3f}" for r in case["rule"].values)
    times = ", ".join(f"{r} {float(np.exp(stop.sel(rule=r))):.4g}" for r in case["rule"].values)
    rows = [
        ("NGD and NGD-d generalise worse than SGD, √NGD and √NGD-d: largest best test loss of "
         f"these over the smallest of those ({numbers})", 1.0, worst),
        ("√NGD and √NGD-d reach a test loss comparable to SGD's: distance from SGD's over that "
         "between NGD's and SGD's", 0.5, near_sgd),
        ("√NGD and √NGD-d stop about as early as NGD: distance from NGD's time over that between "
         f"SGD's and NGD's, in logarithms ({times})", 0.5, near_ngd),
    ]  # fmt: skip
    name = str(case["case"].values)
    own = name != "as given"
    return [
        Claim(
            statement=f"with another {name}: {text}" if own else text,
            source="Section 4, Fig. 3C",
            relation="≤",
            expected=bound,
            measured=float(value),
            tolerance=0.0,
            tolerance_from="the paper's order; 'comparable' read as nearer to one than the other",
            kind="finding" if own else "claim",
        )
        for text, bound, value in rows
    ]


def _separation(case: xr.Dataset, faster: str, slower: str, rank: int) -> Claim:
    """Time to half of the strongest noise mode, over that of the weakest signal mode."""
    half = {rule: _half_times(case.sel(rule=rule)) for rule in (faster, slower)}
    ratio = {rule: float(t[rank] / t[rank - 1]) for rule, t in half.items()}
    return Claim(
        statement=f"{slower} separates noise from signal in time more than {faster}: half-time of "
        "the strongest noise mode over that of the weakest signal mode",
        source="Section 4, Fig. 3D",
        relation="≥",
        expected=ratio[faster],
        measured=ratio[slower],
        tolerance=0.0,
        tolerance_from="the paper's order",
    )


def _half_times(run: xr.Dataset) -> np.ndarray:
    """The first measured time at which each mode has half of its final strength, or the last."""
    reached = (run["modes"] >= run["target"] / 2).transpose("point", "mode").values
    reached[-1] = True  # a lower bound for those that are slower
    return run["time"].values[reached.argmax(0)]


def _straight(case: xr.Dataset) -> Claim:
    """Exact NGD moves straight from about zero to the least-squares map."""
    return Claim(
        statement="damping and clipping, which hold back weak modes, leave NGD's best test loss "
        "below that of exact NGD, 1 − cos² of the angle between fitted and teacher's map",
        source="Section 4, Fig. 3C, Eq. 9",
        relation="≤",
        expected=float(case["straight"]),
        measured=float(case["best"].sel(rule="NGD")),
        tolerance=0.0,
        tolerance_from="closed form of the exact rule",
        kind="finding",
    )


def _end(case: xr.Dataset, rule: str) -> Claim:
    """Where a run ends; a triangle inequality bounds the distance by the training loss left."""
    run, level = case.sel(rule=rule), float(case["overfitted"])
    left = float(run["train"].isel(point=-1) / case["unit"])
    converged = left <= CONVERGED * float(run["train"].isel(point=0) / case["unit"])
    horizon = float(run["time"].isel(point=-1))
    found = Claim(
        statement=f"{rule} ends at the test loss of the least-squares map, overfitted",
        source="Fig. 3B, C",
        relation="=",
        expected=level,
        measured=float(run["test"].isel(point=-1)),
        tolerance=2 * np.sqrt(level * left) + left,
        tolerance_from="triangle inequality with the training loss that is left",
    )
    why = f"followed to t = {horizon:g} only, where {left:.1%} of the loss is left"
    return found if converged else found.open(why)


def _unshared(case: xr.Dataset) -> Claim:
    """NGD-d ends at the same loss on another path, so that the path cannot be why."""
    norms = case["norms"]
    spread = norms.max("layer") - norms.min("layer")
    ends = spread.isel(point=-1)
    kept = float(ends.sel(rule="NGD"))
    return Claim(
        statement="rules end at one test loss because the least-squares map is unique, not by a "
        "shared path: NGD-d, which ends there too, has left the path on which the layers' ‖w_i‖² "
        f"differ as at the start; largest difference at the end (NGD {kept:.2g})",
        source="Section 4",
        relation="≥",
        expected=float(spread.isel(point=0).sel(rule="NGD-d")),
        measured=float(ends.sel(rule="NGD-d")),
        tolerance=0.0,
        tolerance_from="the conservation law (Theorem 1) keeps the difference",
        kind="erratum",
        printed="the same test loss after overfitting is due to the shared learning path",
    )
