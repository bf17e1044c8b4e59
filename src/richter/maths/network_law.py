r"""The two-layer linear network $f(x)=A^TWx$ as a problem: how its layers and its function β = WᵀA move."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


@implements(KUN24["Eq. 74"], KUN24["Eq. 75"])
def network_flow(
    A: Floats, W: Floats, gradient: Floats, eta_a: Floats | float = 1.0, eta_w: Floats | float = 1.0
) -> tuple[Floats, Floats]:
    r"""Gradient flow $\dot A=-\eta_aWX^TP$, $\dot W=-\eta_wA(X^TP)^T$.

    Args:
        A: last layer (neuron, output, …).
        W: first layer (neuron, input, …).
        gradient: the loss's gradient in function space, $X^TP=X^T(X\beta-Y)$ (input, output, …).
        eta_a: learning rate of A.
        eta_w: learning rate of W.
    """
    dA = -eta_a * np.einsum("hd...,dc...->hc...", W, gradient)
    dW = -eta_w * np.einsum("hc...,dc...->hd...", A, gradient)
    return dA, dW


@implements(KUN24["Eq. 73"], KUN24["Eq. 76"], KUN24["Eq. 77"])
def network_velocity(
    A: Floats, W: Floats, gradient: Floats, eta_a: Floats | float = 1.0, eta_w: Floats | float = 1.0
) -> Floats:
    r"""$\dot\beta=\dot W^TA+W^T\dot A=-(\eta_wX^TP\,A^TA+\eta_aW^TW\,X^TP)$; shapes as in `network_flow`.

    >>> network_velocity(np.array([[2.0]]), np.array([[1.0, 0.0]]), np.array([[1.0], [1.0]])).tolist()
    [[-5.0], [-4.0]]
    """
    dA, dW = network_flow(A, W, gradient, eta_a, eta_w)
    return np.asarray(np.einsum("hd...,hc...->dc...", dW, A) + np.einsum("hd...,hc...->dc...", W, dA))


@implements(KUN24["Eq. 81"], KUN24["Eq. 82"])
def neuron_functions(A: Floats, W: Floats) -> Floats:
    r"""Each neuron's share $\beta_i=w_ia_i^T$ of the function (neuron, input, output, …).

    $\beta_i^T\beta_i=\|w_i\|^2a_ia_i^T$, $\beta_i\beta_i^T=\|a_i\|^2w_iw_i^T$, $\|\beta_i\|_F=\|a_i\|\|w_i\|$.

    >>> neuron_functions(np.array([[2.0]]), np.array([[1.0, 3.0]])).tolist()
    [[[2.0], [6.0]]]
    """
    return np.asarray(W[:, :, None] * A[:, None, :])
