"""Node perturbation: learning from noise at the nodes, in two linear layers."""

from typing import TYPE_CHECKING, ClassVar

from learndyn.explorer.controls import Control, Slider, Values
from learndyn.explorer.pages.base import AbstractSystemPage, on_steps
from learndyn.explorer.pages.tables import landmarks
from learndyn.explorer.views import Axis, Chart, Series, View

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from learndyn import System

TIME = "steps"
NORMS = {"alpha": "α, input weights, per input", "beta": "β, output weights, per output"}


class NodePerturbation(AbstractSystemPage):
    """Error and weight norm under node perturbation, relative to the critical learning rate."""

    name = "node-perturbation"
    title = "Node perturbation"
    about = (
        "Two linear layers learn a linear map from the effect of noise at their nodes. Above the "
        "critical rate the error grows; with noisy labels the weights grow even below it."
    )
    equation = "δWₖ = −(η/σ) (ℓ̃ − ℓ) ξₖ xₖ₋₁ᵀ"
    source = "hiratani2022perturbation, Eq. 18"
    controls: ClassVar[dict[str, Control]] = {
        "ratio": Slider("learning rate / critical rate", 0.02, 3, 0.3, log=True),
        "inputs": Slider("inputs", 2, 60, 20, whole=True, compiles=True),
        "hidden": Slider("hidden units", 2, 200, 60, whole=True, compiles=True),
        "outputs": Slider("outputs", 1, 30, 5, whole=True, compiles=True),
        "noise": Slider("label noise σ", 0, 1, 0),
        "horizon": Slider("steps", 100, 100000, 10000, whole=True, log=True),
        "key": Slider("seed of the start", 0, 99, 0, whole=True),
        "runs": Slider("networks to train", 1, 32, 16, whole=True),
    }

    def system(self, values: Values) -> "System":
        return self._with_rate(values, values["ratio"] * self._critical(values))

    def times(self, values: Values) -> "np.ndarray":
        return on_steps(values["horizon"], 1)

    def view(self, values: Values, system: "System", theory: "xr.Dataset") -> View:
        import learndyn as ld

        found, time = ld.theory_of(system), theory["time"].values
        errors = Chart(
            "Error", Axis(TIME), Axis("loss above its floor", True), time,
            [Series("theory", theory["error"].values)], streams="error",
        )  # fmt: skip
        norms = [
            Series(label, theory[name].values, "other", colour)
            for colour, (name, label) in enumerate(NORMS.items())
        ]
        weights = Chart("Weight norms", Axis(TIME), Axis("squared norm"), time, norms)
        view = View(charts=[errors, weights, _plane(theory)])
        view.tables = [landmarks(found.landmarks(), found.landmark_units())]
        view.hints["ratio"] = f"η = {values['ratio'] * self._critical(values):.3g}"
        return view

    def _critical(self, values: Values) -> float:
        import learndyn as ld

        found = ld.theory_of(self._with_rate(values, 1e-3)).landmarks()
        return found["critical_learning_rate"]

    def _with_rate(self, values: Values, rate: float) -> "System":
        import learndyn as ld

        teacher = ld.LinearTeacher(values["outputs"])
        inputs = ld.Isotropic(values["inputs"])
        problem = ld.TeacherStudent(inputs, teacher, label_noise=values["noise"])
        network = ld.DeepLinear([values[name] for name in ("inputs", "hidden", "outputs")])
        return ld.System(problem, network, ld.NodePerturbation(rate))


def _plane(theory: "xr.Dataset") -> Chart:
    """The error against the norm of the output weights, as points in the order of the norm."""
    import numpy as np

    norm, error = theory["beta"].values, theory["error"].values
    order = np.argsort(norm, kind="stable")
    first = np.where(np.arange(len(norm)) == 0, error, np.nan)
    points = [
        Series("states", error[order], "points"),
        Series("start", first[order], "points", colour=1),
    ]
    axes = Axis(f"squared norm {NORMS['beta']}"), Axis("loss above its floor", True)
    return Chart("Phase plane", *axes, norm[order], points)
