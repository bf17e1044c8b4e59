"""What a two-layer linear network's preconditioner spans far from balance: ranks, spans and spectra."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(KUN24["Lemma B.2"], KUN24["Eq. 88"], KUN24["Eq. 89"], KUN24["Eq. 90"], KUN24["Eq. 91"])
def rank_bound(d: int, h: int, c: int, limit: str) -> int:
    r"""The largest rank of M as all δᵢ → ∞, d·min(h, c) (`upstream`), or → −∞, c·min(h, d) (`downstream`).

    At balance both terms stay; their sum has full rank unless h is smaller than both d and c: then the directions
    across the neurons on both sides are missing, $dc-(d-h)(c-h)$.

    >>> rank_bound(5, 2, 3, "upstream"), rank_bound(5, 2, 3, "downstream"), rank_bound(5, 2, 3, "balanced")
    (10, 6, 12)
    """
    if limit == "upstream":
        return d * min(h, c)
    if limit == "downstream":
        return c * min(h, d)
    return d * c - max(d - h, 0) * max(c - h, 0)


@implements(
    KUN24["App. B.1.1"].misprint(
        printed="balanced: M = √(η_aη_w) |β_i| Σ_i β_i^Tβ_i/‖β_i‖² ⊕ Σ_i β_iβ_i^T/‖β_i‖²",
        right="‖β_i‖ inside the sum: √(η_aη_w) Σ_i ‖β_i‖ (β_i^Tβ_i/‖β_i‖² ⊕ β_iβ_i^T/‖β_i‖²)",
        how="Theorem 4.1 at δ_i = 0, numerically",
    ),
    KUN24["App. B.1"].misprint(
        printed="Δ = A₀A₀^T − W₀W₀^T (and again in B.1.3)",
        right="Δ = η_w A₀A₀^T − η_a W₀W₀^T, as in Section 4",
        how="integration of the flow with different rates",
    ),
)
def balanced_sum(betas: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""$M=\sqrt{\eta_a\eta_w}\sum_i\|\beta_i\|\big(\hat\beta_i^T\hat\beta_i\oplus\hat\beta_i\hat\beta_i^T\big)$.

    Args:
        betas: each neuron's function $\beta_i=w_ia_i^T$ (h, d, c), none of them 0.
        eta_a: learning rate of A.
        eta_w: learning rate of W.
    """
    b = np.asarray(betas, dtype=float)
    size = np.sqrt((b * b).sum(axis=(1, 2)))
    left = np.einsum("idc,ide->ce", b / size[:, None, None], b)
    right = np.einsum("idc,iec->de", b / size[:, None, None], b)
    made = np.kron(left, np.eye(b.shape[1])) + np.kron(np.eye(b.shape[2]), right)
    return np.asarray(np.sqrt(eta_a * eta_w) * made)


def leading_gram(A: ArrayLike, W: ArrayLike, limit: str) -> Floats:
    """What survives of M in the limit, up to size: AᵀA (`upstream`) or WᵀW (`downstream`), scaled to trace 1."""
    layer = np.asarray(A if limit == "upstream" else W, dtype=float)
    size = float((layer * layer).sum())
    return np.asarray(layer.T @ layer / (size if size > 0 else 1.0))


def unreached(gram: Floats, target: ArrayLike, limit: str) -> float:
    """The share ‖β* − Pβ*‖/‖β*‖ of a target (d, c) outside the span of `leading_gram`.

    >>> round(unreached(np.diag([1.0, 0.0]), [[3.0, 4.0]], "upstream"), 12)
    0.8
    """
    beta = np.asarray(target, dtype=float)
    values, vectors = np.linalg.eigh(gram)
    kept = vectors[:, values > len(gram) * np.finfo(float).eps * values.max(initial=0.0)]
    inside = beta @ kept @ kept.T if limit == "upstream" else kept @ kept.T @ beta
    return float(np.linalg.norm(beta - inside) / np.linalg.norm(beta))


def preconditioner_spectrum(gram_a: ArrayLike, gram_w: ArrayLike) -> Floats:
    r"""The eigenvalues of $M=\eta_wA^TA\oplus\eta_aW^TW$, increasing, without forming it: sums of the two spectra.

    Args:
        gram_a: $\eta_wA^TA$ (…, output, output).
        gram_w: $\eta_aW^TW$ (…, input, input).

    >>> preconditioner_spectrum(np.diag([1.0, 2.0]), np.diag([0.0, 10.0])).tolist()
    [1.0, 2.0, 11.0, 12.0]
    """
    left, right = (np.linalg.eigvalsh(np.asarray(g, dtype=float)) for g in (gram_a, gram_w))
    sums = left[..., :, None] + right[..., None, :]
    return np.asarray(np.sort(sums.reshape(*sums.shape[:-2], -1), axis=-1))


def conditioning(spectrum: ArrayLike) -> Floats:
    """Largest over smallest eigenvalue; ∞ where the smallest is 0 to rounding.

    >>> conditioning([[1.0, 4.0], [0.0, 1.0]]).tolist()
    [4.0, inf]
    """
    values = np.asarray(spectrum, dtype=float)
    top, low = values.max(axis=-1), values.min(axis=-1)
    gone = low <= values.shape[-1] * np.finfo(float).eps * top
    return np.asarray(np.where(gone, np.inf, top / np.where(gone, 1.0, low)))
