r"""On which branch of the minima a single neuron ends, by integration where no closed form says it.

In $\alpha=\sqrt{\eta_w}a$, $z=\sqrt{\eta_a}V^Tw$ (V: right singular vectors of X, $\lambda$: the squares of its values)
the flow is $\dot\alpha=-z\cdot\lambda(\alpha z-b)$, $\dot z=-\alpha\lambda(\alpha z-b)$. Once its loss is below
that of the saddle β = 0 it can never cross a = 0 again.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError
from richter.maths.integrate import integrate

Floats = NDArray[np.float64]
MARGIN = 1e-9  # by which the loss must be below that of the saddle, relatively
TOGETHER = (3.0, 10.0, 30.0, 100.0)  # times, in each start's own unit, up to which all starts are followed at once
STEPS = 100_000  # of the integrator for one start


def below_the_saddle(alpha: Floats, z: Floats, strength: Floats, goal: Floats) -> NDArray[np.bool_]:
    """Whether the loss is below that of β = 0, for every start; arguments as in `final_signs`."""
    left = (strength * (alpha[:, None] * z - goal) ** 2).sum(axis=1)
    return np.asarray(left < (1 - MARGIN) * (strength * goal**2).sum(axis=1))


def final_signs(alpha: Floats, z: Floats, strength: Floats, goal: Floats) -> Floats:
    """The sign of a(∞) of every start; 0 for a start that is at rest on the saddle.

    Args:
        alpha: √η_w a₀ (start,).
        z: √η_a w₀ along the right singular vectors (start, mode).
        strength: squared singular values λ (mode,).
        goal: √(η_aη_w) times the minimum-norm solution along them (start, mode).

    >>> final_signs(np.array([0.1]), np.array([[-3.0, 0.2]]), np.array([1.0, 0.1]), np.array([[1.0, 1.0]])).tolist()
    [-1.0]
    """
    # In units of the solution's size, and on a clock that makes the fastest motion of every start 1.
    unit = np.sqrt(np.linalg.norm(goal, axis=1))
    alpha, z, goal = alpha / unit, z / unit[:, None], goal / unit[:, None] ** 2
    strength = strength / strength.max()
    slow = 1 / (1 + alpha**2 + (z * z).sum(axis=1))
    sign = np.zeros(alpha.shape)
    open_ = np.abs(np.concatenate(_flow(alpha, z, strength, goal))).max(axis=0) > 0
    at = 0.0
    for end in TOGETHER:
        done = open_ & below_the_saddle(alpha, z, strength, goal)
        sign[done] = np.sign(alpha[done])
        open_ &= ~done
        if not open_.any():
            return sign
        clock, aim, n = slow[open_], goal[open_], int(open_.sum())
        size = np.sqrt(alpha[open_] ** 2 + (z[open_] ** 2).sum(axis=1))

        def flow(flat: Floats, clock: Floats = clock, aim: Floats = aim, n: int = n, size: Floats = size) -> Floats:
            x = flat.reshape(-1, n) * size
            return (np.concatenate(_flow(x[0], x[1:].T, strength, aim)) * (clock / size)).ravel()

        start = np.concatenate([alpha[None, open_], z[open_].T]) / size
        state = integrate(flow, start.ravel(), np.array([end - at]))[:, -1].reshape(-1, n) * size
        alpha[open_], z[open_], at = state[0], state[1:].T, end
    for i in np.flatnonzero(open_):
        sign[i] = _alone(alpha[i], z[i], strength, goal[i], float(slow[i]))
    return sign


def _flow(alpha: Floats, z: Floats, strength: Floats, goal: Floats) -> tuple[Floats, Floats]:
    """α̇ (1, start) and ż (mode, start)."""
    pull = strength * (goal - alpha[:, None] * z)
    return (z * pull).sum(axis=1)[None], alpha * pull.T


def _alone(alpha: float, z: Floats, strength: Floats, goal: Floats, slow: float) -> float:
    """One start, which is slow or stiff: with an implicit method."""
    from scipy.integrate import LSODA

    def flow(_: float, x: Floats) -> Floats:
        da, dz = _flow(x[:1], x[None, 1:], strength, goal[None])
        return np.concatenate([da[0], dz[:, 0]])

    start = np.concatenate([[alpha], z])
    solver = LSODA(flow, 0.0, start, 1e30, first_step=slow, rtol=1e-11, atol=1e-13 * float(np.linalg.norm(start)))
    for _ in range(STEPS):
        solver.step()
        if below_the_saddle(solver.y[:1], solver.y[None, 1:], strength, goal[None])[0]:
            return float(np.sign(solver.y[0]))
        if solver.status != "running":
            break
    raise OutsideTheoryError(
        "The sign of a(∞) could not be found by integration: the start lies too near the surface that separates "
        "the two basins. Move a0 or w0 a little."
    )
