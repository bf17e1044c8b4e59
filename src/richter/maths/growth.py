r"""Two layers that meet in one number, f = s Σ uᵢvᵢ: every start, solved by one growth factor.

In $\hat u=\sqrt{\eta_v}\,u$, $\hat v=\sqrt{\eta_u}\,v$ the combinations $p=\tfrac12(\hat v+\hat u)$ and
$q=\tfrac12(\hat v-\hat u)$ only change their length: $p_i(t)=p_i(0)\sqrt\alpha$, $q_i(t)=q_i(0)/\sqrt\alpha$.
The wide network on a line, the scalar network and each mode of the diagonal network are this problem:

| setting | s | A = s² Σp², B = s² Σq² | b | clock τ |
|---|---|---|---|---|
| wide, on a line (XU24) | γρ | γ²dρ² P, γ²dρ² Q | √(η_uη_w) γρy | 2t |
| scalar network (NAM24 ch. 6) | 1/Z | Σ(a±b)²/4Z² | S/Z | E[x²] t |
| diagonal mode (NAM24 ch. 3) | 1 | (a±b)²/4 | S | E[x²] t |

The growth factor solves $d\alpha/d\tau=-2\alpha\,(A\alpha-B/\alpha-b)$ from $\alpha(0)=1$.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from richter.maths.arrays import Array, alike, finite_time, huge, integral_of_decay, plus_and_minus, possible, safe_root
from richter.refs import NAM24, XU24, implements


@dataclass(frozen=True)
class GrowthRates:
    """The constants of the growth factor: once per start."""

    xp: Any
    p: Array  # A = s² Σ p²
    q: Array  # B = s² Σ q²
    target: Array  # b
    start: Array  # A − B, summed as s² Σ ûv̂
    root: Array  # R
    up: Array  # (R + b) + 2B
    down: Array  # (R − b) + 2A

    @property
    def pull(self) -> Array:
        """2(b − start): its sign says whether α rises."""
        return 2 * (self.target - self.start)


@dataclass(frozen=True)
class Growth:
    """The growth factor and what is read off it, each without a subtraction of near-equal numbers."""

    factor: Array  # α
    less_one: Array  # α − 1
    left: Array  # share of the first residual that is left, (f − y)/(f₀ − y)
    done: Array  # 1 − left
    shrink: Array  # α^(−1/2) if α rises, α^(1/2) if it falls
    shrink_less_one: Array
    stretch: Array  # (α − 1)/√α


@implements(
    XU24["Eq. 7"],
    XU24["Eq. 8"].misprint(
        printed="α± = (b ± 1/t_c)/2cP, next to 1/(1 − ξ) in Eq. 5, 1 + α₋ in Eq. 6 and α₊α₋ = Q/P",
        right="Eq. 8 belongs to another sign convention than Eqs 5 and 6; with these, α± = (1/t_c ± b)/2cP",
        how="each consistent convention agrees with DOP853 to 9e-14; Eqs 5, 6 and 8 as printed miss by 4e-3",
    ),
)
def growth_rates(p: Array, q: Array, target: Array, start: Array | None = None) -> GrowthRates:
    r"""$R=\sqrt{b^2+4AB}$ (XU24: $1/t_c$) and the growth factor's coefficients, $R\pm b$ by the conjugate.

    Args:
        p: A, the weight of the growing combination.
        q: B, the weight of the shrinking combination.
        target: b, the target in the same units.
        start: A − B where it is known without subtraction.
    """
    xp, (p, q, target) = alike(p, q, target)
    start = p - q if start is None else start
    kernel = 2 * safe_root(xp, p) * safe_root(xp, q)
    root = _hypot(xp, target, kernel)
    plus, minus = plus_and_minus(xp, root, target, kernel * kernel)
    return GrowthRates(xp, p, q, target, start, root, plus + 2 * q, minus + 2 * p)


@implements(XU24["Eq. 26"], XU24["Eq. 35"])
def growth_slope(rates: GrowthRates, factor: Array) -> Array:
    r"""$d\alpha/d\tau=-2\alpha\,(A\alpha-B/\alpha-b)$, as $2(B+b\alpha-A\alpha^2)$.

    Eq. 26 in $p_i=p_i(0)\sqrt\alpha$; at A = 0 Eq. 35 in $q_i=q_i(0)/\sqrt\alpha$.
    """
    return 2 * (rates.q + factor * (rates.target - rates.p * factor))


@implements(
    XU24["Theorem 1"],
    XU24["Eq. 5"].misprint(
        printed="p_i = p_i(0)[(α_i + ξα_i)/(1 − ξ)]^{1/2}",
        right="p_i = p_i(0) α^{1/2}, q_i = q_i(0) α^{−1/2} with α = (α₊ + ξα₋)/(1 − ξ)",
        how="DOP853",
    ),
    XU24["Eq. 6"],
    XU24["Eq. 9"],
    XU24["Eq. 30"],
    XU24["Prop. 2"],
    XU24["Eq. 31"],
    XU24["Eq. 32"].misprint(
        printed="q_i = q_i(0)√(α'ξ'/(1 − ξ')) for every y",
        right="0/0 at y = 0, where q_i²/q_i(0)² = 1/(1 + 4γ²dρ²Q t), and at f(0) = y, where nothing moves",
        how="DOP853; the unified form holds there too",
    ),
    XU24["Eq. 33"],
    XU24["Eq. 34"],
    NAM24["Theorem 1"],
    NAM24["Eq. 6.14"],
    NAM24["Eq. 6.12"].misprint(
        printed="exponent −4√(Σ₀² − 𝒮₀² + S²) t/Z",
        right="−2√(Σ₀² − 𝒮₀² + S²) E[x²] t/Z: the printed 4 belongs to the loss E[·]² with E[x²] = 1",
        how="DOP853: 9e-15 against 5e-2 as printed; Eq. 6.3 contradicts the print as well",
    ),
)
def growth(rates: GrowthRates, tau: Array) -> Growth:
    r"""The growth factor at clock readings τ ≥ 0, ∞ included.

    With $E=e^{-2R\tau}$ and $T=\int_0^\tau e^{-2Rs}ds$,
    $$\alpha=\frac ND,\quad N=E+[(R+b)+2B]\,T,\quad D=E+[(R-b)+2A]\,T,\quad
    \frac{f-y}{f_0-y}=\frac E{ND},$$
    which contains A = 0, B = 0, b = 0 and R = 0. For A = 0 < b the factor goes to ∞.

    >>> end = growth(growth_rates(0.25, 0.25, 1.0), np.inf)
    >>> end.factor.round(6).item(), end.left.item(), end.done.item()
    (4.236068, 0.0, 1.0)
    """
    r, xp = rates, rates.xp
    tau = tau if hasattr(tau, "dtype") else xp.asarray(tau, dtype=r.root.dtype)
    # Algebraic growth (R = 0) at t = ∞ is read at a time whose products with the rates are still finite.
    forever = tau > huge(tau)
    tau = tau if xp is np else finite_time(xp, tau)  # derivatives do not survive ∞
    latest = huge(tau) / (1 + r.up + r.down)
    tau_finite = xp.where(tau > latest, latest, tau)
    no_up, no_down = r.up == 0, r.down == 0
    E = xp.exp(-2 * r.root * (xp.where(r.root == 0, tau_finite, tau)))
    T = integral_of_decay(xp, 2 * r.root, tau, tau_finite)
    one = xp.ones_like(T * r.up)
    N, D = E + r.up * T, E + r.down * T
    if possible(no_up | no_down):
        # One sum is E itself: the ratio E/E is taken before E underflows (at R = 0, where both depend on b, E is 1).
        lone_up, lone_down = no_up & (r.root > 0), no_down & (r.root > 0)
        N_safe, D_safe = xp.where(lone_up, one, N), xp.where(lone_down, one, D)
        left = xp.where(lone_up | lone_down, one, E * one) / (N_safe * D_safe)
        done = T * (2 * (r.p + r.q)) * left + xp.where(
            lone_up | lone_down, 0.0, (r.up * (T / N_safe)) * (r.down * (T / D_safe))
        )
        N_safe, D_safe = xp.where(N > 0, N, one), xp.where(D > 0, D, one)
    else:
        N_safe, D_safe = N, D
        left = E / (N * D)
        done = T * (2 * (r.p + r.q)) * left + (r.up * (T / N)) * (r.down * (T / D))
    rises = r.pull >= 0
    factor = N / D_safe
    less_one = r.pull * (T / D_safe)
    ratio = xp.where(rises, D, N) / xp.where(rises, N_safe, D_safe)
    if possible(no_up | no_down):
        # A rise without end: ∞ at D = 0, and at t = ∞ where the growth is algebraic (R = 0).
        endless = forever & (r.root == 0)
        infinite = (D == 0) | (endless & (r.up > 0) & no_down)
        vanishing = (N == 0) | (endless & (r.down > 0) & no_up)
        factor = xp.where(infinite, xp.inf, xp.where(vanishing, 0.0, factor))
        less_one = xp.where(infinite, xp.inf, xp.where(vanishing, -1.0, less_one))
        ratio = xp.where(infinite | vanishing, 0.0, ratio)
        nothing = (r.p == 0) & (r.q == 0)  # at the saddle nothing grows
        factor, less_one = xp.where(nothing, 1.0, factor), xp.where(nothing, 0.0, less_one)
    shrink = safe_root(xp, ratio)
    change = xp.where(rises, -r.pull, r.pull) * T / xp.where(rises, N_safe, D_safe)
    stretch = (r.pull * T) / (xp.sqrt(N_safe) * xp.sqrt(D_safe))
    return Growth(factor, less_one, left, done, shrink, change / (1 + shrink), stretch)


@implements(
    XU24["Eq. 28"].misprint(
        printed="γxy√(η_uη_w) ζ under the integral",
        right="γρy√(η_uη_w) ζ: x is a vector, and Eq. 26 has ρ",
        how="quadrature against DOP853",
    ),
    XU24["Eq. 29"],
)
def time_to_output(rates: GrowthRates, output: Array) -> Array:
    r"""The clock reading τ at which $A\alpha-B/\alpha$ equals `output`; ∞ if that never happens.

    In $X=T/E$ the share of the residual that is left is $\ell=\frac{1+2RX}{(1+N'X)(1+D'X)}$, a quadratic
    with one positive root; then $\tau=\ln(1+2RX)/2R$.

    >>> time_to_output(growth_rates(0.01, 0.0, 1.0), 0.5).round(4).item()
    2.2976
    """
    r, xp = rates, rates.xp
    output = output if hasattr(output, "dtype") else xp.asarray(output, dtype=r.root.dtype)
    way = r.target - r.start
    one = xp.ones_like(way * output)
    safe = xp.where(way == 0, one, way)
    left, done = (r.target - output) / safe, (output - r.start) / safe
    inside = (way != 0) & (left > 0) & (done >= 0)
    left, done = xp.where(inside, left, one / 2), xp.where(inside, done, one / 2)
    linear = 2 * r.root - left * (r.up + r.down)
    square = left * r.up * r.down
    radical = xp.sqrt(linear * linear + 4 * square * done)
    ahead = linear >= 0
    bottom = xp.where(ahead, 2 * square, radical - linear)
    X = xp.where(ahead, linear + radical, 2 * done) / xp.where(bottom > 0, bottom, one)
    reached = inside & ((bottom > 0) | (done == 0))
    x = 2 * r.root * xp.where(reached, X, 0.0)
    tau = xp.where(x > 0, xp.log1p(x) / xp.where(x > 0, 2 * r.root, one), X)
    here = output == r.start
    return xp.where(here, 0.0, xp.where(reached, tau, xp.inf))


def _hypot(xp: Any, x: Array, y: Array) -> Array:
    if xp is np:
        return np.hypot(x, y)
    nothing = (x == 0) & (y == 0)  # the gradient of the norm does not exist there
    one, zero = xp.ones_like(x + y), xp.zeros_like(x + y)
    return xp.where(nothing, zero, xp.hypot(xp.where(nothing, one, x), xp.where(nothing, one, y)))
