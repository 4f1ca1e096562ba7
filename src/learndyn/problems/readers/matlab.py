"""Arrays from MATLAB files of version 5."""

import pathlib
from collections.abc import Sequence

import numpy as np
from scipy import io


def variables(path: pathlib.Path, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The named variables, as far as the file has them.

    Args:
        path: of the file.
        names: of the variables.

    Returns:
        The arrays by name.

    Raises:
        ValueError: for a file of another format, or one that is cut short.
    """
    try:
        contents = io.loadmat(path, variable_names=list(names))
    except Exception:  # scipy raises different exceptions for broken files
        raise ValueError(f"{path.name}: is cut short or no MATLAB file of version 5") from None
    return {name: np.asarray(contents[name]) for name in names if name in contents}
