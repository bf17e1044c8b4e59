"""The wide, the scalar, the diagonal and the linear network, each from its own paper's definitions."""

from __future__ import annotations

from collections.abc import Sequence

from mpmath import mp

from tests.references.pair import cosine, layers
from tests.references.precision import Number, Outputs, inner, one_minus_cosine, relative_change

List = list[Number]


def wide(inputs: List, neurons: int, size: int) -> Outputs:
    """XU24's network from [u₀…, w₀… by rows, x…, y, γ, η_u, η_w, t]; loss (f − y)²."""
    u0, rest = inputs[:neurons], inputs[neurons:]
    rows = [rest[i * size : (i + 1) * size] for i in range(neurons)]
    x, (y, gamma, eta_u, eta_w, t) = rest[neurons * size : -5], rest[-5:]
    rho = mp.sqrt(inner(x, x))
    v0 = [inner(r, x) / rho for r in rows]
    u, v, alpha = layers(u0, v0, gamma * rho, y, eta_u, eta_w, 2 * t)
    w = [e + (v[i] - v0[i]) * x[j] / rho for i, r in enumerate(rows) for j, e in enumerate(r)]
    kernel = lambda a, b: gamma**2 * rho**2 * (eta_u * inner(b, b) + eta_w * inner(a, a))
    output = gamma * rho * inner(u, v)
    half = lambda sign: [(mp.sqrt(eta_u) * b + sign * mp.sqrt(eta_w) * a) / 2 for a, b in zip(u, v, strict=True)]
    return {
        "u": u,
        "w": w,
        "p": half(1),
        "q": half(-1),
        "output": [output],
        "loss": [(output - y) ** 2],
        "alignment": [cosine(u, v)],
        "alignment's least": [min(inner(u, u), inner(v, v))],
        "kernel": [kernel(u, v)],
        "kernel_change": [relative_change([kernel(u, v)], [kernel(u0, v0)])],
        "growth": [alpha],
        "imbalance": [eta_u * b * b - eta_w * a * a for a, b in zip(u0, v0, strict=True)],
    }


def wide_flow(u: List, w: Sequence[List], x: List, y: Number, gamma: Number, rates: Sequence[Number]) -> List:
    """Minus rate times gradient of (γ Σ uᵢwᵢⱼxⱼ − y)², flat."""
    hidden = [inner(r, x) for r in w]
    error = 2 * (gamma * inner(u, hidden) - y) * gamma
    return [-rates[0] * error * h for h in hidden] + [-rates[1] * error * a * e for a in u for e in x]


def scalar(inputs: List, neurons: int) -> Outputs:
    """NAM24's f(x) = (x/Z)Σab from [a₀…, b₀…, S, Z, E[x²], η_a, η_b, t]; loss ½E[x²](θ − S)²."""
    a0, b0, (S, Z, variance, eta_a, eta_b, t) = inputs[:neurons], inputs[neurons : 2 * neurons], inputs[-6:]
    b, a, gamma = layers(b0, a0, 1 / Z, S, eta_b, eta_a, variance * t)
    output = inner(a, b) / Z
    kernel = lambda x, y: variance / Z**2 * (eta_b * inner(x, x) + eta_a * inner(y, y))
    return {
        "a": a,
        "b": b,
        "output": [output],
        "loss": [variance * (output - S) ** 2 / 2],
        "growth": [gamma],
        "alignment": [cosine(a, b)],
        "alignment's least": [min(inner(a, a), inner(b, b))],
        "kernel": [kernel(a, b)],
        "kernel_change": [relative_change([kernel(a, b)], [kernel(a0, b0)])],
        "imbalance": [eta_b * x * x - eta_a * y * y for x, y in zip(a0, b0, strict=True)],
    }


def diagonal(inputs: List, modes: int) -> Outputs:
    """Σ xᵢaᵢbᵢ from [a₀…, b₀…, S…, E[xᵢ²]…, η_a, η_b, t]; loss ½ΣE[x²](ab − S)²."""
    a0, b0, S, variance = (inputs[i * modes : (i + 1) * modes] for i in range(4))
    eta_a, eta_b, t = inputs[-3:]
    solved = [
        layers([y], [x], mp.mpf(1), s, eta_b, eta_a, v * t) for x, y, s, v in zip(a0, b0, S, variance, strict=True)
    ]
    b, a, gamma = [s[0][0] for s in solved], [s[1][0] for s in solved], [s[2] for s in solved]
    output = [x * y for x, y in zip(a, b, strict=True)]
    root = [mp.sqrt(v) for v in variance]
    seen = lambda c: [r * x for r, x in zip(root, c, strict=True)]
    gap = [x - s for x, s in zip(output, S, strict=True)]
    kernel = lambda f, g: [v * (eta_b * x * x + eta_a * y * y) for v, x, y in zip(variance, f, g, strict=True)]
    return {
        "a": a,
        "b": b,
        "output": output,
        "loss": [inner(seen(gap), seen(gap)) / 2],
        "growth": gamma,
        "alignment": [cosine(seen(output), seen(S))],
        "alignment's least": [max(map(abs, output))],
        "kernel": kernel(a, b),
        "kernel_distance": [one_minus_cosine(kernel(a, b), kernel(a0, b0))],
        "kernel_change": [relative_change(kernel(a, b), kernel(a0, b0))],
        "imbalance": [eta_b * x * x - eta_a * y * y for x, y in zip(a0, b0, strict=True)],
    }


def product_flow(a: List, b: List, slope: List, rates: Sequence[Number]) -> List:
    """Minus rate times gradient of a loss in Σ or single products ab, `slope` being dL/d(ab) of each; flat."""
    return [-rates[0] * s * y for s, y in zip(slope, b, strict=True)] + [
        -rates[1] * s * x for s, x in zip(slope, a, strict=True)
    ]


def linear(inputs: List, modes: int) -> Outputs:
    """Fixed features from [ρ…, c*…, η, c(0)…, t]; loss ½Σ(c − c*)²."""
    rho, goal, eta, start, t = (
        inputs[:modes], inputs[modes : 2 * modes], inputs[2 * modes], inputs[2 * modes + 1 : -1], inputs[-1]
    )  # fmt: skip
    left = [mp.exp(-eta * r * t) if eta and r else mp.mpf(1) for r in rho]
    output = [c + (s - c) * e for c, s, e in zip(goal, start, left, strict=True)]
    kernel = [eta * r for r in rho]
    loss = inner([x - c for x, c in zip(output, goal, strict=True)], [x - c for x, c in zip(output, goal, strict=True)])
    still = mp.mpf(0) if any(kernel) else mp.nan
    return {
        "output": output,
        "loss": [loss / 2],
        "alignment": [cosine(output, goal)],
        "alignment's least": [max(map(abs, output))],
        "kernel": kernel,
        "kernel_distance": [still],
        "kernel_change": [still],
    }
