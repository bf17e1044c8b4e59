"""The regime of recorded runs: the rules of `richter.regime` on a Dataset, with how sure each number is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.resampling import interval
from richter.regime import (
    AGREEMENT,
    COVERED,
    DELAYED_BELOW,
    FIT_TIME,
    FROZEN_BELOW,
    LAZY_BELOW,
    LOSS_FELL,
    MINIMUM_FEATURES_BELOW,
    STILL_FALLS,
    Evidence,
    Regime,
    agreed,
    by_alignment,
    by_run,
)

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
KINDS = ("full", "sketch", "trace")  # which kernel is believed first
RESAMPLED = "_resampled"  # a companion of a variable: the same for other draws of the probe points, (draw, …)
SILENT = (
    "Movement of the kernel is not generalisation: lazy networks can generalise well and rich ones badly.",
    "It is about the recorded steps and these probe points, not about steps between, later ones, or other data.",
)


@dataclass(frozen=True)
class _Run:
    """What the rules need of one run; the first row is the run itself, the others are resamples."""

    change: Floats  # largest relative change (row,)
    early: Floats  # share of it at the fit time (row,), NaN if there is none
    tested: bool
    learned: bool
    why_untested: str
    loss_left: float
    falls: float  # by how much the loss fell over the last half of the recorded time, in units of its start
    ended: bool  # whether the fit time is known and was reached
    extra: dict[str, Floats]  # other numbers (row,)


def verdict(runs: xr.Dataset | Sequence[xr.Dataset]) -> Regime:
    """Lazy, rich, delayed-rich or undecided, from recorded runs of one network (several: other seeds).

    Needs `kernel_change_full` (or `…_trace`, `…_sketch`, `kernel_change`) over `t`; `fit_time` tells delayed-rich
    from rich; companions `…_resampled` with a dimension `draw` give the intervals. Dimensions before `t` are seeds.

    >>> from richter.theory import SingleNeuron
    >>> verdict(SingleNeuron(a0=5.0, w0=[1.0], beta_star=[2.0]).solve([0.0, 1.0])).label
    'lazy'
    """
    given = _separate(runs)
    kind = _kind(given)
    read = [_read(ds, name) for ds, name in zip(given, (_kernel(ds, kind) for ds in given), strict=True)]
    change, early = (np.concatenate([getattr(run, name) for run in read]) for name in ("change", "early"))
    tested, learned = (
        np.concatenate([np.full(run.change.shape, getattr(run, name)) for run in read])
        for name in ("tested", "learned")
    )
    labels = by_run(change, early, tested, learned)
    label, share = agreed(labels)
    many = labels.size > 1
    first = lambda name: np.array([getattr(run, name)[0] for run in read])
    spread = lambda rows: interval(rows, COVERED) if rows.size > 1 and not np.isnan(rows).all() else None
    number = lambda points, rows, says, threshold=None: Evidence(
        float(np.median(points)), says, threshold, spread(rows)
    )
    evidence = {
        "kernel_change": number(
            first("change"), change, f"largest ‖K − K₀‖/‖K₀‖ on the way, {kind or 'exact'} kernel", LAZY_BELOW
        ),
    }
    if not np.isnan(first("early")).any():
        says = "share of that change while the start's kernel would fit"
        evidence["early_share"] = number(first("early"), early, says, DELAYED_BELOW)
    if many:
        evidence["agreement"] = Evidence(share, "share of resamples and seeds with this label", AGREEMENT)
    left = np.array([run.loss_left for run in read])
    if not np.isnan(left).all():
        evidence["loss_left"] = number(left, left, "loss at the end over loss at the start")
    for name, (says, threshold) in EXTRA.items():
        if all(name in run.extra for run in read):
            rows = np.concatenate([run.extra[name] for run in read])
            evidence[name] = number(np.array([run.extra[name][0] for run in read]), rows, says, threshold)
    evidence |= _words(given, evidence)
    return Regime(
        label,
        evidence,
        _reasons(read, given, labels, label, many),
        _changes(label, evidence, read, labels),
        (*SILENT, *_kind_says(kind, given)),
    )


# Numbers that accompany the verdict where they were recorded: what they say and a threshold.
EXTRA: dict[str, tuple[str, float | None]] = {
    "kernel_distance": ("largest 1 − cosine of the kernel to its start; blind to growth", None),
    "parameter_distance_relative": ("‖θ − θ₀‖/‖θ₀‖ at the end", None),
    "hamming_distance": ("share of ReLU activations that differ from the start's at the end", None),
    "representation_drift": ("1 − CKA of the last layer's features to the start's at the end", None),
    "minimum_projection_distance": ("κ_CKA at the end", MINIMUM_FEATURES_BELOW),
}
LARGEST = {"kernel_distance"}  # read at their largest, the others at the end


def _separate(runs: xr.Dataset | Sequence[xr.Dataset]) -> list[Any]:
    """One Dataset per run over `t`: other dimensions of the kernel's change, but `draw`, count seeds."""
    given: list[Any] = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    if not given or not all(hasattr(ds, "data_vars") for ds in given):
        must = "be a Dataset of a run, or several of them"
        raise ParameterError(message("`runs`", must, [type(ds).__name__ for ds in given]))
    made: list[Any] = []
    for ds in given:
        ds = in_time(ds)
        dims = [d for d in ds[_kernel(ds, None)].dims if d not in ("t", "draw")]
        every = np.ndindex(*(ds.sizes[d] for d in dims))
        made += [ds.isel(dict(zip(dims, index, strict=True))) for index in every]
    return made


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


def _kernel(ds: xr.Dataset, kind: str | None) -> str:
    """The name of the variable that holds the kernel's relative change."""
    names = ["kernel_change", *(f"kernel_change_{each}" for each in KINDS)] if kind is None else _named(kind)
    for name in names:
        if name in ds:
            return name
    have = ", ".join(sorted(map(str, ds.data_vars))) or "nothing"
    do = "Record the run with richter.measure or richter.watch."
    raise ParameterError(message("the Dataset of a run", f"hold one of {', '.join(names)} over t", have, do))


def _named(kind: str) -> list[str]:
    return [f"kernel_change_{kind}"] if kind else ["kernel_change"]


def _kind(given: list[Any]) -> str:
    """Which kernel all runs have: the full one if they can, "" for a theory's own."""
    for kind in (*KINDS, ""):
        if all(_named(kind)[0] in ds for ds in given):
            return kind
    for ds in given:
        _kernel(ds, None)
    got = "; ".join(", ".join(n for n in map(str, ds.data_vars) if n.startswith("kernel_change")) for ds in given)
    raise ParameterError(
        message("the runs", "share one kind of kernel; distances of different kinds do not compare", got)
    )


def _read(ds: Any, name: str) -> _Run:
    rows = lambda key: np.atleast_2d(_rows(ds, key))
    change = rows(name)
    t = np.asarray(ds["t"].values, dtype=np.float64)
    largest = _largest(change)
    fit = fit_time(ds, name)
    early = np.full(largest.shape, np.nan)
    if np.isfinite(fit):
        at = np.array([np.interp(fit, t, row) for row in change])
        early = np.where(largest > 0, at / np.where(largest > 0, largest, 1.0), 1.0)
    loss = np.asarray(ds["loss"].values, dtype=np.float64) if "loss" in ds else np.full(t.shape, np.nan)
    left = float(loss[-1] / loss[0]) if loss[0] > 0 else float("nan")
    half = float(np.interp(t[0] + (_last(t) - t[0]) / 2, t, loss))
    falls = float((half - loss[-1]) / loss[0]) if loss[0] > 0 else 0.0
    ended = bool(np.isfinite(fit) and t[-1] >= fit)
    tested = ended if np.isfinite(fit) else not left > 1 - LOSS_FELL
    if tested:
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
    learned = span > FROZEN_BELOW * max(float(np.abs(loss).max()), 1e-300)
    return _Run(largest, early, tested, learned, why, left, falls, ended, extra)


def fit_time(ds: Any, name: str | None = None) -> float:
    """When the start's kernel would have fitted, on the clock `t`; NaN if that is not known."""
    if "fit_time" in ds:
        return float(ds["fit_time"])
    rate = float(ds[name or _kernel(ds, None)].attrs.get("fit_rate", "nan"))
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


def _words(given: list[Any], evidence: dict[str, Evidence]) -> dict[str, Evidence]:
    """Labels of other kinds that the runs allow: the mechanism (XU24) and the features (NAM24)."""
    made = {}
    kappa = evidence.get("minimum_projection_distance")
    if kappa is not None and not np.isnan(kappa.value):
        word = "minimum-features" if kappa.value < MINIMUM_FEATURES_BELOW else "extended-features"
        made["features"] = Evidence(word, "how many features are used at the end")
    if all("alignment" in ds and "toward" in ds.attrs for ds in given):
        ends = [ds["alignment"].values for ds in given]
        words = [str(by_alignment(z[0], z[-1], ds.attrs["toward"])) for z, ds in zip(ends, given, strict=True)]
        found, _ = agreed(np.array(words))
        made["mechanism"] = Evidence(found, "what the cosine between the layers does, in the data's direction")
    return made


def _reasons(read: list[_Run], given: list[Any], labels: NDArray[np.str_], label: str, many: bool) -> tuple[str, ...]:
    made = [run.why_untested for run in read if run.why_untested and label == "undecided"][:1]
    if label == "undecided" and not made:
        names, counts = np.unique(labels, return_counts=True)
        split = ", ".join(f"{name} in {count / labels.size:.0%}" for name, count in zip(names, counts, strict=True))
        made.append(f"Resamples and seeds disagree: {split}.")
    if any(np.isnan(run.early).all() for run in read) and label == "rich":
        made.append(
            "Rich and delayed-rich are not told apart: without the rate of plain gradient descent and its loss, steps "
            "are no time."
        )
    if any(run.falls > STILL_FALLS for run in read):
        most = max(run.falls for run in read)
        made.append(
            f"Training had not ended: over its last half the loss fell by {most:.0%} of its start. The label is so far."
        )
    if any(run.loss_left > 1 for run in read):
        made.append("The loss ended above its start: a step too large, or other data than it was trained on.")
    if len(given) == 1:
        made.append(
            "One run: the intervals are over probe points alone; other seeds may differ by more."
            if many
            else "One run without resampled probe points: no number has an interval."
        )
    return tuple(made)


def _changes(label: str, evidence: dict[str, Evidence], read: list[_Run], labels: NDArray[np.str_]) -> tuple[str, ...]:
    moved = evidence["kernel_change"]
    made = []
    if label == "lazy":
        made.append(f"rich: a kernel that moves {LAZY_BELOW / max(moved.value, 1e-300):.3g} times as far as it did.")
        if any(run.falls > STILL_FALLS for run in read) or not np.nanmax([run.loss_left for run in read]) < 0.5:
            made.append("delayed-rich: the kernel may still move where the loss is left; train on.")
    elif label in ("rich", "delayed-rich"):
        made.append(f"lazy: a kernel that moves {moved.value / LAZY_BELOW:.3g} times less far than it did.")
        early = evidence.get("early_share")
        if early is not None:
            other = "delayed-rich" if label == "rich" else "rich"
            side = "below" if label == "rich" else "above"
            made.append(f"{other}: an early share of the movement {side} {DELAYED_BELOW:g}; it is {early.value:.3g}.")
    elif label == "undecided":
        if all(run.tested for run in read):
            made.append("a decision: more probe points or more seeds; or the network lies on the border.")
        else:
            made.append(f"a decision: training for longer, at least {FIT_TIME:g} e-folds of the start's kernel.")
    return tuple(made)


def _kind_says(kind: str, given: list[Any]) -> tuple[str, ...]:
    if kind == "trace" and any(int(ds.attrs.get("outputs", 2)) > 1 for ds in given):
        return (
            "The trace kernel adds up the outputs and hides what changes between them: the full kernel moves further, "
            "so a lazy network by its trace may be rich by its kernel.",
        )
    if kind == "sketch":
        return ("The sketched kernel estimates the trace kernel from random outputs and errs on the side of movement.",)
    return ()
