"""A finite data set."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Weights
from learndyn.numerics.checks import a_kind, finite
from learndyn.numerics.dense import pinv
from learndyn.numerics.precision import in_float64
from learndyn.numerics.random import Source
from learndyn.numerics.types import Array, Number
from learndyn.problems.base import AbstractProblem, Loss, MapStatistics, Sampler
from learndyn.problems.examples import Examples
from learndyn.problems.losses import AbstractLoss, SquaredLoss, is_labels, loss_given


class Dataset(AbstractProblem):
    """Examples (x, y), given; the loss is averaged over examples.

    Rules without sampling see all of it; others draw `batch` examples a step. There is no
    teacher. Inputs keep their type: floats take the precision of the run, uint8 is divided by
    255 on the device, other integers reach the network as they are. Records have `error`,
    `test_error` and `validation_error` (the loss on each set), and with labels `accuracy`,
    `test_accuracy` and `validation_accuracy`.

    Args:
        x: inputs (examples, …), each of any shape.
        y: targets (examples, …), or integer labels (examples,) from 0. Under `SquaredLoss`
            labels are one-hot; for a network with one output, 0 and 1 become −1 and +1.
        loss: a `SquaredLoss` or `CrossEntropy`; None is `SquaredLoss(loss_scale)`.
        loss_scale: factor of the squared error, 1/2 by default.
        test: (x, y) to measure on as well.
        validation: likewise.
    """

    x: np.ndarray
    y: np.ndarray
    loss: AbstractLoss
    test: tuple[np.ndarray, np.ndarray] | None
    validation: tuple[np.ndarray, np.ndarray] | None

    def __init__(
        self,
        x: Sequence | np.ndarray,
        y: Sequence | np.ndarray,
        *,
        loss: AbstractLoss | None = None,
        loss_scale: Number | None = None,
        test: Any = None,
        validation: Any = None,
    ):
        self.x, self.y = _pair("", (x, y), None)
        self.loss = loss_given(loss, loss_scale)
        self.test, self.validation = (
            None if given is None else _pair(f"{name} ", given, (self.x, self.y))
            for name, given in (("test", test), ("validation", validation))
        )

    @property
    def input_shape(self) -> tuple[int, ...]:
        return self.x.shape[1:]

    @property
    def input_dtype(self) -> Any:
        numbers = self.x.dtype == np.uint8 or self.x.dtype.kind == "f"
        return np.float32 if numbers else self.x.dtype

    @property
    def output_shape(self) -> tuple[int, ...] | None:
        return None if is_labels(self.y) else self.y.shape[1:]

    def check_network(self, network: AbstractNetwork) -> None:
        super().check_network(network)
        if not is_labels(self.y):
            return
        shape, classes = network.output_shape(self.input_shape, self.input_dtype), _classes(self)
        if len(shape) > 1 or max(2, *shape, 0) < classes:
            allowed = f"one axis of at least {classes}" if classes > 2 else "a scalar, or one axis"
            raise ValueError(
                f"network: got outputs of shape {shape} for labels 0 to {classes - 1}; "
                f"allowed is {allowed}"
            )

    def sampler(self, teacher: Weights, dtype) -> Sampler:
        every, drawn = self.examples(), self.drawn
        return lambda source, shape: every.take(drawn(source, shape), dtype)

    @property
    def drawn(self) -> Callable[[Source, tuple[int, ...]], Array]:
        count = len(self.x)
        return lambda source, shape: source.integers(shape, count)

    def examples(self) -> Examples:
        return _examples("the data set", self.x, self.y)

    def measured_on(self, teacher: Weights, dtype) -> Mapping[str, Examples]:
        found = {"": self.examples()}
        if self.test is not None:
            found["test_"] = _examples("the test set", *self.test)
        if self.validation is not None:
            found["validation_"] = _examples("the validation set", *self.validation)
        return found

    def population_loss(self, network: AbstractNetwork, teacher: Weights) -> Loss | None:
        def loss(weights: Weights) -> Array:
            dtype = jax.tree.leaves(weights)[0].dtype
            return self.mean_loss(network, weights, *self.examples().take(slice(None), dtype))

        return loss

    @in_float64
    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """The least-squares map, of least norm, and X/√P as a root of the correlations."""
        squares = isinstance(self.loss, SquaredLoss) and self.x.ndim == self.y.ndim == 2
        if not squares:
            return None
        x, y = self.examples().take(slice(None), jnp.float64)
        return MapStatistics((pinv(x) @ y).T, x.T / np.sqrt(len(self.x)))


def _examples(name: str, x: Array, y: Array) -> Examples:
    return Examples(jnp.asarray(x), jnp.asarray(y), f"all {len(x)} examples of {name}")


def _pair(name: str, pair: Any, like: tuple[np.ndarray, np.ndarray] | None):
    """Inputs and targets of one set, checked; `like` is the set whose shapes they must have."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{name.strip()}: got {a_kind(pair)}; allowed is a pair (x, y)")
    x, y = _numbers(f"{name}x", pair[0]), _targets(f"{name}y", pair[1])
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y) or not len(x):
        shapes = f"{x.shape} beside {name}y {y.shape}"
        raise ValueError(f"{name}x: got {shapes}; allowed is one row of each an example")
    if like is not None:
        for what, came, given in zip("xy", (x, y), like, strict=True):
            if came.shape[1:] != given.shape[1:] or is_labels(came) != is_labels(given):
                raise ValueError(
                    f"{name}{what}: got {came.dtype} of shape {came.shape}; allowed is that of "
                    f"the data set, {given.dtype} of (…, {', '.join(map(str, given.shape[1:]))})"
                )
    return x, y


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except Exception:  # rows of unequal length, objects that refuse to be read
        came = "rows of unequal length" if isinstance(values, list | tuple) else a_kind(values)
        raise ValueError(f"{name}: got {came}; allowed are real numbers of one shape") from None
    if array.dtype.kind not in "fiub":
        came = a_kind(values) if array.dtype == object else array.dtype
        raise ValueError(f"{name}: got {came}; allowed are real numbers")
    return finite(name, array) if array.dtype.kind == "f" else array


def _targets(name: str, values: Any) -> np.ndarray:
    """Integer labels where they are one a row, else numbers."""
    array = _numbers(name, values)
    if array.dtype.kind == "f":
        return array
    if array.ndim != 1:
        return array.astype(np.float64)
    if np.any(array.astype(np.int64) < 0):
        raise ValueError(
            f"{name}: got the label {int(array.min())}; allowed are integer labels from 0, "
            "or targets as floats"
        )
    return array.astype(np.int32)


def _classes(problem: Dataset) -> int:
    sets = (pair for pair in (problem.test, problem.validation) if pair is not None)
    return 1 + max(int(y.max()) for y in (problem.y, *(y for _, y in sets)))
