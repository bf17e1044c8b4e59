r"""What the start leaves behind: the potentials that gradient flow minimises among interpolating solutions."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.preconditioner import kappa_and_halves
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(KUN24["Eq. 63"])
def radial_potential(size: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\Psi_\delta=\tfrac13(\kappa-2\delta)\sqrt{\kappa+\delta}$ at ‖β‖ = `size` (rates 1), less its value at 0.

    This is $\Phi_\delta$ (Eq. 67) without cancellation: with $e=4x^2/(\kappa+\delta)$ for δ ≥ 0,
    $\Phi=\frac e3\,\frac{\delta+e+\sqrt{2\delta(2\delta+e)}}{\sqrt{2\delta+e}+\sqrt{2\delta}}$.

    >>> float(radial_potential(1.0, 0.0).round(6)), float(radial_potential(0.0, -2.0))
    (0.942809, 0.0)
    """
    x, d = np.broadcast_arrays(np.asarray(size, dtype=float), np.asarray(delta, dtype=float))
    kappa, plus, _ = kappa_and_halves(x, d)
    up = d >= 0
    safe = np.where(plus > 0, plus, 1.0)
    e = np.where(up, 4 * x * x / safe, 0.0)
    high = np.where(up, d, 0.0)
    roots = np.sqrt(2 * high + e) + np.sqrt(2 * high)
    above = e / 3 * (high + e + np.sqrt(2 * high * (2 * high + e))) / np.where(roots > 0, roots, 1.0)
    depth = np.sqrt(kappa + np.abs(d))
    below = 2 * np.abs(x) * (kappa + 2 * np.abs(d)) / (3 * np.where(depth > 0, depth, 1.0))
    return np.where(up, above, below)


@implements(KUN24["Eq. 66"], KUN24["Eq. 67"], role="witness")
def radial_potential_printed(size: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\Phi_\delta=\tfrac13(\kappa-2\delta)\sqrt{\kappa+\delta}+c_\delta$; loses all digits for δ ≫ ‖β‖."""
    x, d = np.asarray(size, dtype=float), np.asarray(delta, dtype=float)
    kappa = np.sqrt(d * d + 4 * x * x)
    constant = np.maximum(0, np.sign(d) * np.sqrt(2) * np.abs(d) ** 1.5 / 3)
    return np.asarray((kappa - 2 * d) * np.sqrt(kappa + d) / 3 + constant)


@implements(KUN24["Eq. 61"], KUN24["Eq. 64"])
def radial_slope(size: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\Psi_\delta'(x)=2x/\sqrt{\kappa+\delta}=\sqrt{\kappa-\delta}$, which is √2 times ‖w‖."""
    _, _, minus = kappa_and_halves(size, delta)
    return np.sqrt(minus)


@implements(KUN24["Eq. 62"], KUN24["Eq. 65"])
def radial_curvature(size: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\Psi_\delta''(x)=\sqrt{\kappa+\delta}/\kappa$."""
    kappa, plus, _ = kappa_and_halves(size, delta)
    return np.sqrt(plus) / kappa


@implements(
    KUN24["Eq. 68"].misprint(
        printed="z = −3/2 √(√(‖β₀‖² + δ²/4) − δ/2 · β₀/‖β₀‖), the unit vector inside the root",
        right="z = −3/2 √(√(‖β₀‖² + δ²/4) − δ/2) β₀/‖β₀‖",
        how="algebra, and KKT residuals of integrated solutions",
    ),
    KUN24["Eq. 69"],
    KUN24["Theorem A.2"],
)
def azulay_potential(size: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$q_\delta(x)=\frac1x\big(x^2-\tfrac\delta2(\tfrac\delta2+r)\big)\sqrt{r-\tfrac\delta2}$ for δ ≥ 0.

    With $r=\sqrt{x^2+\delta^2/4}$; $\sqrt{r-\delta/2}/x$ as $1/\sqrt{r+\delta/2}$, which holds at x = 0 and for δ ≫ x.
    Theorem 2 of Azulay et al. in the paper's Appendix A.4.3; $\Phi_\delta=\tfrac{2\sqrt2}3q_\delta+c_\delta$ (Eq. 69).

    >>> float(azulay_potential(0.0, 2.0).round(6)), float(azulay_potential(1.0, 0.0).round(6))
    (-1.414214, 1.0)
    """
    x, d = np.asarray(size, dtype=float), np.asarray(delta, dtype=float)
    _, plus, _ = kappa_and_halves(x, d)  # 2r + δ
    return np.asarray((x * x - d * plus / 4) / np.sqrt(np.where(plus > 0, plus, 1.0) / 2))


@implements(
    KUN24["Theorem B.6"].misprint(
        printed="q_δ(x) = ¼(2x sinh⁻¹(2kx/|δ|) − √(4k²x² + δ²) + |δ|), k = √(η_aη_w)",
        right="q_δ(x) = (1/4k²)(2kx sinh⁻¹(2kx/|δ|) − √(4k²x² + δ²) + |δ|), so that q'' = 1/√(4k²x² + δ²)",
        how="finite differences; Eq. 114 is too large by k², both need |δ|",
    ),
    KUN24["Eq. 114"].misprint(
        printed="q_δ(x) = ¼(2kx sinh⁻¹(2kx/δ) − √(4k²x² + δ²) + δ), next to q'' = 1/√(4k²x² + δ²) in Eq. 115",
        right="1/k² of that, with |δ| for δ: k² q'' is what the print has, and δ < 0 would make it concave",
        how="finite differences",
    ),
)
def hyperbolic_entropy(x: ArrayLike, delta: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""$q_\delta(x)$ of aligned networks: between ℓ¹ (δ → 0) and ℓ² (|δ| → ∞) on the singular values; δ ≠ 0.

    $\sqrt{4k^2x^2+\delta^2}-|\delta|$ by its conjugate.

    >>> float(hyperbolic_entropy(0.0, 1.0))
    0.0
    """
    k = np.sqrt(eta_a * eta_w)
    z, d = 2 * k * np.asarray(x, dtype=float), np.abs(np.asarray(delta, dtype=float))
    return np.asarray((z * np.arcsinh(z / d) - z * z / (np.hypot(z, d) + d)) / (4 * k * k))


@implements(
    KUN24["Theorem B.9"],
    KUN24["Eq. 119"],
    KUN24["Sec. 4"].misprint(
        printed="deep networks: Q(β) = (l+1)/(l+2)‖β‖^{(l+2)/(l+1)} − ‖β₀‖^{−(l+2)/(l+1)} β₀·β",
        right="exponent −l/(l+1) of ‖β₀‖, as in the appendix",
        how="KKT residual of integrated solutions: 1e-15 against 0.2–0.4 as printed",
    ),
)
def deep_potential(beta: ArrayLike, beta0: ArrayLike, hidden_layers: int) -> Floats:
    r"""$Q(\beta)=\frac{l+1}{l+2}\|\beta\|^{\frac{l+2}{l+1}}-\|\beta_0\|^{-\frac l{l+1}}\beta_0^T\beta$.

    With l + 1 layers of weights:
    what rich (balanced, small) deep linear networks minimise among interpolating solutions.
    """
    b, b0, l = np.asarray(beta, dtype=float), np.asarray(beta0, dtype=float), hidden_layers
    size, start = np.linalg.norm(b, axis=-1), np.linalg.norm(b0, axis=-1)
    return (l + 1) / (l + 2) * size ** ((l + 2) / (l + 1)) - start ** (-l / (l + 1)) * (b0 * b).sum(axis=-1)
