"""When the skills of a network emerge in time, data and parameters, calibrated on one of them.

A calibration is one number, fitted to one skill's measured curve: the rate multiplier ℬ (time), the examples D_c
that a skill needs (data), the hidden neurons N_c that it needs (parameters).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.multilinear import multilinear_strength
from richter.params import numbers
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
Curve = Callable[[Floats, float], Floats]  # (resource, calibrated number) → strength
GRID = 600  # candidates from which a fit starts
ROUNDING = 1e-12  # share of a curve's square that is no misfit


@dataclass(frozen=True)
class Calibration:
    """A fitted number, its 95 % interval, and how well the curve fits (root mean square)."""

    value: float
    interval: tuple[float, float]
    misfit: float
    points: int

    @property
    def ends(self) -> tuple[float, float, float]:
        """The number and the ends of its interval."""
        return self.value, *self.interval


@implements(
    NAM24["Eq. 5.2"].misprint(
        printed="R_k/S = 1/(1 + (S/R_k(0) − 1) exp(−2ηP(k)ℬ²ST))",
        right="the rate is 2ηP(k)ℬST, with the first power of ℬ: the fitted “ℬ² = 1/22” is the model's ℬ",
        how="DOP853 on (5.1): 0.378986942565; ℬ 0.378986942564, ℬ² 0.0456",
    ),
    NAM24["Eq. 5.1"],
)
def emergence_in_time(
    t: ArrayLike,
    frequency: ArrayLike,
    target: ArrayLike,
    initial: ArrayLike,
    eta: ArrayLike = 1.0,
    rate: ArrayLike = 1.0,
) -> Floats:
    r"""$\mathcal R_k=S/[1+(\frac S{\mathcal R_k(0)}-1)e^{-2\eta\mathcal P_s(k)\mathcal BSt}]$.

    The skill strength of $f=\sum_ka_kb_k\mathcal Bg_k$ with a = b (Eq. 5.1).
    """
    return np.asarray(multilinear_strength(t, np.asarray(frequency, dtype=float) * rate, target, initial, eta))


def emergence_in_data(samples: ArrayLike, frequency: ArrayLike, target: ArrayLike, needed: ArrayLike) -> Floats:
    r"""$\mathbf E\mathcal R_k=\frac S{D_c}\mathbf E\min(d_k,D_c)$ over $d_k\sim\mathrm{Bin}(D,\mathcal P_s(k))$.

    The end of training, t = ∞. For whole $D_c$ exact; between whole numbers the mean of both sides.

    >>> float(emergence_in_data(10, 0.5, 1.0, 10).round(12)), float(emergence_in_data(10, 0.5, 1.0, 1).round(6))
    (0.5, 0.999023)
    """
    D, P, S, c = np.broadcast_arrays(*(np.asarray(x, dtype=float) for x in (samples, frequency, target, needed)))
    low = np.maximum(np.floor(c), 1.0)
    share = np.maximum(c, 1.0) - low
    return np.asarray(S * ((1 - share) * _capped(D, P, low) / low + share * _capped(D, P, low + 1) / (low + 1)))


def _capped(D: Floats, P: Floats, c: Floats) -> Floats:
    r"""$\mathbf E\min(d,c)=DP\,F_{D-1}(c-2)+c\,(1-F_D(c-1))$."""
    from scipy.stats import binom

    below = np.where(D > 0, binom.cdf(c - 2, np.maximum(D - 1, 0), P), 0.0)
    return np.asarray(D * P * below + c * binom.sf(c - 1, D, P))


def emergence_in_parameters(n_basis: ArrayLike, k: ArrayLike, target: ArrayLike, needed: ArrayLike) -> Floats:
    r"""$\mathcal R_k=S\,\mathrm{clip}((N-(k-1)N_c)/N_c,0,1)$, Eq. 5.9 for any N and $N_c$, for t, D = ∞.

    >>> emergence_in_parameters(6, [1, 2, 3], 1.0, 4).tolist()
    [1.0, 0.5, 0.0]
    """
    N, k, c = (np.asarray(x, dtype=float) for x in (n_basis, k, needed))
    return np.asarray(np.asarray(target, dtype=float) * np.clip(N / c - (k - 1), 0.0, 1.0))


def half_times(
    frequency: ArrayLike, target: ArrayLike, initial: ArrayLike, eta: ArrayLike = 1.0, rate: ArrayLike = 1.0
) -> Floats:
    r"""When each skill reaches S/2: $t=\ln r/(2\eta\mathcal P_s(k)\mathcal BS)$; 0 if it starts beyond."""
    P, S, start, eta, rate = (np.asarray(x, dtype=float) for x in (frequency, target, initial, eta, rate))
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(S / start - 1), 0.0) / (2 * eta * P * rate * S)


def half_samples(frequency: ArrayLike, needed: ArrayLike) -> Floats:
    r"""The D at which a skill is half learned, $D_c/2\mathcal P_s(k)$ (mean count)."""
    return np.asarray(np.asarray(needed, dtype=float) / (2 * np.asarray(frequency, dtype=float)))


def half_parameters(k: ArrayLike, needed: ArrayLike) -> Floats:
    """The N at which skill k is half expressed, (k − ½)N_c."""
    return np.asarray((np.asarray(k, dtype=float) - 0.5) * np.asarray(needed, dtype=float))


def calibrate(
    x: ArrayLike,
    strength: ArrayLike,
    curve: Curve,
    between: tuple[float, float],
    error: ArrayLike | None = None,
    confidence: float = 0.95,
) -> Calibration:
    """The number that makes `curve` fit one skill's measured strengths best, by least squares in its logarithm.

    The interval is Student's, from the curve's slope at the best number and the scatter about it (or from `error`,
    where the points scatter less).

    Args:
        x: the resource at each measurement.
        strength: the measured strengths.
        curve: the model's strengths at x for a candidate number.
        between: where to look for it.
        error: standard error of each strength.
        confidence: of the interval.

    >>> t = np.linspace(0, 10, 21)
    >>> model = lambda t, rate: emergence_in_time(t, 1.0, 1.0, 1e-2, rate=rate)
    >>> round(calibrate(t, model(t, 0.5), model, (1e-3, 1e3)).value, 9)
    0.5
    """
    from scipy.optimize import minimize_scalar
    from scipy.stats import t as student

    across = numbers("`x` of a measured curve", x).ravel()
    up = numbers("`strength` of a measured curve", strength).ravel()
    if across.shape != up.shape or across.size < 3:
        got = f"{across.size} and {up.size} numbers"
        raise ParameterError(message("a measured curve", "be at least three pairs", got))
    low, high = between
    if not 0 < low < high:
        raise ParameterError(message("`between`", "be two numbers > 0, the lower one first", between))
    weight = np.ones(up.shape)
    if error is not None:
        errors = numbers("`error`", error)
        if errors.shape not in ((), up.shape):
            got = f"{errors.size} for {up.size} points"
            raise ParameterError(message("`error`", "be one number, or one for each point", got))
        errors = np.broadcast_to(errors, up.shape)
        if not (errors > 0).all():
            raise ParameterError(message("`error`", "be > 0", float(errors.min())))
        weight = 1 / errors
    off = lambda log: weight * (curve(across, float(np.exp(log))) - up)
    cost = lambda log: float((off(log) ** 2).sum())
    grid = np.linspace(np.log(low), np.log(high), GRID)
    costs = [cost(log) for log in grid]
    at = int(np.argmin(costs))
    ends_at = lambda got: ParameterError(
        message(
            "the calibrated number", f"lie between {low:g} and {high:g}", got,
            "The curve does not show where the skill emerges: measure more of it, or look further.",
        )
    )  # fmt: skip
    if at in (0, GRID - 1):
        raise ends_at(f"the end {np.exp(grid[at]):.3g}")
    best = float(
        minimize_scalar(cost, bounds=(grid[at - 1], grid[at + 1]), method="bounded", options={"xatol": 1e-11}).x
    )
    step = 1e-4  # of ln; the curves are smooth on a scale of 1
    for _ in range(3):  # the bottom of a parabola is known to half the digits only: Newton's steps find the rest
        slope = (off(best + step) - off(best - step)) / (2 * step)
        move = float((slope * off(best)).sum() / max(float((slope**2).sum()), 1e-300))
        best -= move if cost(best - move) <= cost(best) else 0.0
    freedom = across.size - 1
    scatter = cost(best) / freedom
    scale = scatter if error is None else max(1.0, scatter)
    half = float(student.ppf((1 + confidence) / 2, freedom) * np.sqrt(scale / max(float((slope**2).sum()), 1e-300)))
    half = min(half, 50.0)
    # A curve that is all plateau fits every number beyond its own as well.
    noise = student.ppf((1 + confidence) / 2, freedom) ** 2 * scale + ROUNDING * float(((weight * up) ** 2).sum())
    for end in (0, GRID - 1):
        if costs[end] - cost(best) <= noise:
            raise ends_at(f"one that {np.exp(grid[end]):.3g} fits as well as {np.exp(best):.3g}")
    ends = (float(np.exp(best - half)), float(np.exp(best + half)))
    misfit = float(np.sqrt(np.mean((curve(across, float(np.exp(best))) - up) ** 2)))
    return Calibration(float(np.exp(best)), ends, misfit, across.size)


def predict(x: ArrayLike, curve: Curve, calibration: Calibration) -> tuple[Floats, Floats, Floats]:
    """The curve, and its lowest and highest within the calibration's interval (curves monotone in the number)."""
    across = np.asarray(x, dtype=float)
    middle, first, second = (curve(across, value) for value in calibration.ends)
    return middle, np.minimum(first, second), np.maximum(first, second)
