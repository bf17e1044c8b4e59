"""Skill strength with its standard error."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SkillStrength:
    """R_k per skill, its standard error, and on how many examples it rests."""

    value: Floats
    error: Floats
    examples: NDArray[np.int64]


def skill_strength(outputs: ArrayLike, basis: ArrayLike, skill: ArrayLike | None = None) -> SkillStrength:
    r"""$R_k=\mathbf E_X[g_k(k,X)f(k,X)]$ (NAM24 Eq. 4.7): the mean over examples of skill k, and its standard error.

    Fewer than two examples of a skill: its error is NaN; none: its strength too.

    Args:
        outputs: f (example,).
        basis: g_k, (example,) if `skill` says which k an example belongs to, else (example, skill).
        skill: k of each example, from 0; without it every example counts for every skill.

    >>> made = skill_strength([2.0, -2.0, 1.0], [1.0, -1.0, 1.0], [0, 0, 1])
    >>> made.value.tolist(), made.error.tolist(), made.examples.tolist()
    ([2.0, 1.0], [0.0, nan], [2, 1])
    """
    f, g = (np.asarray(x, dtype=np.float64) for x in (outputs, basis))
    if f.ndim == 2 and f.shape[1] == 1:
        f = f[:, 0]
    want = f.shape if skill is not None else f.shape[:1]
    if f.ndim != 1 or not f.size or g.shape[: len(want)] != want or g.ndim > 2:
        shapes = f"shapes {f.shape} and {g.shape}"
        raise ParameterError(message("the outputs and the basis", "share their examples, one output each", shapes))
    if not (np.isfinite(f).all() and np.isfinite(g).all()):
        raise ParameterError(message("the outputs and the basis", "be finite", "NaN or ∞"))
    if skill is None:
        product = f[:, None] * (g[:, None] if g.ndim == 1 else g)
        n = np.full(product.shape[1], f.size)
        mean = product.mean(axis=0)
        spread = ((product - mean) ** 2).sum(axis=0)
    else:
        k = np.asarray(skill)
        if k.shape != f.shape or k.dtype.kind not in "iu" or k.min() < 0:
            raise ParameterError(
                message("`skill`", "be a whole number ≥ 0 per example", f"{k.dtype} of shape {k.shape}")
            )
        n = np.bincount(k)
        mean = np.bincount(k, f * g) / np.where(n > 0, n, np.nan)
        spread = np.bincount(k, (f * g - mean[k]) ** 2)
    many = np.where(n > 1, n, 2)
    return SkillStrength(mean, np.where(n > 1, np.sqrt(spread / (many - 1) / many), np.nan), n.astype(np.int64))
