r"""Modes that learn alone: sigmoids of the diagonal network, exponentials of the linear model."""

from __future__ import annotations

from richter.maths.arrays import Array, alike
from richter.refs import KUN24, NAM24, implements


@implements(NAM24["Eq. 3.6"], NAM24["Eq. A.13"], NAM24["Eq. A.14"], NAM24["Eq. A.15"], NAM24["Eq. A.16"])
def diagonal_flow(a: Array, b: Array, target: Array, variance: Array = 1.0) -> tuple[Array, Array]:
    r"""$\dot a_i=-b_i\mathbf E[x_i^2](a_ib_i-S_i)$, $\dot b_i=-a_i\mathbf E[x_i^2](a_ib_i-S_i)$."""
    force = variance * (a * b - target)
    return -b * force, -a * force


@implements(NAM24["Eq. A.17"], NAM24["Eq. A.18"], NAM24["Eq. A.19"])
def product_flow(a: Array, b: Array, target: Array, variance: Array = 1.0) -> Array:
    r"""$\frac{d(ab)}{dt}=-\mathbf E[x^2](a^2+b^2)(ab-S)$; for a = b it is $-2\mathbf E[x^2]\,ab\,(ab-S)$."""
    return -variance * (a * a + b * b) * (a * b - target)


@implements(NAM24["Eq. 3.9"], NAM24["Eq. A.20"])
def logistic_mode(t: Array, start: Array, target: Array, variance: Array = 1.0) -> Array:
    r"""$ab/S=[1+(\frac S{a_0b_0}-1)e^{-2S\mathbf E[x^2]t}]^{-1}$ for a = b and 0 < a₀b₀ (not for a = −b).

    >>> import numpy as np
    >>> logistic_mode(np.array([0.0, 1e9]), 0.01, 2.0).tolist()
    [0.005, 1.0]
    """
    xp, (t, start, target, variance) = alike(t, start, target, variance)
    return 1 / (1 + (target / start - 1) * xp.exp(-2 * target * variance * t))


@implements(NAM24["Eq. 3.10"], NAM24["Eq. 3.7"])
def linear_mode(t: Array, variance: Array = 1.0) -> Array:
    r"""The linear model's mode from 0: $\theta/S=1-e^{-\mathbf E[x^2]t}$."""
    xp, (t, variance) = alike(t, variance)
    return -xp.expm1(-variance * t)


@implements(NAM24["Eq. 3.12"])
def stage_times(epsilon: Array, start: Array, target: Array, variance: Array = 1.0) -> tuple[Array, Array]:
    r"""Emergence time $\tau^{(e)}$ (to εS) and saturation time $\tau^{(s)}$ (from εS to (1−ε)S), for a = b.

    >>> import numpy as np
    >>> emergence, saturation = stage_times(0.05, 1e-3, 1.0)
    >>> float(emergence.round(4)), float(saturation.round(4))
    (1.9812, 2.9444)
    """
    xp, (epsilon, start, target, variance) = alike(epsilon, start, target, variance)
    odds = xp.log1p(-epsilon) - xp.log(epsilon)
    rate = variance * target
    return (xp.log(target / start - 1) - odds) / (2 * rate), odds / rate


@implements(
    NAM24["Eq. 3.13"].misprint(
        printed="ε = 1/(1 + (S/a₀b₀ − 1)·(E[x²ᵢ₊₁] − E[x²ᵢ])/(E[x²ᵢ₊₁] + E[x²ᵢ]))",
        right="ε = 1/(1 + (S/a₀b₀ − 1)^r), r = (E[x²ᵢ] − E[x²ᵢ₊₁])/(E[x²ᵢ] + E[x²ᵢ₊₁]): an exponent, and the "
        "other sign; the print gives ε < 0",
        how="solves τˢᵢ = τᵉᵢ₊₁ − τᵉᵢ to 4e-16",
    ),
    NAM24["Eq. 3.14"],
)
def stage_overlap(start: Array, target: Array, variance: Array, next_variance: Array) -> Array:
    r"""The ε at which mode i has just saturated when mode i + 1 emerges; stage-like when ε ≪ 1.

    >>> float(stage_overlap(1e-6, 1.0, 1.0, 0.25).round(6))
    0.000251
    """
    xp, (start, target, variance, next_variance) = alike(start, target, variance, next_variance)
    ratio = (variance - next_variance) / (variance + next_variance)
    return 1 / (1 + (target / start - 1) ** ratio)


@implements(
    KUN24["Eq. 104"],
    KUN24["App. B.6"].misprint(
        printed="β = UΛV^T, constraint XUΛV^T = Y, X^Tβ(∞) = Y",
        right="β = VΛU^T, XVΛU^T = Y, Xβ(∞) = Y",
        how="DOP853",
    ),
    KUN24["Eq. 105"],
    KUN24["Eq. 106"].misprint(
        printed="(Λ − S) in Eqs 106–110, for any X^TX = VDV^T (Assumption B.5)",
        right="(DΛ − S); as printed for whitened inputs, D = I",
        how="the flow of both layers, numerically",
    ),
    KUN24["Eq. 107"],
    KUN24["Eq. 108"],
    KUN24["Eq. 109"],
    KUN24["Assumption B.4"],
    KUN24["Assumption B.5"],
)
def aligned_flow(u: Array, delta: Array, spectrum: Array = 1.0, eta_a: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""The speed K of an aligned mode of two layers, $\dot u=-K(u-s)$: $K=D\sqrt{4\eta_a\eta_wu^2+\delta^2}$.

    >>> import numpy as np
    >>> float(aligned_flow(np.array(2.0), 3.0))
    5.0
    """
    xp, (u, delta, spectrum, eta_a, eta_w) = alike(u, delta, spectrum, eta_a, eta_w)
    return spectrum * xp.sqrt(4 * eta_a * eta_w * u * u + delta * delta)


@implements(
    NAM24["Eq. 3.15"].misprint(
        printed="α_i := u_i^T W₁W₂ v_i, next to α_i² in the formula; E[xf*ᵀ] = UPV",
        right="α_i² := u_i^T W₁W₂ v_i; E[xf*ᵀ] = UᵀPV with singular vectors as rows, as in Eq. A.30",
        how="algebra",
    ),
    NAM24["Eq. A.39"],
    role="witness",
)
def greedy_mode(t: Array, start: Array, strength: Array) -> Array:
    r"""$\alpha_i^2/\rho_i=[1+(\rho_i/\alpha_i^2(0)-1)e^{-2\rho_it}]^{-1}$: balanced, two layers, whitened."""
    return logistic_mode(t, start, strength)
