"""Catapults: rates above the critical one, and the loss that jumps and comes back."""

from typing import TYPE_CHECKING, ClassVar

from learndyn.explorer.controls import Choice, Control, Slider, Values
from learndyn.explorer.pages.base import AbstractPage
from learndyn.explorer.pages.spikes import spans, story
from learndyn.explorer.views import Axis, Chart, Series, Table, View

if TYPE_CHECKING:
    from collections.abc import Mapping

    import xarray as xr

CODE = """import numpy as np

import learndyn as ld

x = np.random.default_rng(0).normal(size=({examples}, 5))
data = ld.Dataset(x, np.tanh(x[:, 0]))
network = ld.MLP([5, {width}, 1], "relu")
model = ld.Model(network, ld.start(ld.System(data, network, ld.SGD(0.1)), key={key}).weights)
rate = {ratio!r} * float(ld.critical_learning_rate(model, x, loss=data.loss))
system = ld.System(data, network, ld.SGD(rate, batch={batch}, sampling="epochs"))
probes = {{"watched": ld.probes.Watched(s={top})}}
record = ld.simulate(system, np.arange({steps} + 1), key={key}, probes=probes)
found = ld.analysis.find_catapults(record)
"""
EXAMPLES, TOP = 20, 3


class Catapult(AbstractPage):
    """A wide network at a rate relative to its critical one, watched at every step."""

    name = "catapult"
    title = "Catapult"
    about = (
        "A ReLU network of one hidden layer learns 20 examples, in epochs, at a rate η relative to "
        "the critical one of the start. Above it the loss grows in the top eigenspaces, the "
        "kernel shrinks, and the loss comes back."
    )
    equation = "f′ − y = (1 − η K/n) (f − y) + Δ,   η_crit = 2n/‖K‖"
    source = "zhu2024catapults, Eqs. 4.2, 4.3, for the loss |f − y|²/2n"
    controls: ClassVar[dict[str, Control]] = {
        "ratio": Slider("learning rate / critical rate", 0.1, 6, 1.8, log=True),
        "width": Choice("hidden units", ("256", "64", "128", "512"), compiles=True),
        "batch": Choice("examples per step", ("20", "1", "5", "10"), compiles=True),
        "steps": Slider("steps", 20, 400, 100, whole=True),
        "key": Slider("seed", 0, 99, 0, whole=True),
    }

    def show(self, values: Values, folders: "Mapping[str, str]") -> View:
        import learndyn as ld
        from learndyn.tangent.kernel import critical_rate

        record, rate = self._watched(values)
        found = ld.analysis.find_catapults(record)
        step = record["step"].values
        curve = lambda name: record[name].values[0]
        series = lambda name, label, colour: Series(label, curve(name), "other", colour)
        shaded = spans(found, step)
        losses = Chart(
            "Loss", Axis("step"), Axis("loss", True), step,
            [Series("loss of all examples", curve("error")),
             series("loss_top", f"in the top {TOP} eigenspaces", 1),
             series("loss_rest", "outside of them", 2)], spans=shaded,
        )  # fmt: skip
        of_all = critical_rate(curve("kernel_norm"), 2 * EXAMPLES)
        rates = Chart(
            "Critical rates", Axis("step"), Axis("learning rate"), step,
            [Series("η", curve("rate")), series("critical_rate", "η_crit of the batch", 1),
             Series("η_crit of all examples, 2n/‖K‖", of_all, "other", 2, dash=1)],
            spans=shaded,
        )  # fmt: skip
        kernel = Chart(
            "Kernel", Axis("step"), Axis("norm of the tangent kernel"), step,
            [Series("kernel norm", curve("kernel_norm"))], spans=shaded,
        )  # fmt: skip
        view = View(charts=[losses, rates, kernel], notes=story(found, step), saves=True)
        view.code = self._code(values)
        view.status = f"measured on the network itself; {EXAMPLES} examples, squared loss"
        view.hints["ratio"] = f"η = {rate:.3g}"
        above = found.steps_above
        rows = [
            ("spikes of the loss", str(len(found.spikes))),
            ("steps with η > η_crit", "unknown" if above is None else f"{above} of {len(step)}"),
        ]
        view.tables = [Table("Found", ("event", "number"), rows)]
        return view

    def records(self, values: Values, folders: "Mapping[str, str]") -> "Mapping[str, xr.Dataset]":
        return {"runs": self._watched(values)[0]}

    def _watched(self, values: Values) -> tuple["xr.Dataset", float]:
        """What the code of the view computes."""
        import numpy as np

        import learndyn as ld

        x = np.random.default_rng(0).normal(size=(EXAMPLES, 5))
        data, key = ld.Dataset(x, np.tanh(x[:, 0])), values["key"]
        network = ld.MLP([5, int(values["width"]), 1], "relu")
        weights = ld.start(ld.System(data, network, ld.SGD(0.1)), key=key).weights
        critical = ld.critical_learning_rate(ld.Model(network, weights), x, loss=data.loss)
        rate = values["ratio"] * float(critical)
        rule = ld.SGD(rate, batch=int(values["batch"]), sampling="epochs")
        system = ld.System(data, network, rule)
        probes = {"watched": ld.probes.Watched(s=TOP)}
        record = ld.simulate(system, np.arange(values["steps"] + 1), key=key, probes=probes)
        return record, rate

    def _code(self, values: Values) -> str:
        return CODE.format(**values, examples=EXAMPLES, top=TOP)
