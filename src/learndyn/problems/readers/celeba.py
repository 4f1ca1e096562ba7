"""Faces of CelebA, labelled by one of their attributes."""

import os
import pathlib

import numpy as np
from PIL import Image

from learndyn.problems.readers.files import Images, folder_of, missing
from learndyn.runtime.checks import one_of, positive_int
from learndyn.runtime.memory import check_fits

ATTRIBUTES, PARTITION = "list_attr_celeba.txt", "list_eval_partition.txt"
FOLDER = "img_align_celeba"
LARGEST = 10**7  # pixels; a header may promise any number
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
    first = _face(root / FOLDER / names[0], small)
    check_fits(FOLDER, first.nbytes * len(names))
    pixels = np.empty((len(names), *first.shape), np.uint8)
    for i, name in enumerate(names):
        face = _face(root / FOLDER / name, small)
        if face.shape != first.shape:
            raise ValueError(f"{name}: has shape {face.shape}; allowed is {first.shape}")
        pixels[i] = face
    name = f"CelebA by {attribute}, {len(names)} images"
    return Images(pixels, labels, name, _training(root, names))


def _listed(root: pathlib.Path, attribute: str) -> tuple[list[str], np.ndarray]:
    """Names of files and the attribute, 0 or 1, in the order of the list."""
    path = root / ATTRIBUTES
    if not path.is_file():
        raise missing(ATTRIBUTES, root, _SOURCE)
    lines = _lines(path)
    columns = {len(line) for line in lines[2:]}
    if len(lines) < 3 or len(lines[0]) != 1 or columns != {1 + len(lines[1])}:
        raise ValueError(
            f"{ATTRIBUTES}: is no list; allowed are a count, names of attributes, and rows of ±1"
        )
    names = [row[0] for row in lines[2:]]
    if wrong := next((n for n in names if pathlib.PurePath(n).name != n), ""):
        raise ValueError(f"{ATTRIBUTES}: names {wrong!r}; allowed are files of {FOLDER}")
    column = 1 + lines[1].index(one_of("attribute", attribute, lines[1]))
    return names, np.array([int(row[column] == "1") for row in lines[2:]])


def _lines(path: pathlib.Path) -> list[list[str]]:
    """The words of each line of a list."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path.name}: is no text ({error}); allowed is a list") from None
    return [line.split() for line in text.splitlines() if line.strip()]


def _face(path: pathlib.Path, side: int | None) -> np.ndarray:
    """An image as bytes, (3, rows, columns)."""
    if not path.is_file():
        raise missing(f"{FOLDER}/{path.name}", path.parent.parent, _SOURCE)
    try:
        with Image.open(path, formats=("JPEG", "PNG")) as file:
            if file.width * file.height > LARGEST:
                raise OSError("larger than any face")
            face = file.convert("RGB")
    except (OSError, SyntaxError, Image.DecompressionBombError, Image.DecompressionBombWarning):
        raise ValueError(
            f"{path.name}: is no image in JPEG or PNG, cut short, or too large"
        ) from None
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
    lines = _lines(path)
    if any(len(line) != 2 for line in lines):
        raise ValueError(f"{PARTITION}: is no list; allowed are rows of a name and a part")
    part = {name: number for name, number in lines}
    return sum(part.get(name) == "0" for name in names)
