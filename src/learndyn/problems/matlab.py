"""Arrays from MATLAB files of version 5."""

import pathlib
from collections.abc import Sequence

import numpy as np
from scipy import io


def variables(path: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """Those of the named variables that a file has.

    Args:
        path: of the file.
        names: of the variables.

    Returns:
        The arrays by name.

    Raises:
        ValueError: for a file of another format, or one that is cut short.
    """
    try:
        found = io.loadmat(path, variable_names=list(names))
    except Exception:  # scipy has one for every way in which a file may be broken
        raise ValueError(f"{path.name}: is cut short or no MATLAB file of version 5") from None
    return {name: np.asarray(found[name]) for name in names if name in found}
