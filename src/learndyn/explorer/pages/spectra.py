"""Inputs with a power-law spectrum: the error falls as a power of time."""

from typing import TYPE_CHECKING, ClassVar

from learndyn.explorer.controls import Choice, Control, Slider, Values
from learndyn.explorer.pages.base import MANY, POINTS, AbstractSystemPage
from learndyn.explorer.pages.tables import landmarks
from learndyn.explorer.views import Axis, Chart, Mark, Series, Table, View

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from learndyn import System

TIME = "time, steps / N"
FIRST = 0.1  # the first time: curves are on logarithmic axes


class Spectra(AbstractSystemPage):
    """A linear student whose inputs have a power-law spectrum."""

    name = "spectra"
    title = "Spectra"
    about = (
        "A linear student learns from inputs whose covariance has eigenvalues λₖ ∝ k^−(1+β). "
        "Between the first and the last level, the error falls as time to the power −β/(1+β)."
    )
    equation = "error ∝ α^(−s), s = β/(1+β), for 1 < 2ηλ₁α < Γ(1+s)^(1/s) L^(1+β)"
    source = "worschech2024scaling, Eqs. 8, 9"
    controls: ClassVar[dict[str, Control]] = {
        "exponent": Slider("exponent β", 0.1, 3, 1),
        "levels": Choice("levels", ("64", "4", "8", "16", "32", "128")),
        "dim": Choice("inputs N", ("1024", "256", "4096")),
        "eta": Slider("learning rate η", 0.001, 1, 0.1, log=True),
        "horizon": Slider("time, steps / N", 10, 100000, 1000, whole=True, log=True),
        "key": Slider("seed of the start", 0, 99, 0, whole=True),
        "runs": Slider("networks to train", 1, 16, 8, whole=True),
    }

    def system(self, values: Values) -> "System":
        import learndyn as ld

        spectrum = ld.PowerLaw(int(values["dim"]), int(values["levels"]), values["exponent"])
        teacher = ld.Committee(1, "linear", init=ld.Orthonormal(1.0))
        student = ld.Committee(1, "linear", init=ld.Normal(0.001))
        return ld.System(ld.TeacherStudent(spectrum, teacher), student, ld.SGD(values["eta"]))

    def times(self, values: Values) -> "np.ndarray":
        import numpy as np

        return np.geomspace(max(FIRST, MANY / int(values["dim"])), values["horizon"], POINTS)

    def view(self, values: Values, system: "System", theory: "xr.Dataset") -> View:
        import numpy as np

        import learndyn as ld

        found, time, error = ld.theory_of(system), theory["time"].values, theory["error"].values
        beta = values["exponent"]
        predicted = beta / (1 + beta)
        axes = Axis(TIME, True), Axis("generalisation error", True)
        ends = _window(values)
        curve = Chart(
            "Generalisation error", *axes, time, [Series("theory", error)], ends, streams="error"
        )
        with np.errstate(divide="ignore", invalid="ignore"):
            slopes = Series("−d ln error / d ln time", -np.gradient(np.log(error), np.log(time)))
        mark = Mark("y", predicted, f"β/(1+β) = {predicted:.3g}")
        local = Chart(
            "Local slope", Axis(TIME, True), Axis("local exponent"), time, [slopes], [mark]
        )
        view = View(charts=[curve, local])
        rows = [("predicted, β/(1+β)", f"{predicted:.4g}"), *_fitted(theory)]
        known = found.landmarks()
        view.tables = [
            Table("Exponent", ("", "value"), rows), landmarks(known, found.landmark_units())
        ]  # fmt: skip
        critical = known.get("critical_learning_rate")
        view.hints["eta"] = "" if critical is None else f"critical at {critical:.3g}"
        return view


def _window(values: Values) -> list[Mark]:
    """Where the power law begins and ends."""
    import learndyn as ld
    from learndyn.theory.committee.power_law.learning_curve import window

    spectrum = ld.PowerLaw(int(values["dim"]), int(values["levels"]), values["exponent"])
    about = {"L": int(values["levels"]), "beta": values["exponent"], "eta": values["eta"]}
    ends = window(lam_plus=float(spectrum.values[0]), **about)
    labels = ("power law begins", "ends")
    return [Mark("x", at, f"{text} {at:.3g}") for at, text in zip(ends, labels, strict=True)]


def _fitted(theory: "xr.Dataset") -> list[tuple[str, str]]:
    """The exponent of the straightest part of the curve."""
    import learndyn as ld

    kept = theory["error"].values > 0
    try:
        fit = ld.analysis.fit_power_law(
            theory["time"].values[kept], theory["error"].values[kept], window="auto", straight=0.03
        )
    except ValueError:
        return [("fitted", "no part of the curve is straight")]
    low, high = fit.window
    return [(f"fitted from {low:.3g} to {high:.3g}", f"{-fit.slope:.4g}")]
