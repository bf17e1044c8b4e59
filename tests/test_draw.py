"""The renderers: every kind and role is drawn, theory on top and dashed, nothing overlaps, files are whole."""

from __future__ import annotations

import itertools
import json
import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter import draw
from richter.draw.legend import entries, has_bar, shared, ticks
from richter.draw.style import DARK, LIGHT, STROKES, Theme, value_colour
from richter.errors import FileError, MissingExtraError
from richter.figure import ColourScale, Figure, Panel, mark, overlay, solution_figure
from richter.figure.data import Kind, Role
from richter.testing.zoo import members
from richter.theory import SingleNeuron

X = np.linspace(0.0, 5.0, 21)
KINDS: tuple[Kind, ...] = ("line", "points", "band", "vline", "hline", "text")
ROLES: tuple[Role, ...] = ("exact", "simulated", "measured", "target", "guide")


def one(kind: Kind, role: Role = "simulated", **options: Any) -> Panel:
    parts: dict[str, Any] = {"x": X, "y": np.exp(-X)}
    if kind == "band":
        parts["high"] = 2 * parts["y"]
    if kind == "vline":
        parts = {"x": [1.0]}
    if kind == "hline":
        parts = {"y": [0.5]}
    if kind == "text":
        parts = {"x": [1.0], "y": [0.5]}
    return Panel((mark(kind, role=role, label="<b> & label", **parts),), x="t: time", y="L: loss", **options)


def neurons() -> Figure:
    theory = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=[-4.0, -1.0, 0.0, 1.0, 4.0], beta_star=[0.0, 1.0])
    t = np.linspace(0.0, 6.0, 61)
    named = {"imbalance": ("start", [-4.0, -1.0, 0.0, 1.0, 4.0], {"symbol": "δ"})}
    exact, simulated = (run.assign_coords(named) for run in (theory.solve(t), theory.simulate(t)))
    return overlay(exact, simulated, ["mu", "phi", "kernel_distance"], by="imbalance", title="Neuron", caption="Words.")


@pytest.mark.parametrize(("kind", "role"), [*itertools.product(KINDS, ROLES)])
def test_both_renderers_draw_every_kind_and_role(kind: Kind, role: Role) -> None:
    figure = Figure((one(kind, role),))
    axes = draw.to_matplotlib(figure).axes[0]
    drawn = [*axes.lines, *axes.collections, *axes.texts]
    assert len(drawn) == 1 and drawn[0].get_zorder() > STROKES[role].order - 1
    plain = draw.to_plotly(figure).to_plotly_json()
    traces = [trace for trace in plain["data"] if list(trace["x"]) != [None]]
    shapes, texts = plain["layout"].get("shapes", ()), plain["layout"].get("annotations", ())
    assert len(traces) + len(shapes) + len(texts) == 1
    assert {"line": len(traces), "points": len(traces), "band": len(traces), "vline": len(shapes),
            "hline": len(shapes), "text": len(texts)}[kind] == 1  # fmt: skip
    if kind == "text":
        assert texts[0]["text"] == "&lt;b&gt; &amp; label"


def test_theory_lies_on_top_and_is_dashed_in_matplotlib() -> None:
    for axes in draw.to_matplotlib(neurons()).axes:
        dashed = [line for line in axes.lines if line.is_dashed()]
        solid = [line for line in axes.lines if not line.is_dashed()]
        assert len(dashed) == len(solid) == 5
        assert min(line.get_zorder() for line in dashed) > max(line.get_zorder() for line in solid)
        assert {line.get_color() for line in dashed} == {LIGHT.ink}
        assert len({line.get_color() for line in solid}) == 5 and LIGHT.ink not in {x.get_color() for x in solid}
    dark = draw.to_matplotlib(neurons(), dark=True).axes[0]
    assert {line.get_color() for line in dark.lines if line.is_dashed()} == {DARK.ink}


def test_theory_lies_on_top_and_is_dashed_in_plotly() -> None:
    plain = draw.to_plotly(neurons()).to_plotly_json()
    first = [trace for trace in plain["data"] if trace["xaxis"] == "x" and list(trace["x"]) != [None]]
    dashed = [trace["line"]["dash"] != "solid" for trace in first]
    assert dashed == [False] * 5 + [True] * 5  # later traces are drawn over earlier ones
    assert {trace["line"]["color"] for trace in first[5:]} == {LIGHT.ink}


def test_the_order_does_not_depend_on_the_order_of_the_marks() -> None:
    marks = (mark("line", X, X, role="exact"), mark("line", X, X, role="simulated"))
    traces = draw.to_plotly(Figure((Panel(marks, x="x", y="y"),))).to_plotly_json()["data"]
    real = [trace for trace in traces if list(trace["x"]) != [None]]
    assert [trace["line"]["dash"] != "solid" for trace in real] == [False, True]
    simulated, exact = draw.to_matplotlib(Figure((Panel(marks, x="x", y="y"),))).axes[0].lines
    assert exact.is_dashed() and exact.get_zorder() > simulated.get_zorder()


def test_the_numbers_arrive_in_both_renderers_with_gaps_where_undefined() -> None:
    y = np.array([1.0, np.nan, 4.0, np.inf, -1.0, 0.0])
    figure = Figure((Panel((mark("line", np.arange(6.0), y),), x="x", y="y"),))
    drawn = np.asarray(draw.to_matplotlib(figure).axes[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_array_equal(drawn, [1.0, np.nan, 4.0, np.nan, -1.0, 0.0])
    assert list(draw.to_plotly(figure).data[0].y) == [1.0, None, 4.0, None, -1.0, 0.0]
    log = Figure((Panel((mark("line", np.arange(6.0), y),), x="x", y="y", y_log=True),))
    assert list(draw.to_plotly(log).data[0].y) == [1.0, None, 4.0, None, None, None]
    drawn = np.asarray(draw.to_matplotlib(log).axes[0].lines[0].get_ydata(), dtype=float)
    np.testing.assert_array_equal(drawn, [1.0, np.nan, 4.0, np.nan, np.nan, np.nan])


def test_axes_titles_ranges_and_logs_arrive() -> None:
    panel = one("line", title="(a) A title", x_log=True, y_log=True, x_range=(0.1, 5.0), y_range=(1e-3, 1.0))
    axes = draw.to_matplotlib(Figure((panel,))).axes[0]
    assert (axes.get_xlabel(), axes.get_ylabel(), axes.get_title(loc="left")) == ("t: time", "L: loss", "(a) A title")
    assert (axes.get_xscale(), axes.get_yscale()) == ("log", "log")
    assert axes.get_xlim() == (0.1, 5.0) and axes.get_ylim() == (1e-3, 1.0)
    layout = draw.to_plotly(Figure((panel,))).layout
    assert (layout.xaxis.title.text, layout.yaxis.title.text) == ("t: time", "L: loss")
    assert (layout.xaxis.type, layout.yaxis.type) == ("log", "log")
    assert tuple(layout.yaxis.range) == pytest.approx((-3.0, 0.0))


def test_what_is_undefined_everywhere_is_said() -> None:
    figure = Figure((Panel((mark("line", X, X * np.nan),), x="x", y="φ"),))
    assert [text.get_text() for text in draw.to_matplotlib(figure).axes[0].texts] == ["not defined here"]
    assert [text.text for text in draw.to_plotly(figure).layout.annotations] == ["not defined here"]


def long_words() -> Figure:
    words = "a long name of an axis that says what is drawn, ‖K − K₀‖/‖K₀‖"
    marks = [mark("line", X, X**p, label=f"a long label number {p}", colour=f"c{p}") for p in range(8)]
    panels = [Panel((m,), x=words, y=f"L: {words}", title=f"({i}) {words}") for i, m in enumerate(marks)]
    panels[3] = Panel(tuple(marks), x=words, y=words)
    return Figure(tuple(panels[:6]), "A title " * 12, "A caption. " * 40)


def many_values() -> Figure:
    marks = tuple(mark("line", X, np.sin(X + p), label=f"p = {p}", colour=p) for p in np.linspace(-3, 3, 12).tolist())
    return Figure((Panel(marks, x="x", y="y", title="bar"), one("line"), one("points")), "Bars", "Words.")


@pytest.mark.parametrize("columns", [None, 1], ids=["wide", "narrow"])
@pytest.mark.parametrize("make", [neurons, long_words, many_values, lambda: Figure((one("band"),), "T", "C")])
def test_nothing_overlaps_or_leaves_the_paper(make: Any, columns: int | None) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    drawing = draw.to_matplotlib(make(), columns=columns)
    canvas = FigureCanvasAgg(drawing)
    canvas.draw()
    renderer = canvas.get_renderer()
    things = [axes for axes in drawing.axes if axes.get_visible()] + list(drawing.legends) + list(drawing.texts)
    boxes = [thing.get_tightbbox(renderer) for thing in things]
    paper = drawing.bbox.padded(1.0)
    for i, box in enumerate(boxes):
        assert box is not None
        assert paper.x0 <= box.x0 and box.x1 <= paper.x1 and paper.y0 <= box.y0 and box.y1 <= paper.y1, things[i]
        for j in range(i):
            other = boxes[j]
            assert other is not None and not box.padded(-1.0).overlaps(other.padded(-1.0)), (things[i], things[j])
    for axes in drawing.axes:
        legend = axes.get_legend()
        if legend is not None:
            box = legend.get_tightbbox(renderer)
            under = axes.xaxis.get_tightbbox(renderer)
            assert box is not None and under is not None and not box.overlaps(under)


def test_one_legend_serves_all_panels_when_colours_mean_the_same() -> None:
    rows = shared(neurons())
    assert rows is not None
    assert [row.text for row in rows] == [
        "δ = −4", "δ = −1", "δ = 0", "δ = 1", "δ = 4", "exact solution", "simulated",
    ]  # fmt: skip
    drawing = draw.to_matplotlib(neurons())
    (legend,) = drawing.legends
    assert {text.get_text() for text in legend.get_texts()} == {row.text for row in rows}
    listed = [trace.name for trace in draw.to_plotly(neurons()).data if trace.showlegend]
    assert listed == [row.text for row in rows]
    mixed = Figure((*neurons().panels[:1], long_words().panels[3]))
    assert shared(mixed) is None
    drawing = draw.to_matplotlib(mixed)
    assert not drawing.legends and all(axes.get_legend() is not None for axes in drawing.axes)


def test_many_numbers_get_a_colour_bar_instead_of_a_legend() -> None:
    panel = many_values().panels[0]
    assert has_bar(panel) and entries(panel) == ()
    assert len(draw.to_matplotlib(Figure((panel,))).axes) == 2
    bars = [t for t in draw.to_plotly(Figure((panel,))).data if t.marker.showscale]
    assert len(bars) == 1 and bars[0].marker.colorbar.ticktext[0] == "−3"
    assert panel.colours is not None
    places = [panel.colours.position(v) for v in ticks(panel.colours, panel.marks)]
    assert min(np.diff(places)) >= 1 / 7 - 1e-12


def test_a_panel_without_legend_has_none() -> None:
    assert entries(one("line", legend=False)) == ()


@pytest.mark.parametrize("look", [LIGHT, DARK], ids=["light", "dark"])
def test_colours_stand_out_from_the_paper_and_from_each_other(look: Theme) -> None:
    scale = ColourScale(kind="diverging", low=-1, high=1)
    colours = [*look.categories, look.ink, look.muted]
    colours += [value_colour(v, scale, look) for v in (-1.0, -0.5, 0.0, 0.5, 1.0)]
    colours += [value_colour(v, ColourScale(kind="sequential"), look) for v in (0.0, 0.5, 1.0)]
    for colour in colours:
        assert contrast(colour, look.paper) > 2.0, colour
    assert contrast(look.muted, look.paper) > 4.5 and contrast(look.ink, look.paper) > 12
    for together in (look.categories, look.diverging[::2], look.sequential):
        for first, second in itertools.combinations(together, 2):
            apart = max(abs(int(first[i : i + 2], 16) - int(second[i : i + 2], 16)) for i in (1, 3, 5))
            assert apart >= 30, (first, second)


def contrast(first: str, second: str) -> float:
    def light(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [p / 12.92 if p <= 0.03928 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted((light(first), light(second)))
    return (high + 0.05) / (low + 0.05)


ONE_OF_EACH = {type(member.make()).__name__: member for member in members()}
BATCHES = [member for member in members() if member.name.endswith(("batch", "far-upstream", "at-rest"))]


@pytest.mark.parametrize("member", [*ONE_OF_EACH.values(), *BATCHES], ids=lambda m: m.name)
def test_every_theorys_picture_can_be_drawn(member: Any) -> None:
    figure = solution_figure(member.make().solve([*member.times, np.inf]))
    assert draw.drawn(figure, "svg").startswith(b"<?xml")
    assert len(draw.to_plotly(figure).data) >= len(figure.panels)


@pytest.mark.parametrize(
    ("name", "start"), [("f.png", b"\x89PNG"), ("f.SVG", b"<?xml"), ("f.pdf", b"%PDF"), ("f.html", b"<!doctype html>")]
)
def test_save_picks_the_renderer_by_the_suffix(tmp_path: Path, name: str, start: bytes) -> None:
    made = draw.save(Figure((one("line"),)), tmp_path / name)
    assert made == tmp_path / name and made.read_bytes().startswith(start)
    assert [path.name for path in tmp_path.iterdir()] == [name]  # no part left behind


def test_save_says_what_is_wrong(tmp_path: Path) -> None:
    figure = Figure((one("line"),))
    with pytest.raises(FileError, match=r"must end in .png, .svg, .pdf or .html. Got .*f.jpg"):
        draw.save(figure, tmp_path / "f.jpg")
    with pytest.raises(FileError, match="the folder of the figure must exist. Got .*nowhere"):
        draw.save(figure, tmp_path / "nowhere" / "f.png")
    (tmp_path / "f.svg").mkdir()
    with pytest.raises(FileError, match="could not be written"):
        draw.save(figure, tmp_path / "f.svg")
    assert [path.name for path in tmp_path.iterdir()] == ["f.svg"]


def test_a_failed_drawing_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    target = tmp_path / "f.png"
    target.write_bytes(b"old")
    monkeypatch.setattr("os.replace", lambda *_: (_ for _ in ()).throw(OSError("disk full")))
    with pytest.raises(FileError, match="disk full"):
        draw.save(Figure((one("line"),)), target)
    assert target.read_bytes() == b"old" and [path.name for path in tmp_path.iterdir()] == ["f.png"]


@pytest.mark.parametrize("library", ["matplotlib", "plotly"])
def test_a_missing_library_is_named_with_its_extra(library: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.setitem(sys.modules, name, None)
    monkeypatch.setitem(sys.modules, library, None)
    figure = Figure((one("line"),))
    with pytest.raises(MissingExtraError, match=re.escape('pip install "richter[plot]"')):
        draw.to_matplotlib(figure) if library == "matplotlib" else draw.to_plotly(figure)
    if library == "plotly":
        with pytest.raises(MissingExtraError, match=library):
            draw.to_html(figure)


def test_drawing_touches_no_global_state() -> None:
    import matplotlib

    before = dict(matplotlib.rcParams)
    draw.drawn(neurons(), "svg")
    assert dict(matplotlib.rcParams) == before
    if "matplotlib.pyplot" in sys.modules:
        assert sys.modules["matplotlib.pyplot"].get_fignums() == []


def test_the_interactive_page_is_whole_and_safe() -> None:
    figure = Figure((one("line", title="</script><i>"),), "<i>Title", "</script> & caption")
    page = draw.to_html(figure)
    assert len(page) < 6e6
    assert "<title>&lt;i&gt;Title</title>" in page and '<html lang="en">' in page
    assert "<p>&lt;/script&gt; &amp; caption</p>" in page
    own = page[page.rindex("<script>") :]
    assert own.count("</script>") == 1  # nothing of ours can end it
    assert not re.search(r"<(script|link|img)[^>]+(src|href)=", page[page.rindex("</style>") :][:200])
    plots = json.loads(own[own.rindex(")(") + 2 : own.rindex(")</script>")])[0]
    assert plots[0][0] == "panel-0" and plots[0][2]["xaxis"]["title"]["text"] == "t: time"
