r"""How the layers shape learning in function space: $\dot\beta=-M\,X^T\rho$ and what M is.

For one neuron M is a function of β and δ alone; for wide networks a sum over neurons.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.arrays import plus_and_minus
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


def kappa_and_halves(size: ArrayLike, delta: ArrayLike, product: ArrayLike = 1.0) -> tuple[Floats, Floats, Floats]:
    r"""$\kappa=\sqrt{\delta^2+4\eta_a\eta_w\|\beta\|^2}$ and $\kappa\pm\delta$, the smaller by its conjugate.

    >>> [float(x) for x in kappa_and_halves(2.0, 3.0)]
    [5.0, 8.0, 2.0]
    """
    x, d, k = (np.asarray(v, dtype=float) for v in (size, delta, product))
    square = 4 * k * x * x
    kappa = np.hypot(d, np.sqrt(square))
    plus, minus = plus_and_minus(np, kappa, d, square)
    return kappa, plus, minus


@implements(KUN24["Eq. 4"], KUN24["Eq. 39"], KUN24["Eq. 46"], KUN24["Eq. 92"], KUN24["Eq. 93"])
def neuron_preconditioner(beta: ArrayLike, delta: ArrayLike, eta_a: ArrayLike = 1.0, eta_w: ArrayLike = 1.0) -> Floats:
    r"""$M=\frac{\kappa+\delta}2I+\frac{\kappa-\delta}2\frac{\beta\beta^T}{\|\beta\|^2}$, (…, input, input); β ≠ 0.

    >>> neuron_preconditioner([0.0, 2.0], 3.0).tolist()
    [[4.0, 0.0], [0.0, 5.0]]
    """
    b = np.asarray(beta, dtype=float)
    size = np.linalg.norm(b, axis=-1)
    _, plus, minus = kappa_and_halves(size, delta, np.multiply(eta_a, eta_w))
    direction = b / size[..., None]
    outer = direction[..., :, None] * direction[..., None, :]
    return np.asarray((plus / 2)[..., None, None] * np.eye(b.shape[-1]) + (minus / 2)[..., None, None] * outer)


@implements(
    KUN24["Eq. 94"],
    KUN24["Eq. 95"],
    KUN24["Eq. 96"].misprint(
        printed="M → δI_c as δ → −∞",
        right="M → |δ|I_c; δI_c would be negative definite",
        how="Eq. 95 at δ = −10⁶, numerically",
    ),
)
def inverted_preconditioner(
    beta: ArrayLike, delta: ArrayLike, eta_a: ArrayLike = 1.0, eta_w: ArrayLike = 1.0
) -> Floats:
    r"""$M=\frac{\kappa+\delta}2\frac{\beta^T\beta}{\|\beta\|^2}+\frac{\kappa-\delta}2I_c$, one input, one neuron.

    β is its one row (…, output): the single neuron with −δ, upstream and downstream swapped.

    >>> inverted_preconditioner([0.0, 2.0], -3.0).tolist()
    [[4.0, 0.0], [0.0, 5.0]]
    """
    return neuron_preconditioner(beta, np.negative(delta), eta_a, eta_w)


@implements(KUN24["Eq. 47"], KUN24["Eq. 48"])
def neuron_preconditioner_inverse(beta: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$M^{-1}=\frac2{\kappa+\delta}I-\frac4{\kappa(\kappa+\delta)^2}\beta\beta^T$ for rates 1.

    Evaluated as $\frac2{\kappa+\delta}(I-\hat\beta\hat\beta^T)+\frac1\kappa\hat\beta\hat\beta^T$, which keeps its
    digits far downstream.
    """
    b = np.asarray(beta, dtype=float)
    size = np.linalg.norm(b, axis=-1)
    kappa, plus, _ = kappa_and_halves(size, delta)
    direction = b / size[..., None]
    along = direction[..., :, None] * direction[..., None, :]
    across = np.eye(b.shape[-1]) - along
    return np.asarray((2 / plus)[..., None, None] * across + (1 / kappa)[..., None, None] * along)


@implements(KUN24["Eq. 49"])
def inverse_coefficients(x: ArrayLike, delta: ArrayLike) -> tuple[Floats, Floats]:
    r"""$f_\delta=\frac2{s+\delta}$, $h_\delta=\frac4{s(s+\delta)^2}$, $s=\sqrt{\delta^2+4x}$, at $x=\|\beta\|^2$."""
    kappa, plus, _ = kappa_and_halves(np.sqrt(np.asarray(x, dtype=float)), delta)
    return 2 / plus, 4 / (kappa * plus**2)


@implements(KUN24["Eq. 57"], KUN24["Eq. 58"])
def time_warp(x: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$g_\delta(x)=\sqrt{\sqrt{\delta^2+4x}+\delta}$, with which $g_\delta(\|\beta\|^2)M^{-1}$ is a Hessian map."""
    _, plus, _ = kappa_and_halves(np.sqrt(np.asarray(x, dtype=float)), delta)
    return np.sqrt(plus)


@implements(
    KUN24["Eq. 6"],
    KUN24["Eq. 79"],
    KUN24["Eq. 78"].misprint(
        printed="M = η_w A^T A ⊗ I_c + I_d ⊗ η_a W^T W (identities swapped)",
        right="M = η_w A^T A ⊗ I_d + I_c ⊗ η_a W^T W, for column-major vec",
        how="numerically 2e-15; the printed form is a shape error unless c = d",
    ),
    KUN24["Eq. 80"].misprint(
        printed="vec(β) = −M vec(…)",
        right="vec(dβ/dt) = −M vec(X^T X β − X^T Y)",
        how="algebra",
    ),
    KUN24["Eq. 100"],
)
def wide_preconditioner(A: ArrayLike, W: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""$M=\eta_wA^TA\otimes I_d+I_c\otimes\eta_aW^TW$ for column-major vec(β), $\beta=W^TA$ (d, c).

    Args:
        A: second layer (h, c).
        W: first layer (h, d).
        eta_a: learning rate of A.
        eta_w: learning rate of W.
    """
    a, w = np.asarray(A, dtype=float), np.asarray(W, dtype=float)
    return np.kron(eta_w * a.T @ a, np.eye(w.shape[1])) + np.kron(np.eye(a.shape[1]), eta_a * w.T @ w)


@implements(
    KUN24["Eq. 83"].misprint(
        printed="‖a_i‖² = (κ_i + δ_i)/2", right="η_w‖a_i‖² = (κ_i + δ_i)/2", how="numerically, with η_w ≠ 1"
    ),
    KUN24["Eq. 84"].misprint(
        printed="‖w_i‖² = (κ_i − δ_i)/2", right="η_a‖w_i‖² = (κ_i − δ_i)/2", how="numerically, with η_a ≠ 1"
    ),
    KUN24["Eq. 85"].misprint(
        printed="a_ia_i^T = (κ_i + δ_i)/2 · β_i^Tβ_i/‖β_i‖²",
        right="η_w a_ia_i^T = (κ_i + δ_i)/2 · β_i^Tβ_i/‖β_i‖²",
        how="numerically, with η_w ≠ 1",
    ),
    KUN24["Eq. 86"].misprint(
        printed="w_iw_i^T = (κ_i − δ_i)/2 · β_iβ_i^T/‖β_i‖²",
        right="η_a w_iw_i^T = (κ_i − δ_i)/2 · β_iβ_i^T/‖β_i‖²",
        how="numerically, with η_a ≠ 1",
    ),
)
def neuron_grams(betas: ArrayLike, deltas: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> tuple[Floats, Floats]:
    r"""$(a_ia_i^T,\,w_iw_i^T)$ of every neuron, (h, c, c) and (h, d, d), from its function and imbalance.

    Their traces are $\|a_i\|^2=\frac{\kappa_i+\delta_i}{2\eta_w}$ and $\|w_i\|^2=\frac{\kappa_i-\delta_i}{2\eta_a}$.

    Args:
        betas: $\beta_i=w_ia_i^T$ (h, d, c), none of them 0.
        deltas: $\delta_i=\eta_w\|a_i\|^2-\eta_a\|w_i\|^2$ (h,).
        eta_a: learning rate of A.
        eta_w: learning rate of W.
    """
    b = np.asarray(betas, dtype=float)
    size = np.sqrt((b * b).sum(axis=(1, 2)))
    _, plus, minus = kappa_and_halves(size, deltas, eta_a * eta_w)
    unit = b / size[:, None, None]
    left = np.einsum("i,idc,ide->ice", plus / (2 * eta_w), unit, unit)
    right = np.einsum("i,idc,iec->ide", minus / (2 * eta_a), unit, unit)
    return np.asarray(left), np.asarray(right)


@implements(KUN24["Theorem 4.1"], KUN24["Lemma B.1"], KUN24["Eq. 7"], KUN24["Eq. 87"])
def sum_of_neurons(betas: ArrayLike, deltas: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""M from each neuron's function $\beta_i=w_ia_i^T$ (h, d, c) and imbalance $\delta_i$ (h,); no β_i may be 0.

    $M=\sum_i\frac{\kappa_i+\delta_i}2\frac{\beta_i^T\beta_i}{\|\beta_i\|_F^2}\otimes I_d+I_c\otimes
    \frac{\kappa_i-\delta_i}2\frac{\beta_i\beta_i^T}{\|\beta_i\|_F^2}$.
    """
    left, right = neuron_grams(betas, deltas, eta_a, eta_w)
    c, d = left.shape[-1], right.shape[-1]
    return np.kron(eta_w * left.sum(axis=0), np.eye(d)) + np.kron(np.eye(c), eta_a * right.sum(axis=0))


@implements(
    KUN24["Eq. 98"].misprint(
        printed="W^T W = (−δ/2 + √(η_aη_w ββ^T + δ²/4))/η_a for every isotropic start",
        right="holds if and only if δ ≥ 0 or h = d",
        how="numerically, over shapes: W^T W has rank h, the right side has rank d for δ < 0",
    ),
    KUN24["Eq. 99"].misprint(
        printed="A^T A = (δ/2 + √(η_aη_w β^Tβ + δ²/4))/η_w for every isotropic start",
        right="holds if and only if δ ≤ 0 or h = c",
        how="numerically, over shapes: A^T A has rank h, the right side has rank c for δ > 0",
    ),
)
def isotropic_grams(beta: ArrayLike, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> tuple[Floats, Floats]:
    r"""$(A^TA,\,W^TW)$ when Δ = δI, from β (d, c) alone.

    The first needs h = c if δ > 0, the second h = d if δ < 0.

    $\eta_wA^TA=\sqrt{k\beta^T\beta+\frac{\delta^2}4}+\frac\delta2$ and $\eta_aW^TW=\sqrt{k\beta\beta^T+
    \frac{\delta^2}4}-\frac\delta2$ with $k=\eta_a\eta_w$; the smaller eigenvalues by their conjugate.
    """
    b = np.asarray(beta, dtype=float)
    d, c = b.shape
    U, s, V = np.linalg.svd(b)
    halves = lambda n: kappa_and_halves(np.pad(s, (0, n - s.size)), delta, eta_a * eta_w)
    return (V.T * (halves(c)[1] / (2 * eta_w))) @ V, (U * (halves(d)[2] / (2 * eta_a))) @ U.T


@implements(
    KUN24["Lemma B.3"].misprint(
        printed="Δ = δI and ‖β(0)‖_F > 0 are enough for Eqs 97–99",
        right="needed are also rank conditions: h = c if δ > 0, h = d if δ < 0 (h ≤ c, h ≤ d hold by themselves)",
        how="numerically; d = 4, h = c = 1, δ < 0 misses by 1.3, where Eq. 4 is right",
    ),
    KUN24["Eq. 97"],
    KUN24["Eq. 101"].misprint(
        printed="β^T β in the second block",
        right="β β^T in the second block",
        how="numerically",
    ),
    KUN24["Eq. 102"].misprint(
        printed="balanced: β^Tβ ⊕ ββ^T without roots, factors in the other order; δ → −∞: δI",
        right="√(η_aη_w)(√(β^Tβ) ⊗ I_d + I_c ⊗ √(ββ^T)); |δ|I",
        how="numerically: the printed form misses by 159",
    ),
)
def isotropic_preconditioner(beta: ArrayLike, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""M when Δ = δI, from β (d, c) alone, under the rank conditions of `isotropy_holds`.

    $M=\sqrt{k\beta^T\beta+\tfrac{\delta^2}4I_c}\otimes I_d+I_c\otimes\sqrt{k\beta\beta^T+\tfrac{\delta^2}4I_d}$ with
    $k=\eta_a\eta_w$.
    """
    b = np.asarray(beta, dtype=float)
    d, c = b.shape
    U, s, V = np.linalg.svd(b)
    root = lambda n: np.sqrt(eta_a * eta_w * np.pad(s, (0, n - s.size)) ** 2 + delta**2 / 4)
    left = (V.T * root(c)) @ V
    right = (U * root(d)) @ U.T
    return np.kron(left, np.eye(d)) + np.kron(np.eye(c), right)


def isotropy_holds(d: int, h: int, c: int, delta: float) -> bool:
    """Whether M is a function of β and δ alone: h = c for δ > 0, h = d for δ < 0, always for δ = 0.

    >>> isotropy_holds(4, 1, 1, -1.0), isotropy_holds(4, 1, 1, 1.0)
    (False, True)
    """
    return delta == 0 or (h == c if delta > 0 else h == d)
