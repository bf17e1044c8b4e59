"""The plotly renderer, for pages: the same figure with hover labels and zoom."""

from __future__ import annotations

import html
import json
from typing import Any

import numpy as np

from richter.draw import legend as legends
from richter.draw.legend import broken
from richter.draw.style import BAND_OPACITY, STROKES, Theme, blend, colour_of, theme
from richter.errors import MissingExtraError
from richter.figure.build import number
from richter.figure.data import Figure, Floats, Mark, Panel
from richter.figure.scale import ColourScale

FONT = 'system-ui, -apple-system, "Segoe UI", Roboto, sans-serif'


def to_plotly(figure: Figure, *, dark: bool = False, columns: int | None = None) -> Any:
    """The figure as a `plotly.graph_objects.Figure` with one subplot per panel."""
    graph, subplots = _plotly()
    look = theme(dark)
    count = len(figure.panels)
    wide = min(columns or {1: 1, 2: 2, 4: 2}.get(count, 3), count)
    rows = -(-count // wide)
    made = subplots.make_subplots(rows, wide, horizontal_spacing=0.09, vertical_spacing=0.32 / rows,
                                  subplot_titles=[_safe(panel.title) for panel in figure.panels])  # fmt: skip
    made.update_annotations(font={"size": 13, "color": look.ink})
    common = legends.shared(figure)
    listed: set[Any] = set()
    for i, panel in enumerate(figure.panels):
        where = {"row": i // wide + 1, "col": i % wide + 1}
        legend = "legend" if common is not None or i == 0 else f"legend{i + 1}"
        if common is None:
            listed = set()
        for trace in _traces(graph, panel, look, legend, listed):
            made.add_trace(trace, **where)
        _across(made, panel, look, where)
        suffix = "" if i == 0 else str(i + 1)
        made.update_xaxes(_axis(panel.x, panel.x_log, panel.x_range, look), **where)
        made.update_yaxes(_axis(panel.y, panel.y_log, panel.y_range, look), **where)
        if common is None:
            across = made.layout[f"xaxis{suffix}"].domain
            up = made.layout[f"yaxis{suffix}"].domain
            made.update_layout({legend: {**_legend(look), "x": across[0], "y": up[0] - 0.24 / rows}})
        if legends.has_bar(panel) and (i == 0 or legends.shared_bar(figure) is None) and panel.colours is not None:
            _bar(graph, made, panel.colours, panel.marks, look, where)
    if common is not None:
        made.update_layout(legend={**_legend(look), "x": 0, "y": -0.26 / rows})
    made.update_layout(
        title={"text": _safe(figure.title), "x": 0.01, "font": {"size": 16}},
        height=120 + 330 * rows,
        autosize=True,
        font={"family": FONT, "size": 12, "color": look.ink},
        paper_bgcolor=look.paper,
        plot_bgcolor=look.paper,
        hovermode="closest",
        margin={"l": 70, "r": 20, "t": 60, "b": 50},
        meta={"caption": figure.caption},
    )
    return made


def to_html(figure: Figure, *, dark: bool = False) -> str:
    """One self-contained page: every panel its own plot, so that they stack on a narrow screen."""
    _plotly()
    from plotly.offline import get_plotlyjs

    look = theme(dark)
    plots = []
    for i, panel in enumerate(figure.panels):
        plain = json.loads(to_plotly(Figure((panel,)), dark=dark).to_json())
        plain["layout"].pop("title", None)
        plain["layout"].update(height=420, margin={"l": 66, "r": 14, "t": 44 if panel.title else 14, "b": 44})
        data = json.dumps([plain["data"], plain["layout"]]).replace("<", "\\u003c")
        name = html.escape(panel.title or panel.y, quote=True)
        plots.append(
            f'<div id="panel-{i}" class="plot" role="img" aria-label="{name}"></div>\n'
            f"<script>((d)=>Plotly.newPlot('panel-{i}',d[0],d[1],"
            f"{{responsive:true,displaylogo:false}}))({data})</script>"
        )
    title = html.escape(figure.title or "Figure")
    caption = f"<p>{html.escape(figure.caption)}</p>" if figure.caption else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{title}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>body{{margin:0 auto;max-width:75rem;padding:1rem;font-family:{FONT};color:{look.ink};"
        f"background:{look.paper}}}h1{{font-size:1.3rem}}.plots{{display:grid;gap:1rem;"
        "grid-template-columns:repeat(auto-fit,minmax(min(100%,22rem),1fr))}.plot{min-width:0}</style>\n"
        f"<script>{get_plotlyjs()}</script>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
        f'<div class="plots">\n{"".join(plots)}\n</div>\n{caption}\n</main>\n</body>\n</html>\n'
    )


def _plotly() -> tuple[Any, Any]:
    try:
        from plotly import graph_objects, subplots
    except ImportError:
        raise MissingExtraError('Interactive figures need plotly. Type: pip install "richter[plot]"') from None
    return graph_objects, subplots


def _traces(graph: Any, panel: Panel, look: Theme, legend: str, listed: set[Any]) -> list[Any]:
    named = {(row.colour, row.text): row for row in legends.entries(panel)}
    made: list[Any] = []
    for row in named.values():
        if row.plain and ("role", row.role) not in listed:
            listed.add(("role", row.role))
            made.append(graph.Scatter(x=[None], y=[None], mode="markers" if row.kind == "points" else "lines",
                                      name=_safe(row.text), legend=legend, line=_line(row.role, look.muted),
                                      marker={"color": look.muted}))  # fmt: skip
    for m in sorted(panel.marks, key=lambda m: STROKES[m.role].order - (m.kind == "band") / 2):
        if m.kind in ("vline", "hline", "text"):
            continue
        key = (m.colour, m.label)
        first = key in named and key not in listed
        if first:
            listed.add(key)
        made += _one(graph, m, panel, look, {
            "name": _safe(m.label or m.group or m.role), "legend": legend, "showlegend": first,
            "legendgroup": _safe(m.group if m.colour is not None else m.label) or None,
        })  # fmt: skip
    return made


def _one(graph: Any, m: Mark, panel: Panel, look: Theme, named: dict[str, Any]) -> list[Any]:
    colour = colour_of(m, panel.colours, look)
    x, y = _row(m.x, panel.x_log), _row(m.y, panel.y_log)
    says = _safe(" · ".join(dict.fromkeys(part for part in (m.group, m.label or m.role) if part)))
    hover = f"{says}<br>{_safe(_head(panel.x))} = %{{x:.5g}}<br>{_safe(_head(panel.y))} = %{{y:.5g}}<extra></extra>"
    if m.kind == "band" and m.high is not None:
        high = _row(m.high, panel.y_log)
        kept = [(a, low, top) for a, low, top in zip(x, y, high, strict=True) if low is not None and top is not None]
        across = [a for a, _, _ in kept]
        loop = {"x": across + across[::-1], "y": [top for *_, top in kept] + [low for _, low, _ in kept][::-1]}
        return [graph.Scatter(**loop, fill="toself", mode="lines", line={"width": 0}, fillcolor=_faint(colour),
                              hoverinfo="skip", **named)]  # fmt: skip
    if m.kind == "points":
        return [graph.Scatter(x=x, y=y, mode="markers", marker={"color": colour, "size": 7}, hovertemplate=hover,
                              **named)]  # fmt: skip
    return [graph.Scatter(x=x, y=y, mode="lines", line=_line(m.role, colour), hovertemplate=hover,
                          connectgaps=False, **named)]  # fmt: skip


def _across(made: Any, panel: Panel, look: Theme, where: dict[str, int]) -> None:
    """Lines across the panel, and texts."""
    for m in panel.marks:
        colour = colour_of(m, panel.colours, look)
        says = {"text": _safe(m.label), "font": {"size": 11, "color": colour}}
        for place in m.x[np.isfinite(m.x)].tolist() if m.kind == "vline" else ():
            made.add_vline(place, line=_line(m.role, colour), annotation=says if m.label else None, **where)
        for place in m.y[np.isfinite(m.y)].tolist() if m.kind == "hline" else ():
            made.add_hline(place, line=_line(m.role, colour), annotation=says if m.label else None, **where)
        if m.kind == "text":
            for across, up in zip(_row(m.x, panel.x_log), _row(m.y, panel.y_log), strict=True):
                if across is not None and up is not None:
                    made.add_annotation(x=np.log10(across) if panel.x_log else across,
                                        y=np.log10(up) if panel.y_log else up, showarrow=False, xanchor="left",
                                        yanchor="bottom", **says, **where)  # fmt: skip


def _bar(
    graph: Any, made: Any, scale: ColourScale, marks: tuple[Mark, ...], look: Theme, where: dict[str, int]
) -> None:
    anchors = look.diverging if scale.kind == "diverging" else look.sequential
    named = legends.ticks(scale, marks)
    made.add_trace(graph.Scatter(
        x=[None], y=[None], mode="markers", showlegend=False, hoverinfo="skip",
        marker={
            "color": [0.0], "cmin": 0, "cmax": 1, "showscale": True,
            "colorscale": [[i / 20, blend(anchors, i / 20)] for i in range(21)],
            "colorbar": {"title": {"text": _safe(scale.label), "side": "right"}, "thickness": 12, "outlinewidth": 0,
                         "tickvals": [scale.position(v) for v in named], "ticktext": [number(v, 3) for v in named]},
        },
    ), **where)  # fmt: skip


def _axis(name: str, log: bool, limits: tuple[float, float] | None, look: Theme) -> dict[str, Any]:
    made: dict[str, Any] = {
        "title": {"text": "<br>".join(_safe(line) for line in broken(name, 38)), "font": {"size": 12}, "standoff": 6},
        "type": "log" if log else "linear", "gridcolor": look.grid, "linecolor": look.muted, "zeroline": False,
        "showline": True, "ticks": "outside", "tickcolor": look.muted, "automargin": True,
        "exponentformat": "power",
    }  # fmt: skip
    if log:
        made["dtick"] = 1 if limits is None else max(1, round(np.log10(limits[1] / limits[0]) / 6))
    if limits is not None:
        made["range"] = [float(np.log10(end)) for end in limits] if log else list(limits)
    return made


def _legend(look: Theme) -> dict[str, Any]:
    return {"orientation": "h", "xanchor": "left", "yanchor": "top", "font": {"size": 11, "color": look.ink}}


def _line(role: Any, colour: str) -> dict[str, Any]:
    stroke = STROKES[role]
    dash = ",".join(f"{part:g}px" for part in stroke.dash)
    return {"color": colour, "width": stroke.width, "dash": dash or "solid"}


def _row(row: Floats, log: bool) -> list[float | None]:
    return [x if np.isfinite(x) and (x > 0 or not log) else None for x in row.tolist()]


def _faint(colour: str) -> str:
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{BAND_OPACITY})"


def _head(name: str) -> str:
    return name.split(":")[0]


def _safe(text: str) -> str:
    """Plotly reads texts as HTML."""
    return html.escape(text, quote=False)
