"""Faces of CelebA, labelled by one of their attributes."""

import os
import pathlib

import numpy as np
from PIL import Image, UnidentifiedImageError

from learndyn.problems.readers.files import Images, folder_of, missing
from learndyn.runtime.checks import one_of, positive_int

ATTRIBUTES, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
FOLDER = "img_align_celeba"
_SOURCE = "https://mmlab.ie.cuhk.edu.hk/projects/CelebA.html (align and cropped)"


def celeba(
    attribute: str = "Eyeglasses",
    folder: str | os.PathLike | None = None,
    *,
    images: int | None = None,
    side: int | None = None,
) -> Images:
    """Faces, with label 1 if they have the attribute and 0 otherwise.

    Args:
        attribute: a name in the second line of `list_attr_celeba.txt`.
        folder: the folder that holds `celeba`, or that folder itself, with the lists and
            `img_align_celeba/000001.jpg`, …; None uses the environment variable LEARNDYN_DATA.
        images: number of leading images; None for all that are listed (202,599, 24 GB of pixels).
        side: number of pixels of a side, to which the central square of a face (218 × 178 as
            published) is reduced by averaging; None leaves faces as they are stored.

    Returns:
        The images; `training` counts those of part 0 if `list_eval_partition.txt` exists.

    Raises:
        ValueError: if a file is missing or has another format, or does not list the attribute.
    """
    root = folder_of("celeba", folder)
    names, labels = _listed(root, attribute)
    if images is not None:
        names, labels = names[: positive_int("images", images)], labels[: int(images)]
    small = None if side is None else positive_int("side", side)
    pixels = np.stack([_face(root / FOLDER / name, small) for name in names])
    name = f"CelebA by {attribute}, {len(names)} images"
    return Images(pixels, labels, name, _training(root, names))


def _listed(root: pathlib.Path, attribute: str) -> tuple[list[str], np.ndarray]:
    """Names of files and the attribute, 0 or 1, in the order of the list."""
    path = root / ATTRIBUTES
    if not path.is_file():
        raise missing(ATTRIBUTES, root, _SOURCE)
    lines = [line.split() for line in path.read_text().splitlines() if line.strip()]
    if len(lines) < 3 or len(lines[0]) != 1 or len(lines[2]) != 1 + len(lines[1]):
        raise ValueError(
            f"{ATTRIBUTES}: is no list; allowed are a count, names of attributes, and rows of ±1"
        )
    column = 1 + lines[1].index(one_of("attribute", attribute, lines[1]))
    return [row[0] for row in lines[2:]], np.array([int(row[column] == "1") for row in lines[2:]])


def _face(path: pathlib.Path, side: int | None) -> np.ndarray:
    """An image as bytes, (3, rows, columns)."""
    if not path.is_file():
        raise missing(f"{FOLDER}/{path.name}", path.parent.parent, _SOURCE)
    try:
        with Image.open(path) as file:
            face = file.convert("RGB")
    except (UnidentifiedImageError, OSError):
        raise ValueError(f"{path.name}: is no image, or cut short") from None
    if side is not None:
        least = min(face.size)
        left, top = ((length - least) // 2 for length in face.size)
        square = (left, top, left + least, top + least)
        face = face.resize((side, side), Image.Resampling.BOX, box=square)
    return np.moveaxis(np.asarray(face), -1, 0)


def _training(root: pathlib.Path, names: list[str]) -> int | None:
    path = root / PARTITION
    if not path.is_file():
        return None
    part = dict(line.split() for line in path.read_text().splitlines() if line.strip())
    return sum(part.get(name) == "0" for name in names)
