"""Responses of optax transformations, learned by differentiating their `update`.

Hyper-parameters of a transformation are hidden in closures, but its update can be differentiated.
At zero momentum and a gradient that is all but zero, second moments stay fixed, since they respond
in second order: derivatives of the update with respect to gradient, momentum and weights are the
coefficients of `response`, whatever the chain (schedules, masks, injected hyper-parameters).
Clipping has no effect on such a gradient: rates are given without it.

Second moments that decay are divided by their decay, and counts are lowered by one, so that the
preconditioner of the next update is that of the state. Weights are all but zero too: decay that is
added to the gradient before a preconditioner would otherwise change it.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree

from learndyn.probes.optimisers.response import Coefficients, NoState, Response, common_rate
from learndyn.runtime.checks import a_kind, finite
from learndyn.runtime.precision import full_precision

ALLOWED = "(optax transformation, its state) for a JAX model, or a torch.optim.Optimizer"
READ = "descent, momentum, Nesterov, Adam, AdamW, RMSprop, Adagrad and chains of them"
MANY = 2**30  # a count at which bias corrections have vanished
# A gradient, or weight, without effect on second moments, beside ε too, whose square float32 still
# holds. At exactly zero the root of a second moment that never had a gradient has no slope.
TINY = 1e-15
MASKS = {"MaskedState", "PartitionState", "MultiTransformState"}  # whose shapes may choose weights
LARGE = 1e8  # a second moment beside which ε is small
HUGE = 1e30  # one beside which the largest of these gradients has no effect, in float32 too
SIZES = 1.1 * 4.0 ** np.arange(-22, 20)  # of gradients; no bounds of clipping, which are round
PARTLY = 0.05  # a response that is neither whole nor zero
CLOSE = 1e-3  # relative; coefficients are derivatives in the precision of the weights


class Fields(NamedTuple):
    """The fields of a state: its momentum, its second moments, and whether momenta are means."""

    momentum: str = ""
    second: tuple[str, ...] = ()
    mean: bool = False


STATES = {
    "ScaleByAdamState": Fields("mu", ("nu",), mean=True),
    "ScaleByAmsgradState": Fields("mu", ("nu", "nu_max"), mean=True),
    "ScaleByRmsState": Fields(second=("nu",)),
    "ScaleByRmsWithCountState": Fields(second=("nu",)),
    "ScaleByRStdDevState": Fields(second=("mu", "nu")),
    "ScaleByRStdDevWithCountState": Fields(second=("mu", "nu")),
    "ScaleByRssState": Fields(second=("sum_of_squares",)),
    "TraceState": Fields("trace"),
    "EmaState": Fields("ema", mean=True),
}


def response_of(model: Any, optimiser: Any) -> Response:
    """The response of a transformation with its state."""
    pair = isinstance(optimiser, tuple) and len(optimiser) == 2
    if not pair or not callable(getattr(optimiser[0], "update", None)):
        raise ValueError(f"optimiser: got {a_kind(optimiser)}; allowed is {ALLOWED}")
    if not hasattr(model, "network"):
        raise ValueError("optimiser: got one of optax; allowed is a torch.optim.Optimizer")
    transformation, state = optimiser
    with full_precision():
        weights = _wide(jax.tree.map(jnp.asarray, model.weights))
        _check_state(transformation, state, weights)
        given = transformation, _wide(state), weights
        try:
            found, each = _compiled(*given), _compiled_rates(*given)
        except Exception as error:  # such as an update that also needs the loss
            why = str(error).partition("\n")[0]
            raise ValueError(f"optimiser: its update fails ({why}); allowed are {READ}") from None
        scale, shift = _coefficients(found, state).scale_and_shift()
        if not np.any(scale) or not np.all(np.isfinite(scale + shift)):
            _explain(*given)
    if np.any(scale < 0):  # as of weights that `optax.masked` leaves out: their update is +gradient
        came = f"updates along the gradient{_named(state)}"
        raise ValueError(f"optimiser: got {came}; allowed are updates against it, or of zero")
    rate = common_rate(moving(np.ravel(each)))
    unit = rate if np.isfinite(rate) else 1.0
    return Response(scale / unit, shift / unit, rate, "optax")


def moving(rates: np.ndarray) -> np.ndarray:
    """The learning rates of weights that move, if any do."""
    return rates[rates != 0] if np.any(rates) else rates


def _explain(transformation: Any, state: Any, weights: Any) -> None:
    """Raises an error for updates whose response to small gradients is zero or not finite."""
    finite("weights", np.asarray(ravel_pytree(weights)[0]))
    if not all(np.all(np.isfinite(leaf)) for leaf in jax.tree.leaves(state)):
        raise ValueError("optimiser: got a state with NaN or infinities; allowed are finite ones")
    ones = jax.tree.map(jnp.ones_like, weights)
    if np.any(ravel_pytree(transformation.update(ones, state, weights)[0])[0]):
        came = "updates without a response to small gradients"
        raise ValueError(f"optimiser: got {came}; allowed are {READ}")
    # As when a schedule begins: the response to a rate of 0 says nothing of other rates.
    raise NoState("optimiser: got a learning rate of 0; allowed is a positive one")


def _wide(tree: Any) -> Any:
    """A tree with numbers in half precision as float32; plain numbers become arrays."""
    half = lambda leaf: jnp.issubdtype(leaf.dtype, jnp.floating) and leaf.itemsize < 4
    widened = lambda leaf: leaf.astype(jnp.float32) if half(leaf) else leaf
    # A hyper-parameter that was set by hand is a number of Python.
    return jax.tree.map(lambda leaf: widened(jnp.asarray(leaf)), tree)


class Frozen(NamedTuple):
    """A transformation with its second moments and counts held fixed: a map of momenta."""

    transformation: Any
    state: Any

    def momenta(self) -> Any:
        """Zero for every momentum."""
        return [jnp.zeros_like(leaf) for leaf in jax.tree.leaves(_momenta(self.state))]

    def step(self, momenta: Any, gradient: Any, weights: Any) -> tuple[Any, Any]:
        """The update of the weights, and the momenta after it."""
        tree = jax.tree.structure(_momenta(self.state))
        state = _with_momenta(self.state, iter(jax.tree.unflatten(tree, momenta)))
        update, after = self.transformation.update(gradient, state, weights)
        return ravel_pytree(update)[0], jax.tree.leaves(_momenta(after))


class Learned(NamedTuple):
    """Coefficients, and whether they describe the transformation."""

    coefficients: Coefficients
    several: Any  # whether there are several momenta in a row
    coupled: Any  # whether weights act on each other, or the response depends on the gradient
    close: Any = CLOSE  # relative rounding of the coefficients


def learned(transformation: Any, state: Any, weights: Any) -> Learned:
    """The coefficients, from derivatives of one, two and three updates; it can be traced."""
    tiny = jax.tree.map(lambda w: jnp.full_like(w, TINY), weights)
    frozen = Frozen(transformation, _frozen(transformation, state, tiny))
    zero, none = jax.tree.map(jnp.zeros_like, weights), frozen.momenta()
    still = lambda momenta: frozen.step(momenta, tiny, tiny)

    def updates(momenta: Any, gradient: Any, weights: Any) -> tuple[Any, Any, Any]:
        """The first update, and those of the next two steps by the momenta that it leaves."""
        first, momenta = frozen.step(momenta, gradient, weights)
        second, momenta = still(momenta)
        return first, second, still(momenta)[0]

    close = _close(jax.eval_shape(frozen.step, none, zero, zero)[1])
    ones = lambda tree: jax.tree.map(jnp.ones_like, tree)
    nothing = tuple(jax.tree.map(jnp.zeros_like, part) for part in (none, zero, zero))

    def along(place: int, direction: Any, gradient: Any = tiny) -> Any:
        tangents = tuple(direction if i == place else part for i, part in enumerate(nothing))
        changes = jax.jvp(updates, (none, gradient, tiny), tangents)[1]
        return [change.astype(jnp.float64) for change in changes]

    a, ap, app = along(0, ones(none))
    b, aq, _ = along(1, ones(zero))
    c, ar, _ = along(2, ones(zero))
    p = _quotient(ap, a)
    several = jnp.abs(app - ap * p) > close * (jnp.abs(a).max(initial=0.0) + jnp.abs(ap * p))
    # Weights must not act on each other, and the response must depend neither on the gradient nor
    # on the weights, as it does with a trust ratio: random signs see that.
    rng = np.random.default_rng(0)
    signs = jax.tree.map(lambda w: jnp.asarray(rng.choice([-1.0, 1.0], w.shape), w.dtype), zero)
    flat = ravel_pytree(signs)[0]
    small = jax.tree.map(lambda sign: (1e3 * TINY * sign).astype(sign.dtype), signs)
    # The median, since single second moments may be as small as the small gradient's square.
    differs = lambda found: jnp.median(jnp.abs(found - b) - close * jnp.abs(b)) > 0
    coupled = differs(along(1, signs)[0] * flat) | differs(along(1, ones(zero), small)[0])
    coupled |= _varies(transformation, state, weights, close)
    coupled |= _levels_off(transformation, state, weights)
    return Learned(Coefficients(b, c, aq, ar, p), jnp.any(several), coupled, close)


def _varies(transformation: Any, state: Any, weights: Any, close: float) -> Any:
    """Whether the response to gradients is another one at other weights.

    Second moments are large here, so that decay which is added to the gradient leaves them alone.
    """
    tiny = jax.tree.map(lambda w: jnp.full_like(w, TINY), weights)
    made = _map_states(state, lambda s, f: _uniform(s, f, LARGE))
    frozen = Frozen(transformation, _frozen(transformation, made, tiny))
    ones, none = jax.tree.map(jnp.ones_like, weights), frozen.momenta()
    response = lambda w: jax.jvp(lambda g: frozen.step(none, g, w)[0], (tiny,), (ones,))[1]
    here, other = response(tiny), response(jax.tree.map(lambda w: 2 * w + 1, weights))
    return jnp.any(jnp.abs(other - here) > close * jnp.abs(here))


def _levels_off(transformation: Any, state: Any, weights: Any) -> Any:
    """Whether updates level off smoothly as gradients grow, as where a norm divides them.

    Clipping does not: its response is whole up to a bound, and zero above. Second moments are so
    large here that no gradient changes them.
    """
    state, weights = _representatives(state, weights)
    tiny, ones = (jax.tree.map(lambda w, v=v: jnp.full_like(w, v), weights) for v in (TINY, 1.0))
    made = _map_states(state, lambda s, f: _uniform(s, f, HUGE))
    frozen = Frozen(transformation, _frozen(transformation, made, tiny))
    none = frozen.momenta()

    def response(size: Any) -> Any:
        gradient = jax.tree.map(lambda w: jnp.full_like(w, size), weights)
        return jax.jvp(lambda g: frozen.step(none, g, tiny)[0], (gradient,), (ones,))[1]

    share = _quotient(jax.lax.map(response, jnp.asarray(SIZES)), response(TINY))
    return jnp.any((share > PARTLY) & (share < 1 - PARTLY))


def _close(momenta: Any) -> float:
    """By what share coefficients may differ by rounding; momenta may be kept in half precision."""
    return max([CLOSE, *(4 * float(jnp.finfo(leaf.dtype).eps) for leaf in momenta)])


def _coefficients(found: Learned, state: Any) -> Coefficients:
    """The coefficients as NumPy, or a one-line error."""
    for wrong, came in (
        (found.coupled, "updates that couple weights"),
        (found.several, "several momenta in a row"),
    ):
        if wrong:
            raise ValueError(f"optimiser: got {came}{_named(state)}; allowed are {READ}")
    parts = Coefficients(*(np.asarray(part, np.float64) for part in found.coefficients))
    momentum = float(np.max(np.abs(parts.p), initial=0.0))
    if momentum > 1 + found.close:
        came, allowed = f"a momentum of {momentum:.6g}", "up to 1, above which no rate is stable"
        raise ValueError(f"optimiser: got {came}; allowed is {allowed}")
    return parts


def _quotient(above: Any, below: Any) -> Any:
    return jnp.where(below == 0, 0.0, above / jnp.where(below == 0, 1.0, below))


def rates(transformation: Any, state: Any, weights: Any) -> Any:
    """The learning rates of all weights: what updates would be with a preconditioner of 1.

    A transformation acts on every weight alone, so that one weight of each array tells, unless
    masks choose weights, by their shapes perhaps. For second moments v that are large, updates are
    rate/v^q with q = 1/2, or 1 for Adamax; q follows from three values of v.
    """
    given = _injected(transformation, state, weights)
    if given is not None:
        return jnp.asarray(given, jnp.float64)
    state, weights = _representatives(state, weights)
    means = any(fields.mean for _, fields in _known(state))
    slopes = []
    for second in (LARGE, 4 * LARGE, 16 * LARGE) if has_second_moments(state) else (LARGE,):
        made = _map_states(state, lambda s, f, second=second: _uniform(s, f, second))
        slopes.append(_plain_rate(learned(transformation, made, weights), means))
    if len(slopes) == 1:
        return slopes[0]
    one, two, three = (_quotient(1.0, slope) for slope in slopes)  # v^q/rate, and what ε adds
    power = jnp.where(three - two > np.sqrt(8) * (two - one), 1.0, 0.5)
    found = _quotient((4**power - 1) * LARGE**power, two - one)
    fixed = jnp.abs(two - one) <= CLOSE * jnp.abs(one)  # weights without a preconditioner
    return jnp.where(fixed, slopes[0], found)


def _representatives(state: Any, weights: Any) -> tuple[Any, Any]:
    """One weight of each array, and its state; all of them if masks may choose by shapes."""
    if _types(state) & MASKS:
        return state, weights
    one_of = lambda leaf: leaf[(slice(0, 1),) * jnp.ndim(leaf)]
    state, weights = (jax.tree.map(one_of, tree) for tree in (state, weights))
    return state, weights


def _plain_rate(found: Learned, means: bool) -> Any:
    """The learning rate times the preconditioner, without what momentum adds."""
    parts = found.coefficients
    if means:  # under a constant gradient momentum becomes that gradient
        return -(parts.b + parts.aq / (1 - parts.p))
    ahead = parts.b - _quotient(parts.aq, parts.p)
    # Nesterov's update has the gradient itself besides the momentum.
    nesterov = jnp.abs(ahead) > found.close * jnp.abs(parts.b)
    return jnp.where((parts.p != 0) & nesterov, -ahead, -parts.b)


# Compiled once per transformation.
_compiled = eqx.filter_jit(learned)
_compiled_rates = eqx.filter_jit(rates)


def has_second_moments(state: Any) -> bool:
    """Whether a transformation with this state has a preconditioner."""
    return any(fields.second for _, fields in _known(state))


def _injected(transformation: Any, state: Any, weights: Any) -> Any:
    """The next learning rate of `optax.inject_hyperparams`, if the state has one."""
    if "learning_rate" not in getattr(state, "hyperparams", {}):
        return None
    after: Any = transformation.update(jax.tree.map(jnp.zeros_like, weights), state, weights)[1]
    return after.hyperparams["learning_rate"]


def _check_state(transformation: Any, state: Any, weights: Any) -> None:
    try:
        like = jax.eval_shape(transformation.init, weights)
    except Exception as error:  # a transformation may raise anything
        why = str(error).partition("\n")[0]
        raise ValueError(f"optimiser: init fails ({why}); allowed is {ALLOWED}") from None
    shapes = lambda tree: [np.shape(leaf) for leaf in jax.tree.leaves(tree)]
    if jax.tree.structure(like) != jax.tree.structure(state) or shapes(like) != shapes(state):
        allowed = "one that `init` made from these weights"
        raise ValueError(f"optimiser: got a state of another model; allowed is {allowed}")
    names = unreadable(state)
    if names:
        raise ValueError(f"optimiser: got a state with {names}; allowed are {READ}")
    if without_step(state):
        raise NoState("optimiser: got a state without a step; allowed is one after a step")


def without_step(state: Any) -> Any:
    """Whether a preconditioner is that before the first step: all second moments are zero."""
    seconds = ([getattr(each, name) for name in fields.second] for each, fields in _known(state))
    leaves = (jax.tree.leaves(each) for each in seconds)
    empty = [~jnp.any(jnp.stack([jnp.any(leaf) for leaf in each])) for each in leaves if each]
    return jnp.any(jnp.asarray(empty, bool))


def unreadable(state: Any) -> str:
    """The names of what a state holds arrays in that are not known; empty if it can be read."""
    known = {id(leaf) for s, _ in _known(state) for leaf in jax.tree.leaves(s)}
    other = [leaf for leaf in jax.tree.leaves(state) if np.ndim(leaf) and id(leaf) not in known]
    names = sorted(_types(state) - set(STATES))
    states = [name for name in names if name.endswith("State")]  # not those of the weights
    return (", ".join(states or names) or "arrays") if other else ""


def _types(state: Any) -> set[str]:
    """The names of all named tuples in a state that have fields."""
    own = {type(state).__name__} if getattr(state, "_fields", ()) else set()
    parts = state.values() if isinstance(state, dict) else state
    return own.union(*map(_types, parts)) if isinstance(state, tuple | list | dict) else own


def _named(state: Any) -> str:
    """The states of a chain in parentheses; empty if there are none."""
    names = ", ".join(sorted(_types(state)))
    return f" ({names})" if names else ""


def _is_known(node: Any) -> bool:
    return type(node).__name__ in STATES


def _known(state: Any) -> list[tuple[Any, Fields]]:
    nodes = jax.tree.leaves(state, is_leaf=_is_known)
    return [(node, STATES[type(node).__name__]) for node in nodes if _is_known(node)]


def _map_states(state: Any, change: Callable[[Any, Fields], Any]) -> Any:
    apply = lambda node: change(node, STATES[type(node).__name__]) if _is_known(node) else node
    return jax.tree.map(apply, state, is_leaf=_is_known)


def _momenta(state: Any) -> list[Any]:
    return [getattr(node, fields.momentum) for node, fields in _known(state) if fields.momentum]


def _with_momenta(state: Any, momenta: Any) -> Any:
    put = lambda s, f: s._replace(**{f.momentum: next(momenta)}) if f.momentum else s
    return _map_states(state, put)


def _uniform(state: Any, fields: Fields, second: float) -> Any:
    """A state whose second moments are one number, long after the start."""
    mean = fields.second[0] == "mu" if fields.second else False  # centred: no mean gradient
    values = {name: 0.0 if mean and name == "mu" else second for name in fields.second}
    fill = lambda name: jax.tree.map(lambda v: jnp.full_like(v, values[name]), getattr(state, name))
    count = {"count": jnp.asarray(MANY, jnp.int32)} if "count" in state._fields else {}
    return state._replace(**{name: fill(name) for name in values}, **count)


def _frozen(transformation: Any, state: Any, weights: Any) -> Any:
    """The state before which an update without a gradient leaves its second moments as they are."""
    zero = jax.tree.map(jnp.zeros_like, weights)
    state = _with_momenta(state, iter(jax.tree.map(jnp.zeros_like, _momenta(state))))
    seconds = lambda s: [[getattr(node, n) for n in f.second] for node, f in _known(s)]
    after = seconds(transformation.update(zero, state, weights)[1])
    decays = iter(jax.tree.leaves(jax.tree.map(_ratio, after, seconds(state))))

    def earlier(node: Any, fields: Fields) -> Any:
        back = lambda value: jax.tree.map(lambda v: jnp.asarray(v) / next(decays), value)
        count = {"count": node.count - 1} if "count" in node._fields else {}
        return node._replace(**{n: back(getattr(node, n)) for n in fields.second}, **count)

    return _map_states(state, earlier)


def _ratio(after: Any, before: Any) -> Any:
    """By which number an array was multiplied; 1 if it is zero."""
    top = jnp.argmax(jnp.abs(jnp.ravel(before)))
    largest = jnp.ravel(jnp.asarray(before))[top]
    return jnp.where(largest == 0, 1.0, jnp.ravel(after)[top] / jnp.where(largest == 0, 1, largest))
