"""Activations by name and from functions: what is accepted, and one line for what is not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import learndyn as ld
from learndyn.numerics.gaussian import NAMED, Units, activation
from learndyn.numerics.gaussian.erf_sums import DEVIATION, Sigmoid, Tanh
from learndyn.numerics.gaussian.pieces import Pieces

SIGMA = np.array([[1.1, 0.4], [0.4, 0.9]])


@pytest.mark.parametrize("name", NAMED)
def test_named_functions(name, independent):
    x = np.linspace(-4, 4, 41)
    g, slope = independent.functions[name]
    np.testing.assert_allclose(NAMED[name](jnp.asarray(x)), g(x), rtol=1e-12, atol=1e-15)
    if slope is not None:
        x = x[x != 0]
        found = jax.jvp(NAMED[name], (jnp.asarray(x),), (jnp.ones_like(x),))[1]
        np.testing.assert_allclose(found, slope(x), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", [name for name in NAMED if NAMED[name].pieces])
def test_pieces_are_the_function(name, independent):
    pieces, x = NAMED[name].pieces, np.linspace(-6, 6, 101)
    assert isinstance(pieces, Pieces)
    total = pieces.constant + pieces.linear * x + pieces.absolute * np.abs(x)
    for weight, width in zip(pieces.weights, pieces.widths, strict=True):
        erf = independent.functions["erf"][0](x / np.sqrt(width)) if width else np.sign(x)
        total += weight * erf
    deviation = DEVIATION[6] if name in ("tanh", "sigmoid") else 1e-14
    np.testing.assert_allclose(total, independent.functions[name][0](x), rtol=0, atol=deviation)


@pytest.mark.parametrize("terms", DEVIATION)
def test_sums_of_erfs_deviate_as_stated(terms, independent):
    x = np.linspace(0, 12, 20001)
    erf = independent.functions["erf"][0]
    total = lambda f: sum(w * erf(x / np.sqrt(e)) for w, e in zip(f.weights, f.widths, strict=True))
    largest = np.abs(total(Tanh(terms).pieces) - np.tanh(x)).max()
    assert 0.5 * DEVIATION[terms] < largest <= DEVIATION[terms]
    logistic = 0.5 + total(Sigmoid(terms).pieces) - 1 / (1 + np.exp(-x))
    assert np.abs(logistic).max() <= DEVIATION[terms] / 2


def test_accuracy_chooses_the_number_of_terms():
    terms = [Units(NAMED["tanh"], NAMED["tanh"], 1, 1, accuracy).student for accuracy in
             (1e-4, 1e-5, 1e-6, 1e-7)]  # fmt: skip
    assert [tanh.terms for tanh in terms] == [4, 5, 6, 7]


def test_conversion():
    assert activation("activation", "relu") is NAMED["relu"]
    own = ld.Activation(jax.nn.softplus)
    assert activation("activation", own) is own
    assert activation("activation", jax.nn.softplus) == own
    assert activation("activation", "sign", teacher=True) is NAMED["sign"]


def test_own_function_has_the_averages_of_the_named_one():
    own, named = Units(ld.Activation(jax.nn.softplus), NAMED["relu"], 1, 1), "softplus"
    same = Units(NAMED[named], NAMED["relu"], 1, 1)
    for kind in ("values", "slopes", "curvatures"):
        np.testing.assert_array_equal(getattr(own, kind)(SIGMA), getattr(same, kind)(SIGMA))


def test_own_kinks_with_a_smooth_partner_are_not_approximate():
    """Gauss-Legendre rules between the kinks, against the closed coefficients of relu."""
    own = ld.Activation(jax.nn.relu, kinks=(0.0,))
    mixed, named = (Units(NAMED["gelu"], f, 1, 1, accuracy=1e-9) for f in (own, NAMED["relu"]))
    biases = np.array([0.3, -0.4])
    for kind in ("slopes", "curvatures", "slope_values"):
        for b in (None, biases):
            actual, expected = (getattr(units, kind)(SIGMA, b) for units in (mixed, named))
            np.testing.assert_allclose(actual, expected, rtol=0, atol=1e-8)


BAD = {
    "mixes numbers": (lambda x: x - jnp.mean(x), "depends on the other numbers"),
    "a sum": (jnp.sum, "maps shape"),
    "integers": (lambda x: jnp.round(x).astype(int), "returns int64"),
    "booleans": (lambda x: x > 0, "returns bool"),
    "complex": (lambda x: x + 1j, "returns complex128"),
    "numpy": (np.tanh, "tanh failed with TracerArrayConversionError"),
    "a step": (jnp.sign, "sign has slope 0 everywhere"),
    "undefined": (jnp.log, "log or its slope is not finite at -40"),
    "no averages": (lambda x: jnp.exp(x**2 / 8), "has no finite Gaussian averages"),
    "undeclared kink": (jax.nn.relu, "relu has a kink; allowed is a smooth function, or "),
    "kinked curvature": (jax.nn.elu, "elu has a kink"),
    "kinked third derivative": (lambda x: jax.nn.relu(x) ** 2, "has a kink"),
    "not a function": (3, "function: got an int; allowed is a function"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_functions_are_one_line(case):
    function, message = BAD[case]
    with pytest.raises(ValueError, match=r"\Afunction: [^\n]*\Z") as caught:
        ld.Activation(function)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: activation("activation", "step"), "activation: got 'step'; allowed is one of"),
        (lambda: activation("activation", 3), "activation: got 3; allowed is one of 'linear'"),
        (
            lambda: activation("activation", "sign"),
            "activation: got 'sign'; allowed for teachers",
        ),
        (lambda: ld.Activation(jnp.tanh, kinks="0"), "kinks: got '0'"),
        (lambda: ld.Activation(jnp.tanh, kinks=(np.nan,)), "kinks: entry (0,) is nan"),
    ],
)
def test_bad_input_is_one_line(call, message):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        call()
    assert message in str(caught.value)


@pytest.mark.parametrize("function", [jnp.tanh, jax.nn.gelu, jnp.sin, lambda x: x**3, jnp.exp])
def test_smooth_functions_are_accepted(function):
    assert ld.Activation(function).smooth


def test_a_declared_kink_is_accepted():
    own = ld.Activation(jax.nn.elu, kinks=[0])
    assert own.kinks == (0.0,) and not own.smooth
