"""What the rules of a regime need of one recorded run: its kernel's movement, and whether it was tested."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.regime import DELAYED_BELOW, FIT_TIME, FROZEN_BELOW, LOSS_FELL, MINIMUM_FEATURES_BELOW, MISSED

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
KINDS = ("full", "sketch", "trace")  # which kernel is believed first
RESAMPLED = "_resampled"  # a companion of a variable: the same for other draws of the probe points, (draw, …)

# Numbers that accompany the verdict where they were recorded: what they say and a threshold.
EXTRA: dict[str, tuple[str, float | None]] = {
    "kernel_distance": ("largest 1 − cosine of the kernel to its start; blind to growth", None),
    "parameter_distance_relative": ("‖θ − θ₀‖/‖θ₀‖ at the end", None),
    "hamming_distance": ("share of ReLU activations that differ from the start's at the end", None),
    "representation_drift": ("1 − CKA of the last layer's features to the start's at the end", None),
    "minimum_projection_distance": ("κ_CKA at the end", MINIMUM_FEATURES_BELOW),
}
LARGEST = {"kernel_distance"}  # read at their largest, the others at the end


@dataclass(frozen=True)
class Run:
    """What the rules need of one run; the first row is the run itself, the others are resamples."""

    change: Floats  # largest relative change (row,)
    early: Floats  # share of it at the fit time (row,), NaN if there is none
    tested: bool
    learned: bool
    why_untested: str
    loss_left: float
    falls: float  # by how much the loss fell over the last half of the recorded time, in units of its start
    timed: bool  # whether the fit time is known
    extra: dict[str, Floats]  # other numbers (row,)


def in_time(ds: Any) -> Any:
    """A recorded run with `t` as its dimension, as a theory has it; without a rate the steps stand for it."""
    if "step" not in ds.dims or "t" in ds.dims:
        return ds
    t = np.asarray(ds["t"].values if "t" in ds.variables else np.nan, dtype=np.float64)
    known = t.ndim == 1 and np.isfinite(t).all()
    if not known:
        t = np.asarray(ds["step"].values, dtype=np.float64)
        ds = ds.assign_attrs(clock="steps")
    flat = ds.drop_vars([name for name in ("t", "step") if name in ds.coords]).rename(step="t")
    return flat.assign_coords(t=("t", t), **({"step": ("t", ds["step"].values)} if "step" in ds.coords else {}))


def kernel_name(ds: xr.Dataset, kind: str | None) -> str:
    """The name of the variable that holds the kernel's relative change."""
    names = ["kernel_change", *(f"kernel_change_{each}" for each in KINDS)] if kind is None else kernel_names(kind)
    for name in names:
        if name in ds:
            return name
    missing = [why for why in str(ds.attrs.get("left_out", "")).split("; ") if why.startswith("kernel")]
    have = "; ".join(missing) or ", ".join(sorted(map(str, ds.data_vars))[:8]) or "nothing"
    do = "Record the run with richter.measure or richter.watch."
    raise ParameterError(message("the Dataset of a run", f"hold one of {', '.join(names)} over t", have, do))


def kernel_names(kind: str) -> list[str]:
    """The names under which the change of this kind of kernel is recorded."""
    return [f"kernel_change_{kind}"] if kind else ["kernel_change"]


def read_run(ds: Any, name: str) -> Run:
    """The numbers of one run whose kernel's change is in the variable `name`."""
    rows = lambda key: np.atleast_2d(_rows(ds, key))
    change = rows(name)
    t = np.asarray(ds["t"].values, dtype=np.float64)
    largest = _largest(change)
    fit = fit_time(ds, name)
    early = np.full(largest.shape, np.nan)
    if np.isfinite(fit):
        early = np.array([_share(fit, t, row, top) for row, top in zip(change, largest, strict=True)])
    loss = np.asarray(ds["loss"].values, dtype=np.float64) if "loss" in ds else np.full(t.shape, np.nan)
    left = float(loss[-1] / loss[0]) if loss[0] > 0 else float("nan")
    half = float(np.interp(t[0] + (_last(t) - t[0]) / 2, t, loss))
    falls = float((half - loss[-1]) / loss[0]) if loss[0] > 0 else 0.0
    ended = bool(np.isfinite(fit) and t[-1] >= fit)
    single = int(np.isfinite(change[0]).sum()) < 2
    tested = not single and (ended if np.isfinite(fit) else not left > 1 - LOSS_FELL)
    if single:
        why = "Only one moment was measured: there is nothing to compare it with. Give the start and a later one."
    elif tested:
        why = ""
    elif np.isfinite(fit):
        why = f"The run ended at t = {t[-1]:.3g}, before the start's kernel had time to fit, t = {fit:.3g}."
    else:
        why = f"The loss fell by {max(0.0, 1 - left):.0%} only, less than the {LOSS_FELL:.0%} that test the kernel."
    extra = {}
    for key in EXTRA:
        source = f"{key}{name.removeprefix('kernel_change')}" if key == "kernel_distance" else key
        if source in ds and set(ds[source].dims) <= {"t"}:
            values = rows(source)
            extra[key] = _largest(values) if key in LARGEST else values[:, -1]
    span = float(np.ptp(loss)) if np.isfinite(loss).all() else np.inf  # of an unknown loss nothing is claimed
    learned = single or span > FROZEN_BELOW * max(float(np.abs(loss).max()), 1e-300)
    return Run(largest, early, tested, learned, why, left, falls, bool(np.isfinite(fit)), extra)


def _share(fit: float, t: Floats, change: Floats, largest: float) -> float:
    """The share of the movement that has happened at the fit time, between the looks before and after it.

    NaN if most of the movement lies between these two and they do not agree on which side of the threshold it is.
    """
    if not largest > 0:
        return 1.0
    known = np.isfinite(change)
    when, share = t[known], change[known] / largest
    after = int(np.searchsorted(when, fit))
    if 0 < after < len(when):
        low, high = sorted((share[after - 1], share[after]))
        if low < DELAYED_BELOW <= high and high - low > MISSED:
            return float("nan")
    return float(np.interp(fit, when, share))


def fit_time(ds: Any, name: str | None = None) -> float:
    """When the start's kernel would have fitted, on the clock `t`; NaN if that is not known."""
    if "fit_time" in ds:
        return float(ds["fit_time"])
    rate = float(ds[name or kernel_name(ds, None)].attrs.get("fit_rate", "nan"))
    clock = str(ds.attrs.get("clock", "flow")) == "flow"
    pace = float(ds.attrs.get("pace", 1.0))  # momentum goes along the flow faster than its rate says
    return FIT_TIME / rate / pace if clock and rate > 0 and pace > 0 else float("nan")


def _rows(ds: Any, name: str) -> Floats:
    """(row, t): the run itself, then its resamples if they were recorded."""
    own = np.asarray(ds[name].values, dtype=np.float64)[None]
    if name + RESAMPLED not in ds:
        return own
    again = ds[name + RESAMPLED]
    return np.concatenate([own, np.asarray(again.transpose("draw", ...).values, dtype=np.float64)])


def _largest(rows: Floats) -> Floats:
    known = ~np.isnan(rows)
    return np.where(known.any(axis=-1), np.where(known, rows, -np.inf).max(axis=-1), np.nan)


def _last(t: Floats) -> float:
    return float(t[np.isfinite(t)][-1])
