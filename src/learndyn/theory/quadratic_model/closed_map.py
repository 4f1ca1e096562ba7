"""Gradient descent as a closed map of (residual, kernel).

Along each direction, with h = r + a, a constant a and the curvature c, a step at rate η on ½ r² is

    r' = (1 − η λ + η² c r h) r,        λ' = λ − 4 η c r h + η² c r² λ.

One example of a two-layer network (Eqs. 3.11-3.12): h = g, a = y, c = |x|²/(md). Examples on a
line (Eqs. B.7-B.12, with unit vectors and c_i = |p_i|²/(md), a_i = ⟨y, p̂_i⟩): the directions
decouple. General quadratic models with Σ² = s on what matters (B.13, corrected): c = γ² s,
a = y + φᵀΣφ/(2γs). In ρ = η√c r and H = 2√c h the step is a product,

    λ' ± H' = (1 ∓ ρ)² (λ ± H),

so that λ ≥ |H| stays true, and the flow η → 0 conserves λ² − H².
"""

from learndyn.runtime.types import Array, Scalar


def advance(r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar) -> tuple[Scalar, Scalar]:
    """The next residual and kernel (Eqs. 3.11, 3.12); arguments of any one shape."""
    h = r + a
    mu = 1 - eta * kernel + eta**2 * c * r * h
    return mu * r, kernel - 4 * eta * c * r * h + eta**2 * c * r**2 * kernel


def change(r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar) -> tuple[Scalar, Scalar]:
    """The change of both in one step, to first order in η: the gradient flow."""
    return -eta * kernel * r, -4 * eta * c * r * (r + a)


def conserved(r: Scalar, kernel: Scalar, c: Scalar, a: Scalar) -> Scalar:
    """λ² − 4 c h², which the flow conserves."""
    return kernel**2 - 4 * c * (r + a) ** 2


def reduced(
    r: Scalar, kernel: Scalar, c: Scalar, a: Scalar, eta: Scalar
) -> tuple[Scalar, Scalar, Scalar]:
    """(u, v, w) of Eqs. 3.13-3.14: η² c r², η λ and η² c r a."""
    return eta**2 * c * r**2, eta * kernel, eta**2 * c * r * a


def advance_reduced(u: Scalar, v: Scalar, w: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Eqs. 3.13-3.14, closed by w' = μ w: w is no function of u, as it has the sign of r a."""
    mu = 1 - v + u + w
    return mu**2 * u, v - u * (4 - v) - 4 * w, mu * w


def next_residual(r: Array, J: Array, G: Array, eta: Scalar) -> Array:
    """Eq. 3.15: the residuals of any quadratic model after a step; these equations do not close.

    Args:
        r: residuals (examples,).
        J: their Jacobian (examples, weights).
        G: rows Σ_j r_j ∇g_j H_i, with H_i the Hessian of output i: (examples, weights).
        eta: the rate on ½ Σ r².
    """
    return r - eta * J @ (J.T @ r) + eta**2 / 2 * G @ (J.T @ r)


def next_kernel(J: Array, G: Array, eta: Scalar) -> Array:
    """Eq. 3.16 in its correct form: K − η (G Jᵀ + J Gᵀ) + η² G Gᵀ."""
    cross = G @ J.T
    return J @ J.T - eta * (cross + cross.T) + eta**2 * G @ G.T
