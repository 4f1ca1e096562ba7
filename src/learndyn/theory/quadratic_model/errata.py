"""Formulas as printed in zhu2024quadratic that are wrong, for studies that show this."""

from learndyn.runtime.types import Array, Scalar


def printed_eq316(J: Array, G: Array, eta: Scalar) -> Array:
    """K after a step as Eq. 3.16 prints it: not symmetric, and with ¼ instead of 1."""
    return J @ J.T - eta * G @ J.T + eta**2 / 4 * G @ G.T


def printed_eqB9(
    r: Array, y: Array, p: Array, kernel: Scalar, width: Scalar, eta: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """(u, v, w) of one direction as App. B.12 defines them for Eqs. B.9-B.12.

    With p = x ⊙ m as in B.11.1, u is right, but w = ⟨r ⊙ m, y ⊙ m⟩ contains more than the
    components of r and y along the direction. With the unit vector, u also lacks |p|².

    Args:
        r: residuals (examples,).
        y: targets (examples,).
        p: the direction (examples,), of any norm.
        kernel: λ of the direction.
        width: m.
        eta: the rate.
    """
    mask = p != 0
    return eta**2 / width * (r @ p) ** 2, eta * kernel, eta**2 / width * (r * mask) @ (y * mask)


def printed_eqB13(
    g: Scalar, kernel: Scalar, gamma: Scalar, squared_norm: Scalar, eta: Scalar
) -> tuple[Scalar, Scalar]:
    """g and λ after a step as App. B.13 prints them: γ instead of γ², and no η in the second."""
    after = (1 - eta * kernel + gamma * eta**2 * squared_norm * g**2) * g
    return after, kernel - gamma * squared_norm * g**2 * (4 - eta * kernel)


def printed_equilibrium(u: Scalar, w: Scalar) -> Scalar:
    """v* of the second equilibrium as App. B.6 prints it, 2 − u* + w*, where |μ| = 1.

    In fact μ = −1 gives v = 2 + u + w, and is not an equilibrium: w changes its sign there.
    """
    return 2 - u + w
