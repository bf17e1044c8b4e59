"""Gradient flow of a model of fixed features, and where it ends."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.maths.arrays import Array, alike, finite_time, integral_of_decay
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]


@implements(NAM24["Eq. 1.26"], NAM24["Eq. 1.25"])
def linear_modes(
    t: Array, eigenvalues: Array, coefficients: Array, eta: Array = 1.0, initial: Array = 0.0
) -> tuple[Array, Array]:
    r"""$\langle e_k|f\rangle=c_k(1-e^{-\eta\rho_kt})+f_k(0)e^{-\eta\rho_kt}$, and the residual, t = ∞ included.

    >>> coefficient, residual = linear_modes(np.inf, np.array([1.0, 0.0]), np.array([2.0, 2.0]))
    >>> coefficient.tolist(), residual.tolist()
    ([2.0, 0.0], [-0.0, -2.0])
    """
    xp, (t, eigenvalues, c, eta, start) = alike(t, eigenvalues, coefficients, eta, initial)
    rate = eta * eigenvalues
    finite = finite_time(xp, t)
    t = t if xp is np else finite
    left = xp.exp(-rate * xp.where(rate == 0, finite, t))
    done = rate * integral_of_decay(xp, rate, t, finite)
    return done * c + left * start, left * (start - c)


@implements(NAM24["Eq. 1.12"], NAM24["Eq. A.10"], NAM24["Eq. A.11"], NAM24["Eq. A.12"])
def weight_flow(weights: Floats, features: Floats, targets: Floats, eta: float = 1.0) -> Floats:
    r"""$\dot w=-\eta(w^T\Phi-Y)\Phi^T$ (feature,): it lies in the span of the examples' features, $\dot w(I-UU^T)=0$.

    Gradient flow on half the *sum* of squares; with η/n on the mean.

    >>> weight_flow(np.zeros(2), np.array([[1.0], [3.0]]), np.array([2.0])).tolist()
    [2.0, 6.0]
    """
    return np.asarray(-eta * features @ (weights @ features - targets))


@implements(NAM24["Eq. A.7"], NAM24["Eq. A.8"], NAM24["Eq. A.9"], NAM24["App. A.2"])
def flow_weights(features: Floats, targets: Floats, t: float | Floats, eta: float = 1.0) -> Floats:
    r"""Weights (…, feature) of $\dot w=-\eta(w^T\Phi-Y)\Phi^T$ from w = 0; at t = ∞ the minimum-norm solution.

    With $\Phi=USV$, $w(t)=YV^TS^{-1}(1-e^{-\eta S^2t})U^T$.

    Args:
        features: Φ (feature, example).
        targets: Y (example,).
        t: a time or several.
        eta: learning rate.

    >>> flow_weights(np.array([[1.0], [1.0]]), np.array([2.0]), np.inf).round(12).tolist()
    [1.0, 1.0]
    """
    U, s, V = np.linalg.svd(np.asarray(features, dtype=np.float64), full_matrices=False)
    alive = s > s.max(initial=0.0) * max(features.shape) * np.finfo(float).eps
    U, s, V = U[:, alive], s[alive], V[alive]
    time = np.asarray(t, dtype=np.float64)[..., None]
    return np.asarray((-np.expm1(-eta * s**2 * time) * ((V @ targets) / s)) @ U.T)


def feature_modes(features: Floats, targets: Floats) -> tuple[Floats, Floats]:
    r"""Eigenvalues $\rho_k=s_k^2/n$ of the empirical kernel operator and the target's coefficients.

    The coefficients are those of the empirical eigenfunctions with mean square 1 over the examples.
    """
    n = features.shape[1]
    _, s, V = np.linalg.svd(features, full_matrices=False)
    return s**2 / n, V @ targets / np.sqrt(n)


@implements(
    NAM24["Eq. 1.27"], NAM24["Eq. A.1"], NAM24["Eq. A.2"], NAM24["Eq. A.3"], NAM24["Eq. A.4"], NAM24["Eq. A.5"],
    NAM24["Eq. A.6"],
)  # fmt: skip
def diagonal_features(moments: Floats) -> tuple[Floats, Floats]:
    r"""Eigenvalues ρ in falling order, and the rotation O with $\Phi_i(x)=\sum_jO_{ij}\sqrt{\rho_j}e_j(x)$, $O^TO=I$.

    Args:
        moments: $\mathbf E[\Phi\Phi^T]$ (…, feature, feature).

    >>> diagonal_features(np.array([[1.5, 0.5], [0.5, 1.5]]))[0].round(12).tolist()
    [2.0, 1.0]
    """
    values, vectors = np.linalg.eigh(moments)
    return np.maximum(values[..., ::-1], 0.0), vectors[..., ::-1]


@implements(
    NAM24["Eq. 1.28"].misprint(
        printed="θ = O w, with O of Eq. 1.27",
        right="θ = Oᵀ w",
        how="Σ w_k Φ_k and Σ θ_k √ρ_k e_k at random points",
    )
)
def diagonal_weights(rotation: Floats, weights: Floats) -> Floats:
    r"""Weights $\theta=O^Tw$ of the diagonal features: $\sum w_k\Phi_k=\sum\theta_k\sqrt{\rho_k}e_k$.

    >>> diagonal_weights(np.array([[0.0, 1.0], [1.0, 0.0]]), np.array([2.0, 3.0])).tolist()
    [3.0, 2.0]
    """
    return np.asarray(np.einsum("...ij,...i->...j", rotation, weights))
