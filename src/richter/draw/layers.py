"""What is drawn before what: the same for both renderers."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from richter.draw.style import STROKES, edges
from richter.figure.data import Floats, Mark, Panel

_TOUCHING = 1e-6  # of the larger polygon's size: neighbours that share an edge do not cover each other


def height(mark: Mark) -> float:
    """How far up a mark lies: cells and areas above the grid lines and below all strokes, texts on top."""
    stroke = STROKES[mark.role].order
    if mark.kind in ("cells", "area"):
        return 0.6 + 0.01 * stroke
    if mark.kind == "text":
        return 9.0
    return stroke - 0.3 if mark.kind == "band" else float(stroke)


def layers(panel: Panel) -> list[tuple[float, list[Mark]]]:
    """Marks in the order in which they are drawn, with their height; areas that follow each other come together."""
    made: list[tuple[float, list[Mark]]] = []
    for mark in sorted(panel.marks, key=lambda m: (height(m), m.order)):
        level = height(mark)
        if made and mark.kind == "area" and made[-1][1][-1].kind == "area" and made[-1][0] == level:
            made[-1][1].append(mark)
        else:
            made.append((level, [mark]))
    return made


def limits(panel: Panel, name: Literal["x", "y"]) -> tuple[float, float] | None:
    """The range of an axis: what the panel says, else the outer edges of its cells; None to fit the marks."""
    given, log = (panel.x_range, panel.x_log) if name == "x" else (panel.y_range, panel.y_log)
    grids = [edges(m.x if name == "x" else m.y, log) for m in panel.marks if m.kind == "cells"]
    if given is not None or not grids:
        return given
    return min(float(grid[0]) for grid in grids), max(float(grid[-1]) for grid in grids)


def stages(corners: list[Floats], orders: list[float]) -> list[int]:
    """The stage at which each polygon can be drawn, so that it covers those of a smaller order that it overlaps.

    Polygons of one stage do not overlap, or have the same order: they can be drawn together. `corners` are
    arrays (k, 2), drawn in the sense of `orders`. Exact for convex polygons; others may be kept further apart
    than needed.

    >>> square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    >>> stages([square, square + [1.0, 0.0], square + [0.5, 0.5]], [0.0, 1.0, 2.0])
    [0, 0, 1]
    """
    made = [0] * len(corners)
    if len(set(orders)) < 2:
        return made
    widest = max(len(polygon) for polygon in corners)
    padded = np.stack([np.pad(polygon, ((0, widest - len(polygon)), (0, 0)), mode="edge") for polygon in corners])
    first, second = _boxes_overlap(padded, np.asarray(orders))
    meet = _overlap(padded, first, second)
    pairs = zip(first[meet].tolist(), second[meet].tolist(), strict=True)
    for below, above in sorted(pairs, key=lambda pair: orders[pair[1]]):  # so that what lies below is settled
        made[above] = max(made[above], made[below] + 1)
    return made


def _boxes_overlap(padded: Floats, orders: Floats) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Pairs (below, above) whose bounding boxes overlap."""
    low, high = padded.min(axis=1), padded.max(axis=1)
    slack = _TOUCHING * (high - low).max()
    below, above = [], []
    for i in range(len(padded)):
        found = np.flatnonzero((orders < orders[i]) & ((low < high[i] - slack) & (high > low[i] + slack)).all(axis=1))
        below.append(found)
        above.append(np.full(found.size, i))
    return np.concatenate(below), np.concatenate(above)


def _overlap(padded: Floats, first: NDArray[np.intp], second: NDArray[np.intp]) -> NDArray[np.bool_]:
    """Whether no edge of either polygon separates the two."""
    apart = np.zeros(len(first), bool)
    step = max(1, 2_000_000 // padded.shape[1] ** 2)
    for start in range(0, len(first), step):
        part = slice(start, start + step)
        a, b = padded[first[part]], padded[second[part]]
        for own in (a, b):
            edge = np.roll(own, -1, axis=1) - own
            length = np.linalg.norm(edge, axis=-1)
            normal = np.stack([edge[..., 1], -edge[..., 0]], axis=-1)
            ours, theirs = (np.einsum("pij,pkj->pik", normal, polygon) for polygon in (a, b))
            gap = np.maximum(theirs.min(-1) - ours.max(-1), ours.min(-1) - theirs.max(-1))
            span = np.maximum(np.ptp(ours, axis=-1), np.ptp(theirs, axis=-1))
            apart[part] |= ((gap >= -_TOUCHING * span) & (length > 0)).any(axis=1)
    return ~apart
