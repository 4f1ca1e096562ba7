"""What a simulation reads of the weights: the theory's observables, losses on examples, probes.

All are read inside the compiled program that takes the steps. Functions that cannot be traced are
called on NumPy arrays between its pieces, and the record says so.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from learndyn.models import Model
from learndyn.networks import AbstractNetwork
from learndyn.problems import AbstractProblem, Examples
from learndyn.records import Variable
from learndyn.rules.watching import AbstractStepProbe, Step
from learndyn.runtime.divergence import bound_of, has_diverged
from learndyn.runtime.jaxprs import Traced
from learndyn.runtime.types import Array, Weights
from learndyn.simulation.example_sets import OnExamples, labels
from learndyn.simulation.named_probe import NamedProbe
from learndyn.system import System
from learndyn.theory import AbstractTheory

Probe = NamedProbe | AbstractStepProbe  # functions of a model; the latter see the next step too
Values = dict[str, Any]
ANY = np.finfo(np.float64).max  # a bound that only infinities and NaN exceed
MOST_KEPT = 64  # traced measurements in the cache
MOST_HASHED = 10**5  # numbers in a theory whose measurement is cached
_MEASURES: dict[Any, Traced] = {}
SEEN = "/seen"  # what probes of steps have read; no variable has a name with a slash
SMALL = 1.0  # smaller starts count as this size: growth up to it is not divergence


class Reader(eqx.Module):
    """Reads weights inside compiled code: their values, and whether the run has diverged.

    Args:
        measure: (weights, teacher) → the theory's observables and its state; None without a theory.
        on_examples: reads losses.
        probes: name → function of the weights.
        bound: the value that the theory's state, or else the weights, may not exceed.
        watching: probes that also see the next step.
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
        seen: tuple[Values, ...] = (),
    ):
        """The values, and whether the run has diverged; `losses` if they are known already.

        `seen` is what the probes of steps have read; `finished` makes the record's values of it.
        """
        values, judged = self._measured(weights, teacher)
        watched = {name: value for each in seen for name, value in each.items()}
        values |= self.on_examples(weights, watched) if losses is None else losses
        gone = has_diverged(judged, self.bound)
        if values:  # a loss may overflow before the weights diverge
            gone |= has_diverged(values, jnp.asarray(ANY))
        values |= {name: probe(weights) for name, probe in self.probes.items()}
        return values | ({SEEN: seen} if seen else {}), gone

    def begin(self, model: Model, problem: AbstractProblem) -> tuple[Any, ...]:
        """What the probes of steps carry to their first reading."""
        return tuple(probe.begin(model, problem) for probe in self.watching)

    def watch(
        self, model: Model, step: Step, carried: tuple[Any, ...]
    ) -> tuple[tuple[Values, ...], tuple[Any, ...]]:
        """What the probes of steps read of the next step, and what they carry to the next reading.

        What they carry has the types of what came, since it is part of a compiled loop.
        """
        read = [p.read(model, step, m) for p, m in zip(self.watching, carried, strict=True)]
        cast = lambda new, old: jnp.asarray(new).astype(old.dtype)
        return tuple(v for v, _ in read), jax.tree.map(cast, tuple(m for _, m in read), carried)

    def finished(self, values: Values) -> Values:
        """The values of the record, from those of one reading."""
        rest = {name: value for name, value in values.items() if name != SEEN}
        for probe, each in zip(self.watching, values.get(SEEN, ()), strict=True):
            made = probe.finish(each)
            rest |= {name: made[name] for name in probe.variables}
        return rest

    def has_diverged(self, weights: Weights, teacher: Weights) -> Array:
        """Whether the theory's state, or else the weights, exceed the bound."""
        return has_diverged(self._measured(weights, teacher)[1], self.bound)

    def _measured(self, weights: Weights, teacher: Weights) -> tuple[Values, Any]:
        return ({}, weights) if self.measure is None else self.measure(weights, teacher)


class Outside(NamedTuple):
    """Reads weights as NumPy arrays, by functions that cannot be traced.

    Attributes:
        network: the network whose weights are read.
        theory: the theory, if it cannot be traced; otherwise None.
        probes: name → function of a model.
        bound: the value that the theory's state may not exceed.
    """

    network: AbstractNetwork
    theory: AbstractTheory | None
    probes: Mapping[str, NamedProbe]
    bound: Array

    @property
    def names(self) -> list[str]:
        """The names of what is read here."""
        return [*(self.theory.variables if self.theory is not None else ()), *self.probes]

    def __call__(self, weights: Weights, teacher: Weights) -> tuple[Values, bool]:
        values, gone = {}, False
        if self.theory is not None:
            gone = bool(has_diverged(self.theory.project(weights, teacher), self.bound))
            values = dict(self.theory.measure(weights, teacher))
        model = Model(self.network, weights)
        return values | {n: probe(model) for n, probe in self.probes.items()}, gone


class Reading(NamedTuple):
    """What is read, and its labels in the record."""

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
    """What to read of a system: its theory's observables, losses on examples, and probes.

    Args:
        system: the system.
        theory: the theory that covers it, or None.
        weights: the initial weights.
        teacher: the teacher's weights.
        probes: name → function of a model.
        together: the number of runs read at once.

    Returns:
        The reading.

    Raises:
        ValueError: for a probe with the name of an observable.
    """
    if theory is None and system.problem.moves_teacher:
        raise ValueError(
            "drift: got a teacher that moves, in a system without a theory that measures it; "
            "allowed is drift=None"
        )
    sets, on = _on_examples(system, theory, weights, teacher, together)
    labelled = {n: label for p, e in sets.items() for n, label in labels(p, e, True).items()}
    variables = {name: labelled[name] for name in on.names}
    attributes = {f"{p}error_from": e.name for p, e in sets.items() if f"{p}error" in variables}
    if theory is not None:
        variables = {**theory.variables, **variables}
        attributes = {"theory": theory.name, **attributes}
    used = {*variables, *(dim for label in variables.values() for dim in label.dims)}
    watching = tuple(each for each in probes.values() if isinstance(each, AbstractStepProbe))
    alone = {n: each for n, each in probes.items() if isinstance(each, NamedProbe)}
    shape = system.network.output_shape(system.problem.input_shape, system.problem.input_dtype)
    for each in watching:
        each.check(system.problem, math.prod(shape))
    taken = [n for n in (*alone, *(n for w in watching for n in w.variables)) if n in used]
    if taken:
        raise ValueError(
            f"probes: got {taken[0]!r}, which the record has already; allowed are names other "
            f"than {', '.join(sorted(used))}"
        )
    bound = _bound(theory, weights, teacher)
    measure, theory = _measure(theory, weights, teacher)
    traced, rest = _split(system.network, alone, weights)
    bound = bound if theory is None else jnp.asarray(ANY)
    inside = Reader(measure, on, traced, bound, watching)
    variables |= {name: label for each in watching for name, label in each.variables.items()}
    outside = Outside(system.network, theory, rest, bound)
    if outside.names:
        attributes["read_between_pieces"] = ", ".join(outside.names)
    return Reading(inside, outside, variables, attributes)


def _on_examples(system, theory, weights, teacher, together):
    dtype = jax.tree.leaves(weights)[0].dtype
    # A theory measures without examples, so no fresh ones are drawn for it.
    drawn = theory is None or system.problem.examples() is not None
    sets: Mapping[str, Examples] = system.problem.measured_on(teacher, dtype) if drawn else {}
    return sets, OnExamples(system, sets, dtype, error=theory is None, together=together)


def _bound(theory: AbstractTheory | None, weights: Weights, teacher: Weights) -> Array:
    if theory is None:
        return bound_of((weights, teacher), least=SMALL)
    return theory.bound(theory.project(weights, teacher))


def _measure(
    theory: AbstractTheory | None, weights: Weights, teacher: Weights
) -> tuple[Traced | None, AbstractTheory | None]:
    """The theory's measurement if it can be traced, and otherwise the theory."""
    if theory is None:
        return None, None
    both = lambda w, t: (dict(theory.measure(w, t)), theory.project(w, t))
    known = _identity((theory, weights, teacher))
    try:
        if known not in _MEASURES:
            like = jax.tree.map(
                lambda leaf: jax.ShapeDtypeStruct(np.shape(leaf), leaf.dtype), (weights, teacher)
            )
            traced = Traced(both, *like)
            if known is None:
                return traced, None
            while len(_MEASURES) >= MOST_KEPT:
                _MEASURES.pop(next(iter(_MEASURES)), None)
            _MEASURES[known] = traced
        return _MEASURES[known], None
    except Exception:  # of any kind; if it fails on NumPy arrays too, that error is raised
        return None, theory


def _identity(inputs: tuple[AbstractTheory, Weights, Weights]) -> Any:
    """A hashable of all that a traced measurement depends on; None if it would be too large."""
    theory, *arrays = inputs
    leaves, structure = jax.tree.flatten(theory)
    if sum(np.size(leaf) for leaf in leaves) > MOST_HASHED:
        return None
    values = tuple((np.shape(x), np.asarray(x).tobytes()) for x in leaves)
    like = [(np.shape(x), str(x.dtype)) for x in jax.tree.leaves(arrays)]
    return structure, values, jax.tree.structure(arrays), tuple(like)


def _split(
    network: AbstractNetwork, probes: Mapping[str, NamedProbe], weights: Weights
) -> tuple[dict[str, Traced], dict[str, NamedProbe]]:
    """The probes that can be traced, and those that cannot."""
    traced, rest = {}, {}
    for name, probe in probes.items():
        try:
            traced[name] = Traced(lambda w, p=probe: p.traced(Model(network, w)), weights)
        except Exception:  # of any kind; if it fails on NumPy arrays too, that error is raised
            rest[name] = probe
    return traced, rest
