"""A high-order integrator for the tests, independent of the package's own."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def follow(flow: Callable[..., ArrayLike], start: ArrayLike, times: ArrayLike) -> Floats:
    """States (variable, time) of ẋ = flow(x) from 0, by DOP853 at 1e-12 relative to the start's size."""
    from scipy.integrate import solve_ivp

    first, when = np.asarray(start, dtype=float), np.asarray(times, dtype=float)
    small = 1e-13 * max(float(np.abs(first).max()), 1e-3)
    done = solve_ivp(
        lambda _, x: np.asarray(flow(x)), (0, when[-1]), first, method="DOP853", t_eval=when, rtol=1e-12, atol=small
    )
    assert done.success, done.message
    states: Floats = done.y
    return states
