"""Numerical integration of many starts at once: the witness of every closed form."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError, ParameterError, message, show

Floats = NDArray[np.float64]
SMALLEST_RTOL = 2.3e-14  # the solvers refuse less


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
    from scipy.integrate import DOP853, LSODA, RK45, Radau

    solvers = {"DOP853": DOP853, "RK45": RK45, "Radau": Radau, "LSODA": LSODA}
    if method not in solvers:
        raise ParameterError(message("`method`", f"be one of {', '.join(solvers)}", show(method)))
    # The solvers bound the root mean square of the errors; divided by √n it bounds every one of them.
    spread = np.sqrt(start.size)
    rtol, atol = max(rtol / spread, SMALLEST_RTOL), atol / spread
    made = np.empty((start.size, times.size))
    now, at, step = start, 0.0, None
    for column, end in enumerate(times):
        # Every time is the end of a step: interpolation would be far less accurate where the flow is stiff.
        if end > at:
            solver = solvers[method](
                lambda _, x: flow(x), at, now, float(end), rtol=rtol, atol=atol,
                first_step=None if step is None else min(step, float(end) - at),
            )  # fmt: skip
            longest = 0.0
            while solver.status == "running":
                problem = solver.step()
                longest = max(longest, solver.step_size or 0.0)
            if solver.status == "failed":
                raise OutsideTheoryError(
                    f"The integrator stopped at t = {solver.t:g}: {problem} "
                    'Try simulate(t, method="Radau") for a stiff start, or solve(t), which is exact.'
                )
            now, at, step = solver.y, float(end), longest
        made[:, column] = now
    return made
