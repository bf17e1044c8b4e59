r"""Sums over very many skills, to rounding, from few terms.

A block of m successive integers is summed by the Gauss rule of m equally spaced points (exact for polynomials of
degree 15), so a smooth summand needs 8 evaluations per block, whatever m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
ORDER = 8  # evaluations per block
SMOOTH = 1 / 8  # relative width of a block in which powers of k are polynomials of degree 15 to rounding
CHUNK = 1 << 17  # numbers worked on at once
LONGEST = 800.0  # exponent beyond which a summand underflows, whatever the start ≥ 1e-30
STEPS = (0.0, 30.0, 60.0, 120.0, 240.0, 480.0, LONGEST)  # of the rarest skill's exponent: other nodes for each


@lru_cache(maxsize=64)
def summation_nodes(first: int, last: int, width: float = SMOOTH) -> tuple[Floats, Floats]:
    r"""Nodes κ and weights ω with $\sum_{k=first}^{last}h(k)=\sum\omega\,h(\kappa)$ for smooth h.

    Single integers as long as blocks of relative width `width` would be short, then blocks.

    >>> k, w = summation_nodes(1, 10**9)
    >>> len(k) < 2000, bool(abs((w * k).sum() / (10**9 * (10**9 + 1) / 2) - 1) < 1e-14)
    (True, True)
    """
    start = max(first, math.ceil(4 * ORDER / width))
    if last - start < 4 * ORDER:
        single = np.arange(first, last + 1, dtype=float)
        return _frozen(single, np.ones_like(single))
    single = np.arange(first, start, dtype=float)
    count = math.ceil(math.log((last + 1) / start) / math.log1p(width))
    edges = np.floor(start * ((last + 1) / start) ** (np.arange(count + 1) / count) + 0.5)
    edges[-1] = last + 1
    m = np.diff(edges)
    place, share = _block_rule(m)
    nodes = (edges[:-1] + (m - 1) / 2)[:, None] + m[:, None] * place
    return _frozen(np.concatenate([single, nodes.ravel()]), np.concatenate([np.ones_like(single), share.ravel()]))


def power_sum(exponent: ArrayLike, first: float, last: float = np.inf) -> Floats:
    r"""$\sum_{k=first}^{last}k^{-s}$; the Hurwitz zeta function for last = ∞. 0 for an empty range.

    >>> float(power_sum(2.0, 1).round(6)), float(power_sum(2.0, 1, 2)), float(power_sum(2.0, 3, 2))
    (1.644934, 1.25, 0.0)
    """
    s = np.asarray(exponent, dtype=float)
    if math.isinf(first) or last < first:
        return np.zeros(s.shape)
    if math.isinf(last):
        from scipy.special import zeta

        return np.asarray(zeta(s, float(first)))
    k, w = summation_nodes(int(first), int(last))
    return np.asarray((w * k ** -s[..., None]).sum(axis=-1))


def frequency_sum(
    value: Callable[[Floats, NDArray[np.intp]], Floats], speed: Floats, exponent: Floats, last: float, reach: float
) -> Floats:
    r"""$\sum_{k=1}^{last}k^{-s}v(x_k)$ with $x_k=ck^{-s}$, for many cases (c, s) at once; last may be ∞.

    Args:
        value: v(x, cases) for x (node, case); it falls like $e^{-x}$ or faster, and is smooth.
        speed: c of each case, (case,).
        exponent: s of each case, (case,).
        last: the last skill.
        reach: by how much x must exceed the rarest skill's, or 0, for v to be negligible.
    """
    total = np.zeros(speed.shape)
    with np.errstate(all="ignore"):
        slowest = speed * last**-exponent
        for low, high in zip(STEPS[:-1], STEPS[1:], strict=True):
            these = np.flatnonzero((slowest >= low) & (slowest < high))
            if not these.size:
                continue
            c, s = speed[these], exponent[these]
            k, weight, end = _nodes_for(float(c.max()), float(s.min()), float(s.max()), last, low, high + reach)
            same = s.min() == s.max()
            rows = max(1, CHUNK // these.size)
            for at in range(0, k.size, rows):
                part, w = k[at : at + rows, None], weight[at : at + rows, None]
                rare = part ** -(s[:1] if same else s)  # powers are the dearest step
                total[these] += (w * rare * value(c * rare, these)).sum(axis=0)
            if math.isinf(last):
                total[these] += value(np.zeros((1, these.size)), these)[0] * power_sum(s, end + 1)
    return total


def _nodes_for(
    fastest: float, least: float, most: float, last: float, low: float, far: float
) -> tuple[Floats, Floats, float]:
    """Fine blocks as far as x > 1 for some case, wide ones beyond; none where x exceeds the rarest's by too much.

    Nodes, weights, and the last integer they stand for.
    """
    first = 1 if low == 0 else max(1, math.floor(last * (low / far) ** (1 / least)))
    knee = min(1e300, (fastest + 1.0) ** (1 / least))
    if math.isinf(last):  # the skills beyond have x < 1e-17: they are untouched
        last = math.ceil(min(1e300, max(1e6, 10.0 ** (17 / least) * knee)))
    edge = math.ceil(min(last, max(first, knee)))
    fine = summation_nodes(first, edge, min(SMOOTH, 1 / (most * far)))
    if edge >= last:
        return *fine, last
    wide = summation_nodes(edge + 1, int(last), SMOOTH)
    return np.concatenate([fine[0], wide[0]]), np.concatenate([fine[1], wide[1]]), last


def _block_rule(m: Floats) -> tuple[Floats, Floats]:
    """Places (from the middle, in units of m) and weights (sum m) of the Gauss rule of m equal points."""
    j = np.arange(1.0, ORDER)
    square = j**2 * (1 - (j / m[:, None]) ** 2) / (4 * (4 * j**2 - 1))  # discrete Chebyshev recurrence
    matrix = np.zeros((len(m), ORDER, ORDER))
    at = np.arange(ORDER - 1)
    matrix[:, at, at + 1] = matrix[:, at + 1, at] = np.sqrt(square)
    place, vectors = np.linalg.eigh(matrix)
    return place, m[:, None] * vectors[:, 0, :] ** 2


def _frozen(*arrays: Floats) -> tuple[Floats, Floats]:
    for array in arrays:
        array.flags.writeable = False
    return arrays[0], arrays[1]
