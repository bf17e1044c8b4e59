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

While $R_0^T\Phi R_0$ is small, the eigenbasis would mix a large layer's roundings into a small one. There the
exponential acts on the two layers' components along each pair of singular vectors of the target, where all its
entries are positive, and the inverse is that of a well-conditioned matrix.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from richter.maths.arrays import plus_and_minus

Floats = NDArray[np.float64]
SAME = 1e-13  # eigenvalues this near to each other, relative to the largest, grow equally fast for ever
ENDLESS = 1e6  # in the logarithm of a scale: as good as infinite, and its multiples are told apart
EARLY = 10.0  # trace of R₀ᵀΦR₀ up to which I + R₀ᵀΦR₀ is well conditioned


@dataclass(frozen=True)
class RiccatiModes:
    """The start in the eigenbasis of G, once per start: leading axes are starts.

    Rows: m pairs' growing directions, their shrinking ones, then what the target does not see, outputs first. In
    `layers` the first two groups are instead the second and the first layer's components along the m pairs.
    """

    pairs: int  # m, singular values of the target
    values: Floats  # λ (…, n)
    common: Floats  # |δ|/2, in which all growing directions agree (…, 1)
    excess: Floats  # λ − |δ|/2 of the growing directions (…, n)
    cos: Floats  # of the angle that turns `layers` into `start` (…, m, 1)
    sin: Floats
    left: Floats  # singular vectors of the target (…, input, input)
    right: Floats  # (…, output, output)
    start: Floats  # VᵀR₀ (…, n, h)
    layers: Floats  # R₀ along the singular vectors (…, n, h)
    ranks: Floats  # order of growth at t = ∞ (…, n)

    def stacked(self, rows: Floats) -> Floats:
        """[Aᵀ; Wᵀ] (…, t, n, h) of components along the singular vectors (…, t, n, h)."""
        m, rest = self.pairs, 2 * self.pairs + self.right.shape[-1] - self.pairs
        of_a = np.concatenate([rows[..., :m, :], rows[..., 2 * m : rest, :]], axis=-2)
        of_w = np.concatenate([rows[..., m : 2 * m, :], rows[..., rest:, :]], axis=-2)
        return np.concatenate([self.right[..., None, :, :] @ of_a, self.left[..., None, :, :] @ of_w], axis=-2)

    def turned_back(self, rows: Floats) -> Floats:
        """Components along the singular vectors of components in the eigenbasis (…, t, n, h)."""
        m, cos, sin = self.pairs, self.cos[..., None, :, :], self.sin[..., None, :, :]
        up, down = rows[..., :m, :], rows[..., m : 2 * m, :]
        return np.concatenate([cos * up - sin * down, sin * up + cos * down, rows[..., 2 * m :, :]], axis=-2)


def riccati_modes(A: Floats, W: Floats, target: Floats, delta: Floats) -> RiccatiModes:
    r"""Decompose the start; G's eigenvectors come from the singular vectors of the target.

    Far from balance the growing eigenvalues $\sqrt{\delta^2/4+\sigma^2}$ agree in all digits and only their excesses
    $\sigma^2/(\sqrt{\delta^2/4+\sigma^2}+|\delta|/2)$ tell them apart: they are kept.

    Args:
        A: $\sqrt{\eta_w}A_0$ (…, neuron, output).
        W: $\sqrt{\eta_a}W_0$ (…, neuron, input).
        target: $\sqrt{\eta_a\eta_w}\beta_*$ (…, input, output).
        delta: imbalance δ (…).
    """
    c, d = A.shape[-1], W.shape[-1]
    front = np.broadcast_shapes(A.shape[:-2], W.shape[:-2], target.shape[:-2], delta.shape)
    spread = lambda x: np.broadcast_to(x, (*front, *x.shape[-2:]))
    left, s, Vt = np.linalg.svd(spread(target))
    s = np.where(s <= SAME * s.max(axis=-1, keepdims=True, initial=0.0), 0.0, s)
    m = s.shape[-1]
    h = np.broadcast_to(delta, front)[..., None] / 2
    R = np.hypot(h, s)
    fast, slow = plus_and_minus(np, R, h, s * s)
    twice = np.where(R > 0, 2 * R, 1.0)
    cos, sin = (np.sqrt(np.where(R > 0, x / twice, 0.5))[..., None] for x in (fast, slow))
    n = c + d
    rest = np.ones((*front, 1))
    values = np.concatenate([R, -R, rest * h + np.zeros(c - m), -rest * h + np.zeros(d - m)], axis=-1)
    # For λ = R the smaller of R ± δ/2 is the excess over |δ|/2; the directions the target does not see have none.
    excess = np.concatenate([np.minimum(fast, slow), np.zeros((*front, n - m))], axis=-1)
    order = np.argsort(excess, axis=-1)
    rising = np.take_along_axis(excess, order, axis=-1)
    new = np.diff(rising, axis=-1, prepend=-1.0) > SAME * rising
    ranks = np.empty_like(excess)
    np.put_along_axis(ranks, order, np.cumsum(new, axis=-1).astype(float), axis=-1)
    flip = lambda x: np.swapaxes(x, -1, -2)
    of_a, of_w = Vt @ flip(spread(A)), flip(left) @ flip(spread(W))
    layers = np.concatenate([of_a[..., :m, :], of_w[..., :m, :], of_a[..., m:, :], of_w[..., m:, :]], axis=-2)
    up, down = layers[..., :m, :], layers[..., m : 2 * m, :]
    start = np.concatenate([cos * up + sin * down, cos * down - sin * up, layers[..., 2 * m :, :]], axis=-2)
    return RiccatiModes(m, values, np.abs(h), excess, cos, sin, left, flip(Vt), start, layers, ranks)


def riccati_path(modes: RiccatiModes, t: Floats) -> Floats:
    r"""X (…, t, n, h) with $RR^T=XX^T$ at times t ≥ 0, ∞ included; X equals R up to a rotation of the neurons.

    `t` is (t,), or (…, t) with times of its own for every start.
    """
    lam = modes.values[..., None, :]
    grows = lam > 0
    time = t[..., None]
    with np.errstate(all="ignore"):
        finite = np.minimum(time, 1e300)
        x = 2 * np.abs(lam) * finite
        # ln Φ: (1 − e^{−x})/2|λ| times e^{2λt} where λ > 0; t where λ = 0.
        bounded = np.log(np.where(x > 0, -np.expm1(-x) / np.where(lam == 0, 1.0, 2 * np.abs(lam)), finite)) / 2
        common = np.where(grows, modes.common[..., None, :] * finite, 0.0)
        own = bounded + np.where(grows, modes.excess[..., None, :] * finite, 0.0)
        # e^{2λt}/Φ = 2λ/(1 − e^{−2λt}), 1/t at λ = 0, 0 at t = ∞ for λ ≤ 0.
        shrunk = np.where(grows, 2 * lam / -np.expm1(-x), np.where(lam < 0, 2 * -lam / np.expm1(x), 1 / finite))
        endless = np.isinf(time)
        common = np.where(endless & (lam >= 0), ENDLESS, common)
        own = np.where(endless & (lam >= 0), ENDLESS * modes.ranks[..., None, :], own)
        shrunk = np.where(endless & ~grows, 0.0, shrunk)
        shape = (*own.shape, modes.start.shape[-1])
        start = np.broadcast_to(modes.start[..., None, :, :], shape)
        Y = start * np.exp(common + own)[..., None]
        early = (Y * Y).sum(axis=(-2, -1)) <= EARLY
        made = np.empty(shape)
        late = ~early
        if late.any():
            Q = _orthonormal_rows(start[late], np.broadcast_to(common, own.shape)[late], own[late])
            made[late] = np.sqrt(np.broadcast_to(shrunk, own.shape)[late])[..., None] * Q
        made = modes.turned_back(made)
    if early.any():
        grown = np.broadcast_to(_grown(modes, np.where(early, time[..., 0], 0.0)), shape)[early]
        Y = Y[early]
        triangle = np.linalg.cholesky(np.eye(shape[-1]) + np.swapaxes(Y, -1, -2) @ Y)
        made[early] = np.swapaxes(np.linalg.solve(triangle, np.swapaxes(grown, -1, -2)), -1, -2)
    return modes.stacked(made)


def _grown(modes: RiccatiModes, t: Floats) -> Floats:
    r"""$e^{Gt}R_0$ along the singular vectors (…, t, n, h): every entry of the exponential is positive."""
    m = modes.pairs
    lam = modes.values[..., None, :, None] * t[..., None, None]
    up, down = (modes.layers[..., None, k : k + m, :] for k in (0, m))
    cos, sin = modes.cos[..., None, :, :], modes.sin[..., None, :, :]
    rise, fall = np.exp(lam[..., :m, :]), np.exp(-lam[..., :m, :])
    across = 2 * cos * sin * np.sinh(lam[..., :m, :])
    pairs = [(cos**2 * rise + sin**2 * fall) * up + across * down, across * up + (sin**2 * rise + cos**2 * fall) * down]
    return np.concatenate([*pairs, np.exp(lam[..., 2 * m :, :]) * modes.layers[..., None, 2 * m :, :]], axis=-2)


def _orthonormal_rows(content: Floats, common: Floats, own: Floats) -> Floats:
    """The rows of Y = e^{common + own}·content in an orthonormal basis of the columns of [Y; I].

    The two parts of a scale's logarithm stay apart: where `common` is huge, their sum would lose `own`.
    """
    n, h = content.shape[-2:]
    front = content.shape[:-2]
    count = int(np.prod(front))
    pad = lambda x: np.concatenate([x.reshape(count, n), np.zeros((count, h))], axis=1)
    rows = np.concatenate([content.reshape(count, n, h), np.broadcast_to(np.eye(h), (count, h, h))], axis=1)
    high, low = pad(np.broadcast_to(common, own.shape)), pad(own)
    used = np.zeros((count, n + h), bool)
    L = np.zeros((count, n + h, h))
    every = np.arange(count)
    for step in range(h):
        size = np.log(np.abs(rows)) + (high + low)[:, :, None]
        size[used] = -np.inf
        size[np.isnan(size)] = -np.inf
        pivot = size.reshape(count, -1).argmax(axis=1)
        row, column = pivot // h, pivot % h
        lead = rows[every, row]
        ratio = rows[every, :, column] / lead[every, column][:, None]
        ratio[used] = 0.0
        ahead = (high - high[every, row][:, None]) + (low - low[every, row][:, None])
        L[:, :, step] = ratio * np.exp(np.minimum(ahead, 700.0))
        rows = rows - ratio[:, :, None] * lead[:, None, :]
        rows[every, :, column] = 0.0
        used[every, row] = True
    R = np.linalg.qr(L, mode="r")
    Q = np.linalg.solve(np.swapaxes(R, -1, -2), np.swapaxes(L[:, :n], -1, -2))
    return np.swapaxes(Q, -1, -2).reshape(*front, n, h)
