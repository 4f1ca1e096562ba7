"""The (soft) committee machine: one hidden layer and a weighted sum of its units."""

import functools
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks.base import AbstractNetwork, Shape
from learndyn.networks.closed_forms import UnitSum
from learndyn.networks.parts.unit_initialisation import AbstractInitialisation, Normal
from learndyn.numerics.gaussian import AbstractActivation
from learndyn.numerics.gaussian import activation as activation_of
from learndyn.runtime.bounds import COUNT, POSITIVE, bounded
from learndyn.runtime.checks import (
    a_kind,
    finite,
    instance,
    numbers,
    one_of,
    positive,
    positive_int,
    shown,
)
from learndyn.runtime.types import Array, Number, Weights
from learndyn.tangent.taps import tap

PARTS = ("inputs", "outputs", "biases")


class CommitteeWeights(NamedTuple):
    """The weights of a committee in which more than the inputs' weights is drawn or learns.

    Attributes:
        inputs: w, (units, N).
        outputs: v, (units,), or (units, outputs) with several outputs; None if the network states
            them itself.
        biases: b, (units,); None likewise.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> weights = ld.CommitteeWeights(np.ones((2, 4)), np.array([1.0, -1.0]))
        >>> weights.outputs.shape, weights.biases
        ((2,), None)
    """

    inputs: Array
    outputs: Array | None = None
    biases: Array | None = None


@bounded(units=COUNT, scale=POSITIVE, trainable=COUNT)
class Committee(AbstractNetwork):
    """output = scale · Σ_i v_i g(w_i · x / √N + b_i).

    The weights are the array w, (units, N), if nothing else is drawn or learns; otherwise they are
    `CommitteeWeights(inputs, outputs, biases)`.

    The papers differ in `scale`: 1/p in bocchi2026escape (for student and teacher alike),
    √M/K for the student and 1/√M for the teacher in worschech2024scaling.

    Args:
        units: number K of hidden units.
        activation: "linear" g(h) = h, "erf" g(h) = erf(h/√2), "quadratic" g(h) = h², "relu",
            "leaky_relu", "abs", "tanh", "sigmoid", "gelu", "softplus", "swish", "sine", for
            teachers also "sign", an `Activation`, or a smooth JAX function of a number.
        scale: factor of the output.
        outputs: the output weights v: K numbers of any sign, a distribution such as `Normal(1.0)`
            from which they are drawn, or None for ones. A matrix (K, outputs), one column per
            output, makes a network with several outputs.
        biases: b, likewise; None for zeros.
        train: what learns: "inputs" (w), "outputs" (v), "biases" (b). A teacher does not learn.
        init: the distribution of the rows of w: `Normal`, `Orthonormal`, `Typical`, or your own
            subclass of `AbstractInitialisation`.
        trainable: number of leading input directions that are trained; the others keep their
            initial weights. None for all.

    Raises:
        ValueError: for an activation that is not known, outputs or biases that do not fit
            the units, or another argument that is not allowed.

    Example:
        >>> import learndyn as ld
        >>> student = ld.Committee(3, "erf", scale=1 / 3, train=("inputs", "outputs"))
        >>> student.train, student.init
        (('inputs', 'outputs'), Normal(std=1.0))
    """

    unwritten: ClassVar[dict[str, Any]] = {"outputs": None, "biases": None, "train": PARTS[:1]}

    units: int = eqx.field(static=True)
    activation: Any = eqx.field(static=True)
    scale: np.ndarray
    outputs: np.ndarray | AbstractInitialisation | None
    biases: np.ndarray | AbstractInitialisation | None
    train: tuple[str, ...] = eqx.field(static=True)
    init: AbstractInitialisation
    trainable: int | None = eqx.field(static=True)

    def __init__(
        self,
        units: int,
        activation: Any,
        *,
        scale: Number = 1.0,
        outputs: Any = None,
        biases: Any = None,
        train: Any = PARTS[:1],
        init: AbstractInitialisation | None = None,
        trainable: int | None = None,
    ):
        self.units = positive_int("units", units)
        activation_of("activation", activation, teacher=True)
        self.activation = activation
        self.scale = positive("scale", scale)
        self.outputs = _numbers_or_law("outputs", outputs, self.units, columns=True)
        self.biases = _numbers_or_law("biases", biases, self.units)
        self.train = _parts(train)
        initialisation = Normal(1.0) if init is None else init
        allowed = "Normal, Orthonormal, Typical or your own AbstractInitialisation"
        self.init = instance("init", initialisation, AbstractInitialisation, allowed)
        self.trainable = None if trainable is None else positive_int("trainable", trainable)

    @property
    def g(self) -> AbstractActivation:
        """The activation with what is known of its Gaussian averages."""
        return _activation(self.activation)

    def __call__(self, weights: Weights, x: Array) -> Array:
        rows, outputs, biases = self.parts_of(self.learning(weights))
        h = jnp.einsum("kn,...n->...k", rows, x)  # x is a batch, or one example without its axis
        # NumPy's float64 scalars would turn float32 into float64, hence the casts.
        h = h / np.sqrt(rows.shape[-1]).astype(rows.dtype)
        h = tap("layer1", h if biases is None else h + jnp.asarray(biases).astype(h.dtype))
        units = self.g(h)
        if self.columns:
            return jnp.asarray(self.scale).astype(h.dtype) * (
                units @ jnp.asarray(outputs).astype(h.dtype)
            )
        units = units if outputs is None else jnp.asarray(outputs).astype(h.dtype) * units
        return jnp.asarray(self.scale).astype(h.dtype) * jnp.sum(units, axis=-1)

    @property
    def columns(self) -> tuple[int, ...]:
        """The shape of the output: (outputs,) if v is a matrix, otherwise ()."""
        return getattr(self.outputs, "shape", ())[1:]

    def carries(self, part: str) -> bool:
        """Whether the weights contain the outputs or the biases: those that are drawn or learn."""
        return part in self.train or isinstance(getattr(self, part), AbstractInitialisation)

    @property
    def is_array(self) -> bool:
        """Whether the weights are the array w alone."""
        return not (self.carries("outputs") or self.carries("biases"))

    def parts_of(self, weights: Weights) -> CommitteeWeights:
        """w, v and b: from the weights, or else the network's numbers, None if there are none."""
        rows, outputs, biases = (weights, None, None) if self.is_array else weights
        return CommitteeWeights(
            rows, self.numbers("outputs", outputs), self.numbers("biases", biases)
        )

    def numbers(self, part: str, carried: Array | None) -> Array | None:
        """The outputs or biases: those that the weights carry, or else the network's own numbers.

        None stands for ones and zeros.
        """
        return carried if self.carries(part) else getattr(self, part)

    def learning(self, weights: Weights) -> Weights:
        """The same weights, without a gradient in what is not trained."""
        rows = weights if self.is_array else weights[0]
        if "inputs" not in self.train:
            rows = jax.lax.stop_gradient(rows)
        elif self.trainable is not None:
            n = self.trainable
            rows = jnp.concatenate([rows[:, :n], jax.lax.stop_gradient(rows[:, n:])], axis=1)
        if self.is_array:
            return rows
        fixed = lambda name, part: part if name in self.train else jax.lax.stop_gradient(part)
        return CommitteeWeights(rows, *map(fixed, PARTS[1:], weights[1:]))

    def by_part(self, weights: Weights, inputs: Any, outputs: Any, biases: Any) -> Weights:
        if self.trainable is not None and not isinstance(inputs, int):
            inputs = inputs * (jnp.arange(self.dim_of(weights)) < self.trainable)
        inputs = inputs if "inputs" in self.train else 0.0
        if self.is_array:
            return inputs
        parts = zip(PARTS[1:], (outputs, biases), weights[1:], strict=True)
        rest = (None if w is None else value * (name in self.train) for name, value, w in parts)
        return CommitteeWeights(inputs, *rest)

    @property
    def trained_parts(self) -> tuple[str, ...]:
        return self.train

    def rate_dim(self, weights: Weights) -> int:
        return self.dim_of(weights)

    @property
    def unit_sum(self) -> UnitSum | None:
        if self.columns:  # a sum for each output
            return None
        part = lambda name: lambda weights: getattr(self.parts_of(self.learning(weights)), name)
        coefficients = lambda weights: self.readout(part("outputs")(weights))
        return UnitSum(self.units, self.g, part("inputs"), coefficients, part("biases"))

    def readout(self, outputs: Array | None) -> Array:
        """scale · v, the factor of every unit in the output, as v; None is a v of ones."""
        if outputs is None:
            return jnp.full(self.units, jnp.asarray(self.scale))
        return jnp.asarray(self.scale) * outputs

    @property
    def accepts_single_example(self) -> bool:
        return True

    @property
    def input_shape(self) -> Shape | None:
        return (None,)

    def output_shape(
        self, input_shape: tuple[int, ...], dtype: Any = np.float32
    ) -> tuple[int, ...]:
        return self.columns

    def check_input(self, input_shape: tuple[int, ...]) -> None:
        """Accepts any dimension that is at least `trainable`: weights are (units, dim)."""
        super().check_input(input_shape)
        if self.trainable is not None and self.trainable > input_shape[0]:
            raise ValueError(f"trainable: got {self.trainable}; allowed is 1 to {input_shape[0]}")

    def check_student(self) -> None:
        activation_of("activation", self.activation)

    def check_weights(
        self, weights: Weights, input_shape: tuple[int, ...], name: str = "weights"
    ) -> None:
        super().check_weights(weights, input_shape, name)
        if not self.is_array and not isinstance(weights, CommitteeWeights):
            allowed = "CommitteeWeights(inputs, outputs, biases)"
            raise ValueError(f"{name}: got {a_kind(weights)}; allowed is {allowed}")

    def check_teacher(self) -> None:
        if self.train != PARTS[:1]:
            raise ValueError(
                f"teacher: got a Committee with train={self.train}, but teachers do not learn; "
                "allowed is one without train=…"
            )

    def sample(
        self, rng: np.random.Generator, input_shape: tuple[int, ...], target: Array | None = None
    ) -> Weights:
        allowed, name = (self.units, *input_shape), f"{type(self.init).__name__}.sample"
        rows = finite(name, numbers(name, self.init.sample(rng, *allowed)))
        if rows.shape != allowed:
            raise ValueError(f"{name}: got shape {rows.shape}; allowed is (units, dim) = {allowed}")
        return self.joined(rows, *self.sample_parts(rng))

    def sample_parts(self, rng: np.random.Generator) -> tuple[Array | None, Array | None]:
        """The outputs and biases that the weights contain, drawn or as stated."""

        def drawn(law: Any) -> np.ndarray:
            return np.asarray(law.sample(rng, 1, self.units)[0], dtype=np.float64)

        law = lambda name: isinstance(getattr(self, name), AbstractInitialisation)
        stated = zip(PARTS[1:], self.stated_parts(), strict=True)
        outputs, biases = (drawn(getattr(self, n)) if law(n) else own for n, own in stated)
        return outputs, biases

    def stated_parts(self) -> tuple[Array | None, Array | None]:
        """The outputs and biases that the weights contain, None for those that are drawn."""

        def part(name: str, default: float) -> np.ndarray | None:
            value = getattr(self, name)
            if not self.carries(name) or isinstance(value, AbstractInitialisation):
                return None
            return np.full(self.units, default) if value is None else np.array(value)

        return part("outputs", 1.0), part("biases", 0.0)

    def joined(self, rows: Any, outputs: Any, biases: Any) -> Weights:
        """The weights with these parts: the rows alone, or all of them by name."""
        return rows if self.is_array else CommitteeWeights(rows, outputs, biases)

    def like(self, input_shape: tuple[int, ...]) -> Weights | None:
        shape = lambda *sizes: jax.ShapeDtypeStruct(sizes, np.float64)
        sizes = {"outputs": (self.units, *self.columns), "biases": (self.units,)}
        rest = (shape(*sizes[name]) if self.carries(name) else None for name in PARTS[1:])
        return self.joined(shape(self.units, *input_shape), *rest)

    def dim_of(self, weights: Weights) -> int:
        return (weights if self.is_array else weights[0]).shape[-1]


@functools.lru_cache(maxsize=256)
def _activation(value: Any) -> AbstractActivation:
    """The activation of a committee; functions are examined once."""
    return activation_of("activation", value, teacher=True)


def _numbers_or_law(name: str, value: Any, units: int, columns: bool = False) -> Any:
    if value is None or isinstance(value, AbstractInitialisation):
        return value
    array = finite(name, numbers(name, value))
    if array.shape[:1] != (units,) or array.ndim > 1 + columns or not array.size:
        matrix = f", a matrix ({units}, outputs)" if columns else ""
        allowed = f"{units} numbers, one per unit{matrix}, or a distribution such as Normal(1.0)"
        raise ValueError(f"{name}: got shape {array.shape}; allowed are {allowed}")
    return array


def _parts(train: Any) -> tuple[str, ...]:
    """The names of what learns, in the order of `PARTS`."""
    names = (train,) if isinstance(train, str) else train
    if not isinstance(names, tuple | list) or not names:
        raise ValueError(f"train: got {shown(train)}; allowed are names among {', '.join(PARTS)}")
    chosen = {one_of("train", name, PARTS) for name in names}
    return tuple(name for name in PARTS if name in chosen)
