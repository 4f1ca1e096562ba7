"""Deep linear networks: modes that are learned one after another."""

from typing import TYPE_CHECKING, ClassVar

from learndyn.explorer.controls import Control, Slider, Values
from learndyn.explorer.pages.base import AbstractSystemPage, on_steps
from learndyn.explorer.pages.tables import landmarks
from learndyn.explorer.views import Axis, Chart, Mark, Series, Table, View

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from learndyn import System

TIME = "steps"
MODES = ("first", "second", "third")


class DeepLinear(AbstractSystemPage):
    """Singular modes under gradient descent and fractional natural gradients."""

    name = "deep-linear"
    title = "Deep linear"
    about = (
        "A product of matrices learns a linear map with three singular values, from layers aligned "
        "with it. Power 0 is gradient descent, 1 is the natural gradient."
    )
    equation = "dσᵢ/dt = −(σ̄ − σ̄*) jᵢ ‖j‖^(−2 power),   jᵢ = ∂σ̄/∂σᵢ"
    source = "curvature2020linear, Eqs. 12, 18"
    runs = False
    controls: ClassVar[dict[str, Control]] = {
        "depth": Slider("layers", 1, 6, 2, whole=True, compiles=True),
        "power": Slider("power of the curvature", 0, 1, 0),
        "eta": Slider("learning rate η", 0.001, 0.5, 0.02, log=True),
        "strength": Slider("strength of the start", 0.001, 1, 0.05, log=True),
        "first": Slider("first singular value", 0.1, 5, 3),
        "second": Slider("second singular value", 0.1, 5, 1.5),
        "third": Slider("third singular value", 0.1, 5, 0.5),
        "horizon": Slider("steps", 10, 10000, 500, whole=True, log=True),
    }

    def system(self, values: Values) -> "System":
        import numpy as np

        import learndyn as ld

        target = np.diag([values[name] for name in MODES])
        strengths = np.full((len(MODES), values["depth"]), values["strength"])
        network = ld.DeepLinear([len(MODES)] * (values["depth"] + 1), init=ld.Aligned(strengths))
        problem = ld.TeacherStudent(ld.Isotropic(len(MODES)), ld.LinearTeacher(len(MODES), target))
        return ld.System(problem, network, ld.NaturalGradient(values["eta"], power=values["power"]))

    def times(self, values: Values) -> "np.ndarray":
        return on_steps(values["horizon"], 1)

    def view(self, values: Values, system: "System", theory: "xr.Dataset") -> View:
        import learndyn as ld

        found, time = ld.theory_of(system), theory["time"].values
        error = [Series("theory", theory["error"].values)]
        errors = Chart(
            "Error", Axis(TIME), Axis("loss above its floor", True), time, error, streams="error"
        )
        targets = sorted((values[name] for name in MODES), reverse=True)
        strengths = theory["map"].values
        modes = [
            Series(f"mode {k + 1}, target {target:g}", strengths[:, k], "other", colour=k)
            for k, target in enumerate(targets)
        ]
        marks = [Mark("y", target, f"{target:g}") for target in targets]
        chart = Chart("Modes", Axis(TIME), Axis("strength of a mode"), time, modes, marks)
        view = View(charts=[errors, chart])
        view.tables = [
            _stages(time, strengths, targets),
            landmarks(found.landmarks(), found.landmark_units()),
        ]
        return view

    def neighbours(self, values: Values) -> list[Values]:
        depths = {values["depth"] + step for step in (1, -1)} & set(range(1, 7))
        return [{**values, "depth": depth} for depth in sorted(depths)]


def _stages(time: "np.ndarray", strengths: "np.ndarray", targets: list[float]) -> Table:
    """When each mode reaches half of its target."""
    rows = []
    for k, target in enumerate(targets):
        reached = time[strengths[:, k] >= target / 2]
        rows.append(
            (f"mode {k + 1}", f"{target:g}", f"{reached[0]:g}" if len(reached) else "later")
        )
    return Table("Stages", ("mode", "target", "steps to half of it"), rows)
