"""The curves of a recorded run: which variables go together, and how each picture is read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from richter.figure.build import axis_label
from richter.figure.data import Figure, Mark, Panel, mark
from richter.maths.resampling import interval
from richter.probes.recorded_run import fit_time
from richter.regime import COVERED, LAZY_BELOW, MINIMUM_FEATURES_BELOW

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
T = TypeVar("T")
TIME = ("t", "step")  # what a curve is drawn over; of a recorded run the steps are
MOST_LINES = 8
CROWDED = 20.0  # moments whose last is this many times their median get a log axis
WIDE = 100.0  # positive numbers over a wider range get a log axis


@dataclass(frozen=True)
class Curve:
    """A picture of a run: variables by name, one panel each, and one sentence on how to read it."""

    ident: str
    title: str
    names: tuple[str, ...]
    read: str
    over: str = ""  # the dimension a spectrum is drawn over, at the first and the last moment
    line: tuple[float, str] | None = None  # a threshold and what it is
    y_log: bool = False


CURVES = (
    Curve(
        "loss", "Loss", ("loss", "train_accuracy", "test_loss", "test_accuracy"),
        "A loss still falling at the right end means that every verdict below is about the run so far.", y_log=True,
    ),
    Curve(
        "kernel", "Movement of the kernel",
        tuple(f"kernel_{what}_{kind}" for what in ("change", "distance") for kind in ("full", "sketch", "trace"))
        + ("kernel_change", "kernel_distance"),
        "Flat and below the dotted line is lazy; rising early is rich; rising only after the loss has fallen, and "
        "after the vertical line where there is one, is delayed-rich.", line=(LAZY_BELOW, "lazy below"),
    ),
    Curve(
        "kernel-target", "The kernel and the target",
        ("kernel_alignment", "kernel_alignment_debiased", "kernel_target_alignment", "target_alignment",
         "kernel_effective_rank", "effective_rank", "kernel_velocity"),
        "A kernel that learns turns towards the target: its alignment rises and its effective rank falls.",
    ),
    Curve(
        "parameters", "Movement of the parameters",
        ("parameter_distance_relative", "parameter_distance_layer_relative"),
        "A network may be rich with parameters that hardly move, or lazy with ones that do: judge by the kernel.",
    ),
    Curve(
        "hamming", "Activation patterns", ("hamming_distance", "hamming_distance_layer"),
        "The share of ReLU units that have switched: lazy networks keep their patterns.",
    ),
    Curve(
        "representation", "Representation", ("representation_drift", "representation_change"),
        "How far the last layer's features have turned, and how far they have moved with their size.",
    ),
    Curve(
        "alignment", "Alignment of the layers", ("layer_alignment", "alignment"),
        "Rising is alignment, falling disalignment, flat mere rescaling; independent layers start near 1/√width.",
    ),
    Curve(
        "balance", "Balance of the layers",
        ("conserved_drift", "predicted_drift", "unexplained_drift", "conserved_drift_relative", "layer_norm"),
        "Gradient flow conserves δ; what steps of finite size predict is drift of the same order as the step. More "
        "than that comes from momentum, weight decay or another optimiser.",
    ),
    Curve(
        "features", "How many features are used",
        ("minimum_projection_distance", "effective_dimension_intensity", "effective_dimension_quality",
         "effective_dimension_utilisation"),
        "κ_CKA below the dotted line: as few features as the target has. The effective dimensions count them.",
        line=(MINIMUM_FEATURES_BELOW, "minimum features below"),
    ),
    Curve(
        "spectrum", "Spectrum of the features", ("intensity",),
        "The steeper, the fewer features the last layer holds; a step after as many as there are classes is collapse.",
        over="mode", y_log=True,
    ),
    Curve(
        "shares", "What the features hold", ("cumulative_quality", "cumulative_utilisation"),
        "Π*(k) is the share of the target in the first k features, Π̂(k) that of what was learned: the sooner they "
        "reach 1, the fewer features are needed.", over="mode",
    ),
    Curve(
        "collapse", "Neural collapse",
        ("within_over_between", "equinorm", "equiangle", "duality", "disagreement"),
        "All fall to 0 as classes become points (NC1), a regular simplex (NC2), the last layer's rows (NC3) and the "
        "nearest-mean rule (NC4).", y_log=True,
    ),
)  # fmt: skip


def run_figures(runs: Sequence[tuple[str, xr.Dataset]]) -> list[tuple[Curve, Figure]]:
    """The pictures that recorded runs allow, each (label, Dataset); several are laid over one another.

    >>> from richter.theory import SingleNeuron
    >>> ds = SingleNeuron(a0=1.0, w0=[1.0], beta_star=[2.0]).solve([0.0, 1.0, 2.0])
    >>> [curve.ident for curve, _ in run_figures([("theory", ds)])]
    ['loss', 'kernel']
    """
    made = []
    for curve in CURVES:
        wanted = [(name, entry) for name in curve.names for entry in _entries(runs, curve, name)]
        panels = [panel for name, entry in wanted if (panel := _panel(runs, curve, name, entry)) is not None]
        if panels:
            made.append((curve, Figure(tuple(panels), curve.title)))
    return made


def moments(ds: Any) -> tuple[str, Floats]:
    """(the dimension of time, where each moment is drawn)."""
    dim = next((name for name in ("step", "t") if name in ds.dims), "")
    return dim, np.asarray(ds[dim].values if dim in ds.coords else np.arange(ds.sizes.get(dim, 0)), dtype=np.float64)


def _entries(runs: Sequence[tuple[str, Any]], curve: Curve, name: str) -> list[str]:
    """What gets a panel of its own: the entries of a variable, such as layers, where runs × entries are too many
    colours for one; else "", all in one."""
    known: dict[str, None] = {}
    for _, ds in runs:
        if name in ds and not curve.over:
            known |= dict.fromkeys(words for _, words in _parts(ds, name, moments(ds)[0]))
    crowded = len(runs) > 1 and len(known) > 1 and len(runs) * len(known) > MOST_LINES
    return _some(list(known)) if crowded else [""]


def _parts(ds: Any, name: str, dim: str) -> list[tuple[dict[Any, int], str]]:
    """The entries of a variable besides those of time: where each is, and what it is called."""
    value = ds[name]
    rest = [d for d in value.dims if d != dim]
    every = [dict(zip(rest, index, strict=True)) for index in np.ndindex(*(value.sizes[d] for d in rest))]
    called = lambda d, i: str(ds[d].values[i]) if d in ds.coords else f"{d} {i + 1}"
    return [(at, " ".join(called(d, i) for d, i in at.items())) for at in every]


def _some(entries: list[T]) -> list[T]:
    """At most as many as can be told apart, the first and the last among them."""
    places = np.unique(np.linspace(0, len(entries) - 1, min(MOST_LINES, len(entries))).round().astype(int))
    return [entries[i] for i in places]


def _panel(runs: Sequence[tuple[str, Any]], curve: Curve, name: str, entry: str = "") -> Panel | None:
    marks: list[Mark] = []
    first: Any = None
    lefts: list[float] = []
    x_log = any(_crowded(moments(ds)[1]) for _, ds in runs if name in ds)
    for label, ds in runs:
        if name not in ds or not np.isfinite(ds[name].values.astype(float)).any():
            continue
        made, left = _marks(ds, name, curve, label if len(runs) > 1 else "", x_log, entry)
        marks += made
        lefts += left
        first = ds if first is None and made else first
    if first is None:
        return None
    if len({m.colour for m in marks}) > MOST_LINES:  # many seeds are a bundle
        marks = [replace(m, colour=None, label="") for m in marks]
    own = [m for m in marks if m.kind == "line"]
    heights = np.concatenate([m.y[np.isfinite(m.y)] for m in own])
    y_log = curve.y_log and heights.min() > 0 and heights.max() > WIDE ** (0.5 if curve.over else 1) * heights.min()
    if curve.line and not curve.over and name.partition("_")[2].startswith(("change", "projection")):
        marks.append(mark("hline", y=curve.line[0], role="guide", label=curve.line[1]))
    if curve.ident == "kernel":
        marks += _fit_line(first, name)
    over = curve.over or moments(first)[0]
    named = axis_label(first[over]) if over in first.coords else over
    x = f"{named} (left end: 0)" if lefts and not curve.over else named
    y = axis_label(first[name])
    return Panel(tuple(marks), title=entry, x=x, y=y, x_log=x_log and not curve.over, y_log=bool(y_log))


def _marks(ds: Any, name: str, curve: Curve, label: str, x_log: bool, entry: str) -> tuple[list[Mark], list[float]]:
    value = ds[name]
    dim, when = moments(ds)
    if curve.over:
        return (_spectra(value, dim, when, curve.over, label), []) if curve.over in value.dims else ([], [])
    if dim not in value.dims:
        return [], []
    kept = np.isfinite(when)
    x, left = _shifted(when[kept], x_log)
    parts = _parts(ds, name, dim)
    shown = [part for part in parts if part[1] == entry] if entry else _some(parts)
    made: list[Mark] = []
    again = f"{name}_resampled"
    for at, words in shown:
        title = ", ".join(part for part in (label, "" if entry else words) if part)
        y = np.asarray(value.isel(at).values, dtype=np.float64)[kept]
        seen = np.isfinite(y)
        if seen.sum() < min(2, len(x)):  # one of many moments is no curve
            continue
        made.append(mark("line", x[seen], y[seen], role="measured", label=title, colour=title or None, group=title))
        if again in ds and not at:
            rows = np.asarray(ds[again].transpose("draw", ...).values, dtype=np.float64)[:, kept][:, seen]
            ends = np.array([interval(column, COVERED) for column in rows.T])
            made.append(
                mark("band", x[seen], ends[:, 0], high=ends[:, 1], role="measured", colour=title or None, group=title)
            )
    return made, [left] if left else []


def _spectra(value: Any, dim: str, when: Floats, over: str, label: str) -> list[Mark]:
    """A spectrum at the first and the last moment, or the only one there is."""
    ends = [(0, when[0]), (-1, when[-1])] if dim in value.dims and when.size > 1 else [(0, np.nan)]
    made = []
    for index, at in ends:
        row = value.isel({dim: index}) if dim in value.dims else value
        if set(row.dims) != {over}:
            continue
        y = np.asarray(row.values, dtype=np.float64)
        seen = np.isfinite(y)
        words = "" if np.isnan(at) else f"{dim} {at:g}"
        title = ", ".join(part for part in (label, words) if part)
        if seen.any():
            x = np.arange(1.0, y.size + 1)[seen]
            made.append(mark("line", x, y[seen], role="measured", label=title, colour=title or None, group=title))
    return made


def _fit_line(ds: Any, name: str) -> list[Mark]:
    """Where the start's kernel would have fitted, on the axis of the moments."""
    dim, when = moments(ds)
    fit = float(np.ravel(ds["fit_time"].values)[0]) if "fit_time" in ds else fit_time(ds, name)
    if dim == "step" and "t" in ds.coords:
        t = np.asarray(ds["t"].values, dtype=np.float64)
        fit = float(np.interp(fit, t, when)) if fit <= t[-1] else np.nan
    inside = np.isfinite(fit) and 0 < fit <= when[np.isfinite(when)].max()
    return [mark("vline", x=fit, role="guide", label="start's kernel has had time to fit")] if inside else []


def _crowded(when: Floats) -> bool:
    inside = when[np.isfinite(when) & (when > 0)]
    return bool(inside.size > 3 and inside.max() > CROWDED * np.median(inside))


def _shifted(when: Floats, x_log: bool) -> tuple[Floats, float]:
    """On a log axis the start is drawn at half the first moment after it."""
    if not x_log or (when > 0).all() or not (when > 0).any():
        return when, 0.0
    left = float(when[when > 0].min()) / 2
    return np.where(when > 0, when, left), left
