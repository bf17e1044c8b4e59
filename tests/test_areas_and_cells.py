"""Areas and cells: what they may hold, and that both renderers draw the same of them."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from richter import draw
from richter.draw.layers import stages
from richter.draw.legend import entries, has_bar, round_numbers, ticks
from richter.draw.style import DARK, LIGHT, edges, fill_colour, value_colour
from richter.errors import ParameterError
from richter.figure import (
    ColourScale,
    Figure,
    Mark,
    Panel,
    View,
    differences,
    from_plain,
    mark,
    scene,
    surface,
    to_plain,
)
from richter.figure.data import scale_of
from richter.testing.tolerances import IDENTITY, assert_close

SQUARE = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
X, Y = np.geomspace(1e-3, 1e1, 5), np.geomspace(1e-2, 1e2, 3)
NUMBERS = np.array([[1.0, 2.0, 3.0, 4.0, 5.0], [10.0, np.nan, 30.0, 40.0, 50.0], [0.1, 0.2, 0.3, 0.4, 0.5]])
WORDS = ("rich", "lazy", "frozen")


def area(shift: float = 0.0, up: float = 0.0, **options: Any) -> Mark:
    return mark("area", SQUARE[:, 0] + shift, SQUARE[:, 1] + up, **options)


def cells(**options: Any) -> Mark:
    return mark("cells", X, Y, **{"values": NUMBERS, "label": "S: distance", **options})


def places() -> np.ndarray:
    return np.array([[0.0, 1, 2, 0, 1], [1, np.nan, 2, 2, 0], [0, 0, 0, 0, 0]])


def figure(*marks: Mark, **options: Any) -> Figure:
    return Figure((Panel(marks, **{"x": "x: first", "y": "y: second", **options}),))


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


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mark("area", [0, 1], [0, 1]), "an area must have at least three corners. Got 2."),
        (lambda: mark("area", [0, 1, 2], [0, 1]), "`x` and `y` of a area must have the same length. Got 3 and 2."),
        (lambda: mark("line", [0], [0], edge=True), "`edge` of a mark must be given for an area only. Got a line."),
        (lambda: mark("line", [0], [0], shade=0.5), "`shade` of a mark must be given for an area only. Got a line."),
        (lambda: mark("line", [0], [0], values=[[0]]), "`values` of a mark must be given for cells only. Got a line."),
        (lambda: area(words=["a"]), "`words` of a mark must be given for cells only. Got a area."),
        (lambda: area(shade=1.5), "`shade` of a mark must be from 0 (dark) to 1 (light). Got 1.5."),
        (lambda: area(order=np.nan), "`order` of a mark must be a finite number. Got nan."),
        (lambda: mark("cells", [0, 1], [0]), "`values` of cells must have shape (1, 2): one row per entry of `y`"),
        (lambda: cells(values=NUMBERS.T), "one column per entry of `x`. Got shape (5, 3)."),
        (lambda: cells(values=[1.0]), "`values` of cells must be a table of numbers. Got shape (1,)."),
        (lambda: cells(values=[["a"]]), "`values` of cells must be a table of numbers."),
        (lambda: cells(colour="a"), "`colour` of cells must be left out. Got a. Their values say it."),
        (lambda: mark("cells", [1, 0], [0], values=[[0, 0]]), "`x` of cells must be finite and increasing. Got [1.0, 0.0]."),
        (lambda: mark("cells", [0], [np.inf], values=[[0]]), "`y` of cells must be finite and increasing. Got [inf]."),
        (lambda: cells(words=WORDS), "`values` of cells must be places in `words`, 0 to 2, or NaN. Got 3.0."),
        (lambda: cells(words=("a", "a")), "`words` of cells must be all different. Got ['a', 'a']."),
        (lambda: cells(words="ab"), "`words` of cells must be a list of words. Got ab."),
        (lambda: figure(mark("cells", [0, 1], [1], values=[[0, 0]]), x_log=True), "must be > 0 on a log axis. Got 0.0."),
        (
            lambda: figure(area(), equal=True, x_log=True),
            "the axes of an `equal` panel must be both linear or both logarithmic. Got x logarithmic, y linear.",
        ),
        (
            lambda: figure(cells(values=places(), words=WORDS), colours=ColourScale(categories=("rich",))),
            "`colour` of a mark must be on the panel's scale: rich. Got lazy.",
        ),
        (
            lambda: figure(cells(), area(colour="a")),
            "the colours of a panel must be all numbers or all words.",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_filled_is_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(ParameterError) as found:
        make()
    assert says in str(found.value) and "\n" not in str(found.value)


def test_the_plain_form_carries_areas_and_cells() -> None:
    marks = (cells(), area(colour=2.0, edge=True, order=1.5, shade=0.25, label="a", group="g"))
    words = cells(values=places(), words=WORDS, label="")
    first = Panel(marks, x="x", y="y", x_log=True, y_log=True, equal=True, frame=False)
    whole = Figure((first, Panel((words,), x="x", y="y")), "T", "C")
    plain = json.loads(json.dumps(to_plain(whole), allow_nan=False))
    assert plain["panels"][0]["marks"][0]["values"][1] == [10.0, None, 30.0, 40.0, 50.0]
    again = from_plain(plain)
    assert differences(again, whole, rtol=0.0) == [] == differences(whole, again, rtol=0.0)
    assert (again.panels[0].equal, again.panels[0].frame) == (True, False)
    assert (again.panels[1].equal, again.panels[1].frame) == (False, True)
    back = again.panels[0].marks[1]
    assert (back.edge, back.order, back.shade, back.colour) == (True, 1.5, 0.25, 2.0)
    assert again.panels[1].marks[0].words == WORDS and again.panels[1].colours == whole.panels[1].colours
    old = to_plain(figure(mark("line", [0], [0])))["panels"][0]
    assert not {"equal", "frame"} & set(old) and not {"values", "order", "edge", "words"} & set(old["marks"][0])


def test_differences_see_every_part_of_a_fill() -> None:
    changed = NUMBERS.copy()
    changed[2, 4] *= 1 + 1e-6
    (line,) = differences(figure(cells()), figure(cells(values=changed), colours=figure(cells()).panels[0].colours))
    assert line.startswith("figure.panels[0].marks[0].values[2]: numbers differ by 5e-07")
    for options in ({"edge": True}, {"order": 2.0}, {"shade": 0.5}):
        (name,) = options
        for first, second in ((area(), area(**options)), (area(**options), area())):
            (line,) = differences(figure(first), figure(second))
            assert line.startswith(f"figure.panels[0].marks[0].{name}: ")
    assert differences(figure(area()), figure(area(), equal=True)) == ["figure.panels[0].equal: None, True"]
    other = figure(cells(values=places(), words=("poor", "lazy", "frozen")))
    assert any(
        "words[0]: 'rich', 'poor'" in line for line in differences(figure(cells(values=places(), words=WORDS)), other)
    )


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


def test_stages_are_as_few_as_the_overlaps_need(seed: int) -> None:
    tiles = [SQUARE + [i, j] for i in range(6) for j in range(6)]
    assert set(stages(tiles, list(range(36)))) == {0}  # neighbours only touch
    stack = [SQUARE * (1 - 0.1 * i) for i in range(5)]
    assert stages(stack, [0.0, 1.0, 2.0, 3.0, 4.0]) == [0, 1, 2, 3, 4]
    assert stages(stack, [4.0, 3.0, 2.0, 1.0, 0.0]) == [4, 3, 2, 1, 0]
    assert stages(stack, [1.0] * 5) == [0] * 5
    triangle, near = np.array([[0.0, 0], [1, 0], [0, 1]]), np.array([[1.0, 1], [1, 0.2], [0.2, 1]])
    assert stages([triangle, near], [0.0, 1.0]) == [0, 0]  # only their boxes overlap
    assert stages([triangle, near - 0.2], [0.0, 1.0]) == [0, 1]
    rng = np.random.default_rng([seed, 91])
    many = [SQUARE @ rng.normal(size=(2, 2)) + rng.uniform(0, 6, 2) for _ in range(60)]
    found = stages(many, list(range(60)))
    inside = rng.uniform(0, 6, (400, 2))
    from matplotlib.path import Path as Outline

    over = np.array([Outline(polygon).contains_points(inside) for polygon in many])
    for i, j in zip(*np.nonzero(np.triu(over.astype(int) @ over.T.astype(int), 1)), strict=True):
        assert found[i] < found[j]


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


@pytest.mark.parametrize(
    ("scale", "wanted"),
    [
        (ColourScale(kind="sequential", low=-0.3, high=0.95), [-0.2, 0, 0.2, 0.4, 0.6, 0.8]),
        (ColourScale(kind="sequential", low=2.0, high=2.0), [2.0]),
        (ColourScale(kind="sequential", low=1e-9, high=1e9, spacing="log"), [1e-9, 1e-6, 1e-3, 1, 1e3, 1e6, 1e9]),
        (ColourScale(kind="sequential", low=0.3, high=4.0, spacing="log"), [0.5, 1, 2]),
        (ColourScale(kind="sequential", low=1.1, high=1.9, spacing="log"), [1.1, 1.9]),
        (ColourScale(kind="diverging", low=-3.0, high=1.0), [-3, -2, -1, 0, 1, 2, 3]),
        (ColourScale(kind="diverging", low=-0.98, high=0.5, spacing="symlog"), [-0.5, -0.1, 0, 0.1, 0.5]),
        (ColourScale(kind="diverging", low=0.01, high=10, spacing="log"), [0.01, 0.1, 1, 10, 100]),
    ],
)
def test_a_colour_bar_names_round_numbers(scale: ColourScale, wanted: list[float]) -> None:
    given = mark("cells", [0, 1], [0], values=[[scale.low, scale.high]])
    got = ticks(scale, [given])
    assert len(got) == len(wanted)
    assert_close(got, wanted, IDENTITY)
    assert set(got) <= set(round_numbers(scale))


def test_positions_of_many_are_those_of_one() -> None:
    numbers = [-5.0, -0.1, 0.0, 0.02, 1.0, 30.0, np.inf]
    for kind in ("sequential", "diverging"):
        for spacing, low in (("linear", -1.0), ("log", 0.01), ("symlog", -1.0)):
            scale = ColourScale(kind=kind, low=low, high=10.0, spacing=spacing)  # type: ignore[arg-type]
            found = scale.positions(numbers)
            np.testing.assert_array_equal(found, [scale.position(x) for x in numbers])
            assert (np.diff(found) >= 0).all() and found.min() >= 0 and found[-1] == 1.0
            assert np.isnan(scale.position(np.nan))
    assert ColourScale(kind="diverging", low=0.01, high=10.0, spacing="log").position(1.0) == 0.5
    fill = figure(mark("cells", [0, 1, 2], [0], values=[[-1.0, 1e-9, 2.0]])).panels[0].colours
    assert fill is not None and (fill.kind, fill.spacing) == ("diverging", "linear")


def test_edges_lie_between_the_centres() -> None:
    assert_close(edges(np.array([0.0, 1.0, 3.0]), log=False), [-0.5, 0.5, 2.0, 4.0], IDENTITY)
    assert_close(edges(np.array([1.0, 4.0, 64.0]), log=True), [0.5, 2.0, 16.0, 256.0], IDENTITY)
    lone = edges(np.array([2.0]), log=True)
    assert lone[0] < 2.0 < lone[1] and lone[0] * lone[1] == pytest.approx(4.0)


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


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_shades_are_lighter_towards_the_light(dark: bool) -> None:
    look = DARK if dark else LIGHT
    light = [sum(int(fill_colour(area(shade=s), None, look)[i : i + 2], 16) for i in (1, 3, 5)) for s in (0, 0.5, 1)]
    assert light[0] < light[1] < light[2]
    labelled = figure(area(shade=0.2, label="surface"), area(2.0, shade=0.9, label="surface"))
    (row,) = entries(labelled.panels[0])
    assert (row.text, row.shade) == ("surface", 0.5)
    assert draw.to_matplotlib(labelled, dark=dark).legends[0].get_patches()
    assert [trace.name for trace in draw.to_plotly(labelled, dark=dark).data if trace.showlegend] == ["surface"]


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
