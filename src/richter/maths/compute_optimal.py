r"""The best split of compute C = T·N between time and parameters, exactly for large C.

The loss at finite T and N is $\mathcal L=\frac{S^2A}{2(\alpha+1)}(2\eta AST)^{-s}J(u)$ with
$u=2\eta AST\,N^{-(\alpha+1)}$, the exponent of the rarest skill in the model, and
$J(u)=\int_u^\infty\frac{v^{s-1}dv}{(1+e^v/r)^2}+\frac{u^s}s$.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.multilinear import multilinear_loss
from richter.maths.scaling_laws import saturation_integral, time_law
from richter.maths.skills import zipf_constant
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
LEAST = -700.0  # ln u of the smallest double
MOST = 2**53  # basis functions: whole numbers beyond are not doubles
FARTHEST = 64.0  # times the limit's N, as far as a best whole N is looked for


@dataclass(frozen=True)
class Optimum:
    """The best split of each compute: time, parameters, loss, and u of the rarest skill (that is in the model)."""

    time: Floats
    parameters: Floats
    loss: Floats
    exponent: Floats  # u*


def shared_integral(u: ArrayLike, r: ArrayLike, s: ArrayLike) -> Floats:
    r"""$J(u)$: the loss in units of the time law's prefactor; $J(0)=I$, $J\to u^s/s$.

    >>> float(shared_integral(0.0, 1299.0, 0.375).round(6))
    5.228435
    """
    u, s = np.asarray(u, dtype=float), np.asarray(s, dtype=float)
    return np.asarray(saturation_integral(r, s, u) + u**s / s)


@implements(NAM24["Eq. 4.37"])
def loss_of_time_and_parameters(
    t: ArrayLike, n_basis: ArrayLike, alpha: ArrayLike, target: ArrayLike, initial: ArrayLike, eta: ArrayLike = 1.0
) -> Floats:
    r"""$\mathcal L(T,N)\simeq\frac{S^2A}{2(\alpha+1)}(2\eta AST)^{-s}J(u)$ for endless data.

    For $2\eta AST\gg\ln r$ and N ≫ 1.
    """
    t, N, a, S, start, eta = (np.asarray(x, dtype=float) for x in (t, n_basis, alpha, target, initial, eta))
    A, s = zipf_constant(a), a / (a + 1)
    speed = 2 * eta * A * S * t
    # N + ½: the sum over k ≤ N is the integral to N + ½, up to order N⁻².
    J = shared_integral(speed * (N + 0.5) ** -(a + 1), S / start - 1, s)
    return S**2 * A / (2 * (a + 1)) * speed**-s * J


def best_exponent(alpha: ArrayLike, r: ArrayLike) -> Floats:
    r"""$u_*$ with $u_*J'(u_*)=\frac\alpha{(\alpha+1)(\alpha+2)}J(u_*)$, $J'=u^{s-1}[1-(1+e^u/r)^{-2}]$.

    NaN below 1e-304: for a start near the target and a small α, where nothing is gained by time.

    >>> float(best_exponent(0.6, 1299.0).round(7))
    5.9370506
    """
    a, r = np.broadcast_arrays(np.asarray(alpha, dtype=float), np.asarray(r, dtype=float))
    s, share = a / (a + 1), a / ((a + 1) * (a + 2))
    low, high = np.full(a.shape, LEAST), np.log(np.maximum(np.log(np.maximum(r, 1.0)), 1.0) + 60)  # of ln u
    with np.errstate(over="ignore"):
        for _ in range(60):
            middle = (low + high) / 2
            u = np.exp(middle)
            open_ = 1 / (1 + np.exp(u) / r)
            below = u**s * (1 - open_) * (1 + open_) < share * shared_integral(u, r, s)
            low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.where(low > LEAST, np.exp((low + high) / 2), np.nan)


@implements(
    NAM24["Sec. 4.3.4"].misprint(
        printed="L = T^{−α/(α+1)} + N^{−α} (4.39), to be minimised at fixed NT",
        right="the exponents follow, but the sum counts the skills k > N twice; L = S²A/2(α+1) (2ηAST)^{−s} J(u)",
        how="α = 0.6, S = 1.3, η = 0.8, R(0) = 1e-3, C = 1e9: N* = 1406.9, L* = 8.287e-3 (brute force 1407, 8.286e-3); "
        "the sum gives N = 2266 and a loss 88 % too large",
    ),
    NAM24["Eq. 4.43"],
    NAM24["Eq. 4.44"],
)
def best_split(
    compute: ArrayLike, alpha: ArrayLike, target: ArrayLike, initial: ArrayLike, eta: ArrayLike = 1.0
) -> Optimum:
    r"""$T_*=C^{\frac{\alpha+1}{\alpha+2}}(u_*/2\eta AS)^{\frac1{\alpha+2}}$, $N_*=C/T_*$.

    The loss there is $\mathcal L_*\propto C^{-\alpha/(\alpha+2)}$.

    >>> best = best_split(1e9, 0.6, 1.3, 1e-3, 0.8)
    >>> float(best.parameters.round(1)), float(best.loss.round(7))
    (1406.9, 0.0082868)
    """
    C, a, S, start, eta = (np.asarray(x, dtype=float) for x in (compute, alpha, target, initial, eta))
    A, s = zipf_constant(a), a / (a + 1)
    r = S / start - 1
    u = best_exponent(a, r)
    T = C ** ((a + 1) / (a + 2)) * (u / (2 * eta * A * S)) ** (1 / (a + 2))
    loss = S**2 * A / (2 * (a + 1)) * (2 * eta * A * S * T) ** -s * shared_integral(u, r, s)
    return Optimum(T, C / T, np.asarray(loss), np.broadcast_to(u, T.shape))


def whole_split(
    compute: ArrayLike,
    alpha: float,
    target: float,
    initial: float,
    eta: float = 1.0,
    n_skills: float = np.inf,
) -> Optimum:
    r"""The best whole number of basis functions for each compute, by the exact sums over skills: for any C.

    `best_split` is its limit for large C. The loss falls up to the best N and rises beyond, so that a search by thirds
    finds it. NaN where it only falls: with so little compute that nothing is learned beyond the start.

    >>> best = whole_split([1e4, 1e9], 0.6, 1.3, 1e-3, 0.8)
    >>> best.parameters.tolist()
    [16.0, 1407.0]
    """
    C = np.asarray(compute, dtype=float)
    near = best_split(C, alpha, target, initial, eta)
    best = np.empty(C.shape)
    lowest = np.empty(C.shape)
    endless = not np.isfinite(n_skills)
    most = MOST if endless else n_skills
    for i in np.ndindex(C.shape):
        seen: dict[int, float] = {}

        def loss(n: int, c: float = float(C[i]), seen: dict[int, float] = seen) -> float:
            if n not in seen:
                seen[n] = float(multilinear_loss(c / n, alpha, target, initial, eta, n_skills, n))
            return seen[n]

        middle = float(near.parameters[i])
        middle = middle if np.isfinite(middle) else float(C[i]) ** (1 / (alpha + 2))
        high = int(min(most, 1.25 * middle + 4))
        low = min(high, max(1, int(0.8 * middle) - 3))
        while low > 1 and loss(low) <= loss(low + 1):
            low = max(1, low // 2)
        while high < min(most, FARTHEST * (middle + 1)) and loss(high) <= loss(max(1, high - 1)):
            high = int(min(most, 2 * high))
        if (endless or high < most) and loss(high) <= loss(max(1, high - 1)):
            best[i] = lowest[i] = np.nan
            continue
        while high - low > 2:
            third = (high - low) // 3
            left, right = low + third, high - third
            low, high = (low, right - 1) if loss(left) < loss(right) else (left + 1, high)
        best[i] = min(range(low, high + 1), key=loss)
        lowest[i] = loss(int(best[i]))
    speed = 2 * eta * zipf_constant(alpha, n_skills) * target * C / best
    return Optimum(C / best, best, lowest, speed * best ** -(alpha + 1))


@implements(
    NAM24["Eq. 4.38"], NAM24["Eq. 4.39"], NAM24["Eq. 4.40"], NAM24["Eq. 4.41"], NAM24["Eq. 4.42"], role="witness"
)
def added_split(
    compute: ArrayLike, alpha: ArrayLike, target: ArrayLike, initial: ArrayLike, eta: ArrayLike = 1.0
) -> Optimum:
    r"""The best split of the added form $c_TT^{-s}+c_NN^{-\alpha}$, with the exact prefactors: an over-count.

    >>> float(added_split(1e9, 0.6, 1.3, 1e-3, 0.8).parameters.round())
    2266.0
    """
    C, a, S, start, eta = (np.asarray(x, dtype=float) for x in (compute, alpha, target, initial, eta))
    A, s = zipf_constant(a), a / (a + 1)
    by_time, by_size = time_law(1.0, a, S, start, eta), S**2 * A / (2 * a)
    N = (a * by_size * C**s / (s * by_time)) ** (1 / (s + a))
    loss = by_time * (C / N) ** -s + by_size * N**-a
    return Optimum(C / N, N, np.asarray(loss), 2 * eta * A * S * C / N * N ** -(a + 1))
