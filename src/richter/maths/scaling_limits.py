r"""Phases of scaling limits: every hyper-parameter is a power of κ → ∞.

$d\propto\kappa^{c_d}$, $\gamma\propto\kappa^{c_\gamma}$, $\sigma_u^2\propto\kappa^{c_u}$, $\sigma_w^2\propto
\kappa^{c_w}$, $\eta_u\propto\kappa^{c_{\eta_u}}$, $\eta_w\propto\kappa^{c_{\eta_w}}$; the data are of order 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.refs import XU24, implements

Floats = NDArray[np.float64]
EQUAL = 1e-9  # exponents this near to each other are meant to be equal


@implements(XU24["Eq. 14"], XU24["Eq. 15"])
def speed_exponents(
    c_d: ArrayLike, c_gamma: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, c_eta_u: ArrayLike, c_eta_w: ArrayLike
) -> tuple[Floats, Floats]:
    r"""(F, K): the exponents of the feature part of $t_c^{-2}$ and of the square root of its kernel part.

    $F=2c_\gamma+c_{\eta_u}+c_{\eta_w}$, $K=2c_\gamma+c_d+\max\{c_{\eta_w}+c_u,c_{\eta_u}+c_w\}$. Learning takes
    a time of order 1 when max(F, K) = 0.
    """
    d, g, u, w, eu, ew = (np.asarray(c, dtype=float) for c in (c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w))
    return 2 * g + eu + ew, 2 * g + d + np.maximum(ew + u, eu + w)


@implements(
    XU24["Theorem 2"],
    XU24["Eq. 16"],
    XU24["Sec. 4"].misprint(
        printed="kernel phase: 0 = c_γ + c_d + max{c_ηw + c_u, c_ηu + c_w} > c_ηu + c_ηw (and again in Sec. 4.1)",
        right="0 = 2c_γ + c_d + max{·} > 2c_γ + c_ηu + c_ηw",
        how="Eqs 15 and 16 of the paper, and the finite-size exponents",
    ),
)
def classify(F: ArrayLike, K: ArrayLike, balanced: ArrayLike) -> NDArray[np.str_]:
    """The phase from the two exponents; `balanced`: whether P/Q → 1.

    >>> classify([0.0, 0.0, -1.0, 0.0], [0.0, -1.0, -1.0, 2.0], True).tolist()
    ['feature-learning', 'feature-learning', 'frozen', 'unstable']
    """
    f, k = np.asarray(F, dtype=float), np.asarray(K, dtype=float)
    top = np.maximum(f, k)
    kernel = (k > f + EQUAL) & np.asarray(balanced, bool)
    learning = np.where(kernel, "kernel", "feature-learning")
    return np.where(top > EQUAL, "unstable", np.where(top < -EQUAL, "frozen", learning))


@implements(XU24["Sec. 4.1"].misprint(
    printed="necessary and sufficient: 0 = c_γ + c_d + max{·} > c_ηu + c_ηw",
    right="0 = 2c_γ + c_d + max{·} > 2c_γ + c_ηu + c_ηw; P/Q → 1 by the law of large numbers only if c_d > 0",
    how="Eqs 15 and 16; the lazy column of Table 1 (c_d = 0) needs a zero output at the start",
))  # fmt: skip
def halves_balance(
    c_d: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, c_eta_u: ArrayLike, c_eta_w: ArrayLike
) -> NDArray[np.bool_]:
    """Whether P/Q → 1 for independent Gaussian layers: the width grows, or one layer dominates the other."""
    d, u, w, eu, ew = (np.asarray(c, dtype=float) for c in (c_d, c_u, c_w, c_eta_u, c_eta_w))
    return (d > EQUAL) | (np.abs((u + ew) - (w + eu)) > EQUAL)


@implements(XU24["Corollary 1"])
def stable_rate(c_d: ArrayLike, c_gamma: ArrayLike, c_u: ArrayLike, c_w: ArrayLike) -> Floats:
    r"""The common rate exponent that makes learning stable, neither frozen nor divergent.

    $c_\eta=\min\{-c_\gamma,\,-2c_\gamma-c_d-\max\{c_u,c_w\}\}$.

    >>> float(stable_rate(1, -1, 0, 0))
    1.0
    """
    d, g, u, w = (np.asarray(c, dtype=float) for c in (c_d, c_gamma, c_u, c_w))
    return np.minimum(-g, -2 * g - d - np.maximum(u, w))


@implements(XU24["Corollary 2"])
def to_feature_learning(
    c_d: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, above: ArrayLike = 0.0
) -> tuple[Floats, Floats]:
    r"""$(c_\eta,c_\gamma)$ of a feature-learning limit: $c_\eta=c_d+\max\{c_u,c_w\}+$ `above`, $c_\gamma=-c_\eta$.

    >>> [float(c) for c in to_feature_learning(1, 0, -1)]
    [1.0, -1.0]
    """
    rate = np.asarray(c_d, dtype=float) + np.maximum(c_u, c_w) + _not_negative("above", above)
    return rate, -rate


@implements(XU24["Corollary 3"])
def to_kernel(c_d: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, below: ArrayLike = 1.0) -> tuple[Floats, Floats]:
    r"""$(c_\eta,c_\gamma)$ of a kernel limit: $c_\eta=c_d+\max\{c_u,c_w\}-$ `below`.

    $c_\gamma=-\tfrac12(c_d+\max\{c_u,c_w\}+c_\eta)$. With c_d = 0 the start must have zero output (P/Q = 1).

    >>> [float(c) for c in to_kernel(1, 0, 0)]
    [0.0, -0.5]
    """
    size = np.asarray(c_d, dtype=float) + np.maximum(c_u, c_w)
    rate = size - _not_negative("below", below, strictly=True)
    return rate, -(size + rate) / 2


def _not_negative(name: str, value: ArrayLike, strictly: bool = False) -> Floats:
    array = np.asarray(value, dtype=float)
    if not np.all(array > 0 if strictly else array >= 0):
        raise ParameterError(message(f"`{name}`", f"be {'>' if strictly else '≥'} 0", float(array.min())))
    return array
