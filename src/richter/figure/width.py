"""The coordinate check as a figure: what moves, against the width."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from richter.figure.data import Figure, Panel, mark

if TYPE_CHECKING:
    import xarray as xr

    from richter.regime import Regime


def width_figure(ds: xr.Dataset, verdict: Regime, title: str = "What a few steps move, against the width") -> Figure:
    """Sizes at the start, movements of values and movements of weights against the width; the verdict below."""
    kept = lambda name: (ds[name] ** 2).mean("seed") ** 0.5
    panels = []
    for letter, name, along, says in (
        ("a", "size", "layer", "values at the start (root mean square)"),
        ("b", "change", "layer", f"what {ds.attrs['steps']} steps add to them"),
        ("c", "moved", "weight", "‖ΔW‖/‖W‖ of the weights"),
    ):
        marks = []
        for item in ds[along].values:
            row = kept(name).sel({along: item})
            words = str(item)
            if not np.isfinite(row.values).all() or not (row.values > 0).all():
                continue
            power = f": {float(ds.exponent.sel(layer=item)):+.2f}".replace("-", "−") if name == "change" else ""
            marks.append(mark("line", ds.width, row, role="measured", colour=words, label=words + power, group=words))
            marks.append(mark("points", ds.width, row, role="measured", colour=words, group=words))
        panels.append(Panel(tuple(marks), x="width", y=says, x_log=True, y_log=True, title=f"({letter})"))
    how = f"{ds.attrs['optimiser']}, rate {ds.attrs['rate']:g}, {ds.sizes['seed']} networks at each width"
    said = "; ".join(f"{item.says}: {item.value:+.2f}" for item in verdict.evidence.values()).replace("-", "−")
    caption = f"{verdict.label}: {verdict.reasons[0]} {said}. Numbers in (b): fitted powers of the width. {how}."
    return Figure(tuple(panels), title, caption)
