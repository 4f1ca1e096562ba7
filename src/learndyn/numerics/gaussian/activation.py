"""Activations from functions of users, checked before anything is computed with them."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.numerics.gaussian import hermite
from learndyn.numerics.gaussian.base import AbstractActivation
from learndyn.numerics.gaussian.panels import panel_coefficients
from learndyn.runtime.checks import a_kind, finite, function, numbers
from learndyn.runtime.types import Array

# Both signs, and from small to large: no function that an average can have is infinite there.
POINTS = np.concatenate([-np.geomspace(40, 1e-3, 60), [0.0], np.geomspace(1e-3, 40, 60)])
# The largest rate of |g| ~ exp(rate · x²): with it E[g² g'²] is finite up to a variance of 2.5.
FASTEST = 0.05
FAR = np.array([[10, 0], [-11, -1]])  # two points on either side
STEP = 0.05  # of the grid on which an undeclared kink shows


class Activation(AbstractActivation):
    """An activation from any JAX function of a number.

    Averages over smooth functions are accurate to the tolerance of `Units`; those over functions
    with kinks, where no closed form is known, have an error of about 1 %.

    Args:
        function: g, elementwise and differentiable by JAX.
        kinks: where g, its slope or its curvature jumps.

    Raises:
        ValueError: for what is not a function, and for a function with kinks that are not
            given.

    Example:
        >>> import jax.numpy as jnp
        >>> import learndyn as ld
        >>> student = ld.Committee(2, ld.Activation(lambda h: jnp.maximum(h, -1.0), kinks=[-1.0]))
        >>> student.units
        2
    """

    function: Callable[[Array], Array] = eqx.field(static=True)
    kinks: tuple[float, ...] = eqx.field(static=True)

    def __init__(self, function: Any, kinks: Any = ()):
        self.function = checked(function)
        self.kinks = tuple(sorted(finite("kinks", numbers("kinks", kinks, 1)).tolist()))
        if not self.kinks:
            _check_smooth(function)

    def __call__(self, h: Array) -> Array:
        return self.function(h)

    @property
    def smooth(self) -> bool:
        return not self.kinks

    def coefficients(self, mean: Array, std: Array, rule: hermite.Rule) -> hermite.Coefficients:
        if not self.kinks:
            return super().coefficients(mean, std, rule)
        return panel_coefficients(self.function, self.kinks, mean, std, rule)


def checked(g: Any) -> Callable[[Array], Array]:
    """The function, or a one-line error if it is no activation."""
    function("function", g)
    with jax.ensure_compile_time_eval(), jax.enable_x64(True):
        try:
            x = jnp.asarray(POINTS)
            values, slopes = jax.jvp(g, (x,), (jnp.ones_like(x),))
        except Exception as error:
            raise ValueError(
                f"function: {_name(g)} failed with {type(error).__name__}; allowed is a function "
                "of an array that JAX can differentiate"
            ) from error
        _check_values(g, values, slopes)
    return g


def _check_values(g: Any, values: Any, slopes: Any) -> None:
    name, dtype, shape = f"function: {_name(g)}", np.asarray(values).dtype, np.shape(values)
    elementwise = "a function of a number, elementwise"
    if dtype.kind != "f":
        raise ValueError(f"{name} returns {dtype}; allowed are real numbers, not integers")
    if shape != POINTS.shape:
        raise ValueError(f"{name} maps shape {POINTS.shape} to {shape}; allowed is {elementwise}")
    some = POINTS[::10]
    alone = [np.asarray(g(jnp.asarray(x))) for x in some]
    if any(np.shape(value) for value in alone) or not np.allclose(
        np.array(alone), values[::10], equal_nan=True
    ):
        raise ValueError(f"{name} depends on the other numbers; allowed is {elementwise}")
    good = np.isfinite(values) & np.isfinite(slopes)
    if not np.all(good):
        at = f"{POINTS[np.argmin(good)]:.3g}"
        raise ValueError(f"{name} or its slope is not finite at {at}; allowed is a finite function")
    if not np.any(slopes):
        raise ValueError(f"{name} has slope 0 everywhere; allowed is a function that can learn")
    size, square = np.log(np.abs(values) + 1)[FAR], POINTS[FAR] ** 2
    if np.max(np.diff(size, axis=1) / np.diff(square, axis=1)) > FASTEST:
        raise ValueError(f"{name} has no finite Gaussian averages; allowed is a slower growth")


def _check_smooth(g: Callable[[Array], Array]) -> None:
    """Compares two grids: across a kink averages change in proportion to a power of the step."""
    for d in hermite.derivatives(g):
        grids = hermite.means(lambda x, d=d: d(x) ** 2, 1.0, STEP)
        if abs(grids[0] - grids[1]) > 1e-6 * max(abs(grids[0]), 1e-12):
            raise ValueError(
                f"function: {_name(g)} has a kink; allowed is a smooth function, or "
                "Activation(function, kinks=(where, …))"
            )


def _name(g: Any) -> str:
    return getattr(g, "__name__", a_kind(g))
