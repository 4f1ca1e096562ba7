"""Street View House Numbers, the cropped digits, from their MATLAB files."""

import os
import pathlib

import numpy as np

from learndyn.problems.readers.files import Images, folder_of, missing
from learndyn.problems.readers.matlab import variables

_SOURCE = (
    "http://ufldl.stanford.edu/housenumbers/ (format 2, cropped digits), "
    "or by `learndyn data get svhn`"
)
_SHAPE = 32, 32, 3
_ZERO = 10  # the files' label of the digit 0


def svhn(folder: str | os.PathLike | None = None) -> Images:
    """The 73,257 training digits of SVHN, then the 26,032 of the test set.

    The files are `train_32x32.mat` and `test_32x32.mat`: X (32, 32, 3, images) and y (images, 1),
    where 10 stands for the digit 0.

    Args:
        folder: the folder that holds `svhn`, or that folder itself; None uses the
            environment variable LEARNDYN_DATA.

    Returns:
        The images.

    Raises:
        ValueError: if the folder or its files are missing or have another format.
    """
    root = folder_of("svhn", folder)
    parts = [_part(root / f"{part}_32x32.mat") for part in ("train", "test")]
    pixels, labels = (np.concatenate(both) for both in zip(*parts, strict=True))
    return Images(pixels, labels, f"SVHN, {len(labels)} images", len(parts[0][1]))


def _part(path: pathlib.Path) -> tuple[np.ndarray, np.ndarray]:
    if not path.is_file():
        raise missing(path.name, path.parent, _SOURCE)
    arrays = variables(path, ["X", "y"])
    X, y = (arrays.get(name, np.zeros(0)) for name in ("X", "y"))
    if X.ndim != 4 or X.shape[:3] != _SHAPE or X.dtype != np.uint8 or y.size != X.shape[3]:
        came = f"X of shape {X.shape} and y of shape {y.shape}"
        raise ValueError(
            f"{path.name}: has {came}; allowed are bytes X (32, 32, 3, n) and y (n, 1)"
        )
    if not np.isin(y, range(1, _ZERO + 1)).all():
        raise ValueError(f"{path.name}: has other labels; allowed are 1 to {_ZERO}")
    # (rows, columns, channels, images) → (images, channels, rows, columns)
    return np.transpose(X, (3, 2, 0, 1)), y.ravel().astype(np.uint8) % _ZERO
