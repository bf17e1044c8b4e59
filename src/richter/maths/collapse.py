r"""Neural collapse: how near the features of the last layer are to C points that form a simplex.

Features h are arrays (example, feature); the global mean is the mean of the class means (NAM24 Eq. D.3), so that
large classes weigh no more in it than small ones.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Classes:
    """Features sorted into classes."""

    features: Floats  # (example, feature)
    labels: Ints  # (example,), 0 to C − 1
    means: Floats  # μ_i (class, feature)
    centre: Floats  # μ_g (feature,)
    counts: Ints  # examples per class

    @property
    def centred(self) -> Floats:
        """μ_i − μ_g (class, feature)."""
        return self.means - self.centre

    @property
    def within(self) -> Floats:
        """h − μ of its class (example, feature)."""
        return self.features - self.means[self.labels]

    @property
    def imbalance(self) -> float:
        """The largest class over the smallest; 1 for balanced classes."""
        return float(self.counts.max() / self.counts.min())


@implements(NAM24["Eq. D.2"], NAM24["Eq. D.3"])
def sort_into_classes(features: ArrayLike, labels: ArrayLike) -> Classes:
    r"""Class means $\mu_i$ and their mean $\mu_g$; any hashable whole-number labels, at least two classes.

    >>> sort_into_classes([[0.0], [2.0], [4.0]], [7, 7, 9]).means.tolist()
    [[1.0], [4.0]]
    """
    h = np.asarray(features, dtype=np.float64)
    y = np.asarray(labels)
    if h.ndim != 2 or not h.size or not np.isfinite(h).all():
        got = f"shape {h.shape}" if h.ndim != 2 or not h.size else "NaN or ∞"
        raise ParameterError(message("the features", "be finite numbers (example, feature)", got))
    if y.shape != h.shape[:1] or y.dtype.kind not in "iub":
        must = f"be {h.shape[0]} whole numbers, one per example"
        raise ParameterError(message("the labels", must, f"{y.dtype} of shape {y.shape}"))
    names, index = np.unique(y, return_inverse=True)
    if names.size < 2:
        raise ParameterError(message("the labels", "name at least two classes", f"only class {names[0]}"))
    counts = np.bincount(index)
    # A sum over sorted examples instead of a matrix product: one pass, no (example, class) array.
    order = np.argsort(index, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    means = np.add.reduceat(h[order], starts, axis=0) / counts[:, None]
    return Classes(h, index.astype(np.int64), means, means.mean(axis=0), counts)


@implements(NAM24["Eq. D.4"])
def within_scatter(of: Classes) -> Floats:
    r"""$\Sigma_W=\frac1n\sum_i\sum_{x\in A_i}(h-\mu_i)(h-\mu_i)^T$ (feature, feature)."""
    return of.within.T @ of.within / of.features.shape[0]


@implements(NAM24["Eq. D.5"])
def between_scatter(of: Classes) -> Floats:
    r"""$\Sigma_B=\frac1C\sum_i(\mu_i-\mu_g)(\mu_i-\mu_g)^T$ (feature, feature)."""
    return of.centred.T @ of.centred / of.means.shape[0]


@implements(
    NAM24["Eq. D.6"].misprint(
        printed="Σ_W Σ_bᵀ → 0",
        right="Tr(Σ_W Σ_b⁺)/C → 0 with the pseudo-inverse, as in the papers it is taken from",
        how="the transpose of a symmetric matrix says nothing; Prop. 2.5.1 proves Tr(Σ_W Σ_b) = 0 only",
    )
)
def within_over_between(of: Classes) -> float:
    r"""NC1: $\mathrm{Tr}(\Sigma_W\Sigma_B^+)/C$, without a (feature, feature) matrix; NaN if all class means agree.

    >>> within_over_between(sort_into_classes([[0.0], [0.0], [4.0]], [0, 0, 1]))
    0.0
    """
    C = of.means.shape[0]
    _, s, right = np.linalg.svd(of.centred, full_matrices=False)
    # Centring leaves rounding of the size of the means, not of their differences.
    floor = max(of.means.shape) * np.finfo(float).eps * float(np.abs(of.means).max(initial=0.0)) * np.sqrt(C)
    real = s > max(floor, s[0] * 1e-12)
    if not real.any():
        return float("nan")
    inside = (of.within @ right[real].T) / s[real]
    return float((inside**2).sum() / of.features.shape[0])  # Σ_B⁺ = C V s⁻² Vᵀ, and the C cancels


def within_quotient(of: Classes) -> float:
    r"""$\mathrm{Tr}\,\Sigma_W/\mathrm{Tr}\,\Sigma_B$, the cheap relative of NC1; ∞ or NaN if all class means agree."""
    within = float((of.within**2).sum() / of.features.shape[0])
    between = float((of.centred**2).sum() / of.means.shape[0])
    return within / between if between > 0 else (float("inf") if within > 0 else float("nan"))


@implements(NAM24["Proposition 2.5.1"], NAM24["Eq. 2.10"], NAM24["Eq. D.24"], NAM24["Eq. D.34"])
def within_times_between(of: Classes) -> float:
    r"""$\mathrm{Tr}(\Sigma_W\Sigma_B)/(\mathrm{Tr}\,\Sigma_B)^2$: the spread in the directions of the class means.

    The sums of Eq. 2.10 without their units. It is 0 also for features whose spread is across the class means;
    equal class means: NaN.
    """
    n, C = of.features.shape[0], of.means.shape[0]
    between = float((of.centred**2).sum() / C)
    product = float(((of.within @ of.centred.T) ** 2).sum() / (n * C))
    return product / between**2 if between > 0 else float("nan")


@implements(NAM24["Eq. D.7"], NAM24["Eq. 2.11"], NAM24["Proposition 2.5.2"])
def cosines(of: Classes) -> Floats:
    r"""NC2: cosines (class, class) of $\mu_i-\mu_g$; a simplex has 1 and −1/(C − 1). A mean at the centre: NaN."""
    size = np.linalg.norm(of.centred, axis=1)
    unit = of.centred / np.where(size > 0, size, np.nan)[:, None]
    return unit @ unit.T


def equiangle(of: Classes) -> float:
    r"""NC2, angles: the largest $|\cos_{ij}+\frac1{C-1}|$ over i ≠ j."""
    C = of.means.shape[0]
    return float(np.abs(cosines(of) + 1 / (C - 1))[~np.eye(C, dtype=bool)].max())


def equinorm(of: Classes) -> float:
    r"""NC2, lengths: standard deviation of $\|\mu_i-\mu_g\|$ over its mean."""
    size = np.linalg.norm(of.centred, axis=1)
    return float(size.std() / size.mean()) if size.mean() > 0 else float("nan")


@implements(NAM24["Eq. D.8"])
def duality_gap(of: Classes, weight: ArrayLike) -> Floats:
    r"""NC3: $\big\|\frac{w_i}{\|w_i\|}-\frac{\mu_i-\mu_g}{\|\mu_i-\mu_g\|}\big\|$ per class, 0 to 2.

    Args:
        of: classes.
        weight: the last layer (class, feature).
    """
    w = _weight(of, weight)
    sizes = np.linalg.norm(w, axis=1), np.linalg.norm(of.centred, axis=1)
    unit = [x / np.where(s > 0, s, np.nan)[:, None] for x, s in zip((w, of.centred), sizes, strict=True)]
    return np.linalg.norm(unit[0] - unit[1], axis=1)


@implements(
    NAM24["Eq. D.9"].misprint(printed="arg max_i w_iΦ(x) + b_i", right="arg max_i w_iᵀΦ(x) + b_i", how="shapes")
)
def disagreement(of: Classes, weight: ArrayLike, bias: ArrayLike | None = None) -> float:
    r"""NC4: the share of examples whose nearest class mean is not the class of the largest output."""
    w = _weight(of, weight)
    b = np.zeros(w.shape[0]) if bias is None else np.asarray(bias, dtype=np.float64)
    said = (of.features @ w.T + b).argmax(axis=1)
    # Distances from the centre: ‖h‖² is the same for all classes and is left out.
    h = of.features - of.centre
    nearest = ((of.centred**2).sum(axis=1) / 2 - h @ of.centred.T).argmin(axis=1)
    return float((said != nearest).mean())


def _weight(of: Classes, weight: ArrayLike) -> Floats:
    w = np.asarray(weight, dtype=np.float64)
    shape = of.means.shape
    if w.shape != shape:
        advice = "Every class of the last layer needs examples; a layer stored as (feature, class) is transposed."
        raise ParameterError(message("the weight of the last layer", f"have the shape {shape}", f"{w.shape}", advice))
    return w
