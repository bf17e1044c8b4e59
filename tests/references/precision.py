"""Values and componentwise condition numbers in many digits."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mpmath import mp

Number = Any
Outputs = dict[str, list[Number]]
Solver = Callable[[list[Number]], Outputs]

DIGITS = 420  # 50 of the result; the rest for what the naive forms cancel down to the smallest double
TINY = mp.mpf(10) ** -360  # relative size of what only rounding leaves of an exact 0
STEPS = mp.mpf(10) ** -20, -(mp.mpf(10) ** -15)


def undefined(count: int) -> list[Number]:
    """Entries that do not exist."""
    return [mp.nan] * count


def inner(x: Sequence[Number], y: Sequence[Number]) -> Number:
    """Σ x y."""
    return sum((a * b for a, b in zip(x, y, strict=True)), mp.mpf(0))


def one_minus_cosine(x: Sequence[Number], y: Sequence[Number]) -> Number:
    """1 − cos of the angle between two lists of numbers, undefined where one is 0."""
    length = mp.sqrt(inner(x, x) * inner(y, y))
    return 1 - inner(x, y) / length if length else mp.nan


def relative_change(now: Sequence[Number], start: Sequence[Number]) -> Number:
    """‖now − start‖/‖start‖, undefined where the start is 0."""
    gap = [a - b for a, b in zip(now, start, strict=True)]
    return mp.sqrt(inner(gap, gap) / inner(start, start)) if any(start) else mp.nan


def conditioned(solve: Solver, inputs: Sequence[float]) -> tuple[Outputs, Outputs]:
    r"""Values at `inputs`, and $\sum_i|x_i\,\partial f/\partial x_i|$: what a relative error of 1 in each does.

    Each derivative is a difference quotient of 1e-20, or of −1e-15 where that is larger: beside a separatrix or
    at the bottom of a parabola the derivative alone does not say what one rounding error of an input does.
    Inputs that are 0 or ∞ stay as they are: they are exact.
    """
    with mp.workdps(DIGITS):
        given = [mp.mpf(x) for x in inputs]
        value = solve(given)
        total: Outputs = {name: [mp.mpf(0)] * len(entries) for name, entries in value.items()}
        for i, x in enumerate(given):
            if not x or mp.isinf(x):
                continue
            moved = [(solve([*given[:i], x * (1 + step), *given[i + 1 :]]), abs(step)) for step in STEPS]
            for name, entries in value.items():
                for k, a in enumerate(entries):
                    if mp.isfinite(a):
                        total[name][k] += max(
                            (abs(o[name][k] - a) / step for o, step in moved if mp.isfinite(o[name][k])), default=0
                        )
    return value, total
