"""What `plateau_exact` claims."""

import numpy as np
import xarray as xr

import learndyn as ld
from learndyn.studies.claims import Claim
from learndyn.theory.committee import errata
from learndyn.theory.committee.plateau import erf_uniform

ORDER = 2  # of the moments that Eq. 98 is shown for


def origin(data: xr.Dataset) -> int:
    """The number of the time α_0 on the plateau: 2 τ after the start."""
    return int(np.searchsorted(data["alpha"].values, 2 * float(data["tau_116"])))


def check(data: xr.Dataset) -> list[Claim]:
    """Uniform teachers to rounding, the escape to first order, drawn teachers to second."""
    return [*_heights(data), *_rates(data), *_escapes(data), *_newton(data), *_orders(data)]


def _heights(data: xr.Dataset) -> list[Claim]:
    R, Q = {"kind": 0}, {"kind": 1}
    higher, printed = data["moments_98"], data["moments_printed"]
    newton, exact = "Newton's fixed point", "exact fixed point"
    return [
        _height("R*", newton, "Eq. 97", data["overlaps"][R], data["overlaps_97"][R]),
        _height("Q*", newton, "Eq. 97", data["overlaps"][Q], data["overlaps_97"][Q]),
        _height(f"R*^({ORDER})", newton, "Eq. 98", data["moments"][R], higher[R], printed[R]),
        _height(f"Q*^({ORDER})", newton, "Eq. 98", data["moments"][Q], higher[Q], printed[Q]),
        _height("ε*", newton, "Eq. 99", data["error"], data["error_99"], data["error_printed"]),
        _height(
            f"R*^({ORDER}) at D = 0",
            exact,
            "Eq. 96",
            *(data[name] for name in ("separate", "separate_96", "separate_printed")),
        ),
    ]


def _height(what: str, where: str, source: str, measured, expected, printed=None) -> Claim:
    return Claim(
        statement=f"uniform teacher: {what} of {where}",
        source=source,
        relation="=",
        expected=float(expected),
        measured=float(measured),
        tolerance=1e-11 * abs(float(expected)),
        tolerance_from="rounding of the iteration",
        kind="claim" if printed is None else "erratum",
        printed="" if printed is None else f"{float(printed):.5g}",
        printed_value=None if printed is None else float(printed),
    )


def _rates(data: xr.Dataset) -> list[Claim]:
    M = int(data.attrs["M"])
    return [
        Claim(
            statement="uniform teacher: τ_esc against the largest eigenvalue of the Jacobian",
            source="Eq. 116",
            relation="=",
            expected=float(data["tau_116"]),
            measured=float(data["tau"]),
            tolerance=1e-8 * float(data["tau_116"]),
            tolerance_from="eigenvalues of a matrix that is not normal: root of the rounding",
        ),
        Claim(
            statement="uniform teacher: eigenvalues that are largest together, (K−1)(M−1)",
            source="App. C.3",
            relation="=",
            expected=(M - 1) ** 2,
            measured=int(data["multiplicity"]),
            tolerance=0,
            tolerance_from="a count",
            kind="finding",
        ),
    ]


def _escapes(data: xr.Dataset) -> list[Claim]:
    T, D, tau, M = *(float(data[n]) for n in ("T", "D", "tau_116")), int(data.attrs["M"])
    late = data.isel(alpha=slice(origin(data), None))
    window = float(late["alpha"][0]), float(late["alpha"][-1])
    fit = ld.analysis.fit_rate(data["alpha"].values, data["drop"].values, window=window)
    depth, small = erf_uniform.escape_depth(T, D, M), float(late["r"][-1] / data["overlaps"][0])
    printed = float(errata.printed_eq115(0.0, 1.0, tau, T, D, M))
    return [
        Claim(
            statement="ε* − ε_g grows as exp(c α/τ_esc), with c",
            source="Eqs. 15 (text) and 115",
            relation="=",
            expected=2.0,
            measured=fit.slope * tau,
            tolerance=2 * small,
            tolerance_from="r/R* at the end",
            kind="erratum",
            printed="1",
            printed_value=1.0,
        ),
        Claim(
            statement="(ε* − ε_g)/r² on leaving the plateau",
            source="Eq. 115",
            relation="=",
            expected=depth,
            measured=float(late["drop"][-1] / late["r"][-1] ** 2),
            tolerance=depth * small,
            tolerance_from="r/R* there",
            kind="erratum",
            printed=f"{printed:.4g}, with T for ((1+T)/2)²",
            printed_value=printed,
        ),
    ]


def _newton(data: xr.Dataset) -> list[Claim]:
    M = int(data.attrs["M"])
    rows = [
        ("exact heights against Newton's fixed point", 0, data["newton_gap"], 1e-12, "rounding"),
        (
            "exact rates against the Jacobian's, relative",
            0,
            data["rates_miss"],
            1e-8,
            "eigenvalues of a matrix that is not normal: root of the rounding",
        ),
        ("distinct rates of growth, M − 1", M - 1, data["distinct"], 0, "a count"),
    ]
    return [
        Claim(
            statement=f"drawn teacher: {what}",
            source="App. C.2 and C.3; fixed point of the flow",
            relation="=",
            expected=expected,
            measured=float(measured),
            tolerance=tolerance,
            tolerance_from=reason,
            kind="finding",
        )
        for what, expected, measured, tolerance, reason in rows
    ]


def _orders(data: xr.Dataset) -> list[Claim]:
    """Largest misses in units of the squared unevenness; Eq. 116 is above the fastest."""
    rows = [
        ("R_13", "Eq. 13, mean of R", "Eq. 13", "uneven_1"),
        ("error_95", "error at the fixed point of Eq. 95", "Eq. 95", "uneven_1"),
        ("error_99_drawn", "Eq. 99 (corrected)", "Eq. 99", "uneven_1"),
        ("mean_116", "Eq. 116 against the mean of the M − 1 rates", "Eq. 116", "uneven_2"),
    ]
    second = [
        Claim(
            statement=f"drawn teachers: {what}, largest miss in unevenness of T squared",
            source=source,
            relation="≤",
            expected=1.0,
            measured=float(np.abs(data[name] / data[unit] ** 2).max()),
            tolerance=0.0,
            tolerance_from="second order in T − uniform part",
        )
        for name, what, source, unit in rows
    ]
    size = np.sqrt((data["error_95"] ** 2).mean("draw"))
    above = Claim(
        statement="drawn teachers: Eq. 116 is longer than the fastest growth (least excess)",
        source="Eq. 116; exact rates",
        relation="≥",
        expected=0.0,
        measured=float(data["fastest_116"].min()),
        tolerance=float((data["uneven_2"] ** 2).max()),
        tolerance_from="the largest rate exceeds their mean; unevenness of T^(2), squared",
        kind="finding",
    )
    better = Claim(
        statement=f"Eq. 95 is better for few levels: miss at L = {int(data['L'][-1])} over "
        f"that at L = {int(data['L'][0])}",
        source="App. C.2, Fig. 17",
        relation="≥",
        expected=1.0,
        measured=float(size[-1] / size[0]),
        tolerance=0.0,
        tolerance_from="the order itself",
    )
    return [*second, above, better]
