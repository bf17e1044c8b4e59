"""The regime of recorded runs: the rules of `richter.regime` on a Dataset, with how sure each number is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.resampling import interval
from richter.probes.recorded_run import EXTRA, KINDS, Run, in_time, kernel_name, kernel_names, read_run
from richter.regime import (
    AGREEMENT,
    COVERED,
    DELAYED_BELOW,
    FIT_TIME,
    LAZY_BELOW,
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
SILENT = (
    "Movement of the kernel is not generalisation: lazy networks can generalise well and rich ones badly.",
    "It is about the recorded steps and these probe points, not about steps between, later ones, or other data.",
)


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
    read = [read_run(ds, name) for ds, name in zip(given, (kernel_name(ds, kind) for ds in given), strict=True)]
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


def _separate(runs: xr.Dataset | Sequence[xr.Dataset]) -> list[Any]:
    """One Dataset per run over `t`: other dimensions of the kernel's change, but `draw`, count seeds."""
    given: list[Any] = list(runs) if isinstance(runs, (list, tuple)) else [runs]
    if not given or not all(hasattr(ds, "data_vars") for ds in given):
        must = "be a Dataset of a run, or several of them"
        raise ParameterError(message("`runs`", must, [type(ds).__name__ for ds in given]))
    made: list[Any] = []
    for ds in given:
        ds = in_time(ds)
        dims = [d for d in ds[kernel_name(ds, None)].dims if d not in ("t", "draw")]
        every = np.ndindex(*(ds.sizes[d] for d in dims))
        made += [ds.isel(dict(zip(dims, index, strict=True))) for index in every]
    return made


def _kind(given: list[Any]) -> str:
    """Which kernel all runs have: the full one if they can, "" for a theory's own."""
    for kind in (*KINDS, ""):
        if all(kernel_names(kind)[0] in ds for ds in given):
            return kind
    for ds in given:
        kernel_name(ds, None)
    got = "; ".join(", ".join(n for n in map(str, ds.data_vars) if n.startswith("kernel_change")) for ds in given)
    raise ParameterError(
        message("the runs", "share one kind of kernel; distances of different kinds do not compare", got)
    )


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


def _reasons(read: list[Run], given: list[Any], labels: NDArray[np.str_], label: str, many: bool) -> tuple[str, ...]:
    made = [run.why_untested for run in read if run.why_untested and label == "undecided"][:1]
    if label == "undecided" and not made:
        names, counts = np.unique(labels, return_counts=True)
        split = ", ".join(f"{name} in {count / labels.size:.0%}" for name, count in zip(names, counts, strict=True))
        made.append(f"Resamples and seeds disagree: {split}.")
    if any(np.isnan(run.early).all() for run in read) and label == "rich":
        made.append(
            "Rich and delayed-rich are not told apart: the kernel was not looked at around the time at which the "
            "start's would fit; look more often (moments=, budget=)."
            if all(run.timed for run in read)
            else "Rich and delayed-rich are not told apart: without the rate of plain gradient descent and its loss, "
            "steps are no time."
        )
    if any(run.falls > STILL_FALLS for run in read):
        most = max(run.falls for run in read)
        made.append(
            f"Training had not ended: over its last half the loss fell by {most:.0%} of its start. The label is so far."
        )
    diverged = next((ds.attrs["diverged_at"] for ds in given if "diverged_at" in ds.attrs), None)
    if diverged is not None:
        made.append(f"The loss was not finite at step {diverged}: a step too large moves any kernel. Lower the rate.")
    if any(run.loss_left > 1 for run in read):
        made.append("The loss ended above its start: a step too large, or other data than it was trained on.")
    if len(given) == 1:
        made.append(
            "One run: the intervals are over probe points alone; other seeds may differ by more."
            if many
            else "One run without resampled probe points: no number has an interval."
        )
    return tuple(made)


def _changes(label: str, evidence: dict[str, Evidence], read: list[Run], labels: NDArray[np.str_]) -> tuple[str, ...]:
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
