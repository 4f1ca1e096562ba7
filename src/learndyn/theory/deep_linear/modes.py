"""Singular modes of an aligned deep linear network under curvature-corrected rules.

If the layers share their singular vectors with each other and with the target, every mode with
strengths σ_1 … σ_d evolves independently: its product σ̄ = Π σ_i learns the target σ̄_*. The
couplings are j_i = ∂σ̄/∂σ_i. The loss is Σ (σ̄ − σ̄_*)²/2, the inputs have unit covariance, the
learning rate is 1, and power = 1/q.
Equation numbers are those of curvature2020linear.
"""

import jax.core
import jax.numpy as jnp

from learndyn.networks.solvable.matrix_product import FORMS
from learndyn.runtime import checks
from learndyn.runtime.types import Array, Number


def coupling(sigma: Array) -> Array:
    """j_i = ∂σ̄/∂σ_i = Π_{k≠i} σ_k, without dividing by σ_i, which may be 0.

    Args:
        sigma: strengths, shape (..., layers).

    Returns:
        j, of the shape of sigma.

    Examples:
        >>> coupling(jnp.array([0.0, 2.0, 3.0])).tolist()
        [6.0, 0.0, 0.0]
    """
    sigma = jnp.asarray(sigma)
    below = jnp.cumprod(_shifted(sigma), axis=-1)
    above = jnp.cumprod(_shifted(sigma[..., ::-1]), axis=-1)[..., ::-1]
    return below * above


def velocity(
    sigma: Array,
    target: Array,
    *,
    power: Array | Number,
    blocks: bool = False,
    damping: Array | Number = 0.0,
    form: str = "paper",
) -> Array:
    """dσ_i/dt = −(σ̄ − σ̄_*) j_i ‖j‖^(−2 power) (Eq. 14).

    Power 0 is gradient descent (Eq. 6), 1 the natural gradient (Eq. 12). With blocks, each layer
    is corrected by its own coupling: −(σ̄ − σ̄_*) d^(−power) sign(j_i) |j_i|^(1 − 2 power) (Eqs. 24
    to 26). Damping by ε replaces ‖j‖² by (‖j‖² + ε)/(1 + ε), for blocks j_i² likewise; power 1 is
    then Eq. 18, where a = ε/‖j‖. Form "levenberg" drops the 1 + ε.

    Corrections are pseudo-inverses: a strength without coupling does not move. A mode with σ̄ = 0
    thus moves if exactly one of its σ_i is 0; if two are, all j_i vanish.

    Args:
        sigma: strengths, shape (modes, layers).
        target: σ̄_*, shape (modes,).
        power: 1/q, from 0 to 1.
        blocks: whether each layer is corrected separately.
        damping: ε >= 0.
        form: "paper" or "levenberg".

    Returns:
        dσ/dt, of the shape of sigma.
    """
    _check_static(power, damping, form)
    j = coupling(sigma)
    gap = jnp.prod(sigma, axis=-1) - target
    return -gap[..., None] * j * _correction(j, power, blocks, damping, form)


def invariants(sigma: Array, *, power: Array | Number, blocks: bool = False) -> Array:
    """The constants of motion of each rule, between neighbouring layers.

    σ_i² − σ_{i+1}² without blocks, damped or not (Eq. 7). With blocks and no damping,
    |σ_i|^(2 − 2 power) − |σ_{i+1}|^(2 − 2 power) (after Eq. 25), and for power 1, which conserves
    ratios, log|σ_i| − log|σ_{i+1}|.

    Args:
        sigma: strengths, shape (..., layers).
        power: 1/q, from 0 to 1.
        blocks: whether each layer is corrected separately.

    Returns:
        The conserved quantities, shape (..., layers − 1).
    """
    _check_static(power, 0.0, "paper")
    size = jnp.abs(sigma)
    if not blocks:
        return -jnp.diff(size**2, axis=-1)
    return -jnp.diff(jnp.where(power == 1, jnp.log(size), _root_of_square(size, power)), axis=-1)


def _correction(j, power, blocks, damping, form):
    strength = (j**2 if blocks else jnp.sum(j**2, axis=-1, keepdims=True)) + damping
    scale = float(j.shape[-1]) ** -power if blocks else 1.0
    if form == "paper":
        scale = scale * (1.0 + damping) ** power
    # Any finite number does where the strength is 0, since j is 0 there too.
    return scale * jnp.where(strength > 0, strength, 1) ** -power


def _root_of_square(size, power):
    # |σ|^(2 − 2 power): the constant of motion of blocks, except for power 1.
    return size ** (2 * (1 - power))


def _shifted(sigma):
    return jnp.concatenate([jnp.ones_like(sigma[..., :1]), sigma[..., :-1]], axis=-1)


def _check_static(power, damping, form):
    checks.one_of("form", form, FORMS)
    # Traced values have no number yet that could be checked.
    if not isinstance(damping, jax.core.Tracer):
        checks.non_negative("damping", damping)
    if not isinstance(power, jax.core.Tracer) and not 0 <= power <= 1:
        raise ValueError(f"power: got {power}; allowed is from 0 to 1, that is q of at least 1")
