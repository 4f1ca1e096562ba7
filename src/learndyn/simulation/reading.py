"""What a simulation reads of weights: the theory's observables, the error on examples, probes.

It is read in the compiled program that takes the steps. What cannot be traced is called between
pieces of it, on NumPy arrays, and the record says so.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.networks import AbstractNetwork, Model
from learndyn.networks.base import Weights
from learndyn.numerics.divergence import bound_of, has_diverged
from learndyn.numerics.jaxprs import Traced
from learndyn.numerics.types import Array
from learndyn.problems import Examples
from learndyn.records import Variable
from learndyn.rules.watching import AbstractStepProbe, Step
from learndyn.simulation.examples import OnExamples, labels
from learndyn.system import System
from learndyn.theory import AbstractTheory

Probe = Callable[..., Any]  # of a model; an `AbstractStepProbe` sees the step as well
Values = dict[str, Any]
ANY = np.finfo(np.float64).max  # a bound that every number keeps
MOST_KEPT, MOST_LOOKED_AT = 64, 10**5  # traced measurements; numbers in a theory
_MEASURES: dict[Any, Traced] = {}
SMALL = 1.0  # weights of this size are not large, however small they began


class Reader(eqx.Module):
    """Reads weights, traced: (weights, teacher) → values, and whether the run has diverged.

    Args:
        measure: (weights, teacher) → the theory's observables and its state; None without one.
        on_examples: reads losses.
        probes: name → function of the weights.
        bound: what the theory's state, or else the weights, may grow to.
        watching: probes that look at the step that follows as well.
    """

    measure: Traced | None
    on_examples: OnExamples
    probes: dict[str, Traced]
    bound: Array
    watching: tuple[AbstractStepProbe, ...] = ()

    def __call__(
        self,
        weights: Weights,
        teacher: Weights,
        losses: Values | None = None,
        watched: Values | None = None,
    ):
        """What is read, and whether the run has diverged; `losses` where they are known."""
        values, judged = self._measured(weights, teacher)
        watched = watched or {}
        values |= self.on_examples(weights, watched) if losses is None else losses
        gone = has_diverged(judged, self.bound)
        if values:  # a loss may overflow before the weights do
            gone |= has_diverged(values, jnp.asarray(ANY))
        values |= {name: probe(weights) for name, probe in self.probes.items()}
        said = {name for each in self.watching for name in each.variables}
        return values | {n: value for n, value in watched.items() if n in said}, gone

    def watch(self, model: Model, step: Step) -> Values:
        """What is read of the step that follows."""
        return {n: v for probe in self.watching for n, v in probe(model, step).items()}

    def has_diverged(self, weights: Weights, teacher: Weights) -> Array:
        """Whether the theory's state, or else the weights, exceed the bound."""
        return has_diverged(self._measured(weights, teacher)[1], self.bound)

    def _measured(self, weights: Weights, teacher: Weights) -> tuple[Values, Any]:
        return ({}, weights) if self.measure is None else self.measure(weights, teacher)


class Outside(NamedTuple):
    """Reads weights on NumPy arrays: what cannot be traced.

    Attributes:
        network: whose weights are read.
        theory: which measures them, where it cannot be traced, or None.
        probes: name → function of a model.
        bound: what the theory's state may grow to.
    """

    network: AbstractNetwork
    theory: AbstractTheory | None
    probes: Mapping[str, Probe]
    bound: Array

    @property
    def names(self) -> list[str]:
        """What is read here."""
        return [*(self.theory.variables if self.theory is not None else ()), *self.probes]

    def __call__(self, weights: Weights, teacher: Weights) -> tuple[Values, bool]:
        values, gone = {}, False
        if self.theory is not None:
            gone = bool(has_diverged(self.theory.project(weights, teacher), self.bound))
            values = dict(self.theory.measure(weights, teacher))
        model = Model(self.network, weights)
        return values | {n: np.asarray(probe(model)) for n, probe in self.probes.items()}, gone


class Reading(NamedTuple):
    """What is read, and how the record labels it."""

    inside: Reader
    outside: Outside
    labels: dict[str, Variable]
    attributes: dict[str, str]


def reading_of(
    system: System,
    theory: AbstractTheory | None,
    weights: Weights,
    teacher: Weights,
    probes: Mapping[str, Probe],
    together: int,
) -> Reading:
    """The reading that suits a system: by its theory, on the problem's examples, and by probes.

    Args:
        system: what learns.
        theory: the one that covers it, or None.
        weights: where it begins.
        teacher: the teacher's weights.
        probes: name → function of a model.
        together: how many runs are read at once.

    Returns:
        The reading.

    Raises:
        ValueError: for a probe named like an observable.
    """
    sets, on = _on_examples(system, theory, weights, teacher, together)
    said = {n: label for p, e in sets.items() for n, label in labels(p, e, True).items()}
    said = {name: said[name] for name in on.names}
    attributes = {f"{p}error_from": e.name for p, e in sets.items() if f"{p}error" in said}
    if theory is not None:
        said, attributes = {**theory.variables, **said}, {"theory": theory.name, **attributes}
    used = {*said, *(dim for label in said.values() for dim in label.dims)}
    watching = tuple(each for each in probes.values() if isinstance(each, AbstractStepProbe))
    probes = {n: each for n, each in probes.items() if not isinstance(each, AbstractStepProbe)}
    _check_watching(system, watching)
    taken = [n for n in (*probes, *(n for w in watching for n in w.variables)) if n in used]
    if taken:
        raise ValueError(
            f"probes: got {taken[0]!r}, which the record has already; allowed is another name"
        )
    bound = _bound(theory, weights, teacher)
    measure, theory = _measure(theory, weights, teacher)
    traced, rest = _split(system.network, probes, weights)
    bound = bound if theory is None else jnp.asarray(ANY)
    inside = Reader(measure, on, traced, bound, watching)
    said |= {name: label for each in watching for name, label in each.variables.items()}
    outside = Outside(system.network, theory, rest, bound)
    if outside.names:
        attributes["read_between_pieces"] = ", ".join(outside.names)
    return Reading(inside, outside, said, attributes)


def _check_watching(system: System, watching: tuple[AbstractStepProbe, ...]) -> None:
    shape = system.network.output_shape(system.problem.input_shape, system.problem.input_dtype)
    for each in watching:
        each.check(system.problem, math.prod(shape))


def _on_examples(system, theory, weights, teacher, together):
    dtype = jax.tree.leaves(weights)[0].dtype
    # A theory measures without examples: fresh ones are not drawn beside it.
    drawn = theory is None or system.problem.examples() is not None
    sets: Mapping[str, Examples] = system.problem.measured_on(teacher, dtype) if drawn else {}
    return sets, OnExamples(system, sets, dtype, error=theory is None, together=together)


def _bound(theory: AbstractTheory | None, weights: Weights, teacher: Weights) -> Array:
    if theory is None:
        return bound_of((weights, teacher), least=SMALL)
    return bound_of(theory.project(weights, teacher))


def _measure(
    theory: AbstractTheory | None, weights: Weights, teacher: Weights
) -> tuple[Traced | None, AbstractTheory | None]:
    """A theory's measurement where it can be traced, else the theory."""
    if theory is None:
        return None, None
    both = lambda w, t: (dict(theory.measure(w, t)), theory.project(w, t))
    known = _identity((theory, weights, teacher))
    try:
        if known not in _MEASURES:
            found = Traced(both, *_shapes((weights, teacher)))
            if known is None:
                return found, None
            while len(_MEASURES) >= MOST_KEPT:
                _MEASURES.pop(next(iter(_MEASURES)), None)
            _MEASURES[known] = found
        return _MEASURES[known], None
    except Exception:  # whatever stops it, NumPy arrays show whether it works there
        return None, theory


def _shapes(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), tree)


def _identity(given: tuple[AbstractTheory, Weights, Weights]) -> Any:
    """What a traced measurement depends on; None where it is too large to be looked at."""
    theory, *arrays = given
    leaves, structure = jax.tree.flatten(theory)
    if sum(np.size(leaf) for leaf in leaves) > MOST_LOOKED_AT:
        return None
    values = tuple((np.shape(x), np.asarray(x).tobytes()) for x in leaves)
    like = [(np.shape(x), str(x.dtype)) for x in jax.tree.leaves(arrays)]
    return structure, values, jax.tree.structure(arrays), tuple(like)


def _split(
    network: AbstractNetwork, probes: Mapping[str, Probe], weights: Weights
) -> tuple[dict[str, Traced], dict[str, Probe]]:
    """Probes that can be traced, and those that cannot."""
    traced, rest = {}, {}
    for name, probe in probes.items():
        try:
            traced[name] = Traced(lambda w, p=probe: p(Model(network, w)), weights)
        except Exception:  # whatever stops it, NumPy arrays show whether it works there
            rest[name] = probe
    return traced, rest
