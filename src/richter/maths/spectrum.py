"""How far a kernel that is known by its eigenvalues has moved."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def length(kernel: Floats) -> Floats:
    """The Frobenius norm, from the eigenvalues on the first axis."""
    return np.sqrt((kernel * kernel).sum(axis=0))


def turn(first: Floats, now: Floats, gain: Floats) -> Floats:
    r"""1 − cos(K₀, K) from the part of K − K₀ across K₀, or of K if that is smaller, so that no digits are lost.

    >>> gain = np.array([1e-9, -1e-9])
    >>> turn(np.ones(2), 1 + gain, gain).round(24).item()
    5e-19
    """
    inner = lambda x, y: (x * y).sum(axis=0)
    peak = now.max(axis=0)
    now, gain, unit = now / peak, gain / peak, first / length(first)
    part = np.where(inner(gain, gain) < inner(now, now), gain, now)
    across = part - unit * inner(part, unit)
    size = length(now)
    return inner(across, across) / (size * (size + inner(now, unit)))
