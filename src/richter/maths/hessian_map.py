r"""Why the single neuron's function is no mirror flow in plain time, and is one in warped time.

A symmetric matrix H(β) is the Hessian of a potential if and only if $\partial H_{ij}/\partial\beta_k$ does not change
when j and k are swapped. $M^{-1}=f_\delta I-h_\delta\beta\beta^T$ fails, $g_\delta M^{-1}$ does not. Rates 1.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.preconditioner import inverse_coefficients, kappa_and_halves, time_warp
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(KUN24["Eq. 50"])
def asymmetry(derivative: ArrayLike) -> Floats:
    r"""$\frac{\partial H_{ij}}{\partial\beta_k}-\frac{\partial H_{ik}}{\partial\beta_j}$ (…, i, j, k).

    0 for Hessians, and for nothing else.

    Args:
        derivative: $\partial H_{ij}/\partial\beta_k$ (…, i, j, k).
    """
    T = np.asarray(derivative, dtype=float)
    return np.asarray(T - np.swapaxes(T, -1, -2))


@implements(KUN24["Eq. 51"], KUN24["Eq. 52"], KUN24["Eq. 53"])
def inverse_derivative(beta: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\frac{\partial M^{-1}_{ij}}{\partial\beta_k}$ (…, i, j, k).

    $2f'\beta_k\delta_{ij}-h(\delta_{ik}\beta_j+\delta_{jk}\beta_i)-2h'\beta_i\beta_j\beta_k$; with
    $s=\sqrt{\delta^2+4\|\beta\|^2}$ it is $f'=-h$ and $h'=-8\frac{3s+\delta}{s^3(s+\delta)^3}$.

    Args:
        beta: β (…, input), not 0.
        delta: imbalance δ (…).
    """
    b = np.asarray(beta, dtype=float)
    square, unit = (b * b).sum(axis=-1), np.eye(b.shape[-1])
    kappa, plus, _ = kappa_and_halves(np.sqrt(square), delta)
    _, h = inverse_coefficients(square, delta)
    bent = 16 * (2 * kappa + plus) / (kappa * plus) ** 3
    wide = lambda x: np.asarray(x)[..., None, None, None]
    straight = np.einsum("...k,ij->...ijk", b, unit)
    turned = np.einsum("...j,ik->...ijk", b, unit) + np.einsum("...i,jk->...ijk", b, unit)
    return np.asarray(wide(bent) * np.einsum("...i,...j,...k->...ijk", b, b, b) - wide(h) * (2 * straight + turned))


@implements(KUN24["Eq. 54"], KUN24["Eq. 44"])
def hessian_gap(x: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$2f_\delta'+h_\delta=-\frac4{s(s+\delta)^2}$ at $x=\|\beta\|^2$: never 0.

    So $\nabla^2\Phi=M^{-1}$ (Eq. 44) has no solution.

    >>> float(hessian_gap(1.0, 0.0))
    -0.5
    """
    kappa, plus, _ = kappa_and_halves(np.sqrt(np.asarray(x, dtype=float)), delta)
    return np.asarray(-4 / (kappa * plus**2))


@implements(KUN24["Eq. 55"], KUN24["Eq. 56"])
def warped_coefficients(x: ArrayLike, delta: ArrayLike) -> tuple[Floats, Floats]:
    r"""$(\tilde f,\tilde h)=(g_\delta f_\delta,\,g_\delta h_\delta)$, for which $2\tilde f'+\tilde h=0$.

    >>> [float(c.round(12)) for c in warped_coefficients(1.0, 0.0)]
    [1.414213562373, 0.707106781187]
    """
    f, h = inverse_coefficients(x, delta)
    g = time_warp(x, delta)
    return np.asarray(g * f), np.asarray(g * h)
