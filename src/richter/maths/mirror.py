r"""Mirror flows: gradient flow in function space as a straight descent in the potential's dual variable.

The single neuron's β follows $\frac{d}{dt}\nabla\Phi_\delta(\beta)=-g_\delta X^T\rho$ (a mirror flow in the warped time
$\int g_\delta dt$), aligned singular values follow $\frac{d}{dt}q_\delta'(u)=-D(u-s)$ in plain time.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.potentials import hyperbolic_entropy, radial_curvature, radial_potential, radial_slope
from richter.maths.preconditioner import neuron_preconditioner_inverse, time_warp
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]
NEAR = 0.3  # relative difference of two lengths below which their potentials are not subtracted
_NODES, _WEIGHTS = (np.polynomial.legendre.leggauss(24)[0] + 1) / 2, np.polynomial.legendre.leggauss(24)[1] / 2


@implements(KUN24["Eq. 59"], KUN24["Eq. 60"])
def potential_hessian(beta: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\nabla^2\Phi_\delta=g_\delta(\|\beta\|^2)M^{-1}$, (…, input, input); β ≠ 0, rates 1.

    $\frac{2}{\sqrt{\kappa+\delta}}(I-\hat\beta\hat\beta^T)+\frac{\sqrt{\kappa+\delta}}{\kappa}\hat\beta\hat\beta^T$.
    """
    b = np.asarray(beta, dtype=float)
    warp = time_warp((b * b).sum(axis=-1), delta)
    return np.asarray(warp[..., None, None] * neuron_preconditioner_inverse(b, delta))


def dual(beta: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\nabla\Phi_\delta(\beta)=\sqrt{\kappa-\delta}\,\hat\beta$ (…, input); β ≠ 0, rates 1."""
    b = np.asarray(beta, dtype=float)
    size = np.linalg.norm(b, axis=-1)
    return np.asarray((radial_slope(size, delta) / size)[..., None] * b)


def primal(theta: ArrayLike, delta: ArrayLike) -> Floats:
    r"""The β with $\nabla\Phi_\delta(\beta)=\theta$: $\|\beta\|=\tfrac12\|\theta\|\sqrt{\|\theta\|^2+2\delta}$.

    For δ < 0 the dual variable is never shorter than $\sqrt{2|\delta|}$.

    >>> primal(dual([3.0, 4.0], -2.0), -2.0).round(12).tolist()
    [3.0, 4.0]
    """
    th, d = np.asarray(theta, dtype=float), np.asarray(delta, dtype=float)
    square = (th * th).sum(axis=-1)
    return np.asarray(np.sqrt(np.maximum(square + 2 * d, 0.0))[..., None] / 2 * th)


@implements(KUN24["Eq. 40"], KUN24["Eq. 45"])
def mirror_velocity(theta: ArrayLike, gradient_of: Callable[[Floats], Floats], delta: ArrayLike) -> Floats:
    r"""$\dot\theta=-g_\delta(\|\beta\|^2)\,X^T\rho(\beta)$ for the dual variable θ of a single neuron, rates 1.

    Args:
        theta: $\nabla\Phi_\delta(\beta)$ (…, input).
        gradient_of: the function β → Xᵀρ, the loss's gradient in function space.
        delta: imbalance δ; β must not cross 0.
    """
    beta = primal(theta, delta)
    warp = time_warp((beta * beta).sum(axis=-1), delta)
    return np.asarray(-warp[..., None] * gradient_of(beta))


@implements(KUN24["Eq. 41"])
def bregman(beta: ArrayLike, other: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$D_\Phi(\beta,\beta')=\Phi(\beta)-\Phi(\beta')-\nabla\Phi(\beta')\cdot(\beta-\beta')\ge0$ (…); rates 1, β′ ≠ 0.

    Gradient flow from β′ ends at the interpolating β with the smallest one. It is the sum of what the length and what
    the direction contribute; for near lengths $\Phi(x)-\Phi(y)-\Phi'(y)(x-y)=\int_y^x(x-s)\Phi''(s)ds$ by quadrature.

    >>> float(bregman([1.0, 0.0], [1.0, 0.0], 0.5)), float(bregman([1.0, 1e-9], [1.0, 0.0], 0.0).round(24))
    (0.0, 7.07107e-19)
    """
    b, b0, d = np.asarray(beta, dtype=float), np.asarray(other, dtype=float), np.asarray(delta, dtype=float)
    x, y = np.linalg.norm(b, axis=-1), np.linalg.norm(b0, axis=-1)
    slope = radial_slope(y, d)
    longer = ((b - b0) * (b + b0)).sum(axis=-1) / (x + y)  # x − y
    across = (b - b0) - (longer / y)[..., None] * b0
    turned = slope * (across * across).sum(axis=-1) / (2 * np.where(x > 0, x, 1.0))
    step = longer[..., None]
    curved = radial_curvature(np.maximum(y[..., None] + step * _NODES, 1e-300), d[..., None])
    near = step[..., 0] ** 2 * ((1 - _NODES) * curved * _WEIGHTS).sum(axis=-1)
    far = radial_potential(x, d) - radial_potential(y, d) - slope * longer
    return np.asarray(np.where(np.abs(longer) < NEAR * np.maximum(x, y), near, far) + turned)


@implements(KUN24["Eq. 42"])
def bias_gradient(beta: ArrayLike, beta0: ArrayLike, delta: ArrayLike) -> Floats:
    r"""$\nabla Q(\beta)=\nabla\Phi_\delta(\beta)-\nabla\Phi_\delta(\beta_0)$: in the row space of X where flow ends."""
    return np.asarray(dual(beta, delta) - dual(beta0, delta))


@implements(KUN24["Eq. 110"], KUN24["Eq. 112"], KUN24["Eq. 113"], KUN24["Eq. 115"])
def aligned_dual(strength: ArrayLike, delta: ArrayLike, product: ArrayLike = 1.0) -> Floats:
    r"""$q_\delta'(u)=\frac1{2k}\sinh^{-1}\frac{2ku}{|\delta|}$, $k=\sqrt{\eta_a\eta_w}$, δ ≠ 0: a mode's dual."""
    k = np.sqrt(np.asarray(product, dtype=float))
    return np.asarray(np.arcsinh(2 * k * np.asarray(strength, dtype=float) / np.abs(delta)) / (2 * k))


def aligned_primal(theta: ArrayLike, delta: ArrayLike, product: ArrayLike = 1.0) -> Floats:
    r"""$u=\frac{|\delta|}{2k}\sinh2k\theta$.

    >>> float(aligned_primal(aligned_dual(0.3, 0.5), 0.5).round(12))
    0.3
    """
    k = np.sqrt(np.asarray(product, dtype=float))
    return np.asarray(np.abs(delta) * np.sinh(2 * k * np.asarray(theta, dtype=float)) / (2 * k))


@implements(
    KUN24["Eq. 103"].misprint(
        printed="Λ* = argmin Q_δ(Λ) subject to XUΛV^T = Y, and β(∞) = UΛ*V^T (again in Eq. 111)",
        right="subject to XVΛU^T = Y, and β(∞) = VΛ*U^T, as Assumption B.4 has it",
        how="integration on low-rank inputs: constraint 1e-9, 0.1 and more as printed",
    ),
    KUN24["Eq. 111"],
)
def aligned_bias(
    strengths: ArrayLike, initial: ArrayLike, delta: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0
) -> Floats:
    r"""What aligned networks minimise: $Q_\delta(\Lambda)=\sum_iq_\delta(\Lambda_i)-q_\delta'(\Lambda_i(0))\Lambda_i$.

    Args:
        strengths: Λ (…, mode).
        initial: Λ(0) (…, mode).
        delta: imbalance, not 0.
        eta_a: learning rate of the last layer.
        eta_w: learning rate of the first layer.
    """
    u = np.asarray(strengths, dtype=float)
    slope = aligned_dual(initial, delta, eta_a * eta_w)
    return np.asarray((hyperbolic_entropy(u, delta, eta_a, eta_w) - slope * u).sum(axis=-1))
