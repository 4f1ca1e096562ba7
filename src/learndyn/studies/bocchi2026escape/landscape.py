"""Sec. 7.2: the Hessian at the stationary points, with every eigenvalue and multiplicity.

Predicted spectra against numerical diagonalisation of the full p N × p N Hessian, the ratio of
Eq. 29, and the null directions of zero-error points told apart. Both presets are the same but for
the input dimension of the ratio; the section is analytic and has no size of its own.
"""

import dataclasses

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from learndyn.plotting import panels
from learndyn.studies.claims import Claim
from learndyn.studies.registry import Report
from learndyn.theory.committee import landscape, solutions, stationary

TITLE = "Spectra of the Hessian at the stationary points, predicted and diagonalised"
EPS = float(np.finfo(float).eps)
NAMES = dict(
    zip(
        stationary.KINDS,
        ("tabula rasa", "plateau", "zero error", "all aligned to one teacher"),
        strict=True,
    )
)


@dataclasses.dataclass(frozen=True)
class Params:
    """Sizes N, p, p* that belong together by place, and those of the ratio of Eq. 29."""

    N: tuple[int, ...] = (12, 15, 10, 9)
    p: tuple[int, ...] = (3, 5, 2, 4)
    p_star: tuple[int, ...] = (2, 3, 2, 1)
    N_ratio: int = 12
    p_star_ratio: int = 2
    key: int = 0


PRESETS = {"quick": Params(), "paper": Params(N_ratio=24)}


def compute(params: Params, report: Report) -> xr.Dataset:
    """Spectra, counts of signs on the plateau, and the risk along null directions."""
    rng = np.random.default_rng(params.key)
    sizes = list(zip(params.N, params.p, params.p_star, strict=True))
    longest = max(N * p for N, p, _ in sizes)
    spectra = np.full((2, len(NAMES), len(sizes), longest), np.nan)
    counts = []
    for i, (N, p, p_star) in enumerate(sizes):
        for k, kind in enumerate(NAMES):
            predicted = stationary.predicted_spectrum(kind, N, p, p_star)
            spectra[0, k, i, : N * p] = np.repeat(*np.transpose(predicted).tolist(), axis=0)
            hessian = landscape.hessian(*stationary.realise(_point(kind, p, p_star), N, rng))
            spectra[1, k, i, : N * p] = np.linalg.eigvalsh(hessian)
        counts.append(_null_counts(spectra[1, 2, i], N, p, p_star, rng))
        report((i + 1) / (2 * len(sizes)))
    widths, ratios = _ratios(params, rng, report)
    h, risks, quartic = _along(sizes[1], rng)
    return xr.Dataset(
        {
            "spectrum": (("source", "kind", "size", "index"), spectra),
            "null": (("size", "what"), counts),
            "ratio": (("source", "p"), ratios),
            "risk": (("direction", "h"), risks),
        },
        {
            "source": ["predicted", "measured"],
            "kind": list(NAMES),
            "size": [f"({N}, {p}, {q})" for N, p, q in sizes],
            "what": ["tangent", "tangent_predicted", "other", "other_predicted"],
            "p": widths,
            "h": h,
            "direction": ["tangent", "other"],
        },
        {"N": params.N_ratio, "p_star": params.p_star_ratio, "quartic": quartic},
    )


def _point(kind: str, p: int, p_star: int) -> stationary.StationaryPoint:
    ranks = {"tabula_rasa": (0, 0), "plateau": (0, p), "zero_error": (p_star, 0), "aligned": (1, 0)}
    return stationary.stationary_point(p, p_star, *ranks[kind])


def _null_counts(values, N: int, p: int, p_star: int, rng: np.random.Generator) -> list[int]:
    """Null directions of a zero-error point: along rotations of it, and the rest."""
    V, _ = stationary.realise(_point("zero_error", p, p_star), N, rng)
    null = int(np.sum(np.abs(values) < 1e-9 * np.nanmax(np.abs(values))))
    tangent = int(np.linalg.matrix_rank(solutions.rotation_directions(V)))
    known = solutions.manifold_dimension(p, p_star)
    return [tangent, known, null - tangent, (N - p_star) * (p - p_star)]


def _ratios(params: Params, rng: np.random.Generator, report: Report):
    """Negative over null eigenvalues on the plateau, for all widths that have one."""
    N, q = params.N_ratio, params.p_star_ratio
    widths = np.arange(1, N - q + 1)
    rows = []
    for p in map(int, widths):
        V, V_star = stationary.realise(_point("plateau", p, q), N, rng)
        counts = {np.sign(v): n for v, n in landscape.spectrum(landscape.hessian(V, V_star))}
        negative, null = (
            sum(n for v, n in landscape.spectrum(landscape.hessian(V, V_star)) if sign(v))
            for sign in (lambda v: v < 0, lambda v: v == 0)
        )
        rows.append((stationary.negative_to_null_ratio(N, p, q), negative / null))
        report((1 + p / len(widths)) / 2)
    return widths, np.transpose(rows)
