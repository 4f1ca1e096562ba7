"""The colours of curves differ for people with any common kind of colour vision."""

import itertools

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from learndyn.plotting.style import _settings

# How light looks without one kind of cone: Machado, Oliveira and Fernandes (2009), severity 1.
VISION = {
    "normal": np.eye(3),
    "protanopia": [[0.1523, 1.0526, -0.2049], [0.1145, 0.7863, 0.0992], [-0.0039, -0.0481, 1.0520]],
    "deuteranopia": [[0.3673, 0.8606, -0.2280], [0.2801, 0.6725, 0.0474], [-0.0118, 0.043, 0.969]],
    "tritanopia": [[1.2555, -0.0767, -0.1788], [-0.0784, 0.9308, 0.1476], [0.0047, 0.6914, 0.3039]],
}  # fmt: skip
XYZ = [[0.4125, 0.3576, 0.1804], [0.2127, 0.7152, 0.0722], [0.0193, 0.1192, 0.9503]]  # sRGB, D65
GLANCE = 10  # CIE 1976: a difference that is seen at a glance; 2.3 is the smallest that is seen


def lab(color, vision):
    """A colour as it is seen, in CIE 1976 L*a*b*."""
    rgb = np.asarray(to_rgb(color))
    light = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.asarray(VISION[vision]) @ light, 0, 1)
    xyz = np.asarray(XYZ) @ seen / np.sum(XYZ, axis=1)
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def nearest(colors, vision):
    """The smallest difference between two of the colours."""
    seen = [lab(color, vision) for color in colors]
    return min(np.linalg.norm(a - b) for a, b in itertools.combinations(seen, 2))


@pytest.mark.parametrize("vision", VISION)
def test_any_two_colours_of_the_style_differ_at_a_glance(vision):
    colors = _settings()["axes.prop_cycle"].by_key()["color"]
    assert len(colors) == 8 and nearest(colors, vision) > GLANCE


def test_matplotlibs_own_green_and_red_do_not():
    assert nearest(["#2ca02c", "#d62728"], "normal") > GLANCE
    assert nearest(["#2ca02c", "#d62728"], "deuteranopia") < GLANCE
