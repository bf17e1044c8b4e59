r"""The single linear neuron f = a w·x on whitened inputs, solved for every start.

With $\tilde a=\sqrt{\eta_w}\,a$, $\tilde w=\sqrt{\eta_a}\,w$, $\tilde\beta_*=\sqrt{\eta_a\eta_w}\,\beta_*$ the
conserved $\delta=\tilde a^2-\|\tilde w\|^2$ turns the cubic flow of $q=(\tilde a;\tilde w)$ into an Oja flow,

$$\dot q=Gq-\tfrac12\|q\|^2q,\quad
G=\begin{pmatrix}\delta/2&\tilde\beta_*^T\\\tilde\beta_*&-\tfrac\delta2I\end{pmatrix},\qquad
q(t)=\frac{e^{Gt}q_0}{\sqrt{1+\int_0^t\|e^{Gs}q_0\|^2ds}},$$

one formula for every $\delta$, every sign of $a_0$ and every pair of rates. It is evaluated with the growing
exponential $e^{Rt}$ divided out and without a subtraction that is not in the problem itself, so it neither
overflows nor loses digits at $|\delta|=10^6$ or $t=\infty$.

Axes: vectors have their component first, scalars none; both broadcast against `t`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from richter.maths.arrays import (
    Array,
    alike,
    early_bend,
    finite_time,
    integral_of_decay,
    norm,
    only_where,
    plus_and_minus,
    possible,
    safe_root,
)
from richter.maths.kernel_movement import kernel_movement
from richter.maths.neuron_law import neuron_delta, neuron_kernel
from richter.refs import KUN24, implements

EARLY = 0.015  # Rt below which a difference of exponentials is taken from its series
LATE = 100.0  # Rt above which a start on the separatrix has nothing left but what decays
NEURON_OUTPUTS = (
    "a", "w", "beta", "mu", "phi", "residual", "loss", "kernel", "kernel_distance",
    "kernel_change",
)  # fmt: skip


@implements(KUN24["Eq. 33"])
def basin_margin(a0: Array, w0: Array, beta_star: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> Array:
    r"""$\eta_aw_0\!\cdot\!\beta_*+\tfrac{a_0}2(\delta+\sqrt{\delta^2+4\eta_a\eta_w\|\beta_*\|^2})$, any δ and rates.

    Positive: the start ends on the branch a > 0; negative: on a < 0; 0: on the saddle. For δ ≥ 0 its sign is
    that of a₀ (Eq. 33's other case).

    >>> basin_margin(1.0, np.array([-3.0, 0.0]), np.array([1.0, 0.0])) < 0
    np.True_
    """
    xp, (a0, w0, beta_star, eta_a, eta_w) = alike(a0, w0, beta_star, eta_a, eta_w)
    h, square = neuron_delta(a0, w0, eta_a, eta_w) / 2, eta_a * eta_w * xp.sum(beta_star * beta_star, axis=0)
    fast, _ = plus_and_minus(xp, xp.hypot(h, xp.sqrt(square)), h, square)
    return eta_a * xp.sum(w0 * beta_star, axis=0) + a0 * fast


@dataclass(frozen=True)
class NeuronModes:
    """What the solution needs of the start: computed once per start, used at every time."""

    xp: Any
    size: int  # number of inputs d
    root_a: Array  # √η_w, turns a into ã
    root_w: Array  # √η_a, turns w into w̃
    target_norm: Array  # B
    direction: Array  # e, target's direction (input, …)
    delta: Array
    root: Array  # R
    fast: Array  # r = R + δ/2
    slow: Array  # R − δ/2
    cos: Array
    sin: Array
    y_plus: Array
    y_minus: Array
    a0: Array  # ã₀
    w0: Array  # w̃₀ (input, …)
    along: Array  # ω
    across: Array  # w⊥ (input, …)
    across_square: Array
    w0_square: Array
    separatrix: Array  # y₊ = 0: the start flows into the saddle
    frozen_a: Array
    frozen_w: Array


def neuron_modes(a0: Array, w0: Array, beta_star: Array, eta_a: Array = 1.0, eta_w: Array = 1.0) -> NeuronModes:
    """Decompose the start along the growing and the decaying direction of G."""
    xp, (a0, w0, beta_star, eta_a, eta_w) = alike(a0, w0, beta_star, eta_a, eta_w)
    frozen_a, frozen_w = eta_a == 0, eta_w == 0
    if possible(frozen_a | frozen_w):  # solved apart; these rates only keep the numbers finite
        eta_a, eta_w = xp.where(frozen_a, 1.0, eta_a), xp.where(frozen_w, 1.0, eta_w)
    root_a, root_w = xp.sqrt(eta_w), xp.sqrt(eta_a)
    a, w, target = root_a * a0, root_w * w0, root_a * root_w * beta_star
    B = xp.sqrt(xp.sum(target * target, axis=0))
    e = target / B
    delta = neuron_delta(a, w)
    h = delta / 2
    R = xp.hypot(h, B)
    fast, slow = plus_and_minus(xp, R, h, B * B)
    cos, sin = xp.sqrt(fast / (2 * R)), xp.sqrt(slow / (2 * R))
    along = xp.sum(w * e, axis=0)
    across = w - along * e
    across = across - xp.sum(across * e, axis=0) * e
    up = h >= 0
    y_plus = xp.where(up, cos * (a + along * (B / fast)), sin * (along + a * (B / slow)))
    y_minus = xp.where(up, cos * (along - a * (B / fast)), sin * (along * (B / slow) - a))
    return NeuronModes(
        xp, w.shape[0], root_a, root_w, B, e, delta, R, fast, slow, cos, sin, y_plus, y_minus,
        a, w, along, across, xp.sum(across * across, axis=0), xp.sum(w * w, axis=0),
        y_plus == 0, frozen_a, frozen_w,
    )  # fmt: skip


@implements(
    KUN24["Eq. 34"].misprint(
        printed="a = sgn(μ)√((κ+δ)/2), ‖w‖ = √((κ−δ)/2) with κ = √(δ²+4μ²)",
        right="holds for η_a = η_w = 1 only; in general a = sgn(μ)√((κ+δ)/2η_w), ‖w‖ = √((κ−δ)/2η_a), "
        "κ = √(δ²+4η_aη_wμ²), and sgn(μ) does not exist at μ = 0: (a, w) comes from the unified form",
        how="compared with DOP853 for rate ratios up to 25",
    ),
    KUN24["Eq. 35"].misprint(
        printed="c₂ = √(‖w‖² − c₁²) along (I − ee^T)w₀ / its norm",
        right="0/0 when w₀ ∥ β*, and the root cancels; the same vector is e^{−rt} w⊥/√m",
        how="50-digit arithmetic",
    ),
)
def neuron_path(modes: NeuronModes, t: Array, only: Collection[str] = NEURON_OUTPUTS) -> dict[str, Array]:
    r"""The solution at times `t` ≥ 0, ∞ included.

    With $E=e^{-2Rt}$, $F=1-E$, $y_\pm$ the start's components along the growing and decaying directions,
    $$\tilde a=\frac{F\cos\theta\,y_++E\tilde a_0}{\sqrt m},\quad
    \tilde w=\frac{e^{-rt}\tilde w_0+\mathcal G\,e}{\sqrt m},\quad
    m=E+\tfrac F{2R}(y_+^2+y_-^2E)+\|w_\perp\|^2g .$$

    >>> modes = neuron_modes(1.0, np.array([-1.0, 0.0]), np.array([0.0, 1.0]))
    >>> end = neuron_path(modes, np.array(np.inf), only=("beta", "loss"))
    >>> end["beta"].round(12).tolist(), float(end["loss"])
    ([0.0, 1.0], 0.0)
    """
    m, xp = modes, modes.xp
    wanted = set(only)
    (t,) = alike(t)[1] if xp is np else (t,)
    t_finite = finite_time(xp, t)
    t = t if xp is np else t_finite  # derivatives do not survive ∞
    rt, qt = m.fast * t, m.slow * t
    decay, decay_slow = xp.exp(-rt), xp.exp(-qt)
    gone, gone_slow = xp.expm1(-rt), xp.expm1(-qt)
    E = decay * decay_slow
    F = -(gone + decay * gone_slow)
    up = m.delta >= 0
    spread = integral_of_decay(xp, xp.where(up, m.delta, -m.delta), t, t_finite)
    start, weight = E, E  # factors of q₀ and of its square
    g = decay * xp.where(up, decay_slow, decay) * spread
    turn = m.cos * m.y_minus * decay * gone_slow
    saddle = m.separatrix & (t > LATE / m.root)
    if possible(saddle):
        # Nothing grows: the largest of the decaying factors is divided out instead of e^{Rt}.
        level = up | (m.across_square == 0)
        only_e, only_w = xp.exp(-m.root * t), xp.exp(-xp.where(level, 0.0, -m.delta) * t_finite)
        h_decay = xp.exp(-xp.where(level, xp.where(up, m.delta, 0.0) / 2, 0.0) * t_finite)
        s_start = xp.where(level, only_e, xp.exp(-m.slow * t))
        s_decay = xp.where(level, h_decay, xp.ones_like(E))
        start = xp.where(saddle, s_start, start)
        weight = xp.where(saddle, only_w, weight)
        g = xp.where(saddle, spread, g)
        decay = xp.where(saddle, s_decay, decay)
        turn = xp.where(saddle, m.cos * m.y_minus * (s_start - s_decay), turn)
    big = F / (2 * m.root) * (m.y_plus * m.y_plus + m.y_minus * m.y_minus * weight)
    tail = m.across_square * g
    mass = weight + big + tail
    scale = 1 / xp.sqrt(mass)
    up_a = F * (m.cos * m.y_plus) + start * m.a0
    rotation = turn - m.sin * m.y_plus * gone
    if wanted & {"w", "beta", "kernel", "kernel_distance", "kernel_change"}:
        early = t < EARLY / m.root
        if possible(early):
            # There the two nearly cancel: what w₀ contributes is of second order in t.
            pick, put = only_where(xp, early, rotation)
            bent = early_bend(pick(rt), pick(qt))
            sin = pick(m.sin)
            rotation = put(sin * (pick(m.along) * sin * bent + pick(m.a0 * m.cos) * pick(F)))
    a = up_a * scale
    out: dict[str, Array] = {}
    if wanted & {"a", "beta", "kernel"}:
        out["a"] = a / m.root_a
    if wanted & {"w", "beta", "kernel"}:
        out["w"] = ((decay * scale) * m.w0 + (rotation * scale) * m.direction) / m.root_w
    if "kernel" in wanted:
        out["kernel"] = neuron_kernel(a, out["w"] * m.root_w)
    if wanted & {"mu", "phi", "kernel_distance", "kernel_change"}:
        along = F * (m.sin * m.y_plus) + start * m.along
        square = along * along + (decay * decay) * m.across_square
        if "mu" in wanted:
            out["mu"] = a * safe_root(xp, square) * scale / (m.root_a * m.root_w)
        if "phi" in wanted:
            cosine = xp.where(square > 0, along, xp.nan) / xp.sqrt(xp.where(square > 0, square, 1.0))
            # Aligned for ever, also where the square underflows.
            out["phi"] = xp.where((m.across_square == 0) & (along != 0), xp.sign(along), cosine)
        if wanted & {"kernel_distance", "kernel_change"}:
            excess = big + tail - F
            if possible(saddle):
                excess = xp.where(saddle, mass - 1, excess)
            # The change of η_w a² for δ < 0, of η_a‖w‖² for δ ≥ 0: they are equal, the other one cancels.
            gap = (
                F * (xp.where(up, -m.cos, m.sin) * m.y_minus) * (xp.where(up, along + m.along, up_a + m.a0))
                + xp.expm1(-2 * rt) * xp.where(up, m.across_square, 0.0)
                - xp.where(up, m.w0_square, m.a0 * m.a0) * excess
            )
            # Where the state has shrunk or is still tiny, m ≪ 1, the plain difference is the accurate one.
            shrunk = (mass < 0.5) | saddle
            if possible(shrunk):
                gap = xp.where(shrunk, up_a * up_a - m.a0 * m.a0 * mass, gap)
            out["kernel_distance"], change = kernel_movement(
                m.delta,
                m.a0 * m.a0,
                m.w0_square,
                a * a,
                square / mass,
                gap / mass,
                (m.across_square, rotation * rotation / mass),
                (m.along * along + decay * m.across_square) * scale,
                m.size,
            )
            if "kernel_change" in wanted:
                out["kernel_change"] = change()
    if wanted & {"residual", "loss"}:
        short = ((m.a0 * m.along - m.target_norm) * weight - m.target_norm * tail) / mass
        if "residual" in wanted:
            side = up_a * decay / mass
            out["residual"] = (short * m.direction + side * m.across) / (m.root_a * m.root_w)
        if "loss" in wanted:
            side_square = (up_a * decay / mass) ** 2 * m.across_square
            out["loss"] = (short * short + side_square) / (2 * (m.root_a * m.root_w) ** 2)
    if "beta" in wanted:
        out["beta"] = out["a"] * out["w"]
    return {name: value for name, value in out.items() if name in wanted}


def frozen_neuron_path(
    a0: Array,
    w0: Array,
    beta_star: Array,
    eta_a: Array,
    eta_w: Array,
    t: Array,
    only: Collection[str] = NEURON_OUTPUTS,
) -> dict[str, Array]:
    r"""The same network with a frozen layer (rate 0): linear regression in the layer that learns.

    $\eta_a=0$: $\beta-\beta_*=(\beta_0-\beta_*)e^{-\eta_wa_0^2t}$. $\eta_w=0$: a relaxes at rate
    $\eta_a\|w_0\|^2$ to the least-squares value. The kernel never changes.
    """
    xp, (a0, w0, beta_star, eta_a, eta_w, t) = alike(a0, w0, beta_star, eta_a, eta_w, t)
    wanted = set(only)
    eta_w, eta_a = xp.where(eta_a == 0, eta_w, 0.0), xp.where(eta_w == 0, eta_a, 0.0)
    finite = finite_time(xp, t)
    t = t if xp is np else finite
    w_square = xp.sum(w0 * w0, axis=0)
    rate_a, rate_w = eta_a * w_square, eta_w * a0 * a0
    left_a = xp.exp(-rate_a * xp.where(rate_a == 0, finite, t))
    left_w = xp.exp(-rate_w * xp.where(rate_w == 0, finite, t))
    # What is left of the start and what was learned are added, never subtracted from each other.
    a = left_a * a0 + integral_of_decay(xp, rate_a, t, finite) * eta_a * xp.sum(w0 * beta_star, axis=0)
    time_w = integral_of_decay(xp, rate_w, t, finite) * eta_w
    w = left_w * w0 + (time_w * a0) * beta_star
    # β* has a part along w₀, which a can learn, and a part across, which it cannot.
    unit = w0 / xp.sqrt(xp.where(w_square > 0, w_square, 1.0))
    along = xp.sum(unit * beta_star, axis=0)
    across = beta_star - unit * along
    across = across - unit * xp.sum(unit * across, axis=0)
    within = unit * (a0 * norm(xp, w0) - along)
    residual = xp.where(eta_a == 0, left_w * (a0 * w0 - beta_star), left_a * within - across)
    size = norm(xp, w)
    target = xp.sqrt(xp.sum(beta_star * beta_star, axis=0))
    along = xp.sum(w * beta_star, axis=0)
    moving = (eta_w * a0 * a0 + eta_a * w_square) > 0
    made: dict[str, Callable[[], Array]] = {
        "a": lambda: a,
        "w": lambda: w,
        "beta": lambda: a * w,
        "mu": lambda: a * size,
        "phi": lambda: xp.where(size > 0, along, xp.nan) / xp.where(size > 0, size * target, 1.0),
        "residual": lambda: residual,
        "loss": lambda: xp.sum(residual * residual, axis=0) / 2,
        "kernel": lambda: neuron_kernel(a0 + 0 * a, w0 + 0 * w, eta_a, eta_w),
        "kernel_distance": lambda: xp.where(moving, 0.0, xp.nan) + 0 * a,
        "kernel_change": lambda: xp.where(moving, 0.0, xp.nan) + 0 * a,
    }
    return {name: make() for name, make in made.items() if name in wanted}


def solve_neuron(
    t: Array,
    a0: Array,
    w0: Array,
    beta_star: Array,
    eta_a: Array = 1.0,
    eta_w: Array = 1.0,
    only: Collection[str] = NEURON_OUTPUTS,
) -> dict[str, Array]:
    r"""The exact flow for every start and every pair of rates, frozen layers included.

    Args:
        t: times, broadcasting against the starts (put them on the last axis).
        a0: output weight at the start.
        w0: input weights at the start, component axis first.
        beta_star: least-squares solution $\beta_*=X^Ty$, component axis first; not 0.
        eta_a: learning rate of the output weight.
        eta_w: learning rate of the input weights.
        only: the outputs wanted, of `NEURON_OUTPUTS`.

    >>> out = solve_neuron(np.linspace(0, 5, 3), 0.0, np.array([[1.0], [0.0]]), np.array([[0.6], [0.8]]))
    >>> out["w"].shape, out["a"].round(3).tolist()
    ((2, 3), [0.0, 0.698, 0.782])
    """
    modes = neuron_modes(a0, w0, beta_star, eta_a, eta_w)
    out = neuron_path(modes, t, only)
    frozen = modes.frozen_a | modes.frozen_w
    if possible(frozen):
        still = frozen_neuron_path(a0, w0, beta_star, eta_a, eta_w, t, only)
        out = {name: modes.xp.where(frozen, still[name], value) for name, value in out.items()}
    return out
