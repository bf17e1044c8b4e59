"""Layers from a function and an imbalance."""

from __future__ import annotations

from dataclasses import replace

from richter.maths.arrays import Array, alike, norm, plus_and_minus
from richter.maths.growth import growth_rates
from richter.maths.pair import LayerPair, layer_pair
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


def imbalanced_pair(output: Array, delta: Array, target: Array, clock: Array = 1.0) -> LayerPair:
    r"""One neuron $u>0$, $v$ with $uv$ = `output` and $u^2-v^2=\delta$, rates 1.

    $(u+|v|)^2=\kappa+2|uv|$ and $u-|v|=\delta/(u+|v|)$ give P and Q without the difference of the layers: at δ = 0 a
    start of the wrong sign lies exactly on the saddle's axis.

    >>> pair = imbalanced_pair(-0.3, 0.0, 1.0)
    >>> float(pair.rates.p), float(pair.rates.q)
    (0.0, 0.3)
    """
    xp, (output, delta, target, clock) = alike(output, delta, target, clock)
    u, v = split_by_imbalance(output[None, ...], delta)
    size = xp.abs(output)
    large = xp.hypot(delta, 2 * size) + 2 * size
    more = large / 4
    less = delta / xp.where(large > 0, large, 1.0) * delta / 4
    up = output >= 0
    rates = growth_rates(xp.where(up, more, less), xp.where(up, less, more), target, output)
    return replace(layer_pair(u[None, ...], v, target, 1.0, clock), rates=rates, meeting=output)
