"""Cutting many convex polygons at once: each by its own line, into the parts on its two sides."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]


@dataclass
class Polygons:
    """Convex polygons, anticlockwise: corners (polygon, corner, 2), padded, and how many of them count.

    Edge k runs from corner k to the next; its label says which cut made it, −1 for the boundary of the whole.
    """

    corners: Floats
    sizes: Ints
    labels: Ints

    def real(self) -> NDArray[np.bool_]:
        """Which corners are not padding."""
        return np.arange(self.corners.shape[1]) < self.sizes[:, None]

    def heights(self, slope: Floats, offset: Floats) -> Floats:
        """slope·x + offset at every corner, each polygon with its own affine map; padding repeats the first."""
        z = np.einsum("rkc,rc->rk", self.corners, slope) + offset[:, None]
        return np.where(self.real(), z, z[:, :1])

    def take(self, rows: Ints) -> Polygons:
        """Some of the polygons."""
        return Polygons(self.corners[rows], self.sizes[rows], self.labels[rows])

    def replace_and_append(self, rows: Ints, new: Polygons, more: Polygons) -> Polygons:
        """`new` at `rows` and `more` at the end."""
        width = max(self.corners.shape[1], new.corners.shape[1], more.corners.shape[1])
        first, new, more = self._wider(width), new._wider(width), more._wider(width)
        first.corners[rows], first.sizes[rows], first.labels[rows] = new.corners, new.sizes, new.labels
        return Polygons(
            np.concatenate([first.corners, more.corners]),
            np.concatenate([first.sizes, more.sizes]),
            np.concatenate([first.labels, more.labels]),
        )

    def _wider(self, width: int) -> Polygons:
        pad = width - self.corners.shape[1]
        if pad == 0:
            return self
        return Polygons(
            np.pad(self.corners, ((0, 0), (0, pad), (0, 0))), self.sizes, np.pad(self.labels, ((0, 0), (0, pad)))
        )


def cut(polygons: Polygons, z: Floats, labels: Ints) -> tuple[Polygons, Polygons]:
    """The parts where z > 0 and where z < 0 of polygons that their line z = 0 really cuts.

    Args:
        polygons: convex, with corners on both sides of their line.
        z: the affine map at the corners (polygon, corner); exactly 0 where a corner counts as on the line.
        labels: one for each cut, for the two new edges along it.
    """
    k = polygons.sizes[:, None]
    real = polygons.real()
    plus, minus = (z > 0) & real, (z < 0) & real
    rows = np.arange(len(z))[:, None]
    slots = np.arange(z.shape[1] + 2)[None, :]
    first_plus, first_minus = _first_of_run(plus, polygons.sizes), _first_of_run(minus, polygons.sizes)

    def crossing(before: Ints, after: Ints) -> Floats:
        """Where the boundary passes from one side to the other: a corner on the line, or a point of an edge."""
        here, there = z[rows[:, 0], before], z[rows[:, 0], after]
        # `after` is the corner that follows `before`; it may lie on the line itself.
        share = here / (here - there)
        start, end = polygons.corners[rows[:, 0], before], polygons.corners[rows[:, 0], after]
        point = start + share[:, None] * (end - start)
        return np.where((there == 0)[:, None], end, np.where((here == 0)[:, None], start, point))

    def part(first: Ints, count: Ints) -> Polygons:
        """A run of corners, then where it ends on the line and where it begins."""
        last = (first + count - 1) % polygons.sizes
        behind, ahead = (first - 1) % polygons.sizes, (last + 1) % polygons.sizes
        index = (first[:, None] + slots) % k
        corners, edges = polygons.corners[rows, index], polygons.labels[rows, index]
        end, begin = crossing(last, ahead), crossing(behind, first)
        line = rows[:, 0]
        corners[line, count], corners[line, count + 1] = end, begin
        edges[line, count], edges[line, count + 1] = labels, polygons.labels[line, behind]
        width = int(count.max()) + 2
        return Polygons(corners[:, :width], count + 2, edges[:, :width])

    return part(first_plus, plus.sum(axis=1)), part(first_minus, minus.sum(axis=1))


def _first_of_run(side: NDArray[np.bool_], sizes: Ints) -> Ints:
    """The corner at which the one run of corners on a side begins."""
    rows = np.arange(len(side))
    before = np.roll(side, 1, axis=1)
    before[:, 0] = side[rows, sizes - 1]
    return np.argmax(side & ~before, axis=1)
