"""The program of a system: executed it makes the system, and gives the same curve."""

import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld


def committee(**options):
    teacher = ld.Committee(2, "erf", scale=2**-0.5, init=ld.Orthonormal(1.0))
    problem = ld.TeacherStudent(ld.PowerLaw(12, 3, 0.7), teacher, label_noise=0.1)
    return ld.System(problem, ld.Committee(3, "erf", init=ld.Normal(0.01)), ld.SGD(0.3, **options))


def deep(rule):
    problem = ld.TeacherStudent(ld.Isotropic(2), ld.LinearTeacher(2, np.diag([3.0, 1.0])))
    return ld.System(problem, ld.DeepLinear([2, 4, 2], init=ld.Aligned([0.1, 0.2])), rule)


def data():
    x = np.random.default_rng(0).normal(size=(4, 3)).astype(np.float32)
    dataset = ld.Dataset(x, x[:, 0], test=(x, x[:, 0]))
    return ld.System(dataset, ld.MLP([3, 5, 1], "tanh", bias=True), ld.SGD(0.1, batch=2))


def moving(**how):
    teacher = ld.Committee(1, "erf")
    problem = ld.TeacherStudent(ld.Isotropic(12), teacher, drift=ld.Drift(**how))
    return ld.System(problem, ld.Committee(1, "linear"), ld.SGD(0.1))


SYSTEMS = {
    "rotation": moving(rotation=0.1),
    "diffusion": moving(diffusion=0.2),
    "committee": committee(batch=2, decay=0.1),
    "natural gradient": deep(ld.NaturalGradient(0.1, power=0.5)),
    "descent": deep(ld.GradientDescent(0.1, momentum=0.3)),
    "perturbation": deep(ld.NodePerturbation(0.01, sigma=1e-3)),
    "data": data(),
    "infinite": ld.System(
        data().problem, ld.infinite(ld.MLP([3, 5, 1], "erf"), train="last"), ld.GradientDescent(0.1)
    ),
}


def executed(text):
    names = {}
    exec(text, names)
    return names


@pytest.mark.parametrize("system", SYSTEMS.values(), ids=SYSTEMS)
def test_it_makes_the_system(system):
    text = ld.code_of(system)
    assert executed(text)["system"].to_json() == system.to_json()
    assert all(len(line) < 100 for line in text.splitlines()) or "Dataset" in text


def test_it_gives_the_same_curves():
    system, times = committee(), np.linspace(0, 4, 9)
    names = executed(ld.code_of(system, times, key=3, runs=2, runs_key=5))
    start = ld.start(system, key=3)
    theory = ld.solve(system, times, start=start)
    np.testing.assert_allclose(names["theory"].error, theory.error, rtol=1e-6)
    runs = ld.simulate(system, times, start=start, runs=2, key=5)
    np.testing.assert_array_equal(names["runs"].error, runs.error)


def test_spreads_are_asked_for():
    text = ld.code_of(committee(), [0, 1], fluctuations=True)
    assert "theory = ld.solve(system, times, start=start, fluctuations=True)\n" in text


@pytest.mark.slow  # compiles for half a minute
def test_it_predicts_the_same_spread():
    one = ld.Committee(1, "linear")
    system = ld.System(ld.TeacherStudent(ld.Isotropic(12), one), one, ld.SGD(0.3))
    theory = executed(ld.code_of(system, [0, 1], fluctuations=True))["theory"]
    expected = ld.solve(system, [0, 1], start=ld.start(system), fluctuations=True)
    np.testing.assert_allclose(theory.error_std, expected.error_std, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:.*lie between steps")
@pytest.mark.parametrize("times", [np.geomspace(0.1, 9, 7), [0.0, 0.3, 7.0]])
def test_times_are_exact(times):
    assert np.array_equal(
        executed(ld.code_of(deep(ld.GradientDescent(0.1)), times))["times"], times
    )


@pytest.mark.parametrize("exponent", [0.7, 1.0, 1 / 3])
def test_spectra_are_exact_and_power_laws_are_seen(exponent):
    for spectrum in (ld.PowerLaw(12, 3, exponent), ld.Spectrum([2.0, 1.0], [1, 3])):
        problem = ld.TeacherStudent(spectrum, ld.Committee(1, "linear"))
        system = ld.System(problem, ld.Committee(1, "linear"), ld.SGD(0.1))
        text = ld.code_of(system)
        assert executed(text)["system"].to_json() == system.to_json()
        law = spectrum.levels == 3 and exponent != 1 / 3
        assert (f"PowerLaw(12, 3, {exponent})" in text) == law


def test_systems_without_a_text_are_refused_with_the_reason():
    network = ld.Committee(2, lambda h: jnp.sin(h))
    system = ld.System(committee().problem, network, ld.SGD(0.1))
    with pytest.raises(ValueError, match=r"\Asystem: got one whose text lacks .*allowed is all"):
        ld.code_of(system)
