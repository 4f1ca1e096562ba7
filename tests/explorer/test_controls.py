"""Controls take what they allow, and say in a line what is allowed."""

import json
import math

import pytest

import learndyn as ld
from learndyn.explorer.controls import Slider, checked, starts
from learndyn.explorer.pages import PAGES
from learndyn.explorer.views import Axis, Chart, plain

ODD = [None, True, "many", [1], {}, math.nan, math.inf, -math.inf, 10**400, -1e9, "a\0b", "x" * 301]


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_starting_values_are_valid_and_invalid_ones_are_refused(page):
    values = starts(page.controls)
    assert checked(page.controls, values) == values
    for name, control in page.controls.items():
        kinds = {"slider": float, "choice": str, "text": str, "flag": bool}
        for odd in ODD:
            if isinstance(odd, kinds[control.kind]) and control.kind in ("text", "flag"):
                continue
            with pytest.raises(ValueError, match=rf"\A{name}: got [^\n]*; allowed is [^\n]*\Z"):
                checked(page.controls, {**values, name: odd})
    for wrong in (None, [], {**values, "more": 1}, dict(list(values.items())[1:])):
        with pytest.raises(ValueError, match=r"\Avalues: got [^\n]*; allowed are exactly "):
            checked(page.controls, wrong)


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_ends_of_sliders_are_allowed_and_just_outside_is_not(page):
    for name, control in page.controls.items():
        if isinstance(control, Slider):
            step = 1 if control.whole else 1e-6 * max(1, abs(control.high))
            assert control.checked(name, control.low) == control.low
            assert control.checked(name, control.high) == control.high
            for value in (control.low - step, control.high + step):
                with pytest.raises(ValueError, match=name):
                    control.checked(name, value)
            if control.whole:
                with pytest.raises(ValueError, match="an integer from"):
                    control.checked(name, control.low + 0.5)


PARAMETERS = {
    "eta": (ld.SGD, "learning_rate"), "noise": (ld.TeacherStudent, "label_noise"),
    "N": (ld.Isotropic, "dim"), "K": (ld.Committee, "units"), "std": (ld.Normal, "std"),
    "exponent": (ld.PowerLaw, "exponent"), "power": (ld.NaturalGradient, "power"),
}  # fmt: skip


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_sliders_lie_within_the_bounds_of_the_library(page):
    for name in PARAMETERS.keys() & page.controls.keys():
        constructor, parameter = PARAMETERS[name]
        bounds, slider = ld.bounds_of(constructor)[parameter], page.controls[name]
        assert slider.low in bounds and slider.high in bounds, name


@pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
def test_pages_say_what_they_are(page):
    described = json.loads(json.dumps(page.described()))
    assert described["title"] and described["about"] and described["controls"].keys()


def test_views_are_plain_and_have_no_nan():
    chart = plain(Chart("a", Axis("x"), Axis("y"), [0.0, math.nan], []))
    assert chart["at"] == [0.0, None] and json.dumps(chart, allow_nan=False)
