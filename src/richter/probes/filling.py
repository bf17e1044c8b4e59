"""The gradients of a block of examples, filled output by output and batch by batch, group by group of parameters."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from richter.probes.contract import Factors, Kind, Piece, Term, Written
from richter.probes.gradients import columns, rows, written_out
from richter.probes.memory import alone, empty
from richter.probes.observe import torch_library
from richter.probes.tangent import Group, Plan
from richter.probes.uses import Site

if TYPE_CHECKING:
    from torch import Tensor

PATCHES = 2**20  # numbers of patches at a time
JOINED = 512  # numbers in gradients that are small enough to be joined


def waits(group: Group) -> bool:
    """Whether the gradients are products of two matrices, if they are written out."""
    return group.factors and len(group.places) == 1


class Filling:
    """The gradients of one group of parameters; `outputs` of them for each of n examples.

    `together`: of so many outputs δ may wait until they are multiplied with the data in one product.
    """

    def __init__(
        self, group: Group, written: bool, plan: Plan, kind: Kind, n: int, outputs: int, together: int
    ) -> None:
        """Nothing is filled yet."""
        self.kind: Kind = kind
        self.group, self.written, self.n, self.outputs, self.together = group, written, n, outputs, together
        self.roots = [plan.rates[name] ** 0.5 for name in group.parameters]
        self.counts = [plan.counts[name] for name in group.parameters]
        self.values: list[Any] = []  # one of (n, C, entry), or one of (n, C, t, b) per use
        self.data: list[Any] = []
        self.waiting: Any = None  # δ of several outputs (n, output, b, t)
        self.first = 0  # the first of them

    def add(self, sites: list[Site], deltas: list[Any], batch: slice, c: int) -> None:
        """Take output c of a batch of examples."""
        size, (first, _) = batch.stop - batch.start, self.group.places[0]
        if self.written and waits(self.group):
            if deltas[first] is not None:
                self._wait(sites[first], deltas[first], batch, c)
        elif self.written:
            self._write(sites, deltas, batch, c)
        else:
            for place, (i, _) in enumerate(self.group.places):
                if deltas[i] is None:
                    continue
                d = rows(sites[i], deltas[i], size)
                if self.outputs == 1 and size == self.n and d.element_size() >= 4:
                    self.values += [None] * (place + 1 - len(self.values))
                    self.values[place] = d[:, None]  # no copy
                else:
                    self._factors(place, tuple(d.shape[1:]), d)[batch, c] = d

    def _write(self, sites: list[Site], deltas: list[Any], batch: slice, c: int) -> None:
        """The gradient of one output, for a parameter that is no matrix or is used more than once."""
        (count,), (root,), made = self.counts, self.roots, None
        for i, role in self.group.places:
            if deltas[i] is not None:
                g = written_out(sites[i], deltas[i], role, batch.stop - batch.start, count)
                made = g if made is None else made + g
        if made is not None:
            self._room(0, (count,), made)[batch, c] = made * root if root != 1 else made

    def _wait(self, site: Site, delta: Any, batch: slice, c: int) -> None:
        """Products of several outputs' δ with one input at a time: few large ones are faster than many small."""
        n = batch.stop - batch.start
        # As they are, if each example has its own: (example, output, row, place).
        plain = site.kind == "conv" and delta.shape[0] == n
        d = delta.flatten(2) if plain else rows(site, delta, n).transpose(1, 2)
        if self.waiting is None or len(self.waiting) < n:
            self.waiting = empty((n, min(self.together, self.outputs), *d.shape[1:]), d)
        self.first = c if c == 0 else self.first
        k = c + 1 - self.first
        self.waiting[:n, k - 1] = d
        if c + 1 == self.outputs or k == self.waiting.shape[1]:
            self._multiply(site, self.waiting[:n, :k], batch)
            self.first = c + 1

    def _multiply(self, site: Site, d: Tensor, batch: slice) -> None:
        n, k, b, t = d.shape
        rows_of = site.data.shape[0] if site.kind == "conv" else 0
        # Patches are many times the data: few examples at a time, so that they stay in the cache.
        step = max(1, PATCHES // (t * (sum(self.counts) // b))) if rows_of == n else n
        for low in range(0, n, step):
            part = slice(low, min(low + step, n))
            some = site if step >= n else replace(site, data=site.data[part])
            x = columns(some, part.stop - low, self.roots)
            # Entries in the order (row, column), whichever way the matrix is stored: the same on both sides.
            room = self._room(0, (b * x.shape[2],), d)[batch, self.first : self.first + k][part]
            _products(d[part].flatten(1, 2), x.to(d.dtype), room)

    def _factors(self, place: int, shape: tuple[int, ...], like: Any) -> Any:
        """Room for δ (n, C, t, b), in the order in which this kind of kernel multiplies it."""
        self.values += [None] * (place + 1 - len(self.values))
        if self.values[place] is None:
            n, C, (t, b) = self.n, self.outputs, shape
            made = {"full": (n, C, t, b), "trace": (n, t, C, b), "diagonal": (C, n, t, b)}[self.kind]
            turned = {"full": (0, 1, 2, 3), "trace": (0, 2, 1, 3), "diagonal": (1, 0, 2, 3)}[self.kind]
            self.values[place] = empty(made, like).permute(turned)
        return self.values[place]

    def _room(self, place: int, shape: tuple[int, ...], like: Any) -> Any:
        self.values += [None] * (place + 1 - len(self.values))
        if self.values[place] is None:
            # Every entry will be written: what has a gradient has one for every output, or the pass has changed.
            self.values[place] = empty((self.n, self.outputs, *shape), like)
        return self.values[place]

    def add_data(self, sites: list[Site], batch: slice) -> None:
        """Take what the batch's δ are multiplied with, if they stay factors."""
        if self.written:
            return
        for place, (i, _) in enumerate(self.group.places):
            x = columns(sites[i], batch.stop - batch.start, self.roots)
            if batch.stop - batch.start == self.n:
                self.data.append(x.contiguous())
            else:
                if batch.start == 0:
                    self.data.append(x.new_empty(self.n, *x.shape[1:]))
                self.data[place][batch] = x

    def piece(self) -> Piece | None:
        """What has been filled; None if nothing depends on these parameters."""
        self.waiting = None
        if not any(v is not None for v in self.values):
            return None
        if self.written:
            return Written(self.values[0])
        terms = []
        for place, value in enumerate(self.values):
            if value is not None:
                index = self.data[place].ndim == 2
                delta = value * self.roots[0] if index and self.roots[0] != 1 else value
                terms.append(Term(delta, self.data[place], self.group.flipped[place]))
        return Factors(tuple(terms), self.group.shape)


def _products(d: Tensor, x: Tensor, into: Tensor) -> None:
    """Products of (n, row, t) with (n, t, column), written into (n, …)."""
    torch = torch_library("The kernel")
    if not into.is_contiguous():
        into.copy_((d @ x).view(into.shape))
    elif alone(d):
        np.matmul(d.numpy(), x.numpy(), out=into.view(len(d), d.shape[1], -1).numpy())
    else:
        torch.bmm(d, x, out=into.view(len(d), d.shape[1], -1))


def pieces(filled: list[Filling], rest: list[Any]) -> list[Piece]:
    """All pieces, with the rest (n, C, entry) from elsewhere; small ones that are written out become one."""
    torch = torch_library("The kernel")
    found = [piece for piece in (one.piece() for one in filled) if piece is not None]
    out = [piece.values for piece in found if isinstance(piece, Written)]
    if rest:
        whole = torch.cat(rest)
        out.append(whole.float() if whole.element_size() < 4 else whole)
    made: list[Piece] = [piece for piece in found if isinstance(piece, Factors)]
    small = [v for v in out if v.shape[2] <= JOINED]
    made += [Written(v) for v in out if v.shape[2] > JOINED]
    if small:
        made.append(Written(small[0] if len(small) == 1 else torch.cat(small, 2)))
    return made
