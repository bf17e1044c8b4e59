"""The wide network on a line as a problem, and the mechanisms by which it learns."""

from __future__ import annotations

from richter.maths.arrays import Array, alike, safe_root
from richter.refs import NAM24, XU24, implements


@implements(
    XU24["Eq. 2"].misprint(printed="dw_i/dt = −η_w ∂L/∂w_ij", right="dw_ij/dt = −η_w ∂L/∂w_ij", how="algebra"),
    XU24["Eq. 18"],
)
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


@implements(XU24["Eq. 19"])
def neuron_imbalance(u: Array, w: Array, eta_u: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""The conserved $\eta_u\sum_jw_{ij}^2-\eta_wu_i^2$ of every neuron; w (neuron, input, …).

    >>> import numpy as np
    >>> neuron_imbalance(np.array([1.0]), np.array([[2.0, 2.0]])).round(12).tolist()
    [7.0]
    """
    xp, (u, w, eta_u, eta_w) = alike(u, w, eta_u, eta_w)
    return conserved_product(u, safe_root(xp, (w * w).sum(axis=1)), eta_u, eta_w)


@implements(
    XU24["Eq. 20"],
    XU24["Eq. 21"].misprint(
        printed="Σ_{j=1}^N w_ij x_j (again in Eqs 22 and 23)",
        right="Σ_{j=1}^{d₀} w_ij x_j: a sum over inputs, not over examples",
        how="algebra",
    ),
)
def across_the_data(w: Array, x: Array) -> Array:
    r"""$w_{ij}-(w_i\!\cdot\!x)x_j/\rho^2$, what no gradient moves; w (neuron, input, …), x (input, …) ≠ 0.

    $\frac{w_{ij}}{x_j}-\frac{w_{ij'}}{x_{j'}}$ and $\sum_jw_{ij}^2-(w_i\!\cdot\!x)^2/\rho^2$ are read off it.
    """
    return w - (w * x).sum(axis=1)[:, None] * (x / (x * x).sum(axis=0))


@implements(XU24["Eq. 24"], XU24["Eq. 25"])
def halves_flow(
    p: Array, q: Array, y: Array, gamma: Array = 1.0, rho: Array = 1.0, eta_u: Array = 1.0, eta_w: Array = 1.0
) -> tuple[Array, Array]:
    r"""$\dot p_i=-2\gamma\rho\sqrt{\eta_u\eta_w}\,p_i(f-y)$, $\dot q_i=+2\gamma\rho\sqrt{\eta_u\eta_w}\,q_i(f-y)$.

    With $f=\frac{\gamma\rho}{\sqrt{\eta_u\eta_w}}\sum_j(p_j^2-q_j^2)$. The rate is the same for all neurons: the ratios
    $p_i/p_{i'}$ and the products $p_iq_i$ stay. Neurons are the first axis.
    """
    xp, (p, q, y, gamma, rho, eta_u, eta_w) = alike(p, q, y, gamma, rho, eta_u, eta_w)
    root = xp.sqrt(eta_u * eta_w)
    rate = 2 * gamma * rho * root * (gamma * rho / root * xp.sum((p - q) * (p + q), axis=0) - y)
    return -rate * p, rate * q


@implements(XU24["Eq. 12"])
def alignment_slope(growth: Array, P: Array, Q: Array, overlap: Array) -> Array:
    r"""$\frac{d\zeta}{d\alpha}=\frac{(P+Q/\alpha^2)(4PQ-o^2)}{[(\alpha P+Q/\alpha)^2-o^2]^{3/2}}$.

    With the overlap $o=\frac2d\sum p_iq_i$. Never negative: ζ rises with α and with nothing else.
    """
    return (P + Q / growth**2) * (4 * P * Q - overlap**2) / ((growth * P + Q / growth) ** 2 - overlap**2) ** 1.5


@implements(
    XU24["Eq. 13"].misprint(
        printed="for η_u ≫ η_w the condition depends “essentially linearly on η_w”; it holds whenever Q ≥ P",
        right="like √(η_w/η_u); it holds whenever Q ≥ P if y > 0",
        how="numerically: the slope of log s over log η_w is ½ at fixed layers",
    ),
)
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


@implements(
    XU24["Sec. 3.3"].misprint(
        printed="‖u‖² = d(αP + Q/α) − 2Σp_iq_i, ‖w‖² = d(αP + Q/α) + 2Σp_iq_i",
        right="η_w‖u‖² and η_u‖v‖² with v = Wx/ρ; as printed for η_u = η_w = ρ = 1 and one input",
        how="numerically",
    ),
)
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
