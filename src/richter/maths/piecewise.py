r"""Two-layer networks $f(x)=\sum_ia_i\sigma(w_i\cdot x)$, $\sigma(z)=\max(z,\gamma z)$: flow, coordinates, kernel.

Arrays are a (…, neuron), w (…, neuron, input), X (…, example, input), y (…, example); leading dimensions broadcast.
The loss is $\tfrac12\sum_j\rho_j^2$, $\rho_j=f(x_j)-y_j$. A bias is the weight of a constant input.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.preconditioner import kappa_and_halves
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]


def slopes(z: ArrayLike, leak: float = 0.0) -> Floats:
    r"""$\sigma'(z)$: 1 for z > 0, else the leak, which is also taken at z = 0.

    >>> slopes([-1.0, 0.0, 2.0], 0.1).tolist()
    [0.1, 0.1, 1.0]
    """
    return np.where(np.asarray(z, dtype=float) > 0, 1.0, leak)


def preactivations(w: ArrayLike, X: ArrayLike) -> Floats:
    r"""$z_{ij}=w_i\cdot x_j$ (…, neuron, example)."""
    return np.asarray(w, dtype=float) @ np.swapaxes(np.asarray(X, dtype=float), -1, -2)


def network_output(a: ArrayLike, w: ArrayLike, X: ArrayLike, leak: float = 0.0) -> Floats:
    r"""$f(x_j)=\sum_ia_i\sigma(w_i\cdot x_j)$ (…, example).

    >>> network_output([1.0, 2.0], [[1.0, 0.0], [0.0, -1.0]], [[3.0, 4.0]], leak=0.5).tolist()
    [-1.0]
    """
    z = preactivations(w, X)
    return (np.asarray(a, dtype=float)[..., None] * slopes(z, leak) * z).sum(axis=-2)


@implements(KUN24["App. C.2"])
def imbalance(a: ArrayLike, w: ArrayLike, eta_a: ArrayLike = 1.0, eta_w: ArrayLike = 1.0) -> Floats:
    r"""$\delta_i=\eta_wa_i^2-\eta_a\|w_i\|^2$ (…, neuron), conserved; as a product, which does not cancel.

    >>> imbalance([3.0], [[1.0, 2.0]]).round(12).tolist()
    [4.0]
    """
    upper = np.sqrt(eta_w) * np.abs(np.asarray(a, dtype=float))
    lower = np.sqrt(eta_a) * np.linalg.norm(np.asarray(w, dtype=float), axis=-1)
    return np.asarray((upper - lower) * (upper + lower))


def to_spherical(a: ArrayLike, w: ArrayLike) -> tuple[Floats, Floats]:
    r"""Signed spherical coordinates $\mu_i=a_i\|w_i\|$ and $\hat\beta_i=w_i/\|w_i\|$, NaN where w_i = 0.

    >>> [x.tolist() for x in to_spherical([-2.0], [[3.0, 4.0]])]
    [[-10.0], [[0.6, 0.8]]]
    """
    w = np.asarray(w, dtype=float)
    size = np.linalg.norm(w, axis=-1)
    unit = np.where(size > 0, size, np.nan)[..., None]
    return np.asarray(a, dtype=float) * size, w / unit


def from_spherical(
    mu: ArrayLike, direction: ArrayLike, delta: ArrayLike, eta_a: ArrayLike = 1.0, eta_w: ArrayLike = 1.0
) -> tuple[Floats, Floats]:
    r"""(a, w) of signed spherical coordinates, from the conserved imbalance.

    $\eta_wa^2=\frac{\kappa+\delta}2$, $\eta_a\|w\|^2=\frac{\kappa-\delta}2$, the smaller by its
    conjugate. The sign of a is that of μ; at μ = 0 with δ > 0, where μ does not tell it, a > 0.

    >>> a, w = from_spherical([-10.0], [[0.6, 0.8]], [4.0 - 25.0])
    >>> a.round(12).tolist(), w.round(12).tolist()
    ([-2.0], [[3.0, 4.0]])
    """
    m = np.asarray(mu, dtype=float)
    _, plus, minus = kappa_and_halves(m, delta, np.multiply(eta_a, eta_w))
    sign = np.where(m < 0, -1.0, 1.0)
    a = sign * np.sqrt(plus / 2 / np.asarray(eta_w))
    length = np.sqrt(minus / 2 / np.asarray(eta_a))
    return a, length[..., None] * np.asarray(direction, dtype=float)


def drive(a: ArrayLike, w: ArrayLike, X: ArrayLike, y: ArrayLike, leak: float = 0.0) -> Floats:
    r"""$\xi_i=\sum_jc_{ij}x_j\rho_j$ (…, neuron, input), with $c_{ij}=\sigma'(w_i\cdot x_j)$."""
    rho = network_output(a, w, X, leak) - np.asarray(y, dtype=float)
    return (slopes(preactivations(w, X), leak) * rho[..., None, :]) @ np.asarray(X, dtype=float)


@implements(KUN24["Eq. 124"])
def parameter_flow(
    a: ArrayLike,
    w: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    leak: float = 0.0,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
) -> tuple[Floats, Floats]:
    r"""$\dot a_i=-\eta_aw_i\cdot\xi_i$, $\dot w_i=-\eta_wa_i\xi_i$."""
    xi = drive(a, w, X, y, leak)
    return -eta_a * (np.asarray(w) * xi).sum(axis=-1), -eta_w * np.asarray(a)[..., None] * xi


def preconditioners(a: ArrayLike, w: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""$M_i=\eta_wa_i^2I_d+\eta_aw_iw_i^T$ (…, neuron, input, input)."""
    a, w = np.asarray(a, dtype=float), np.asarray(w, dtype=float)
    outer = w[..., :, None] * w[..., None, :]
    return np.asarray(eta_w * (a * a)[..., None, None] * np.eye(w.shape[-1]) + eta_a * outer)


@implements(KUN24["Eq. 126"])
def preconditioners_of_functions(betas: ArrayLike, deltas: ArrayLike, eta_a: float = 1.0, eta_w: float = 1.0) -> Floats:
    r"""M_i from $\beta_i=a_iw_i$ and δ_i.

    $M_i=\frac{\kappa_i+\delta_i}2I_d+\frac{\kappa_i-\delta_i}2\hat\beta_i\hat\beta_i^T$.
    At β_i = 0 it is $\delta_iI$ for δ_i ≥ 0 (w_i = 0), and NaN for δ_i < 0 (a_i = 0): β_i has then no direction.

    >>> preconditioners_of_functions([[0.0, 2.0], [0.0, 0.0]], [3.0, 1.0]).tolist()
    [[[4.0, 0.0], [0.0, 5.0]], [[1.0, 0.0], [0.0, 1.0]]]
    """
    b = np.asarray(betas, dtype=float)
    size = np.linalg.norm(b, axis=-1)
    _, plus, minus = kappa_and_halves(size, deltas, eta_a * eta_w)
    unit = b / np.where(size > 0, size, 1.0)[..., None]
    lost = np.where((size == 0) & (minus > 0), np.nan, 1.0)
    outer = unit[..., :, None] * unit[..., None, :]
    M = (plus / 2)[..., None, None] * np.eye(b.shape[-1]) + (minus / 2)[..., None, None] * outer
    return np.asarray(M * lost[..., None, None])


@implements(KUN24["Eq. 8"], KUN24["Eq. 125"])
def function_flow(
    a: ArrayLike,
    w: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    leak: float = 0.0,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
) -> Floats:
    r"""$\dot\beta_i=-M_i\xi_i$ (…, neuron, input) for $\beta_i=a_iw_i$."""
    xi = drive(a, w, X, y, leak)
    return -(preconditioners(a, w, eta_a, eta_w) @ xi[..., None])[..., 0]


@implements(KUN24["Eq. 9"], KUN24["Eq. 127"])
def spherical_flow(
    mu: ArrayLike,
    direction: ArrayLike,
    delta: ArrayLike,
    X: ArrayLike,
    y: ArrayLike,
    leak: float = 0.0,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
) -> tuple[Floats, Floats]:
    r"""The flow in signed spherical coordinates.

    $\dot\mu_i=-\kappa_i\hat\beta_i\cdot\xi_i$,
    $\dot{\hat\beta}_i=-\frac{\kappa_i+\delta_i}{2\mu_i}(I-\hat\beta_i\hat\beta_i^T)\xi_i$.
    With $\kappa_i=\sqrt{\delta_i^2+4\eta_a\eta_w\mu_i^2}$. For δ_i < 0 the factor is
    $2\eta_a\eta_w\mu_i/(\kappa_i-\delta_i)$, which neither cancels nor divides by μ. For δ_i ≥ 0 it is undefined at
    μ_i = 0: NaN.
    """
    m, unit, k = np.asarray(mu, dtype=float), np.asarray(direction, dtype=float), eta_a * eta_w
    # The network depends on a and w through μ and the direction alone.
    xi = drive(m, unit, X, y, leak)
    kappa, plus, minus = kappa_and_halves(m, delta, k)
    down = np.broadcast_to(np.asarray(delta, dtype=float) < 0, m.shape)
    turn = np.where(down, 2 * k * m / np.where(down, minus, 1.0), plus / (2 * np.where(m == 0, np.nan, m)))
    along = (unit * xi).sum(axis=-1)
    return -kappa * along, -turn[..., None] * (xi - along[..., None] * unit)


@implements(KUN24["Sec. 5"])
def kernel_matrix(
    a: ArrayLike,
    w: ArrayLike,
    X: ArrayLike,
    leak: float = 0.0,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
    pattern: ArrayLike | None = None,
) -> Floats:
    r"""The tangent kernel $K_{jk}=\sum_ic_{ij}\,x_j^TM_ix_k\,c_{ik}$ (…, example, example).

    Evaluated as $(x_j\cdot x_k)\,\eta_w\sum_ia_i^2c_{ij}c_{ik}+\eta_a\sum_i\sigma(z_{ij})\sigma(z_{ik})$: no (input,
    input) matrix is formed. `pattern` is c (…, neuron, example) where it is known; $\sigma'(z)$ by default.

    >>> kernel_matrix([2.0], [[1.0, 0.0]], [[1.0, 0.0], [-1.0, 1.0]]).tolist()
    [[5.0, 0.0], [0.0, 0.0]]
    """
    a, X = np.asarray(a, dtype=float), np.asarray(X, dtype=float)
    z = preactivations(w, X)
    c = slopes(z, leak) if pattern is None else np.asarray(pattern, dtype=float)
    active, hidden = a[..., None] * c, c * z
    turned = np.swapaxes(X, -1, -2)
    first = np.swapaxes(active, -1, -2) @ active
    second = np.swapaxes(hidden, -1, -2) @ hidden
    return np.asarray(eta_w * (X @ turned) * first + eta_a * second)


@implements(
    KUN24["App. D.1"].misprint(
        printed="δ² = τ²(α² − α⁻²)",
        right="δ = τ²(α² − α⁻²), so α = exp(½ asinh(δ/2τ²))",
        how="numerically 1e-16: every neuron of such a start then has imbalance δ",
    )
)
def layer_scale(tau: ArrayLike, delta: ArrayLike, eta_a: ArrayLike = 1.0, eta_w: ArrayLike = 1.0) -> Floats:
    r"""α with which $a\to\tau\alpha a$, $w\to\tau w/\alpha$ gives unit neurons the imbalance δ.

    $\tau^2(\eta_w\alpha^2-\eta_a\alpha^{-2})=\delta$, so with $k=\sqrt{\eta_a\eta_w}$
    $\alpha=(\eta_a/\eta_w)^{1/4}\exp\big(\tfrac12\sinh^{-1}\frac\delta{2k\tau^2}\big)$.

    >>> float(layer_scale(0.1, 0.0)), round(float(0.1**2 * (layer_scale(0.1, 1.0)**2 - layer_scale(0.1, 1.0)**-2)), 12)
    (1.0, 1.0)
    """
    t, ea, ew = (np.asarray(v, dtype=float) for v in (tau, eta_a, eta_w))
    lean = np.arcsinh(np.asarray(delta, dtype=float) / (2 * np.sqrt(ea * ew) * t * t))
    return np.asarray((ea / ew) ** 0.25 * np.exp(lean / 2))
