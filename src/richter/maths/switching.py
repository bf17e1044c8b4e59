r"""Gradient flow of a two-layer piecewise-linear network across changes of its activation pattern.

Between changes the flow is smooth; at a change the integrator stops and starts again with the new pattern.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError
from richter.maths.integrate import SMALLEST_RTOL
from richter.maths.pattern import Pattern

Floats = NDArray[np.float64]
SAME_TIME = 1e-12  # changes this near to each other, relative to the time, happen at once
IDLE, BUSY = 40, 50  # changes at one time, and changes per pair, after which the integrator gives up
AGAIN = 1e-9  # a change this soon after the last, in steps, is the same one
FITTED = 3.0  # residual in units of the tolerance, relative to its terms, at which nothing is left to learn
ARRIVED = 1e-10  # a weight this small beside what it is a step before and after is at 0
SAMPLES = 17  # per step, where a neuron might touch an example and turn back


@dataclass(frozen=True)
class Path:
    """States a (time, neuron), w (time, neuron, input), the slopes c (time, neuron, example) the flow used.

    `changes` counts the changes of the pattern on the way. Where a neuron slides along an example, c lies between
    the leak and 1.
    """

    a: Floats
    w: Floats
    slopes: Floats
    changes: int


def follow(
    a: Floats,
    w: Floats,
    X: Floats,
    y: Floats,
    times: Floats,
    leak: float = 0.0,
    eta_a: float = 1.0,
    eta_w: float = 1.0,
    *,
    rtol: float = 1e-12,
    atol: float = 1e-14,
) -> Path:
    """The flow from (a, w) at increasing times.

    Where every example is fitted to the tolerance the flow has ended: what is left would only be rounding errors, whose
    signs decide the pattern.

    >>> path = follow(np.ones(1), np.ones((1, 1)), np.eye(1), np.full(1, 4.0), np.array([0.0, 9.0]))
    >>> path.a[:, 0].round(6).tolist(), path.changes
    ([1.0, 2.0], 0)
    """
    from scipy.integrate import DOP853

    pattern = Pattern.of(X, y, len(a), leak, eta_a, eta_w)
    q, t, step, changes = np.concatenate([a, w.ravel()]), 0.0, None, 0
    spread = np.sqrt(q.size)
    options = {"rtol": max(rtol / spread, SMALLEST_RTOL), "atol": atol / spread}
    flow: Callable[[float, Floats], Floats] = lambda _, state: pattern.flow(state)
    pattern.begin(q)
    path, slopes, idle = np.empty((times.size, q.size)), np.empty((times.size, len(a), len(X))), 0
    for row, end in enumerate(times):
        while t < end and not pattern.fitted(q, FITTED * rtol):
            length = None if step is None else min(step, float(end) - t)
            solver = DOP853(flow, t, q, float(end), first_step=length, **options)
            while solver.status == "running":
                before, speed = solver.y, solver.f
                problem = solver.step()
                if solver.status == "failed":
                    raise OutsideTheoryError(f"The integrator stopped at t = {solver.t:g}: {problem}")
                step = max(step or 0.0, solver.step_size)
                found = _first_change(pattern, solver, before, speed)
                if found is None:
                    t, q = solver.t, solver.y
                    if pattern.fitted(q, FITTED * rtol):
                        break
                    continue
                when, pairs = found
                t, q = when, _step_to(flow, solver.t_old, before, when, options)
                q = np.array(_polish(pattern, flow, q, pairs[0]))
                gone = _at_zero(pattern, before, q, solver.y)
                for i, g in pairs:
                    if not gone[i]:
                        pattern.settle(q, i, g, again=when - solver.t_old <= AGAIN * solver.step_size)
                for i in {i for i, _ in pairs if gone[i]}:
                    pattern.leave_zero(q, i)
                changes += len(pairs)
                idle = idle + 1 if when <= solver.t_old else 0
                if idle > IDLE or changes > BUSY * (1 + pattern.upper.size):
                    raise OutsideTheoryError(
                        f"The activation pattern does not settle at t = {t:g}: the flow is not unique there. "
                        "Move the start a little, or use a leak nearer to 1."
                    )
                step = solver.step_size
                break
        path[row], slopes[row] = q, pattern.subgradients(q)
    return Path(path[:, : len(a)], path[:, len(a) :].reshape(times.size, *w.shape), slopes, changes)


def _first_change(
    pattern: Pattern, solver: Any, before: Floats, speed: Floats
) -> tuple[float, list[tuple[int, int]]] | None:
    """The time of the first change of the pattern in the solver's last step, and the pairs that change then."""
    left, right = solver.t_old, solver.t
    after, noise, _ = pattern.margins(solver.y)
    turned = pattern.sign[pattern.sliding] != np.sign(solver.y[pattern.sliding])
    gone = after < -noise
    # A pair may also touch and turn back: its margin then has a minimum inside the step.
    face = np.where(pattern.upper, 1.0, -1.0)
    leaves, returns = (
        face * (pattern.split(f)[1] @ pattern.units.T) for f in (speed, solver.f)
    )  # the speeds of the margins at both ends
    dips = ~pattern.stuck & ~gone & (leaves < 0) & (returns > 0)
    if not (gone.any() or dips.any() or turned.any()):
        return None
    path = solver.dense_output()

    def margin(i: int, g: int, when: float) -> float:
        state = before if when == left else path(when)
        if pattern.stuck[i, g] or pattern.dead[i]:
            return float(pattern.margins(state)[0][i, g])
        return float(face[i, g] * (pattern.split(state)[1][i] @ pattern.units[g]))

    ends = {(int(i), int(g)): right for i, g in zip(*np.nonzero(gone), strict=True)}
    if dips.any():
        moments = np.linspace(left, right, SAMPLES)
        weights = path(moments)[pattern.neurons :].T.reshape(SAMPLES, pattern.neurons, -1)
        for i, g in zip(*np.nonzero(dips), strict=True):
            values = face[i, g] * (weights[:, i] @ pattern.units[g])
            k = min(max(int(np.argmin(values)), 1), SAMPLES - 2)
            bend = values[k - 1] - 2 * values[k] + values[k + 1]
            shift = 0.5 * (values[k - 1] - values[k + 1]) / bend if bend > 0 else 0.0
            low = moments[k] + float(np.clip(shift, -1, 1)) * (right - left) / (SAMPLES - 1)
            if margin(int(i), int(g), low) < -noise[i, g]:
                ends[int(i), int(g)] = low
    roots = {pair: _root(partial(margin, *pair), left, end, float(noise[pair])) for pair, end in ends.items()}
    if turned.any() and (not roots or min(roots.values()) > left):
        i = int(pattern.sliding[np.argmax(turned)])
        raise OutsideTheoryError(
            f"The output weight of neuron {i} crosses 0 near t = {right:g} while the neuron slides along an example: "
            "gradient flow is not unique there. Move the start a little, or use δ ≥ 0."
        )
    if not roots:
        return None
    when = min(roots.values())
    near = SAME_TIME * max(right - left, abs(when))
    pairs = sorted((root, pair) for pair, root in roots.items() if root <= when + near)
    return when, [pair for _, pair in pairs]


def _at_zero(pattern: Pattern, before: Floats, now: Floats, after: Floats) -> NDArray[np.bool_]:
    """Which neurons on more than one input have just come to w = 0, from their sizes around that time."""
    size = lambda q: np.linalg.norm(pattern.split(q)[1], axis=1)
    return (size(now) <= ARRIVED * np.maximum(size(before), size(after))) & (pattern.X.shape[1] > 1)


def _root(margin: Callable[[float], float], left: float, right: float, noise: float) -> float:
    """Where the margin falls through 0 for good; `left` if it has never risen above its noise."""
    from scipy.optimize import brentq

    if margin(left) <= noise:
        # It has only just left 0: look for a time, on every scale, at which it is safely above.
        times = left + (right - left) * 0.5 ** np.arange(1, 45)
        values = [margin(float(when)) for when in times]
        if max(values) <= noise:
            return left
        left = float(times[int(np.argmax(values))])
    return float(brentq(margin, left, right, xtol=1e-300, rtol=8.9e-16))


def _step_to(
    flow: Callable[[float, Floats], Floats], t: float, q: Floats, end: float, options: dict[str, float]
) -> Floats:
    """The state at `end`, integrated anew: the dense output is less accurate than a step."""
    from scipy.integrate import DOP853

    if end <= t:
        return q
    solver = DOP853(flow, t, q, end, first_step=end - t, **options)
    while solver.status == "running":
        solver.step()
    if solver.status == "failed":
        raise OutsideTheoryError(f"The integrator stopped at t = {solver.t:g} before a change of the pattern.")
    state: Floats = solver.y
    return state


def _polish(pattern: Pattern, flow: Callable[[float, Floats], Floats], q: Floats, pair: tuple[int, int]) -> Floats:
    """One Newton step in time onto the hyperplane of the pair that changes first."""
    i, g = pair
    z, speed = float(pattern.split(q)[1][i] @ pattern.units[g]), float(pattern.speeds(q, i)[g])
    if pattern.stuck[i, g] or speed == 0 or abs(z) > 1e-6 * np.linalg.norm(pattern.split(q)[1][i]):
        return q
    wait = -z / speed
    middle = q + wait / 2 * flow(0.0, q)
    return np.asarray(q + wait * flow(0.0, middle))
