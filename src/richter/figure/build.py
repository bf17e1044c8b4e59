"""Marks and panels from a Dataset."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.figure.data import Figure, Mark, Panel, Role, mark, scale_of
from richter.figure.scale import MANY, Colour

if TYPE_CHECKING:
    import xarray as xr

MOST_LINES = 100
EXACT = "exact solution"


def axis_label(variable: Any) -> str:
    """The name of an axis: symbol, words and unit, as far as the variable has them.

    >>> import xarray as xr
    >>> axis_label(xr.DataArray([0.0], attrs={"symbol": "μ", "long_name": "size", "units": "1"}))
    'μ: size'
    """
    attrs = variable.attrs
    parts = [part for part in (attrs.get("symbol"), attrs.get("long_name")) if part]
    text = ": ".join(dict.fromkeys(parts)) or str(variable.name)
    unit = attrs.get("units", "1")
    return text if unit in ("1", "") else f"{text} ({unit})"


def number(value: float, digits: int = 6) -> str:
    """A short number for labels.

    >>> number(-16.0), number(10000), number(1e-7), number(2.5e-9)
    ('−16', '10000', '10⁻⁷', '2.5×10⁻⁹')
    """
    text = f"{value:.{digits}g}"
    if "e" in text:
        mantissa, exponent = text.split("e")
        raised = str(int(exponent)).translate(str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"))
        text = f"{mantissa}×10{raised}".removeprefix("1×") if mantissa != "-1" else f"-10{raised}"
    return text.replace("-", "−")


def lines(
    ds: xr.Dataset,
    name: str,
    over: str = "t",
    by: str | None = None,
    role: Role = "exact",
    label: str = "",
) -> tuple[Mark, ...]:
    """One line per entry of `by` (a dimension or a coordinate along one), against the coordinate `over`.

    The coordinate's numbers colour the lines on a scale, its words or a plain index as categories. Points at
    t = ∞ are left out.

    >>> from richter.theory import SingleNeuron
    >>> ds = SingleNeuron(a0=[1.0, 2.0], w0=[1.0, 0.0], beta_star=[0.0, 1.0]).solve([0.0, 1.0])
    >>> [m.label for m in lines(ds, "mu", by="start")]
    ['start 1', 'start 2']
    """
    value = pick(ds, name)
    if over not in value.dims:
        raise ParameterError(message("`over`", f"be a dimension of `{name}`: {', '.join(map(str, value.dims))}", over))
    along = None if by is None else _dimension(ds, value, by)
    rest = [dim for dim in value.dims if dim not in (over, along)]
    if rest:
        raise ParameterError(
            message(
                f"`{name}`", f"have no dimension but `over` and `by` (here also {', '.join(map(str, rest))})",
                f"by={by!r}", f"Pick entries first, such as ds.isel({rest[0]}=0), or use solution_figure(ds).",
            )
        )  # fmt: skip
    x = np.asarray(ds[over].values, dtype=np.float64) if over in ds.coords else np.arange(float(value.sizes[over]))
    kept = np.isfinite(x)
    if not kept.any():
        raise ParameterError(message(f"`{over}`", "have at least one finite entry", x))
    if by is None or along is None:
        return (mark("line", x[kept], value.values[kept], role=role, label=label, group=label),)
    if value.sizes[along] > MOST_LINES:
        raise ParameterError(
            message(
                f"the lines of `{name}`", f"be at most {MOST_LINES}", f"{value.sizes[along]} along {along}",
                "Use solution_figure(ds), which draws their median and spread.",
            )
        )  # fmt: skip
    rows = value.transpose(along, over).values[:, kept]
    return tuple(
        mark("line", x[kept], row, role=role, label=text, colour=colour, group=text)
        for row, (text, colour) in zip(rows, entries(ds, by, along), strict=True)
    )


def panel(ds: xr.Dataset, name: str, marks: Iterable[Mark], over: str = "t", **options: Any) -> Panel:
    """A panel of `marks` whose axes are named after the variable `name` and the coordinate `over`."""
    given = tuple(marks)
    colours = options.pop("colours", None) or scale_of(given, options.pop("colour_label", ""))
    named = {"x": axis_label(ds[over]) if over in ds.coords else over, "y": axis_label(pick(ds, name))}
    return Panel(given, **{**named, "colours": colours, **options})


def overlay(
    exact: xr.Dataset,
    simulated: xr.Dataset,
    names: Iterable[str],
    by: str | None = None,
    over: str = "t",
    *,
    role: Role = "simulated",
    title: str = "",
    caption: str = "",
    **options: Any,
) -> Figure:
    """One panel per variable: the simulation in colour, the exact solution black and dashed on top of it.

    `role` is that of the second Dataset: "simulated" or "measured". `options` go to every panel.
    """
    wanted = [names] if isinstance(names, str) else list(names)
    if not wanted:
        raise ParameterError(message("`names`", "hold at least one variable", "none"))
    panels = []
    for name in wanted:
        below = lines(simulated, name, over, by, role, label=role)
        above = tuple(replace(m, colour=None, label=EXACT) for m in lines(exact, name, over, by, "exact"))
        label = "" if by is None else symbol(simulated, by)
        panels.append(panel(exact, name, (*below, *above), over, colour_label=label, **options))
    return Figure(tuple(panels), title, caption)


def pick(ds: xr.Dataset, name: str) -> xr.DataArray:
    """A variable of a Dataset, or an error that lists what there is."""
    if name not in ds.variables:
        known = sorted(str(known) for known in ds.data_vars)
        raise UnknownNameError(f"The Dataset has no variable `{name}`. {nearest(str(name), known)}")
    return ds[name]


def symbol(ds: xr.Dataset, by: str) -> str:
    """What stands before a coordinate's values: its symbol, else its name."""
    return str(ds[by].attrs.get("symbol", by)) if by in ds.coords else str(by)


def entries(ds: xr.Dataset, by: str, along: Hashable) -> list[tuple[str, Colour]]:
    """Label and colour of every entry along a dimension."""
    count = ds.sizes[along]
    if by not in ds.coords:
        return name_entries(by, count)
    values = ds[by].values
    head = symbol(ds, by)
    if values.dtype.kind in "iuf":
        return [(f"{head} = {number(float(value))}", float(value)) for value in values]
    return [(str(value), str(value)) for value in values]


def name_entries(what: str, count: int) -> list[tuple[str, Colour]]:
    """Label and colour of entries that have no coordinate: "start 1", "start 2", …"""
    words = [f"{what} {i + 1}" for i in range(count)]
    return [(word, word if count <= MANY else float(i + 1)) for i, word in enumerate(words)]


def _dimension(ds: xr.Dataset, value: xr.DataArray, by: str) -> Hashable:
    if by in value.dims:
        return by
    if by in ds.coords and ds[by].ndim == 1 and ds[by].dims[0] in value.dims:
        return ds[by].dims[0]
    known = [str(dim) for dim in value.dims]
    known += [str(c) for c in ds.coords if c not in known and ds[c].ndim == 1 and ds[c].dims[0] in value.dims]
    raise ParameterError(message("`by`", f"be a dimension or coordinate of `{value.name}`: {', '.join(known)}", by))
