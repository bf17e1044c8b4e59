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


@implements(XU24["Eq. 14"], XU24["Eq. 15"], XU24["Eq. 37"], XU24["Eq. 38"])
def speed_exponents(
    c_d: ArrayLike, c_gamma: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, c_eta_u: ArrayLike, c_eta_w: ArrayLike
) -> tuple[Floats, Floats]:
    r"""(F, K): the exponents of the feature part of $t_c^{-2}$ and of the square root of its kernel part.

    $F=2c_\gamma+c_{\eta_u}+c_{\eta_w}$, $K=2c_\gamma+c_d+\max\{c_{\eta_w}+c_u,c_{\eta_u}+c_w\}$. Learning takes
    a time of order 1 when max(F, K) = 0. K is also the exponent of $\gamma^2dP$, the size of the kernel.
    """
    d, g, u, w, eu, ew = (np.asarray(c, dtype=float) for c in (c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w))
    return 2 * g + eu + ew, 2 * g + d + np.maximum(ew + u, eu + w)


@implements(
    XU24["Theorem 2"],
    XU24["Definition 1"],
    XU24["Eq. 16"],
    XU24["Eq. 36"],
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


@implements(
    XU24["Sec. 4.2"].misprint(
        printed="the initial output is O(1); with c_w > 0 the network is in the kernel phase",
        right="f(0) ~ κ^{c_w/2}, whatever the sign of c_w; for c_w > 0 c_u = c_w, so that P/Q does not tend to 1: the "
        "kernel phase needs a start with zero output",
        how="Monte Carlo",
    ),
    XU24["App. B.4"].misprint(
        printed="σ_u² = κ^c, σ_w² = κ^{max{c,0}}, γ = κ^{−min{0,−c/2}}",
        right="σ_w² = κ^c, σ_u² = κ^{max{c,0}}, γ = κ^{min{0,−c/2}}, as Section 4.2",
        how="Eq. 15: as printed max(F, K) = 2c for c > 0, unstable",
    ),
)
def start_scaling(c_w: ArrayLike) -> tuple[Floats, Floats, Floats]:
    r"""$(c_u,c_\gamma)$ that keep (15) when only the start's scale grows (c_d = c_η = 0), and f(0)'s exponent.

    $c_u=\max\{0,c_w\}$, $c_\gamma=\min\{-c_w/2,0\}$, $f(0)\sim\kappa^{c_\gamma+(c_u+c_w)/2}$.

    >>> [float(c) for c in start_scaling(1.0)], [float(c) for c in start_scaling(-1.0)]
    ([1.0, -0.5, 0.5], [0.0, 0.0, -0.5])
    """
    w = np.asarray(c_w, dtype=float)
    u, g = np.maximum(w, 0.0), np.minimum(-w / 2, 0.0)
    return u, g, g + (u + w) / 2


@implements(
    XU24["Table 1"].misprint(
        printed="Kaiming: (c_u, c_w) = (0, −1)",
        right="(−1, 0) by the fan-in of f = γ Σ u_iw_ijx_j; harmless, with equal rates only max{c_u, c_w} enters",
        how="Monte Carlo of the hidden layer; all cells of the column are the same",
    ),
)
def fan_in_exponents(c_d: ArrayLike) -> tuple[Floats, Floats]:
    r"""$(c_u,c_w)$ of variances 1/fan-in: the width for u, the number of inputs, which stays, for w.

    >>> [float(c) for c in fan_in_exponents(1.0)]
    [-1.0, 0.0]
    """
    d = np.asarray(c_d, dtype=float)
    return 0.0 - d, 0.0 * d


@implements(
    XU24["App. B.3"].misprint(
        printed="Kaiming⁻: γ = 1, η = 0.05·d/100",
        right="η = 0.05·100/d, as c_η⁻ = −1 in Table 1",
        how="exponents; as printed the model is unstable",
    ),
)
def trained_scales(width: ArrayLike) -> dict[str, tuple[Floats, Floats]]:
    """(γ, η) of the six networks trained in Sec. 4.1, at any width; each ± pair is the same at width 100.

    >>> [float(x.round(3)) for x in trained_scales(1000)["Kaiming-"]]
    [1.0, 0.005]
    """
    d = np.asarray(width, dtype=float)
    wider, one = d / 100, np.ones_like(d)
    made = {
        "NTK": (1 / np.sqrt(d), one), "mean field": (10 / d, wider),
        "Kaiming+": (1 / wider, wider), "Kaiming-": (one, 1 / wider),
        "Xavier+": (one, one), "Xavier-": (wider, 1 / wider**2),
    }  # fmt: skip
    return {name: (np.asarray(gamma), np.asarray(0.05 * rate)) for name, (gamma, rate) in made.items()}


def movement_exponents(c_gamma: ArrayLike, c_u: ArrayLike, c_w: ArrayLike, c_eta: ArrayLike) -> tuple[Floats, Floats]:
    r"""The powers of the width with which $\|\Delta u\|/\|u\|$ and $\|\Delta w\|/\|w\|$ go in a time of order 1.

    A step moves u by $\gamma\eta w$ and w by $\gamma\eta u$ per neuron, with the sizes that u and w have by then:
    $u\sim\max\{\sigma_u,\gamma\eta\sigma_w\}$. For stable limits, $c_\gamma+c_\eta\le0$.

    >>> [[float(c) for c in movement_exponents(*given)] for given in [(-0.5, 0, 0, 0), (0, -1, 0, -1), (-1, -1, 0, 1)]]
    [[-0.5, -0.5], [-0.5, -1.5], [0.5, 0.0]]
    """
    g, u, w, eta = (np.asarray(c, dtype=float) for c in (c_gamma, c_u, c_w, c_eta))
    step = g + eta
    late_u = np.maximum(u / 2, step + w / 2)
    late_w = np.maximum(w / 2, step + late_u)
    return step + late_w - u / 2, step + late_u - w / 2


def _not_negative(name: str, value: ArrayLike, strictly: bool = False) -> Floats:
    array = np.asarray(value, dtype=float)
    if not np.all(array > 0 if strictly else array >= 0):
        raise ParameterError(message(f"`{name}`", f"be {'>' if strictly else '≥'} 0", float(array.min())))
    return array
