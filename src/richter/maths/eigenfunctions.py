r"""Eigenfunctions of a feature map, read off samples: intensities, empirical eigenfunctions, effective dimensions.

Features are arrays (example, feature). Inner products are means over examples, ⟨f|g⟩ = E[f g].
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
Method = Literal["auto", "gram", "svd"]
# Below this share of the largest intensity the eigenvalues of a float64 Gram matrix are rounding.
GRAM_FLOOR = 1e-14
SVD_WORK = 2e9  # multiplications that a second, exact look at the tail may cost


@implements(NAM24["Eq. 1.16"])
def effective_dimension(weights: ArrayLike) -> Floats:
    r"""$D_{eff}=\exp(-\sum_ip_i\ln p_i)$, $p=\rho/\sum\rho$, over the last axis; 0 ln 0 = 0; all zero: NaN.

    >>> float(effective_dimension([3.0, 3.0, 0.0]).round(12))
    2.0
    """
    rho = np.asarray(weights, dtype=np.float64)
    if rho.size == 0 or not (np.isfinite(rho).all() and (rho >= 0).all()):
        got = "nothing" if rho.size == 0 else float(rho.min() if np.isfinite(rho).all() else np.nan)
        raise ParameterError(message("the weights of an effective dimension", "be finite and ≥ 0", got))
    peak = rho.max(axis=-1, keepdims=True)
    scaled = rho / np.where(peak > 0, peak, 1.0)  # sums of tiny or huge numbers neither vanish nor overflow
    total = scaled.sum(axis=-1, keepdims=True)
    p = scaled / np.where(total > 0, total, 1.0)
    entropy = -(p * np.log(np.where(p > 0, p, 1.0))).sum(axis=-1)
    return np.where(peak[..., 0] > 0, np.exp(entropy), np.nan)


@implements(NAM24["Eq. 2.6"])
def effective_dimension_of_intensity(intensity: ArrayLike) -> Floats:
    r"""$D_{eff}(\rho)=1+D_{eff}([\rho_2,\dots,\rho_p])$: the first feature, nearly constant, counts as one.

    Intensities in falling order on the last axis. Nothing beyond the first: 1; all zero: NaN.

    >>> float(effective_dimension_of_intensity([100.0, 1.0, 1.0, 0.0]).round(12))
    3.0
    """
    rho = np.asarray(intensity, dtype=np.float64)
    whole = effective_dimension(rho)
    if rho.shape[-1] == 1:
        return np.where(np.isnan(whole), np.nan, 1.0)
    rest = effective_dimension(rho[..., 1:])
    return np.where(np.isnan(whole), np.nan, 1.0 + np.where(np.isnan(rest), 0.0, rest))


@dataclass(frozen=True)
class Moments:
    """What a sample of features leaves behind when it streams past: nothing grows with the examples but `targets`."""

    gram: Floats  # Σ ΦΦᵀ (feature, feature)
    total: Floats  # Σ Φ (feature,)
    cross: Floats  # Σ Φ Yᵀ (feature, target)
    targets: Floats  # Y (example, target)
    examples: int

    @property
    def mean(self) -> Floats:
        """The mean feature vector."""
        return self.total / self.examples


def moments(chunks: Iterable[tuple[ArrayLike, ArrayLike]]) -> Moments:
    """Sums over a stream of (features, targets) chunks in float64; the features are never held whole.

    >>> m = moments([(np.eye(2), np.ones((2, 1))), (np.ones((1, 2)), np.ones((1, 1)))])
    >>> m.gram.tolist(), m.cross.tolist(), m.examples
    ([[2.0, 1.0], [1.0, 2.0]], [[2.0], [2.0]], 3)
    """
    gram = total = cross = None
    kept: list[Floats] = []
    for rows, aims in chunks:
        phi, y = _matrix(rows, "the features"), _matrix(aims, "the targets")
        if phi.shape[0] != y.shape[0]:
            must = f"have one row per example, {phi.shape[0]}"
            raise ParameterError(message("the targets of the features", must, f"shape {y.shape}"))
        if gram is None or total is None or cross is None:
            gram, total, cross = phi.T @ phi, phi.sum(axis=0), phi.T @ y
        else:
            gram += phi.T @ phi
            total += phi.sum(axis=0)
            cross += phi.T @ y
        kept.append(y)
    if gram is None or total is None or cross is None:
        raise ParameterError(message("the features", "have at least one example", "none"))
    targets = np.concatenate(kept)
    return Moments(gram, total, cross, targets, targets.shape[0])


def _matrix(values: ArrayLike, what: str) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    array = array[:, None] if array.ndim == 1 else array
    if array.ndim != 2 or array.size == 0:
        raise ParameterError(message(what, "be an array (example, feature)", f"shape {array.shape}"))
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        raise ParameterError(message(what, "be finite", f"{bad} of {array.size} entries that are not"))
    return array


@dataclass(frozen=True)
class Spectrum:
    """Intensities ρ_k in falling order and the directions u_k (feature, k) of the meaningful ones."""

    intensity: Floats
    directions: Floats
    floor: float  # intensities below are rounding

    @property
    def meaningful(self) -> int:
        """How many intensities, from the largest, are more than rounding; only these have an eigenfunction."""
        return self.directions.shape[1]


@implements(
    NAM24["Algorithm 1"].misprint(
        printed="ρ_k ← s_k², e_k(x) ← u_kᵀΦ(x)/s_k",
        right="ρ_k = s_k²/n, e_k(x) = √n u_kᵀΦ(x)/s_k, so that E[e_k²] = 1",
        how="numerically: printed E[e_k²] = 1/n; a map with known ρ",
    )
)
def spectrum(gram: ArrayLike, examples: int) -> Spectrum:
    r"""$\rho_k=s_k^2/n$ and $u_k$ from $\sum\Phi\Phi^T$ (feature, feature) over n examples.

    Features that are always zero are set aside first. Intensities below 1e-14 of the largest are rounding.

    >>> s = spectrum(np.diag([4.0, 16.0, 0.0]), 4)
    >>> s.intensity.tolist(), s.meaningful
    ([4.0, 1.0, 0.0], 2)
    """
    G = np.asarray(gram, dtype=np.float64)
    p = G.shape[0]
    alive = np.flatnonzero(np.diag(G) > 0)
    if alive.size == 0:
        raise ParameterError(message("the features", "not all be 0", f"{p} features that are 0 on every example"))
    from scipy.linalg import eigh

    mean = (G if alive.size == p else G[np.ix_(alive, alive)]) / examples
    # Symmetric: its transpose is it, in LAPACK's order, so that nothing is copied.
    values, vectors = eigh(mean.T, driver="evd", check_finite=False, overwrite_a=True)
    rho = np.zeros(p)
    rho[: alive.size] = np.maximum(values[::-1], 0.0)
    floor = GRAM_FLOOR * rho[0]
    count = min(int((rho > floor).sum()), examples)
    directions = vectors[:, ::-1][:, :count]
    if alive.size < p:
        whole = np.zeros((p, count))
        whole[alive] = directions
        directions = whole
    return Spectrum(rho, directions, floor)


def spectrum_of_features(
    features: ArrayLike, method: Method = "auto", gram: Floats | None = None, work: float = SVD_WORK
) -> Spectrum:
    r"""The spectrum of features (example, feature) that are held whole.

    "auto" takes the Gram matrix and turns to the singular values, good to 1e-30 of the largest intensity, when
    the Gram matrix' tail is rounding and they cost less than `work` multiplications, or when there are fewer
    examples than features. `gram`: Σ ΦΦᵀ, if it is at hand.

    >>> float(spectrum_of_features(np.array([[1.0], [-1.0]])).intensity[0])
    1.0
    """
    phi = _matrix(features, "the features")
    n, p = phi.shape
    if method not in ("auto", "gram", "svd"):
        raise ParameterError(message("`method`", 'be "auto", "gram" or "svd"', method))
    if not phi.any():
        raise ParameterError(message("the features", "not all be 0", f"{p} features that are 0 on every example"))
    if method == "gram" or (method == "auto" and n >= p):
        found = spectrum(phi.T @ phi if gram is None else gram, n)
        rank = int((np.abs(phi).max(axis=0) > 0).sum())
        if method == "gram" or found.meaningful == rank or n * p * min(n, p) > work:
            return found
    _, s, right = np.linalg.svd(phi, full_matrices=False)
    rho = np.zeros(p)
    rho[: s.size] = s**2 / n
    edge = np.finfo(float).eps * np.sqrt(max(n, p)) * s[0]  # rounding of a singular value
    count = int((s > edge).sum())
    return Spectrum(rho, right[:count].T, float(edge**2 / n))


@implements(
    NAM24["Eq. 1.33"].misprint(
        printed="e_k(x) ≈ u_kᵀΦ(x)/s_k",
        right="e_k(x) = √n u_kᵀΦ(x)/s_k = u_kᵀΦ(x)/√ρ_k, so that E[e_k²] = 1",
        how="numerically: printed E[e_k²] = 1/n; ratios (1.34) do not change, absolute ρ and quality (2.3) do",
    )
)
def eigenfunctions(of: Spectrum, features: ArrayLike, count: int | None = None) -> Floats:
    r"""$e_k(x)=u_k^T\Phi(x)/\sqrt{\rho_k}$ (example, k) on any examples, for the first `count` meaningful k.

    >>> phi = np.array([[3.0], [-3.0]])
    >>> np.abs(eigenfunctions(spectrum_of_features(phi), phi)).tolist()
    [[1.0], [1.0]]
    """
    phi = _matrix(features, "the features")
    k = of.meaningful if count is None else min(count, of.meaningful)
    return (phi @ of.directions[:, :k]) / np.sqrt(of.intensity[:k])


def in_chunks(features: ArrayLike, targets: ArrayLike, size: int) -> Iterator[tuple[Floats, Floats]]:
    """Arrays as a stream of chunks of `size` examples."""
    phi, y = _matrix(features, "the features"), _matrix(targets, "the targets")
    for start in range(0, phi.shape[0], size):
        yield phi[start : start + size], y[start : start + size]
