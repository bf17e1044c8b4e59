"""The plotly renderer, for pages: the same figure with hover labels and zoom."""

from __future__ import annotations

import html
import json
from typing import Any

import numpy as np

from richter.draw import legend as legends
from richter.draw.layers import layers, limits
from richter.draw.legend import broken, drawable
from richter.draw.page_fills import areas, cells, hatched
from richter.draw.style import BAND_OPACITY, STROKES, Theme, blend, colour_of, entry_colour, shaded, theme
from richter.errors import MissingExtraError
from richter.figure.build import number
from richter.figure.data import Figure, Floats, Mark, Panel, Role
from richter.figure.scale import ColourScale

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'
CONFIG = {"responsive": True, "displaylogo": False, "modeBarButtons": [["toImage", "resetScale2d"]]}


def to_plotly(figure: Figure, *, dark: bool = False, columns: int | None = None) -> Any:
    """The figure as a `plotly.graph_objects.Figure` with one subplot per panel."""
    graph, subplots = _plotly()
    look = theme(dark)
    count = len(figure.panels)
    wide = min(columns or {1: 1, 2: 2, 4: 2}.get(count, 3), count)
    rows = -(-count // wide)
    made = subplots.make_subplots(rows, wide, horizontal_spacing=0.3 / max(wide, 2), vertical_spacing=0.36 / rows)
    common = legends.shared(figure)
    bar = legends.shared_bar(figure)
    for i, panel in enumerate(figure.panels):
        where = {"row": i // wide + 1, "col": i % wide + 1}
        suffix = "" if i == 0 else str(i + 1)
        legend = "legend" if common is not None else f"legend{suffix}"
        for _, together in layers(panel):
            for trace in _traces(graph, together, panel, look):
                made.add_trace(trace, **where)
        _across(made, panel, look, where)
        made.update_xaxes(_axis(panel.x, panel.x_log, limits(panel, "x"), look), **where)
        made.update_yaxes(_axis(panel.y, panel.y_log, limits(panel, "y"), look), **where)
        if panel.equal:
            made.update_xaxes(constrain="domain", **where)
            made.update_yaxes(constrain="domain", scaleanchor=f"x{suffix}", scaleratio=1, **where)
        if not panel.frame:
            made.update_xaxes(visible=False, **where)
            made.update_yaxes(visible=False, **where)
        across, up = made.layout[f"xaxis{suffix}"].domain, made.layout[f"yaxis{suffix}"].domain
        words = {"showarrow": False, "xref": "paper", "yref": "paper"}
        if panel.title:
            made.add_annotation(x=across[0], y=up[1], text=_safe(panel.title), xanchor="left", yanchor="bottom",
                                yshift=4, font={"size": 13}, **words)  # fmt: skip
        if not legends.defined(panel):
            made.add_annotation(x=sum(across) / 2, y=sum(up) / 2, text="not defined here",
                                font={"color": look.muted}, **words)  # fmt: skip
        if common is None or i == 0:
            entries = legends.entries(panel) if common is None else common
            scale = panel.colours if common is None else _scale(figure)
            for row in entries:
                made.add_trace(_sample(graph, row, scale, look, legend), **where)
            made.update_layout({legend: {
                "orientation": "h", "xanchor": "left", "yanchor": "top", "font": {"size": 11, "color": look.ink},
                "x": across[0], "y": -0.3 / rows if common is not None else up[0] - 0.26 / rows,
            }})  # fmt: skip
        if legends.has_bar(panel) and panel.colours is not None and (bar is None or i == 0):
            place = 1.0 if bar is not None else across[1]
            made.add_trace(_bar(graph, panel.colours, panel.marks, look, place), **where)
    made.update_layout(
        title={"text": _safe(figure.title), "x": 0.01, "font": {"size": 16}},
        height=120 + 330 * rows,
        autosize=True,
        font={"family": FONT, "size": 12, "color": look.ink},
        paper_bgcolor=look.paper,
        plot_bgcolor=look.paper,
        hovermode="closest",
        margin={"l": 70, "r": 20, "t": 70 if figure.title else 40, "b": 50},
        meta={"caption": figure.caption},
    )
    return made


def to_html(figure: Figure, *, dark: bool = False) -> str:
    """One self-contained page: every panel its own plot, so that they stack on a narrow screen."""
    _plotly()
    from plotly.offline import get_plotlyjs

    look = theme(dark)
    common = legends.shared(figure)
    plots, boxes = [], []
    for i, panel in enumerate(figure.panels):
        plain = json.loads(to_plotly(Figure((panel,)), dark=dark).to_json())
        plain["layout"].update(
            height=400 if common is not None else 460, showlegend=common is None,
            margin={"l": 66, "r": 14, "t": 40, "b": 44},
        )  # fmt: skip
        plots.append([f"panel-{i}", plain["data"], plain["layout"]])
        name = html.escape(panel.title or panel.y, quote=True)
        boxes.append(f'<div id="panel-{i}" class="plot" role="img" aria-label="{name}"></div>')
    title = html.escape(figure.title or "Figure")
    caption = f"<p>{html.escape(figure.caption)}</p>" if figure.caption else ""
    samples = "".join(_listed(row, _scale(figure), look) for row in common or ())
    legend = f'<ul class="legend">{samples}</ul>' if samples else ""
    data = json.dumps([plots, CONFIG]).replace("<", "\\u003c")
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>body{{margin:0 auto;max-width:75rem;padding:1rem;font-family:{FONT};color:{look.ink};"
        f"background:{look.paper}}}h1{{font-size:1.3rem}}.plots{{display:grid;gap:1rem;"
        "grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr))}.plot{min-width:0}"
        ".legend{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.3rem 1.4rem;font-size:.85rem}"
        "</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f'<div class="plots">\n{"".join(boxes)}\n</div>\n{legend}\n{caption}\n</main>\n'
        "<script>(([plots,config])=>plots.forEach(p=>Plotly.newPlot(p[0],p[1],p[2],config)))"
        f"({data})</script>\n</body>\n</html>\n"
    )


def _plotly() -> tuple[Any, Any]:
    try:
        from plotly import graph_objects, subplots
    except ImportError:
        raise MissingExtraError('Interactive figures need plotly. Type: pip install "richter[plot]"') from None
    return graph_objects, subplots


def _scale(figure: Figure) -> ColourScale | None:
    return next((panel.colours for panel in figure.panels if panel.colours is not None), None)


def _traces(graph: Any, together: list[Mark], panel: Panel, look: Theme) -> list[Any]:
    m = together[0]
    if m.kind == "area":
        return areas(graph, together, panel, look)
    if m.kind == "cells":
        return cells(graph, m, panel, look)
    if m.kind in ("vline", "hline", "text"):
        return []
    colour, shown = colour_of(m, panel.colours, look), drawable(m, panel)
    says = _safe(" · ".join(dict.fromkeys(part for part in (m.group, m.label or m.role) if part)))
    hover = f"{says}<br>{_safe(_head(panel.x))} = %{{x:.5g}}<br>{_safe(_head(panel.y))} = %{{y:.5g}}<extra></extra>"
    named = {"name": says, "showlegend": False}
    if m.high is not None:
        x, low, high = (row[shown].tolist() for row in (m.x, m.y, m.high))
        return [graph.Scatter(x=x + x[::-1], y=high + low[::-1], fill="toself", mode="lines", line={"width": 0},
                              fillcolor=_faint(colour, BAND_OPACITY), hoverinfo="skip", **named)]  # fmt: skip
    across, up = _gaps(m.x, shown), _gaps(m.y, shown)
    if m.kind == "points":
        dot = {"color": colour, "size": 7, "line": {"color": look.paper, "width": 0.6}}
        return [graph.Scatter(x=across, y=up, mode="markers", marker=dot, hovertemplate=hover, **named)]
    return [graph.Scatter(x=across, y=up, mode="lines", line=_line(m.role, colour), hovertemplate=hover,
                          connectgaps=False, **named)]  # fmt: skip


def _sample(graph: Any, row: legends.Entry, scale: ColourScale | None, look: Theme, legend: str) -> Any:
    """What the legend shows of an entry: a trace without points."""
    colour = entry_colour(row.role, row.colour, row.plain, scale, look)
    named = {"x": [None], "y": [None], "name": _safe(row.text), "legend": legend, "showlegend": True}
    if row.empty:
        hatch = {"fill": "toself", "fillpattern": hatched(look), "line": {"width": 0}}
        return graph.Scatter(mode="lines", **hatch, **named)
    if row.kind in ("area", "cells"):
        fill = colour if row.shade is None else shaded(colour, row.shade, look)
        return graph.Scatter(mode="markers", marker={"color": fill, "size": 12, "symbol": "square"}, **named)
    if row.kind == "points":
        return graph.Scatter(mode="markers", marker={"color": colour, "size": 7}, **named)
    if row.kind == "band":
        faint = _faint(colour, 1 - (1 - BAND_OPACITY) ** row.depth)
        return graph.Scatter(mode="markers", marker={"color": faint, "size": 14, "symbol": "square"}, **named)
    return graph.Scatter(mode="lines", line=_line(row.role, colour), **named)


def _listed(row: legends.Entry, scale: ColourScale | None, look: Theme) -> str:
    """The same entry in HTML."""
    colour = entry_colour(row.role, row.colour, row.plain, scale, look)
    stroke = STROKES[row.role]
    drawn = (
        f'<line x1="1" y1="6" x2="33" y2="6" stroke="{colour}" stroke-width="{stroke.width}" '
        f'stroke-dasharray="{" ".join(f"{part:g}" for part in stroke.dash)}"/>'
    )
    if row.empty:
        lines = "".join(f"M{x} 12L{x + 8} 0" for x in range(1, 26, 6))
        drawn = f'<path d="{lines}" stroke="{look.muted}" fill="none"/>'
    elif row.kind in ("area", "cells"):
        fill = colour if row.shade is None else shaded(colour, row.shade, look)
        drawn = f'<rect x="11" y="0" width="12" height="12" fill="{fill}"/>'
    elif row.kind == "points":
        drawn = f'<circle cx="17" cy="6" r="3.5" fill="{colour}"/>'
    elif row.kind == "band":
        opacity = 1 - (1 - BAND_OPACITY) ** row.depth
        drawn = f'<rect x="1" y="0" width="32" height="12" fill="{colour}" fill-opacity="{opacity:.2f}"/>'
    return f'<li><svg width="34" height="12" aria-hidden="true">{drawn}</svg> {html.escape(row.text)}</li>'


def _across(made: Any, panel: Panel, look: Theme, where: dict[str, int]) -> None:
    """Lines across the panel, and texts."""
    for m in panel.marks:
        colour, shown = colour_of(m, panel.colours, look), drawable(m, panel)
        if m.kind == "vline":
            for place in m.x[shown].tolist():
                made.add_vline(place, line=_line(m.role, colour), exclude_empty_subplots=False, **where)
        elif m.kind == "hline":
            for place in m.y[shown].tolist():
                made.add_hline(place, line=_line(m.role, colour), exclude_empty_subplots=False, **where)
        elif m.kind == "text":
            xs = np.log10(m.x[shown]) if panel.x_log else m.x[shown]
            ys = np.log10(m.y[shown]) if panel.y_log else m.y[shown]
            for x, y in zip(xs.tolist(), ys.tolist(), strict=True):
                made.add_annotation(x=x, y=y, text=_safe(m.label), showarrow=False, xanchor="left",
                                    yanchor="bottom", font={"size": 11, "color": colour}, **where)  # fmt: skip


def _bar(graph: Any, scale: ColourScale, marks: tuple[Mark, ...], look: Theme, place: float) -> Any:
    anchors = look.diverging if scale.kind == "diverging" else look.sequential
    named = legends.ticks(scale, marks)
    return graph.Scatter(
        x=[None], y=[None], mode="markers", showlegend=False, hoverinfo="skip",
        marker={
            "color": [0.0], "cmin": 0, "cmax": 1, "showscale": True,
            "colorscale": [[i / 20, blend(anchors, i / 20)] for i in range(21)],
            "colorbar": {
                "title": {"text": _safe(scale.label), "side": "right"}, "thickness": 12, "outlinewidth": 0,
                "x": place, "tickvals": [scale.position(v) for v in named], "ticktext": [number(v, 3) for v in named],
            },
        },
    )  # fmt: skip


def _axis(name: str, log: bool, ends: tuple[float, float] | None, look: Theme) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": "<br>".join(_safe(line) for line in broken(name, 42)), "font": {"size": 12}, "standoff": 6},
        "type": "log" if log else "linear", "gridcolor": look.grid, "linecolor": look.muted, "zeroline": False,
        "showline": True, "ticks": "outside", "tickcolor": look.muted, "automargin": True,
        "exponentformat": "power",
    }  # fmt: skip
    if ends is not None:
        made["range"] = [float(np.log10(end)) for end in ends] if log else list(ends)
    return made


def _line(role: Role, colour: str) -> dict[str, Any]:
    stroke = STROKES[role]
    dash = ",".join(f"{part:g}px" for part in stroke.dash)
    return {"color": colour, "width": stroke.width, "dash": dash or "solid"}


def _gaps(row: Floats, shown: Any) -> list[float | None]:
    return [x if ok else None for x, ok in zip(row.tolist(), shown.tolist(), strict=True)]


def _faint(colour: str, opacity: float) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity:.3f})"


def _head(name: str) -> str:
    return name.split(":")[0]


def _safe(text: str) -> str:
    """Plotly reads texts as HTML."""
    return html.escape(text, quote=False)
