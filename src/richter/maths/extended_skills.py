r"""The extended multilinear model: skill k is $a_k\sum_lB_{k,l}e_{k,l}$ with $g_k=\sum_le_{k,l}/\sqrt{D_c}$.

Arrays have their own axes first, then any others: $a$ (skill, …), $B$ (skill, basis, …), the data's Gram matrix
$G_k=\Phi_k\Phi_k^T/D$ (skill, basis, basis, …).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.neuron import basin_margin
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]


@implements(NAM24["Eq. 5.4"], NAM24["Eq. 5.8"])
def skill_direction(basis: int, target: ArrayLike) -> Floats:
    r"""$\vec S/\sqrt{D_c}$: the coefficients of $Sg_k$ in the orthonormal $e_{k,l}$, (basis, …)."""
    S = np.asarray(target, dtype=float)
    return np.broadcast_to(S / np.sqrt(basis), (basis, *S.shape))


@implements(NAM24["Eq. 5.3"])
def extended_coefficients(a: Floats, B: Floats) -> Floats:
    r"""$a_kB_{k,l}$, the coefficients of $f=\sum_ka_k\sum_lB_{k,l}e_{k,l}$, (skill, basis, …)."""
    return a[:, None] * B


@implements(NAM24["Eq. C.5"], NAM24["Eq. C.6"])
def linear_few_shots(features: Floats, aim: Floats) -> Floats:
    r"""Where the *linear* model $f=\sum_lW_le_l$ of one skill ends from W = 0: $UU^T\vec S/\sqrt{D_c}$ (basis,).

    The end of the extended multilinear model from a small start: data emergence needs no layers.

    Args:
        features: $\Phi_{lj}=e_l(x_j)$ (basis, example).
        aim: $\vec S/\sqrt{D_c}$ (basis,).

    >>> linear_few_shots(np.array([[1.0], [0.0]]), np.array([1.0, 1.0])).round(12).tolist()
    [1.0, 0.0]
    """
    U, s, _ = np.linalg.svd(features, full_matrices=False)
    U = U[:, s > 1e-10 * s.max(initial=0.0)]
    return np.asarray(U @ (U.T @ aim))


@implements(
    NAM24["Eq. B.21"], NAM24["Eq. B.23"], NAM24["Eq. B.20"], NAM24["Eq. B.22"], NAM24["Eq. B.16"], NAM24["Eq. B.45"],
    NAM24["Eq. B.47"],
)  # fmt: skip
def extended_flow(a: Floats, B: Floats, gram: Floats, aim: Floats, eta: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    r"""$\dot a_k=-\eta\vec B_k^TG_k(a_k\vec B_k-\vec S/\sqrt{D_c})$, $\dot{\vec B}_k=-\eta a_kG_k(\dots)$."""
    pull = np.asarray(eta) * np.einsum("kij...,kj...->ki...", gram, a[:, None] * B - aim)
    return -(B * pull).sum(axis=1), -a[:, None] * pull


@implements(NAM24["Eq. B.46"])
def endless_gram(frequency: Floats, there: NDArray[np.bool_]) -> Floats:
    r"""$\lim_{D\to\infty}\frac1D\Phi_k\Phi_k^T=\mathcal P_s(k)I$ on the model's basis functions, (skill, basis, basis).

    Args:
        frequency: $\mathcal P_s(k)$ (skill,).
        there: which basis functions the model has, (skill, basis).

    >>> endless_gram(np.array([0.75]), np.array([[True, False]])).tolist()
    [[[0.75, 0.0], [0.0, 0.0]]]
    """
    return np.asarray(frequency[:, None, None] * np.eye(there.shape[1]) * there[:, None])


@implements(NAM24["Eq. B.19"], NAM24["Eq. B.17"], NAM24["Eq. B.18"])
def sample_loss(a: Floats, B: Floats, gram: Floats, aim: Floats) -> Floats:
    r"""$\mathcal L_D=\tfrac12\sum_k(a_k\vec B_k-\vec S/\sqrt{D_c})^TG_k(\dots)$, the loss on the data."""
    off = a[:, None] * B - aim
    return np.asarray((off * np.einsum("kij...,kj...->ki...", gram, off)).sum(axis=(0, 1)) / 2)


@implements(
    NAM24["Eq. B.30"].misprint(
        printed="L_k = |Φ(B_k a_k − S/√D_c)|²",
        right="L_k = |Φᵀ(B_k a_k − S/√D_c)|²/2d_k: Φ is (basis, example), and the loss a mean with ½",
        how="shapes; examples of drawn data",
    ),
    NAM24["Eq. B.15"],
)
def skill_data_loss(a: float, B: Floats, features: Floats, aim: Floats) -> float:
    r"""$\mathcal L_k=\frac1{2d_k}|\Phi^T(a_k\vec B_k-\vec S/\sqrt{D_c})|^2$ of one skill on its own examples.

    Args:
        a: second layer.
        B: first layer (basis,).
        features: $\Phi_{lj}=e_{k,l}(x^{(j)})$ (basis, example).
        aim: $\vec S/\sqrt{D_c}$ (basis,).
    """
    return float((((a * B - aim) @ features) ** 2).sum() / (2 * features.shape[1]))


@implements(
    NAM24["Eq. B.27"],
    NAM24["Eq. B.28"].misprint(
        printed="dL_k/dt = −η(d_k/D)(…)², with the L_k of Eq. B.30",
        right="so with L_k as a mean with ½ over the skill's own examples; with the L_k of B.30 the prefactor differs",
        how="finite differences along the flow",
    ),
    NAM24["Eq. B.29"],
)
def skill_loss_slope(share: float, slope_a: float, slope_B: Floats, eta: float = 1.0) -> float:
    r"""$\dot{\mathcal L}_k=-\eta d_k/D[(\partial_a\mathcal L_k)^2+|\partial_{\vec B}\mathcal L_k|^2]$; 0 at rest."""
    return float(-eta * share * (slope_a**2 + (np.asarray(slope_B) ** 2).sum()))


@implements(NAM24["Sec. B.1.5"], NAM24["Eq. B.24"], NAM24["Eq. B.25"])
def skill_imbalance(a: Floats, B: Floats) -> Floats:
    r"""$a_k^2-\|\vec B_k\|^2$, conserved (Lemma 3)."""
    return a**2 - (B**2).sum(axis=1)


def skill_kernel_change(a: Floats, B: Floats, a0: Floats, B0: Floats) -> Floats:
    r"""$\|M-M_0\|/\|M_0\|$ of each skill's $M=a^2I+\vec B\vec B^T$, without forming it; NaN where $M_0=0$."""
    dot = lambda x, y: (x * y).sum(axis=1)
    gain, move, basis = (a - a0) * (a + a0), B - B0, B.shape[1]
    square = basis * gain**2 + 2 * gain * (dot(B, move) + dot(move, B0)) + 2 * dot(B, move) * dot(B0, move)
    square = square + (dot(B, B) + dot(B0, B0)) * dot(move, move)
    first = basis * a0**4 + 2 * a0**2 * dot(B0, B0) + dot(B0, B0) ** 2
    return np.sqrt(np.maximum(square, 0.0) / np.where(first > 0, first, np.nan))


@implements(
    NAM24["Eq. B.35"],
    NAM24["Eq. B.36"],
    NAM24["Eq. B.37"],
    NAM24["Eq. B.38"],
    NAM24["Eq. B.39"],
    NAM24["Eq. B.40"],
    NAM24["Eq. B.41"].misprint(
        printed="(I − UUᵀ)B(∞)a(∞) = (I − UUᵀ)B(0) a(0)",
        right="(I − UUᵀ)B(∞)a(∞) = (I − UUᵀ)B(0) a(∞): only B's part is conserved",
        how="DOP853",
    ),
)
def extended_end(a0: Floats, B0: Floats, gram: Floats, aim: Floats) -> tuple[Floats, Floats]:
    r"""The end of gradient flow for any data: $a^2=\frac m2+\sqrt{\frac{m^2}4+c^2}$, $\vec B=UU^T\frac{\vec S}{\sqrt{D_c}}/a+(I-UU^T)\vec B_0$.

    $m=a_0^2-\|UU^T\vec B_0\|^2$, $c=\|UU^T\vec S/\sqrt{D_c}\|$. For m ≥ 0 the sign of a is that of $a_0$; below, that
    of the neuron's basin for whitened data. A skill without data stays where it is.

    >>> a, B = extended_end(np.array([0.1]), np.zeros((1, 2)), np.eye(2)[None], np.full((1, 2), 1.0))
    >>> (a * B[0]).round(12).tolist()
    [1.0, 1.0]
    """  # noqa: E501 (one formula)
    front = np.moveaxis(gram, (0, 1, 2), (-3, -2, -1))
    values, U = np.linalg.eigh(front)
    top = values[..., -1:]
    alive = values > 1e-10 * np.where(top > 0, top, np.inf)
    along = lambda x: np.moveaxis(
        np.einsum("...ij,...j,...kj,...k->...i", U, alive, U, np.moveaxis(x, (0, 1), (-2, -1))), (-2, -1), (0, 1)
    )
    B0, aim = np.broadcast_arrays(B0, aim)
    inside, reach = along(B0), along(aim)
    m, c = a0**2 - (inside**2).sum(axis=1), np.sqrt((reach**2).sum(axis=1))
    root = np.hypot(m / 2, c)
    with np.errstate(invalid="ignore", divide="ignore"):
        square = np.where(m >= 0, m / 2 + root, c**2 / (root - m / 2))
    learned = np.moveaxis(np.asarray(alive.any(axis=-1)), -1, 0) & (square > 0)
    basis_first = lambda x: np.moveaxis(x, 1, 0)
    side = np.where(basin_margin(a0, basis_first(inside), basis_first(reach)) < 0, -1.0, 1.0)
    a = np.where(learned, side * np.sqrt(np.where(learned, square, 1.0)), a0)
    B = np.where(learned[:, None], reach / a[:, None] + (B0 - inside), B0)
    return a, B


@implements(NAM24["Eq. B.42"])
def few_shot_loss(count: ArrayLike, needed: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L_k(\infty)=\frac{S^2}2(1-d_k/D_c)$, the mean over draws of the data, for a small start."""
    share = np.minimum(np.asarray(count, dtype=float) / np.asarray(needed), 1.0)
    return np.asarray(np.asarray(target, dtype=float) ** 2 / 2 * (1 - share))


@implements(
    NAM24["Eq. 5.5"].misprint(
        printed="R_k(∞) = S(1 − √(1 − d_k/D_c))",
        right="E R_k(∞) = S d_k/D_c by the definition (4.7); the print inverts L = ½(S − R)², which does not hold "
        "here. It is kept as the effective strength",
        how="300 draws, D_c = 60, d/D_c = .10/.25/.50/.80: R/S = .101/.254/.494/.808, printed .051/.134/.293/.553",
    )
)
def few_shot_strength(count: ArrayLike, needed: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathbf E\mathcal R_k(\infty)=S\min(d_k/D_c,1)$ by definition (4.7), for a small start.

    >>> few_shot_strength([0, 30, 90], 60, 2.0).tolist()
    [0.0, 1.0, 2.0]
    """
    share = np.minimum(np.asarray(count, dtype=float) / np.asarray(needed), 1.0)
    return np.asarray(np.asarray(target, dtype=float) * share)


@implements(
    NAM24["Eq. B.26"].misprint(
        printed="R_k(∞) = S(1 − √(1 − d_k/D_c)), from L_k = ½(S − R_k)²",
        right="E R_k(∞) = S d_k/D_c by the definition (4.7); this is S − √(2L_k), the effective strength",
        how="drawn data, as for Eq. 5.5",
    ),
    role="witness",
)
def effective_strength(count: ArrayLike, needed: ArrayLike, target: ArrayLike) -> Floats:
    r"""$S(1-\sqrt{1-d_k/D_c})$: the strength a multilinear model with the same loss would have (not Eq. 4.7).

    >>> effective_strength([0, 45, 90], 60, 2.0).tolist()
    [0.0, 1.0, 2.0]
    """
    share = np.minimum(np.asarray(count, dtype=float) / np.asarray(needed), 1.0)
    return np.asarray(np.asarray(target, dtype=float) * (1 - np.sqrt(1 - share)))


@implements(NAM24["Eq. 5.6"], NAM24["Eq. 5.7"], NAM24["Eq. B.43"])
def basis_shares(n_basis: ArrayLike, needed: int, n_skills: int) -> Floats:
    r"""How many of its $N_c$ basis functions each skill has when there are N, filled skill by skill: (skill, …).

    >>> basis_shares(6, 4, 3).tolist()
    [4.0, 2.0, 0.0]
    """
    N = np.asarray(n_basis, dtype=float)
    before = needed * np.arange(n_skills, dtype=float).reshape(-1, *(1,) * N.ndim)
    return np.clip(N - before, 0, needed)


@implements(NAM24["Eq. 5.9"], NAM24["Eq. B.44"], NAM24["Eq. B.48"], NAM24["Eq. B.49"])
def basis_strength(n_basis: ArrayLike, needed: int, n_skills: int, target: ArrayLike) -> Floats:
    r"""$\mathcal R_k(\infty)$ with N basis functions: S for k < q, $Sr/N_c$ for k = q, 0 beyond; (skill, …).

    $q=\lfloor(N-1)/N_c\rfloor+1$, $(q-1)N_c+r=N$. The loss is $\frac{S^2}2(1-r/N_c)$, not $\frac12(S-\mathcal R)^2$.

    >>> basis_strength(6, 4, 3, 2.0).tolist()
    [2.0, 1.0, 0.0]
    """
    return np.asarray(np.asarray(target, dtype=float) * basis_shares(n_basis, needed, n_skills) / needed)
