"""The single linear neuron as a problem: its flow, what it conserves, its kernel."""

from __future__ import annotations

from richter.maths.arrays import Array, alike, norm
from richter.refs import KUN24, implements


@implements(KUN24["Eq. 13"])
def neuron_delta(a: Array, w: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""The conserved quantity $\delta=\eta_wa^2-\eta_a\|w\|^2$, as a product of sum and difference.

    >>> import numpy as np
    >>> float(neuron_delta(2.0, np.array([1.0, 0.0])))
    3.0
    """
    xp, (a, w, eta_a, eta_w) = alike(a, w, eta_a, eta_w)
    left, right = xp.sqrt(eta_w) * xp.abs(a), xp.sqrt(eta_a) * norm(xp, w)
    return (left - right) * (left + right)


@implements(KUN24["Eq. 1"], KUN24["Eq. 10"])
def neuron_kernel(a: Array, w: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""The kernel on whitened inputs, $M=\eta_wa^2I+\eta_aww^T$, with shape (input, input, …)."""
    xp, (a, w, eta_a, eta_w) = alike(a, w, eta_a, eta_w)
    outer = eta_a * w[:, None] * w[None, :]
    identity = xp.reshape(xp.eye(w.shape[0], dtype=w.dtype), (w.shape[0],) * 2 + (1,) * (w.ndim - 1))
    return outer + identity * (eta_w * a * a)


@implements(KUN24["Eq. 14"], KUN24["Eq. 15"])
def neuron_flow(a: Array, w: Array, beta_star: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> tuple[Array, Array]:
    r"""Gradient flow $\dot a=\eta_a(w\!\cdot\!\beta_*-a\|w\|^2)$, $\dot w=\eta_w(a\beta_*-a^2w)$.

    >>> import numpy as np
    >>> da, dw = neuron_flow(2.0, np.array([1.0]), np.array([3.0]))
    >>> float(da), dw.tolist()
    (1.0, [2.0])
    """
    error = beta_star - a * w
    return eta_a * (w * error).sum(axis=0), eta_w * a * error


@implements(KUN24["Eq. 11"], KUN24["Eq. 12"])
def neuron_flow_on(
    a: Array, w: Array, gram: Array, moment: Array, eta_a: Array = 1.0, eta_w: Array = 1.0
) -> tuple[Array, Array]:
    r"""Gradient flow on any inputs: $\dot a=-\eta_aw^T(X^TXaw-X^Ty)$, $\dot w=-\eta_wa(X^TXaw-X^Ty)$.

    Args:
        a: output weight.
        w: input weights (input, …).
        gram: XᵀX (input, input, …).
        moment: Xᵀy (input, …).
        eta_a: learning rate of a.
        eta_w: learning rate of w.
    """
    pull = moment - (gram * (a * w)).sum(axis=1)
    return eta_a * (w * pull).sum(axis=0), eta_w * (a * pull)


@implements(KUN24["Eq. 3"], KUN24["Eq. 36"])
def function_velocity(a: Array, w: Array, gradient: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""$\dot\beta=-(\eta_wa^2I+\eta_aww^T)X^T\rho$ for the loss's gradient Xᵀρ in function space (input, …).

    >>> import numpy as np
    >>> function_velocity(2.0, np.array([1.0, 0.0]), np.array([1.0, 1.0])).tolist()
    [-5.0, -4.0]
    """
    return -(eta_w * a * a * gradient) - eta_a * w * (w * gradient).sum(axis=0)
