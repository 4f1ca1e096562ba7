"""A study as a function of its parameters, for sweeps."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from learndyn.studies import hashing, registry

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Calls a study's `compute`, with some parameters of a preset replaced by those of a point.

    It holds texts only, so that a store can save it and workers can load it.

    Attributes:
        study: name of the study.
        preset: name of the preset that provides all other parameters.
        settings: name → text, for parameters changed from the preset at all points.
    """

    study: str
    preset: str
    settings: Mapping[str, str]

    def params(self) -> Any:
        """The parameters before those of a point are put in."""
        own = registry.preset_of(registry.find(self.study), self.preset)
        return registry.with_settings(own, self.settings)

    def version(self) -> str:
        """A hash of the study's source, by which a resumed sweep notices changes."""
        return hashing.source_hash(self.study)

    def __call__(self, **point: Any) -> "xr.Dataset":
        params = dataclasses.replace(self.params(), **point)
        return registry.compute(registry.find(self.study), params, lambda done: None)
