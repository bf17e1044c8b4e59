"""The tolerances of the test suite, by name: a bare number elsewhere needs a reason on its line."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike


@dataclass(frozen=True)
class Tier:
    """A named relative tolerance and what it is for."""

    name: str
    rtol: float
    says: str


IDENTITY = Tier("identity", 1e-12, "the same quantity two ways in float64")
SOLVED = Tier("solved", 1e-8, "a closed form against an integrator run at 1e-11")
DERIVATIVE = Tier("derivative", 1e-6, "a derivative against central differences, with the step stated")
TIERS = {tier.name: tier for tier in (IDENTITY, SOLVED, DERIVATIVE)}
SLOPE = 0.05  # a fitted order of convergence
STANDARD_ERRORS = 5.0  # chance: by how many standard errors a mean may be off, whatever the seed


def assert_close(
    actual: ArrayLike,
    expected: ArrayLike,
    tier: Tier,
    *,
    scale: ArrayLike | None = None,
    times: float = 1.0,
    says: str = "",
) -> None:
    """Equal to the tier's relative tolerance, entry by entry; NaN and ∞ must be in the same places.

    Args:
        actual: what was computed.
        expected: what it should be; broadcasts with `actual`.
        tier: the tolerance.
        scale: what the error is relative to; `abs(expected)` if not given.
        times: factor on the tolerance; say why on the line.
        says: what is compared, for the message.

    >>> assert_close([1.0, float("nan")], [1.0 + 1e-13, float("nan")], IDENTITY)
    >>> assert_close(1.0, 1.1, SOLVED, says="slope")
    Traceback (most recent call last):
    AssertionError: slope: 1.0 is not 1.1 at (): error 0.0909 of 1.1, solved allows 1e-08 (1 of 1 entries differ).
    """
    got, want = np.broadcast_arrays(np.asarray(actual, dtype=float), np.asarray(expected, dtype=float))
    size = np.broadcast_to(np.abs(want if scale is None else np.asarray(scale, dtype=float)), got.shape)
    finite = np.isfinite(want)
    with np.errstate(invalid="ignore", divide="ignore"):
        error = np.where(got == want, 0.0, np.abs(got - want) / size)
    wrong = np.where(finite, ~(error <= tier.rtol * times), ~((got == want) | (np.isnan(got) & np.isnan(want))))
    if not wrong.any():
        return
    worst = np.unravel_index(np.argmax(np.where(wrong, np.where(np.isfinite(error), error, np.inf), -1.0)), got.shape)
    raise AssertionError(
        f"{says or 'value'}: {float(got[worst])!r} is not {float(want[worst])!r} at {tuple(int(i) for i in worst)}: "
        f"error {error[worst]:.3g} of {size[worst]:.3g}, {tier.name} allows {tier.rtol * times:.3g} "
        f"({int(wrong.sum())} of {wrong.size} entries differ)."
    )


def fitted_slope(x: ArrayLike, y: ArrayLike) -> float:
    """The slope of log |y| over log |x|, by least squares over at least three points.

    >>> round(fitted_slope([1, 2, 4], [3, 12, 48]), 12)
    2.0
    """
    steps, sizes = np.log(np.abs(np.asarray(x, dtype=float))), np.log(np.abs(np.asarray(y, dtype=float)))
    if steps.size < 3:
        raise ValueError(f"A slope needs at least three points. Got {steps.size}.")
    return float(np.polyfit(steps, sizes, 1)[0])


def assert_slope(x: ArrayLike, y: ArrayLike, order: float, *, within: float = SLOPE, says: str = "") -> None:
    """`y` goes like `x` to the power `order`.

    >>> assert_slope([1, 2, 4], [1.01, 4, 16], 2)
    """
    slope = fitted_slope(x, y)
    assert abs(slope - order) <= within, f"{says or 'order'}: {slope:.4g} is not {order:g} ± {within:g}"


def assert_within_errors(
    sample: ArrayLike, expected: float, *, errors: float = STANDARD_ERRORS, says: str = ""
) -> None:
    """The mean of independent draws is `expected` within so many of its own standard errors.

    >>> assert_within_errors([0.9, 1.1, 1.0, 1.05], 1.0)
    """
    draws = np.asarray(sample, dtype=float)
    if draws.ndim != 1 or draws.size < 2:
        raise ValueError(f"A standard error needs a list of at least two draws. Got shape {draws.shape}.")
    error = float(draws.std(ddof=1) / np.sqrt(draws.size))
    off = abs(float(draws.mean()) - expected)
    assert off <= errors * error, (
        f"{says or 'mean'}: {draws.mean():.6g} is not {expected:.6g}: {off / error:.2f} standard errors of {error:.3g}"
        f" over {draws.size} draws, {errors:g} allowed"
    )
