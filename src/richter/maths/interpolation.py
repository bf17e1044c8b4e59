r"""Where gradient flow of the single neuron ends on low-rank data, for a null space of any dimension.

Only the part of w in the row space of X moves: $Nw=Nw_0$ with $N=I-X^+X$, and $m=\eta_wa^2-\eta_a\|w-Nw_0\|^2=
\delta+\eta_a\|Nw_0\|^2$ is conserved. At the end $w-Nw_0=\beta_{mn}/a$, which fixes a up to its sign.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.maths.preconditioner import kappa_and_halves
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(
    KUN24["Eq. 72"].misprint(
        printed="for a one-dimensional null space (Fig. 4: “only if the interpolating manifold is one-dimensional”)",
        right="β(∞) = β_mn + a(∞) N w₀ for a null space of any dimension; β* in Eq. 72 must be the minimum-norm "
        "solution",
        how="40 random problems against integration: 4e-12",
    ),
    KUN24["Eq. 70"],
    KUN24["Eq. 71"].misprint(
        printed="√(√(‖β*‖² + α²) + δ²/4) − δ/2 · α/√(‖β*‖² + α²) = −2z^Tv/3",
        right="√(√(‖β*‖² + α² + δ²/4) − δ/2) · α/√(‖β*‖² + α²) = −2z^Tv/3: both under the roots",
        how="integration: residual 1e-9, 0.1 and more as printed",
    ),
)
def final_output_weight(
    null_square: Floats, delta: Floats, solution_square: Floats, eta_a: Floats, eta_w: Floats
) -> Floats:
    r"""$|a(\infty)|=\sqrt{\frac{m+\sqrt{m^2+4\eta_a\eta_w\|\beta_{mn}\|^2}}{2\eta_w}}$, by the conjugate for m < 0.

    Args:
        null_square: $\|Nw_0\|^2$.
        delta: conserved imbalance.
        solution_square: $\|\beta_{mn}\|^2$ of the minimum-norm solution.
        eta_a: learning rate of a.
        eta_w: learning rate of w.
    """
    m = delta + eta_a * null_square
    _, plus, _ = kappa_and_halves(np.sqrt(solution_square), m, eta_a * eta_w)
    return np.sqrt(plus / (2 * eta_w))


@implements(
    KUN24["Theorem 3.1"].misprint(
        printed="β(∞) = argmin Ψ_δ(β) − ψ_δ β̂₀·β, for starts whose β never crosses 0",
        right="with ψ_δ replaced by sgn(a₀ a_∞) ψ_δ it holds for crossing trajectories too",
        how="13 crossing runs: KKT residual ≤ 7e-14 with the sign, none without",
    ),
    KUN24["Eq. 5"].misprint(
        printed="Ψ_δ(β) and ψ_δ without learning rates",
        right="β → √(η_aη_w) β in both; as printed for η_aη_w = 1 only",
        how="KKT residuals of integrated solutions with η_aη_w ≠ 1",
    ),
    KUN24["Eq. 43"].misprint(
        printed="the multiplier ν = ∫ρ",
        right="ν = −∫ρ",
        how="algebra",
    ),
)
def kkt_residual(
    null: Floats,
    beta: Floats,
    beta0: Floats,
    delta: Floats,
    same_sign: Floats,
    product: Floats,
    direction: Floats | None = None,
) -> Floats:
    r"""Size of $\nabla\Psi_\delta(\beta)-s\,\psi_\delta\hat\beta_0$ in the null space, relative to its terms.

    $\nabla\Psi_\delta(\beta)=\sqrt{\kappa-\delta}\,\hat\beta$, $\psi_\delta=\sqrt{\kappa_0-\delta}$ and
    $s=\mathrm{sgn}(a_0a_\infty)$; β in units in which both rates are 1. Zero certifies Theorem 3.1.

    Args:
        null: N (…, input, input).
        beta: β(∞) (…, input).
        beta0: β(0) (…, input).
        delta: conserved imbalance (…).
        same_sign: s (…).
        product: η_a η_w (…).
        direction: stands for β̂₀ where β₀ = 0 because a₀ = 0: w₀, and s is then the sign of a(∞).
    """
    size, start = np.linalg.norm(beta, axis=-1), np.linalg.norm(beta0, axis=-1)
    pull = np.sqrt(kappa_and_halves(size, delta, product)[2])
    keep = same_sign * np.sqrt(kappa_and_halves(start, delta, product)[2])
    unit = lambda v, n: v / np.where(n > 0, n, 1.0)[..., None]
    way = unit(beta0, start)
    if direction is not None:
        length = np.linalg.norm(direction, axis=-1)
        way = np.where((start > 0)[..., None], way, unit(direction, length))
        start = np.where(start > 0, start, length)
    gap = np.einsum("...ij,...j->...i", null, pull[..., None] * unit(beta, size) - keep[..., None] * way)
    scale = np.abs(pull) + np.abs(keep)
    made = np.linalg.norm(gap, axis=-1) / np.where(scale > 0, scale, 1.0)
    return np.where((size > 0) & (start > 0), made, np.nan)
