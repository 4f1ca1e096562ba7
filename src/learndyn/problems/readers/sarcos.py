"""The inverse dynamics of the robot arm SARCOS, from its MATLAB files."""

import os
from typing import NamedTuple

import numpy as np

from learndyn.problems.readers.files import folder_of, missing
from learndyn.problems.readers.matlab import variables
from learndyn.runtime.checks import one_of

INPUTS, TORQUES = 21, 7
_SOURCE = "https://gaussianprocess.org/gpml/data/"
_VARIABLES = {"train": "sarcos_inv", "test": "sarcos_inv_test"}


class Arm(NamedTuple):
    """Rows of SARCOS, as stored.

    Attributes:
        x: (rows, 21): positions, velocities and accelerations of seven joints.
        y: (rows, 7): the joints' torques.
        name: a description of the data, for records and figures.
    """

    x: np.ndarray
    y: np.ndarray
    name: str


def sarcos(part: str = "train", folder: str | os.PathLike | None = None) -> Arm:
    """The rows of one of the two files, `sarcos_inv.mat` (44,484) or `sarcos_inv_test.mat` (4449).

    Args:
        part: "train" or "test".
        folder: the folder that holds `sarcos`, or that folder itself; None uses the
            environment variable LEARNDYN_DATA.

    Returns:
        The rows.

    Raises:
        ValueError: if the folder or the file is missing or has another format.
    """
    variable = _VARIABLES[one_of("part", part, tuple(_VARIABLES))]
    root = folder_of("sarcos", folder)
    path = root / f"{variable}.mat"
    if not path.is_file():
        raise missing(path.name, root, _SOURCE)
    arrays = variables(path, [variable])
    rows = arrays.get(variable, np.zeros(0))
    columns = INPUTS + TORQUES
    if rows.ndim != 2 or rows.shape[1] != columns or rows.dtype.kind != "f":
        came = f"{variable!r} of shape {rows.shape}" if variable in arrays else f"no {variable!r}"
        raise ValueError(f"{path.name}: has {came}; allowed are rows of {columns} numbers")
    return Arm(rows[:, :INPUTS], rows[:, INPUTS:], f"SARCOS {part} file, {len(rows)} rows")


def has_training_file(folder: str | os.PathLike | None = None) -> bool:
    """Whether the larger of the two files exists."""
    return (folder_of("sarcos", folder) / f"{_VARIABLES['train']}.mat").is_file()
