"""Where studies are: folders of this package, and of other installed packages.

Another package names its folders by entry points, paper = package, in its pyproject.toml:

    [project.entry-points."learndyn.studies"]
    smith2027width = "smith2027width"
"""

import functools
import importlib.metadata
import importlib.util
import pathlib
import pkgutil
import warnings
from collections.abc import Mapping

from learndyn import studies

GROUP = "learndyn.studies"


@functools.cache
def packages() -> Mapping[str, str]:
    """Paper → name of the package that has its studies, ours first.

    Warns:
        UserWarning: if an installed package names a paper that there is already, or a package
            that cannot be found; it is left out.
    """
    ours = [each.name for each in pkgutil.iter_modules(studies.__path__) if each.ispkg]
    found = {paper: f"{studies.__name__}.{paper}" for paper in ours}
    for entry in sorted(importlib.metadata.entry_points(group=GROUP), key=lambda e: e.name):
        if entry.name in found:
            why = f"there are studies of {found[entry.name]} by that name"
        elif _folder(entry.value) is None:
            why = "there is no such package"
        else:
            found[entry.name] = entry.value
            continue
        place = f"{entry.name} = {entry.value}"
        warnings.warn(f"studies of {place!r} are left out: {why}", stacklevel=2)
    return found


@functools.cache
def _folder(package: str) -> pathlib.Path | None:
    try:
        spec = importlib.util.find_spec(package)
    except (ImportError, ValueError):  # a parent cannot be imported, or the name is none
        return None
    places = spec.submodule_search_locations if spec else None
    return pathlib.Path(next(iter(places))) if places else None


def folder_of(paper: str) -> pathlib.Path:
    """The folder with the studies of a paper."""
    folder = _folder(packages()[paper])
    assert folder is not None
    return folder


def module_of(study: str) -> str:
    """The name of the module of a study."""
    paper, figure = study.split("/")
    return f"{packages()[paper]}.{figure}"


def is_ours(paper: str) -> bool:
    """Whether a paper's studies are part of this package, and not of another that is installed."""
    return packages().get(paper, studies.__name__).startswith(studies.__name__)
