"""Forms that zhu2024quadratic prints and that are wrong, so that a study can show it."""

from learndyn.numerics.types import Array, Scalar


def printed_eq316(J: Array, G: Array, eta: Scalar) -> Array:
    """K after a step as Eq. 3.16 prints it: not symmetric, and ¼ for 1."""
    return J @ J.T - eta * G @ J.T + eta**2 / 4 * G @ G.T


def printed_eqB9(
    r: Array, y: Array, p: Array, kernel: Scalar, width: Scalar, eta: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """(u, v, w) of one direction as App. B.12 defines them for Eqs. B.9-B.12.

    With p = x ⊙ m as B.11.1 has it, u is right, and w = ⟨r ⊙ m, y ⊙ m⟩ holds more than the
    direction's part of r and y. With the unit vector, u lacks |p|² as well.

    Args:
        r: residuals (examples,).
        y: targets (examples,).
        p: the direction (examples,), of whichever norm.
        kernel: λ of the direction.
        width: m.
        eta: the rate.
    """
    mask = p != 0
    return eta**2 / width * (r @ p) ** 2, eta * kernel, eta**2 / width * (r * mask) @ (y * mask)


def printed_eqB13(
    g: Scalar, kernel: Scalar, gamma: Scalar, squared_norm: Scalar, eta: Scalar
) -> tuple[Scalar, Scalar]:
    """g and λ after a step as App. B.13 prints it: γ for γ², and without η in the second."""
    after = (1 - eta * kernel + gamma * eta**2 * squared_norm * g**2) * g
    return after, kernel - gamma * squared_norm * g**2 * (4 - eta * kernel)


def printed_equilibrium(u: Scalar, w: Scalar) -> Scalar:
    """v* of the second equilibrium as App. B.6 prints it, 2 − u* + w*, where |μ| = 1.

    μ = −1 has v = 2 + u + w, and is no equilibrium: w changes its sign there.
    """
    return 2 - u + w
