"""The scaling laws of the multilinear model beside the exact sums: over time, data, parameters and compute."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.compute_optimal import MOST, added_split, best_split, whole_split
from richter.maths.multilinear import expected_data_loss, linear_loss, multilinear_loss
from richter.maths.power_fit import fit_power, local_exponents
from richter.maths.scaling_laws import (
    corrected_time_law,
    data_law,
    data_law_asymptote,
    missing_loss,
    parameter_law,
    parameter_law_asymptote,
    scaling_exponents,
    time_law,
)
from richter.maths.skills import zipf_constant
from richter.params import numbers

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
BOTTLENECKS = {
    "time": ("T", "training time"),
    "data": ("D", "number of examples"),
    "parameters": ("N", "number of basis functions"),
    "compute": ("C", "compute T·N"),
}
SPANS = {"time": (1e3, 1e8), "data": (1e2, 1e7), "parameters": (1e1, 1e5), "compute": (1e6, 1e12)}
CONDITIONS = {
    "time": "2ηAST ≫ ln r and, with N skills, L_C = S²A N^−α/2α ≪ L",
    "data": "AD ≫ 1",
    "parameters": "always",
    "compute": "2ηAST* ≫ ln r and N* ≫ 1",
}
STEP = 1e-4  # of ln x, for slopes of a smooth curve: their error is 1e-9
TINY = float(np.finfo(float).tiny)
_MUST = {"initial": "lie between 0 and the target", "n_skills": "be a whole number ≥ 1, or inf"}
# Relative difference of law and exact loss up to which the law is called valid; over compute N is a whole number.
TOLERANCES = {"time": 1e-4, "data": 1e-4, "parameters": 1e-4, "compute": 1e-2}
LONG_NAMES = {
    "loss": "exact loss, summed over all skills",
    "law": "scaling law with its prefactor",
    "asymptote": "pure power law",
    "relative_error": "law / exact loss − 1",
    "valid": "whether the law is right to the tolerance",
    "exponent": "local exponent d ln L / d ln x of the exact loss",
    "law_exponent": "exponent of the law",
    "fitted_exponent": "exponent fitted to the exact loss, over all values",
    "fitted_low": "lower end of its 95 % interval",
    "fitted_high": "upper end of its 95 % interval",
    "corrected": "law corrected for finitely many skills (NAM24 Eq. C.2)",
    "lead": "2ηAST / ln r (data: AD): must be ≫ 1",
    "room": "N^{α+1} / 2ηAST: must be ≫ 1 for the corrected law",
    "missing": "L_C / L, the share that skills beyond the last would add: must be ≪ 1 for the pure law",
    "linear": "exact loss of the linear model with the same skills (NAM24 Eq. C.3)",
    "best_time": "best T",
    "best_parameters": "best N",
    "whole_parameters": "best whole N by the exact sums; undefined where more is always better",
    "added": "minimum of the added form T^−s + N^−α, an over-count",
    "added_parameters": "N at that minimum",
}


UNDEFINED = {
    "corrected": "the last skill is learned: N^{α+1} < 2ηAST",
    "whole_parameters": "more is always better",
}


def scaling(
    over: str = "time",
    values: ArrayLike | None = None,
    *,
    alpha: ArrayLike = 0.6,
    target: float = 5.0,
    initial: float = 1e-2,
    eta: float = 0.05,
    n_skills: float = np.inf,
) -> xr.Dataset:
    r"""Loss against one resource with the others endless, (alpha, resource): exact, by the law, and where they part.

    Args:
        over: the bottleneck: time, data, parameters, or compute (the best split of each C = T·N).
        values: the resource, increasing; default: 26 points over five decades.
        alpha: exponent of the skills' frequencies less one; several make several rows.
        target: S.
        initial: R(0) of every skill, below S.
        eta: learning rate (times the rate multiplier, if there is one).
        n_skills: number of skills; endless by default. The laws are for endlessly many.

    >>> ds = scaling("time", [1e4, 1e5, 1e6], alpha=[0.6, 1.0])
    >>> ds.law_exponent.values.round(12).tolist(), float(abs(ds.relative_error).max()) < 1e-9
    ([-0.375, -0.5], True)
    """
    if over not in BOTTLENECKS:
        raise ParameterError(message("`over`", f"be one of {', '.join(BOTTLENECKS)}", over))
    low, high = SPANS[over]
    default = np.geomspace(low, high, 26)
    x = numbers("`values`", default if values is None else values).ravel()
    x = np.unique(np.round(x)) if over in ("data", "parameters") else x
    a = np.atleast_1d(numbers("`alpha`", alpha))
    for name, value, wrong in (
        ("alpha", a, a <= 0), ("target", target, not 0 < target < np.inf),
        ("initial", initial, not 0 < initial < target), ("eta", eta, not 0 < eta < np.inf), ("values", x, x <= 0),
        ("n_skills", n_skills, not n_skills >= 1 or (np.isfinite(n_skills) and n_skills % 1 != 0)),
    ):  # fmt: skip
        if np.any(wrong):
            must = _MUST.get(name, "be > 0 and finite")
            raise ParameterError(message(f"`{name}`", must, value))
    if x.size < 3 or (np.diff(x) <= 0).any():
        raise ParameterError(message("`values`", "be at least three increasing numbers", x))
    given = float(target), float(initial), float(eta), float(n_skills)
    made = _RULES[over](x, a[:, None], *given)
    with np.errstate(divide="ignore", invalid="ignore"):
        made["relative_error"] = made["law"] / made["loss"] - 1
    close = np.broadcast_to(np.abs(made["relative_error"]) <= TOLERANCES[over], (a.size, x.size))
    made["valid"] = close & np.concatenate([close[:, 1:], close[:, -1:]], axis=1)  # not where the error changes sign
    made["exponent"] = _slopes(over, x, a[:, None], made["loss"], given)
    return _labelled(over, x, a, made, {"S": target, "R(0)": initial, "η": eta, "n_s": n_skills})


def learning_curves(
    compute: ArrayLike,
    sizes: ArrayLike,
    *,
    alpha: float = 0.6,
    target: float = 5.0,
    initial: float = 1e-2,
    eta: float = 0.05,
    n_skills: float = np.inf,
) -> xr.Dataset:
    """Exact loss of models of several sizes N against compute C = T·N, (n_basis, compute): Fig. 4.3.

    >>> learning_curves([1e3, 1e6], [10, 100]).loss.shape
    (2, 2)
    """
    import xarray as xr

    C, N = numbers("`compute`", compute).ravel(), numbers("`sizes`", sizes).ravel()
    if (N < 1).any() or (N % 1).any():
        raise ParameterError(message("`sizes`", "be whole numbers ≥ 1", N))
    rows = [multilinear_loss(C / n, alpha, target, initial, eta, n_skills, n) for n in N]
    attrs = {"long_name": "exact loss", "symbol": "L"}
    return xr.Dataset(
        {"loss": (("n_basis", "compute"), np.array(rows), attrs)},
        {
            "compute": ("compute", C, {"symbol": "C", "long_name": BOTTLENECKS["compute"][1]}),
            "n_basis": ("n_basis", N, {"symbol": "N", "long_name": BOTTLENECKS["parameters"][1]}),
        },
        {"alpha": alpha},
    )


def _over_time(x: Floats, a: Floats, S: float, start: float, eta: float, n: float) -> dict[str, Floats]:
    r, speed = S / start - 1, 2 * eta * zipf_constant(a, n) * S * x
    made = {
        "loss": multilinear_loss(x, a, S, start, eta, n),
        "law": time_law(x, a, S, start, eta),
        "linear": linear_loss(x, a, S, eta, n),
        "lead": speed / max(np.log(r), 1.0) if r > 1 else speed,
    }
    if np.isfinite(n):
        made["room"] = n ** (a + 1) / speed
        # The correction starts where the first skills are done and the last untouched.
        at = np.argmin(np.abs(np.log(made["lead"]) - np.log(made["room"])), axis=1)[:, None]
        first = np.take_along_axis(made["loss"], at, axis=1)
        with np.errstate(divide="ignore"):
            made["missing"] = missing_loss(a, S, n) / made["loss"]
        corrected = corrected_time_law(x, x[at], first, a, S, n)
        made["corrected"] = np.where(made["room"] >= 1, corrected, np.nan)
    return made


def _over_data(x: Floats, a: Floats, S: float, start: float, eta: float, n: float) -> dict[str, Floats]:
    return {
        "loss": expected_data_loss(x, a, S, start, n),
        "law": data_law(x, a, S) * (1 - start / S) ** 2,
        "asymptote": data_law_asymptote(x, a, S) * (1 - start / S) ** 2,
        "lead": zipf_constant(a, n) * x,
    }


def _over_parameters(x: Floats, a: Floats, S: float, start: float, eta: float, n: float) -> dict[str, Floats]:
    rows = [multilinear_loss(np.inf, a[:, 0], S, start, eta, n, size) for size in x]
    return {
        "loss": np.stack(rows, axis=1),
        "law": parameter_law(x, a, S),
        "asymptote": parameter_law_asymptote(x, a, S),
    }


def _over_compute(x: Floats, a: Floats, S: float, start: float, eta: float, n: float) -> dict[str, Floats]:
    best, added = best_split(x, a, S, start, eta), added_split(x, a, S, start, eta)
    whole = np.array([whole_split(x, float(alpha), S, start, eta, n).parameters for alpha in a[:, 0]])
    limit = np.clip(np.nan_to_num(np.round(best.parameters), nan=MOST), 1.0, min(MOST, n))
    N = np.where(np.isfinite(whole), whole, limit)
    exact = np.array([
        [float(multilinear_loss(c / size, a[i, 0], S, start, eta, n, size)) for c, size in zip(x, row, strict=True)]
        for i, row in enumerate(N)
    ])  # fmt: skip
    return {
        "loss": exact, "law": best.loss, "best_time": best.time, "best_parameters": best.parameters,
        "whole_parameters": whole,
        "added": added.loss, "added_parameters": added.parameters,
        "lead": 2 * eta * zipf_constant(a) * S * best.time / max(np.log(S / start - 1), 1.0),
    }  # fmt: skip


def _slopes(over: str, x: Floats, a: Floats, loss: Floats, given: tuple[float, float, float, float]) -> Floats:
    """d ln L/d ln x of the exact loss at each x, however far apart they are; over compute from the x given."""
    S, start, eta, n = given
    if over == "compute":
        return local_exponents(x, loss)
    positive = loss > 0
    if over == "parameters":  # dζ(s, N + 1)/dN = −s ζ(s + 1, N + 1)
        from scipy.special import zeta

        slope = -(a + 1) * x * S**2 * zipf_constant(a, n) / 2 * zeta(a + 2, x + 1)
        return np.where(positive, slope, np.nan) / np.where(positive, loss, 1.0)
    exact = {
        "time": lambda at: multilinear_loss(at, a, S, start, eta, n),
        "data": lambda at: expected_data_loss(at, a, S, start, n),
    }[over]
    high, low = (np.log(np.where(positive, np.maximum(exact(x * np.exp(h)), TINY), 1.0)) for h in (STEP, -STEP))
    return np.where(positive, (high - low) / (2 * STEP), np.nan)


_RULES = {"time": _over_time, "data": _over_data, "parameters": _over_parameters, "compute": _over_compute}


def _labelled(over: str, x: Floats, a: Floats, made: dict[str, Floats], given: dict[str, float]) -> xr.Dataset:
    import xarray as xr

    symbol, says = BOTTLENECKS[over]
    shape = (a.size, x.size)
    meta = lambda name: {
        "long_name": LONG_NAMES[name],
        **({"symbol": "L"} if name == "loss" else {}),
        **({"undefined_when": UNDEFINED[name]} if name in UNDEFINED else {}),
    }
    named = {name: (("alpha", over), np.broadcast_to(value, shape), meta(name)) for name, value in made.items()}
    fits = [fit_power(x[row > 0], row[row > 0]) if (row > 0).sum() > 2 else None for row in named["loss"][1]]
    fitted = np.array([
        (np.nan,) * 3 if fit is None else (fit.exponent, *fit.exponent_interval) for fit in fits
    ])  # fmt: skip
    law = scaling_exponents(a)[over]
    return xr.Dataset(
        {
            **named,
            "law_exponent": ("alpha", law, meta("law_exponent")),
            **{
                name: ("alpha", fitted[:, i], meta(name))
                for i, name in enumerate(("fitted_exponent", "fitted_low", "fitted_high"))
            },
        },
        {
            over: (over, x, {"symbol": symbol, "long_name": says}),
            "alpha": ("alpha", a, {"symbol": "α", "long_name": "exponent of the frequencies less one"}),
        },
        {
            "over": over,
            "valid_when": CONDITIONS[over],
            "valid_to": TOLERANCES[over],
            **{name: float(value) for name, value in given.items()},
        },
    )
