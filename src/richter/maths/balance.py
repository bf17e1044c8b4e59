"""Layers from a function and an imbalance."""

from __future__ import annotations

from richter.maths.arrays import Array, alike, norm, plus_and_minus
from richter.refs import KUN24, implements


def split_by_imbalance(beta: Array, delta: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> tuple[Array, Array]:
    r"""(a, w) with a w = β, $\eta_wa^2-\eta_a\|w\|^2=\delta$ and a > 0; β's component axis first.

    $\eta_wa^2=\tfrac12(\kappa+\delta)$ with $\kappa=\sqrt{\delta^2+4\eta_a\eta_w\|\beta\|^2}$, by the conjugate.

    >>> import numpy as np
    >>> a, w = split_by_imbalance(np.array([3.0, 4.0]), 0.0)
    >>> round(float(a**2), 12), w.round(4).tolist()
    (5.0, [1.3416, 1.7889])
    """
    xp, (beta, delta, eta_a, eta_w) = alike(beta, delta, eta_a, eta_w)
    size = norm(xp, beta)
    square = eta_a * eta_w * size * size
    half = delta / 2
    larger, smaller = plus_and_minus(xp, xp.hypot(half, xp.sqrt(square)), half, square)
    a = xp.sqrt(larger / eta_w)
    length = xp.sqrt(smaller / eta_a)
    return a, beta / xp.where(size > 0, size, 1.0) * length


@implements(
    KUN24["App. D.1"].misprint(
        printed="δ² = τ²(α² − α⁻²)",
        right="δ = τ²(α² − α⁻²)",
        how="with ‖w‖ = τ/α and |a| = τα each neuron has exactly the imbalance δ, as the caption of Fig. 1 says",
    )
)
def relative_layer_scale(scale: Array, delta: Array) -> Array:
    r"""α with $\delta=\tau^2(\alpha^2-\alpha^{-2})$: the neuron |a| = τα, ‖w‖ = τ/α has scale τ² and imbalance δ.

    $\alpha=\exp(\tfrac12\,\mathrm{asinh}\frac{\delta}{2\tau^2})$, from $\alpha^2-\alpha^{-2}=2\sinh(2\ln\alpha)$.

    >>> round(float(relative_layer_scale(0.5, 0.375)), 12)  # α² − 1/α² = 3/2
    1.414213562373
    """
    xp, (scale, delta) = alike(scale, delta)
    return xp.exp(xp.asinh(delta / (2 * scale * scale)) / 2)
