"""My log: a user's own loss history, its spikes, and what they are."""

import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from learndyn.explorer.controls import Control, Slider, Text, Values
from learndyn.explorer.pages.base import AbstractPage
from learndyn.explorer.pages.spikes import spans, story
from learndyn.explorer.pages.thinning import thinned
from learndyn.explorer.views import Axis, Chart, Series, Table, View

if TYPE_CHECKING:
    import numpy as np
    import xarray as xr

    from learndyn.analysis import Catapults
    from learndyn.records.curves import Curve, Logged

LOSS = ("loss", "error", "train_loss", "Value", "value")
KNOWN = {
    "rate": ("rate", "learning_rate", "lr", "η"),
    "critical_rate": ("critical_rate", "critical_learning_rate", "η_crit"),
}
LABELS = {"rate": "η", "critical_rate": "η_crit"}
CODE = """import learndyn as ld
from learndyn.records.curves import read_curves

curves = read_curves({file!r}).curves
steps, loss = curves[{variable!r}]
rates = {rates}
found = ld.analysis.find_catapults(loss, rise={rise!r}, **rates)
print([(steps[s.onset], steps[s.peak], s.rise) for s in found.spikes])
"""


class Log(AbstractPage):
    """Loss with spikes shaded, learning rate against the critical one."""

    name = "log"
    title = "My log"
    about = (
        "Choose a file of your own training: a record (.nc), a CSV file with a column of losses "
        "and, if you have them, of rates and critical rates, or TensorBoard's events. It stays on "
        "this computer."
    )
    equation = "catapult: η > η_crit = 2 / λ_max(H)"
    source = "zhu2024catapults, Eq. 4.3 and Sec. 4.4"
    controls: ClassVar[dict[str, Control]] = {
        "file": Text("file", "file"),
        "variable": Text("loss", "offered"),
        "rise": Slider("smallest rise of a spike", 1.01, 10, 1.1, log=True),
    }

    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        if not values["file"]:
            return View(status="no file chosen yet")
        found = self._found(values, folders)
        steps, loss = found.logged.curves[found.loss]
        shaded, kept = spans(found.events, steps), thinned(loss)
        remark = [found.logged.remark] * bool(found.logged.remark)
        view = View(notes=[*remark, *story(found.events, steps)], saves=True)
        view.offers = {"variable": list(found.logged.curves)}
        view.hints["file"] = _own_name(values)
        view.status = (
            f"{len(loss)} entries of {found.loss}; in the file: {', '.join(found.logged.curves)}"
        )
        curve, axes = Series(found.loss, loss[kept]), (Axis("step"), Axis("loss", _positive(loss)))
        view.charts.append(Chart("Loss", *axes, steps[kept], [curve], spans=shaded))
        if found.rates:
            rates = {LABELS[name]: curve.at(steps) for name, (_, curve) in found.rates.items()}
            curves = [Series(n, r[kept], "other", i) for i, (n, r) in enumerate(rates.items())]
            axes = Axis("step"), Axis("learning rate")
            view.charts.append(Chart("Rates", *axes, steps[kept], curves, spans=shaded))
        view.tables += _spikes(found.events, steps)
        view.code = _code(values, found)
        return view

    def records(self, values: Values, folders: Mapping[str, str]) -> "Mapping[str, xr.Dataset]":
        import numpy as np

        from learndyn.records import Outcome, make_record

        if not values["file"]:
            return {}
        found = self._found(values, folders)
        steps, loss = found.logged.curves[found.loss]
        curves = {"loss": loss, **{n: curve.at(steps) for n, (_, curve) in found.rates.items()}}
        record = make_record(
            {name: (("time",), curve, {"long_name": name}) for name, curve in curves.items()},
            times=steps, steps=np.round(steps).astype(np.int64), time_unit="steps", lead={},
            outcomes=[Outcome("finished", float("nan"))],
            attributes={"engine": "log", "file": _own_name(values), "variable": found.loss},
        )  # fmt: skip
        return {"runs": record}

    def _found(self, values: Values, folders: Mapping[str, str]) -> "_Found":
        import learndyn as ld
        from learndyn.records.curves import read_curves

        path, own = _sent(folders, values["file"]), _own_name(values)
        try:
            logged = read_curves(path)
        except ValueError as error:
            raise ValueError(str(error).replace(path.name, own)) from None
        names = list(logged.curves)
        loss = values["variable"] if values["variable"] in names else _loss(names)
        steps, history = logged.curves[loss]
        named = {n: next((k for k in known if k in names), "") for n, known in KNOWN.items()}
        rates = {n: (name, logged.curves[name]) for n, name in named.items() if name}
        known: Mapping[str, Any] = {name: curve.at(steps) for name, (_, curve) in rates.items()}
        both = known if len(known) == len(KNOWN) else {}
        try:
            events = ld.analysis.find_catapults(history, rise=values["rise"], **both)
        except ValueError as error:
            raise ValueError(str(error).replace("record: ", "variable: ")) from None
        return _Found(logged, loss, rates, events)


class _Found(NamedTuple):
    """What is in a file.

    Attributes:
        logged: its curves.
        loss: the name of the loss.
        rates: "rate" and "critical_rate", as far as there are any → name and curve.
        events: spikes and excesses.
    """

    logged: "Logged"
    loss: str
    rates: "dict[str, tuple[str, Curve]]"
    events: "Catapults"


def _own_name(values: Values) -> str:
    """The name that the file has on the visitor's computer."""
    return values["file"].partition("-")[2]


def _sent(folders: Mapping[str, str], name: str) -> pathlib.Path:
    folder = pathlib.Path(folders["sent"])
    path = folder / name
    if path.parent != folder or not path.is_file():
        raise ValueError(f"file: got {name!r}; allowed is a file that was chosen here")
    return path


def _loss(names: list[str]) -> str:
    """The variable that is a loss by its name, or the first one."""
    like = [name for name in names if "loss" in name.lower()]
    return next((name for name in LOSS if name in names), (like or names)[0])


def _positive(values: "np.ndarray") -> bool:
    return not bool((values <= 0).any())


def _spikes(found: "Catapults", steps: "np.ndarray") -> list[Table]:
    at = lambda entry: f"{steps[min(entry, len(steps) - 1)]:g}"
    rows = [(at(s.onset), at(s.peak), at(s.end), f"{s.rise:.3g}") for s in found.spikes]
    head = ("onset, step", "peak, step", "end, step", "rise")
    return [Table("Spikes", head, rows)] if rows else []


def _code(values: Values, found: _Found) -> str:
    given = [
        f"    {name!r}: curves[{own!r}].at(steps),\n" for name, (own, _) in found.rates.items()
    ]
    rates = "{\n" + "".join(given) + "}" if len(given) == len(KNOWN) else "{}"
    about = {"file": _own_name(values), "variable": found.loss, "rise": values["rise"]}
    return CODE.format(**about, rates=rates)
