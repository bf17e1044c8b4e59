"""Pictures of scaling laws and of emerging skills."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from richter.figure.build import axis_label, lines, number
from richter.figure.data import Figure, Mark, Panel, Role, mark
from richter.figure.scale import derive_scale

if TYPE_CHECKING:
    import xarray as xr

LAWS = {"law": "scaling law", "corrected": "corrected for finitely many skills"}
ROLES: dict[str, Role] = {"law": "guide", "corrected": "target"}
BELOW = 30.0  # how far below the law the axis goes


def scaling_figure(ds: xr.Dataset, curves: xr.Dataset | None = None) -> Figure:
    """The exact loss and its laws on logarithmic axes, a line per α (Figs 4.2, C.1); with `curves`, Fig. 4.3.

    >>> from richter.theory import scaling
    >>> figure = scaling_figure(scaling("time", [1e3, 1e4, 1e5]))
    >>> [m.label for m in figure.panels[0].marks]
    ['α = 0.6', 'scaling law']
    """
    over = str(ds.attrs["over"])
    marks: list[Mark] = []
    if curves is not None:
        ds = ds.isel(alpha=[0])
        exact = lines(curves, "loss", "compute", by="n_basis", role="exact")
    else:
        exact = lines(ds, "loss", over, by="alpha", role="exact")
    marks += [replace(m, x=m.x[m.y > 0], y=m.y[m.y > 0]) for m in exact if (m.y > 0).any()]
    for name, label in LAWS.items():
        if name not in ds:
            continue
        for row in ds[name].values:
            good = np.isfinite(row) & (row > 0)
            if name == "law" and good.any():
                good &= row < 10 * ds["loss"].values.max()
            if good.any():
                role = ROLES[name]
                marks.append(mark("line", ds[over].values[good], row[good], role=role, label=label, group=label))
    seen: set[str] = set()
    for i, m in enumerate(marks):  # one legend entry per law
        if m.label in LAWS.values() and m.label in seen:
            marks[i] = replace(m, label="")
        seen.add(m.label)
    floor = float(ds["law"].values[ds["law"].values > 0].min()) / BELOW
    top = 2 * max(float(m.y.max()) for m in marks)
    exponents = ", ".join(f"{number(float(e), 4)}" for e in ds["law_exponent"].values)
    panel = Panel(
        tuple(marks), x=axis_label(ds[over]), y=axis_label(ds["loss"]), x_log=True, y_log=True,
        y_range=(max(floor, min(float(m.y.min()) for m in marks) / 2), top),
        colours=derive_scale((m.colour for m in marks), "N" if curves is not None else "α"),
    )  # fmt: skip
    caption = f"Exact sums over all skills, and the law with its prefactor; exponent {exponents}."
    return Figure((panel,), f"Scaling with {ds[over].attrs['long_name']}", caption)


def emergence_figure(ds: xr.Dataset, measured: xr.Dataset | None = None) -> Figure:
    """Strength of each skill against the resource, with the calibration's bands (Fig. 5.1).

    `measured` holds `skill_strength` (skill, resource), drawn as points.
    """
    over, S = str(ds.attrs["over"]), float(ds.attrs["S"])
    marks: list[Mark] = []
    x = ds[over].values
    log = over != "time"
    kept = x > 0 if log else np.isfinite(x)
    for i, k in enumerate(ds["skill"].values):
        label = f"k = {k}"
        low, high = ds["low"].values[i] / S, ds["high"].values[i] / S
        if (high > low).any():
            marks.append(mark("band", x[kept], low[kept], high=high[kept], role="exact", colour=label, group=label))
        row = ds["skill_strength"].values[i] / S
        marks.append(mark("line", x[kept], row[kept], role="exact", label=label, colour=label, group=label))
        if measured is not None and i < measured.sizes["skill"]:
            points = measured["skill_strength"].values[i] / S
            at = measured[over].values
            good = np.isfinite(points) & ((at > 0) | (not log))
            marks.append(mark("points", at[good], points[good], role="measured", colour=label, group=label))
    panel = Panel(tuple(marks), x=axis_label(ds[over]), y="R/S: skill strength", x_log=log)
    low, high = ds.attrs["interval"]
    caption = f"{ds.attrs['calibrated']} = {number(ds.attrs['value'], 4)}"
    caption += f" ({number(low, 4)} to {number(high, 4)})." if high > low else "."
    return Figure((panel,), "Emergence of skills", caption)
