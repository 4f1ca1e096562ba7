"""A system that the theory covers, in the notation of the thesis; or why it is not covered."""

from typing import Any, cast

import equinox as eqx
import numpy as np

from learndyn.models import Taylor
from learndyn.networks import MLP, GeneralQuadratic
from learndyn.problems import Dataset, SquaredLoss
from learndyn.rules import GradientDescent
from learndyn.runtime.checks import a_kind
from learndyn.runtime.precision import as_float64, full_precision
from learndyn.runtime.types import Array
from learndyn.system import System
from learndyn.theory.base import beyond_gradient

STRAIGHT = 1e-12  # inputs count as on a line up to this relative distance from it
CLOSES = 1e-9  # Σ³ = s Σ and Σ² φ = s φ count as true up to this relative error
ASK = "ld.quadratic(model) is"


class QuadraticSetting(eqx.Module):
    """The parameters of the closed map.

    Attributes:
        p: (directions, examples), orthonormal rows p̂_i.
        c: (directions,), curvatures.
        a: (directions,), offsets: h = r + a.
        rest: squared norm of the residuals outside the directions, which stays constant.
        eta: the learning rate for the loss ½ Σ r², 2 · loss_scale · learning_rate / examples.
        weight: factor of Σ r² in the loss, loss_scale / examples.
    """

    p: Array = eqx.field(converter=as_float64)
    c: Array = eqx.field(converter=as_float64)
    a: Array = eqx.field(converter=as_float64)
    rest: Array = eqx.field(converter=as_float64)
    eta: Array = eqx.field(converter=as_float64)
    weight: Array = eqx.field(converter=as_float64)

    @staticmethod
    def of(system: System) -> "QuadraticSetting":
        """The setting of a covered system."""
        x, y = examples(system)
        if isinstance(system.network, GeneralQuadratic):
            p, (c, a) = np.ones((1, 1)), _general(system.network, x[0], y[0])
        else:
            network = cast(MLP, _expanded(system.network))
            p, c, a = _directions(x, y, network.activation, network.widths[0] * network.widths[1])
        weight = cast(SquaredLoss, system.problem.loss).scale / len(y)
        rate = cast(GradientDescent, system.rule).learning_rate
        # Outputs lie in the span of the directions, so the rest of the targets is never learned.
        rest = np.sum(y**2) - np.sum((p @ y) ** 2)
        return QuadraticSetting(p, c, a, max(float(rest), 0.0), 2 * weight * rate, weight)


def examples(system: System) -> tuple[np.ndarray, np.ndarray]:
    """All examples as the network takes them, in float64; targets as (examples,)."""
    with full_precision():
        pair = cast(Dataset, system.problem).examples().take(slice(None), np.float64)
        x, y = (np.asarray(part) for part in pair)
    labels = y.dtype.kind == "i"  # classes 0 and 1, which a squared loss takes as −1 and 1
    return x, (2.0 * y - 1 if labels else y).reshape(len(y))


def _expanded(network: Any) -> Any:
    """The network that a twin expands; any other network itself."""
    return network.network if isinstance(network, Taylor) else network


def refusal(system: System) -> str | None:
    """Why the theory does not cover a system; None if it does."""
    problem, rule = system.problem, system.rule
    why = _of_network(system.network)
    if why is not None:
        return why
    if not isinstance(rule, GradientDescent):
        return f"the rule is {type(rule).__name__}, not GradientDescent"
    if (beyond := beyond_gradient(rule)) is not None:
        return beyond
    if not isinstance(problem, Dataset):
        return f"the problem is {a_kind(problem)}, not a Dataset"
    if not isinstance(problem.loss, SquaredLoss):
        return f"the loss is {type(problem.loss).__name__}, not SquaredLoss"
    x, y = examples(system)
    if isinstance(system.network, GeneralQuadratic):
        return _of_general(system.network, x, y)
    if not np.any(x):
        return "all inputs are zero, and so is the tangent kernel"
    if _coordinates(x) is None:
        return f"the {len(x)} inputs do not lie on a line through the origin: nothing closes"
    return None


def _of_network(network: Any) -> str | None:
    if isinstance(network, GeneralQuadratic):
        return None
    twin, inner = isinstance(network, Taylor), _expanded(network)
    if not isinstance(inner, MLP):
        return f"the network is {a_kind(inner)}, not (the quadratic twin of) a two-layer MLP"
    if twin and network.order == 1:
        return "the linear twin keeps its kernel: the linearised theory covers it"
    if len(inner.widths) != 3 or inner.widths[-1] != 1:
        return f"the network has widths {inner.widths}, not (inputs, hidden, 1)"
    if inner.activation not in ("relu", "linear"):
        reason = "has a second derivative, which Eq. 3.10 leaves out: nothing closes"
        named = inner.activation if isinstance(inner.activation, str) else a_kind(inner.activation)
        return f"the activation {named} {reason}"
    if inner.bias or inner.output != "identity" or inner.parameterisation != "ntk":
        return "the network has a bias, an output map or the standard parameterisation"
    if inner.activation == "relu" and not twin:
        return f"a relu network is not quadratic in its weights, as gates change; {ASK}"
    return None


def _coordinates(x: np.ndarray) -> np.ndarray | None:
    """Coordinates of the inputs on a line through the origin; None if they are not on one.

    The first nonzero entry of the line's direction is positive, so that the coordinates of
    one-dimensional inputs are the inputs themselves.
    """
    longest = x[np.argmax(np.sum(x**2, axis=1))]
    e = longest / np.linalg.norm(longest) * np.sign(longest[np.flatnonzero(longest)[0]])
    t = x @ e
    return None if np.linalg.norm(x - np.outer(t, e)) > STRAIGHT * np.linalg.norm(x) else t


def _directions(x: np.ndarray, y: np.ndarray, activation: str, md: int) -> tuple[Any, Any, Any]:
    """Unit vectors p̂_i, curvatures |p_i|²/(md) and offsets ⟨y, p̂_i⟩ (B.7-B.12, corrected).

    With relu, positive and negative examples are one direction each, since a unit is active on
    one of the two sides only. Linear units are active on both, which are one direction.
    """
    t = _coordinates(x)
    assert t is not None
    sides = [t] if activation == "linear" else [np.where(t > 0, t, 0), np.where(t < 0, t, 0)]
    sides = np.stack([side for side in sides if np.any(side)])
    sizes = np.linalg.norm(sides, axis=1)
    p = sides / sizes[:, None]
    return p, sizes**2 / md, p @ y


def _general(network: GeneralQuadratic, phi: np.ndarray, y: Array) -> tuple[Any, Any]:
    """Curvature γ² s and offset y + κ, κ = φᵀΣφ/(2γs)."""
    s, gamma = _square(network.sigma), float(network.gamma)
    kappa = phi @ _turned(network.sigma, phi) / (2 * gamma * s)
    return np.array([gamma**2 * s]), np.array([y + kappa])


def _of_general(network: GeneralQuadratic, x: np.ndarray, y: np.ndarray) -> str | None:
    if len(y) != 1:
        return f"the general quadratic model has {len(y)} examples; it closes for one"
    sigma, s = network.sigma, _square(network.sigma)
    if s == 0:
        return "Σ is zero: the model is linear"
    twice = lambda v: _turned(sigma, _turned(sigma, v))
    wrong = np.abs(twice(sigma) - s * sigma).max(), np.abs(twice(x[0]) - s * x[0]).max()
    if wrong[0] > CLOSES * s**1.5 or wrong[1] > CLOSES * s * max(np.abs(x).max(), 1e-300):
        return "Σ³ = s Σ and Σ² φ = s φ do not hold: nothing closes"
    return None


def _square(sigma: np.ndarray) -> float:
    """The s in Σ³ = s Σ, where this holds: the square of the largest eigenvalue of Σ."""
    return float(np.abs(sigma).max() if sigma.ndim == 1 else np.linalg.norm(sigma, 2)) ** 2


def _turned(sigma: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Σ v. A diagonal Σ is stored as its diagonal, and multiplies by entry."""
    return sigma * v if sigma.ndim == 1 else sigma @ v
