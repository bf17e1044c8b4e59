"""The matplotlib renderer, for paper: objects only, no pyplot and no global state."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from richter.draw import legend as legends
from richter.draw.layers import layers, limits
from richter.draw.legend import broken
from richter.draw.paper_fills import areas, cells, hatched
from richter.draw.style import BAND_OPACITY, STROKES, Theme, blend, colour_of, entry_colour, shaded, theme
from richter.errors import MissingExtraError
from richter.figure.build import number
from richter.figure.data import Figure, Floats, Mark, Panel
from richter.figure.scale import ColourScale

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Drawing

FONT = "DejaVu Sans"  # comes with matplotlib and has every symbol of the theories
SIZE, SMALL = 9.0, 8.0
LINE = 1.45 * SMALL / 72  # height of a line of small text, in inches


def to_matplotlib(
    figure: Figure,
    *,
    dark: bool = False,
    columns: int | None = None,
    caption: bool = True,
    title: bool = True,
    panel_size: tuple[float, float] = (3.4, 2.7),
) -> Drawing:
    """The figure as a `matplotlib.figure.Figure`, with its legend below the panels and then its caption."""
    try:
        from matplotlib.figure import Figure as Drawing
    except ImportError:
        raise MissingExtraError('Drawing needs matplotlib. Type: pip install "richter[plot]"') from None
    look = theme(dark)
    count = len(figure.panels)
    wide = columns or {1: 1, 2: 2, 4: 2}.get(count, 3)
    wide = min(wide, count)
    rows = -(-count // wide)
    common = legends.shared(figure)
    bars = sum(legends.has_bar(panel) for panel in figure.panels) > 0
    broad = columns is None and not all(panel.equal for panel in figure.panels)
    width = wide * panel_size[0] * ({1: 1.35, 2: 1.25}.get(wide, 1.0) if broad else 1.0) + 0.75 * bars
    entries, entry_columns = _table(common or (), width)
    foot = entries * LINE + (0.12 if entries else 0)
    said = _wrap(figure.caption, width, SMALL) if caption else ""
    foot += (said.count("\n") + 1) * LINE + 0.12 if said else 0
    head = _wrap(figure.title, width, SIZE + 2) if title else ""
    top = (head.count("\n") + 1) * 1.4 * (SIZE + 2) / 72 + 0.05 if head else 0
    own = 0.0 if common is not None else max(_own_height(p, panel_size[0]) for p in figure.panels)
    height = rows * (panel_size[1] + own) + foot + top
    drawing = Drawing(figsize=(width, height), facecolor=look.paper, layout="constrained")
    engine: Any = drawing.get_layout_engine()
    engine.set(rect=(0, foot / height, 1, 1 - (foot + top) / height), w_pad=0.06, h_pad=0.07)
    grid = drawing.subplots(rows, wide, squeeze=False)
    for axes, panel in zip(grid.flat, figure.panels, strict=False):
        _panel(axes, panel, look, panel_size[0], own_legend=common is None)
    for axes in grid.flat[count:]:
        axes.set_visible(False)
    drawing.align_ylabels()
    _bars(drawing, figure, list(grid.flat[:count]), look)
    if head:
        drawing.text(0.12 / width, 1 - 0.06 / height, head, fontsize=SIZE + 2, weight="bold", va="top",
                     color=look.ink, family=FONT)  # fmt: skip
    if common:
        _legend(drawing, common, figure.panels, look, entry_columns, loc="upper center",
                bbox_to_anchor=(0.5, foot / height), bbox_transform=drawing.transFigure)  # fmt: skip
    if said:
        drawing.text(0.12 / width, 0.06 / height, said, fontsize=SMALL, va="bottom", color=look.muted, family=FONT)
    return drawing


def _panel(axes: Axes, panel: Panel, look: Theme, width: float, own_legend: bool) -> None:
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    axes.set_facecolor(look.paper)
    axes.tick_params(which="both", labelsize=SMALL, labelfontfamily=FONT, colors=look.muted, length=3)
    for name, log, ends in (("x", panel.x_log, limits(panel, "x")), ("y", panel.y_log, limits(panel, "y"))):
        axis = axes.xaxis if name == "x" else axes.yaxis
        if log:
            (axes.set_xscale if name == "x" else axes.set_yscale)("log")
            axis.set_minor_formatter(NullFormatter())
            if _decades(panel, name) < 1.5:
                axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _, log=log: _tick(value, log)))
        if ends is not None:
            (axes.set_xlim if name == "x" else axes.set_ylim)(*ends)
    if not legends.defined(panel):
        axes.text(0.5, 0.5, "not defined here", transform=axes.transAxes, ha="center", va="center", fontsize=SMALL,
                  color=look.muted, family=FONT)  # fmt: skip
        axes.set(xticks=[], yticks=[])
    for level, together in layers(panel):
        if together[0].kind == "area":
            areas(axes, together, panel, look, level)
        elif together[0].kind == "cells":
            cells(axes, together[0], panel, look, level)
        else:
            _mark(axes, together[0], panel, look, level)
    if panel.equal:
        axes.set_aspect("equal")
    if not panel.frame:
        axes.set_axis_off()
    axes.grid(True, color=look.grid, linewidth=0.6)
    axes.set_axisbelow(True)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(look.muted)
    beside = _wrap(panel.y, 2.3, SIZE)
    room = width - 0.8 - 0.15 * beside.count("\n")
    below = _wrap(panel.x, room, SIZE)
    axes.set_ylabel(beside, fontsize=SIZE, color=look.ink, family=FONT)
    axes.set_xlabel(below, fontsize=SIZE, color=look.ink, family=FONT)
    axes.set_title(_wrap(panel.title, room, SIZE + 0.5), fontsize=SIZE + 0.5, loc="left", color=look.ink, family=FONT)
    rows = legends.entries(panel) if own_legend else ()
    if rows:
        from matplotlib.transforms import ScaledTranslation

        under = 0.46 + 0.17 * below.count("\n") if panel.frame else 0.06
        drop = ScaledTranslation(0, -under, axes.figure.dpi_scale_trans)
        _legend(axes, rows, (panel,), look, _table(rows, width)[1], loc="upper center", bbox_to_anchor=(0.5, 0.0),
                bbox_transform=axes.transAxes + drop)  # fmt: skip


def _mark(axes: Axes, m: Mark, panel: Panel, look: Theme, level: float) -> None:
    colour, stroke = colour_of(m, panel.colours, look), STROKES[m.role]
    style: dict[str, Any] = {"color": colour, "linewidth": stroke.width, "zorder": level}
    dashes: Any = (0, stroke.dash) if stroke.dash else "solid"
    shown = legends.drawable(m, panel)
    x, y = (np.where(shown, row, np.nan) if row.size == shown.size else row for row in (m.x, m.y))
    if m.kind == "line":
        axes.plot(x, y, linestyle=dashes, dash_capstyle="butt", solid_capstyle="round", **style)
    elif m.kind == "points":
        axes.plot(x, y, linestyle="none", marker="o", markersize=6.0, markeredgewidth=0.6,
                  markeredgecolor=look.paper, color=colour, zorder=level)  # fmt: skip
    elif m.kind == "band" and m.high is not None:
        axes.fill_between(x, y, np.where(shown, m.high, np.nan), color=colour, alpha=BAND_OPACITY, linewidth=0,
                          zorder=level)  # fmt: skip
    elif m.kind == "vline":
        for place in m.x[np.isfinite(m.x)]:
            axes.axvline(float(place), linestyle=dashes, **style)
    elif m.kind == "hline":
        for place in m.y[np.isfinite(m.y)]:
            axes.axhline(float(place), linestyle=dashes, **style)
    elif m.kind == "text":
        for across, up in zip(x[shown], y[shown], strict=True):
            axes.annotate(m.label, (float(across), float(up)), (4, 4), textcoords="offset points", fontsize=SMALL,
                          color=colour, family=FONT, zorder=level)  # fmt: skip


def _tick(value: float, log: bool) -> str:
    """A tick's number; on a log axis powers of ten as such."""
    exponent = np.log10(value) if log and value > 0 else 0.5
    if exponent == round(exponent) and not -2 <= exponent <= 3:
        return number(float(value), 1)
    return number(float(value))


def _decades(panel: Panel, name: str) -> float:
    limits = panel.x_range if name == "x" else panel.y_range
    rows: list[Floats] = [np.asarray(limits)] if limits else [m.x if name == "x" else m.y for m in panel.marks]
    values = np.concatenate(rows)
    values = values[np.isfinite(values) & (values > 0)]
    return float(np.log10(values.max() / values.min())) if values.size else 0.0


def _bars(drawing: Drawing, figure: Figure, grid: list[Axes], look: Theme) -> None:
    needing = [(axes, panel) for axes, panel in zip(grid, figure.panels, strict=True) if legends.has_bar(panel)]
    common = legends.shared_bar(figure)
    if common is not None and len(needing) == len(grid):
        _bar(drawing, grid, common, [m for _, panel in needing for m in panel.marks], look)
    else:
        for axes, panel in needing:
            if panel.colours is not None:
                _bar(drawing, [axes], panel.colours, list(panel.marks), look)


def _bar(drawing: Drawing, grid: list[Axes], scale: ColourScale, marks: list[Mark], look: Theme) -> None:
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    anchors = look.diverging if scale.kind == "diverging" else look.sequential
    places = np.linspace(0, 1, 256)
    picture = ScalarMappable(Normalize(0, 1), ListedColormap([blend(anchors, float(p)) for p in places]))
    named = legends.ticks(scale, marks)
    bar = drawing.colorbar(picture, ax=grid, fraction=0.06, pad=0.02, aspect=25)
    bar.set_ticks([scale.position(v) for v in named], labels=[number(v, 3) for v in named])
    bar.ax.tick_params(labelsize=SMALL, labelfontfamily=FONT, colors=look.muted, length=3)
    bar.outline.set_visible(False)
    bar.set_label(scale.label, fontsize=SIZE, color=look.ink, family=FONT)


def _legend(
    owner: Any, rows: tuple[legends.Entry, ...], panels: tuple[Panel, ...], look: Theme, columns: int, **place: Any
) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Any] = []
    for row in [row for i in range(columns) for row in rows[i::columns]]:
        scale = next((p.colours for p in panels if row.colour is not None and p.colours is not None), None)
        colour = entry_colour(row.role, row.colour, row.plain, scale, look)
        stroke = STROKES[row.role]
        if row.empty:
            handles.append(Patch(**hatched(look), label=row.text))
        elif row.kind in ("area", "cells"):
            fill = colour if row.shade is None else shaded(colour, row.shade, look)
            handles.append(Patch(facecolor=fill, label=row.text))
        elif row.kind == "band":
            handles.append(Patch(facecolor=colour, alpha=1 - (1 - BAND_OPACITY) ** row.depth, label=row.text))
        elif row.kind == "points":
            handles.append(Line2D([], [], linestyle="none", marker="o", markersize=6.0, color=colour, label=row.text))
        else:
            dashes: Any = (0, stroke.dash) if stroke.dash else "solid"
            handles.append(Line2D([], [], linestyle=dashes, linewidth=stroke.width, color=colour, label=row.text))
    made = owner.legend(handles=handles, ncols=columns, frameon=False, borderaxespad=0.0, handlelength=2.6,
                        columnspacing=1.4,
        labelspacing=0.42, prop={"family": FONT, "size": SMALL}, **place)  # fmt: skip
    for text in made.get_texts():
        text.set_color(look.ink)


def _table(rows: tuple[legends.Entry, ...], width: float) -> tuple[int, int]:
    """Rows and columns of a legend that fits into `width` inches."""
    if not rows:
        return 0, 1
    widest = max(len(row.text) for row in rows) * 0.6 * SMALL / 72 + 0.62
    columns = max(1, min(len(rows), int((width - 0.2) / widest)))
    lines = -(-len(rows) // columns)
    return lines, -(-len(rows) // lines)


def _own_height(panel: Panel, width: float) -> float:
    rows = legends.entries(panel)
    return 0.05 + _table(rows, width)[0] * LINE if rows else 0.0


def _wrap(text: str, width: float, size: float) -> str:
    """Break text to `width` inches at `size` points, before a formula rather than inside it."""
    return "\n".join(broken(text, max(12, int(width * 72 / (0.6 * size)))))
