r"""The two layers of f = s Σ uᵢvᵢ in time, from their growth factor; frozen layers included."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from richter.maths.arrays import (
    Array,
    alike,
    finite_time,
    huge,
    integral_of_decay,
    norm,
    only_where,
    possible,
    safe_root,
)
from richter.maths.growth import Growth, GrowthRates, growth, growth_rates
from richter.refs import NAM24, XU24, implements

VANISHING = 1e-4  # square of the share of its parts below which their difference has lost too many digits
Thunks = dict[str, Callable[[], Array]]

PAIR_OUTPUTS = (
    "u", "v", "v_keep", "v_lost", "v_gain", "meeting", "residual", "u_square", "v_square",
    "alignment", "kernel", "kernel_gain", "kernel_change", "growth", "p", "q",
)  # fmt: skip


@dataclass(frozen=True)
class LayerPair:
    r"""Two layers that meet in one output: the problem and its sums over neurons, once per start.

    The flow is $\dot u=-\eta_u\,g\,s\,v\,(f-y)$, $\dot v=-\eta_v\,g\,s\,u\,(f-y)$, $f=s\sum uv$.
    """

    xp: Any
    u0: Array  # (neuron, …)
    v0: Array
    eta_u: Array
    eta_v: Array
    scale: Array  # s
    target: Array  # y
    clock: Array  # g
    frozen: Array
    root_u: Array  # û = root_u · u
    root_v: Array
    rates: GrowthRates
    lead: Array  # p(0) where α rises, q(0) where it falls
    lead_square: Array
    lead_u: Array  # lead · û, and so on
    lead_v: Array
    u_square: Array
    v_square: Array
    u_smaller: Array  # ‖û‖ ≤ ‖v̂‖, at all times
    across: Array  # the part of the smaller layer across the larger one
    across_square: Array
    low: Array  # √(AB) − s²Σpq ≥ 0: what of ‖û‖² never vanishes
    high: Array  # √(AB) + s²Σpq ≥ 0: what of ‖v̂‖² never vanishes
    common: Array  # s²Σpq
    meeting: Array  # Σ uv at the start


@implements(
    XU24["Eq. 4"].misprint(
        printed="ρ = √(1/d₀ Σ_{i=0} x_i²) in the definition of p and q",
        right="ρ = √(Σ_{j=1} x_j²): the sum, as the proof (Eqs 21–24) uses it",
        how="DOP853: the mean misses by 8e-3",
    ),
    XU24["Eq. 27"],
    NAM24["Eq. 6.13"],
)
def layer_pair(
    u0: Array,
    v0: Array,
    target: Array,
    scale: Array = 1.0,
    clock: Array = 1.0,
    eta_u: Array = 1.0,
    eta_v: Array = 1.0,
) -> LayerPair:
    """Prepare the problem; neurons are the first axis of `u0` and `v0`."""
    xp, (u0, v0, target, scale, clock, eta_u, eta_v) = alike(u0, v0, target, scale, clock, eta_u, eta_v)
    frozen = (eta_u == 0) | (eta_v == 0)
    if possible(frozen):  # solved apart; rates 1 only keep the numbers finite there
        root_u, root_v = xp.sqrt(xp.where(frozen, 1.0, eta_v)), xp.sqrt(xp.where(frozen, 1.0, eta_u))
    else:
        root_u, root_v = xp.sqrt(eta_v), xp.sqrt(eta_u)
    u, v = root_u * u0, root_v * v0
    p, q = (v + u) / 2, (v - u) / 2
    total = lambda x, y: xp.sum(x * y, axis=0)
    meeting = total(u0, v0)
    weight = scale * scale * root_u * root_v
    rates = growth_rates(
        scale * scale * total(p, p), scale * scale * total(q, q), scale * root_u * root_v * target,
        weight * meeting,
    )  # fmt: skip
    lead = xp.where(rates.pull >= 0, p, q)
    u_square, v_square, common = total(u, u), total(v, v), scale * scale * total(p, q)
    u_smaller = common >= 0
    across = xp.where(u_smaller, _across(xp, u, v), _across(xp, v, u))
    across_square = total(across, across)
    # The smaller of √(AB) ± s²Σpq by the conjugate: their product is the area between the layers.
    large = safe_root(xp, rates.p) * safe_root(xp, rates.q) + xp.abs(common)
    side = scale * scale / 4 * xp.where(u_smaller, v_square, u_square)
    small = side / xp.where(large > 0, large, 1.0) * (scale * scale * across_square)
    small = xp.where(small < large, small, large)
    return LayerPair(
        xp, u0, v0, eta_u, eta_v, scale, target, clock, frozen, root_u, root_v, rates, lead,
        total(lead, lead), total(lead, u), total(lead, v), u_square, v_square, u_smaller, across, across_square,
        xp.where(u_smaller, small, large), xp.where(u_smaller, large, small), common, meeting,
    )  # fmt: skip


def solve_pair(pair: LayerPair, t: Array, only: Collection[str] = PAIR_OUTPUTS) -> dict[str, Array]:
    r"""The pair at times t ≥ 0, ∞ included: the layers, their meeting Σuv, their squares.

    `v` is `v_keep` v₀ + `v_gain`, with `v_lost` = 1 − `v_keep`: so that whatever else is attached to v₀ (an input
    weight's part along the data) can be kept apart.

    `kernel` is $s^2(\eta_u\|v\|^2+\eta_v\|u\|^2)$, `kernel_gain` and `kernel_change` its change and the size of
    that relative to the start, `residual` f − y.

    >>> import numpy as np
    >>> pair = layer_pair(np.array([0.1, -0.2]), np.array([0.1, 0.3]), 1.0)
    >>> end = solve_pair(pair, np.inf, only=("meeting", "residual"))
    >>> end["meeting"].round(12).item(), abs(end["residual"].item())
    (1.0, 0.0)
    """
    xp = pair.xp
    t = t if hasattr(t, "dtype") else xp.asarray(t, dtype=pair.rates.root.dtype)
    wanted = [name for name in PAIR_OUTPUTS if name in set(only)]
    # A product with ∞ has no derivative.
    tau = pair.clock * t if xp is np else xp.where(t > huge(t), xp.inf, pair.clock * finite_time(xp, t))
    moving = _both_layers(pair, growth(pair.rates, tau))
    if not possible(pair.frozen):
        return {name: moving[name]() for name in wanted}
    still = _one_layer(pair, t)
    return {name: xp.where(pair.frozen, still[name](), moving[name]()) for name in wanted}


@implements(
    XU24["Eq. 11"],
    XU24["Sec. 3.1"].misprint(
        printed="w_ij(t) = w_ij(0) + (p_i(t) − p_i(0) + q_i(t) − q_i(0)) x_j/(√η_w ρ)",
        right="x_j/(√η_u ρ)",
        how="DOP853: 2e-2 as printed",
    ),
    NAM24["Eq. 6.10"],
    NAM24["Eq. 6.11"],
)
def _both_layers(m: LayerPair, g: Growth) -> Thunks:
    r"""If α rises, $\hat u=\hat u_0\alpha^{-1/2}+p_0(\alpha-1)/\sqrt\alpha$; if it falls, the same with q₀, √α."""
    xp, r = m.xp, m.rates
    rises = r.pull >= 0
    sign = xp.where(rises, 1.0, -1.0)
    # 0 stays 0: where the leading combination vanishes the stretch may be infinite.
    push = xp.where((m.lead_square > 0) | xp.isfinite(g.stretch), g.stretch, 0.0)
    s, moved = g.shrink, g.shrink_less_one
    some_p, some_q = r.p > 0, r.q > 0
    grown = xp.where(some_p, r.p * xp.where(some_p, g.factor, 1.0), 0.0)
    fallen = xp.where(some_q, r.q / xp.where(some_q, g.factor, 1.0), 0.0)
    weight = m.scale * m.scale * m.root_u * m.root_v
    everywhere = lambda x: x

    @functools.cache
    def meeting(at: Callable[[Array], Array]) -> Array:
        # s²Σûv̂ between start and target, or as Aα − B/α: whichever cancels less.
        old, new = at(g.left) * at(r.start), at(g.done) * at(r.target)
        up, down = at(grown), at(fallen)
        return xp.where(up + down < xp.abs(old) + xp.abs(new), up - down, old + new)

    @functools.cache
    def squares(at: Callable[[Array], Array]) -> tuple[Array, Array]:
        # ‖û‖² = (√(αP) − √(Q/α))² + 2(√(PQ) − Σpq), the first as (αP − Q/α)²/(√(αP) + √(Q/α))².
        size = at(grown + fallen) + at(m.low + m.high)
        turning = (meeting(at) / xp.sqrt(xp.where(size > 0, size, 1.0))) ** 2
        stable = turning + 2 * at(m.low), turning + 2 * at(m.high)
        if xp is np:
            return stable
        # √(AB) has no derivative at A = 0 or B = 0; where nothing cancels the plain sum is as exact, and has one.
        both, twice = at(grown + fallen), 2 * at(m.common)
        plain = lambda other, difference: xp.where(2 * difference > both, difference, other)
        return plain(stable[0], both - twice), plain(stable[1], both + twice)

    @functools.cache
    def layer(of_u: bool) -> tuple[Array, Array, Array, Array]:
        """(layer, keep, lost, gain) with layer = keep · start + gain and lost = 1 − keep."""
        u0, v0 = m.root_u * m.u0, m.root_v * m.v0
        mine, other = (u0, v0) if of_u else (v0, u0)
        forward, beside = (push, sign * push) if of_u else (sign * push, push)
        gain = forward * m.lead
        here = s * mine + gain
        # The smaller layer's part along the other may vanish, and p√α ∓ q/√α then loses its digits.
        size = (grown + fallen) * (VANISHING * m.lead_square * m.scale**2)
        vanishes = (m.u_smaller == of_u) & (meeting(everywhere) ** 2 < size * (push * push))
        if not possible(vanishes):
            return here, s, -moved, gain
        # It is recovered from the larger one, their meeting, and uᵢvⱼ − uⱼvᵢ, which is conserved.
        at, put = only_where(xp, vanishes, here)
        rest, along = squares(at)[of_u] / at(m.scale) ** 2, m.lead_v if of_u else m.lead_u
        after = m.v_square if of_u else m.u_square
        other, push_, beside = at(other), at(push), at(beside)
        found = meeting(at) / at(m.scale) ** 2 * (at(s) * other + beside * at(m.lead))
        found = found + (at(s * after) + beside * at(along)) * at(m.across) - push_ * at(m.across_square / 2) * other
        here = put(found / xp.where(rest > 0, rest, 1.0))
        return (
            here, xp.where(vanishes, 0.0, s), xp.where(vanishes, 1.0, -moved), xp.where(vanishes, here, gain)
        )  # fmt: skip

    def kernel_gain() -> Array:
        # 2(α − 1)(A − B/α); for α near 1 the bracket is the start's A − B and what it gained.
        small = xp.abs(g.less_one) < 0.5
        less_one = xp.where(small, g.less_one, 0.0)
        bracket = xp.where(rises, r.start - r.q * moved * (1 + s), (r.start + r.p * less_one) / (1 + less_one))
        return 2 * xp.where(small, less_one * bracket, (grown - r.p) + (fallen - r.q))

    return {
        "u": lambda: layer(True)[0] / m.root_u,
        "v": lambda: layer(False)[0] / m.root_v,
        "v_keep": lambda: layer(False)[1],
        "v_lost": lambda: layer(False)[2],
        "v_gain": lambda: layer(False)[3] / m.root_v,
        "meeting": lambda: meeting(everywhere) / weight,
        "residual": lambda: g.left * (m.scale * m.meeting - m.target),
        "u_square": lambda: squares(everywhere)[0] / (m.scale * m.root_u) ** 2,
        "v_square": lambda: squares(everywhere)[1] / (m.scale * m.root_v) ** 2,
        "alignment": lambda: _cosine(xp, meeting(everywhere), *squares(everywhere)),
        "kernel": lambda: 2 * (grown + fallen),
        "kernel_gain": kernel_gain,
        "kernel_change": lambda: _relative(xp, kernel_gain(), 2 * (r.p + r.q)),
        "growth": lambda: g.factor,
        "p": lambda: (m.root_v * m.v0 + m.root_u * m.u0) / 2 * xp.where(rises, s + push, s),
        "q": lambda: (m.root_v * m.v0 - m.root_u * m.u0) / 2 * xp.where(rises, s, s - push),
    }


def _one_layer(m: LayerPair, t: Array) -> Thunks:
    """A frozen layer (rate 0): linear regression in the other one; the kernel never changes."""
    xp = m.xp
    # Only one of the two rates is not 0 here.
    eta_u, eta_v = xp.where(m.eta_v == 0, m.eta_u, 0.0), xp.where(m.eta_u == 0, m.eta_v, 0.0)
    u_square, v_square = xp.sum(m.u0 * m.u0, axis=0), xp.sum(m.v0 * m.v0, axis=0)
    speed = m.scale * m.scale * (eta_u * v_square + eta_v * u_square)
    never = (speed == 0) & (t > huge(t))  # nothing learns, for ever
    t = xp.where(never, 0.0, t if xp is np else finite_time(xp, t))
    lasting = integral_of_decay(xp, m.clock * speed, t) * m.clock
    done = speed * lasting
    left = xp.where(speed > 0, xp.exp(-m.clock * xp.where(speed > 0, speed, 1.0) * t), 1.0)
    learns_u, learns_v = eta_u > 0, eta_v > 0
    drive = lasting * m.scale * m.target
    # The part along the fixed layer relaxes, the part across it stays.
    across_u, across_v = _across(xp, m.u0, m.v0), _across(xp, m.v0, m.u0)
    v_keep, v_lost = xp.where(learns_v, left, 1.0), xp.where(learns_v, done, 0.0)
    v_gain = v_lost * across_v + (eta_v * drive) * m.u0
    u = xp.where(learns_u, left, 1.0) * m.u0 + xp.where(learns_u, done, 0.0) * across_u + (eta_u * drive) * m.v0
    meeting = left * m.meeting + done * (m.target / m.scale)
    along = lambda other: meeting * (meeting / xp.where(other > 0, other, 1.0))
    square = lambda across, other: xp.sum(across * across, axis=0) + along(other)
    u_now = xp.where(learns_u, square(across_u, v_square), u_square)
    v_now = xp.where(learns_v, square(across_v, u_square), v_square)
    nothing = 0 * drive
    fixed = lambda sign: (xp.sqrt(m.eta_u) * m.v0 + sign * xp.sqrt(m.eta_v) * m.u0) / 2 + nothing
    return {
        "u": lambda: u,
        "v": lambda: v_keep * m.v0 + v_gain,
        "v_keep": lambda: v_keep,
        "v_lost": lambda: v_lost,
        "v_gain": lambda: v_gain,
        "meeting": lambda: meeting,
        "residual": lambda: left * (m.scale * m.meeting - m.target),
        "u_square": lambda: u_now,
        "v_square": lambda: v_now,
        "alignment": lambda: _cosine(xp, meeting, u_now, v_now),
        "kernel": lambda: speed + nothing,
        "kernel_gain": lambda: nothing,
        "kernel_change": lambda: _relative(xp, nothing, speed),
        "growth": lambda: 1 + nothing,
        "p": lambda: fixed(+1.0),
        "q": lambda: fixed(-1.0),
    }


def _across(xp: Any, vector: Array, other: Array) -> Array:
    """The part of `vector` across `other`, exactly 0 for one neuron."""
    size = norm(xp, other)
    unit = other / xp.where(size > 0, size, 1.0)
    across = vector - unit * xp.sum(unit * vector, axis=0)
    return across - unit * xp.sum(unit * across, axis=0)


def _relative(xp: Any, gain: Array, start: Array) -> Array:
    exists = start > 0
    return xp.where(exists, xp.abs(gain), xp.nan) / xp.where(exists, start, 1.0)


def _cosine(xp: Any, meeting: Array, u_square: Array, v_square: Array) -> Array:
    exists = (u_square > 0) & (v_square > 0)
    length = xp.sqrt(xp.where(exists, u_square, 1.0)) * xp.sqrt(xp.where(exists, v_square, 1.0))
    return xp.where(exists, meeting, xp.nan) / length
