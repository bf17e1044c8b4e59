"""Areas and cells in plotly."""

from __future__ import annotations

import html
from typing import Any

import numpy as np

from richter.draw.layers import stages
from richter.draw.legend import drawable
from richter.draw.style import EDGE, SEAM, Theme, edge_colour, edges, fill_colour, palette
from richter.figure.build import number
from richter.figure.data import Floats, Mark, Panel


def areas(graph: Any, together: list[Mark], panel: Panel, look: Theme) -> list[Any]:
    """One trace per colour; more where areas cover each other, because a later trace covers an earlier one."""
    shown = [m for m in together if drawable(m, panel).all()]
    corners = [np.column_stack([_seen(m.x, panel.x_log), _seen(m.y, panel.y_log)]) for m in shown]
    groups: dict[tuple[int, str, bool], list[Mark]] = {}
    for stage, m in zip(stages(corners, [m.order for m in shown]), shown, strict=True):
        groups.setdefault((stage, fill_colour(m, panel.colours, look), m.edge), []).append(m)
    traces = []
    for (_, colour, edge), marks in sorted(groups.items(), key=lambda group: group[0][0]):
        says = _says(marks, panel)
        line = {"width": EDGE, "color": edge_colour(colour, look)} if edge else {"width": SEAM, "color": colour}
        traces.append(graph.Scatter(
            x=_joined(m.x for m in marks), y=_joined(m.y for m in marks), mode="lines", fill="toself",
            fillcolor=colour, line=line, name=says, showlegend=False, hoveron="fills",
            hoverinfo="text" if says else "skip", text=says,
        ))  # fmt: skip
    return traces


def cells(graph: Any, m: Mark, panel: Panel, look: Theme) -> list[Any]:
    """A heat map, and hatched rectangles where cells are empty."""
    if panel.colours is None or m.values is None:  # nothing is defined
        return []
    x, y = edges(m.x, panel.x_log), edges(m.y, panel.y_log)
    places, colours = palette(m, panel.colours, look)
    traces = []
    rows, columns = np.nonzero(np.isnan(places))
    if rows.size:
        traces.append(graph.Scatter(
            x=_joined(x[[c, c + 1, c + 1, c]] for c in columns), y=_joined(y[[r, r, r + 1, r + 1]] for r in rows),
            mode="lines", fill="toself", fillpattern=hatched(look), line={"width": 0}, showlegend=False,
            hoveron="fills", hoverinfo="text", text="not defined", name="not defined",
        ))  # fmt: skip
    if not np.isnan(places).all():
        said = [["" if np.isnan(v) else m.words[int(v)] if m.words else number(v, 5) for v in row] for row in m.values]
        head = "" if m.words else f"{_safe(_head(panel.colours.label or m.label))} = "
        traces.append(graph.Heatmap(
            x=x.tolist(), y=y.tolist(), z=[[None if np.isnan(v) else v for v in row] for row in places.tolist()],
            zmin=0.0, zmax=1.0, colorscale=[[i / (len(colours) - 1), c] for i, c in enumerate(colours)],
            showscale=False, hoverongaps=False, name=_safe(m.label), text=[[_safe(v) for v in row] for row in said],
            customdata=[[[across, up] for across in m.x.tolist()] for up in m.y.tolist()],
            hovertemplate=f"{head.removeprefix(' = ')}%{{text}}<br>{_safe(_head(panel.x))} = %{{customdata[0]:.5g}}"
            f"<br>{_safe(_head(panel.y))} = %{{customdata[1]:.5g}}<extra></extra>",
        ))  # fmt: skip
    return traces


def hatched(look: Theme) -> dict[str, Any]:
    """How the place of empty cells looks."""
    return {"shape": "/", "fgcolor": look.muted, "bgcolor": look.paper, "size": 7, "solidity": 0.25}


def _says(marks: list[Mark], panel: Panel) -> str:
    """What areas of one colour say when pointed at: what is true of all of them."""
    first = marks[0]
    if isinstance(first.colour, float) and panel.colours is not None:
        middle = float(np.median([m.colour for m in marks if isinstance(m.colour, float)]))
        return _safe(f"{_head(panel.colours.label)} ≈ {number(middle, 2)}".removeprefix(" ≈ "))
    shared = [name for name in ("group", "label", "colour") if len({getattr(m, name) for m in marks}) == 1]
    return _safe(" · ".join(dict.fromkeys(str(getattr(first, name)) for name in shared if getattr(first, name))))


def _joined(rows: Any) -> list[float | None]:
    """Closed polygons one after the other, with gaps between them."""
    made: list[float | None] = []
    for row in rows:
        made += [*row.tolist(), float(row[0]), None]
    return made[:-1]


def _seen(row: Floats, log: bool) -> Floats:
    return np.log10(row) if log else row


def _head(name: str) -> str:
    return name.split(":")[0]


def _safe(text: str) -> str:
    """Plotly reads texts as HTML."""
    return html.escape(text, quote=False)
