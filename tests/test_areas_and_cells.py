"""Areas and cells as data: what they may hold, their plain form, their colours and their order."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from richter import draw
from richter.draw.layers import stages
from richter.draw.legend import entries, round_numbers, ticks
from richter.draw.style import DARK, LIGHT, edges, fill_colour
from richter.errors import ParameterError
from richter.figure import (
    ColourScale,
    Figure,
    Mark,
    Panel,
    differences,
    from_plain,
    mark,
    to_plain,
)
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


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mark("area", [0, 1], [0, 1]), "an area must have at least three corners. Got 2."),
        (lambda: mark("area", [0, 1, 2], [0, 1]), "`x` and `y` of an area must have the same length. Got 3 and 2."),
        (lambda: mark("line", [0], [0], edge=True), "`edge` of a mark must be given for an area only. Got a line."),
        (lambda: mark("line", [0], [0], shade=0.5), "`shade` of a mark must be given for an area only. Got a line."),
        (lambda: mark("line", [0], [0], values=[[0]]), "`values` of a mark must be given for cells only. Got a line."),
        (lambda: area(words=["a"]), "`words` of a mark must be given for cells only. Got an area."),
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
