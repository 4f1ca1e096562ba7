"""Swept data drawn: cells, curves and contours where the numbers say."""

import numpy as np
import pytest
import xarray as xr

import learndyn as ld

ETA, KEYS = np.geomspace(0.01, 10, 6), np.arange(3)
BETA = np.array([0.5, 1.0, 2.0])
DATA = xr.Dataset(
    {
        "error": (("eta", "beta", "key"), ETA[:, None, None] * BETA[:, None] * (1 + KEYS)),
        "ratio": (("eta", "beta"), np.outer(ETA, BETA), {"long_name": "η β"}),
        "outcome": (("eta",), ["a"] * 6),
    },
    {"eta": ("eta", ETA, {"long_name": "rate"}), "beta": BETA, "key": KEYS},
)


def test_a_heat_map_with_its_contour():
    figure = ld.plot(DATA, x="eta", y="beta", value="error", contours="ratio")
    axis, bar = figure.axes
    assert axis.get_xlabel() == "rate" and axis.get_ylabel() == "beta"
    assert axis.get_xscale() == "log" and axis.get_yscale() == "linear"
    mesh = axis.collections[0]
    np.testing.assert_allclose(mesh.get_array(), DATA["error"].mean("key").T)
    assert bar.get_ylabel() == "error"
    lines = [path.vertices for path in axis.collections[1].get_paths()]
    x, y = np.array([end for line in lines for end in (line[0], line[-1])]).T
    assert x.min() < 1 < x.max()  # the label cuts the line, which ends at its own points
    drawn = DATA["ratio"].interp(eta=xr.DataArray(x, dims="n"), beta=xr.DataArray(y, dims="n"))
    np.testing.assert_allclose(drawn[[0, -1]], 1, atol=1e-9)


def test_equal_ratios_are_logarithmic_and_integers_have_their_ticks():
    narrow = DATA.assign_coords(eta=np.geomspace(0.1, 0.8, 6))
    axis = ld.plot(narrow, x="eta", y="key", value="error").axes[0]
    assert axis.get_xscale() == "log" and list(axis.get_yticks()) == [0, 1, 2]
    even = DATA.assign_coords(eta=np.linspace(0.1, 0.8, 6))
    assert ld.plot(even, x="eta", y="key", value="error").axes[0].get_xscale() == "linear"


def test_curves_by_colour():
    figure = ld.plot(DATA, x="eta", color="beta", value="ratio")
    (axis,) = figure.axes
    for line, beta in zip(axis.lines, BETA, strict=True):
        np.testing.assert_allclose(line.get_ydata(), ETA * beta)
    said = [text.get_text() for text in axis.get_legend().get_texts()]
    assert said == ["beta = 0.5", "beta = 1", "beta = 2"]
    assert len({line.get_color() for line in map(_hashable, axis.lines)}) == 3


def _hashable(line):
    line.set_color(tuple(line.get_color()))
    return line


def test_axes_of_strings_and_unfinished_points():
    named = DATA.isel(eta=slice(2)).assign_coords(eta=["small", "large"])
    figure = ld.plot(named.where(named["beta"] > 1), x="eta", y="beta", value="error")
    ticks = [text.get_text() for text in figure.axes[0].get_xticklabels()]
    assert ticks == ["small", "large"]
    assert np.ma.count_masked(np.ma.masked_invalid(figure.axes[0].collections[0].get_array())) == 4


def test_values_in_any_order_are_drawn_in_increasing_order():
    """A sweep has them as they were given, or extended; cells would lie on one another."""
    mixed = DATA.isel(eta=[3, 0, 5, 1, 2, 4], beta=[2, 0, 1])
    for axes in ({"y": "beta"}, {"color": "beta"}):
        given, sorted_ = (
            ld.plot(data, x="eta", value="ratio", **axes).axes[0] for data in (mixed, DATA)
        )
        for one, other in zip(given.collections, sorted_.collections, strict=True):
            np.testing.assert_array_equal(one.get_array(), other.get_array())
            np.testing.assert_array_equal(one.get_coordinates(), other.get_coordinates())
        for one, other in zip(given.lines, sorted_.lines, strict=True):
            np.testing.assert_array_equal(one.get_xydata(), other.get_xydata())
        assert given.collections or given.lines


def test_bad_names_are_one_line():
    for options, said in (
        ({"x": "k", "value": "error"}, "x: got 'k'; allowed are the data's dimensions: eta"),
        ({"x": "eta"}, "value: got None; allowed is one of error, ratio"),
        ({"x": "eta", "y": "beta", "color": "key", "value": "error"}, "plot: got y and color"),
        ({"x": "eta", "y": "beta", "value": "error", "contours": "z"}, "contours: got 'z'"),
        ({"y": "beta"}, "plot: got y without x"),
        ({}, "x: got None with data of a sweep; allowed is one of its axes, eta, beta"),
    ):
        swept = DATA.assign_coords(point_status=(("eta", "beta"), np.full((6, 3), "finished")))
        with pytest.raises(ValueError, match=said):
            ld.plot(swept, **options)
    with pytest.raises(ValueError, match="record: got no variable of numbers; allowed is a Dat"):
        ld.plot(DATA.astype(str), x="eta")


def test_a_single_point_of_a_sweep_is_a_record():
    """As one cell of a map leads to it: the sweep's coordinates are numbers, no axes."""
    curve = ("time", np.exp(-np.arange(4.0)))
    point = xr.Dataset({"error": curve}, {"time": np.arange(4.0)})
    point = point.assign_coords(rate=0.1, point_status="finished")
    (axis,) = ld.plot(point).axes
    np.testing.assert_array_equal(axis.lines[0].get_ydata(), curve[1])


def test_theory_is_drawn_over_runs():
    runs = (1.1 * DATA[["error"]]).expand_dims(run=3)
    figure = ld.plot(DATA, runs, x="eta", color="beta", value="error")
    (axis,) = figure.axes
    lines, markers = axis.lines[:3], axis.lines[3:]
    for line, points in zip(lines, markers, strict=True):
        assert line.get_marker() == "None" and points.get_linestyle() == "None"
        assert np.array_equal(line.get_color(), points.get_color())
        np.testing.assert_allclose(points.get_ydata(), 1.1 * line.get_ydata())
    assert len(axis.get_legend().get_texts()) == 3
    axis, bar = ld.plot(DATA, runs, x="eta", y="beta", value="error").axes
    cells = axis.collections[0].get_array()
    np.testing.assert_allclose(cells, runs["error"].mean(("run", "key")).T)
    drawn = axis.collections[1]
    assert len(drawn.levels) and set(drawn.levels) <= set(bar.get_yticks())
    with pytest.raises(ValueError, match="simulation: got 'beta'; allowed are the data's dim"):
        ld.plot(DATA, runs.mean("beta"), x="eta", y="beta", value="error")
