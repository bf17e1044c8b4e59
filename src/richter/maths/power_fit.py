"""Power laws in measured curves: the fitted exponent and prefactor with intervals, and the local exponent."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class PowerFit:
    """y = prefactor · x^exponent, with the 95 % interval of each."""

    exponent: float
    prefactor: float
    exponent_interval: tuple[float, float]
    prefactor_interval: tuple[float, float]
    spread: float  # standard deviation of ln y about the line
    points: int

    def holds(self, exponent: float) -> bool:
        """Whether an exponent lies in the interval."""
        return self.exponent_interval[0] <= exponent <= self.exponent_interval[1]


def fit_power(x: ArrayLike, y: ArrayLike, error: ArrayLike | None = None, confidence: float = 0.95) -> PowerFit:
    """Least squares of ln y against ln x, with Student's intervals; three points at least.

    Args:
        x: the resource.
        y: the loss.
        error: standard error of each y; then the points are weighted with it, and it alone makes the intervals
            unless the points scatter more than it allows.
        confidence: of the intervals.

    >>> fit = fit_power([1, 2, 4, 8], [3.0, 1.5, 0.75, 0.375])
    >>> round(fit.exponent, 12), round(fit.prefactor, 12)
    (-1.0, 3.0)
    """
    from scipy.stats import t as student

    across, up = np.asarray(x, dtype=float).ravel(), np.asarray(y, dtype=float).ravel()
    if across.shape != up.shape or across.size < 3:
        raise ParameterError(
            message("a power law's points", "be at least three pairs", f"{across.size} and {up.size} numbers")
        )
    if not (np.isfinite(across).all() and np.isfinite(up).all() and (across > 0).all() and (up > 0).all()):
        raise ParameterError(message("a power law's points", "be finite and > 0", "others", "Leave these out."))
    weight = np.ones(up.shape)
    if error is not None:
        relative = np.asarray(error, dtype=float).ravel() / up
        if relative.shape != up.shape or not (relative > 0).all():
            raise ParameterError(message("`error`", "be one number > 0 for each point", error))
        weight = 1 / relative**2
    if np.ptp(across) == 0:
        raise ParameterError(message("a power law's points", "have different x", float(across[0])))
    log_x, log_y = np.log(across), np.log(up)
    middle = np.average(log_x, weights=weight)
    square = (weight * (log_x - middle) ** 2).sum()
    slope = float((weight * (log_x - middle) * log_y).sum() / square)
    level = float(np.average(log_y, weights=weight))
    off = log_y - level - slope * (log_x - middle)
    chi = float((weight * off**2).sum() / (up.size - 2))
    scale = chi if error is None else max(1.0, chi)
    factor = float(student.ppf((1 + confidence) / 2, up.size - 2))
    d_slope = factor * np.sqrt(scale / square)
    height = level - slope * middle
    d_height = factor * np.sqrt(scale * (1 / weight.sum() + middle**2 / square))
    with np.errstate(over="ignore"):
        ends = (float(np.exp(height - d_height)), float(np.exp(height + d_height)))
    return PowerFit(
        slope, float(np.exp(height)), (slope - d_slope, slope + d_slope),
        ends,
        float(np.sqrt((off**2).sum() / (up.size - 2))), up.size,
    )  # fmt: skip


def local_exponents(x: ArrayLike, y: ArrayLike) -> Floats:
    """d ln y/d ln x at every point, by differences of second order on any grid; NaN where y is not > 0.

    >>> local_exponents([1, 2, 4, 8], [1, 4, 16, 64]).round(12).tolist()
    [2.0, 2.0, 2.0, 2.0]
    """
    across, up = np.log(np.asarray(x, dtype=float)), np.asarray(y, dtype=float)
    positive = up > 0
    height = np.where(positive, np.log(np.where(positive, up, 1.0)), np.nan)
    return np.asarray(np.gradient(height, across, axis=-1, edge_order=2 if across.size > 2 else 1))
