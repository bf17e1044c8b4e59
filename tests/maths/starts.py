"""Random starts for every theory, ordinary and extreme, and their times."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Starts = dict[str, Floats]


def powers(rng: np.random.Generator, low: float, high: float, *shape: int) -> Floats:
    """Positive numbers, uniform in their logarithm, 10^low to 10^high."""
    return np.asarray(10.0 ** rng.uniform(low, high, shape))


def signed(rng: np.random.Generator, *shape: int) -> Floats:
    """Gaussian numbers, a tenth of them exactly 0."""
    return np.asarray(rng.standard_normal(shape) * (rng.random(shape) > 0.1))


def times(rng: np.random.Generator, rate: Floats, slow: Floats, count: int = 2) -> Floats:
    """(start, time): 10^-8 … 10^3 in units of the fast or of the slow rate; some 0 and some ∞."""
    shape = (rate.size, count)
    unit = np.where(rng.random(shape) < 0.75, rate[:, None], slow[:, None])
    t = powers(rng, -8, 3, *shape) / np.where(unit > 0, unit, 1.0)
    kind = rng.random(shape)
    return np.where(kind < 0.05, 0.0, np.where(kind > 0.9, np.inf, np.minimum(t, 1e280)))


def neuron_starts(seed: int, inputs: int, count: int) -> tuple[Starts, Floats]:
    """Starts of the single neuron with `inputs` inputs."""
    rng = np.random.default_rng([seed, inputs, 1])
    scale = lambda: powers(rng, -3, 3, count)
    a0 = scale() * rng.standard_normal(count)
    w0 = scale()[:, None] * signed(rng, count, inputs)
    target = scale()[:, None] * rng.standard_normal((count, inputs))
    eta_a, eta_w = powers(rng, -1.5, 1.5, count), powers(rng, -1.5, 1.5, count)
    kind = rng.integers(0, 16, count)
    for i in np.flatnonzero(kind < 12):
        k = kind[i]
        size = 2.0 ** rng.integers(-10, 11)
        axis = np.zeros(inputs)
        axis[rng.integers(inputs)] = rng.choice([-1.0, 1.0])
        if k <= 2:  # δ = 0 exactly
            eta_a[i] = eta_w[i] = rng.choice([1.0, 0.25, 4.0])
            flat = axis if inputs == 1 or k == 0 else np.array([0.6, 0.8, 0.0][:inputs]) * 5
            a0[i] = size * rng.choice([-1, 1]) * np.round(np.sqrt((flat**2).sum()))
            w0[i] = size * flat
            if k == 2:  # and aligned or anti-aligned
                target[i] = rng.choice([-1, 1]) * 2.0 ** rng.integers(-10, 11) * flat
        elif k == 3:
            a0[i] = 0.0
        elif k == 4:
            w0[i] = 0.0
        elif k == 5:  # aligned and anti-aligned
            w0[i] = rng.choice([-1, 1]) * 2.0 ** rng.integers(-10, 11) * target[i]
        elif k == 6:  # |δ| up to 1e12
            a0[i], w0[i] = a0[i] * 1e3, w0[i] * rng.choice([1e-3, 1.0])
        elif k == 7:
            a0[i], w0[i] = a0[i] * rng.choice([1e-3, 1.0]), w0[i] * 1e3
        elif k == 8:
            eta_a[i], eta_w[i] = rng.choice([(0.0, 1.0), (1.0, 0.0), (0.0, 3.0), (0.5, 0.0), (0.0, 0.0)])
        elif k == 9:  # on the axes
            target[i] = 2.0 ** rng.integers(-10, 11) * axis
        elif k == 10 and inputs > 1:  # nearly balanced
            w0[i] *= np.sqrt(eta_w[i] / eta_a[i]) * abs(a0[i]) / max(np.linalg.norm(w0[i]), 1e-300)
        else:
            a0[i], w0[i] = (0.0, np.zeros(inputs)) if rng.random() < 0.2 else (a0[i] * 1e-3, w0[i] * 1e-3)
    h = (eta_w * a0**2 - eta_a * (w0**2).sum(axis=1)) / 2
    square = np.where(eta_a * eta_w > 0, eta_a * eta_w * (target**2).sum(axis=1), 0.0)
    R = np.hypot(h, np.sqrt(square))
    slow = np.where(square > 0, square / np.where(R > 0, R + abs(h), 1.0), R)
    t = times(rng, R, slow)
    return {"a0": a0, "w0": w0, "beta_star": target, "eta_a": eta_a, "eta_w": eta_w}, t


def pair_starts(rng: np.random.Generator, count: int, neurons: int) -> dict[str, Any]:
    """(u, v, scale of the target, rates) with P = 0, Q = 0, y = 0, frozen layers and so on among them."""
    u = powers(rng, -6, 6, count)[:, None] * signed(rng, count, neurons)
    v = np.where(rng.random(count) < 0.5, 1.0, 0.0)[:, None] * 0 + powers(rng, -6, 6, count)[:, None] * signed(
        rng, count, neurons
    )
    like = rng.random(count) < 0.5  # layers of the same size
    v[like] *= (np.abs(u[like]).max(1) / np.maximum(np.abs(v[like]).max(1), 1e-300))[:, None]
    y = powers(rng, -6, 6, count) * rng.choice([-1.0, 1.0], count)
    eta_u, eta_v = powers(rng, -1.5, 1.5, count), powers(rng, -1.5, 1.5, count)
    kind = rng.integers(0, 14, count)
    one = (kind <= 3) | (kind == 9)
    eta_u[one] = eta_v[one] = 1.0
    u, v = np.where((kind == 0)[:, None], -v, u), v  # P = 0
    u = np.where((kind == 1)[:, None], v, u)  # Q = 0
    y[(kind == 4) | ((kind <= 1) & (rng.random(count) < 0.2))] = 0.0
    u[kind == 5] = 0.0
    v[(kind == 6) | ((kind == 5) & (rng.random(count) < 0.1))] = 0.0
    frozen = kind == 7
    which = rng.integers(0, 3, count)
    eta_u[frozen & (which != 1)] = 0.0
    eta_v[frozen & (which != 0)] = 0.0
    near = kind == 8  # layers almost, but not quite, aligned or anti-aligned
    u[near] = v[near] * rng.choice([-1.0, 1.0], (int(near.sum()), 1)) * (1 + powers(rng, -12, -1, int(near.sum()), 1))
    return {"u": u, "v": v, "y": y, "eta_u": eta_u, "eta_v": eta_v, "kind": kind}


def pair_times(
    rng: np.random.Generator, u: Floats, v: Floats, s: Floats, y: Floats, eta_u: Floats, eta_v: Floats
) -> Floats:
    """Times in units of the pair's rate R and of the kernel at the start."""
    root_u, root_v = np.sqrt(eta_v)[:, None], np.sqrt(eta_u)[:, None]
    p, q = (root_v * v + root_u * u) / 2, (root_v * v - root_u * u) / 2
    A, B = s**2 * (p**2).sum(1), s**2 * (q**2).sum(1)
    R = np.hypot(s * np.sqrt(eta_u * eta_v) * y, 2 * np.sqrt(A * B))
    return times(rng, R, 2 * (A + B))


def wide_starts(seed: int, neurons: int, inputs: int, count: int) -> tuple[Starts, Floats]:
    """Starts of the wide network; for P = 0 and Q = 0 the data lies on an axis."""
    rng = np.random.default_rng([seed, neurons, inputs, 2])
    made = pair_starts(rng, count, neurons)
    x = powers(rng, -2, 2, count)[:, None] * rng.standard_normal((count, inputs))
    on_axis = made["kind"] <= 3
    axis = np.zeros((count, inputs))
    axis[np.arange(count), rng.integers(inputs, size=count)] = 2.0 ** rng.integers(-6, 7, count)
    x[on_axis] = axis[on_axis]
    rho = np.sqrt((x**2).sum(1))
    direction = x / rho[:, None]
    across = powers(rng, -3, 3, count)[:, None, None] * rng.standard_normal((count, neurons, inputs))
    across -= (across * direction[:, None]).sum(2, keepdims=True) * direction[:, None]
    across[on_axis] *= x[on_axis][:, None] == 0
    w = across * np.abs(made["v"]).max(1)[:, None, None] + made["v"][:, :, None] * direction[:, None]
    gamma = powers(rng, -2, 2, count) * rng.choice([-1.0, 1.0], count)
    names = {"u0": made["u"], "w0": w, "x": x, "y": made["y"], "gamma": gamma}
    rates = {"eta_u": made["eta_u"], "eta_w": made["eta_v"]}
    v = (w * direction[:, None]).sum(2)
    return names | rates, pair_times(rng, made["u"], v, gamma * rho, made["y"], *rates.values()) / 2


def scalar_starts(seed: int, neurons: int, count: int) -> tuple[Starts, Floats]:
    """Starts of the scalar network."""
    rng = np.random.default_rng([seed, neurons, 3])
    made = pair_starts(rng, count, neurons)
    Z, variance = powers(rng, -3, 3, count), powers(rng, -3, 3, count)
    given = {"a0": made["u"], "b0": made["v"], "target": made["y"], "normalisation": Z, "input_variance": variance}
    t = pair_times(rng, made["u"], made["v"], 1 / Z, made["y"], made["eta_u"], made["eta_v"])
    return given | {"eta_a": made["eta_u"], "eta_b": made["eta_v"]}, t / variance[:, None]


def diagonal_starts(seed: int, modes: int, count: int) -> tuple[Starts, Floats]:
    """Starts of the diagonal network."""
    rng = np.random.default_rng([seed, modes, 4])
    made = pair_starts(rng, count, modes)
    S = made["y"][:, None] * np.where(rng.random((count, modes)) < 0.5, 1.0, powers(rng, -2, 2, count, modes))
    variance = powers(rng, -3, 3, count)[:, None] * powers(rng, -1, 1, count, modes)
    given = {"a0": made["u"], "b0": made["v"], "target": S, "input_variance": variance}
    one = np.ones(count)
    t = pair_times(rng, made["u"][:, :1], made["v"][:, :1], one, S[:, 0], made["eta_u"], made["eta_v"])
    return given | {"eta_a": made["eta_u"], "eta_b": made["eta_v"]}, t / variance[:, :1]


def linear_starts(seed: int, modes: int, count: int) -> tuple[Starts, Floats]:
    """Starts of the linear model."""
    rng = np.random.default_rng([seed, modes, 5])
    rho = powers(rng, -6, 6, count)[:, None] * powers(rng, -3, 3, count, modes) * (rng.random((count, modes)) > 0.1)
    goal = powers(rng, -6, 6, count)[:, None] * signed(rng, count, modes)
    start = np.where(rng.random(count) < 0.4, 0.0, powers(rng, -6, 6, count))[:, None] * signed(rng, count, modes)
    eta = powers(rng, -3, 3, count) * (rng.random(count) > 0.05)
    t = times(rng, rho.max(1) * eta, np.where(rho > 0, rho, 1e300).min(1) * eta)
    return {"eigenvalues": rho, "coefficients": goal, "eta": eta, "initial_output": start}, np.where(
        t > 1e280, np.inf, t
    )
