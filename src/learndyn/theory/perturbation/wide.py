"""Wide hidden layers: two variables, a conserved quantity and the training time (Eqs. 69-85).

With η = η_o L_h^(−ρ) and α = a L_h^κ (Eq. 72), the error falls at a rate independent of L_h for
ρ = κ = 1/3, the smallest ρ with 2ρ + κ ≥ 1 and ρ ≥ κ. β then changes by L_h^(−1/3) only, and no
other variable depends on φ. With c_o = η_o L_x L_y (1 + β) (Eq. 76), time η_o · steps and no noise,

    da/dt = c_o ε,    dε/dt = −(2 − c_o a) a ε,    ε + a²/c_o − a³/3 = ε_tot           (77, 78)

so that a grows until the error vanishes, unless a reaches 2/c_o first: then the error grows again.
The limit is reached slowly. At 100-L_h-10 the fastest training takes 15 000 steps at L_h = 10³ and
28 600 at 10⁶, where these equations give 28 000 and 29 000. Equation numbers are those of
hiratani2022perturbation.
"""

import numpy as np
import scipy

from learndyn.runtime.types import Array, Scalar
from learndyn.theory.perturbation.setting import PerturbationSetting
from learndyn.theory.perturbation.state import Traces

RHO = 1 / 3  # η falls as L_h^(−ρ) ...
KAPPA = 1 / 3  # ... and α grows as L_h^κ
FASTEST = (0.3, 0.99)  # in units of c_o*: the training time has its minimum in between


def xavier(of: PerturbationSetting, scale: Scalar, target: Scalar) -> Traces:
    """The exact means of the traces of Xavier-Glorot weights (Eqs. 69-71).

    Args:
        of: the sizes.
        scale: common factor of both layers.
        target: ‖A‖² / (L_x L_y); 2/(L_x + L_y) in the paper.

    Returns:
        α, β, ε and φ, with the mean of α₂.
    """
    alpha = 2 * scale**2 * of.L_h / (of.L_x + of.L_h)
    beta = 2 * scale**2 * of.L_h / (of.L_h + of.L_y)
    psi = alpha * beta / of.L_h
    return Traces(alpha, beta, psi + target, -psi, mean_alpha2(of, alpha), target)


def mean_alpha2(of: PerturbationSetting, alpha: Scalar) -> Scalar:
    """The mean of α₂ for normal weights with this α: α² (1 + (L_x + 1)/L_h)."""
    return alpha**2 * (1 + (of.L_x + 1) / of.L_h)


def change(of: PerturbationSetting, now: Traces) -> Traces:
    """The change per step, with α = a L_h^(1/3) (Eqs. 73d, 74; 84 as a flow)."""
    w = of.L_y * (1 + now.beta) * (of.L_x * now.epsilon + of.sigma_t2)
    noise = of.eta**2 * now.alpha**2 * w
    still = {"alpha2": _zero(now.alpha2), "target": _zero(now.target)}
    return Traces(
        alpha=of.eta**2 * of.L_h * w,
        beta=0 * now.beta,
        epsilon=-2 * of.eta * now.alpha * now.epsilon + noise,
        phi=of.eta * now.alpha * (now.epsilon - now.phi) - noise,
        **still,
    )


def change_sgd(of: PerturbationSetting, now: Traces) -> Traces:
    """The change per step of SGD with constant α and β (Eq. 95, with label noise)."""
    s = now.alpha + now.beta
    noise = of.eta**2 * s**2 * (of.L_x * now.epsilon + of.sigma_t2)
    return Traces(
        alpha=0 * now.alpha,
        beta=0 * now.beta,
        epsilon=-2 * of.eta * s * now.epsilon + noise,
        phi=of.eta * s * (now.epsilon - now.phi) - noise,
        alpha2=_zero(now.alpha2),
        target=_zero(now.target),
    )


def reduced(of: PerturbationSetting, now: Traces) -> tuple[Array, Array, Array]:
    """a = α L_h^(−1/3), ε and c_o = η L_h^(1/3) L_x L_y (1 + β) (Eqs. 72, 76)."""
    c_o = of.eta * of.L_h**RHO * of.L_x * of.L_y * (1 + now.beta)
    return now.alpha * of.L_h**-KAPPA, now.epsilon, c_o


def learning_rate(of: PerturbationSetting, beta: Scalar, c_o: Scalar) -> Scalar:
    """η = c_o L_h^(−1/3) / (L_x L_y (1 + β)) (Eqs. 76, 83)."""
    return c_o * of.L_h**-RHO / (of.L_x * of.L_y * (1 + beta))


def conserved(a: Scalar, epsilon: Scalar, c_o: Scalar) -> Scalar:
    """ε_tot = ε + a²/c_o − a³/3 (Eq. 78), without label noise."""
    return epsilon + a**2 / c_o - a**3 / 3


def nullcline(a: Scalar, c_o: Scalar, L_x: Scalar, sigma_t2: Scalar) -> Scalar:
    """The ε at which the error stands still, c_o a σ_t² / (L_x (2 − c_o a)) (Eq. 85), a < 2/c_o."""
    return c_o * a * sigma_t2 / (L_x * (2 - c_o * a))


def final_norm(c_o: Scalar, a: Scalar, epsilon: Scalar, target: Scalar) -> float:
    """The a at which the error has fallen to `target` (Eq. 81); NaN if it never does."""
    total = conserved(a, epsilon, c_o) - target
    roots = np.roots([-1 / 3, 1 / c_o, 0.0, -total])
    # Rounding leaves small imaginary parts. a only grows, and the error falls while a < 2/c_o.
    real = roots.real[np.abs(roots.imag) <= 1e-9 * np.abs(roots)]
    reached = real[(real >= a) & (real < 2 / c_o)]
    return float(reached.min()) if reached.size else np.nan


def elapsed(c_o: Scalar, a: Scalar, epsilon: Scalar, target: Scalar) -> float:
    """η_o times the steps until ε = `target` at this c_o (Eq. 80); infinite above c_o*.

    It is the time at this rate, not the shortest one. The integrand is written in u = a_tg − a,
    which avoids subtracting nearly equal numbers. It is integrated over log(1 + u/δ), with δ the u
    at which ε is about twice the target, since it is sharply peaked at u = 0.
    """
    end = final_norm(c_o, a, epsilon, target)
    if np.isnan(end):
        return np.inf
    slope = end * (2 / c_o - end)
    delta = target / slope

    def integrand(v: Scalar) -> float:
        u = delta * np.expm1(v)
        error = target + u * (slope + u * (end - 1 / c_o) - u**2 / 3)
        return delta * np.exp(v) / (c_o * error)

    return scipy.integrate.quad(
        integrand, 0.0, np.log1p((end - a) / delta), epsrel=1e-11, limit=200
    )[0]


def training_time(of: PerturbationSetting, start: Traces, target: Scalar, c_o: Scalar) -> float:
    """Steps until the error is `target`, at the learning rate of this c_o (Eq. 80)."""
    a, epsilon, _ = map(float, reduced(of, start))
    rate = of.L_x * of.L_y * (1 + start.beta) / c_o  # 1/η_o
    return float(rate) * elapsed(c_o, a, epsilon, target)


def critical(a: Scalar, epsilon: Scalar, target: Scalar) -> float:
    """c_o*, the smallest positive root of (ε − ε_tg − a³/3) c³ + a² c² = 4/3 (Eq. 82)."""
    roots = np.roots([epsilon - target - a**3 / 3, a**2, 0.0, -4 / 3])
    real = roots.real[np.abs(roots.imag) <= 1e-9 * np.abs(roots)]
    return float(real[real > 0].min())


def fastest(of: PerturbationSetting, start: Traces, target: Scalar) -> tuple[float, float]:
    """The c_o at which the time of Eq. 80 is shortest, and that number of steps.

    It is about 0.8 c_o*; at c_o* itself the time is some 15 times longer.

    Args:
        of: the sizes.
        start: where training begins.
        target: the error to reach.

    Returns:
        c_o, and the steps.
    """
    a, epsilon, _ = map(float, reduced(of, start))
    edge = critical(a, epsilon, target)
    time = lambda part: training_time(of, start, target, part * edge)
    minimum = scipy.optimize.minimize_scalar(
        time, bounds=FASTEST, method="bounded", options={"xatol": 1e-10}
    )
    return float(minimum.x) * edge, float(minimum.fun)


def _zero(value: Array | None) -> Array | None:
    return None if value is None else 0 * value
