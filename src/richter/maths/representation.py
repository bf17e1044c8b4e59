"""How far a representation has moved, from features (example, feature) alone."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


def debiased_alignment(features: ArrayLike, others: ArrayLike) -> float:
    r"""Debiased linear CKA: $\mathrm{HSIC}_1(K,L)/\sqrt{\mathrm{HSIC}_1(K,K)\,\mathrm{HSIC}_1(L,L)}$, without K or L.

    With K̃, L̃ the Gram matrices of the examples without their diagonals,
    $n(n-3)\,\mathrm{HSIC}_1=\mathrm{Tr}\tilde K\tilde L+\frac{1^T\tilde K1\,1^T\tilde L1}{(n-1)(n-2)}
    -\frac2{n-2}1^T\tilde K\tilde L1$.
    0 on average for independent features, where the plain CKA is not (0.2 at n = 32, p = 8); it may be negative.
    NaN if a self-term is not positive: no variation, or less than the estimator can see. At least 4 examples.

    >>> x = np.arange(10.0)[:, None]
    >>> round(debiased_alignment(x, -3 * x), 12)
    1.0
    """
    X, Y = (_centred(x) for x in (features, others))
    if X.shape[0] != Y.shape[0] or X.shape[0] < 4:
        must = "have the same examples, at least 4"
        raise ParameterError(message("the two sets of features", must, f"{X.shape[0]} and {Y.shape[0]}"))
    xx, yy = _hsic(X, X), _hsic(Y, Y)
    # What is left of a constant representation is rounding, which the estimator would divide by.
    return _hsic(X, Y) / float(np.sqrt(xx) * np.sqrt(yy)) if xx > 0 and yy > 0 else float("nan")


def _centred(features: ArrayLike) -> Floats:
    X = np.asarray(features, dtype=np.float64)
    if X.ndim != 2 or not np.isfinite(X).all():
        raise ParameterError(message("the features", "be finite numbers (example, feature)", f"shape {X.shape}"))
    X = X - X.mean(axis=0)
    peak = float(np.abs(X).max(initial=0.0))
    return X / peak if peak > 0 else X


def _hsic(X: Floats, Y: Floats) -> float:
    n = X.shape[0]
    dx, dy = (X**2).sum(axis=1), (Y**2).sum(axis=1)
    rows_x, rows_y = X @ X.sum(axis=0) - dx, Y @ Y.sum(axis=0) - dy
    trace = float(((X.T @ Y) ** 2).sum() - dx @ dy)
    both = float(rows_x.sum() * rows_y.sum() / ((n - 1) * (n - 2)))
    return (trace + both - 2 / (n - 2) * float(rows_x @ rows_y)) / (n * (n - 3))


def relative_change(now: ArrayLike, before: ArrayLike) -> float:
    r"""$\|\Phi-\Phi_0\|_F/\|\Phi_0\|_F$; NaN if $\Phi_0=0$.

    >>> relative_change([[2.0]], [[1.0]])
    1.0
    """
    new, old = (np.asarray(x, dtype=np.float64) for x in (now, before))
    size = float(np.linalg.norm(old))
    return float(np.linalg.norm(new - old)) / size if size > 0 else float("nan")
