"""The single neuron by the exponential of its matrix, from the projectors on its eigenspaces."""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp

from tests.references.precision import TINY, Number, Outputs, inner, one_minus_cosine, relative_change


def flow(
    a: Number, w: Sequence[Number], target: Sequence[Number], eta_a: Number, eta_w: Number
) -> tuple[Number, list[Number]]:
    """Minus rate times gradient of ½‖a w − β*‖²."""
    error = [a * x - b for x, b in zip(w, target, strict=True)]
    return -eta_a * inner(error, w), [-eta_w * e * a for e in error]


def state(
    a0: Number, w0: Sequence[Number], target: Sequence[Number], eta_a: Number, eta_w: Number, t: Number
) -> tuple[Number, list[Number]]:
    r"""(a, w) at t: $q=e^{Gt}q_0/\sqrt{1+\int\|e^{Gs}q_0\|^2}$, where $G^2=R^2$ on the plane of a and β*.

    There $\frac12(1\pm G/R)$ project on the growing and the decaying direction; across it G is $-\delta/2$.
    """
    if not t:
        return a0, list(w0)
    if not (eta_a and eta_w):
        return _frozen(a0, w0, target, eta_a, eta_w, t)
    root_a, root_w = mp.sqrt(eta_w), mp.sqrt(eta_a)
    a, w = root_a * a0, [root_w * x for x in w0]
    b = [root_a * root_w * x for x in target]
    delta = a * a - inner(w, w)
    h, square = delta / 2, inner(b, b)
    R = mp.sqrt(h * h + square)
    share = inner(w, b) / square
    size = mp.sqrt(a * a + inner(w, w))
    clean = lambda x: x if max(map(abs, x)) > TINY * size else [mp.mpf(0)] * len(x)
    plane = [a, *(share * y for y in b)]
    turned = [h * plane[0] + share * square, *(plane[0] * y - h * share * y for y in b)]  # G·plane
    up = clean([(x + y / R) / 2 for x, y in zip(plane, turned, strict=True)])
    down = clean([(x - y / R) / 2 for x, y in zip(plane, turned, strict=True)])
    rest = clean([x - share * y for x, y in zip(w, b, strict=True)])
    if mp.isinf(t):
        if any(up):
            end, square_end = up, 2 * R
        elif h < 0 and any(rest):
            end, square_end = [mp.mpf(0), *rest], -delta
        else:
            return mp.mpf(0), [mp.mpf(0) for _ in w]
        long = mp.sqrt(square_end / inner(end, end))
        q = [long * x for x in end]
    else:
        grow, drift = mp.exp(R * t), mp.exp(-h * t)
        q = [grow * x + y / grow for x, y in zip(up, down, strict=True)]
        q = [q[0], *(x + drift * y for x, y in zip(q[1:], rest, strict=True))]
        mass = (
            1
            + inner(up, up) * (grow**2 - 1) / (2 * R)
            + inner(down, down) * (1 - 1 / grow**2) / (2 * R)
            + inner(rest, rest) * ((1 - drift**2) / delta if delta else t)
        )
        q = [x / mp.sqrt(mass) for x in q]
    return q[0] / root_a, [x / root_w for x in q[1:]]


def _frozen(
    a0: Number, w0: Sequence[Number], target: Sequence[Number], eta_a: Number, eta_w: Number, t: Number
) -> tuple[Number, list[Number]]:
    size = inner(w0, w0)
    if eta_a and size:
        left = mp.exp(-eta_a * size * t)
        return left * a0 + (1 - left) * inner(w0, target) / size, list(w0)
    if eta_w and a0:
        left = mp.exp(-eta_w * a0 * a0 * t)
        return a0, [left * x + (1 - left) * b / a0 for x, b in zip(w0, target, strict=True)]
    return a0, list(w0)


def kernel(a: Number, w: Sequence[Number], eta_a: Number, eta_w: Number) -> list[Number]:
    """Σ over parameters of rate × outer product of df/dparameter, for f = a w·x on the unit inputs; row by row."""
    return [eta_a * x * y + (eta_w * a * a if i == j else 0) for i, x in enumerate(w) for j, y in enumerate(w)]


def neuron(inputs: list[Number]) -> Outputs:
    """Every variable from [a₀, w₀…, β*…, η_a, η_w, t]."""
    d = (len(inputs) - 4) // 2
    a0, w0, target, (eta_a, eta_w, t) = inputs[0], inputs[1 : d + 1], inputs[d + 1 : -3], inputs[-3:]
    a, w = state(a0, w0, target, eta_a, eta_w, t)
    size = mp.sqrt(inner(w, w))
    residual = [a * x - b for x, b in zip(w, target, strict=True)]
    now, start = kernel(a, w, eta_a, eta_w), kernel(a0, w0, eta_a, eta_w)
    return {
        "a": [a],
        "w": w,
        "beta": [a * x for x in w],
        "mu": [a * size],
        "phi": [inner(w, target) / (size * mp.sqrt(inner(target, target))) if size else mp.nan],
        "residual": residual,
        "loss": [inner(residual, residual) / 2],
        "kernel": now,
        "kernel_distance": [one_minus_cosine(now, start)],
        "kernel_change": [relative_change(now, start)],
        "delta": [eta_w * a0 * a0 - eta_a * inner(w0, w0)],
    }
