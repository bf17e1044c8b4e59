"""Reports of deep networks and of many seeds: never more colours than can be told apart, and no layer mixed up."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter.draw import drawn
from richter.figure.run import MOST_LINES, run_figures


def run(layers: list[str], scale: float) -> xr.Dataset:
    distance = scale * np.outer(np.arange(4.0), np.arange(1.0, len(layers) + 1))
    return xr.Dataset(
        {
            "loss": ("step", [1.0, 0.5, 0.25, 0.1]),
            "parameter_distance_layer_relative": (("step", "layer"), distance),
            "intensity": (("step", "mode"), np.ones((4, 3))),
        },
        {"step": np.arange(4), "layer": layers},
    )


DEEP = [f"layer{i}" for i in range(1, 7)]


def colours(panel: object) -> set[object]:
    return {m.colour for m in panel.marks if m.colour is not None}  # type: ignore[attr-defined]


def test_two_deep_runs_get_a_panel_for_each_layer_with_both_runs() -> None:
    figures = dict(
        (curve.ident, figure) for curve, figure in run_figures([("a", run(DEEP, 1.0)), ("b", run(DEEP, 2.0))])
    )
    panels = figures["parameters"].panels
    assert [panel.title for panel in panels] == DEEP
    for i, panel in enumerate(panels):
        assert colours(panel) == {"a", "b"}
        ends = {m.label: m.y[-1] for m in panel.marks}
        assert ends == {"a": 3.0 * (i + 1), "b": 6.0 * (i + 1)}
    assert len(figures["loss"].panels) == 1
    assert drawn(figures["parameters"], "svg")


def test_two_shallow_runs_share_a_panel() -> None:
    (figure,) = [
        f for c, f in run_figures([("a", run(DEEP[:2], 1.0)), ("b", run(DEEP[:2], 2.0))]) if c.ident == "parameters"
    ]
    (panel,) = figure.panels
    assert colours(panel) == {"a, layer1", "a, layer2", "b, layer1", "b, layer2"}


def test_a_layer_that_only_one_run_has_is_drawn_once() -> None:
    other = run([*DEEP[:5], "head"], 2.0)
    (figure,) = [f for c, f in run_figures([("a", run(DEEP, 1.0)), ("b", other)]) if c.ident == "parameters"]
    shown = {panel.title: colours(panel) for panel in figure.panels}
    assert shown["head"] == {"b"} and shown["layer6"] == {"a"} and shown["layer1"] == {"a", "b"}


def test_a_very_deep_run_shows_its_first_and_its_last_layer() -> None:
    deep = run([f"block{i}" for i in range(30)], 1.0)
    (figure,) = [f for c, f in run_figures([("", deep)]) if c.ident == "parameters"]
    shown = [m.label for m in figure.panels[0].marks]
    assert len(shown) == MOST_LINES and shown[0] == "block0" and shown[-1] == "block29"


@pytest.mark.parametrize("seeds", [5, 12])
def test_many_seeds_are_drawn(seeds: int) -> None:
    runs = [(f"run {i}", run(DEEP[:2], 1.0 + i)) for i in range(seeds)]
    for _, figure in run_figures(runs):
        for panel in figure.panels:
            assert len(colours(panel)) <= MOST_LINES
            assert sum(m.kind == "line" for m in panel.marks) >= seeds
