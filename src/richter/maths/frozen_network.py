r"""The two-layer linear network with a frozen layer: linear regression in the other one, on any inputs.

With $\eta_a=0$, $\dot W^T=-\eta_wG(W^TA-\beta_*)A^T$ decouples in the eigenvectors of the inputs' Gram matrix
$G=P\gamma P^T$ and the singular vectors of $A=Os V^T$: $\dot u=-k(u-b/s)$ with $k=\eta_w\gamma s^2$ and
$b=P^T\beta_*V$. With $\eta_w=0$ the same holds for A with the singular vectors of $WG^{1/2}$.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def frozen_network_path(
    A: Floats, W: Floats, target: Floats, gram: Floats, eta_a: Floats, eta_w: Floats, t: Floats
) -> tuple[Floats, Floats]:
    """(A, W) at times t ≥ 0, ∞ included: (…, t, neuron, output) and (…, t, neuron, input).

    Args:
        A: last layer (…, neuron, output).
        W: first layer (…, neuron, input).
        target: β* (…, input, output).
        gram: XᵀX (…, input, input).
        eta_a: learning rate of A (…); at least one of the rates is 0.
        eta_w: learning rate of W (…).
        t: times (t,), or (…, t) with times of its own for every start.

    >>> A, W, one = np.array([[2.0]]), np.array([[1.0]]), np.eye(1)
    >>> path = frozen_network_path(A, W, 6 * one, one, np.array(0.0), np.array(1.0), np.array([0.0, np.inf]))
    >>> path[0].ravel().tolist(), path[1].ravel().tolist()
    ([2.0, 2.0], [1.0, 3.0])
    """
    flip = lambda x: np.swapaxes(x, -1, -2)
    values, P = np.linalg.eigh(gram)
    values = np.maximum(values, 0.0)[..., :, None]
    # W moves: its components (neuron's singular vector, input's eigenvector).
    O, s, Vt = _decomposed(A)
    moved = _relaxed(flip(O) @ W @ P, flip(_stretched(flip(P) @ target @ flip(Vt), O)), s, flip(values), eta_w, t)
    W_path = O[..., None, :, :] @ moved @ flip(P)[..., None, :, :]
    # A moves: its components (singular vector of W√G, output).
    root = flip(P * flip(np.sqrt(values)))
    Q, r, Rt = _decomposed(W @ flip(root))
    b = flip(_stretched(flip(Rt @ root @ target), Q))
    A_path = Q[..., None, :, :] @ _relaxed(flip(Q) @ A, b, r, np.ones_like(A[..., :1, :]), eta_a, t)
    # A layer that is frozen keeps its every digit.
    as_it_was = lambda path, layer, eta: np.where(eta[..., None, None, None] == 0, layer[..., None, :, :], path)
    return as_it_was(A_path, A, eta_a), as_it_was(W_path, W, eta_w)


def _decomposed(layer: Floats) -> tuple[Floats, Floats, Floats]:
    """Left singular vectors (…, h, h), all h singular values, and the right vectors that belong to them."""
    O, s, Vt = np.linalg.svd(layer)
    h, most = O.shape[-1], s.max(axis=-1, keepdims=True, initial=0.0)
    s = np.where(s > most * 1e-15 * max(layer.shape[-2:]), s, 0.0)
    return O, np.concatenate([s, np.zeros((*s.shape[:-1], h - s.shape[-1]))], axis=-1), Vt[..., :h, :]


def _stretched(b: Floats, O: Floats) -> Floats:
    """Columns of 0 for the neurons' directions that have no singular value."""
    missing = O.shape[-1] - b.shape[-1]
    return np.concatenate([b, np.zeros((*b.shape[:-1], missing))], axis=-1) if missing > 0 else b[..., : O.shape[-1]]


def _relaxed(start: Floats, b: Floats, s: Floats, weight: Floats, eta: Floats, t: Floats) -> Floats:
    """Every component's relaxation from `start` to b/s at the rate η·weight·s²: (…, t, h, columns)."""
    rate = (eta[..., None, None] * weight) * (s * s)[..., None]
    still = rate == 0
    end = np.where(still, start, b / np.where(still, 1.0, s[..., None] + 0 * rate))
    when = t[..., None, None]
    with np.errstate(invalid="ignore", over="ignore"):
        x = np.where(still[..., None, :, :], 0.0, rate[..., None, :, :] * when)
    return start[..., None, :, :] * np.exp(-x) - end[..., None, :, :] * np.expm1(-x)
