"""The colours of curves can be told apart, also by people who do not see all colours."""

import itertools
import pathlib
import re

import numpy as np
import pytest

from learndyn.explorer import server

APART = 12.0  # CIE 1976 difference of two colours; about 2.3 can just be noticed side by side
CONTRAST = 3.0  # of a curve with the ground, the least for graphics in WCAG 2.1, 1.4.11
# Linear RGB as people without one kind of cone see it: Machado, Oliveira, Fernandes (2009).
SIGHT = {
    "usual": np.eye(3),
    "protanopia": [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216],
                   [-0.003882, -0.048116, 1.051998]],
    "deuteranopia": [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413],
                     [-0.011820, 0.042940, 0.968881]],
    "tritanopia": [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602],
                   [0.004733, 0.691367, 0.303900]],
}  # fmt: skip
XYZ = np.array(
    [[0.412456, 0.357576, 0.180438], [0.212673, 0.715152, 0.072175], [0.019334, 0.119192, 0.950304]]
)


def linear(colour):
    value = np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)


def lab(rgb):
    share = XYZ @ rgb / (XYZ @ np.ones(3))
    x, y, z = np.where(share > 0.008856, np.cbrt(share), 7.787 * share + 16 / 116)
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


def schemes():
    """The colours of the light and of the dark page."""
    text = (pathlib.Path(server.STATIC) / "explorer.css").read_text()
    parts = zip(("light", "dark"), text.split("@media"), strict=False)
    return {name: dict(re.findall(r"--(\w+): (#\w{6})", part)) for name, part in parts}


@pytest.mark.parametrize("sight", SIGHT)
@pytest.mark.parametrize("scheme", schemes())
def test_curves_can_be_told_apart(scheme, sight):
    colours = schemes()[scheme]
    seen = lambda name: lab(np.clip(SIGHT[sight] @ linear(colours[name]), 0, 1))
    names = [name for name in colours if re.fullmatch(r"c\d", name)]
    assert len(names) == 6
    for pair in [*itertools.combinations(names, 2), ("theory", "run")]:
        assert np.linalg.norm(seen(pair[0]) - seen(pair[1])) > APART, pair


@pytest.mark.parametrize("scheme", schemes())
def test_curves_can_be_seen(scheme):
    colours = schemes()[scheme]
    light = {name: 0.05 + float(XYZ[1] @ linear(colour)) for name, colour in colours.items()}
    for name in [f"c{k}" for k in range(6)] + ["theory", "run"]:
        ratio = light[name] / light["ground"]
        assert max(ratio, 1 / ratio) > CONTRAST, name
