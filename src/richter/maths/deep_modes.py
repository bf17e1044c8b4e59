r"""A mode of a deep linear network with balanced, aligned layers: $\dot u=\rho L\,u^{2-2/L}(s-u)$, L ≥ 3.

In $y=u^{-1/q}$, $q=L/(L-2)$, the small start is the far end of a straight line: with $z=y/s^{-1/q}$ and
$c=\rho(L-2)s^{2-2/L}$

$$\dot z=-c\,(1-z^{-q}),\qquad T(z(t))=T(z(0))-ct,\qquad T(z)=\int\frac{z^q}{z^q-1}dz,$$

which is inverted numerically; the pole at z = 1 is integrated in closed form, so that the approach to the target keeps
its digits. (L = 2 is the logistic, solved by the growth factor.)
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
NEAR = 1e-3  # distance from the pole below which its regular part is taken from its series
STEPS = 120


def _regular(q: float, e: Floats) -> Floats:
    """1/((1+e)^q − 1) − 1/(q e): what is left of the integrand without its pole."""
    a1, a2 = (q - 1) / 2, (q - 1) * (q - 2) / 6
    a3, a4 = a2 * (q - 3) / 4, a2 * (q - 3) * (q - 4) / 20
    series = (-a1 + e * (a1**2 - a2 + e * (-(a1**3) + 2 * a1 * a2 - a3
              + e * (a1**4 - 3 * a1**2 * a2 + a2**2 + 2 * a1 * a3 - a4)))) / q  # fmt: skip
    far = np.abs(e) > NEAR
    safe = np.where(far, e, 1.0)
    return np.where(far, 1 / np.expm1(q * np.log1p(safe)) - 1 / (q * safe), series)


def _tail(q: float, z: Floats) -> Floats:
    """∫_z^∞ dz/(z^q − 1) for z ≥ 2."""
    from scipy.special import hyp2f1

    return z ** (1 - q) / (q - 1) * hyp2f1(1.0, 1 - 1 / q, 2 - 1 / q, z**-q)


def _head(q: float, z: Floats) -> Floats:
    """∫_0^z z^q/(1 − z^q) dz for z ≤ ½."""
    from scipy.special import hyp2f1

    return z ** (q + 1) / (q + 1) * hyp2f1(1.0, 1 + 1 / q, 2 + 1 / q, z**q)


def _clock(q: float, e: Floats) -> Floats:
    """T at z = 1 + e, from z = 2 for e > 0 and from z = ½ for e < 0."""
    up = e > 0
    inner = np.where(up, np.minimum(e, 1.0), np.maximum(e, -0.5))  # between the pole and the reference
    reference = np.where(up, 1.0, -0.5)
    middle, half = (inner + reference) / 2, (inner - reference) / 2
    nodes = middle[..., None] + half[..., None] * _NODES
    near = (_regular(q, nodes) * _WEIGHTS).sum(axis=-1) * half
    made = inner - reference + np.log(np.abs(inner / reference)) / q + near
    far, close = e > 1, e < -0.5
    if far.any():
        z = np.where(far, 1 + e, 2.0)
        made = np.where(far, z - 2 + _tail(q, np.array(2.0)) - _tail(q, z), made)
    if close.any():
        z = np.where(close, np.maximum(1 + e, 0.0), 0.5)
        made = np.where(close, _head(q, np.array(0.5)) - _head(q, z), made)
    return made


def _opposed_clock(q: float, z: Floats) -> Floats:
    """∫_0^z z^q/(1 + z^q) dz: the clock towards a target of the other sign."""
    from scipy.special import hyp2f1

    b = 1 + 1 / q
    small = z < 1
    x, y = np.where(small, z, 1.0), np.where(small, 1.0, z)
    inner = x ** (q + 1) / (q + 1) * hyp2f1(1.0, b, b + 1, -(x**q))
    # z − ∫_0^z dz/(1+z^q), the integral from its value at ∞ where z is large.
    rest = _most_late(q) - y ** (1 - q) / (q - 1) * hyp2f1(1.0, 1 - 1 / q, 2 - 1 / q, -(y**-q))
    return np.where(small, inner, y - rest)


def _most_late(q: float) -> float:
    """∫_0^∞ dz/(1 + z^q), by which z is at most ahead of its clock towards a target of the other sign."""
    return float(np.pi / (q * np.sin(np.pi / q)))


def _invert(
    clock: Callable[[Floats], Floats], slope: Callable[[Floats], Floats], low: Floats, high: Floats, goal: Floats
) -> Floats:
    """The argument at which a monotone clock shows `goal`: Newton's steps, halving where they leave the bracket."""
    rising = clock(high) >= clock(low)
    x = high
    for _ in range(STEPS):
        gap = clock(x) - goal
        later = (gap < 0) == rising
        low, high = np.where(later, x, low), np.where(later, high, x)
        step = x - gap / slope(x)
        inside = (step >= low) & (step <= high)
        new = np.where(inside, step, (low + high) / 2)
        done = np.abs(new - x) <= 4e-16 * np.maximum(np.abs(x), 1.0)
        x = new
        if done.all():
            break
    return x


def deep_mode(
    t: ArrayLike, start: ArrayLike, target: ArrayLike, depth: int, speed: ArrayLike = 1.0
) -> tuple[Floats, Floats]:
    r"""(u, u − s) at times t ≥ 0, ∞ included, for L = `depth` ≥ 3 layers and any signs.

    A start at 0 stays there; a start of the wrong sign fades away algebraically and never crosses 0.

    >>> u, residual = deep_mode(np.array([0.0, np.inf]), 0.1, 2.0, 3)
    >>> u.tolist(), residual.tolist()
    ([0.1, 2.0], [-1.9, -0.0])
    """
    t, u0, s, rate = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (t, start, target, speed)))
    sign = np.sign(u0)
    v0, aim = np.abs(u0), sign * s
    q = depth / (depth - 2)
    moving = (v0 > 0) & (t > 0) & (rate > 0) & (v0 != aim)
    scale = np.where(aim != 0, np.abs(aim), 1.0)
    begin = np.where(moving, v0, scale) / scale
    z0 = begin ** (-1 / q)
    e0 = np.expm1(-np.log(begin) / q)
    finite = np.minimum(t, 1e300)
    elapsed = np.minimum(rate * (depth - 2) * finite * scale ** (1 + 1 / q), 1e300)
    with np.errstate(all="ignore"):
        toward = moving & (aim > 0)
        e_start = np.where(toward & (e0 != 0), e0, 0.5)
        up = np.where(e_start > 0, 1.0, -1.0)
        goal = _clock(q, e_start) - elapsed
        logs = _invert(
            lambda x: _clock(q, up * np.exp(x)),
            lambda x: up * np.exp(x) / -np.expm1(-q * np.log1p(up * np.exp(x))),
            np.full(t.shape, -745.0), np.log(np.abs(e_start)), goal,
        )  # fmt: skip
        e = np.where(np.isinf(t), 0.0, up * np.exp(logs))
        decay = -q * np.log1p(e)  # the logarithm of u/s: neither a small u nor a small u − s loses digits
        away = moving & (aim < 0)
        from_ = _opposed_clock(q, np.where(away, z0, 1.0))
        far = np.log(np.where(away, z0, 1.0) + elapsed + _most_late(q))
        near = np.log(np.where(away, z0, 1.0))
        z = np.exp(
            _invert(
                lambda x: _opposed_clock(q, np.exp(x)),
                lambda x: np.exp((q + 1) * x) / (1 + np.exp(q * x)),
                near, far, from_ + elapsed,
            )
        )  # fmt: skip
        faded = (z0 ** (q + 1) + (q + 1) * elapsed) ** (-q / (q + 1))
    v = np.where(toward, scale * np.exp(decay), np.where(away, scale * z ** (-q), np.where(moving, faded, v0)))
    v = np.where(moving & (aim <= 0) & np.isinf(t), 0.0, v)
    left = np.where(toward, scale * np.expm1(decay), v - aim)
    return sign * v, np.where(sign == 0, -s, sign * left)


def deep_time(output: ArrayLike, start: ArrayLike, target: ArrayLike, depth: int, speed: ArrayLike = 1.0) -> Floats:
    r"""When u reaches `output` between start and target, $\int du/\rho Lu^{2-2/L}(s-u)$; ∞ if it does not.

    >>> float(deep_time(1.0, 0.1, 2.0, 3).round(6))
    0.712309
    """
    u, u0, s, rate = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (output, start, target, speed)))
    q = depth / (depth - 2)
    ready = (u0 * s > 0) & ((u - u0) * (s - u0) >= 0) & ((s - u) * (s - u0) > 0) & (rate > 0)
    share = lambda x: np.expm1(-np.log(np.where(ready, x / np.where(s == 0, 1.0, s), 0.5)) / q)
    span = _clock(q, share(u0)) - _clock(q, share(u))
    size = np.where(ready, np.abs(s), 1.0)
    return np.where(ready, span / (np.where(rate > 0, rate, 1.0) * (depth - 2) * size ** (1 + 1 / q)), np.inf)
