"""A finite data set."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork
from learndyn.numerics.dense import pinv
from learndyn.numerics.random import Source
from learndyn.problems.base import AbstractProblem, Loss, MapStatistics, Sampler
from learndyn.problems.examples import Examples
from learndyn.problems.losses import AbstractLoss, SquaredLoss, is_labels, loss_given
from learndyn.problems.targets import checked_targets
from learndyn.runtime.bounds import POSITIVE, bounded
from learndyn.runtime.checks import a_kind, finite
from learndyn.runtime.precision import in_float64
from learndyn.runtime.types import Array, Number, Weights
from learndyn.runtime.values import frozen


@bounded(loss_scale=POSITIVE)
class Dataset(AbstractProblem):
    """A finite set of examples (x, y); the loss is averaged over examples.

    Arrays are copied, so that later changes of yours have no effect. Read-only arrays
    (`x.flags.writeable = False`, JAX arrays) are shared instead.

    Rules without sampling see the whole set; others draw `batch` examples per step. There is no
    teacher. Inputs are stored in their own type: floats are converted to the precision of the run,
    uint8 is divided by 255 on the device, and other integers reach the network unchanged. Records
    contain `error`, `test_error` and `validation_error` (the loss on each set), and for labels
    `accuracy`, `test_accuracy` and `validation_accuracy`.

    Args:
        x: inputs (examples, …), each of any shape.
        y: targets (examples, …), or integer labels (examples,) from 0. Under `SquaredLoss`
            labels are one-hot encoded; for a network with one output, 0 and 1 become −1 and +1.
        loss: a `SquaredLoss` or `CrossEntropy`; None is `SquaredLoss(loss_scale)`.
        loss_scale: factor of the squared error, 1/2 by default.
        test: (x, y) on which the loss is measured as well.
        validation: as `test`.

    Raises:
        ValueError: for numbers that are not finite, targets that fit neither the inputs nor
            the loss, sets of other shapes, and both `loss` and `loss_scale`.

    Example:
        >>> import learndyn as ld
        >>> data = ld.Dataset([[1.0, 0.0], [0.0, 1.0]], [1.0, -1.0], loss_scale=1.0)
        >>> data.dim, data.loss
        (2, SquaredLoss(scale=1.0))
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
        self.loss = loss_given(loss, loss_scale)
        self.x, self.y = _pair("", (x, y), self.loss, None)
        self.test, self.validation = (
            None if pair is None else _pair(f"{name} ", pair, self.loss, (self.x, self.y))
            for name, pair in (("test", test), ("validation", validation))
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
        shape = network.output_shape(self.input_shape, self.input_dtype)
        pairs = {"y": (self.x, self.y), "test y": self.test, "validation y": self.validation}
        for name, pair in pairs.items():
            if pair is not None:
                checked_targets(name, pair[1], self.loss, shape)

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
        sets = {"": self.examples()}
        if self.test is not None:
            sets["test_"] = _examples("the test set", *self.test)
        if self.validation is not None:
            sets["validation_"] = _examples("the validation set", *self.validation)
        return sets

    def population_loss(self, network: AbstractNetwork, teacher: Weights) -> Loss | None:
        def loss(weights: Weights) -> Array:
            # Converted here, since the precision of the run is known only from its weights.
            dtype = jax.tree.leaves(weights)[0].dtype
            return self.mean_loss(network, weights, *self.examples().take(slice(None), dtype))

        return loss

    @in_float64
    def map_statistics(self, teacher: Weights) -> MapStatistics | None:
        """The least-squares map of minimal norm, and X/√P as a root of the correlations."""
        squares = isinstance(self.loss, SquaredLoss) and self.x.ndim == self.y.ndim == 2
        if not squares:
            return None
        x, y = self.examples().take(slice(None), jnp.float64)
        # X/√P is a root of the correlations without being square: no matrix root is computed.
        return MapStatistics((pinv(x) @ y).T, x.T / np.sqrt(len(self.x)))


def _examples(name: str, x: Array, y: Array) -> Examples:
    return Examples(jnp.asarray(x), jnp.asarray(y), f"all {len(x)} examples of {name}")


def _pair(
    name: str, pair: Any, loss: AbstractLoss, like: tuple[np.ndarray, np.ndarray] | None
) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets of one set, checked; their shapes must be those of `like`, if given."""
    if not isinstance(pair, tuple | list) or len(pair) != 2:
        raise ValueError(f"{name.strip()}: got {a_kind(pair)}; allowed is a pair (x, y)")
    x, y = _numbers(f"{name}x", pair[0]), _numbers(f"{name}y", pair[1])
    if x.ndim < 2 or y.ndim < 1 or len(x) != len(y) or not len(x):
        shapes = f"{x.shape} beside {name}y {y.shape}"
        raise ValueError(f"{name}x: got {shapes}; allowed is one row of x and of y per example")
    y = checked_targets(f"{name}y", y, loss)
    if like is not None:
        for what, came, wanted in zip("xy", (x, y), like, strict=True):
            if came.shape[1:] != wanted.shape[1:] or is_labels(came) != is_labels(wanted):
                raise ValueError(
                    f"{name}{what}: got {came.dtype} of shape {came.shape}; allowed is that of "
                    f"the data set, {wanted.dtype} of (…, {', '.join(map(str, wanted.shape[1:]))})"
                )
    return frozen(x), frozen(y)


def _numbers(name: str, values: Any) -> np.ndarray:
    try:
        array = np.asarray(values)
    except Exception:  # rows of unequal length, or objects that cannot be converted
        came = "rows of unequal length" if isinstance(values, list | tuple) else a_kind(values)
        raise ValueError(f"{name}: got {came}; allowed are real numbers of one shape") from None
    if array.dtype.kind not in "fiub":
        came = a_kind(values) if array.dtype == object else array.dtype
        raise ValueError(f"{name}: got {came}; allowed are real numbers")
    return finite(name, array) if array.dtype.kind == "f" else array
