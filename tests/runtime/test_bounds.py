"""Bounds say what the constructors accept."""

import inspect
import math

import pytest
from tests.odd_values.calls import CALLS

import learndyn as ld
from learndyn.runtime.bounds import _KNOWN

CASES = [(kind, name) for kind, bounds in _KNOWN.items() for name in bounds]


def made(kind, name, value):
    arguments = dict(CALLS[kind.__name__]().arguments)
    arguments |= {"loss": None} if name == "loss_scale" else {}  # one of the two
    arguments |= {"matrix": None} if name == "outputs" else {}  # which has as many rows
    arguments |= {"outputs": None} if name == "units" else {}
    arguments |= {"diffusion": None} if name == "rotation" else {}
    arguments |= {"levels": 1} if name == "dim" and "levels" in arguments else {}  # a divisor
    return kind(**{**arguments, name: value})


def inside(bounds):
    ends = [bounds.low if bounds.with_low else bounds.low + 1e-9]
    middle = 2 if bounds.whole else bounds.low + 0.5
    return [int(v) if bounds.whole else v for v in (*ends, middle)]


def outside(bounds):
    values = [bounds.low - (1 if bounds.whole else 1e-9)]
    values += [] if bounds.with_low else [bounds.low]
    values += [bounds.high * (1 + 1e-9)] if math.isfinite(bounds.high) else [math.inf]
    return [int(v) if bounds.whole else v for v in values]


@pytest.mark.parametrize("kind, name", CASES, ids=[f"{k.__name__}.{n}" for k, n in CASES])
def test_constructors_agree(kind, name):
    bounds = ld.bounds_of(kind)[name]
    assert name in inspect.signature(kind).parameters
    for value in inside(bounds):
        assert value in bounds
        if name != "levels" or value == 1:  # others must divide the dimension
            made(kind, name, value)
    for value in outside(bounds):
        assert value not in bounds
        with pytest.raises(ValueError, match=rf"\A{name}: "):
            made(kind, name, value)


def test_a_constructor_without_bounds_is_refused():
    with pytest.raises(ValueError, match=r"\Aconstructor: got solve; allowed are AdaTron, CNN, "):
        ld.bounds_of(ld.solve)
