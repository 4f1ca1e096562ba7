"""Whether a network trains like its linearisation, measured by training both."""

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import Model, as_model, linearise
from learndyn.numerics.random import Source, key_of_run
from learndyn.probes.arguments import ArrayLike, is_traced, labelled
from learndyn.probes.curvature import output_hessian_norm
from learndyn.probes.kernel import ntk, ntk_spectrum
from learndyn.problems import AbstractLoss, Dataset
from learndyn.rules import AbstractRule
from learndyn.runtime.checks import instance, positive, positive_int, seed
from learndyn.runtime.divergence import bound_of, has_diverged
from learndyn.runtime.precision import compiled_in_float64, full_precision
from learndyn.runtime.types import Array, Number, Weights
from learndyn.system import System

READINGS = 12  # steps at which both networks are read, besides the first
ROUGH = 1e-2  # relative tolerance of the second derivative


@dataclasses.dataclass(frozen=True)
class Linearity:
    """How far a network is from its linearisation while both train. `str` is the verdict.

    Arrays have an entry per step in `steps`, and are NaN from the step on at which one of the two
    networks has diverged.

    Attributes:
        steps: step numbers, from 0 to the last one.
        distance: |f − f_lin| over all examples and outputs, relative to the largest change
            |f_lin − f_0| of the linearised outputs.
        kernel_change: ‖K − K_0‖/‖K_0‖, the relative change of the tangent kernel.
        loss: of the network.
        linear_loss: of its linearisation.
        curvature: ‖∂²f‖/λ_max(K_0), the relative change of an output's gradient while a residual of
            1 is learned along the first eigenvector. ‖∂²f‖ is the largest spectral norm over the
            outputs of some examples.
        tolerance: the largest distance at which the linearised prediction counts as holding.
        diverged_at: the first of `steps` at which the network and its linearisation had diverged;
            None for one that did not.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.Network(lambda key: np.ones(2), lambda w, x: x @ w)
        >>> model, x, y = ld.Model(network, np.array([1.0, 2.0])), np.diag([2.0, 4.0]), np.zeros(2)
        >>> found = ld.probes.linearity(model, x, y, ld.GradientDescent(0.1), 5)
        >>> found.distance.shape == found.steps.shape, float(found.kernel_change[-1])
        (True, 0.0)
    """

    steps: np.ndarray
    distance: np.ndarray
    kernel_change: np.ndarray
    loss: np.ndarray
    linear_loss: np.ndarray
    curvature: float
    tolerance: float
    diverged_at: tuple[int | None, int | None]

    @property
    def largest(self) -> float:
        """The largest distance."""
        return float(np.nanmax(self.distance))

    @property
    def holds(self) -> bool:
        """Whether neither has diverged and the distance never exceeds the tolerance."""
        return self.diverged_at == (None, None) and self.largest <= self.tolerance

    @property
    def verdict(self) -> str:
        """The linearised prediction holds to …, or does not, in one sentence."""
        kernel = f"the kernel changes by {np.nanmax(self.kernel_change):.2g} of itself"
        measured = f"{self.largest:.2g} of the change of the outputs"
        allowed = f"(allowed {self.tolerance:g})"
        if self.holds:
            over = f"over {self.steps[-1]} steps {allowed}"
            return f"the linearised prediction holds to {measured} {over}; {kernel}"
        return f"the linearised prediction does not hold: {self._why(measured)} {allowed}; {kernel}"

    def _why(self, measured: str) -> str:
        network, twin = self.diverged_at
        if network is None and twin is None:
            first = self.steps[self.distance > self.tolerance][0]
            return f"it is off by {measured}, and by more than allowed from step {first} on"
        until = f"it is off by {measured} until then"
        if network is not None and twin is not None:
            return f"the network diverges by step {network}, its linearisation by {twin}; {until}"
        who, step = ("the network", network) if twin is None else ("the linearisation", twin)
        return f"{who} alone diverges, by step {step}; {until}"

    def __str__(self) -> str:
        return self.verdict


def linearity(
    model: Any,
    x: ArrayLike,
    y: ArrayLike,
    rule: Any,
    steps: int,
    *,
    loss: AbstractLoss | None = None,
    tolerance: Number = 0.1,
    examples: int = 4,
    key: int = 0,
) -> Linearity:
    """Is a network wide enough for its linearisation to predict how it learns?

    The network and its linear twin (`ld.linearise`) are trained by the same rule from the same
    weights, with the same random numbers, and compared at about a dozen steps that are spaced
    evenly in their logarithm. This costs about four times the training alone, and the kernel of all
    examples at each of these steps.

    Args:
        model: a `Model`, or an equinox module.
        x: inputs, (n, …), on which it is trained.
        y: targets or labels.
        rule: how both are trained.
        steps: number of steps.
        loss: None is `SquaredLoss(0.5)`.
        tolerance: the largest distance, relative to the change of the outputs, that counts as
            holding.
        examples: number of examples, evenly spaced, whose second derivatives are computed.
        key: seed of the rule's random numbers.

    Returns:
        The distances, and a verdict.

    Raises:
        ValueError: for a model that a rule cannot train, such as one of PyTorch.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> network = ld.MLP([3, 4096, 1], "tanh")
        >>> model = ld.Model(network, network.sample(np.random.default_rng(0), (3,)))
        >>> found = ld.probes.linearity(model, np.eye(3), np.ones(3), ld.GradientDescent(1.0), 20)
        >>> found.holds, bool(found.largest < 0.02)
        (True, True)
    """
    if is_traced(model, x, y):
        raise ValueError(
            "model: got one that is being traced; allowed is a call outside of jax.jit and the like"
        )
    allowed = "a JAX network, which a rule can train (kernel_drift compares modules of PyTorch)"
    model = instance("model", as_model(model), Model, allowed)
    instance("rule", rule, AbstractRule, "a rule such as GradientDescent, SGD or Optax")
    steps, key = positive_int("steps", steps), seed("key", key)
    tolerance, examples = (
        float(positive("tolerance", tolerance)),
        positive_int("examples", examples),
    )
    model, x, y, loss = labelled(model, x, y, loss)
    data, twin = Dataset(np.asarray(x), np.asarray(y), loss=loss), linearise(model)
    network_system, twin_system = (System(data, each, rule) for each in (model.network, twin))
    with full_precision():
        x = np.asarray(data.examples().take(slice(None), model.dtype)[0])  # uint8 is scaled
    readings = np.unique(np.geomspace(1, steps, READINGS).round().astype(int))
    before, every = ntk(model, x), -(-len(x) // examples)
    bent = output_hessian_norm(model, x[::every], tolerance=ROUGH).largest
    outputs, loss_of, change = _trained(network_system, model, x, readings, key, before)
    twins, twin_loss, _ = _trained(twin_system, model, x, readings, key, None)
    moved = np.nanmax(_norm(twins - twins[0]))
    whole = np.concatenate([[0], readings])
    return Linearity(
        steps=whole,
        distance=_share(_norm(outputs - twins), moved),
        kernel_change=change,
        loss=loss_of,
        linear_loss=twin_loss,
        curvature=float(_share(bent, ntk_spectrum(model, x, 1)[0])),
        tolerance=tolerance,
        diverged_at=(_end(whole, loss_of), _end(whole, twin_loss)),
    )


def _trained(
    system: System, model: Model, x: Array, readings: np.ndarray, key: int, kernel: Array | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Outputs, losses and changes of the kernel, (readings + 1, …); NaN once it has diverged."""
    rows = len(readings) + 1
    outputs = np.full((rows, model.outputs(x).size), np.nan)
    losses, change = np.full(rows, np.nan), np.full(rows, np.nan)
    bound = bound_of(model.outputs(x), least=1.0)
    for row, weights in enumerate(_weights(system, model.weights, readings, key)):
        now = Model(system.network, weights)
        reached = now.outputs(x)
        if has_diverged(reached, bound):
            break
        outputs[row], losses[row] = reached.reshape(-1), _loss(system, reached)
        if kernel is not None:
            change[row] = _share(np.linalg.norm(ntk(now, x) - kernel), np.linalg.norm(kernel))
    return outputs, losses, change


@compiled_in_float64
def _loss(system: System, outputs: Array) -> Any:
    every: Any = system.problem.examples()
    x, y = every.take(slice(None), outputs.dtype)
    return system.problem.losses(outputs, x, y).mean()


def _weights(system: System, weights: Weights, readings: np.ndarray, key: int) -> Iterator[Weights]:
    """The weights at the start, and at each reading.

    Steps are single calls: on CPUs XLA has no fast convolution inside of a compiled loop.
    """
    with full_precision():
        weights, run = jax.tree.map(jnp.asarray, weights), key_of_run(key, 0)
        memory = _memory(system, weights)
    yield weights
    for first, last in itertools.pairwise([0, *readings]):
        with full_precision():
            for index in range(first, last):
                weights, memory = _step(system, weights, memory, run, np.int64(index))
        yield weights


@eqx.filter_jit
def _memory(system: System, weights: Weights) -> Any:
    return _bound(system, weights).init(weights)


@eqx.filter_jit
def _step(system: System, weights: Weights, memory: Any, run: Array, index: Array) -> Any:
    return _bound(system, weights).step(weights, memory, Source(run, index))


def _bound(system: System, weights: Weights) -> Any:
    dtype = jax.tree.leaves(weights)[0].dtype
    return system.rule.bind(system.problem, system.network, (), dtype)


def _end(steps: np.ndarray, losses: np.ndarray) -> int | None:
    """The first step without a loss."""
    gone = steps[np.isnan(losses)]
    return int(gone[0]) if len(gone) else None


def _share(part: Any, whole: Any) -> np.ndarray:
    """part/whole; 0/0 is 0, as of a network that has learned its data already and does not move."""
    unmoved = np.where(np.greater(part, 0), np.inf, 0 * np.asarray(part, np.float64))
    return np.divide(part, whole, out=unmoved, where=np.greater(whole, 0))


def _norm(rows: np.ndarray) -> np.ndarray:
    return np.linalg.norm(rows.astype(np.float64), axis=1)
