"""Values: printing, JSON, and bad input in one line."""

import json

import jax
import numpy as np
import pytest

import learndyn as ld


def system(**changes):
    given = {"N": 50, "units": 2, "activation": "erf", "eta": 0.1} | changes
    data = ld.TeacherStudent(ld.Isotropic(given["N"]), ld.Committee(2, given["activation"]))
    return ld.System(data, ld.Committee(given["units"], given["activation"]), ld.SGD(given["eta"]))


def test_prints_as_the_call_that_makes_it():
    assert repr(ld.SGD(0.1, batch=4)) == "SGD(learning_rate=0.1, batch=4, sampling='replacement')"
    assert "Spectrum(values=[1.0], counts=[50])" in repr(system())


@pytest.mark.parametrize("rule", [ld.SGD(0.3, batch=2), ld.GradientDescent(0.3)])
@pytest.mark.parametrize("init", [ld.Normal(0.5), ld.Orthonormal(2.0), ld.Typical()])
def test_json_round_trip(rule, init):
    teacher = ld.Committee(2, "quadratic", scale=0.5, init=init)
    data = ld.TeacherStudent(ld.PowerLaw(60, 4, 1.0), teacher, label_noise=0.1, loss_scale=1.0)
    it = ld.System(data, ld.Committee(3, "quadratic", init=init), rule)
    assert ld.System.from_json(it.to_json()).to_json() == it.to_json()


def test_a_notebook_shows_the_factors():
    shown = system()._repr_html_()
    assert shown.count("<tr>") == 3 and "SGD(learning_rate=0.1" in shown and "N = 50" in shown


def test_large_arrays_are_kept_as_hash():
    spectrum = ld.PowerLaw(5000, 5000, 1.0)
    it = ld.System(
        ld.TeacherStudent(spectrum, ld.Committee(1, "erf")), ld.Committee(1, "erf"), ld.SGD(0.1)
    )
    kept = json.loads(it.to_json())["problem"]["inputs"]["spectrum"]["values"]
    assert kept["shape"] == [5000]
    with pytest.raises(ValueError, match="kept as a hash"):
        ld.System.from_json(it.to_json())


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: ld.Isotropic(0), "dim: got 0; allowed is a positive integer"),
        (lambda: ld.Isotropic(-3), "dim: got -3"),
        (lambda: ld.Committee(0, "erf"), "units: got 0"),
        (lambda: ld.Committee(2, "step"), "activation: got 'step'; allowed is one of 'linear'"),
        (lambda: ld.Committee(2, "erf", scale=float("nan")), "scale: got nan"),
        (lambda: ld.SGD(-0.1), "learning_rate: got -0.1; allowed is a positive finite number"),
        (lambda: ld.SGD(float("inf")), "learning_rate: got inf"),
        (lambda: ld.SGD(0.1, batch=0), "batch: got 0"),
        (lambda: ld.Normal(0.0), "std: got 0.0"),
        (lambda: ld.Orthonormal(-1.0), "norm: got -1.0"),
        (lambda: ld.PowerLaw(10, 3, 1.0), "levels: got 3 for dim 10; allowed is a divisor"),
        (lambda: ld.PowerLaw(10, 5, -1.0), "exponent: got -1.0"),
        (lambda: ld.Spectrum([0.5, 2.0], [5, 5]), "values: got an unsorted list"),
        (lambda: ld.Spectrum([2.0, -0.5], [5, 5]), "values: got -0.5"),
        (lambda: ld.Spectrum([2.0, 0.5], [5, 0]), "counts: got"),
        (lambda: ld.Spectrum([2.0, 0.5], [5]), "two lists of the same length"),
        (
            lambda: ld.TeacherStudent(ld.Isotropic(5), ld.Committee(1, "erf"), label_noise=-1.0),
            "label_noise: got -1.0",
        ),
        (lambda: ld.solve(system(), [0, 2, 1]), "times: got 2 before 1"),
        (lambda: ld.solve(system(), [-1, 2]), "times: got -1 first"),
        (lambda: ld.solve(system(), [0, float("nan")]), "times: entry"),
        (lambda: ld.solve(system(), []), "times: got shape"),
        (lambda: ld.simulate(system(), [0, 2, 1]), "times: got 2 before 1"),
        (lambda: ld.simulate(system(), [1], runs=0), "runs: got 0"),
        (lambda: ld.simulate(system(), [1], dtype="float16"), "dtype: got 'float16'"),
        (lambda: ld.simulate(system(), [1], method="exact"), "method: got 'exact'; allowed"),
        (lambda: ld.solve(system(), [1], order="third"), "order: got 'third'; allowed is one of"),
        (lambda: ld.solve(system(), [1], rtol=-1.0), "rtol: got -1.0"),
        (lambda: ld.update(system(), np.ones((2, 50))), "teacher: got None"),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


def test_power_law_is_normalised_and_descending():
    for dim, levels, beta in ((12, 4, 1.0), (512, 512, 0.3), (9, 9, 1.0)):
        s = ld.PowerLaw(dim, levels, beta)
        assert np.sum(s.counts * s.values) == pytest.approx(dim, rel=1e-14)
        np.testing.assert_allclose(s.values[0] / s.values, np.arange(1, levels + 1) ** (1 + beta))
    np.testing.assert_allclose(
        ld.PowerLaw(8, 4, 1.0).values,
        [2.8097560975609754, 0.7024390243902439, 0.31219512195121946, 0.17560975609756097],
    )


def test_nothing_touches_the_callers_configuration():
    before = jax.config.jax_enable_x64
    it = system()
    assert ld.solve(it, [0, 1]).error.dtype == np.float64
    ld.simulate(it, [0, 1])
    assert jax.config.jax_enable_x64 == before
    assert jax.numpy.ones(()).dtype == (np.float64 if before else np.float32)
