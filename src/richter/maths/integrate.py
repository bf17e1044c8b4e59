"""Numerical integration of many starts at once: the witness of every closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError

Floats = NDArray[np.float64]


def integrate(
    flow: Callable[[Floats], Floats],
    start: Floats,
    times: Floats,
    *,
    method: str = "DOP853",
    rtol: float = 1e-11,
    atol: float = 1e-13,
) -> Floats:
    """States (variable, time) of ẋ = flow(x) at increasing times ≥ 0, all variables in one system.

    >>> integrate(lambda x: -x, np.array([1.0]), np.array([0.0, 1.0])).round(9).tolist()
    [[1.0, 0.367879441]]
    """
    from scipy.integrate import solve_ivp

    if times[-1] == 0:
        return np.repeat(start[:, None], times.size, axis=1)
    done = solve_ivp(
        lambda _, x: flow(x),
        (0.0, float(times[-1])),
        start,
        method=method,
        t_eval=times,
        rtol=rtol,
        atol=atol,
    )
    if not done.success:
        raise OutsideTheoryError(
            f"The integrator stopped at t = {done.t[-1] if len(done.t) else 0.0:g}: {done.message} "
            'Try simulate(t, method="Radau") for a stiff start, or solve(t), which is exact.'
        )
    states: Floats = done.y
    return states
