"""Points of a grid, and the functions that take them."""

import functools
import threading
import types

import numpy as np
import pytest

from learndyn.sweeping import function as functions
from learndyn.sweeping.points import Grid, extended, make_grid


def rows(grid):
    return [grid.point(row) for row in range(len(grid))]


def test_the_last_axis_is_fastest_and_numbers_are_pythons_own():
    grid = make_grid({"a": np.array([1, 2]), "b": [0.5, "x"]})
    assert rows(grid) == [
        {"a": 1, "b": 0.5}, {"a": 1, "b": "x"}, {"a": 2, "b": 0.5}, {"a": 2, "b": "x"},
    ]  # fmt: skip
    assert all(type(point["a"]) is int for point in rows(grid))
    assert grid.label(1) == "a=1, b=x"


def test_zipped_axes_run_together_and_where_leaves_out():
    grid = make_grid({"a": [1, 2], "c": [5, 6], "b": [10, 20]}, zipped=("a", "b"))
    assert [(p["a"], p["b"], p["c"]) for p in rows(grid)] == [
        (1, 10, 5), (1, 10, 6), (2, 20, 5), (2, 20, 6),
    ]  # fmt: skip
    kept = make_grid({"a": range(4), "b": range(4)}, where=lambda a, b: a + b == 3)
    assert [(p["a"], p["b"]) for p in rows(kept)] == [(0, 3), (1, 2), (2, 1), (3, 0)]


def test_zipped_axes_count_once():
    axes = dict.fromkeys("ab", range(1001))
    assert len(make_grid(axes, zipped=("a", "b"))) == 1001
    with pytest.raises(ValueError, match="axes: got 1,002,001 points"):
        make_grid(axes)


def test_a_key_is_the_points_own():
    small, large = make_grid({"a": [2], "b": [0.1]}), make_grid({"b": [0.1, 0.2], "a": [1, 2]})
    keys = {large.identity(row): large.key(row) for row in range(len(large))}
    assert small.key(0) == keys[small.identity(0)]
    assert len(set(keys.values())) == 4 and all(0 <= key < 2**63 for key in keys.values())


def test_objects_have_labels():
    wide = types.SimpleNamespace(label="wide", units=9)
    grid = make_grid({"net": [wide], "how": {"up": print, "down": len}})
    assert grid.point(1) == {"net": wide, "how": len} and grid.label(1) == "net=wide, how=down"
    back = Grid.from_json(make_grid({"how": {"up": print, "down": len}}).to_json(), trusted=True)
    assert back.point(1) == {"how": len}


def test_an_extended_grid_keeps_the_old_rows():
    old = make_grid({"a": [1, 3], "b": [1]})
    new = extended(old, make_grid({"a": [0, 1, 2, 3], "b": [1, 2]}))
    assert [(p["a"], p["b"]) for p in rows(new)][:2] == [(1, 1), (3, 1)]
    assert len(new) == 8 and len({new.identity(row) for row in range(8)}) == 8
    with pytest.raises(ValueError, match="extend: axis a lacks 3 of the store"):
        extended(old, make_grid({"a": [1, 2], "b": [1]}))
    with pytest.raises(ValueError, match="extend: the store has the axes a, b"):
        extended(old, make_grid({"a": [1, 3]}))


@pytest.mark.parametrize(
    ("axes", "more", "said"),
    [
        ({}, {}, "axes: got {}; allowed are names"),
        ({"a": []}, {}, "axes: a is empty"),
        ({"a": [1, 2, 1.0]}, {}, "axes: a has the value 1.0 twice"),
        ({"a": 3}, {}, "axes: a is an int; allowed is a non-empty list"),
        ({"a": [1, float("nan")]}, {}, "axes: a has nan; allowed"),
        ({"a": [object]}, {}, "axes: a has <class 'object'>; allowed"),
        ({"a": [1, 2], "b": [1]}, {"zipped": ("a", "b")}, "zipped: got lengths"),
        ({"a": [1]}, {"zipped": ("a", "b")}, "zipped: got 'b'; allowed is each of a once"),
        ({"a": [1]}, {"zipped": 3}, "zipped: got 3; allowed are names of axes"),
        ({"a": [1]}, {"where": lambda a: a > 1}, "where: got a condition that no point meets"),
        ({"a": [1]}, {"where": lambda b: True}, "where: at a=1: TypeError: "),
        ({"a": [1]}, {"where": 3}, "where: got an int; allowed is a function"),
        (
            {"a": range(10**9)},
            {},
            "axes: a has 1,000,000,000 values; allowed are at most 1,000,000",
        ),
        ({"a": range(10**30)}, {}, "axes: a has 9,223,372,036,854,775,807 values; allowed are"),
        (dict.fromkeys("abc", range(1000)), {}, "axes: got 1,000,000,000 points; allowed are at"),
        ({"point_status": [1]}, {}, "axes: got 'point_status', which sweeps reserve"),
        ({"": [1]}, {}, "axes: got ''; allowed are names that files can have"),
        ({"..": [1]}, {}, "axes: got '..'; allowed are names that files can have"),
    ],
)
def test_bad_axes_are_one_line(axes, more, said):
    with pytest.raises(ValueError) as error:
        make_grid(axes, **more)
    assert str(error.value).startswith(said) and "\n" not in str(error.value)


def test_what_a_function_takes():
    assert functions.takes_key(lambda a, key: 0, ["a"])
    assert not functions.takes_key(lambda a, key=0: 0, ["a"])
    assert not functions.takes_key(lambda **point: 0, ["a", "b"])
    assert not functions.takes_key(lambda a, key: 0, ["a", "key"])
    with pytest.raises(ValueError, match="axes: got 'b'; the function's parameters are a"):
        functions.takes_key(lambda a: 0, ["a", "b"])
    with pytest.raises(ValueError, match="function: needs 'b'"):
        functions.takes_key(lambda a, b: 0, ["a"])
    with pytest.raises(ValueError, match="function: got an int"):
        functions.takes_key(3, ["a"])  # pyright: ignore


def made(text):
    """Functions of a module whose source is only known as bytecode."""
    space = {"__name__": "made"}
    exec(text, space)
    return space["f"]


def test_a_version_sees_what_a_function_does():
    base = made("C = 2\ndef g(x): return x\ndef f(x): return C * g(x)")
    same = made("C = 2\ndef g(x):\n  # said\n  return x\ndef f(x):\n  return C * g(x)")
    assert functions.version(base) == functions.version(same)
    for other in (
        "C = 3\ndef g(x): return x\ndef f(x): return C * g(x)",
        "C = 2\ndef g(x): return x + 1\ndef f(x): return C * g(x)",
        "C = 2\ndef g(x): return x\ndef f(x): return C + g(x)",
    ):
        assert functions.version(made(other)) != functions.version(base)


def test_a_version_sees_arguments_and_closures_and_no_comments():
    def outer(c):
        def inner(x):
            """Says something."""
            return c * x  # and something

        return inner

    assert functions.version(outer(1)) == functions.version(outer(1))
    assert functions.version(outer(1)) != functions.version(outer(2))
    bound = functools.partial(outer(1), x=1)
    assert functions.version(bound) != functions.version(functools.partial(outer(1), x=2))
    assert functions.version(lambda x: x) != functions.version(lambda x: 2 * x)


def test_functions_that_cannot_be_sent_raise_a_one_line_error():
    lock = threading.Lock()
    with pytest.raises(ValueError, match="function: cannot be sent to a worker") as error:
        functions.packed(lambda a: lock)
    assert "creates what does not pickle" in str(error.value)
    with pytest.raises(ValueError, match="function: a worker cannot load it"):
        functions.unpacked(b"nothing")
    with pytest.raises(ValueError, match="axes: lock cannot be sent to a worker"):
        functions.check_values({"a": [1], "lock": [threading.Lock()]})
