r"""The kernel operator $\mathcal T=\sum_k|\Phi_k\rangle\langle\Phi_k|$ of a feature map, on a sample.

Features are arrays (feature, example); inner products are means over the examples, ⟨f|g⟩ = E[f g].
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.refs import NAM24, implements

Floats = NDArray[np.float64]


@implements(NAM24["Eq. 1.13"], NAM24["Eq. 1.14"], NAM24["Eq. 1.18"])
def kernel_operator(features: Floats, values: Floats) -> Floats:
    r"""$\mathcal T[f](x')=\mathbf E_x[\Phi(x)^T\Phi(x')f(x)]$, without the kernel: (…, example).

    >>> kernel_operator(np.array([[1.0, 2.0]]), np.array([1.0, 1.0])).tolist()
    [1.5, 3.0]
    """
    return np.asarray((values @ features.T / features.shape[1]) @ features)


@implements(NAM24["Eq. 1.17"], NAM24["Eq. 1.19"], NAM24["Eq. 1.20"], NAM24["Eq. 1.21"], NAM24["Eq. 1.22"])
def function_flow(features: Floats, output: Floats, target: Floats, eta: float = 1.0) -> Floats:
    r"""$\dot f=-\eta\mathcal T[f-f^*]$ of a model $f=\sum_kw_k\Phi_k$ on $\tfrac12\mathbf E(f-f^*)^2$."""
    return -eta * kernel_operator(features, output - target)


@implements(NAM24["Eq. 1.15"], NAM24["Eq. 1.29"])
def intensity(features: Floats, eigenfunctions: Floats) -> Floats:
    r"""$\rho_k=\langle e_k|\mathcal T[e_k]\rangle=\sum_j\langle\Phi_j|e_k\rangle^2$ of eigenfunctions (k, example).

    >>> intensity(np.array([[3.0, 3.0]]), np.array([[1.0, 1.0], [1.0, -1.0]])).tolist()
    [9.0, 0.0]
    """
    return np.asarray(((features @ eigenfunctions.T / features.shape[1]) ** 2).sum(axis=0))


@implements(NAM24["Eq. 1.23"], NAM24["Eq. 1.24"])
def mode_flow(features: Floats, eigenfunctions: Floats, output: Floats, target: Floats, eta: float = 1.0) -> Floats:
    r"""$\frac{d\langle e_k|f\rangle}{dt}=-\eta\langle e_k|\mathcal T[f-f^*]\rangle$ (k,): what `linear_modes` solves.

    >>> mode_flow(np.array([[2.0, 2.0]]), np.array([[1.0, 1.0]]), np.zeros(2), np.ones(2)).tolist()
    [4.0]
    """
    return np.asarray(eigenfunctions @ function_flow(features, output, target, eta) / features.shape[1])


@implements(NAM24["Eq. 3.11"])
def diagonal_intensity(first: Floats, variance: Floats) -> Floats:
    r"""$\mathbf E[x_i^2]a_i^2$: the intensities of the features $a_ix_i$ of a diagonal linear network.

    >>> diagonal_intensity(np.array([2.0, 0.0]), np.array([0.5, 1.0])).tolist()
    [2.0, 0.0]
    """
    return np.asarray(variance * first**2)
