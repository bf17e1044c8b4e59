"""Three dimensions as plain marks: the projection keeps lengths, near things cover far ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from matplotlib.path import Path as Outline

from richter.draw.layers import stages
from richter.errors import ParameterError
from richter.figure import Mark, View, axes3, path, scene, surface
from richter.figure.space import hidden
from richter.testing.tolerances import IDENTITY, assert_close

VIEWS = [View(), View(0.0, 0.0), View(137.0, -40.0), View(-50.0, 90.0)]


def hyperboloid(delta: float, around: int = 49, along: int = 21) -> np.ndarray:
    """a² − w₁² − w₂² = δ < 0: one sheet, (w₁, w₂, a)."""
    a, turn = np.meshgrid(np.linspace(-1.5, 1.5, along), np.linspace(0, 2 * np.pi, around), indexing="ij")
    radius = np.sqrt(a * a - delta)
    return np.stack([radius * np.cos(turn), radius * np.sin(turn), a], axis=-1)


def sphere(rows: int = 41) -> np.ndarray:
    high, turn = np.meshgrid(np.linspace(0, np.pi, rows), np.linspace(0, 2 * np.pi, 2 * rows), indexing="ij")
    return np.stack([np.sin(high) * np.cos(turn), np.sin(high) * np.sin(turn), np.cos(high)], axis=-1)


def corners(m: Mark) -> np.ndarray:
    return np.column_stack([m.x, m.y])


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_the_projection_is_orthographic(view: View, seed: int) -> None:
    rng = np.random.default_rng([seed, 81])
    points = rng.normal(size=(5, 4, 3))
    seen, near = view.project(points), view.nearness(points)
    assert seen.shape == (5, 4, 2) and near.shape == (5, 4)
    whole = np.concatenate([seen, near[..., None]], axis=-1)
    size = np.abs(points).max()  # coordinates are kept to 14 digits of the largest
    assert_close(np.linalg.norm(whole, axis=-1), np.linalg.norm(points, axis=-1), IDENTITY, scale=size)
    toward = view.axes()[2]
    turn, rise = np.radians([view.azimuth, view.elevation])
    assert_close(toward, [np.cos(rise) * np.cos(turn), np.cos(rise) * np.sin(turn), np.sin(rise)], IDENTITY)
    across = points - (points @ toward)[..., None] * toward  # in the view plane
    assert_close(np.linalg.norm(view.project(across), axis=-1), np.linalg.norm(across, axis=-1), IDENTITY, scale=size)
    assert_close(view.project(points + 7.0 * toward), seen, IDENTITY, scale=7.0)  # nothing changes along the sight
    assert (view.nearness(points + 7.0 * toward) > near).all()


def test_the_third_axis_points_up_and_the_picture_is_no_mirror_image() -> None:
    for view in VIEWS[:3]:
        assert view.project([0.0, 0.0, 1.0])[1] > 0 and abs(view.project([0.0, 0.0, 1.0])[0]) == 0
        assert np.linalg.det(view.axes()) == pytest.approx(1.0)
    from_above = View(-90.0, 90.0).project(np.eye(3))
    np.testing.assert_array_equal(from_above, [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])


@pytest.mark.parametrize("view", [View(-50, 22), View(100, -35), View(10, 70)], ids=str)
def test_what_is_drawn_last_is_nearest(view: View, seed: int) -> None:
    rng = np.random.default_rng([seed, 82])
    grids = [hyperboloid(-1.0), 0.35 * sphere(17) + [0.3, 0.0, 0.0]]
    marks = [m for grid in grids for m in surface(view, grid, label="s")]
    orders = [m.order for m in marks]
    level = stages([corners(m) for m in marks], orders)
    outlines = [Outline(corners(m)) for m in marks]
    tried = 0
    for point in rng.uniform(-1.1, 1.1, size=(150, 2)):
        depths = ray(view, point)
        here = [i for i, outline in enumerate(outlines) if depths.size > 1 and outline.contains_point(point)]
        if not here:
            continue
        tried += 1
        last = max(here, key=lambda i: orders[i])
        assert abs(orders[last] - depths.max()) < 0.2  # half the depth of one quadrilateral seen at an angle
        assert max(here, key=lambda i: (level[i], orders[i])) == last  # drawn in stages, the same lies on top
    assert tried >= 5
    assert max(level) < 60


def ray(view: View, point: np.ndarray) -> np.ndarray:
    """Where the line of sight through a point meets the two bodies, from their equations; none if it grazes them."""
    right, up, toward = view.axes()
    base = point[0] * right + point[1] * up
    signs = np.array([1.0, 1.0, -1.0])
    found = []
    for form, start, level in ((signs, base, 1.0), (np.ones(3), base - [0.3, 0.0, 0.0], 0.35**2)):
        a, b, c = form @ toward**2, form @ (start * toward), form @ start**2 - level
        if abs(b * b - a * c) < 0.02:
            return np.empty(0)
        if b * b - a * c > 0:
            roots = (-b + np.array([-1.0, 1.0]) * np.sqrt(b * b - a * c)) / a
            heights = (base[:, None] + roots * toward[:, None])[2]
            if (np.abs(np.abs(heights) - 1.5) < 0.15).any():  # at the rim
                return np.empty(0)
            found += roots[np.abs(heights) < 1.5].tolist()
    return np.array(found)


def test_a_nearer_quadrilateral_comes_later() -> None:
    wall = np.array([[[0.0, -1, -1], [0, 1, -1]], [[0, -1, 1], [0, 1, 1]]])
    marks = surface(View(0, 0), np.concatenate([wall + [depth, 0, 0] for depth in (3.0, 1.0)]), role="exact")
    assert [m.order for m in marks] == sorted(m.order for m in marks)
    assert marks[-1].order == 3.0 and marks[0].order == 1.0
    assert {m.kind for m in marks} == {"area"} and {m.role for m in marks} == {"exact"}


def test_shades_follow_the_light_and_values_take_their_place() -> None:
    view = View(-60, 25)
    right, up, toward = view.axes()
    ends = np.array([-1.0, 1.0])

    def facing(normal: np.ndarray) -> float:
        first = np.cross(normal, toward if abs(normal @ toward) < 0.9 else up)
        second = np.cross(normal, first)
        grid = ends[:, None, None] * first + ends[None, :, None] * second
        (one,) = surface(view, grid)
        assert one.shade is not None and one.colour is None
        return one.shade

    light = (toward + 0.6 * up - 0.5 * right) / np.linalg.norm([1.0, 0.6, 0.5])
    assert facing(light) == pytest.approx(1.0, abs=1e-3)  # shades have three digits
    assert facing(-light) == facing(light)  # both sides are lit
    assert facing(toward) == pytest.approx(light @ toward, abs=1e-3)  # as above
    assert facing(right) < facing(toward) < facing(light)
    grid = hyperboloid(-1.0, 9, 5)
    coloured = surface(view, grid, values=grid[..., 2])
    assert len(coloured) == 8 * 4 and {m.shade for m in coloured} == {None}
    assert sorted({round(float(str(m.colour)), 12) for m in coloured}) == [-1.125, -0.375, 0.375, 1.125]


def test_undefined_corners_leave_a_hole() -> None:
    grid = hyperboloid(-1.0, 9, 5)
    grid[2, 3] = np.nan
    assert len(surface(View(), grid)) == 8 * 4 - 4
    values = grid[..., 2].copy()
    values[0, 0] = np.nan
    assert len(surface(View(), grid, values=values)) == 8 * 4 - 4 - 1
    assert path(View(), np.array([[0, 0, 0], [0, 0, 3.0]]), behind=grid)  # holes hide nothing, and break nothing


@pytest.mark.parametrize("view", VIEWS, ids=str)
def test_a_path_on_a_sphere_is_hidden_on_its_far_side(view: View, seed: int) -> None:
    rng = np.random.default_rng([seed, 83])
    points = rng.normal(size=(200, 3))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    covered = hidden(view, points, sphere())
    side = points @ view.axes()[2]
    clear = np.abs(side) > 0.25  # not near the outline
    np.testing.assert_array_equal(covered[clear], side[clear] < 0)
    outside = hidden(view, 1.5 * points, sphere())
    apart = np.linalg.norm(view.project(1.5 * points), axis=1)
    clear = np.abs(apart - 1.0) > 0.02  # the flat quadrilaterals lie inside the sphere
    np.testing.assert_array_equal(outside[clear], ((apart < 1.0) & (side < 0))[clear])


def test_a_path_is_split_where_it_disappears_and_its_parts_join() -> None:
    view, turn = View(20, 10), np.linspace(0, 2 * np.pi, 400)
    ring = 1.2 * np.column_stack([np.cos(turn), np.sin(turn), 0 * turn])
    parts = path(view, ring, behind=sphere(), role="simulated", label="a ring", colour="c", group="g")
    assert [m.role for m in parts] in (["simulated", "guide", "simulated"], ["guide", "simulated", "guide"])
    for before, after in zip(parts, parts[1:], strict=False):
        assert (before.x[-1], before.y[-1]) == (after.x[0], after.y[0])
    assert_close(
        np.concatenate([m.x if i == 0 else m.x[1:] for i, m in enumerate(parts)]), view.project(ring)[:, 0], IDENTITY
    )
    assert {m.label for m in parts if m.role == "guide"} == {""} and {m.colour for m in parts} == {"c"}
    assert {m.label for m in parts if m.role != "guide"} == {"a ring"} and {m.group for m in parts} == {"g"}
    for hides_nothing in ((), [sphere() - 9 * view.axes()[2]]):
        assert [m.role for m in path(view, ring, behind=hides_nothing)] == ["exact"]
    assert [m.role for m in path(view, ring, behind=[sphere(), 2 * sphere()])] == ["guide"]  # inside the second
    assert len(path(view, ring, behind=sphere(), slack=9.0)) == 1


def test_axes_are_named_where_they_are_seen() -> None:
    view = View(30, 20)
    free = axes3(view, [2, 2, 3], ["w₁", "w₂", "a"])
    assert [m.kind for m in free] == ["line", "text"] * 3 and {m.role for m in free} == {"guide"}
    for i, tip in enumerate(np.diag([2.0, 2.0, 3.0])):
        assert_close([free[2 * i].x[-1], free[2 * i].y[-1]], view.project(tip), IDENTITY)
        assert (free[2 * i + 1].x[0], free[2 * i + 1].y[0]) == (free[2 * i].x[-1], free[2 * i].y[-1])

    def behind_the_sphere(end: float) -> list[Mark]:  # along y, two units behind a unit sphere
        made = axes3(View(0, 0), [-2.0, end, 1e-3], ["x", "y", "z"], origin=[-2.0, -3.0, 0.0], behind=sphere())
        return [m for m in made if m.group == "y" or m.label == "y"]

    *lines, name = behind_the_sphere(3.0)
    assert [m.kind for m in lines] == ["line", "line"] and (name.x[0], name.y[0]) == (3.0, 0.0)
    assert lines[0].x[-1] == pytest.approx(-1.0, abs=0.1)  # to the next of the axis' points
    line, name = behind_the_sphere(0.0)
    assert name.x[0] == pytest.approx(-2.0, abs=0.1)  # in the middle of what is seen, -3 to -1


def test_a_scene_has_equal_units_and_no_frame() -> None:
    view = View(30, -20)
    panel = scene(view, surface(view, hyperboloid(-1.0, 9, 5)), title="T")
    assert panel.equal and not panel.frame and panel.title == "T"
    assert panel.x == "across the view from azimuth 30°"
    assert view.words == "Orthographic view, azimuth 30°, elevation −20°."


GRID = np.zeros((2, 2, 3))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: View(np.inf), "`azimuth` of a view must be a finite angle in degrees. Got inf."),
        (lambda: View(0, 91), "`elevation` of a view must be from -90 to 90 degrees. Got 91."),
        (lambda: View().project([1.0, 2.0]), "points in space must have three coordinates, shape (…, 3). Got shape (2,)."),
        (lambda: View().project("abc"), "points in space must be numbers. Got abc."),
        (
            lambda: surface(View(), np.zeros((1, 2, 3))),
            "the points of a surface must be a grid of shape (m, n, 3), m and n ≥ 2. Got shape (1, 2, 3).",
        ),
        (lambda: surface(View(), GRID * np.nan), "must have a quadrilateral with finite corners. Got none."),
        (
            lambda: surface(View(), GRID, values=[1.0]),
            "`values` of a surface must have one entry per grid point, shape (2, 2). Got shape (1,).",
        ),
        (
            lambda: surface(View(), GRID, values=np.zeros((2, 2)), colour="a"),
            "`colour` of a surface must be left out when `values` are given. Got a.",
        ),
        (lambda: path(View(), [[0, 0, 0]]), "the points of a path must be of shape (k, 3), k ≥ 2. Got shape (1, 3)."),
        (lambda: axes3(View(), [1, 1, 1], "abc"), "`names` of axes must be three words. Got abc."),
        (
            lambda: axes3(View(), np.ones((2, 3)), ["a", "b", "c"]),
            "`ends` and `origin` of axes must be three numbers each. Got shapes (2, 3) and (3,).",
        ),
    ],
)  # fmt: skip
def test_what_cannot_be_seen_is_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(ParameterError) as found:
        make()
    assert says in str(found.value) and "\n" not in str(found.value)
