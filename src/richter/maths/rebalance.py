"""The rescaling of a hidden neuron that gives it a wanted imbalance."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


def neuron_scale(outgoing: ArrayLike, incoming: ArrayLike, delta: ArrayLike) -> Floats:
    r"""s with $A/s^2-Bs^2=\delta$, so that w → s w, a → a/s gives a neuron the imbalance δ.

    $A=\eta_w\|a\|^2$ is its outgoing side, $B=\eta_a\|w\|^2+\frac{\eta_a\eta_w}{\eta_b}b^2$ the incoming one.
    $s^2=\frac{2A}{\delta+\sqrt{\delta^2+4AB}}$, for δ < 0 as $\frac{\sqrt{\delta^2+4AB}-\delta}{2B}$. A neuron with one
    side 0 can only have an imbalance of the other side's sign; one with both 0 has δ = 0 whatever s is.

    >>> neuron_scale(4.0, 1.0, [0.0, 3.0, -6.0]).round(12).tolist()
    [1.414213562373, 1.0, 2.570126704165]
    """
    A, B, d = np.broadcast_arrays(*(np.asarray(x, dtype=np.float64) for x in (outgoing, incoming, delta)))
    gone = (A == 0) & (B == 0)
    impossible = np.where(gone, d != 0, ((A == 0) & (d >= 0)) | ((B == 0) & (d <= 0)))
    if impossible.any():
        i = int(np.flatnonzero(impossible.ravel())[0])
        side = "outgoing and incoming" if gone.ravel()[i] else "outgoing" if A.ravel()[i] == 0 else "incoming"
        got = f"δ = {d.ravel()[i]:g} for neuron {i}, whose {side} weights are 0"
        raise ParameterError(message("the imbalance of a neuron", "be one that a rescaling can give it", got))
    # hypot and the larger of the two sides: no overflow, and no difference of nearly equal numbers
    root = np.hypot(d, 2 * np.sqrt(A) * np.sqrt(B))
    with np.errstate(divide="ignore", invalid="ignore"):
        square = np.where(d >= 0, 2 * A / (d + root), (root - d) / (2 * B))
    return np.where(gone, 1.0, np.sqrt(square))
