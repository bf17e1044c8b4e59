r"""The activation regions of a piecewise-linear network on a plane, as polygons, each with its affine map.

Layer by layer every region is cut by the zero lines of the next layer's neurons, which are straight within it: no
pattern is enumerated that does not occur.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.clipping import Polygons, cut
from richter.maths.colouring import two_colours
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]
Ints = NDArray[np.intp]
Signs = NDArray[np.int8]
ZERO = 1e-13  # a pre-activation this small, relative to the terms it is summed from, counts as 0
SHORTEST = 1e-12  # a common boundary shorter than this, relative to the box, is a point

Layers = Sequence[tuple[ArrayLike, ArrayLike | None]]


@dataclass(frozen=True, eq=False)
class Partition:
    """The regions of a network on a bounded part of a plane, in the plane's coordinates (s, t).

    Attributes:
        polygons: the corners (corner, 2) of each region, anticlockwise; regions are convex.
        signs: (region, neuron) +1 active, −1 not, 0 where the pre-activation vanishes in the whole region; the
            neurons of all hidden layers in order.
        slopes: (region, output, 2) of the network's output.
        offsets: (region, output).
        edges: for each region the cut (index into `cuts`) that made each edge, −1 on the box.
        cuts: (cut, 2, 2) the two ends of each cut.
        neurons: (cut,) the neuron whose zero line it is.
    """

    polygons: tuple[Floats, ...]
    signs: Signs
    slopes: Floats
    offsets: Floats
    edges: tuple[Ints, ...]
    cuts: Floats
    neurons: Ints

    @property
    def count(self) -> int:
        """The number of regions."""
        return len(self.polygons)

    @cached_property
    def centres(self) -> Floats:
        """A point inside each region (region, 2): the mean of its corners."""
        return np.array([polygon.mean(axis=0) for polygon in self.polygons])

    @cached_property
    def areas(self) -> Floats:
        """The area of each region."""
        made = []
        for polygon in self.polygons:
            x, y = (polygon - polygon[0]).T
            made.append((x * np.roll(y, -1) - y * np.roll(x, -1)).sum() / 2)
        return np.array(made)

    @cached_property
    def boundaries(self) -> tuple[Ints, Floats]:
        """Regions that share more than a point, (boundary, 2), first the active side, and the segment they share."""
        region = np.repeat(np.arange(self.count), [len(p) for p in self.polygons])
        label = np.concatenate(self.edges)
        start, end = np.concatenate(self.polygons), np.concatenate([np.roll(p, -1, axis=0) for p in self.polygons])
        inner = label >= 0
        region, label = region[inner], label[inner]
        active = self.signs[region, self.neurons[label]] > 0
        return _overlaps(region, label, start[inner], end[inner], active, self.cuts)

    def colours(self) -> NDArray[np.int8]:
        """Two colours, 0 and 1, such that regions with a common boundary differ; region 0 has colour 0.

        For a network with one hidden layer this is the parity of its active distinct lines. A deeper network in
        which a layer is silent or two neurons agree in a part of the plane may have no such colouring: an error.
        """
        return two_colours(self.count, self.boundaries[0])


def _overlaps(
    region: Ints, label: Ints, start: Floats, end: Floats, active: NDArray[np.bool_], cuts: Floats
) -> tuple[Ints, Floats]:
    """Pairs of regions on the two sides of every cut, by one sweep along all cuts."""
    if label.size == 0:
        return np.zeros((0, 2), dtype=np.intp), np.zeros((0, 2, 2))
    along = cuts[:, 1] - cuts[:, 0]
    square = np.maximum((along**2).sum(axis=1), np.finfo(float).tiny)
    place = lambda x: ((x - cuts[label, 0]) * along[label]).sum(axis=1) / square[label]
    low = np.minimum(place(start), place(end))
    order = np.lexsort((low, label))
    region, label, low, active = region[order], label[order], low[order], active[order]
    events = np.arange(label.size)
    # The latest piece that began on each side is the one that lies beside the next interval.
    upper = np.maximum.accumulate(np.where(active, events, -1))
    lower = np.maximum.accumulate(np.where(active, -1, events))
    until = np.where(np.append(label[1:] == label[:-1], False), np.append(low[1:], 1.0), 1.0)
    length = (until - low) * np.sqrt(square[label])
    largest = np.abs(cuts).max()
    known = (upper >= 0) & (lower >= 0) & (label[upper] == label) & (label[lower] == label)
    kept = known & (length > SHORTEST * largest)
    pairs = np.stack([region[upper[kept]], region[lower[kept]]], axis=1)
    share = np.stack([low[kept], until[kept]], axis=1)
    line = label[kept]
    return pairs, cuts[line, None, 0] + share[:, :, None] * along[line, None]


@implements(KUN24["Definition C.1"], KUN24["Eq. 123"])
def partition_slice(
    layers: Layers,
    box: ArrayLike = 1.0,
    *,
    origin: ArrayLike | None = None,
    directions: ArrayLike | None = None,
    leak: float = 0.0,
) -> Partition:
    r"""The regions of a network on the plane {origin + s·u + t·v} of its input space, within a box.

    A region is where every neuron keeps its sign. Zero lines closer than 1e-13 to a corner, relative to the terms of
    the pre-activation, pass through it: equal and concurrent lines make no slivers.

    Args:
        layers: (weight (out, in), bias (out,) or None) of each layer in order; the last has no activation.
        box: half the side of a square, or (s from, s to, t from, t to), or the corners (corner, 2) of a convex polygon.
        origin: a point of the plane in input space; 0 by default.
        directions: (2, input) the vectors u and v; the two inputs by default.
        leak: slope of the activation for negative arguments.

    >>> made = partition_slice([([[1.0, 0.0], [0.0, 1.0]], [0.0, -0.5]), ([[1.0, 2.0]], None)])
    >>> made.count, made.areas.tolist(), made.slopes[:, 0].tolist()
    (4, [0.5, 0.5, 1.5, 1.5], [[1.0, 2.0], [0.0, 2.0], [1.0, 0.0], [0.0, 0.0]])
    """
    weights = check_layers(layers)
    corners = bounding_polygon(box)
    inputs = weights[0][0].shape[1]
    point, plane = _plane(inputs, origin, directions)
    polygons = Polygons(corners[None], np.array([len(corners)]), np.full((1, len(corners)), -1))
    reach = np.linalg.norm(corners, axis=1).max()
    # The map of each region from (s, t) to the layer's inputs, and a bound on the terms it is summed from.
    slope, offset = plane.T[None], point[None]
    size = (np.abs(plane).sum(axis=0) * reach + np.abs(point))[None]
    signs: Signs = np.zeros((1, 0), dtype=np.int8)
    ends, makers, made = [np.zeros((0, 2, 2))], [np.zeros(0, dtype=np.intp)], 0
    for W, b in weights[:-1]:
        slope, offset, size = _through(W, b, slope, offset, size)
        columns, births = [], []
        parent = np.arange(len(slope))
        for j in range(len(W)):
            z = polygons.heights(slope[parent, j], offset[parent, j])
            z[np.abs(z) <= ZERO * size[parent, j][:, None]] = 0.0
            high, low = z.max(axis=1), z.min(axis=1)
            rows = np.flatnonzero((high > 0) & (low < 0))
            column = np.where(high > 0, 1, np.where(low < 0, -1, 0)).astype(np.int8)
            if rows.size:
                names = made + np.arange(rows.size)
                plus, minus = cut(polygons.take(rows), z[rows], names)
                line = np.arange(rows.size)
                last = plus.sizes
                ends.append(np.stack([plus.corners[line, last - 2], plus.corners[line, last - 1]], axis=1))
                makers.append(np.full(rows.size, signs.shape[1] + j))
                polygons = polygons.replace_and_append(rows, plus, minus)
                parent = np.concatenate([parent, parent[rows]])
                column = np.concatenate([column, np.full(rows.size, -1, dtype=np.int8)])
                made += rows.size
            births.append(rows)
            columns.append(column)
        layer = _inherit(columns, births)
        signs = np.concatenate([signs[parent], layer], axis=1)
        active = np.where(layer > 0, 1.0, leak)
        slope, offset, size = active[..., None] * slope[parent], active * offset[parent], active * size[parent]
    slope, offset, _ = _through(*weights[-1], slope, offset, size)
    split = lambda x: tuple(row[:n].copy() for row, n in zip(x, polygons.sizes, strict=True))
    return Partition(
        split(polygons.corners), signs, slope, offset, split(polygons.labels),
        np.concatenate(ends), np.concatenate(makers),
    )  # fmt: skip


def _through(W: Floats, b: Floats, slope: Floats, offset: Floats, size: Floats) -> tuple[Floats, Floats, Floats]:
    """Affine maps (region, unit, 2), (region, unit) and the size of their terms after one more layer."""
    return W @ slope, offset @ W.T + b, size @ np.abs(W).T + np.abs(b)


def _inherit(columns: list[Signs], births: list[Ints]) -> Signs:
    """Signs (region, neuron) of one layer: a region has those of the one it was cut from, up to that cut."""
    signs = np.zeros((len(columns[-1]), len(columns)), dtype=np.int8)
    for j, (column, rows) in enumerate(zip(columns, births, strict=True)):
        new = np.arange(len(column) - rows.size, len(column))
        signs[new, :j] = signs[rows, :j]
        signs[: len(column), j] = column
    return signs


def bounding_polygon(box: ArrayLike) -> Floats:
    """The corners of a box, anticlockwise.

    >>> bounding_polygon(1.0).tolist()
    [[-1.0, -1.0], [1.0, -1.0], [1.0, 1.0], [-1.0, 1.0]]
    """
    given = np.asarray(box, dtype=float)
    if given.ndim == 0:
        given = np.array([-given, given, -given, given])
    if given.shape == (4,) and given[0] < given[1] and given[2] < given[3]:
        left, right, low, high = given
        given = np.array([[left, low], [right, low], [right, high], [left, high]])
    x, y = given.T if given.ndim == 2 and given.shape[1] == 2 and len(given) > 2 else (np.zeros(3), np.zeros(3))
    dx, dy = np.roll(x, -1) - x, np.roll(y, -1) - y
    turns = dx * np.roll(dy, -1) - dy * np.roll(dx, -1)
    # All turns to one side, and one round only: the angles of the edges pass through a full turn once.
    once = np.abs(np.arctan2(turns, dx * np.roll(dx, -1) + dy * np.roll(dy, -1)).sum()) < 3 * np.pi
    if not (np.isfinite(given).all() and once and ((turns > 0).all() or (turns < 0).all())):
        raise ParameterError(
            message(
                "`box`", "be a number > 0, four numbers or the corners of a convex polygon", box,
                "Use 1.0, (-1, 1, -1, 1) or [[0, 0], [1, 0], [0, 1]].",
            )
        )  # fmt: skip
    return given if turns[0] > 0 else given[::-1].copy()


def check_layers(layers: Layers) -> list[tuple[Floats, Floats]]:
    """Weights and biases as arrays that fit together."""
    made: list[tuple[Floats, Floats]] = []
    for k, (weight, bias) in enumerate(layers):
        W = np.asarray(weight, dtype=float)
        if W.ndim != 2 or W.size == 0 or not np.isfinite(W).all():
            raise ParameterError(
                message(f"the weight of layer {k}", "be a finite matrix (out, in)", f"shape {W.shape}")
            )
        if made and W.shape[1] != len(made[-1][0]):
            raise ParameterError(
                message(f"the weight of layer {k}", f"have {len(made[-1][0])} columns", f"shape {W.shape}")
            )
        b = np.zeros(len(W)) if bias is None else np.asarray(bias, dtype=float)
        if b.shape != (len(W),) or not np.isfinite(b).all():
            raise ParameterError(message(f"the bias of layer {k}", f"be ({len(W)},) or None", f"shape {b.shape}"))
        made.append((W, b))
    if len(made) < 2:
        raise ParameterError(
            message("`layers`", "hold a hidden layer and the output layer", len(made), "Append (a[None, :], None).")
        )
    return made


def _plane(inputs: int, origin: ArrayLike | None, directions: ArrayLike | None) -> tuple[Floats, Floats]:
    if directions is None and inputs != 2:
        raise ParameterError(
            message("`directions`", f"be given for {inputs} inputs", "none", f"Use two rows of {inputs} numbers.")
        )
    plane = np.eye(2) if directions is None else np.asarray(directions, dtype=float)
    point = np.zeros(inputs) if origin is None else np.asarray(origin, dtype=float)
    if plane.shape != (2, inputs) or np.linalg.matrix_rank(plane) < 2:
        raise ParameterError(message("`directions`", f"be two independent rows of {inputs}", f"shape {plane.shape}"))
    if point.shape != (inputs,) or not np.isfinite(point).all():
        raise ParameterError(message("`origin`", f"be {inputs} finite numbers", f"shape {point.shape}"))
    return point, plane
