"""When skills emerge in time, data or parameters, from one calibrated number (NAM24 ch. 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.emergence import (
    Calibration,
    Curve,
    calibrate,
    emergence_in_data,
    emergence_in_parameters,
    emergence_in_time,
    half_parameters,
    half_samples,
    half_times,
    predict,
)
from richter.maths.extended_skills import effective_strength
from richter.maths.logistic import stage_times
from richter.maths.skills import skill_frequencies
from richter.params import numbers

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
RESOURCES = {
    "time": ("T", "training time"),
    "data": ("D", "number of examples"),
    "parameters": ("N", "number of hidden neurons"),
}
# What is calibrated, the thesis' number, and where a fit looks for it.
NUMBERS: dict[str, tuple[str, float, tuple[float, float]]] = {
    "time": ("rate multiplier ℬ", 1 / 22, (1e-6, 1e4)),
    "data": ("examples per skill D_c", 800.0, (1.0, 1e8)),
    "parameters": ("neurons per skill N_c", 4.0, (0.1, 1e4)),
}
MOST = 10_000  # skills that are predicted one by one
STRENGTHS = ("definition", "effective")


def emergence(
    over: str = "time",
    values: ArrayLike | None = None,
    *,
    calibration: Calibration | float | None = None,
    n_skills: int = 5,
    alpha: float = 0.6,
    target: float = 5.0,
    initial: float = 1e-3,
    eta: float = 0.05,
    strength: str = "definition",
    epsilon: float = 0.05,
) -> xr.Dataset:
    r"""Skill strengths against one resource, (skill, resource), with the band that the calibration's interval makes.

    Args:
        over: time, data or parameters.
        values: the resource; default: until the rarest skill has emerged.
        calibration: from `calibrate_emergence`, or a number: ℬ, D_c or N_c; default: the thesis'.
        n_skills: number of skills.
        alpha: exponent of their frequencies less one.
        target: S.
        initial: R(0), for time.
        eta: learning rate, for time.
        strength: over data: by `definition` (4.7), or the thesis' `effective` one, at the mean count.
        epsilon: over time also when each skill reaches εS (`emerges`), how long it takes from there to (1 − ε)S
            (`saturates`), and whether training is stage-like (`staged`): it has saturated when the next one emerges.

    >>> ds = emergence("parameters", [2, 6, 20])
    >>> ds.skill_strength.values[:, 1].tolist()
    [5.0, 2.5, 0.0, 0.0, 0.0]
    """
    import xarray as xr

    _check(over, strength, target, initial, eta)
    found = calibration if isinstance(calibration, Calibration) else _fixed(over, calibration)
    if not (isinstance(n_skills, (int, np.integer)) and 1 <= n_skills <= MOST):
        raise ParameterError(message("`n_skills`", f"be a whole number from 1 to {MOST}", n_skills))
    P = skill_frequencies(_positive("alpha", alpha), int(n_skills))
    half = np.array([
        _half(over, P, np.arange(1.0, n_skills + 1), value, target, initial, eta, strength) for value in found.ends
    ])  # fmt: skip
    if values is None:
        top = 3 * half[0].max()
        x = np.linspace(0.0, top, 301) if over == "time" else np.unique(np.round(np.geomspace(1.0, top, 301)))
    else:
        x = numbers("`values`", values).ravel()
    if (x < 0).any():
        raise ParameterError(message("`values`", "be ≥ 0", float(x.min())))
    rows = [
        predict(x, _curve(over, float(P[k]), k + 1, target, initial, eta, strength), found) for k in range(n_skills)
    ]
    middle, low, high = (np.array(part) for part in zip(*rows, strict=True))
    symbol, says = RESOURCES[over]
    dims = ("skill", over)
    stages = _stages(P, found.value, target, initial, eta, epsilon) if over == "time" else {}
    interval = "of the calibration's 95 % interval"
    return xr.Dataset(
        {
            "skill_strength": (dims, middle, {"long_name": "skill strength", "symbol": "R"}),
            "low": (dims, low, {"long_name": f"lowest strength {interval}"}),
            "high": (dims, high, {"long_name": f"highest strength {interval}"}),
            "half": ("skill", half[0], {"long_name": "where the skill is half learned"}),
            "half_low": ("skill", half.min(axis=0), {"long_name": f"earliest half point {interval}"}),
            "half_high": ("skill", half.max(axis=0), {"long_name": f"latest half point {interval}"}),
            **stages,
        },
        {
            over: (over, x, {"symbol": symbol, "long_name": says}),
            "skill": ("skill", np.arange(1, n_skills + 1), {"symbol": "k", "long_name": "skill"}),
        },
        {
            "over": over, "calibrated": NUMBERS[over][0], "value": found.value, "interval": list(found.interval),
            "misfit": found.misfit,
            "strength": strength if over == "data" else "definition", "S": float(target),
        },
    )  # fmt: skip


def calibrate_emergence(
    over: str,
    values: ArrayLike,
    measured: ArrayLike,
    *,
    error: ArrayLike | None = None,
    frequency: float = 1.0,
    target: float = 5.0,
    initial: float = 1e-3,
    eta: float = 0.05,
    strength: str = "definition",
) -> Calibration:
    """ℬ, D_c or N_c from one skill's measured strengths (Fig. 5.2), with its 95 % interval.

    `frequency` is that of the skill in the measured run, 1 if it was trained alone. Over parameters the skill is the
    most frequent one.

    >>> t = np.linspace(0, 2000, 41)
    >>> from richter.maths.emergence import emergence_in_time
    >>> found = calibrate_emergence("time", t, emergence_in_time(t, 1.0, 5.0, 1e-3, 0.05, 0.04))
    >>> round(found.value, 9)
    0.04
    """
    _check(over, strength, target, initial, eta)
    if not 0 < frequency <= 1:
        raise ParameterError(message("`frequency`", "lie between 0 and 1", frequency))
    curve = _curve(over, float(frequency), 1, target, initial, eta, strength)
    return calibrate(values, measured, curve, NUMBERS[over][2], error)


def _check(over: str, strength: str, target: float, initial: float, eta: float) -> None:
    if over not in RESOURCES:
        raise ParameterError(message("`over`", f"be one of {', '.join(RESOURCES)}", over))
    if strength not in STRENGTHS:
        raise ParameterError(message("`strength`", f"be one of {', '.join(STRENGTHS)}", strength))
    _positive("target", target)
    _positive("eta", eta)
    if not 0 < initial < target:
        raise ParameterError(message("`initial`", "lie between 0 and the target", initial))


def _stages(P: Floats, rate: float, S: float, start: float, eta: float, epsilon: float) -> dict[str, Any]:
    """Stage-like intervals (Eq. 3.12) of every skill; the last skill has no next one."""
    if not 0 < epsilon < 0.5:
        raise ParameterError(message("`epsilon`", "lie between 0 and ½", epsilon))
    first, wait = stage_times(epsilon, start, S, eta * rate * P)
    staged = np.append(np.where(wait[:-1] < np.diff(first), 1.0, 0.0), np.nan)
    return {
        "emerges": ("skill", np.maximum(first, 0.0), {"long_name": f"time at which {epsilon:g} S is reached"}),
        "saturates": ("skill", wait, {"long_name": f"time from {epsilon:g} S to {1 - epsilon:g} S"}),
        "staged": ("skill", staged, {"long_name": "1 if saturated before the next skill emerges",
                   "undefined_when": "there is no next skill"}),
    }  # fmt: skip


def _positive(name: str, value: float) -> float:
    if not 0 < value < np.inf:
        raise ParameterError(message(f"`{name}`", "be > 0 and finite", value))
    return value


def _fixed(over: str, value: float | None) -> Calibration:
    number = NUMBERS[over][1] if value is None else _positive("calibration", float(value))
    return Calibration(number, (number, number), 0.0, 0)


def _curve(over: str, P: float, k: int, S: float, start: float, eta: float, strength: str) -> Curve:
    if over == "time":
        return lambda x, rate: emergence_in_time(x, P, S, start, eta, rate)
    if over == "parameters":
        return lambda x, needed: emergence_in_parameters(x, k, S, needed)
    if strength == "effective":
        return lambda x, needed: effective_strength(x * P, needed, S)
    return lambda x, needed: emergence_in_data(x, P, S, needed)


def _half(over: str, P: Floats, k: Floats, value: float, S: float, start: float, eta: float, strength: str) -> Floats:
    if over == "time":
        return half_times(P, S, start, eta, value)
    if over == "parameters":
        return half_parameters(k, value)
    # S(1 − √(1 − x)) = S/2 at x = ¾.
    return half_samples(P, value) * (1.5 if strength == "effective" else 1.0)
