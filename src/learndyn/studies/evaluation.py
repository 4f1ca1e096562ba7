"""A study as a function of its parameters: what a sweep evaluates."""

import dataclasses
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from learndyn.studies import registry, results

if TYPE_CHECKING:
    import xarray as xr


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """Calls a study's `compute`; parameters of a point stand in for those of a preset.

    Attributes:
        study: its name.
        preset: whose parameters hold for all points.
        settings: name → text, of those that are not the preset's.
    """

    study: str
    preset: str
    settings: Mapping[str, str]

    def params(self) -> Any:
        """The parameters that hold for all points."""
        own = registry.preset_of(registry.find(self.study), self.preset)
        return registry.with_settings(own, self.settings)

    def version(self) -> str:
        """A hash of the study's source."""
        return results.source_hash(self.study)

    def __call__(self, **point: Any) -> "xr.Dataset":
        params = dataclasses.replace(self.params(), **point)
        return registry.find(self.study).compute(params, lambda done: None)
