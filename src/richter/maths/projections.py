r"""Features against functions: quality, utilisation, and the distance to the minimum-projection operator.

Functions are arrays (example, component) on a sample; inner products are means over its examples.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from richter.errors import ParameterError, message
from richter.maths.eigenfunctions import Floats, Moments, Spectrum
from richter.refs import NAM24, implements

RANK_FLOOR = 1e-10  # components of a function space below this share of the largest are taken as dependent


@implements(NAM24["Eq. 2.1"], NAM24["Eq. 2.2"])
def class_indicators(labels: ArrayLike, classes: int) -> Floats:
    r"""One-hot targets $f_i^*=\mathbf 1_{A_i}$ (example, class); $\langle f_i|f_j\rangle=\delta_{ij}/C$ if balanced.

    >>> class_indicators([0, 1], 2).tolist()
    [[1.0, 0.0], [0.0, 1.0]]
    """
    given = np.asarray(labels)
    if given.ndim != 1 or given.dtype.kind not in "iu" or (given.size and (given.min() < 0 or given.max() >= classes)):
        got = f"{given.dtype} of shape {given.shape}" if given.dtype.kind not in "iu" or given.ndim != 1 else given
        raise ParameterError(message("the labels", f"be whole numbers from 0 to {classes - 1}, one per example", got))
    return np.eye(classes)[given]


def basis(functions: ArrayLike) -> Floats:
    r"""An orthonormal basis (example, dimension) of the span of functions, E[b_ib_j] = δ_ij, by SVD.

    Works for components that are neither orthogonal nor independent; dependent ones lower the dimension.

    >>> basis([[1.0, 2.0], [1.0, 2.0]]).shape
    (2, 1)
    """
    F = np.asarray(functions, dtype=np.float64)
    F = F[:, None] if F.ndim == 1 else F
    size = np.sqrt((F * F).mean(axis=0))
    F = F[:, size > 0] / size[size > 0]  # a component is one direction, whatever its size
    if F.shape[1] == 0 or not np.isfinite(F).all():
        raise ParameterError(message("the functions to project on", "be finite and not all 0", f"shape {F.shape}"))
    U, s, _ = np.linalg.svd(F, full_matrices=False)
    return U[:, s > RANK_FLOOR * s[0]] * np.sqrt(F.shape[0])


@implements(NAM24["Eq. 2.3"], NAM24["Eq. 1.30"], NAM24["Eq. 1.34"])
def quality(eigenfunctions: ArrayLike, targets: ArrayLike) -> Floats:
    r"""$Q_k^*=\langle e_k|P_{\mathcal H^*}|e_k\rangle/(\dim\mathcal H^*\,\|e_k\|^2)$: the target space's share of e_k.

    For balanced classes this is $\sum_i\langle e_k|f_i^*\rangle^2$; for unbalanced ones, and for regression, the
    projector is kept and the sum over a complete basis stays 1. For one target it is Eq. 1.30 by the sums of
    Eq. 1.34. An e_k that is 0 on the sample: NaN.

    Args:
        eigenfunctions: (example, k).
        targets: (example, component), or (example,).

    >>> quality([[1.0, 1.0], [1.0, -1.0]], [2.0, 2.0]).round(12).tolist()
    [1.0, 0.0]
    """
    e, B = np.asarray(eigenfunctions, dtype=np.float64), basis(targets)
    return _shares(e.T @ B, (e * e).sum(axis=0), e.shape[0], B.shape[1])


@implements(
    NAM24["Eq. 2.5"].misprint(
        printed="Q̂_k = ⟨e_k|P[e_k]⟩²/dim Ĥ, P as in Eq. 2.3",
        right="Q̂_k = ⟨e_k|P[e_k]⟩/dim Ĥ without the square, P = Σ_ij |f̂_i⟩(G⁻¹)_ij⟨f̂_j|",
        how="numerically: only then Π̂(p) = 1 (squared .29), and the f̂_i are not orthogonal",
    ),
    NAM24["Eq. 1.31"],
)
def utilisation(eigenfunctions: ArrayLike, learned: ArrayLike) -> Floats:
    r"""$\hat Q_k=\langle e_k|P_{\hat{\mathcal H}}|e_k\rangle/\dim\hat{\mathcal H}$: the learned share of e_k."""
    return quality(eigenfunctions, learned)


def shares_from_moments(of: Spectrum, test: Moments, columns: slice) -> Floats:
    """Quality or utilisation (k,) from streamed test features, for the functions in `columns` of the targets."""
    F = test.targets[:, columns]
    B = basis(F)
    # B = F T, hence ΦᵀB = (ΦᵀF) T: one pass over the features serves every function.
    T = np.linalg.lstsq(F, B, rcond=RANK_FLOOR)[0]
    root = np.sqrt(of.intensity[: of.meaningful])
    inner = (of.directions.T @ (test.cross[:, columns] @ T)) / root[:, None]
    squares = np.einsum("pk,pk->k", of.directions, test.gram @ of.directions) / root**2
    return _shares(inner, np.maximum(squares, 0.0), test.examples, B.shape[1])


def _shares(inner: Floats, squares: Floats, n: int, dimension: int) -> Floats:
    safe = np.where(squares > 0, squares, 1.0)
    return np.where(squares > 0, (inner**2).sum(axis=1) / (safe * n * dimension), np.nan)


@implements(
    NAM24["Eq. 2.4"].misprint(printed="Π*(k) = Σ_{j≤k} Q*_k", right="Π*(k) = Σ_{j≤k} Q*_j", how="algebra"),
    NAM24["Eq. 1.32"],
)
def cumulative(shares: ArrayLike) -> Floats:
    r"""$\Pi(k)=\sum_{j\le k}Q_j$; features without a share (NaN) add nothing.

    >>> cumulative([0.5, 0.25]).tolist()
    [0.5, 0.75]
    """
    return np.nancumsum(np.asarray(shares, dtype=np.float64), axis=-1)


@implements(NAM24["Eq. 2.8"], NAM24["Definition 1"])
def minimum_projection(learned: ArrayLike, a1: float, a2: float) -> Floats:
    r"""$\mathcal T_{MP}=a_1|\mathbf1\rangle\langle\mathbf1|+a_2P_{\hat{\mathcal H}}$ as a kernel (example, example).

    The operator is $\mathcal T[u]=\frac1n\sum_{x'}K(x,x')u(x')$; its eigenvalue on **1** is a₁ + a₂ if 1 ∈ Ĥ.
    """
    B = basis(learned)
    return a1 + a2 * (B @ B.T)


@implements(NAM24["Eq. 2.9"], NAM24["Definition 2"])
def minimum_projection_distance(features: ArrayLike, learned: ArrayLike) -> float:
    r"""$\kappa_{CKA}=1-\mathrm{Tr}(c(\mathcal T)c(\mathcal T_{MP}))/(\|c(\mathcal T)\|_F\|c(\mathcal T_{MP})\|_F)$.

    Independent of a₁, a₂ in Eq. 2.8. With 1 ∈ Ĥ the centred projector has rank C − 1; without, the projector is
    centred as it stands. Features or functions that are constant on the sample: NaN.

    Args:
        features: Φ (example, feature).
        learned: the network's outputs (example, class).

    >>> round(minimum_projection_distance(np.eye(3), np.eye(3)), 12)
    0.0
    """
    phi = np.asarray(features, dtype=np.float64)
    phi = phi - phi.mean(axis=0)
    B = basis(learned)
    B = B - B.mean(axis=0)
    if phi.shape[1] > phi.shape[0]:
        phi = np.asarray(np.linalg.qr(phi.T, mode="r")).T  # the same kernel from as many features as examples
    return _distance(phi.T @ phi, phi.T @ B, B.T @ B)


def minimum_projection_distance_from_moments(test: Moments, columns: slice) -> float:
    """The same from streamed features, centred after the fact."""
    F = test.targets[:, columns]
    B = basis(F)
    T = np.linalg.lstsq(F, B, rcond=RANK_FLOOR)[0]
    n, centre = test.examples, B.mean(axis=0)
    gram = test.gram - n * np.outer(test.mean, test.mean)
    return _distance(gram, test.cross[:, columns] @ T - n * np.outer(test.mean, centre), (B - centre).T @ (B - centre))


def _distance(gram: Floats, cross: Floats, other: Floats) -> float:
    size = np.linalg.norm(gram) * np.linalg.norm(other)
    return float(1 - (cross**2).sum() / size) if size > 0 else float("nan")


@implements(
    NAM24["Eq. 2.15"],
    NAM24["Eq. 2.16"],
    NAM24["Eq. 2.17"],
    NAM24["Eq. 2.18"].misprint(
        printed="μ_iᵀμ_j = ⟨f̂_i|T[f̂_j]⟩", right="μ_iᵀμ_j = C²⟨f̂_i|T[f̂_j]⟩, as in Eq. D.17", how="numerically"
    ),
    NAM24["Eq. D.14"],
    NAM24["Eq. D.17"],
)
def class_mean_products(kernel: ArrayLike, indicators: ArrayLike) -> Floats:
    r"""$\mu_i^T\mu_j=C^2\langle f_i|\mathcal T[f_j]\rangle$ (class, class) from the kernel alone; balanced classes.

    For classes of any size $C\,f_i$ stands for $f_i/\mathbf E[f_i]$.
    """
    f = np.asarray(indicators, dtype=np.float64)
    weight = f / f.sum(axis=0)
    return weight.T @ np.asarray(kernel, dtype=np.float64) @ weight


@implements(
    NAM24["Proposition 2.5.3"],
    NAM24["Eq. 2.19"].misprint(
        printed="⟨C f̂_i|T_MP[C f̂_j − 1]⟩ = a₂(δ_ij − 1/C)",
        right="⟨C f̂_i|T_MP[C f̂_j − 1]⟩ = a₂(C δ_ij − 1), as in Eq. D.12",
        how="numerically; the print is smaller by C",
    ),
    NAM24["Eq. D.12"],
    NAM24["Eq. D.23"],
)
def collapsed_products(classes: int, a2: float) -> Floats:
    r"""$(\mu_i-\mu_g)^T(\mu_j-\mu_g)=a_2(C\delta_{ij}-1)$ under the minimum-projection operator: a simplex.

    >>> collapsed_products(2, 0.5).tolist()
    [[0.5, -0.5], [-0.5, 0.5]]
    """
    return a2 * (classes * np.eye(classes) - 1)
