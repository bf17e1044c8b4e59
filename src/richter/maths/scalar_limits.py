r"""Limits of the scalar network: greedy, target-downscaled and NTK; the bound of γ₊; its two-mode flow."""

from __future__ import annotations

from richter.maths.arrays import Array, alike
from richter.refs import NAM24, implements


@implements(NAM24["Sec. 6.3.1"].misprint(
    printed="γ₊ ≥ 2𝒮/2Σ₀ = 𝒮/Σ₀ with the calligraphic 𝒮 (the start's output)",
    right="γ₊ ≥ S/Σ₀ with the target S, for S ≥ 0",
    how="numerically over random starts",
))  # fmt: skip
def growth_bound(
    a0: Array, b0: Array, target: Array, normalisation: Array = 1.0, eta_a: Array = 1.0, eta_b: Array = 1.0
) -> Array:
    r"""$\gamma_+\ge S/\Sigma_0$, $\Sigma_0=\frac1Z\sum\tfrac12(a^2+b^2)$, for $S\ge0$; neurons first.

    With layer rates $S\sqrt{\eta_a\eta_b}$ and $\tfrac12(\eta_ba^2+\eta_ab^2)$ take their places.
    """
    xp, (a0, b0, target, Z, eta_a, eta_b) = alike(a0, b0, target, normalisation, eta_a, eta_b)
    weight = xp.sum(eta_b * a0 * a0 + eta_a * b0 * b0, axis=0) / (2 * Z)
    positive = weight > 0
    ratio = xp.sqrt(eta_a * eta_b) * target / xp.where(positive, weight, 1.0)
    return xp.where(positive, ratio, xp.inf)


@implements(NAM24["Sec. 6.2.2"], NAM24["Sec. 6.2.3"])
def linear_limit(t: Array, output0: Array, sigma0: Array, target: Array, normalisation: Array = 1.0) -> Array:
    r"""The lazy limit: $\theta=S+(\theta_0-S)e^{-2\Sigma_0t/Z}$, the kernel of the start for ever.

    Reached by target downscaling (S → 0 at θ₀ = 0) and by NTK initialisation (Z = √p, p → ∞).
    """
    xp, (t, output0, sigma0, target, Z) = alike(t, output0, sigma0, target, normalisation)
    decay = xp.exp(-2 * sigma0 * t / Z)
    return target + (output0 - target) * decay


@implements(NAM24["Sec. 6.2.1"])
def greedy_limit(t: Array, aligned0: Array, target: Array, normalisation: Array = 1.0) -> Array:
    r"""The greedy limit: the aligned mode alone, $\theta=S/(1+(S/\theta_p-1)e^{-2St/Z})$ with
    $\theta_p=\frac1{4Z}\sum(a+b)^2$ at the start; reached for starts ≪ S at Z = 1.
    """  # noqa: D205
    xp, (t, aligned0, target, Z) = alike(t, aligned0, target, normalisation)
    decay = xp.exp(-2 * target * t / Z)
    return aligned0 * target / (aligned0 * -xp.expm1(-2 * target * t / Z) + target * decay)


@implements(NAM24["Eq. 6.1"])
def scalar_output(a: Array, b: Array, normalisation: Array = 1.0) -> Array:
    r"""$\theta=\frac1Z\sum_ia_ib_i$, the slope of f(x) = θx; neurons first.

    >>> import numpy as np
    >>> float(scalar_output(np.array([1.0, 2.0]), np.array([3.0, 1.0]), 2.0))
    2.5
    """
    return (a * b).sum(axis=0) / normalisation


@implements(NAM24["Eq. 6.2"], NAM24["Eq. 6.3"], NAM24["Eq. 6.4"])
def mode_flow(theta: Array, gap: Array, target: Array, normalisation: Array = 1.0) -> tuple[Array, Array]:
    r"""$\dot\theta=-\frac{2\Delta\theta}Z(\theta-S)$, $\dot{\Delta\theta}=-\frac{2\theta}Z(\theta-S)$ for |a| = |b|.

    θ and Δθ: sum and difference of the aligned and the anti-aligned neurons' contributions.
    """
    pull = -2 * (theta - target) / normalisation
    return gap * pull, theta * pull


@implements(NAM24["Eq. 6.8"])
def aligned_factor(theta: Array, gap: Array, theta0: Array, gap0: Array) -> Array:
    r"""$a_j^2(t)/a_j^2(0)=\frac{\theta+\Delta\theta}{\theta_0+\Delta\theta_0}$ for neurons with $a_jb_jS>0$."""
    return (theta + gap) / (theta0 + gap0)


@implements(NAM24["Eq. 6.9"])
def anti_aligned_factor(theta: Array, gap: Array, theta0: Array, gap0: Array) -> Array:
    r"""$a_k^2(t)/a_k^2(0)=\frac{\theta_0+\Delta\theta_0}{\theta+\Delta\theta}$ for neurons with $a_kb_kS<0$.

    Equal to $\frac{\Delta\theta-\theta}{\Delta\theta_0-\theta_0}$, since $\Delta\theta^2-\theta^2$ is conserved.
    """
    return (theta0 + gap0) / (theta + gap)


@implements(
    NAM24["Eq. 6.5"],
    NAM24["Eq. 6.6"].misprint(
        printed="a_j/√Σa² − a_j/√Σa²",
        right="(θ − S)/Z times that: both terms carry the common factor of da_j/dt",
        how="finite differences of each term along the exact solution",
    ),
    NAM24["Eq. 6.7"],
)
def direction_terms(a: Array, theta: Array, target: Array, normalisation: Array = 1.0) -> tuple[Array, Array]:
    r"""What the length and what the weights add to $\frac d{dt}\frac{a_j}{\sqrt{\sum a^2}}$ for aligned neurons.

    $\pm\frac{\theta-S}Z\frac{a_j}{\sqrt{\sum a^2}}$, sum 0: aligned neurons keep their direction. Neurons first.
    """
    xp, (a, theta, target, Z) = alike(a, theta, target, normalisation)
    pull = (theta - target) / Z * a / xp.sqrt(xp.sum(a * a, axis=0))
    return pull, -pull
