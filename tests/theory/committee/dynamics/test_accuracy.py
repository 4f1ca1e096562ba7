"""`solve(accuracy=…)`: what the record says about averages, and how good they are."""

import numpy as np
import pytest

import learndyn as ld


def system(g, f):
    data = ld.TeacherStudent(ld.Isotropic(100), ld.Committee(1, f))
    return ld.System(data, ld.Committee(2, g, init=ld.Normal(0.5)), ld.SGD(0.3))


def test_a_finer_computation_is_asked_for_by_accuracy():
    """softplus has no closed form: 1e-3 and 1e-9 differ, by no more than a few times 1e-3."""
    solve = lambda accuracy: ld.solve(
        system("softplus", "softplus"), [0.0, 2.0], key=1, order="flow", accuracy=accuracy
    )
    rough, fine = solve(1e-3), solve(1e-9)
    assert "Hermite series" in rough.attrs["averages"]
    assert fine.attrs["averages_error"] < 1e-8 <= rough.attrs["averages_error"] < 1e-2
    gap = np.abs(rough.error.values - fine.error.values).max()
    assert 0 < gap < 1e-2 * float(fine.error[0])


def test_closed_forms_say_so_and_ignore_it():
    plain = ld.solve(system("erf", "erf"), [0.0, 1.0], key=1)
    same = ld.solve(system("erf", "erf"), [0.0, 1.0], key=1, accuracy=1e-3)
    assert plain.attrs["averages"] == "closed form" and plain.attrs["averages_error"] == 0
    np.testing.assert_array_equal(plain.error, same.error)


def test_other_theories_refuse_it():
    data = ld.TeacherStudent(ld.Isotropic(3), ld.LinearTeacher(2, np.ones((2, 3))))
    deep = ld.System(data, ld.DeepLinear([3, 3, 2], init=ld.Aligned(0.5)), ld.GradientDescent(0.01))
    said = (
        r"\Aaccuracy: got 1e-08 for the [^\n]* theory, which needs no averages; allowed is None\Z"
    )
    with pytest.raises(ValueError, match=said):
        ld.solve(deep, [0, 1], accuracy=1e-8)
    with pytest.raises(ValueError, match=r"\Aaccuracy: got -1.0[^\n]*\Z"):
        ld.solve(system("erf", "erf"), [0, 1], accuracy=-1.0)
