"""Three dimensions as plain marks: an orthographic view, surfaces, paths on them and axes.

Everything is projected here, so that both renderers draw the same polygons and lines.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.figure.data import Floats, Mark, Panel, Role, mark
from richter.figure.scale import Colour

_BLOCK = 2_000_000  # pairs of a point and a triangle looked at together
_DIGITS = 14  # coordinates are kept to this many, so that a figure does not depend on the machine's last bit


@dataclass(frozen=True)
class View:
    """A camera far away. Its direction in degrees: `azimuth` from the first axis, `elevation` above the first two.

    >>> View(azimuth=0, elevation=0).project([[5.0, 1.0, 2.0]]).tolist()
    [[1.0, 2.0]]
    """

    azimuth: float = -60.0
    elevation: float = 25.0

    def __post_init__(self) -> None:
        """Refuse what is no direction."""
        if not math.isfinite(self.azimuth):
            raise ParameterError(message("`azimuth` of a view", "be a finite angle in degrees", self.azimuth))
        if not -90 <= self.elevation <= 90:
            raise ParameterError(message("`elevation` of a view", "be from -90 to 90 degrees", self.elevation))

    @property
    def words(self) -> str:
        """A sentence for the caption."""
        return f"Orthographic view, azimuth {self.azimuth:g}°, elevation {self.elevation:g}°.".replace("-", "−")

    def axes(self) -> Floats:
        """Right, up and towards the viewer: three orthonormal rows."""
        turn, rise = math.radians(self.azimuth), math.radians(self.elevation)
        ca, sa, ce, se = math.cos(turn), math.sin(turn), math.cos(rise), math.sin(rise)
        return np.array([[-sa, ca, 0.0], [-se * ca, -se * sa, ce], [ce * ca, ce * sa, se]])

    def project(self, points: ArrayLike) -> Floats:
        """Points (…, 3) as seen, (…, 2): lengths across the line of sight are kept."""
        given = _points(points)
        return _rounded(given @ self.axes()[:2].T, given)

    def nearness(self, points: ArrayLike) -> Floats:
        """How far points (…, 3) lie towards the viewer."""
        given = _points(points)
        return _rounded(given @ self.axes()[2], given)


def surface(
    view: View,
    points: ArrayLike,
    *,
    values: ArrayLike | None = None,
    colour: Colour = None,
    label: str = "",
    role: Role = "guide",
    edge: bool = True,
    group: str = "",
) -> tuple[Mark, ...]:
    """The quadrilaterals between grid points (m, n, 3), the far ones first.

    Coloured by `values` at the grid points (m, n), else shaded by how they face the light, which comes from the
    viewer's upper left. Quadrilaterals with an undefined corner are left out. Nearness is the marks' order, so
    several surfaces in one view cover each other as they should.

    >>> x, y = np.meshgrid([0.0, 1.0, 2.0], [0.0, 1.0])
    >>> len(surface(View(), np.stack([x, y, 0 * x], axis=-1)))
    2
    """
    grid = _grid(points)
    corners = _corners(grid)
    seen, near = view.project(corners), view.nearness(corners.mean(axis=1))
    colours: list[Colour]
    if values is not None:
        given = np.asarray(values, dtype=np.float64)
        if given.shape != grid.shape[:2]:
            must = f"have one entry per grid point, shape {grid.shape[:2]}"
            raise ParameterError(message("`values` of a surface", must, f"shape {given.shape}"))
        if colour is not None:
            raise ParameterError(message("`colour` of a surface", "be left out when `values` are given", colour))
        middle = _corners(given[..., None])[..., 0].mean(axis=1)
        whole = np.isfinite(seen).all(axis=(1, 2)) & np.isfinite(middle)
        colours = middle.tolist()
    else:
        whole = np.isfinite(seen).all(axis=(1, 2))
        colours = [colour] * len(corners)
    shades = [None] * len(corners) if values is not None else _shades(view, corners).tolist()
    if not whole.any():
        raise ParameterError(message("the points of a surface", "have a quadrilateral with finite corners", "none"))
    return tuple(
        mark("area", seen[i, :, 0], seen[i, :, 1], role=role, label=label, colour=colours[i], group=group or label,
             order=float(near[i]), edge=edge, shade=shades[i])
        for i in np.argsort(near, kind="stable") if whole[i]
    )  # fmt: skip


def path(
    view: View,
    points: ArrayLike,
    *,
    behind: ArrayLike | Sequence[ArrayLike] = (),
    role: Role = "exact",
    label: str = "",
    colour: Colour = None,
    group: str = "",
    slack: float | None = None,
) -> tuple[Mark, ...]:
    """A line through points (k, 3); what lies behind one of the surfaces `behind` is drawn as a guide.

    `behind` is the grid (m, n, 3) of a surface, or several. A point counts as behind if it is further than
    `slack` from the plane of the quadrilateral before it, so that a path on the surface itself is seen. Without
    `slack` it is what flat quadrilaterals may lie beside the curved surface.

    >>> wall = [[[1, -1, -1], [1, 1, -1]], [[1, -1, 1], [1, 1, 1]]]
    >>> [m.role for m in path(View(0, 0), [[0, -3, 0], [0, -2, 0], [0, 0, 0], [0, 0.5, 0]], behind=wall)]
    ['exact', 'guide']
    """
    line = _points(points)
    if line.ndim != 2 or len(line) < 2:
        raise ParameterError(message("the points of a path", "be of shape (k, 3), k ≥ 2", f"shape {line.shape}"))
    seen, name = view.project(line), group or label
    marks = []
    for dark, start, stop in _parts(view, line, behind, slack):
        x, y = seen[start:stop].T
        if dark:
            marks.append(mark("line", x, y, role="guide", colour=colour, group=name))
        else:
            marks.append(mark("line", x, y, role=role, label=label, colour=colour, group=name))
    return tuple(marks)


def axes3(
    view: View,
    ends: ArrayLike,
    names: Sequence[str],
    *,
    origin: ArrayLike = (0.0, 0.0, 0.0),
    behind: ArrayLike | Sequence[ArrayLike] = (),
) -> tuple[Mark, ...]:
    """Three labelled axes from `origin` to `ends` along each coordinate; parts behind a surface are left out.

    >>> [m.label for m in axes3(View(), [1, 1, 2], ["w₁", "w₂", "a"]) if m.kind == "text"]
    ['w₁', 'w₂', 'a']
    """
    corner, tips = _points(origin), _points(ends)
    if corner.shape != (3,) or tips.shape != (3,):
        raise ParameterError(
            message("`ends` and `origin` of axes", "be three numbers each", f"shapes {tips.shape} and {corner.shape}")
        )
    if isinstance(names, str) or len(names) != 3:
        raise ParameterError(message("`names` of axes", "be three words", names))
    marks: list[Mark] = []
    for i, name in enumerate(names):
        tip = corner.copy()
        tip[i] = tips[i]
        line = corner + np.linspace(0.0, 1.0, 101)[:, None] * (tip - corner)
        seen = view.project(line)
        parts = [seen[start:stop] for dark, start, stop in _parts(view, line, behind, None) if not dark]
        marks += [mark("line", part[:, 0], part[:, 1], role="guide", group=name) for part in parts]
        across, up = _name_place(parts, seen[-1])
        marks.append(mark("text", across, up, role="guide", label=name))
    return tuple(marks)


def scene(view: View, marks: Iterable[Mark], **options: Any) -> Panel:
    """A panel for a view in space: equal units and no frame. `options` go to the panel."""
    named = {"x": f"across the view from azimuth {view.azimuth:g}°", "y": f"up, elevation {view.elevation:g}°"}
    return Panel(tuple(marks), **{**named, "equal": True, "frame": False, **options})


def hidden(
    view: View, points: ArrayLike, behind: ArrayLike | Sequence[ArrayLike], slack: float | None = None
) -> NDArray[np.bool_]:
    """Which of the points (k, 3) lie behind a surface, or behind one of several."""
    line = _points(points)
    covered = np.zeros(len(line), bool)
    for grid in _surfaces(behind):
        quads = _corners(grid)
        triangles = np.concatenate([quads[:, [0, 1, 2]], quads[:, [0, 2, 3]]])
        triangles = triangles[np.isfinite(triangles).all(axis=(1, 2))]
        if not len(triangles):
            continue
        room = _roughness(grid) if slack is None else slack
        step = max(1, _BLOCK // len(triangles))
        for start in range(0, len(line), step):
            covered[start : start + step] |= _covered(view, line[start : start + step], triangles, room)
    return covered


def _covered(view: View, points: Floats, triangles: Floats, room: float) -> NDArray[np.bool_]:
    """In sight a point lies in a triangle, in depth behind it, and further than `room` from its plane."""
    sight, toward = view.axes()[:2].T, view.axes()[2]
    flat, seen = triangles @ sight, points @ sight
    first, second = flat[:, 1] - flat[:, 0], flat[:, 2] - flat[:, 0]
    turned = first[:, 0] * second[:, 1] - first[:, 1] * second[:, 0]
    broad = np.abs(turned) > 1e-14 * np.maximum((first**2).sum(-1), (second**2).sum(-1))  # not seen edge-on
    triangles, flat, first, second, turned = (part[broad] for part in (triangles, flat, first, second, turned))
    offset = seen[:, None] - flat[:, 0]
    a = (offset[..., 0] * second[:, 1] - offset[..., 1] * second[:, 0]) / turned
    b = (first[:, 0] * offset[..., 1] - first[:, 1] * offset[..., 0]) / turned
    inside = (a >= 0) & (b >= 0) & (a + b <= 1)
    depth = triangles @ toward
    before = depth[:, 0] + a * (depth[:, 1] - depth[:, 0]) + b * (depth[:, 2] - depth[:, 0])
    facing = np.abs(_normals(triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]) @ toward)
    found: NDArray[np.bool_] = (inside & ((before - (points @ toward)[:, None]) * facing > room)).any(axis=1)
    return found


def _roughness(grid: Floats) -> float:
    """Twice the height of the arcs over their chords, from second differences, and a thousandth of the size."""
    bends = [np.linalg.norm(np.diff(grid, 2, axis=axis), axis=-1).ravel() for axis in (0, 1)]
    size = np.nanmax(grid.reshape(-1, 3), axis=0) - np.nanmin(grid.reshape(-1, 3), axis=0)
    return float(1e-3 * size.max() + sum(np.nanmax(bend, initial=0.0) for bend in bends) / 4)


def _shades(view: View, corners: Floats) -> Floats:
    """0 to 1 by the angle to the light; both sides of a surface are lit."""
    right, up, toward = view.axes()
    light = toward + 0.6 * up - 0.5 * right
    normals = _normals(corners[:, 2] - corners[:, 0], corners[:, 3] - corners[:, 1])
    normals = np.where((normals @ toward)[:, None] < 0, -normals, normals)
    shades: Floats = np.round(np.clip(normals @ light / np.linalg.norm(light), 0.0, 1.0), 3)
    return shades


def _normals(first: Floats, second: Floats) -> Floats:
    made = np.cross(first, second)
    size = np.linalg.norm(made, axis=-1, keepdims=True)
    unit: Floats = made / np.where(size > 0, size, 1.0)
    return unit


def _name_place(parts: list[Floats], tip: Floats) -> Floats:
    """An axis is named at its tip; if that is hidden, at the middle of what is seen, beside the surface."""
    return tip if not parts or np.array_equal(parts[-1][-1], tip) else parts[-1][len(parts[-1]) // 2]


def _parts(view: View, line: Floats, behind: Any, slack: float | None) -> list[tuple[bool, int, int]]:
    """Whether a part of the line is hidden, its first point and the one after its last."""
    covered = hidden(view, line, behind, slack)
    states = covered[:-1] & covered[1:]
    cuts = (np.flatnonzero(np.diff(states)) + 1).tolist()
    starts, stops = [0, *cuts], [*cuts, len(states)]
    return [(bool(states[start]), start, stop + 1) for start, stop in zip(starts, stops, strict=True)]


def _corners(grid: Floats) -> Floats:
    """The four corners of every quadrilateral, (quadrilaterals, 4, …), in turn around it."""
    parts = (grid[:-1, :-1], grid[:-1, 1:], grid[1:, 1:], grid[1:, :-1])
    return np.stack(parts, axis=2).reshape(-1, 4, grid.shape[-1])


def _surfaces(behind: ArrayLike | Sequence[ArrayLike]) -> list[Floats]:
    if isinstance(behind, (list, tuple)) and (not behind or any(np.ndim(part) == 3 for part in behind)):
        return [_grid(part) for part in behind]
    return [_grid(behind)]


def _grid(points: Any) -> Floats:
    grid = _points(points)
    if grid.ndim != 3 or min(grid.shape[:2]) < 2:
        must = "be a grid of shape (m, n, 3), m and n ≥ 2"
        raise ParameterError(message("the points of a surface", must, f"shape {grid.shape}"))
    return grid


def _points(points: ArrayLike) -> Floats:
    try:
        array = np.asarray(points, dtype=np.float64)
    except (TypeError, ValueError):
        raise ParameterError(message("points in space", "be numbers", points)) from None
    if not array.ndim or array.shape[-1] != 3:
        raise ParameterError(message("points in space", "have three coordinates, shape (…, 3)", f"shape {array.shape}"))
    return array


def _rounded(values: Floats, points: Floats) -> Floats:
    size = np.abs(points[np.isfinite(points)]).max(initial=0.0)
    made: Floats = np.round(values, _DIGITS - math.ceil(math.log10(size))) if size > 0 else values
    return made + 0.0  # no −0
