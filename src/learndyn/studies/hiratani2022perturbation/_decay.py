"""What keeps weights small: the paper's normalisation, and weight decay."""

from collections.abc import Sequence
from typing import Any

import jax
import optax

import learndyn as ld
from learndyn.studies.hiratani2022perturbation._tasks import SIGMA


def regularised(
    rate: float, batch: int, decays: Sequence[float], *, normalised: bool = True
) -> dict[str, Any]:
    """Node perturbation plain, normalised (Eq. 108), and with decays of the weights.

    Args:
        rate: of all.
        batch: of all.
        decays: η_d of W ← (1 − η_d) W, at each step; biases do not decay.
        normalised: whether to include it.

    Returns:
        "neither", "normalised" and "decay η_d" → rule.
    """
    noise = ld.NodePerturbation(1.0, sigma=SIGMA, batch=batch)
    made = lambda *more: ld.Optax(
        optax.chain(optax.sgd(rate), *more), estimator=noise, sampling="epochs"
    )
    rules = {"neither": made()}
    if normalised:
        rules["normalised"] = made(ld.rules.normalise_rows())
    for decay in decays:
        shrink = optax.add_decayed_weights(-decay, mask=_weights)  # after the rate: a plain factor
        rules[f"decay {decay:g}"] = made(shrink)
    return rules


def _weights(tree: Any) -> Any:
    return jax.tree.map(lambda leaf: leaf.ndim > 1, tree)
