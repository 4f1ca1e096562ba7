"""Real images as inputs: their first channel, flattened."""

from typing import NamedTuple

import numpy as np

from learndyn.problems import files

_READERS = {"cifar10": files.cifar10, "digits": files.digits}


class Inputs(NamedTuple):
    """Images as vectors, and what they are.

    Attributes:
        x: (images, N), the pixels that vary.
        name: for records and figures.
    """

    x: np.ndarray
    name: str


def first_channel(data: str, images: int) -> Inputs:
    """The first channel of the first images, without pixels that never change.

    Args:
        data: "cifar10", from the folder of data files, or "digits".
        images: how many at most; 0 for all.

    Returns:
        The inputs.

    Raises:
        ValueError: for other data, or where its files are missing.
    """
    if data not in _READERS:
        raise ValueError(f"data: got {data!r}; allowed are {', '.join(_READERS)}")
    found = _READERS[data]()
    pixels = found.pixels[: images or None, 0].reshape(-1, found.pixels[0, 0].size)
    x = pixels[:, np.ptp(pixels, axis=0) > 0].astype(np.float64)
    kept = f"{x.shape[1]} of {pixels.shape[1]} pixels that vary"
    whole = f"{x.shape[1]} pixels" + " of the first channel" * (found.pixels.shape[1] > 1)
    which = whole if x.shape[1] == pixels.shape[1] else kept
    return Inputs(x, f"{found.name.split(',')[0]}, {len(x)} images, {which}")
