"""Committee machines: students that learn from a teacher of the same kind."""

from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Choice, Control, Flag, Slider, Values
from learndyn.explorer.pages.base import AbstractSystemPage, on_steps
from learndyn.explorer.pages.tables import landmarks
from learndyn.explorer.views import Axis, Band, Chart, Mark, Series, View

if TYPE_CHECKING:
    import threading

    import numpy as np
    import xarray as xr

    from learndyn import System

TIME = "time, steps / N"
DASHES = 3  # kinds of lines
UNITS: dict[tuple[str, ...], dict[str, str]] = {}  # of landmarks, by activation and their names


class Committee(AbstractSystemPage):
    """Error and overlaps of a soft committee machine under online SGD."""

    name = "committee"
    title = "Committee machines"
    about = (
        "A student with K hidden units learns from a teacher with M units, one fresh example per "
        "step. Lines are the theory for many inputs; networks of N inputs train on top of it."
    )
    equation = "dR/dα = η ⟨δ ζ⟩,   dQ/dα = η ⟨δ σᵀ + σ δᵀ⟩ + η² ⟨δ δᵀ⟩"
    source = "bocchi2026escape, Eq. 6; worschech2024scaling, Eqs. 18, 19"
    controls: ClassVar[dict[str, Control]] = {
        "activation": Choice("activation", ("erf", "quadratic", "linear"), compiles=True),
        "K": Slider("student units K", 1, 8, 3, whole=True, compiles=True),
        "M": Slider("teacher units M", 1, 6, 3, whole=True, compiles=True),
        "eta": Slider("learning rate η", 0.01, 10, 1.5, log=True),
        "noise": Slider("label noise σ", 0, 1, 0),
        "N": Slider("inputs N", 50, 10000, 1000, whole=True, log=True),
        "std": Slider("size of the start", 0.001, 1, 0.01, log=True),
        "horizon": Slider("time, steps / N", 10, 2000, 800, whole=True, log=True),
        "key": Slider("seed of the start", 0, 99, 0, whole=True),
        "runs": Slider("networks to train", 1, 64, 24, whole=True),
        "band": Flag("band at size N (slower)"),
    }

    def system(self, values: Values) -> "System":
        import learndyn as ld

        K, M, g = values["K"], values["M"], values["activation"]
        teacher = ld.Committee(M, g, scale=M**-0.5, init=ld.Orthonormal(1.0))
        student = ld.Committee(K, g, scale=M**0.5 / K, init=ld.Normal(values["std"]))
        inputs = ld.Isotropic(values["N"])
        problem = ld.TeacherStudent(inputs, teacher, label_noise=values["noise"])
        return ld.System(problem, student, ld.SGD(values["eta"]))

    def times(self, values: Values) -> "np.ndarray":
        return on_steps(values["horizon"], values["N"])

    def view(self, values: Values, system: "System", theory: "xr.Dataset") -> View:
        import learndyn as ld

        found = ld.theory_of(system)
        known = found.landmarks()
        kind = values["activation"], *known
        if kind not in UNITS:  # which computes the landmarks once more
            UNITS[kind] = found.landmark_units()
        view = View(charts=[self._errors(values, theory, known), self._overlaps(theory)])
        view.tables = [landmarks(known, UNITS[kind])]
        if (critical := known.get("critical_learning_rate")) is not None:
            beyond = "; η is beyond it" if values["eta"] > critical else ""
            view.hints["eta"] = f"critical at {critical:.3g}{beyond}"
        return view

    def refine(self, values: Values, cancel: "threading.Event") -> View | None:
        if not values["band"]:
            return None
        from learndyn.analysis.verdict import beyond_linear

        system, theory = self.solved(values, fluctuations=True, cancel=cancel)
        view = self.show(values, {})
        chart, error, std = view.charts[0], theory["error"], theory["error_std"]
        names = [str(name) for name in theory.data_vars if f"{name}_std" in theory]
        beyond = beyond_linear(theory, names)
        edges = {"above": error + 2 * std, "below": error - 2 * std}
        chart.series += [Series(name, edge.values, "edge") for name, edge in edges.items()]
        chart.band = Band("above", "below", f"± 2 standard deviations at N = {system.dim}")
        widest = float((std / abs(error).max()).max())
        view.notes.append(
            f"The band holds 95 % of networks of size N = {system.dim}, by linear noise; at its "
            f"widest, one standard deviation is {100 * widest:.2g} % of the largest error."
            + f" But {beyond}."
            * bool(beyond)
        )
        return view

    def solving(self, values: Values) -> dict[str, Any]:
        return {"fluctuations": values["band"]}

    def simulating(self, values: Values) -> dict[str, Any]:
        return {"method": "reduced"}  # the exact chain, of one cost for all N

    def neighbours(self, values: Values) -> list[Values]:
        units = [(name, values[name] + step) for name in ("K", "M") for step in (1, -1)]
        inside = lambda name, value: (
            isinstance(slider := self.controls[name], Slider) and slider.low <= value <= slider.high
        )
        return [{**values, name: value} for name, value in units if inside(name, value)]

    def _errors(self, values: Values, theory: "xr.Dataset", known: dict[str, float]) -> Chart:
        import learndyn as ld

        chart = Chart(
            "Generalisation error", Axis(TIME), Axis("generalisation error", log=True),
            theory["time"].values, [Series("theory", theory["error"].values)], streams="error",
        )  # fmt: skip
        level = known.get("plateau_error_full", known.get("plateau_error"))
        if level is None or "plateau_growth_rate" not in known:
            return chart
        chart.marks.append(Mark("y", level, f"plateau {level:.3g}"))
        end = float(ld.analysis.find_plateau(theory).end)
        if end < values["horizon"]:
            chart.marks.append(Mark("x", end, f"escape {end:.3g}"))
        return chart

    def _overlaps(self, theory: "xr.Dataset") -> Chart:
        _, students, teachers = theory["R"].shape
        curves = [
            Series(f"R of student {i + 1}, teacher {j + 1}", theory["R"].values[:, i, j], "other",
                   colour=j, dash=i % DASHES)
            for i in range(students) for j in range(teachers)
        ]  # fmt: skip
        axes = Axis(TIME), Axis("overlap R, a colour per teacher unit")
        return Chart("Overlaps with the teacher", *axes, theory["time"].values, curves)
