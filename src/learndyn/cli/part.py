"""Parts of a study: what `run --part` and `sweep --parts` compute, and `join` joins."""

import contextlib
import dataclasses
import json
import pathlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from learndyn.cli.judging import Request, blaming
from learndyn.cli.writing import whole_files, writable

if TYPE_CHECKING:
    import xarray as xr

    from learndyn.studies.parts import Chosen
    from learndyn.studies.registry import Report

FILES = ("data.nc", "part.json")


def folder_of(chosen: "Chosen") -> str:
    """The name of a folder for a part: its values."""
    text = "_".join("-".join([name, *map(str, values)]) for name, values in chosen.items())
    return "part_" + "".join(c if c.isalnum() or c in "-_." else "-" for c in text)


def compute_part(
    request: Request, chosen: "Chosen", folder: pathlib.Path, report: "Report"
) -> float:
    """Computes a part; writes its data, and `part.json` with what it is and where it ran.

    Args:
        request: the whole study.
        chosen: the values of the part.
        folder: for the files.
        report: takes the fraction done.

    Returns:
        The seconds that it took.
    """
    from learndyn.records import save
    from learndyn.records.schema import Stopwatch
    from learndyn.studies import parts, registry

    origin, watch = request.origin(), Stopwatch()
    differs = origin["differs"] | {name: [None, values] for name, values in chosen.items()}
    with whole_files(folder, FILES) as write:
        with blaming(differs):
            own = parts.params_of(request.params, chosen)
            data = registry.compute(request.module, own, report)
        data = parts.labelled(data, request.module, chosen)
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        origin |= {"part": chosen, "seconds": watch.seconds()}
        text = json.dumps(origin, indent=2, ensure_ascii=False)
        write("part.json", lambda path: path.write_text(text + "\n", encoding="utf-8"))
    return origin["seconds"]


@dataclasses.dataclass(frozen=True)
class PartOf:
    """A study as a function of the values that divide it, for sweeps.

    It holds texts only, so that a store can save it and workers can load it. The data of each part
    go into a folder of their own, which `learndyn join` reads.

    Attributes:
        study: name of the study.
        preset: name of the preset.
        settings: name → text, for parameters changed from the preset.
        out: folder for the folders of the parts.
    """

    study: str
    preset: str
    settings: Mapping[str, str]
    out: str

    def version(self) -> str:
        """A hash of the study's source, by which a resumed sweep notices changes."""
        from learndyn.studies.hashing import source_hash

        return source_hash(self.study)

    def axes(self, names: list[str]) -> dict[str, list[Any]]:
        """All values of the parameters that divide the study.

        Raises:
            ValueError: for a parameter that does not divide it.
        """
        from learndyn.studies import parts

        request = Request.of(self.study, self.preset, self.settings)
        return {name: parts.values(request.module, request.params, name) for name in names}

    def __call__(self, **point: Any) -> "xr.Dataset":
        import xarray as xr

        request = Request.of(self.study, self.preset, self.settings)
        chosen = {name: (value,) for name, value in point.items()}
        folder = writable(str(pathlib.Path(self.out) / folder_of(chosen)))
        seconds = compute_part(request, chosen, folder, lambda done: None)
        return xr.Dataset({"seconds": seconds})
