"""The wide network with Δ = δI: its Riccati solution written down naively, with as many digits as that costs."""

from __future__ import annotations

from typing import Any

import numpy as np
from mpmath import mp
from numpy.typing import ArrayLike, NDArray

DIGITS = 2800
END, SPREAD = 120, 20  # ln of what is left at "∞", and the ratio of rates up to which DIGITS suffice for that
NOTHING = mp.mpf(10) ** -40


def isotropic(
    A0: ArrayLike, W0: ArrayLike, beta_star: ArrayLike, eta_a: ArrayLike, eta_w: ArrayLike, times: ArrayLike
) -> list[dict[str, NDArray[np.float64]] | None]:
    r"""`beta`, `gram_a` and `gram_w` at every time; None at ∞ where even these digits do not suffice.

    $RR^T(t)=e^{Gt}R_0(I+R_0^T\int_0^te^{2Gs}ds\,R_0)^{-1}R_0^Te^{Gt}$ with $e^{-|\delta|t/2}$ taken out.
    """
    with mp.workdps(DIGITS):
        ea, ew = mp.mpf(float(np.asarray(eta_a))), mp.mpf(float(np.asarray(eta_w)))
        A, W = (mp.matrix(np.asarray(x).tolist()) for x in (A0, W0))
        (h, c), d, k = np.shape(A0), np.shape(W0)[1], mp.sqrt(ea * ew)
        delta = sum(ew * (A * A.T)[i, i] - ea * (W * W.T)[i, i] for i in range(h)) / h
        G = mp.zeros(c + d)
        for i in range(c + d):
            G[i, i] = delta / 2 if i < c else -delta / 2
        for i in range(d):
            for j in range(c):
                G[c + i, j] = G[j, c + i] = k * mp.mpf(float(np.asarray(beta_star)[i, j]))
        R = mp.matrix([*(mp.sqrt(ew) * A.T).tolist(), *(mp.sqrt(ea) * W.T).tolist()])
        values, vectors = mp.eigsy(G)
        return [_at(t, list(values), vectors, vectors.T * R, abs(delta) / 2, c, (ea, ew, k)) for t in np.ravel(times)]


def _at(
    t: float, values: list[Any], vectors: Any, start: Any, common: Any, c: int, rates: tuple[Any, Any, Any]
) -> dict[str, NDArray[np.float64]] | None:
    n, h = start.rows, start.cols
    if np.isinf(t):
        gains = sorted((x - common for x in values if x - common > NOTHING), reverse=True)[: h + 1]
        gap = gains[-1] if len(gains) <= h else gains[h - 1] - gains[h]  # between what wins and what dies
        if gains[0] > SPREAD * gap:
            return None
        t = END / gap
    t = mp.mpf(t)
    left = mp.exp(-2 * common * t)
    grown, inside = start.copy(), mp.eye(h) * left
    for i, x in enumerate(values):
        area = (mp.exp(2 * (x - common) * t) - left) / (2 * x) if abs(x) > NOTHING else t * left
        inside += area * start[i, :].T * start[i, :]
        for j in range(h):
            grown[i, j] *= mp.exp((x - common) * t)
    grown = vectors * grown
    full = grown * mp.inverse(inside) * grown.T
    read = lambda rows, columns, unit: np.array([[float(full[i, j] / unit) for j in columns] for i in rows])
    outputs, inputs = range(c), range(c, n)
    ea, ew, k = rates
    return {
        "beta": read(inputs, outputs, k), "gram_a": read(outputs, outputs, ew), "gram_w": read(inputs, inputs, ea)
    }  # fmt: skip
