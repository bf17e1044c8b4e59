"""Two layers that meet in one number, by the exponential of a 2 × 2 matrix."""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp

from tests.references.precision import TINY, Number, inner

Layers = tuple[list[Number], list[Number], Number]


def layers(
    u0: Sequence[Number],
    v0: Sequence[Number],
    scale: Number,
    target: Number,
    eta_u: Number,
    eta_v: Number,
    tau: Number,
) -> Layers:
    r"""(u, v, α) at τ under $\dot u=-\eta_usv(f-y)$, $\dot v=-\eta_vsu(f-y)$, $f=s\sum uv$.

    In $\hat u=\sqrt{\eta_v}u$, $\hat v=\sqrt{\eta_u}v$ the flow is a hyperbolic rotation by ½ ln α, and
    $\dot\alpha=2\alpha(b-A\alpha+B/\alpha)$ is linear in $(N,D)$ with $\alpha=N/D$, by the matrix (b 2B; 2A −b).
    """
    if not tau:
        return list(u0), list(v0), mp.mpf(1)
    if not (eta_u and eta_v):
        return _frozen(u0, v0, scale, target, eta_u, eta_v, tau)
    root_u, root_v = mp.sqrt(eta_v), mp.sqrt(eta_u)
    p = [(root_v * y + root_u * x) / 2 for x, y in zip(u0, v0, strict=True)]
    q = [(root_v * y - root_u * x) / 2 for x, y in zip(u0, v0, strict=True)]
    A, B = scale**2 * inner(p, p), scale**2 * inner(q, q)
    if not (A or B):  # at rest in the saddle: nothing grows
        return list(u0), list(v0), mp.mpf(1)
    b = scale * root_u * root_v * target
    R = mp.sqrt(b * b + 4 * A * B) if A * B else abs(b)
    if R:
        # Both fixed directions of the matrix, with the growing exponential divided out.
        left = mp.exp(-2 * R * tau)
        top = 1 + (b + 2 * B) / R, 1 - (b + 2 * B) / R
        bottom = 1 + (2 * A - b) / R, 1 - (2 * A - b) / R
        top, bottom = top[0] + top[1] * left, bottom[0] + bottom[1] * left
    else:
        top, bottom = 1 + 2 * B * tau if B else mp.mpf(1), 1 + 2 * A * tau if A else mp.mpf(1)
    alpha = mp.inf if not bottom else mp.mpf(0) if mp.isinf(bottom) else top / bottom
    grow = [x * mp.sqrt(alpha) if x else x for x in p]
    fall = [x / mp.sqrt(alpha) if x and mp.isfinite(alpha) else mp.mpf(0) for x in q]
    clean = lambda x, y: x + y if abs(x + y) > TINY * abs(x) else mp.mpf(0)
    u = [clean(x, -y) / root_u for x, y in zip(grow, fall, strict=True)]
    v = [clean(x, y) / root_v for x, y in zip(grow, fall, strict=True)]
    return u, v, alpha


def _frozen(
    u0: Sequence[Number],
    v0: Sequence[Number],
    scale: Number,
    target: Number,
    eta_u: Number,
    eta_v: Number,
    tau: Number,
) -> Layers:
    fixed, rate = (v0, eta_u) if eta_u else (u0, eta_v)
    square = scale**2 * inner(fixed, fixed)
    if not (rate and square):
        return list(u0), list(v0), mp.mpf(1)
    step = (1 - mp.exp(-rate * square * tau)) / square * scale * (target - scale * inner(u0, v0))
    moved = lambda layer, other, moves: [x + step * y if moves else x for x, y in zip(layer, other, strict=True)]
    return moved(u0, v0, bool(eta_u)), moved(v0, u0, bool(eta_v)), mp.mpf(1)


def cosine(x: Sequence[Number], y: Sequence[Number]) -> Number:
    """Cosine between two lists of numbers, undefined where one is 0."""
    length = mp.sqrt(inner(x, x) * inner(y, y))
    return inner(x, y) / length if length else mp.nan
