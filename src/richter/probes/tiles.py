"""A kernel tile by tile: blocks of examples that fit into memory, products in pieces that fit into the cache."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from richter.probes.blocks import Gradients
from richter.probes.contract import Kind, Piece, inner
from richter.probes.memory import Split

EDGE: dict[Kind, int] = {"full": 1024, "trace": 512, "diagonal": 512}  # rows of a tile: examples, or their outputs


@dataclass(frozen=True)
class Tile:
    """Part of a kernel, in float64.

    `values`: (n, C, m, C) for "full", (n, m) for "trace", (C, n, m) for "diagonal". `mirrored`: it stands for its
    transpose too, on the other side of a symmetric kernel's diagonal.
    """

    rows: slice
    columns: slice
    outputs: slice
    outputs_2: slice
    values: NDArray[np.float64]
    mirrored: bool


def tiles(of: Gradients, other: Gradients | None, budget: int, how: Split | None = None) -> Iterator[Tile]:
    """All tiles of the kernel between `of` and `other`, or of `of` with itself, of which one half is enough.

    The tiles of a trace over outputs that do not fit at once are parts of a sum.
    """
    how = how or shared_split([of] if other is None else [of, other], budget)
    second = of if other is None else other
    for rows in _parts(len(of.x), how.block):
        for outputs, p in of.pieces(rows, how, budget):
            # With itself one half is enough: what comes before, and the block itself.
            before = _parts(len(second.x) if other is not None else rows.start, how.chunk)
            for columns in (*before, *([rows] if other is None else [])):
                same = other is None and columns == rows
                alone = same and (of.kind != "full" or how.outputs >= of.combinations.count)
                only = None if of.kind == "full" else outputs
                found: Any = [(outputs, p)] if alone else second.pieces(columns, how, budget, only)
                for outputs_2, q in found:
                    own = same and outputs_2 == outputs
                    if same and outputs_2.start > outputs.start:
                        continue
                    where = (rows, columns, outputs, outputs_2)
                    yield from _cut(of.kind, where, p, p if own else q, own, other is None and not own)


def shared_split(sides: list[Gradients], budget: int) -> Split:
    """One way to cut that fits for every side."""
    n = max(len(side.x) for side in sides)
    first, *others = (side.split(budget // len(sides), n) for side in sides)
    smallest = {
        name: min(getattr(how, name) for how in (first, *others))
        for name in ("block", "chunk", "batch", "waiting", "outputs")
    }
    return replace(first, **smallest)


def at_once(of: Gradients, other: Gradients | None, budget: int) -> int:
    """How many outputs to take at a time if a kernel is held, so that examples need not be passed again and again.

    Fewer outputs leave room for larger blocks, but want a forward pass of their own. All pairs of outputs go together.
    """
    C, n = of.combinations.count, len(of.x)
    best, least = C, float("inf")
    for size in () if of.kind == "full" else (-(-C // 2**k) for k in range(C.bit_length())):
        some = of.combinations.parts(size)[0]
        sides = [replace(side, combinations=some) for side in (of, other) if side is not None]
        how = shared_split(sides, budget)
        starts = range(0, n, how.block)
        passes = n + (sum(starts) if other is None else len(starts) * len(other.x))
        cost = -(-C // size) * passes * (1 + size)
        if how.outputs == size and cost < least:
            best, least = size, cost
    return best


def _parts(n: int, size: int) -> Iterator[slice]:
    for first in range(0, n, size):
        yield slice(first, min(first + size, n))


def _cut(
    kind: Kind, where: tuple[slice, slice, slice, slice], p: list[Piece], q: list[Piece], own: bool, mirrored: bool
) -> Iterator[Tile]:
    """The products of two blocks, in tiles; of a block with itself one half of them."""
    rows, columns, outputs, outputs_2 = where
    n, m, C, D = (s.stop - s.start for s in (rows, columns, outputs, outputs_2))
    edge = max(1, EDGE[kind] // (C if kind == "full" else 1))
    for a in _parts(n, edge):
        left = [piece[a] for piece in p]
        for b in _parts(m, edge):
            if own and b.start > a.start:
                continue
            right = left if own and a == b else [piece[b] for piece in q]
            shape = {
                "full": (a.stop - a.start, C, b.stop - b.start, D),
                "trace": (a.stop - a.start, b.stop - b.start),
                "diagonal": (C, a.stop - a.start, b.stop - b.start),
            }[kind]
            made = np.zeros(shape)
            for x, y in zip(left, right, strict=True):
                made += inner(x, y, kind).cpu().numpy()
            at = lambda whole, part: slice(whole.start + part.start, whole.start + part.stop)
            yield Tile(at(rows, a), at(columns, b), outputs, outputs_2, made, mirrored or (own and a != b))
