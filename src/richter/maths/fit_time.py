"""When the kernel that a network starts with would have fitted its task."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from richter.errors import ParameterError, message


def fit_rate(kernel: ArrayLike, residual: ArrayLike, share: float) -> float:
    r"""The rate $\lambda_k$ of the slowest of the fastest modes of a kernel that together hold `share` of the loss.

    Under $\dot r=-Kr$ the mode k holds $(v_k\cdot r)^2/\|r\|^2$. A mode without a share of the loss does not count,
    however fast. NaN for no residual.

    Args:
        kernel: (N, N), or (N, N, C, C) for the residual (N, C); in units of 1/t.
        residual: (N,) or (N, C), target minus output at the start.
        share: of the loss, above 0 and at most 1.

    >>> fit_rate([[9.0, 0.0], [0.0, 1.0]], [0.1, 1.0], 0.3), fit_rate([[9.0, 0.0], [0.0, 1.0]], [1.0, 1.0], 0.3)
    (1.0, 9.0)
    """
    K, r = np.asarray(kernel, dtype=np.float64), np.asarray(residual, dtype=np.float64)
    r = r[:, None] if r.ndim == 1 else r
    n, c = r.shape
    if K.shape not in ((n, n), (n, n, c, c)):
        raise ParameterError(message("the kernel", f"have shape {(n, n)} or {(n, n, c, c)}", f"{K.shape}"))
    if K.ndim == 4:
        K, r = K.transpose(0, 2, 1, 3).reshape(n * c, n * c), r.reshape(-1, 1)
    whole = float((r**2).sum())
    if whole == 0:
        return float("nan")
    rates, modes = np.linalg.eigh((K + K.T) / 2)
    held = ((modes.T @ r) ** 2).sum(axis=1)[::-1] / whole
    first = int(np.argmax(np.cumsum(held) >= share * (1 - 1e-12)))  # rounding: shares add up to 1
    return float(max(rates[::-1][first], 0.0))
