"""The default picture of a result."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message
from richter.figure.build import axis_label, entries, name_entries, panel, pick
from richter.figure.data import Figure, Mark, Panel, Role, mark
from richter.figure.scale import MANY, Colour

if TYPE_CHECKING:
    import xarray as xr

MOST_PANELS = 6
MOST_STARTS = 12  # more are drawn as median and bands
LOG_BEYOND = 1e3  # positive numbers over a wider range get a log axis
LOSS_FLOOR = 1e-12  # how far below its start a loss is drawn
_RANGE = ", paler from the smallest to the largest"
Floats = NDArray[np.float64]
_ORDER = {"function": 0, "loss": 1, "observable": 2, "state": 3}


def solution_figure(ds: xr.Dataset, names: Iterable[str] | None = None, *, title: str | None = None) -> Figure:
    """A sensible picture of any result with times: one panel per variable, up to six, against t.

    Up to twelve starts are drawn one by one, more as median, 10–90 % band and range; up to eight entries of
    wide variables. The caption says what was left out.

    >>> from richter.theory import LinearModel
    >>> ds = LinearModel(eigenvalues=[1.0, 0.1], coefficients=[1.0, 1.0]).solve([0.0, 1.0, np.inf])
    >>> solution_figure(ds, ["output"]).caption
    'Exact solution. The point at t = ∞ is left out of the lines.'
    """
    if "t" not in ds.dims or "t" not in ds.coords:
        raise ParameterError(
            message("a result", "have times `t`", f"dimensions {', '.join(map(str, ds.dims))}", "Use solve(times).")
        )
    wanted = [names] if isinstance(names, str) else (_choose(ds) if names is None else list(names))
    if not 1 <= len(wanted) <= MOST_PANELS:
        must = f"be 1 to {MOST_PANELS} variables"
        raise ParameterError(message("`names`", must, f"{len(wanted)}", "Draw the others in a second figure."))
    t = np.asarray(ds.t.values, dtype=np.float64)
    finite = np.isfinite(t)
    if not finite.any():
        raise ParameterError(message("the times of a picture", "be finite", "only ∞", "Use solve([0, 0.5, 1, 2])."))
    positive = t[finite & (t > 0)]
    x_log = False
    if positive.size > 2:  # times that crowd at the start
        x_log = bool(positive.max() > LOG_BEYOND * positive.min() and np.median(positive) < positive.max() / 20)
    kept = finite & (t > 0) if x_log else finite
    role: Role = "simulated" if str(ds.attrs.get("how", "exact")).startswith("simulated") else "exact"
    says = ["Simulated." if role == "simulated" else "Exact solution."]
    drawn = [_variable(ds, name, kept, role, x_log, says) for name in wanted]
    if (~finite).any():
        says.append("The point at t = ∞ is left out of the lines.")
    if x_log and (t == 0).any():
        says.append("The point at t = 0 is not on the logarithmic axis.")
    name = str(ds.attrs.get("model", ""))
    words = name.replace("-", " ").capitalize() if title is None else title
    if any(_RANGE in line for line in says):
        says = [line for line in says if not line.startswith("Median") or _RANGE in line]
    return Figure(tuple(drawn), words, " ".join(dict.fromkeys(says)))


def _choose(ds: xr.Dataset) -> list[str]:
    """Function and loss first, then what is a single number at every time, then wide variables."""
    ranked = []
    rank = dict(_ORDER)
    if not any(value.attrs.get("role") == "function" for value in ds.data_vars.values()):
        rank["state"] = rank["function"]  # the state is what is learned
    for place, (name, value) in enumerate(ds.data_vars.items()):
        role = value.attrs.get("role", "observable")
        own = len(_own(ds, value)) if "t" in value.dims else 9
        if role in _ORDER and own <= 1 and value.dtype.kind in "iuf":
            wide = own > 0 and rank[role] > 0
            ranked.append((wide, rank[role], place, str(name)))
    if not ranked:
        raise UnknownNameError("The Dataset has no variable over t that can be drawn. Name some in `names`.")
    return [name for *_, name in sorted(ranked)[:MOST_PANELS]]


def _own(ds: xr.Dataset, value: xr.DataArray) -> list[str]:
    """The dimensions behind t: those of the variable itself, the ones before it are starts."""
    dims = [str(dim) for dim in value.dims]
    return dims[dims.index("t") + 1 :]


def _variable(ds: xr.Dataset, name: str, kept: NDArray[np.bool_], role: Role, x_log: bool, says: list[str]) -> Panel:
    value = pick(ds, name)
    if "t" not in value.dims:
        raise ParameterError(message(f"`{name}`", "depend on t to be drawn", f"dimensions {value.dims}"))
    own = _own(ds, value)
    front = [str(dim) for dim in value.dims[: len(value.dims) - len(own) - 1]]
    starts = math.prod(value.sizes[dim] for dim in front)
    cube = np.asarray(value.values, dtype=np.float64).reshape(starts, value.sizes["t"], -1)[:, kept]
    t = np.asarray(ds.t.values, dtype=np.float64)[kept]
    width = cube.shape[-1]
    most = MANY if starts <= 1 or starts > MOST_STARTS else max(1, 24 // starts)
    if width > most:
        what = f"{most} of {width} entries of `{name}`" if most > 1 else f"1 of {width} entries of `{name}`"
        says.append(f"Shown: the first {what}.")
        cube = cube[..., :most]
    if starts == 1:
        marks = _single(ds, value, own, t, cube[0], role)
    elif starts <= MOST_STARTS:
        marks = _several(ds, front, starts, t, cube, role)
        if cube.shape[-1] > 1:
            says.append(f"One colour per start, {cube.shape[-1]} lines each in `{name}`.")
    else:
        marks = _many(ds, value, own, t, cube, role)
        says.append(f"Median of {starts} starts; bands from 10 to 90 %{_RANGE if cube.shape[-1] == 1 else ''}.")
    if t.size == 1:  # a line of one point would not be seen
        marks = [replace(m, kind="points") if m.kind == "line" else m for m in marks]
    label = axis_label(ds[front[0]]) if len(front) == 1 and front[0] in ds.coords else "start"
    options = {"colour_label": label} if 1 < starts <= MOST_STARTS else {}
    return panel(ds, name, marks, **options, **_y_axis(value, cube), x_log=x_log)


def _single(ds: xr.Dataset, value: xr.DataArray, own: list[str], t: Floats, path: Floats, role: Role) -> list[Mark]:
    if not own:
        return [mark("line", t, path[:, 0], role=role, group=str(value.name))]
    names = _entries(ds, value, own, path.shape[-1])
    return [
        mark("line", t, path[:, i], role=role, label=text, colour=text if len(names) > 1 else None, group=text)
        for i, text in enumerate(names)
    ]


def _several(ds: xr.Dataset, front: list[str], starts: int, t: Floats, cube: Floats, role: Role) -> list[Mark]:
    if len(front) == 1:
        named = entries(ds, front[0], front[0])
    else:
        named = name_entries("start", starts)
    made = []
    for path, (text, shade) in zip(cube, named, strict=True):
        for i in range(path.shape[-1]):
            made.append(mark("line", t, path[:, i], role=role, label=text, colour=shade, group=text))
    return made


def _many(ds: xr.Dataset, value: xr.DataArray, own: list[str], t: Floats, cube: Floats, role: Role) -> list[Mark]:
    names = _entries(ds, value, own, cube.shape[-1]) if own else [""]
    made = []
    for i, text in enumerate(names):
        colour: Colour = text if len(names) > 1 else None
        low, ten, middle, ninety, high = _quantiles(cube[..., i])
        here: dict[str, Any] = {"role": role, "colour": colour, "group": text}
        if len(names) == 1:
            made.append(mark("band", t, low, high=high, **here, label="smallest to largest"))
        made.append(mark("band", t, ten, high=ninety, **here, label="" if text else "10 to 90 %"))
        made.append(mark("line", t, middle, **here, label=text or "median"))
    return made


def _entries(ds: xr.Dataset, value: xr.DataArray, own: list[str], count: int) -> list[str]:
    sizes = [value.sizes[dim] for dim in own]
    if len(own) == 1 and own[0] in ds.coords:
        return [str(entry) for entry in ds[own[0]].values[:count]]
    places = [np.unravel_index(i, sizes) for i in range(count)]
    return [f"{own[0]} " + ", ".join(str(int(k) + 1) for k in place) for place in places]


def _quantiles(rows: Floats) -> Floats:
    """Smallest, 10 %, median, 90 %, largest of every column; NaN where nothing is defined."""
    made = np.full((5, rows.shape[1]), np.nan)
    some = np.isfinite(rows).any(axis=0)
    if some.any():
        values = np.where(np.isfinite(rows[:, some]), rows[:, some], np.nan)
        made[:, some] = np.nanquantile(values, [0, 0.1, 0.5, 0.9, 1], axis=0)
    return made


def _y_axis(value: xr.DataArray, cube: Floats) -> dict[str, Any]:
    """A log axis for what is positive over many decades; a loss no further down than double precision."""
    shown = cube[np.isfinite(cube)]
    loss = value.attrs.get("role") == "loss"
    if value.attrs.get("role") in ("function", "state"):
        return {}
    if not shown.size or shown.max() <= 0 or shown.min() < 0 or (shown.min() == 0 and not loss):
        return {}
    smallest = shown[shown > 0].min()
    if shown.max() <= LOG_BEYOND * smallest:
        return {}
    floor = LOSS_FLOOR * shown.max()
    return {"y_log": True, **({"y_range": (floor, 3 * shown.max())} if loss and smallest < floor else {})}
