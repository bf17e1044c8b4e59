r"""Kernel matrices on plain arrays: distance, alignment, effective rank.

A kernel is an array (example, example, …) whose further axes are outputs, so that a full kernel is (n, n, C, C) and
one summed over outputs (n, n). Inner products are sums over all entries.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


def as_kernel(values: ArrayLike, name: str = "the kernel") -> Floats:
    """A kernel as float64, if it is finite and has at least two axes."""
    K = np.asarray(values, dtype=np.float64)
    if K.ndim < 2:
        raise ParameterError(message(name, "be an array (example, example, …)", f"shape {K.shape}"))
    if not np.isfinite(K).all():
        raise ParameterError(message(name, "be finite", f"{int((~np.isfinite(K)).sum())} of {K.size} that are not"))
    return K


def square(values: ArrayLike, name: str = "the kernel") -> Floats:
    """A kernel between the same examples on both sides."""
    K = as_kernel(values, name)
    if K.shape[0] != K.shape[1]:
        raise ParameterError(message(name, "be square in its examples", f"shape {K.shape}", "Leave out x2."))
    return K


def cosine_distance(K: ArrayLike, K0: ArrayLike) -> float:
    r"""$S=1-\langle K_0,K\rangle/(\|K_0\|\|K\|)$, without the cancellation; NaN if one of them is 0.

    >>> cosine_distance(np.eye(2), 3 * np.eye(2)), round(cosine_distance(np.eye(2), 1 - np.eye(2)), 12)
    (0.0, 1.0)
    """
    a, b = as_kernel(K), as_kernel(K0)
    if a.shape != b.shape:
        raise ParameterError(message("the two kernels", "have one shape", f"{a.shape} and {b.shape}"))
    # In units of each one's largest entry, so that nothing over- or underflows.
    sizes = [float(np.abs(x).max(initial=0.0)) for x in (a, b)]
    if min(sizes) == 0:
        return float("nan")
    a, b = a / sizes[0], b / sizes[1]
    norms = [float(np.linalg.norm(x)) for x in (a, b)]
    return 0.5 * float(np.sum((a / norms[0] - b / norms[1]) ** 2))


def distance_from_sums(now: float, gap: float, growth: float, clipped: bool = True) -> float:
    r"""The same distance from streamed sums: $\|K\|^2$, $\|K-K_0\|^2$ and $\langle K-K_0,K+K_0\rangle$.

    $2\|K\|\|K_0\|S=\|K-K_0\|^2-(\|K\|-\|K_0\|)^2$, in which no large numbers cancel. NaN if one of them is 0.
    Sums that are estimates may give less than 0, unless that is `clipped`.

    >>> distance_from_sums(9.0, 4.0, 8.0)
    0.0
    """
    before = now - growth
    if not (now > 0 and before > 0):
        return float("nan")
    norms = np.sqrt(now), np.sqrt(before)
    turned = gap - (growth / (norms[0] + norms[1])) ** 2
    return float((max(turned, 0.0) if clipped else turned) / (2 * norms[0] * norms[1]))


def centred(K: ArrayLike) -> Floats:
    r"""$HKH$ with $H=I-\frac1n\mathbf 1\mathbf 1^T$ over the examples, output by output."""
    whole = square(K)
    rows = whole - whole.mean(axis=0, keepdims=True)
    return np.asarray(rows - rows.mean(axis=1, keepdims=True))


def alignment(K: ArrayLike, L: ArrayLike, debiased: bool = False) -> float:
    r"""Centred kernel alignment (CKA): $\langle HKH,HLH\rangle/(\|HKH\|\|HLH\|)$; NaN if one does not vary.

    The plain one is above 0 even for independent kernels of few examples; the debiased one is
    $\mathrm{HSIC}_1(K,L)/\sqrt{\mathrm{HSIC}_1(K,K)\,\mathrm{HSIC}_1(L,L)}$ with the unbiased estimator over distinct
    examples (products of entries become sums over the outputs' axes). It may be negative, and is NaN if a self-term
    is not positive. It needs at least 4 examples.

    >>> x = np.arange(5.0)
    >>> round(alignment(np.outer(x, x), 2 * np.outer(x, x) + 7), 12)
    1.0
    """
    a, b = square(K), square(L)
    if a.shape != b.shape:
        raise ParameterError(message("the two kernels", "have one shape", f"{a.shape} and {b.shape}"))
    a, b = (x / peak if (peak := np.abs(x).max(initial=0.0)) > 0 else x for x in (a, b))
    if debiased:
        if a.shape[0] < 4:
            raise ParameterError(message("the debiased alignment", "have at least 4 examples", a.shape[0]))
        aa, bb, ab = _hsic(a, a), _hsic(b, b), _hsic(a, b)
    else:
        a, b = centred(a), centred(b)
        aa, bb, ab = (float((x * y).sum()) for x, y in ((a, a), (b, b), (a, b)))
    # What is left of a constant kernel is rounding, which must not be divided by.
    floor = (np.finfo(float).eps * a.shape[0]) ** 2
    return ab / float(np.sqrt(aa) * np.sqrt(bb)) if aa > floor and bb > floor else float("nan")


def _hsic(K: Floats, L: Floats) -> float:
    n, own = K.shape[0], np.arange(K.shape[0])
    K, L = K.copy(), L.copy()
    K[own, own], L[own, own] = 0.0, 0.0
    sides = [[x.sum(axis=1), x.sum(axis=0)] for x in (K, L)]
    over = [[float((k * l).sum()) for l in sides[1]] for k in sides[0]]
    whole = float((sides[0][0].sum(axis=0) * sides[1][0].sum(axis=0)).sum())
    return unbiased_hsic(n, float((K * L).sum()), float((K * L.swapaxes(0, 1)).sum()), over, whole)


def unbiased_hsic(n: int, product: float, turned: float, over: Sequence[Sequence[float]], whole: float) -> float:
    r"""The mean of $K_{ab}(L_{ab}+L_{cd}-L_{ac}-L_{db})$ over distinct examples a, b, c, d.

    For output pairs (i, j), i ≠ j, a kernel is not symmetric in its examples, and the usual formula has a bias.

    Args:
        n: examples.
        product: $\langle K,L\rangle$, the diagonals left out, here and below.
        turned: $\langle K,L^T\rangle$ with the examples exchanged.
        over: products of [row, column] sums of K with [row, column] sums of L.
        whole: of both sums over all.
    """
    same, across = over[0][0] + over[1][1], over[0][1] + over[1][0]
    tuples = (n * n - 3 * n + 1) * product + turned - (n - 2) * same - across + whole
    return tuples / (n * (n - 1) * (n - 2) * (n - 3))


def as_matrix(K: ArrayLike) -> Floats:
    """A kernel as one symmetric matrix: (n, n) as it is, (n, n, C, C) as (n·C, n·C), a diagonal one block by block."""
    k = square(K)
    n = k.shape[0]
    if k.ndim == 4:
        return np.asarray(k.transpose(0, 2, 1, 3).reshape(n * k.shape[2], n * k.shape[3]))
    if k.ndim == 3:
        return np.asarray(k.transpose(2, 0, 1))
    return k


def eigenvalues(K: ArrayLike) -> Floats:
    """The eigenvalues of a kernel, largest first."""
    matrix = as_matrix(K)
    found = np.linalg.eigvalsh((matrix + np.swapaxes(matrix, -1, -2)) / 2).ravel()
    return np.asarray(np.sort(found)[::-1])


def effective_rank(K: ArrayLike) -> float:
    r"""$\exp(-\sum_ip_i\ln p_i)$ of the eigenvalues' shares $p_i$, from 1 to their number; NaN for a kernel of 0.

    >>> round(effective_rank(np.eye(3)), 12)
    3.0
    """
    values = np.clip(eigenvalues(K), 0.0, None)
    if not values.sum() > 0:
        return float("nan")
    shares = values[values > 0] / values.sum()
    return float(np.exp(-(shares * np.log(shares)).sum()))


def participation_ratio(K: ArrayLike) -> float:
    r"""$(\mathrm{Tr}\,K)^2/\|K\|_F^2$, a second effective rank, which needs no eigenvalues; NaN for a kernel of 0.

    >>> round(participation_ratio(np.eye(3)), 12)
    3.0
    """
    matrix = as_matrix(K)
    size = float((matrix**2).sum())
    trace = float(np.trace(matrix, axis1=-2, axis2=-1).sum())
    return trace**2 / size if size > 0 else float("nan")
