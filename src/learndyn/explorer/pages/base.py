"""What a page is, and what the pages of systems share."""

import abc
import dataclasses
import pathlib
import threading
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Control, Values
from learndyn.explorer.views import View

if TYPE_CHECKING:  # the server never imports JAX
    import numpy as np
    import xarray as xr
    from matplotlib.figure import Figure

    from learndyn import Rows, System

POINTS = 161  # of a curve
MANY = 50  # steps between two times: whether they lie on steps then makes no difference
RUNS_KEY = 1  # the seed of trained networks


@dataclasses.dataclass(frozen=True)
class Training:
    """What a run under way tells, and asks.

    Attributes:
        on_rows: takes rows as they are recorded.
        progress: takes the fraction done.
        cancel: is set when nobody waits for the run any more.
    """

    on_rows: Callable[["Rows"], Any]
    progress: Callable[[float], Any]
    cancel: threading.Event


@dataclasses.dataclass(frozen=True)
class Result:
    """How a run ended.

    Attributes:
        verdict: in a word or two.
        reason: the test that spoke, and what it saw.
        records: name → record, to be saved.
        view: what to show afterwards; None for what was shown before.
    """

    verdict: str
    reason: str
    records: Mapping[str, "xr.Dataset"]
    view: View | None = None


class AbstractPage(abc.ABC):
    """A page: its controls, and what it shows for their values.

    Methods but for the attributes run in a process of their own, which has imported JAX.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    about: ClassVar[str]
    equation: ClassVar[str] = ""
    source: ClassVar[str] = ""
    controls: ClassVar[dict[str, Control]]

    @abc.abstractmethod
    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        """The view; `folders` are those of results, sweeps and files that were sent."""

    def refine(self, values: Values, cancel: threading.Event) -> View | None:
        """A better view that takes longer, shown when the controls are at rest.

        It ends with `Cancelled` when `cancel` is set.
        """
        return None

    def train(self, values: Values, training: Training, folders: Mapping[str, str]) -> Result:
        """Trains networks, or runs what the view offers."""
        raise ValueError(f"{self.name}: got a run; allowed is what the page shows")

    def records(self, values: Values, folders: Mapping[str, str]) -> Mapping[str, "xr.Dataset"]:
        """The records behind the view."""
        return {}

    def kept(self, values: Values, folders: Mapping[str, str]) -> list[pathlib.Path]:
        """Files to be saved as they are, where there are no records."""
        return []

    def figure(self, values: Values, records: Mapping[str, "xr.Dataset"]) -> "Figure | None":
        """The figure of these records, to be saved."""
        import learndyn as ld

        drawn = [records[name] for name in ("theory", "runs") if name in records]
        return ld.plot(*drawn) if drawn else None

    def neighbours(self, values: Values) -> list[Values]:
        """Values that a person may ask for next, and that need other programs."""
        return []

    def shape(self, values: Values) -> tuple[Any, ...]:
        """What decides which programs are needed."""
        chosen = [values[name] for name, control in self.controls.items() if control.compiles]
        return self.name, *chosen

    @classmethod
    def described(cls) -> dict[str, Any]:
        """The page as the browser needs it."""
        controls = {name: dataclasses.asdict(c) for name, c in cls.controls.items()}
        for name, control in cls.controls.items():
            controls[name]["start"] = control.start
        texts = {text: getattr(cls, text) for text in ("name", "title", "about")}
        return {**texts, "equation": cls.equation, "source": cls.source, "controls": controls}


def missing(folder: str) -> str:
    """What to add to the name of a folder that is not there."""
    return "" if pathlib.Path(folder).is_dir() else ", which does not exist"


def on_steps(end: float | int, per_time: int) -> "np.ndarray":
    """About POINTS times up to `end`, which lie on steps where steps are few."""
    import numpy as np

    steps = int(end * per_time)
    if steps >= MANY * POINTS:
        return np.linspace(0.0, end, POINTS)
    apart = -(-steps // (POINTS - 1))
    return np.linspace(0.0, apart * (steps // apart) / per_time, steps // apart + 1)


class AbstractSystemPage(AbstractPage):
    """A page of a system that a theory covers: its curve, and networks on top of it."""

    runs: ClassVar[bool] = True  # whether several networks are trained

    @abc.abstractmethod
    def system(self, values: Values) -> "System":
        """The system."""

    @abc.abstractmethod
    def times(self, values: Values) -> "np.ndarray":
        """The times."""

    @abc.abstractmethod
    def view(self, values: Values, system: "System", theory: "xr.Dataset") -> View:
        """The view of a solution."""

    def solved(self, values: Values, **options: Any) -> tuple["System", "xr.Dataset"]:
        """The system and its theory's record."""
        import learndyn as ld

        system = self.system(values)
        start = ld.start(system, key=self._key(values))
        return system, ld.solve(system, self.times(values), start=start, **options)

    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        import learndyn as ld

        system, theory = self.solved(values)
        view = self.view(values, system, theory)
        ended = str(theory["outcome"].values)
        view.status = f"{theory.attrs['coverage']}: {theory.attrs['coverage_reason']}"
        if ended != "finished":
            when = float(theory["diverged_at"])
            more = "a lower rate or a shorter time shows more"
            view.notes.append(f"The theory {ended} at time {when:.4g}: {more}.")
        runs = {"runs": self._number(values), "runs_key": RUNS_KEY, **self.simulating(values)}
        options = {"key": self._key(values), **runs, **self.solving(values)}
        view.code = ld.code_of(system, self.times(values), **options)
        view.trains, view.saves = ("Train networks" if self.runs else "Train the network"), True
        return view

    def train(self, values: Values, training: Training, folders: Mapping[str, str]) -> Result:
        import learndyn as ld

        told = {"cancel": training.cancel, "progress": training.progress}
        system, theory = self.solved(values, cancel=training.cancel, **self.solving(values))
        options = {"runs": self._number(values), "key": RUNS_KEY, **self.simulating(values)}
        start, times = ld.start(system, key=self._key(values)), self.times(values)
        told["on_rows"] = training.on_rows
        runs = ld.simulate(system, times, start=start, **options, **told)
        comparison = ld.compare(theory, runs)
        reason = f"{comparison.attrs['reason']} (engine: {runs.attrs['method']})"
        records = {"theory": theory, "runs": runs}
        return Result(comparison.attrs["verdict"], reason, records)

    def records(self, values: Values, folders: Mapping[str, str]) -> Mapping[str, "xr.Dataset"]:
        return {"theory": self.solved(values, **self.solving(values))[1]}

    def solving(self, values: Values) -> dict[str, Any]:
        """Options of `solve` for what is compared and saved."""
        return {}

    def simulating(self, values: Values) -> dict[str, Any]:
        """Options of `simulate`."""
        return {}

    def _key(self, values: Values) -> int:
        return values.get("key", 0)

    def _number(self, values: Values) -> int:
        return values["runs"] if self.runs else 1
