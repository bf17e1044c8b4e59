r"""Skills of the multitask sparse parity problem: how often each occurs, what it computes, how well it is learned.

Skill k = 1, 2, … occurs with frequency $\mathcal P_s(k)\propto k^{-(\alpha+1)}$; arrays hold it at index k − 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.skill_sums import power_sum
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
Ints = NDArray[np.integer]


def zipf_constant(alpha: ArrayLike, n_skills: float = np.inf) -> Floats:
    r"""$A=1/\sum_{j\le n_s}j^{-(\alpha+1)}$; $1/\zeta(\alpha+1)$ for endlessly many skills.

    >>> float(zipf_constant(1.0).round(6)), float(zipf_constant(1.0, 2))
    (0.607927, 0.8)
    """
    return 1 / power_sum(np.asarray(alpha, dtype=float) + 1, 1, n_skills)


@implements(NAM24["Eq. 4.1"])
def skill_frequencies(alpha: ArrayLike, n_skills: int) -> Floats:
    r"""$\mathcal P_s(k)=Ak^{-(\alpha+1)}$, (skill, …) with the axes of `alpha` behind.

    >>> skill_frequencies(1.0, 2).tolist()
    [0.8, 0.2]
    """
    exponent = np.asarray(alpha, dtype=float) + 1
    k = np.arange(1.0, n_skills + 1).reshape(-1, *(1,) * exponent.ndim)
    return zipf_constant(exponent - 1, n_skills) * k**-exponent


@implements(NAM24["Eq. 4.2"])
def own_parity(skill: Ints, bits: Ints, positions: Ints) -> Floats:
    r"""$(-1)^{\sum_jM_j(i,x)}$, the parity of the sparse bits of each example's own skill, (example,).

    Args:
        skill: index i − 1 of each example's skill, (example,).
        bits: skill bits 0 or 1, (example, bit).
        positions: sparse bits of each skill, (skill, sparse).

    >>> own_parity(np.array([0, 1]), np.array([[1, 1, 0], [1, 1, 0]]), np.array([[0, 1], [1, 2]])).tolist()
    [1.0, -1.0]
    """
    picked = np.take_along_axis(bits, positions[skill], axis=1)
    return 1.0 - 2.0 * (picked.sum(axis=1) % 2)


@implements(NAM24["Eq. 4.3"])
def skill_functions(skill: Ints, bits: Ints, positions: Ints) -> Floats:
    r"""$g_k(i,x)$ of every skill, (skill, example): the own parity at k = i, 0 elsewhere, so $g_kg_{k'}=\delta$.

    >>> skill_functions(np.array([1]), np.array([[1, 0, 0]]), np.array([[0], [1]])).tolist()
    [[0.0], [1.0]]
    """
    made = np.zeros((len(positions), len(skill)))
    made[skill, np.arange(len(skill))] = own_parity(skill, bits, positions)
    return made


@implements(NAM24["Eq. 4.4"])
def parity_target(skill: Ints, bits: Ints, positions: Ints, target: float = 1.0) -> Floats:
    r"""$f^*(i,x)=S\sum_kg_k(i,x)$, whose mean square is S²."""
    return target * own_parity(skill, bits, positions)


@implements(NAM24["Eq. 4.7"])
def skill_strengths(outputs: ArrayLike, skill: Ints, parity: Floats, n_skills: int) -> tuple[Floats, Floats]:
    r"""$\mathcal R_k=\mathbf E_X[g_k(k,X)f(k,X)]$ from a sample, and its standard error, both (…, skill).

    NaN where a skill has no example, and for the error where it has one only.

    Args:
        outputs: the model's outputs, (…, example).
        skill: index k − 1 of each example's skill.
        parity: the own parity of each example.
        n_skills: their number.
    """
    values = np.asarray(outputs, dtype=float) * parity
    member = np.zeros((len(skill), n_skills))
    member[np.arange(len(skill)), skill] = 1.0
    count = member.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        mean = values @ member / count
        off = (values - np.nan_to_num(mean)[..., skill]) ** 2
        error = np.sqrt(off @ member / np.where(count > 1, count - 1, np.nan) / count)
    return mean, error


@implements(NAM24["Eq. 4.8"])
def skill_loss(strength: ArrayLike, square: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L_k=\tfrac12(S^2+\mathbf E_X[f(k,X)^2]-2S\mathcal R_k)$ of any model."""
    S = np.asarray(target, dtype=float)
    return np.asarray((S * S + np.asarray(square) - 2 * S * np.asarray(strength)) / 2)


@implements(NAM24["Eq. 4.10"])
def aligned_skill_loss(strength: ArrayLike, target: ArrayLike) -> Floats:
    r"""$\mathcal L_k=\tfrac12(S-\mathcal R_k)^2$, where the model's function of skill k is $\mathcal R_kg_k$."""
    return np.asarray((np.asarray(target, dtype=float) - np.asarray(strength)) ** 2 / 2)


@implements(NAM24["Eq. 4.5"], NAM24["Eq. 4.6"])
def total_loss(frequency: Floats, losses: Floats) -> Floats:
    r"""$\mathcal L=\tfrac12\mathbf E(f^*-f)^2=\sum_k\mathcal P_s(k)\mathcal L_k$ over the first axis."""
    return np.asarray((frequency * losses).sum(axis=0))
