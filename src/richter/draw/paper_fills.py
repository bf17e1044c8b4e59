"""Areas and cells in matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from richter.draw.legend import drawable
from richter.draw.style import EDGE, SEAM, Theme, edge_colour, edges, fill_colour, palette
from richter.figure.data import Mark, Panel

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MANY_CELLS = 2500  # more are drawn as a picture, also in SVG and PDF


def areas(axes: Axes, together: list[Mark], panel: Panel, look: Theme, level: float) -> None:
    """One collection for all areas of a layer, drawn in their order."""
    from matplotlib.collections import PolyCollection

    shown = [m for m in together if drawable(m, panel).all()]
    colours = [fill_colour(m, panel.colours, look) for m in shown]
    made = PolyCollection(
        [np.column_stack([m.x, m.y]) for m in shown],
        facecolors=colours,
        edgecolors=[edge_colour(colour, look) if m.edge else colour for m, colour in zip(shown, colours, strict=True)],
        linewidths=[EDGE if m.edge else SEAM for m in shown],
        joinstyle="round",
        zorder=level,
    )
    axes.add_collection(made)
    axes.autoscale_view()


def cells(axes: Axes, m: Mark, panel: Panel, look: Theme, level: float) -> None:
    """A mesh, over a hatched ground where cells are empty."""
    from matplotlib.colors import ListedColormap
    from matplotlib.patches import Rectangle

    if panel.colours is None:  # nothing is defined
        return
    x, y = edges(m.x, panel.x_log), edges(m.y, panel.y_log)
    places, colours = palette(m, panel.colours, look)
    empty = np.isnan(places)
    if empty.any():
        corner, across, up = (float(x[0]), float(y[0])), float(x[-1] - x[0]), float(y[-1] - y[0])
        axes.add_patch(Rectangle(corner, across, up, zorder=level - 0.005, **hatched(look)))
    axes.pcolormesh(x, y, np.ma.masked_array(places, empty), cmap=ListedColormap(colours), vmin=0.0, vmax=1.0,
                    zorder=level, rasterized=places.size > MANY_CELLS)  # fmt: skip


def hatched(look: Theme) -> dict[str, Any]:
    """How the place of empty cells looks."""
    return {"facecolor": look.paper, "edgecolor": look.muted, "hatch": "////", "linewidth": 0.0, "hatch_linewidth": 0.5}
