r"""Function space of a deep linear network with one output, isotropic between its layers.

$f(x)=a^T W_l\cdots W_1x$, all layers of width d, rates 1, $aa^T-W_lW_l^T=\delta I$ and
$W_{i+1}^TW_{i+1}=W_iW_i^T$ (KUN24 Definition B.7).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(
    KUN24["Definition B.7"].misprint(
        printed="there exists a δ ∈ R with aa^T − W_lW_l^T = δI",
        right="δ ≤ 0 if there is more than one neuron: aa^T has rank 1, and W_lW_l^T = aa^T − δI is not negative",
        how="algebra",
    ),
)
def isotropy_gaps(a: ArrayLike, weights: ArrayLike, delta: float) -> Floats:
    r"""How far layers are from isotropic: sizes of $W_{i+1}^TW_{i+1}-W_iW_i^T$, then of $aa^T-W_lW_l^T-\delta I$.

    Args:
        a: last layer (neuron,).
        weights: W₁ … W_l (layer, neuron, neuron).
        delta: imbalance δ.

    >>> isotropy_gaps(np.zeros(2), [np.eye(2), np.eye(2)], -1.0).tolist()
    [0.0, 0.0]
    """
    last, W = np.asarray(a, dtype=float), np.asarray(weights, dtype=float)
    above, below = W.transpose(0, 2, 1) @ W, W @ W.transpose(0, 2, 1)
    ends = np.outer(last, last) - below[-1] - delta * np.eye(len(last))
    return np.linalg.norm(np.concatenate([above[1:] - below[:-1], ends[None]]), axis=(1, 2))


@implements(
    KUN24["Eq. 116"].misprint(
        printed="the proof's exponents read ‖β‖² = a^T(W_l W_l^T)^d a = a^T(aa^T − δI)^d a",
        right="exponent l, the number of hidden layers, as in the equation itself",
        how="integration of the flow for l = 1 … 4",
    ),
)
def squared_size(a_square: ArrayLike, delta: ArrayLike, hidden_layers: int) -> Floats:
    r"""$\|\beta\|^2=\|a\|^2(\|a\|^2-\delta)^l$."""
    a2 = np.asarray(a_square, dtype=float)
    return np.asarray(a2 * (a2 - np.asarray(delta, dtype=float)) ** hidden_layers)


@implements(KUN24["Eq. 117"])
def outer_product(gram: ArrayLike, delta: float, hidden_layers: int) -> Floats:
    r"""$\beta\beta^T=G^{l+1}+\delta G^l$ with $G=W_1^TW_1$ (input, input)."""
    G = np.asarray(gram, dtype=float)
    power = np.linalg.matrix_power(G, hidden_layers)
    return np.asarray(power @ G + delta * power)


@implements(KUN24["Lemma B.8"], KUN24["Eq. 118"])
def deep_preconditioner(gram: ArrayLike, a_square: float, delta: float, hidden_layers: int) -> Floats:
    r"""$M=G^l+\|a\|^2\sum_{i=0}^{l-1}(\|a\|^2-\delta)^iG^{l-1-i}$ with $G=W_1^TW_1$.

    Args:
        gram: G (input, input).
        a_square: ‖a‖².
        delta: imbalance δ of the last two layers; ≤ 0 for more than one neuron.
        hidden_layers: l.

    >>> deep_preconditioner(np.eye(2), 2.0, 1.0, 1).tolist()
    [[3.0, 0.0], [0.0, 3.0]]
    """
    G, step = np.asarray(gram, dtype=float), float(a_square) - delta
    # Horner's rule: Σ_i step^i G^{l−1−i} grows by one power of G a time.
    powers, inner = np.eye(len(G)), np.zeros_like(G)
    for i in range(hidden_layers):
        inner = inner @ G + step**i * np.eye(len(G))
        powers = powers @ G
    return np.asarray(powers + a_square * inner)


@implements(KUN24["Eq. 120"])
def rich_layers(beta: ArrayLike, hidden_layers: int) -> tuple[Floats, Floats]:
    r"""Balanced (δ = 0): $\|a\|^2=\|\beta\|^{2/(l+1)}$, $W_1^TW_1=\|\beta\|^{-2l/(l+1)}\beta\beta^T$; β ≠ 0."""
    b, l = np.asarray(beta, dtype=float), hidden_layers
    size = np.linalg.norm(b, axis=-1)
    unit = b / size[..., None]
    first = size ** (2 / (l + 1))
    return np.asarray(first), np.asarray(first[..., None, None] * unit[..., :, None] * unit[..., None, :])


@implements(KUN24["Eq. 121"])
def rich_preconditioner(beta: ArrayLike, hidden_layers: int) -> Floats:
    r"""Balanced: $M=\|\beta\|^{\frac{2l}{l+1}}\big(I+l\,\hat\beta\hat\beta^T\big)$ (…, input, input); β ≠ 0.

    >>> rich_preconditioner([0.0, 8.0], 2).round(9).tolist()
    [[16.0, 0.0], [0.0, 48.0]]
    """
    return _rank_one(beta, 2 * hidden_layers / (hidden_layers + 1), hidden_layers)


@implements(
    KUN24["Eq. 122"].misprint(
        printed="M⁻¹ = ‖β‖^{−2l/(l+1)} I + (l/(l+1)) ‖β‖^{−(4l+2)/(l+1)} ββ^T",
        right="a minus sign before the second term",
        how="numerically: M M⁻¹ = I",
    ),
)
def rich_preconditioner_inverse(beta: ArrayLike, hidden_layers: int) -> Floats:
    r"""Balanced: $M^{-1}=\|\beta\|^{-\frac{2l}{l+1}}\big(I-\tfrac l{l+1}\hat\beta\hat\beta^T\big)$; β ≠ 0."""
    share = hidden_layers / (hidden_layers + 1)
    return _rank_one(beta, -2 * share, -share)


@implements(
    KUN24["App. B.2"].misprint(
        printed="time warp g = ‖β‖^{−l/(l+1)} with M⁻¹ = g ∇²Φ, next to ∇²Φ = g M⁻¹ in Eq. 45",
        right="as printed for M⁻¹ = g ∇²Φ; in the convention of Eq. 45 it is the reciprocal",
        how="numerically",
    ),
)
def rich_time_warp(size: ArrayLike, hidden_layers: int) -> Floats:
    r"""$g=\|\beta\|^{l/(l+1)}$, with which $gM^{-1}=\nabla^2\Phi$, $\Phi\propto\|\beta\|^{\frac{l+2}{l+1}}$."""
    return np.asarray(np.asarray(size, dtype=float) ** (hidden_layers / (hidden_layers + 1)))


def _rank_one(beta: ArrayLike, power: float, weight: float) -> Floats:
    """‖β‖^power (I + weight β̂β̂ᵀ)."""
    b = np.asarray(beta, dtype=float)
    size = np.linalg.norm(b, axis=-1)
    unit = b / size[..., None]
    made = np.eye(b.shape[-1]) + weight * unit[..., :, None] * unit[..., None, :]
    return np.asarray((size**power)[..., None, None] * made)
