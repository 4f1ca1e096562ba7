"""Studies: what was kept of each, and the quick preset to run."""

import base64
import functools
import io
import json
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from learndyn.explorer.controls import Choice, Control, Text, Values
from learndyn.explorer.pages.base import AbstractPage, Result, Training, missing
from learndyn.explorer.views import Picture, Table, View

if TYPE_CHECKING:
    import xarray as xr
    from matplotlib.figure import Figure

CODE = """from learndyn.studies import registry

study = registry.find("{name}")
params = study.PRESETS[{preset!r}]
data = registry.compute(study, params, lambda done: None)
for claim in study.check(data):
    print(claim.status, claim.statement)
registry.draw(study, data).savefig("figure.png")
"""
STATUSES = ("holds", "fails", "open")
TITLES = {"claim": "Claims", "erratum": "Errata", "finding": "Findings", "theorem": "Theorems"}
FILES = ("data.nc", "claims.json", "figure.png")
VERDICTS = ("all", "no claim fails", "a claim fails", "a claim is open", "not kept")


class Studies(AbstractPage):
    """The studies, with figure, claims, errata and replication of the results that are kept."""

    name = "studies"
    title = "Studies"
    about = "Figures and tables of papers, each with claims that can fail. Choose one to see them."
    controls: ClassVar[dict[str, Control]] = {
        "paper": Text("paper", "offered"),
        "verdict": Choice("verdict", VERDICTS),
        "search": Text("search in names and titles"),
        "study": Text("study", "offered"),
    }

    def show(self, values: Values, folders: Mapping[str, str]) -> View:
        names = _names()
        view = View(offers={"paper": ["", *sorted({name.partition("/")[0] for name in names})]})
        kept = {name: _kept(folders, name, "claims.json") for name in names}
        listed = [name for name in names if _matches(name, kept[name], values)]
        view.offers["study"] = ["", *listed]
        count, folder = sum(map(bool, kept.values())), folders["results"]
        view.status = (
            f"{len(listed)} of {len(names)} studies; {count} kept results in "
            f"{folder}{missing(folder)}"
        )
        if values["study"]:
            self._detail(view, values["study"], names, folders)
            view.saves = bool(self.kept(values, folders))
        else:
            rows = [(name, _title(name), *_tally(kept[name])) for name in listed]
            leads = [{"study": name} for name in listed]
            view.tables.append(Table("Studies", ("study", "what it shows", *STATUSES), rows, leads))
        return view

    def train(self, values: Values, training: Training, folders: Mapping[str, str]) -> Result:
        name = _known(values["study"], _names())
        from learndyn.studies.registry import draw, fails
        from learndyn.studies.results import to_json

        study, data = _computed(name, training.progress, cancel=training.cancel)
        claims = study.check(data)
        counts = {status: sum(c.status == status for c in claims) for status in STATUSES}
        bad = [c.name for c in claims if c.status == "fails"]
        reason = f"quick preset of {name}: " + ", ".join(f"{s} {n}" for s, n in counts.items())
        verdict = "no claim fails" if not bad else "a claim fails"
        view = _about(name, f"quick preset of {name}, run here")
        view.pictures.append(Picture(_inline(draw(study, data)), f"figure of {name}"))
        view.tables += list(_claims(json.loads(to_json({}, claims, fails(study, "quick")))))
        return Result(verdict, "; ".join([reason, *bad]), {"data": data}, view)

    def kept(self, values: Values, folders: Mapping[str, str]) -> list[pathlib.Path]:
        if values["study"] not in _names():
            return []
        folder = pathlib.Path(folders["results"]) / values["study"]
        return [path for path in (folder / name for name in FILES) if path.is_file()]

    def figure(self, values: Values, records: Mapping[str, "xr.Dataset"]) -> "Figure | None":
        from learndyn.studies.registry import draw, find

        return draw(find(values["study"]), records["data"])

    def _detail(self, view: View, study: str, names: list[str], folders: Mapping[str, str]) -> None:
        name = _known(study, names)
        about = _about(name, view.status)
        view.notes, view.links, view.code = about.notes, about.links, about.code
        view.trains = about.trains
        result = _kept(folders, name, "claims.json")
        view.code = _code(name, result)
        if not result:
            view.notes.append("No result is kept in this folder.")
            return
        if (pathlib.Path(folders["results"]) / name / "figure.png").exists():
            view.pictures.append(Picture(f"/results/{name}/figure.png", f"figure of {name}"))
        about = (result.get(key) for key in ("preset", "device", "date", "commit"))
        view.status = "kept result: " + ", ".join(str(each) for each in about if each)
        view.tables += list(_claims(result))
        replication = _kept(folders, name, "replication.json")
        if replication:
            view.tables.append(_replicated(replication))


def _names() -> list[str]:
    from learndyn.studies import registry

    return list(registry.names())


def _about(name: str, status: str) -> View:
    """What the view of a study has besides its result."""
    return View(
        status=status,
        notes=[f"{name}: {_title(name)}"],
        links={"Back to all studies": {"study": ""}},
        code=_code(name),
        trains="Run it (quick preset)",
        saves=True,
    )


def _code(name: str, result: Mapping[str, Any] | None = None) -> str:
    """The program of a kept result: of its preset, and of what differs from that; or of quick."""
    result = result or {}
    code = CODE.format(name=name, preset=str(result.get("preset", "quick")))
    differs = result.get("differs") or {}
    changes = ", ".join(f"{key}={_tuples(here)!r}" for key, (_, here) in differs.items())
    if not changes:
        return code
    replaced = f"params = dataclasses.replace(params, {changes})\ndata ="
    return "import dataclasses\n\n" + code.replace("data =", replaced, 1)


def _tuples(value: Any) -> Any:
    """Parameters are immutable; JSON has lists instead of tuples."""
    return tuple(map(_tuples, value)) if isinstance(value, list) else value


def _inline(figure: "Figure") -> str:
    """A figure as the address of an image."""
    content = io.BytesIO()
    figure.savefig(content, format="png", dpi=110)
    return "data:image/png;base64," + base64.b64encode(content.getvalue()).decode()


@functools.cache
def _title(name: str) -> str:
    from learndyn.studies import registry

    return registry.constant(name, "TITLE")


def _known(study: str, names: list[str]) -> str:
    if study not in names:
        raise ValueError(f"study: got {study!r}; allowed is one that `learndyn list` shows")
    return study


def _kept(folders: Mapping[str, str], name: str, file: str) -> dict[str, Any]:
    """A file of a kept result; empty if there is none."""
    path = pathlib.Path(folders["results"]) / name / file
    try:
        return _content(path, path.stat().st_mtime_ns)
    except (OSError, ValueError, RecursionError):
        return {}


@functools.lru_cache(maxsize=512)
def _content(path: pathlib.Path, changed: int) -> dict[str, Any]:
    """A JSON object in a file, read anew if the file has changed."""
    content = json.loads(path.read_text("utf-8"))
    return content if isinstance(content, dict) else {}


def _tally(result: Mapping[str, Any]) -> list[str]:
    kinds = result.get("tally", {}).values()
    return [
        str(sum(kind.get(status, 0) for kind in kinds)) if result else "" for status in STATUSES
    ]


def _matches(name: str, result: Mapping[str, Any], values: Values) -> bool:
    text = f"{name} {_title(name)}".lower()
    words = values["search"].lower().split()
    if values["paper"] not in ("", name.partition("/")[0]) or not all(w in text for w in words):
        return False
    counts = dict(zip(STATUSES, _tally(result), strict=True))
    some = lambda status: counts[status] not in ("", "0")
    return {
        "all": True,
        "no claim fails": bool(result) and not some("fails"),
        "a claim fails": some("fails"),
        "a claim is open": some("open"),
        "not kept": not result,
    }[values["verdict"]]


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else "" if value is None else str(value)


def _claims(result: Mapping[str, Any]) -> list[Table]:
    """The claims by kind, errata apart."""
    tables, claims = [], result.get("claims", [])
    for kind in dict.fromkeys(str(claim.get("kind")) for claim in claims):
        numbers = ("expected", "measured", "tolerance")
        rows = [
            (str(c.get("status")), str(c.get("statement")), str(c.get("source")),
             *(_number(c.get(each)) for each in numbers),
             str(c.get("listed") or c.get("why_open") or ""))
            for c in claims if str(c.get("kind")) == kind
        ]  # fmt: skip
        heads = ("status", "statement", "source", *numbers, "why")
        tables.append(Table(TITLES.get(kind, kind), heads, rows))
    return tables


def _replicated(replication: Mapping[str, Any]) -> Table:
    rows = [
        (str(r.get("name")), f"{r.get('held')} of {r.get('count')}", _number(r.get("rate")),
         str(r.get("verdict"))) for r in replication.get("table", [])
    ]  # fmt: skip
    title = f"Replication at fresh keys, preset {replication.get('preset')}"
    return Table(title, ("claim", "held", "promised", "verdict"), rows)


def _computed(name: str, report: Any, *, cancel: Any) -> tuple[Any, "xr.Dataset"]:
    """The study and its data; ends when `cancel` is set, as `solve` and `simulate` do."""
    from learndyn.runtime.interruption import interruptible, stop_if_interrupted
    from learndyn.studies import registry

    study = registry.find(name)

    def told(done: float) -> None:
        stop_if_interrupted()  # what a study does itself ends here, its calls end by themselves
        report(done)

    @interruptible
    def compute(cancel: Any = None) -> "xr.Dataset":
        return registry.compute(study, study.PRESETS["quick"], told)

    return study, compute(cancel=cancel)
