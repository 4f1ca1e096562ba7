"""Arrays from MATLAB files of version 5."""

import pathlib
from collections.abc import Sequence

import numpy as np
from scipy import io

from learndyn.problems.readers.files import check_promise


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
        shapes = [shape for name, shape, _ in io.whosmat(path) if name in names]
    except Exception:  # scipy raises different exceptions for broken files
        raise _broken(path) from None
    for shape in shapes:
        check_promise(path, shape)
    try:
        contents = io.loadmat(path, variable_names=list(names))
    except Exception:
        raise _broken(path) from None
    return {name: np.asarray(contents[name]) for name in names if name in contents}


def _broken(path: pathlib.Path) -> ValueError:
    return ValueError(f"{path.name}: is cut short or no MATLAB file of version 5")
