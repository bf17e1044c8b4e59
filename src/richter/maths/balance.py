"""Layers from a function and an imbalance."""

from __future__ import annotations

from richter.maths.arrays import Array, alike, norm, plus_and_minus
from richter.refs import KUN24, implements


@implements(KUN24["Eq. 37"], KUN24["Eq. 38"])
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
