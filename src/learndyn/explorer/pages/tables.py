"""Tables that several pages have."""

from collections.abc import Mapping

from learndyn.explorer.views import Table


def landmarks(known: Mapping[str, float], units: Mapping[str, str]) -> Table:
    """Predicted landmarks with their units."""
    unit = lambda name: "" if units.get(name, "1") == "1" else units[name]
    rows = [(name.replace("_", " "), f"{value:.4g}", unit(name)) for name, value in known.items()]
    return Table("Landmarks", ("landmark", "value", "unit"), rows)
