"""Computes a study, writes its files, judges its claims: what `run` and `join` share."""

import contextlib
import dataclasses
import json
import math
import pathlib
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from learndyn.cli.writing import whole_files

if TYPE_CHECKING:
    import xarray as xr

    from learndyn.studies.claims import Claim
    from learndyn.studies.registry import Report, Study

FILES = ("data.nc", "claims.json", "figure.png", "figure.svg")


@dataclasses.dataclass(frozen=True)
class Request:
    """A study with its parameters.

    Attributes:
        study: its name.
        preset: name of the preset.
        module: the study.
        own: the parameters of the preset.
        params: the parameters asked for.
    """

    study: str
    preset: str
    module: "Study"
    own: Any
    params: Any

    @staticmethod
    def of(study: str, preset: str, settings: Mapping[str, str]) -> "Request":
        """The request for a preset with some parameters replaced."""
        from learndyn.studies import registry

        module = registry.find(study)
        own = registry.preset_of(module, preset)
        return Request(study, preset, module, own, registry.with_settings(own, settings))

    def origin(self) -> dict[str, Any]:
        """Where the numbers come from: `results.describe`."""
        from learndyn.studies import results

        return results.describe(self.study, self.preset, self.params, self.own)


def judge(
    request: Request,
    folder: pathlib.Path,
    compute: Callable[["Report"], "xr.Dataset"],
    more: Mapping[str, Any] | None = None,
) -> int:
    """Computes the data, writes the four files and prints the claims.

    Args:
        request: the study.
        folder: for the files.
        compute: the data, given a function that takes the fraction done.
        more: entries of `claims.json` that replace those of this process.

    Returns:
        The exit code: 1 if a claim fails that is not listed, or a listed one holds.
    """
    from learndyn.records import save
    from learndyn.records.schema import Stopwatch
    from learndyn.runtime.progress import reporting
    from learndyn.studies import registry, results
    from learndyn.studies.tables import show_claims, tally_line
    from learndyn.studies.verdicts import complaints

    module, listed = request.module, registry.fails(request.module, request.preset)
    print(f"{request.study}, preset {request.preset}: {request.params}", flush=True)
    origin, watch = request.origin(), Stopwatch()
    differs = origin["differs"]
    # The progress bar ends after the files are written: if its terminal is gone and it fails, the
    # files exist all the same.
    with whole_files(folder, FILES) as write, reporting(True, request.study) as report:
        with blaming(differs):
            data = compute(report)
        data.attrs |= _names(request, origin)
        write("data.nc", lambda path: save(data, path), whole=contextlib.nullcontext)
        with blaming(differs):
            claims = module.check(data)
        origin |= {"seconds": watch.seconds(), **(more or {})}
        text = results.to_json(origin, claims, listed)
        write("claims.json", lambda path: path.write_text(text, encoding="utf-8"))
        with blaming(differs):
            figure = registry.draw(module, data)
            # Ticks that cannot be placed raise an error only here, not in `draw`.
            figure.draw_without_rendering()
        write("figure.png", lambda path: figure.savefig(path))
        write("figure.svg", lambda path: figure.savefig(path))
        report(1.0)
    show_claims(claims, listed)
    if differs:
        _require_measured(claims, differs)
    wrong = complaints(claims, listed, own=not differs)
    print("\n".join([*wrong, f"{tally_line(claims)}; files in {folder}"]))
    return 1 if wrong else 0


def _names(request: Request, origin: Mapping[str, Any]) -> dict[str, str]:
    names = {"study": request.study, "preset": request.preset}
    return names | {"params": json.dumps(origin["params"])}


@contextlib.contextmanager
def blaming(differs: Mapping[str, Sequence[Any]]) -> Iterator[None]:
    """Turns any error into a ValueError that names the parameters changed from the preset.

    The presets run, so the changed parameters are the cause: it is bad input, not a bug.
    """
    try:
        with warnings.catch_warnings():
            if differs:  # the error line replaces warnings about overflows and underflows
                warnings.simplefilter("ignore", RuntimeWarning)
            yield
    except OSError:  # a missing or unwritable file has nothing to do with the parameters
        raise
    except Exception as error:  # of any kind: memory, ranges, names unknown to the study
        # A study has to run at every key: there an error is a bug.
        if not set(differs) - {"key"}:
            raise
        why = str(error).partition("\n")[0] or type(error).__name__
        raise ValueError(
            f"--set: got {_changed(differs)}, with which the study fails ({why}); "
            "allowed are values closer to the presets"
        ) from error


def _changed(differs: Mapping[str, Sequence[Any]]) -> str:
    return ", ".join(f"{name}={here}" for name, (_, here) in differs.items())


def _require_measured(claims: Sequence["Claim"], differs: Mapping[str, Sequence[Any]]) -> None:
    """Raises a ValueError if the changed parameters leave a claim without anything to measure."""
    for claim in claims:
        # A claim fails on NaN. Nothing was measured, so it would be wrong to say that it fails.
        if claim.status == "fails" and not math.isfinite(claim.measured):
            raise ValueError(
                f"--set: got {_changed(differs)}, which leaves nothing to measure for "
                f"{claim.name!r}; allowed are larger sizes, such as those of the presets"
            )
