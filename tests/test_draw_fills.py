"""Areas and cells: both renderers draw the same of them."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from richter import draw
from richter.draw.legend import entries, has_bar, ticks
from richter.draw.style import DARK, LIGHT, fill_colour, value_colour
from richter.figure import (
    ColourScale,
    Figure,
    Mark,
    Panel,
    View,
    mark,
    scene,
    surface,
)
from richter.figure.data import scale_of
from richter.testing.tolerances import IDENTITY, assert_close
from tests.test_areas_and_cells import NUMBERS, WORDS, X, Y, area, cells, figure, places


def drawn(traces: Any) -> list[dict[str, Any]]:
    return [trace for trace in traces.to_plotly_json()["data"] if list(trace["x"]) != [None]]


def picture(shown: Figure, dark: bool = False) -> Any:
    """Axes, and a function that says the colour drawn at a place."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawing = draw.to_matplotlib(shown, dark=dark)
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    pixels = np.asarray(canvas.buffer_rgba())
    axes = drawing.axes[0]

    def colour(x: float, y: float) -> str:
        across, up = axes.transData.transform((x, y))
        red, green, blue, _ = pixels[pixels.shape[0] - 1 - int(up), int(across)]
        return f"#{red:02x}{green:02x}{blue:02x}"

    return axes, colour


def test_areas_of_numbers_have_their_colours_in_both_renderers() -> None:
    marks = [area(i, colour=float(i), edge=i == 2) for i in range(4)]
    scale = ColourScale("d: distance", "sequential", 0.0, 3.0)
    shown = figure(*marks, colours=scale)
    wanted = [fill_colour(m, scale, LIGHT) for m in marks]
    assert len(set(wanted)) == 4 and wanted[0] == LIGHT.sequential[0] and wanted[3] == LIGHT.sequential[-1]
    axes, colour = picture(shown)
    (collection,) = axes.collections
    assert type(collection).__name__ == "PolyCollection" and len(collection.get_paths()) == 4
    assert [colour(i + 0.5, 0.5) for i in range(4)] == wanted
    lines = collection.get_linewidths()
    assert lines[2] < lines[0] and tuple(collection.get_edgecolors()[0]) == tuple(collection.get_facecolors()[0])
    assert tuple(collection.get_edgecolors()[2]) != tuple(collection.get_facecolors()[2])
    traces = drawn(draw.to_plotly(shown))
    assert [trace["fillcolor"] for trace in traces] == wanted and {trace["fill"] for trace in traces} == {"toself"}
    assert list(traces[1]["x"]) == [1, 2, 2, 1, 1] and list(traces[1]["y"]) == [0, 0, 1, 1, 0]
    assert [trace["line"]["color"] == trace["fillcolor"] for trace in traces] == [True, True, False, True]
    assert traces[3]["text"] == "d ≈ 3"


def test_areas_of_one_colour_share_a_trace_with_gaps() -> None:
    marks = [area(i, colour="ab"[i % 2], label=f"region {i}") for i in range(4)]
    first, second = drawn(draw.to_plotly(figure(*marks)))
    assert list(first["x"]) == [0, 1, 1, 0, 0, None, 2, 3, 3, 2, 2] and first["text"] == "a"
    assert second["fillcolor"] == LIGHT.categories[1]
    lone = drawn(draw.to_plotly(figure(area(label="<b>", group="g", role="exact"))))
    assert lone[0]["text"] == "g · &lt;b&gt;" and lone[0]["fillcolor"] == LIGHT.ink


def test_areas_that_cannot_be_drawn_are_left_out_whole() -> None:
    marks = [area(1.0, 1.0), area(0.0, 1.0), mark("area", [1, 2, np.nan], [1, 1, 2])]
    shown = figure(*marks, x_log=True)
    assert len(draw.to_matplotlib(shown).axes[0].collections[0].get_paths()) == 1
    assert list(drawn(draw.to_plotly(shown))[0]["x"]) == [1, 2, 2, 1, 1]
    nothing = figure(marks[2])
    assert [text.get_text() for text in draw.to_matplotlib(nothing).axes[0].texts] == ["not defined here"]
    assert drawn(draw.to_plotly(nothing)) == []


@pytest.mark.parametrize("turned", [False, True])
def test_the_order_decides_what_covers_what(turned: bool) -> None:
    low, high = area(colour="low", order=1.0), area(0.5, 0.5, colour="high", order=2.0)
    apart = area(5.0, colour="high", order=0.0)
    marks = (high, low, apart) if turned else (low, high, apart)
    scale = ColourScale(categories=("low", "high"))
    shown = figure(*marks, colours=scale)
    _, colour = picture(shown)
    assert colour(0.75, 0.75) == colour(5.5, 0.5) == LIGHT.categories[1] and colour(0.25, 0.25) == LIGHT.categories[0]
    fills = [trace["fillcolor"] for trace in drawn(draw.to_plotly(shown))]
    assert fills.index(LIGHT.categories[0]) < len(fills) - 1 - fills[::-1].index(LIGHT.categories[1])
    swapped = figure(*(replace(m, order=-m.order) for m in marks), colours=scale)
    assert picture(swapped)[1](0.75, 0.75) == LIGHT.categories[0]
    assert drawn(draw.to_plotly(swapped))[-1]["fillcolor"] == LIGHT.categories[0]


def test_fills_lie_under_every_stroke_and_over_the_grid() -> None:
    line = mark("line", [0.0, 1.0], [0.5, 0.5], role="guide")
    shown = figure(line, area(role="exact"), mark("cells", [0.2, 0.8], [0.5], values=[[0, 1]], role="measured"))
    axes = draw.to_matplotlib(shown).axes[0]
    fills = [artist.get_zorder() for artist in axes.collections]
    assert 0.5 < min(fills) and max(fills) < axes.lines[0].get_zorder()
    traces = drawn(draw.to_plotly(shown))
    assert [trace["type"] for trace in traces] == ["heatmap", "scatter", "scatter"]
    assert traces[1]["fill"] == "toself" and "fill" not in traces[2]


def test_five_thousand_areas_are_practical(seed: int) -> None:
    rng = np.random.default_rng([seed, 92])
    marks = tuple(area(i % 71, i // 71, colour=float(c)) for i, c in enumerate(rng.uniform(size=5000)))
    shown = figure(*marks)
    start = time.perf_counter()
    content = draw.drawn(shown, "png")
    took = time.perf_counter() - start
    assert content.startswith(b"\x89PNG") and took < 2.0
    assert len(draw.to_matplotlib(shown).axes[0].collections) == 1
    traces = drawn(draw.to_plotly(shown))
    assert len(traces) <= 97 and sum(list(trace["x"]).count(None) + 1 for trace in traces) == 5000


def test_cells_of_numbers_arrive_with_gaps_and_log_edges() -> None:
    shown = figure(cells(), x_log=True, y_log=True)
    scale = shown.panels[0].colours
    assert scale is not None and (scale.label, scale.spacing, scale.low, scale.high) == (
        "S: distance",
        "log",
        0.1,
        50.0,
    )
    axes, colour = picture(shown)
    (mesh,) = [part for part in axes.collections if type(part).__name__ == "QuadMesh"]
    got = np.ma.asarray(mesh.get_array()).reshape(3, 5)
    np.testing.assert_array_equal(np.ma.getmaskarray(got), np.isnan(NUMBERS))
    assert_close(got.filled(np.nan), scale.positions(NUMBERS), IDENTITY)
    wide = np.geomspace(10**-3.5, 10**1.5, 6)
    assert_close(mesh.get_coordinates()[0, :, 0], wide, IDENTITY)
    assert axes.get_xlim() == pytest.approx((wide[0], wide[-1]), rel=1e-12)  # as the edges
    for i, x in enumerate(X):
        here, wanted = colour(x, Y[2]), value_colour(NUMBERS[2, i], scale, LIGHT)
        assert max(abs(int(here[k : k + 2], 16) - int(wanted[k : k + 2], 16)) for k in (1, 3, 5)) < 4  # 256 steps
    (hatch,) = [patch for patch in axes.patches if patch.get_hatch()]
    assert hatch.get_zorder() < mesh.get_zorder()
    around = {colour(X[1] * 10**dx, Y[1] * 10**dy) for dx in np.linspace(-0.4, 0.4, 9) for dy in (-0.5, 0.1, 0.5)}
    assert LIGHT.paper in around and not around & {value_colour(v, scale, LIGHT) for v in (1.0, 10.0, 30.0)}
    empty, heat = drawn(draw.to_plotly(shown))
    assert heat["type"] == "heatmap" and empty["fillpattern"]["shape"] == "/"
    assert_close(heat["x"], wide, IDENTITY)
    assert heat["z"][1][1] is None and heat["z"][2][0] == 0.0 and heat["z"][1][4] == 1.0
    assert_close(empty["x"], [wide[1], wide[2], wide[2], wide[1], wide[1]], IDENTITY)
    assert heat["text"][1][4] == "50" and heat["customdata"][1][4] == [X[4], Y[1]]
    assert heat["hovertemplate"].startswith("S = %{text}<br>x = ")
    assert [row.text for row in entries(shown.panels[0])] == ["not defined"]
    assert (heat["colorscale"][0][1], heat["colorscale"][-1][1]) == (LIGHT.sequential[0], LIGHT.sequential[-1])


def test_cells_of_words_have_a_legend_of_squares_instead_of_a_bar() -> None:
    scale = ColourScale(categories=("frozen", "rich", "lazy"))  # in another order than the cells' own
    shown = figure(cells(values=places(), words=WORDS), colours=scale, x_log=True, y_log=True)
    assert not has_bar(shown.panels[0])
    rows = entries(shown.panels[0])
    assert [row.text for row in rows] == ["rich", "lazy", "frozen", "not defined"]
    _, colour = picture(shown)
    names = dict(zip(scale.categories, LIGHT.categories, strict=False))
    for (j, i), place in np.ndenumerate(places()):
        if not np.isnan(place):
            assert colour(X[i], Y[j]) == names[WORDS[int(place)]]
    (legend,) = draw.to_matplotlib(shown).legends
    from matplotlib.colors import to_hex

    patches = {text.get_text(): patch for text, patch in zip(legend.get_texts(), legend.get_patches(), strict=True)}
    assert {word: to_hex(patches[word].get_facecolor()) for word in WORDS} == {word: names[word] for word in WORDS}
    assert [word for word, patch in patches.items() if patch.get_hatch()] == ["not defined"]
    graph = draw.to_plotly(shown)
    heat = drawn(graph)[1]
    steps = dict(heat["colorscale"])
    assert [steps[z] for z in heat["z"][0]] == [names[WORDS[int(p)]] for p in places()[0]]
    assert heat["text"][1] == ["lazy", "", "frozen", "frozen", "rich"]
    listed = [trace for trace in graph.data if trace.showlegend]
    assert [trace.name for trace in listed] == [row.text for row in rows]
    assert [trace.marker.color for trace in listed[:3]] == [names[word] for word in WORDS]
    assert {trace.marker.symbol for trace in listed[:3]} == {"square"} and listed[3].fillpattern.shape == "/"
    page = draw.to_html(shown)
    assert all(f'fill="{names[word]}"' in page for word in WORDS)
    alone = figure(cells(values=np.zeros((3, 5)), words=("only",)), x_log=True, y_log=True)
    assert picture(alone)[1](X[0], Y[0]) == LIGHT.categories[0]
    assert {c for _, c in drawn(draw.to_plotly(alone))[0]["colorscale"]} == {LIGHT.categories[0]}


def test_cells_without_any_number_say_so() -> None:
    shown = figure(cells(values=NUMBERS * np.nan))
    assert [text.get_text() for text in draw.to_matplotlib(shown).axes[0].texts] == ["not defined here"]
    assert drawn(draw.to_plotly(shown)) == []


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("kind", ["area", "cells", "surface"])
def test_numbers_get_a_colour_bar_with_its_name(kind: str, dark: bool) -> None:
    look = DARK if dark else LIGHT
    few: tuple[Mark, ...] = (area(colour=0.0), area(2.0, colour=1.0)) if kind == "area" else (cells(),)
    if kind == "surface":
        grid = np.stack([*np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0]), np.zeros((2, 3))], axis=-1)
        few = surface(View(), grid, values=grid[..., 0])
    shown = figure(*few, colours=scale_of(few, "d: distance <m>"))
    panel = shown.panels[0]
    assert has_bar(panel) and panel.colours is not None
    main, bar = draw.to_matplotlib(shown, dark=dark).axes
    assert bar.get_ylabel() == "d: distance <m>"
    wanted = ticks(panel.colours, panel.marks)
    assert_close(bar.get_yticks(), panel.colours.positions(wanted), IDENTITY)
    (one,) = [
        trace for trace in draw.to_plotly(shown, dark=dark).data if trace.type == "scatter" and trace.marker.showscale
    ]
    assert one.marker.colorbar.title.text == "d: distance &lt;m&gt;"
    assert one.marker.colorscale[0][1] == look.sequential[0]
    assert_close(one.marker.colorbar.tickvals, panel.colours.positions(wanted), IDENTITY)
    assert main.collections


def test_equal_units_and_a_panel_without_frame() -> None:
    shown = figure(area(), equal=True)
    axes = draw.to_matplotlib(shown).axes[0]
    assert axes.get_aspect() == 1.0 and axes.axison
    layout = draw.to_plotly(shown).layout
    assert (layout.yaxis.scaleanchor, layout.yaxis.scaleratio, layout.xaxis.constrain) == ("x", 1, "domain")
    plain = draw.to_plotly(figure(area())).layout
    assert plain.yaxis.scaleanchor is None and plain.xaxis.visible is None
    assert draw.to_matplotlib(figure(area())).axes[0].get_aspect() == "auto"
    two = Figure((*figure(area()).panels, scene(View(), [area()], title="T")))
    axes = draw.to_matplotlib(two).axes[1]
    assert axes.get_aspect() == 1.0 and not axes.axison and axes.get_title(loc="left") == "T"
    layout = draw.to_plotly(two).layout
    assert (layout.xaxis2.visible, layout.yaxis2.visible, layout.yaxis2.scaleanchor) == (False, False, "x2")
    assert layout.xaxis.visible is None


def test_the_panel_shows_its_cells_and_no_more_unless_it_says_so() -> None:
    line = mark("line", [1e-9, 1e9], [1.0, 1.0])
    shown = figure(cells(), line, x_log=True, y_log=True, y_range=(1e-5, 1e5))
    axes, layout = draw.to_matplotlib(shown).axes[0], draw.to_plotly(shown).layout
    assert axes.get_xlim() == pytest.approx((10**-3.5, 10**1.5)) and axes.get_ylim() == (1e-5, 1e5)
    assert layout.xaxis.range == pytest.approx((-3.5, 1.5)) and layout.yaxis.range == pytest.approx((-5, 5))


def full() -> Figure:
    """Everything at once: a heat map, a phase diagram, a partition and a surface."""
    grid = np.stack([*np.meshgrid(np.linspace(-1, 1, 9), np.linspace(-1, 1, 9)), np.zeros((9, 9))], axis=-1)
    grid[..., 2] = grid[..., 0] ** 2 - grid[..., 1] ** 2
    marks = surface(View(), grid, values=grid[..., 2])
    panels = (
        Panel((cells(), mark("line", X, X, role="exact", label="boundary")), x="α: scale", y="s: relative scale of both",
              x_log=True, y_log=True, title="(a) numbers"),
        Panel((cells(values=places(), words=WORDS, label=""),), x="α: scale", y="s", x_log=True, y_log=True, title="(b)"),
        Panel(tuple(area(i % 5, i // 5, colour=f"kind {i % 3}", edge=True) for i in range(20)), x="x₁", y="x₂", equal=True),
        scene(View(), marks, colours=scale_of(marks, "f: output of the network"), title="(d) a surface"),
    )  # fmt: skip
    return Figure(panels, "Everything", "Words.")


@pytest.mark.parametrize("columns", [None, 1], ids=["wide", "narrow"])
def test_nothing_overlaps(columns: int | None) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawing = draw.to_matplotlib(full(), columns=columns)
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    things = [*drawing.axes, *drawing.legends, *drawing.texts]
    boxes = [thing.get_tightbbox(canvas.get_renderer()) for thing in things]
    for i, box in enumerate(boxes):
        assert box is not None and drawing.bbox.padded(1.0).contains(box.x0, box.y0)
        assert drawing.bbox.padded(1.0).contains(box.x1, box.y1)
        for other in boxes[:i]:
            assert other is not None and not box.padded(-1.0).overlaps(other.padded(-1.0))
