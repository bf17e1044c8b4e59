r"""Wide two-layer linear networks with an isotropic imbalance: the matrix Riccati flow, solved for every time.

With $R=[\sqrt{\eta_w}A^T;\sqrt{\eta_a}W^T]$ (outputs and inputs first, neurons second) and $\Delta=\delta I$,

$$\dot R=GR-\tfrac12RR^TR,\quad
G=\begin{pmatrix}\tfrac\delta2I&\tilde\beta_*^T\\\tilde\beta_*&-\tfrac\delta2I\end{pmatrix},\qquad
RR^T(t)=e^{Gt}R_0\Big(I+R_0^T\!\int_0^t\!e^{2Gs}ds\,R_0\Big)^{-1}R_0^Te^{Gt}.$$

In the eigenbasis $G=V\lambda V^T$, with $\Phi_k=\int_0^te^{2\lambda_ks}ds$ and $Y=\Phi^{1/2}V^TR_0$, this is
$XX^T$, $X=V\,(e^{\lambda t}\Phi^{-1/2})\,Q_1$, where $Q_1$ are the rows of Y in an orthonormal basis of the columns of
$[Y;I]$. That basis comes from Gaussian elimination with complete pivoting, whose multipliers stay below 1 in size and
in which the rows' scales, up to $e^{\lambda t}$, enter as logarithms only: nothing overflows, a start of 1e-6 keeps
its digits, and t = ∞ is the case of infinite scales.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
SAME = 1e-13  # eigenvalues this near to each other, relative to the largest, grow equally fast for ever
ENDLESS = 1e6  # in the logarithm of a scale: as good as infinite, and its multiples are told apart


@dataclass(frozen=True)
class RiccatiModes:
    """The start in the eigenbasis of G, once per start: leading axes are starts."""

    outputs: int
    values: Floats  # λ (…, n), rising
    vectors: Floats  # V (…, n, n)
    start: Floats  # VᵀR₀ (…, n, h)
    ranks: Floats  # order of growth at t = ∞ (…, n)


def riccati_modes(A: Floats, W: Floats, target: Floats, delta: Floats) -> RiccatiModes:
    r"""Decompose the start.

    Args:
        A: $\sqrt{\eta_w}A_0$ (…, neuron, output).
        W: $\sqrt{\eta_a}W_0$ (…, neuron, input).
        target: $\sqrt{\eta_a\eta_w}\beta_*$ (…, input, output).
        delta: imbalance δ (…).
    """
    c, d = A.shape[-1], W.shape[-1]
    front = np.broadcast_shapes(A.shape[:-2], W.shape[:-2], target.shape[:-2], delta.shape)
    G = np.zeros((*front, c + d, c + d))
    half = delta[..., None, None] / 2
    G[..., :c, :c], G[..., c:, c:] = half * np.eye(c), -half * np.eye(d)
    G[..., c:, :c], G[..., :c, c:] = target, np.swapaxes(target, -1, -2)
    values, vectors = np.linalg.eigh(G)
    top = np.abs(values).max(axis=-1, keepdims=True)
    values = np.where(np.abs(values) <= SAME * top, 0.0, values)
    stacked = np.concatenate([np.swapaxes(A, -1, -2), np.swapaxes(W, -1, -2)], axis=-2)
    new = np.diff(values, axis=-1, prepend=values[..., :1] - 1) > SAME * top
    ranks = np.cumsum(new & (values >= 0), axis=-1).astype(float)
    return RiccatiModes(c, values, vectors, np.swapaxes(vectors, -1, -2) @ stacked, ranks)


def riccati_path(modes: RiccatiModes, t: Floats) -> Floats:
    r"""X (…, t, n, h) with $RR^T=XX^T$ at times t ≥ 0, ∞ included; X equals R up to a rotation of the neurons."""
    lam = modes.values[..., None, :]
    time = t[:, None]
    with np.errstate(all="ignore"):
        finite = np.minimum(time, 1e300)
        x = 2 * np.abs(lam) * finite
        # ln Φ: (1 − e^{−x})/2|λ| times e^{2λt} where λ > 0; t where λ = 0.
        bounded = np.log(np.where(x > 0, -np.expm1(-x) / np.where(lam == 0, 1.0, 2 * np.abs(lam)), finite))
        log_scale = (bounded + np.where(lam > 0, x, 0.0)) / 2
        # e^{2λt}/Φ = 2λ/(1 − e^{−2λt}), 1/t at λ = 0, 0 at t = ∞ for λ ≤ 0.
        shrunk = np.where(lam > 0, 2 * lam / -np.expm1(-x), np.where(lam < 0, 2 * -lam / np.expm1(x), 1 / finite))
        endless = np.isinf(time)
        log_scale = np.where(endless & (lam >= 0), ENDLESS * modes.ranks[..., None, :], log_scale)
        shrunk = np.where(endless & (lam <= 0), 0.0, shrunk)
        still = time == 0
        log_scale, shrunk = np.where(still, 0.0, log_scale), np.where(still, 1.0, shrunk)
        start = np.broadcast_to(modes.start[..., None, :, :], (*log_scale.shape, modes.start.shape[-1]))
        Q = _orthonormal_rows(start, log_scale)
        made = modes.vectors[..., None, :, :] @ (np.sqrt(shrunk)[..., None] * Q)
        return np.where(still[..., None], modes.vectors[..., None, :, :] @ start, made)


def _orthonormal_rows(content: Floats, log_scale: Floats) -> Floats:
    """The rows of Y = e^{log_scale}·content in an orthonormal basis of the columns of [Y; I]."""
    n, h = content.shape[-2:]
    front = content.shape[:-2]
    count = int(np.prod(front))
    rows = np.concatenate([content.reshape(count, n, h), np.broadcast_to(np.eye(h), (count, h, h))], axis=1)
    scale = np.concatenate([log_scale.reshape(count, n), np.zeros((count, h))], axis=1)
    used = np.zeros((count, n + h), bool)
    L = np.zeros((count, n + h, h))
    every = np.arange(count)
    for step in range(h):
        size = np.log(np.abs(rows)) + scale[:, :, None]
        size[used] = -np.inf
        size[np.isnan(size)] = -np.inf
        pivot = size.reshape(count, -1).argmax(axis=1)
        row, column = pivot // h, pivot % h
        lead = rows[every, row]
        ratio = rows[every, :, column] / lead[every, column][:, None]
        ratio[used] = 0.0
        L[:, :, step] = ratio * np.exp(np.minimum(scale - scale[every, row][:, None], 700.0))
        rows = rows - ratio[:, :, None] * lead[:, None, :]
        rows[every, :, column] = 0.0
        used[every, row] = True
    R = np.linalg.qr(L, mode="r")
    Q = np.linalg.solve(np.swapaxes(R, -1, -2), np.swapaxes(L[:, :n], -1, -2))
    return np.swapaxes(Q, -1, -2).reshape(*front, n, h)
