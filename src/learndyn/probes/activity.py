"""The activity of a network's nodes."""

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax.numpy as jnp

from learndyn.models import Model
from learndyn.models.model import inputs_of
from learndyn.networks.parts.affine import FUNCTIONS
from learndyn.probes.arguments import checked_inputs, with_nodes
from learndyn.runtime.checks import one_of
from learndyn.runtime.precision import compiled_in_float64
from learndyn.runtime.types import Array
from learndyn.tangent import forward


def participation_ratio(
    model: Any, x: Array, *, node: str, activation: str | Callable[[Array], Array] = "linear"
) -> Array:
    """The participation ratio tr[Σ]²/tr[Σ²] of activities, with their covariance Σ over examples.

    It is between 1 (all activity along one direction) and the number of units.

    Args:
        model: a `Model`, or an equinox module.
        x: inputs, at least two.
        node: the name of a node, "layer1" for instance.
        activation: maps the node's pre-activation to its activity: a name as in `MLP`, or a
            function; "linear" is the pre-activation itself. hiratani2022perturbation (Figs. S3D,
            S4E) uses the activity after "relu".

    Returns:
        The ratio.

    Raises:
        ValueError: for a model without nodes, and for inputs or targets that do not fit it.

    Example:
        >>> import numpy as np
        >>> import learndyn as ld
        >>> model = ld.Model(ld.DeepLinear([4, 4]), (np.diag([1.0, 1.0, 1.0, 0.0]),))
        >>> x = np.concatenate([np.eye(4), -np.eye(4)])
        >>> float(ld.probes.participation_ratio(model, x, node="layer1"))
        3.0
    """
    if not callable(activation):
        activation = FUNCTIONS[one_of("activation", activation, FUNCTIONS)]
    model, x = with_nodes(model), checked_inputs("x", x)
    model.outputs_each(x)
    one_of("node", node, eqx.filter_eval_shape(_nodes, model, x))
    return _ratio(model, x, node, activation)


def _nodes(model: Model, x: Array) -> dict[str, Array]:
    return forward(model.network, model.weights, inputs_of(model, x))[1]


@compiled_in_float64
def _ratio(model: Model, x: Array, node: str, activation: Callable[[Array], Array]) -> Array:
    active = activation(_nodes(model, x)[node]).reshape(len(x), -1)
    centred = active - jnp.mean(active, axis=0)
    # Both products have the nonzero eigenvalues of the covariance; the smaller one is cheaper.
    few = len(x) < centred.shape[1]
    product = centred @ centred.T if few else centred.T @ centred
    return jnp.trace(product) ** 2 / jnp.sum(product**2)
