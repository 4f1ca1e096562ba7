"""Figures show what the record holds."""

import inspect

import matplotlib
import matplotlib.colors
import matplotlib.style
import numpy as np
import pytest
import xarray as xr
from matplotlib.legend import Legend

import learndyn as ld
from learndyn.plotting import legend, panels, shared_legend
from learndyn.plotting.mathematics import mathematics
from learndyn.plotting.style import color_of, line_of, marker_of, style
from learndyn.plotting.swept import plot_swept


@pytest.fixture(scope="module")
def pair():
    data = ld.TeacherStudent(ld.Isotropic(40), ld.Committee(2, "quadratic"))
    system = ld.System(data, ld.Committee(3, "quadratic", scale=0.3), ld.SGD(0.05))
    begin = ld.start(system)
    times = np.linspace(0, 5, 11)
    return (
        ld.solve(system, times, start=begin),
        ld.simulate(system, times, start=begin, runs=3),
    )


def test_each_entry_is_drawn_once(pair):
    figure = ld.plot(pair[0])
    Q, R, error = figure.axes
    assert [len([x for x in a.lines if len(x.get_xdata())]) for a in (Q, R, error)] == [6, 6, 1]
    assert Q.get_xlabel() == "time [steps / N]"
    assert error.get_ylabel() == "generalisation error"
    np.testing.assert_array_equal(error.lines[0].get_ydata(), pair[0].error)


def test_simulation_is_drawn_over_theory(pair):
    figure = ld.plot(*pair, variables=["error"])
    (axis,) = figure.axes
    theory, runs = (x for x in axis.lines if len(x.get_xdata()))
    assert theory.get_linestyle() == "-" and runs.get_marker() == "o"
    np.testing.assert_allclose(runs.get_ydata(), pair[1].error.mean("run"))
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["theory (full)", "simulation, 3 runs"]


def test_a_theory_with_fluctuations_has_its_own_band(pair):
    theory, runs = pair
    std = {f"{name}_std": 0.1 + 0 * theory[name] for name in ("Q", "R", "error")}
    figure = ld.plot(theory.assign(std), runs.isel(run=[0]))
    assert len(figure.axes) == 3  # the standard deviations are bands, not panels
    for axis, entries in zip(figure.axes, (6, 6, 1), strict=True):
        assert len([band for band in axis.collections if len(band.get_paths())]) >= entries
    (band, *_) = figure.axes[2].collections
    low, high = band.get_paths()[0].get_extents().intervaly
    assert low == pytest.approx(float(theory.error.min()) - 0.2)
    assert high == pytest.approx(float(theory.error.max()) + 0.2)
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["theory (full)", "± 2 standard deviations at N = 40", "simulation, 1 run"]


def test_log_axes_where_asked(pair):
    assert ld.plot(pair[0], variables=["error"], log="y").axes[0].get_yscale() == "log"
    assert ld.plot(pair[0], variables=["error"], log="").axes[0].get_yscale() == "linear"


def test_unknown_variables_are_refused(pair):
    with pytest.raises(ValueError, match="variables: got 'loss'; allowed are"):
        ld.plot(pair[0], variables=["loss"])
    with pytest.raises(ValueError, match="variables: got 'outcome'; allowed are"):
        ld.plot(pair[0], variables=["outcome"])


def test_unknown_axes_are_refused(pair):
    with pytest.raises(ValueError, match="log: got 'z'; allowed is one of '', 'x', 'y', 'xy', 'a"):
        ld.plot(pair[0], log="z")


def test_two_systems_are_drawn_together_only_where_asked(pair):
    theory, runs = pair
    other = runs.assign_attrs(system=runs.attrs["system"].replace("0.05", "0.06"))
    with pytest.raises(ValueError, match=r"learning_rate \(0\.05 against 0\.06\); allowed"):
        ld.plot(theory, other)
    assert len(ld.plot(theory, other, same_system=False).axes) == 3
    with pytest.raises(ValueError, match="simulation: got no attribute 'system'"):
        ld.plot(theory, runs.drop_attrs())


def test_one_axis_has_one_unit_of_time(pair):
    theory, runs = pair
    steps = runs.assign_coords(time=runs.time.assign_attrs(unit="steps"))
    with pytest.raises(ValueError, match="its time is in 'steps', that of record in 'steps / N'"):
        ld.plot(theory, steps, same_system=False)


def test_other_objects_than_records_are_refused(pair):
    for given in (pair[0].isel(time=0), pair[0][["outcome"]]):
        with pytest.raises(ValueError, match="record: got no coordinate 'time'; allowed"):
            ld.plot(given)
    with pytest.raises(ValueError, match="simulation: got no coordinate 'time'; allowed"):
        ld.plot(pair[0], pair[1].drop_vars(["time", "step"]))


def test_variables_without_numbers_over_time_are_refused_or_left_out():
    good = xr.Dataset({"e": ("time", np.ones(4))}, {"time": np.arange(4.0)})
    days = np.arange(4).astype("datetime64[D]")
    for bad, said in (
        (good.assign_coords(time=days), "record: got times of type datetime64"),
        (good.assign_coords(time=list("abcd")), "record: got times of type <U1; allowed are"),
        (xr.Dataset({"e": ("time", list("abcd"))}, good.coords), "record: got no variable with "),
        (good * 1j, "record: got no variable with the dimension time; allowed is a record"),
        (xr.Dataset(), "record: got no coordinate 'time'; allowed is a record"),
    ):
        with pytest.raises(ValueError) as error:
            ld.plot(bad)
        assert str(error.value).startswith(said) and "\n" not in str(error.value)
    assert len(ld.plot(good.assign(name=("time", list("abcd")))).axes) == 1
    for other in (None, {"e": 1}, good["e"], "record.nc", [good]):  # without the check of types
        with pytest.raises(ValueError, match=r"\Arecord: got .*; allowed is a record of `solve`"):
            inspect.unwrap(ld.plot)(other)
        with pytest.raises(ValueError, match=r"\Arecord: got .*; allowed is a Dataset of a sweep"):
            inspect.unwrap(plot_swept)(other, x="eta")


def test_runs_are_drawn_over_a_theory_and_not_over_runs(pair):
    with pytest.raises(ValueError, match="record: got runs beside a simulation; allowed is a rec"):
        ld.plot(pair[1], pair[1])
    with pytest.raises(ValueError, match="simulation: got no dimension 'run'; allowed is a record"):
        ld.plot(pair[0], pair[0])


def test_the_legend_says_where_a_theory_is_approximate(pair):
    figure = ld.plot(pair[0].assign_attrs(coverage="approximate"), pair[1])
    labels = [text.get_text() for text in figure.legends[0].get_texts()]
    assert labels == ["theory (full, approximate)", "simulation, 3 runs"]


def test_a_legend_explains_styles_beside_what_is_drawn():
    _, (axis,) = panels(1)
    axis.plot([0, 1], [0, 1], color="C1", label="drawn")
    legend(axis, {"line": {}, "points": {"marker": "o"}, "dots": {"ls": ":"}}, loc="lower left")
    shown = axis.get_legend()
    assert [text.get_text() for text in shown.get_texts()] == ["drawn", "line", "points", "dots"]
    styles = [line.get_linestyle() for line in axis.lines[1:]]
    assert styles == ["-", "None", ":"] and axis.lines[2].get_marker() == "o"


def test_a_key_says_which_entry_a_colour_is(pair):
    Q, R, error = ld.plot(*pair).axes
    (key,) = [child for child in Q.get_children() if isinstance(child, Legend)][:1]
    said = [text.get_text() for text in key.get_texts()]
    assert said == [f"$Q_{{{i},{j}}}$" for i in range(3) for j in range(i, 3)]
    for number, line in enumerate(key.get_lines()):
        assert line.get_color() == Q.lines[number].get_color()
    assert not [child for child in error.get_children() if isinstance(child, Legend)]
    assert "$R_{2,1}$" in [
        t.get_text()
        for child in R.get_children()
        if isinstance(child, Legend)
        for t in child.get_texts()
    ]


def test_more_than_ten_entries_are_told_apart():
    times, Q = np.arange(3.0), np.arange(48.0).reshape(3, 16)
    record = xr.Dataset({"Q": (("time", "student"), Q)}, {"time": times})
    (axis,) = ld.plot(record).axes
    looks = [(line.get_color(), line.get_linestyle()) for line in axis.lines[:16]]
    assert len(set(looks)) == 16


def test_logarithmic_axes_show_no_point_that_has_no_place_there(pair):
    theory = pair[0].assign(error=pair[0].error.where(pair[0].time < 4, 0.0))
    (axis,) = ld.plot(theory, pair[1], variables=["error"], log="xy").axes
    for line in axis.lines:
        x, y = line.get_data()
        assert not np.any(np.asarray(x) <= 0) and not np.any(np.asarray(y) <= 0)
    for band in axis.collections:
        assert np.all(band.get_paths()[0].vertices[:, 0] > 0)


def test_values_read_now_and_then_are_drawn_where_they_were_read():
    recorder = ld.Recorder({"size": lambda model: model.weights.max()}, every=40)
    for step in range(121):
        model = ld.Model(ld.Committee(1, "linear"), np.full((1, 2), 1.0 + step))
        recorder(step, model, loss=1.0)
    axes = {axis.get_ylabel(): axis for axis in ld.plot(recorder.record(), log="").axes}
    (line,) = axes["size"].lines
    np.testing.assert_array_equal(line.get_data(), [[0, 40, 80, 120], [1, 41, 81, 121]])
    assert line.get_markevery() == 1 and len(axes["loss"].lines[0].get_xdata()) == 121


def test_own_axes_take_one_variable(pair):
    figure, (own, _) = panels(2)
    assert ld.plot(*pair, variables=["error"], ax=own) is figure
    assert len(own.lines) == 2 and own.get_legend() is not None
    with pytest.raises(ValueError, match="ax: got axes for 2 variables"):
        ld.plot(*pair, variables=["Q", "R"], ax=own)


def test_figures_keep_the_style_and_leave_settings_alone(tmp_path):
    before = matplotlib.rcParams["svg.fonttype"], matplotlib.rcParams["axes.prop_cycle"]
    figure, axes = panels(5, columns=5)
    assert axes[4].get_subplotspec().rowspan.start == 1  # at most four in a row
    assert [axis.texts[0].get_text() for axis in axes] == list("abcde")
    axes[0].plot([0, 1], color="C1")
    figure.savefig(tmp_path / "figure.svg")
    text = (tmp_path / "figure.svg").read_text()
    assert "#d55e00" in text and "<text" not in text  # the style's second colour; paths, not fonts
    assert before == (matplotlib.rcParams["svg.fonttype"], matplotlib.rcParams["axes.prop_cycle"])


def test_a_function_that_draws_can_be_decorated_with_the_style():
    @style()
    def draw(axis):
        axis.plot([0, 1], label="line")
        return axis.axvspan(0, 1, color="C1"), axis.legend()

    area, key = draw(panels(1)[1][0])
    assert matplotlib.colors.to_hex(area.get_facecolor()) == "#d55e00" and not key.get_frame_on()
    _, (axis,) = panels(1)
    axis.plot([0, 1], label="line")
    legend(axis)  # of ours, in the style anywhere
    assert not axis.get_legend().get_frame_on()
    assert axis.get_legend().get_texts()[0].get_fontsize() == 8


def test_a_figure_is_shown_in_a_notebook_without_pyplot():
    """By IPython, which asks for a picture and its size on the page."""
    figure, _ = panels(2)
    picture, shown = figure._repr_png_()
    assert picture.startswith(b"\x89PNG")
    width, height = (int.from_bytes(picture[i : i + 4], "big") for i in (16, 20))
    assert (width, height) == (2 * shown["width"], 2 * shown["height"]) == (1840, 680)


def test_no_text_is_smaller_than_that_of_a_legend():
    figure, (axis,) = panels(1)
    axis.plot([0, 1], label="line")
    axis.set_title("title", fontsize=12)
    axis.annotate("note", (0, 0), fontsize=5)
    legend(axis, fontsize=6)
    figure.draw_without_rendering()
    assert axis.get_legend().get_texts()[0].get_fontsize() == 8 == axis.texts[0].get_fontsize()
    assert axis.title.get_fontsize() == 12


def test_a_letter_of_the_paper_replaces_ours():
    figure, axes = panels(3)
    axes[0].set_title("A  SGD", loc="left")
    axes[1].set_title("SGD", loc="left")
    figure.draw_without_rendering()
    drawn = [axis.texts[0].get_tightbbox() for axis in axes]
    assert [box is not None and box.width > 0 for box in drawn] == [False, True, True]


def test_matplotlib_finds_the_style_by_its_name():
    with matplotlib.style.context("learndyn.plotting.learndyn"):
        assert matplotlib.rcParams["savefig.dpi"] == 200


def test_the_first_curves_differ_without_colour():
    pairs = [(color_of(n), line_of(n)) for n in range(32)]
    marks = [(color_of(n), marker_of(n)) for n in range(64)]
    assert len(set(pairs)) == 32 and len(set(marks)) == 64
    assert len({line_of(n) for n in range(4)}) == 4 and len({marker_of(n) for n in range(8)}) == 8


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("η/η_crit", r"η/$η_{\mathrm{crit}}$"),
        ("n/λ_1(0)", "n/$λ_{1}$(0)"),
        ("∝ m^(−1/2)", "∝ $m^{−1/2}$"),
        ("L_h^2", "$L_{h}$$^{2}$"),
        ("f_quad, 10^4 steps", r"$f_{\mathrm{quad}}$, 10$^{4}$ steps"),
        ("test_error", "test_error"),
        ("$a_b$ and η_crit", "$a_b$ and η_crit"),
    ],
)
def test_plain_text_is_set_as_mathematics(text, expected):
    assert mathematics(text) == mathematics(mathematics(text)) == expected
    figure, (axis,) = panels(1)
    axis.set_title(text)
    figure.draw_without_rendering()
    axis.set_xticks([0.5], [text])
    for _ in range(2):
        figure.draw_without_rendering()
        assert axis.get_title() == axis.get_xticklabels()[0].get_text() == expected


def test_logarithmic_axes_are_labelled_at_decades_or_by_plain_numbers():
    figure, (one, two) = panels(2)
    one.loglog([1, 8], [1, 1000])
    two.semilogy([1, 8], [0.2, 0.7])
    figure.draw_without_rendering()
    labels = lambda axis, minor: [t.get_text() for t in axis.get_ticklabels(minor=minor)]
    assert {"2", "3"} <= set(labels(one.xaxis, True)) and "1" in labels(one.xaxis, False)
    assert not any(labels(one.yaxis, True)) and any("10^" in t for t in labels(one.yaxis, False))
    assert {"0.2", "0.3", "0.4", "0.6"} <= set(labels(two.yaxis, True))


def test_axes_of_others_are_labelled_like_ours(pair):
    from matplotlib.figure import Figure

    figure = Figure()
    axis = figure.subplots()
    record = pair[0].isel(time=slice(0, 2))
    record = record.assign(error=record["error"].copy(data=[0.2, 0.7]))
    ld.plot(record, variables=["error"], ax=axis, log="y")
    figure.draw_without_rendering()
    texts = {each.get_text() for each in axis.get_yticklabels(minor=True)}
    assert {"0.2", "0.3", "0.4", "0.6"} <= texts


def test_panels_share_a_legend():
    for count, inside in ((3, True), (4, False)):
        figure, axes = panels(count)
        for number, axis in enumerate(axes):
            axis.plot([1, 2], label="both")
            axis.plot([2, 1], label=f"{number}")
            legend(axis)
        shared_legend(axes, {"mean": {"marker": "o"}})
        (found,) = [axes[-1].get_legend()] if inside else figure.legends
        names = [text.get_text() for text in found.get_texts()]
        assert sorted(names) == sorted(["both", "mean", *map(str, range(count))])
        own = [axis for axis in axes if axis.get_legend()]
        assert own == ([axes[-1]] if inside else [])
