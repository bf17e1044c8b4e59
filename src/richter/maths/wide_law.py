"""The wide network on a line as a problem, and the mechanisms by which it learns."""

from __future__ import annotations

from richter.maths.arrays import Array, alike
from richter.refs import NAM24, XU24, implements


@implements(XU24["Eq. 2"], XU24["Eq. 18"])
def wide_flow(
    u: Array, w: Array, x: Array, y: Array, gamma: Array = 1.0, eta_u: Array = 1.0, eta_w: Array = 1.0
) -> tuple[Array, Array]:
    r"""$\dot u_i=-2\eta_u\gamma\,(w_i\!\cdot\!x)(f-y)$, $\dot w_{ij}=-2\eta_w\gamma\,u_ix_j(f-y)$.

    Args:
        u: (neuron, …).
        w: (neuron, input, …).
        x: (input, …).
        y: target.
        gamma: output scale.
        eta_u: learning rate of u.
        eta_w: learning rate of w.
    """
    hidden = (w * x).sum(axis=1)
    error = gamma * (u * hidden).sum(axis=0) - y
    return -2 * eta_u * gamma * hidden * error, -2 * eta_w * gamma * u[:, None] * x * error


@implements(
    XU24["Eq. 10"].misprint(
        printed="K(x,x') = γ² x^T(η_w W^T W + η_u‖u‖²I) x', after df/dt = 2K(f − y)",
        right="K(x,x') = γ² x^T(η_u W^T W + η_w‖u‖²I) x' with df/dt = −2K(f − y): rates swapped, sign missing",
        how="df/dt along the flow: −0.24279, corrected formula −0.24279, as printed −0.597",
    )
)
def wide_kernel(
    u: Array, w: Array, x: Array, other: Array, gamma: Array = 1.0, eta_u: Array = 1.0, eta_w: Array = 1.0
) -> Array:
    r"""$K(x,x')=\gamma^2x^T(\eta_uW^TW+\eta_w\|u\|^2I)x'$; shapes as in `wide_flow`."""
    hidden, also = (w * x).sum(axis=1), (w * other).sum(axis=1)
    return gamma**2 * (eta_u * (hidden * also).sum(axis=0) + eta_w * (u * u).sum(axis=0) * (x * other).sum(axis=0))


@implements(
    XU24["Eq. 22"],
    XU24["Eq. 23"],
    XU24["Sec. 3.2"].misprint(
        printed="4p_iq_i = u_i² − w_i²",
        right="4p_iq_i = η_u v_i² − η_w u_i² with v = Wx/ρ, which is w_i² − u_i² for η = ρ = 1",
        how="numerically",
    ),
    NAM24["Eq. 3.8"],
)
def conserved_product(u: Array, v: Array, eta_u: Array = 1.0, eta_v: Array = 1.0) -> Array:
    r"""$4p_iq_i=\eta_uv_i^2-\eta_vu_i^2$ of every neuron, as a product of sum and difference.

    >>> float(conserved_product(1.0, 2.0))
    3.0
    """
    xp, (u, v, eta_u, eta_v) = alike(u, v, eta_u, eta_v)
    left, right = xp.sqrt(eta_u) * xp.abs(v), xp.sqrt(eta_v) * xp.abs(u)
    return (left - right) * (left + right)


@implements(XU24["Eq. 12"])
def alignment_slope(growth: Array, P: Array, Q: Array, overlap: Array) -> Array:
    r"""$\frac{d\zeta}{d\alpha}=\frac{(P+Q/\alpha^2)(4PQ-o^2)}{[(\alpha P+Q/\alpha)^2-o^2]^{3/2}}$.

    With the overlap $o=\frac2d\sum p_iq_i$. Never negative: ζ rises with α and with nothing else.
    """
    return (P + Q / growth**2) * (4 * P * Q - overlap**2) / ((growth * P + Q / growth) ** 2 - overlap**2) ** 1.5


@implements(XU24["Eq. 13"])
def alignment_rises(
    P: Array, Q: Array, width: Array, y: Array, gamma: Array, rho: Array, eta_u: Array, eta_w: Array
) -> Array:
    r"""Whether $s+\sqrt{s^2+Q/P}>1$ with $s=\sqrt{\eta_u\eta_w}\,y/2\gamma d\rho P$: then ζ rises.

    The same as $\alpha_+>1$ and, for γ > 0, as y > f(0). It is not linear in $\eta_w$, as the text has it: for
    $\eta_u\gg\eta_w$ s goes like $\sqrt{\eta_w/\eta_u}$.
    """
    xp, (P, Q, y, gamma, rho, eta_u, eta_w) = alike(P, Q, y, gamma, rho, eta_u, eta_w)
    s = xp.sqrt(eta_u * eta_w) * y / (2 * gamma * width * rho * P)
    return s + xp.sqrt(s * s + Q / P) > 1


NORMS = ("one layer is frozen", "norms grow", "norms shrink", "norms shrink, then grow", "norms stay")


@implements(XU24["Sec. 3.3"])
def norm_case(p: Array, q: Array, final: Array) -> Array:
    r"""Which of the four cases of §3.3 the norms follow: 1 grow, 2 shrink, 3 shrink then grow, 4 stay.

    $\|u\|^2$ and $\|w\|^2$ change by $d(P-Q/\alpha^2)\,d\alpha$ as α goes from 1 to `final`.

    >>> import numpy as np
    >>> norm_case(np.array([2.0, 2.0, 2.0]), np.array([1.0, 1.0, 1.0]), np.array([3.0, 0.8, 0.1])).tolist()
    [1, 2, 3]
    """
    xp, (p, q, final) = alike(p, q, final)
    middle = xp.sqrt(q / xp.where(p > 0, p, 1.0))  # where dα(P − Q/α²) changes sign
    middle = xp.where(p > 0, middle, xp.inf)
    grow = ((p > q) & (final > 1)) | ((p < q) & (final < 1)) | (p == q)
    shrink = ((p > q) & (final >= middle)) | ((p < q) & (final <= middle))
    return xp.where(final == 1, 4, xp.where(grow, 1, xp.where(shrink, 2, 3)))
