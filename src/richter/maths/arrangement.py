r"""Hyperplanes $w\cdot x+b=0$ of neurons: which are distinct, and into how many regions lines cut the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
EQUAL = 1e-12  # directions or offsets (relative to the largest) this near to each other are the same


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
