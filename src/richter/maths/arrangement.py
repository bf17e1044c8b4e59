r"""Hyperplanes $w\cdot x+b=0$ of neurons: which are distinct, and into how many regions lines cut the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Floats = NDArray[np.float64]
EQUAL = 1e-12  # directions or offsets (relative to the largest) this near to each other are the same
BLOCK = 1 << 20  # intersections worked on at once


def distinct_hyperplanes(w: ArrayLike, b: ArrayLike | None = None) -> tuple[NDArray[np.intp], Floats]:
    """The first neuron with the same hyperplane, (neuron,), and ±1: whether it is active on the same side.

    Neurons with the same hyperplane are duplicates of any size and either orientation. A neuron with w = 0 has no
    hyperplane: −1, and orientation 0.

    >>> [x.tolist() for x in distinct_hyperplanes([[1.0, 2.0], [0.0, 1.0], [-2.0, -4.0], [0.0, 0.0]])]
    [[0, 1, 0, -1], [1.0, 1.0, -1.0, 0.0]]
    """
    w = np.asarray(w, dtype=float)
    size = np.linalg.norm(w, axis=1)
    unit = w / np.where(size > 0, size, 1.0)[:, None]
    if b is not None:
        offset = np.asarray(b, dtype=float) / np.where(size > 0, size, 1.0)
        largest = max(1.0, float(np.abs(offset[size > 0]).max(initial=0.0)))
        unit = np.concatenate([unit, offset[:, None] / largest], axis=1)
    first, facing = np.full(len(w), -1), np.zeros(len(w))
    # Equal hyperplanes have equal projections on any axis, up to a sign: only neighbours in one are compared.
    axis = np.cos(1.0 + np.arange(unit.shape[1]))
    height = np.abs(unit @ axis)
    order = np.argsort(height, kind="stable")
    order = order[size[order] > 0]
    apart = np.diff(height[order], prepend=-np.inf) > EQUAL * np.sqrt(unit.shape[1])
    for run in np.split(order, np.flatnonzero(apart)[1:]):
        _within(np.sort(run), unit, first, facing)
    return first, facing


def _within(run: NDArray[np.intp], unit: Floats, first: NDArray[np.intp], facing: Floats) -> None:
    """Find equal hyperplanes in a run of neurons that may be equal."""
    left = run
    while left.size:
        head = left[0]
        same = np.abs(unit[left] - unit[head]).max(axis=1) <= EQUAL
        turned = ~same & (np.abs(unit[left] + unit[head]).max(axis=1) <= EQUAL)
        first[left[same | turned]] = head
        facing[left[same]], facing[left[turned]] = 1.0, -1.0
        left = left[~(same | turned)]


def count_regions(w: ArrayLike, b: ArrayLike | None = None) -> int:
    r"""Into how many regions the lines $w_i\cdot x+b_i=0$ cut the whole plane, w (line, 2).

    One region, one more for each distinct line, and one more for each earlier line it meets in a new point:
    $1+n+\binom n2$ in general position. Lines through one point (within 1e-12 of the data, times the conditioning of
    their intersections), parallel and equal lines and rows of 0 count as they should.

    >>> three = [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]
    >>> count_regions(three), count_regions(three, [0.0, 0.0, 1.0])
    (6, 7)
    """
    w = np.asarray(w, dtype=float)
    if w.ndim != 2 or w.shape[1] != 2:
        raise ParameterError(message("`w` of count_regions", "be (line, 2)", f"shape {w.shape}"))
    b = np.zeros(len(w)) if b is None else np.asarray(b, dtype=float)
    chosen = np.unique(distinct_hyperplanes(w, b)[0])
    chosen = chosen[chosen >= 0]
    size = np.linalg.norm(w[chosen], axis=1)
    normal, offset = w[chosen] / size[:, None], b[chosen] / size
    rows = max(1, BLOCK // max(1, chosen.size))
    parts = range(0, chosen.size, rows)
    return 1 + chosen.size + sum(_new_points(normal, offset, np.arange(k, min(k + rows, len(offset)))) for k in parts)


def _new_points(normal: Floats, offset: Floats, lines: NDArray[np.intp]) -> int:
    """In how many different points each of these lines meets the lines before it, summed."""
    mine, own = normal[lines], offset[lines][:, None]
    sine = mine[:, :1] * normal[:, 1] - mine[:, 1:] * normal[:, 0]
    meets = (np.arange(len(offset)) < lines[:, None]) & (np.abs(sine) > EQUAL)
    slant = np.where(meets, sine, 1.0)
    where = np.where(meets, (own * (mine @ normal.T) - offset) / slant, np.inf)
    doubt = np.where(meets, (np.abs(own) + np.abs(offset) + np.abs(where)) / np.abs(slant), 0.0)
    order = np.argsort(where, axis=1)
    where, doubt = np.take_along_axis(where, order, axis=1), np.take_along_axis(doubt, order, axis=1)
    real = np.isfinite(where)
    step = np.diff(np.where(real, where, 0.0), axis=1)
    new = real[:, 1:] & (step > EQUAL * (doubt[:, 1:] + doubt[:, :-1]))
    return int(real[:, 0].sum() + new.sum())
