"""Figures as data URIs: SVG where it is small, else lossless WebP."""

import base64
import io
import pathlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SMALL = 200_000  # bytes: larger drawings are slow to show, and larger than their pictures
EFFORT = 4  # of 6 at which WebP is compressed: more takes twice as long for a few percent


def of_folder(folder: pathlib.Path) -> str:
    """The figure that `learndyn run` wrote into a folder; "" if there is none."""
    drawing, picture = folder / "figure.svg", folder / "figure.png"
    if drawing.is_file() and (drawing.stat().st_size < SMALL or not picture.is_file()):
        return _svg(drawing.read_bytes())
    return _webp(picture.read_bytes(), picture) if picture.is_file() else ""


def of_figure(figure: "Figure") -> str:
    """A figure that was drawn just now."""
    drawing, picture = io.BytesIO(), io.BytesIO()
    figure.savefig(drawing, format="svg")
    if drawing.tell() < SMALL:
        return _svg(drawing.getvalue())
    figure.savefig(picture, format="png")
    return _webp(picture.getvalue(), "the figure")


def _svg(content: bytes) -> str:
    # An SVG in an <img> runs no scripts and loads nothing.
    return f"data:image/svg+xml;base64,{base64.b64encode(content).decode()}"


def _webp(content: bytes, source: object) -> str:
    from PIL import Image

    target = io.BytesIO()
    try:
        image = Image.open(io.BytesIO(content))
        image.convert("RGB").save(target, "WEBP", lossless=True, method=EFFORT)
    except (OSError, ValueError):
        raise ValueError(f"{source}: got no readable picture; allowed is a PNG") from None
    return f"data:image/webp;base64,{base64.b64encode(target.getvalue()).decode()}"
