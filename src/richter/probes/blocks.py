"""The gradients of a block of examples: a forward pass, one backward pass per output, torch.func for the rest."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from richter.probes.contract import Factors, Kind, Piece, Term, Written, cost_of_places, cost_written
from richter.probes.gradients import columns, rows, written_out
from richter.probes.memory import Sizes, Split, split
from richter.probes.observe import check_finite, torch_library
from richter.probes.tangent import Changed, Group, Plan, Positions, differentiable, outputs_of
from richter.probes.uses import Site, watched

if TYPE_CHECKING:
    from torch import Tensor, nn

TOGETHER = 2**23  # numbers of δ that wait to be multiplied together


@dataclass(frozen=True)
class Combinations:
    """Which combinations of the outputs are differentiated: each by itself, or signs drawn for every output."""

    count: int
    seed: int | None = None

    def row(self, index: int, like: Tensor) -> Tensor:
        """The weights (output,) of one combination."""
        torch = torch_library("The kernel")
        if self.seed is None:
            made = torch.zeros(like.shape[1], dtype=like.dtype, device=like.device)
            made[index] = 1
            return made
        return self._signs(index, like)

    def _signs(self, index: int, like: Tensor) -> Tensor:
        torch = torch_library("The kernel")
        generator = torch.Generator().manual_seed(1_000_003 * int(self.seed or 0) + index)
        bits = torch.randint(0, 2, (like.shape[1],), generator=generator, dtype=torch.int8)
        return (2 * bits - 1).to(device=like.device, dtype=like.dtype)


@dataclass(frozen=True)
class Gradients:
    """The gradients of one model on one set of examples, scaled by the root of the rates."""

    model: nn.Module
    x: Tensor
    plan: Plan
    kind: Kind
    positions: Positions
    combinations: Combinations

    def written(self, budget: int) -> tuple[bool, ...]:
        """Which groups are written out, because that is cheaper and there is room, the smallest first."""
        C, room = self.combinations.count, budget / 8
        sizes = [C * math.prod(group.shape) for group in self.plan.groups]
        made = [True] * len(sizes)
        for i in sorted(range(len(sizes)), key=sizes.__getitem__):
            group = self.plan.groups[i]
            if group.factors:
                kept = sum(t * (a + C * b) for t, a, b in group.sizes)
                t, a, b = max(group.sizes)
                cheap = cost_written(self.kind, C, sizes[i] // C) < cost_of_places(
                    self.kind, C, t, a, b, len(group.sizes)
                )
                large = sizes[i] > 4 * kept
                made[i] = cheap and not group.table and (not large or sizes[i] * len(self.x) <= room)
                room -= sizes[i] * len(self.x) if made[i] and large else 0
        return tuple(made)

    def sizes(self, written: tuple[bool, ...]) -> Sizes:
        """Bytes per example."""
        bytes_each = max(4, next(self.model.parameters()).element_size())
        data, gradients = 0, sum(self.plan.counts[name] for name in self.plan.fallback)
        for group, out in zip(self.plan.groups, written, strict=True):
            if out:
                gradients += sum(self.plan.counts[name] for name in group.parameters)
            else:
                data += sum(t * a for t, a, _ in group.sizes)
                gradients += sum(t * b for t, _, b in group.sizes)
        return Sizes(self.plan.pass_bytes, bytes_each * data, bytes_each * gradients)

    def split(self, budget: int) -> Split:
        """Blocks that fit into so many bytes."""
        sets = 2 if self.kind == "full" else 1
        return split(self.sizes(self.written(budget)), len(self.x), self.combinations.count, budget, sets)

    def pieces(
        self, part: slice, how: Split, budget: int, only: slice | None = None
    ) -> Iterator[tuple[slice, list[Piece]]]:
        """(outputs, gradients) of a block of examples, some outputs at a time, from one pass if there are several.

        `only`: these outputs, where not all fit at once.
        """
        written, C = self.written(budget), self.combinations.count
        x = self.x[part]
        room = lambda outputs: [
            _Kept(group, out, self.plan, len(x), outputs) for group, out in zip(self.plan.groups, written, strict=True)
        ]
        if how.outputs >= C:
            kept = [
                _Kept(group, out, self.plan, len(x), C) for group, out in zip(self.plan.groups, written, strict=True)
            ]
            rest: list[Any] = []
            for first in range(0, len(x), how.batch):
                batch = slice(first, min(first + how.batch, len(x)))
                with _Pass(self, x[batch]) as seen:
                    for c in range(C):
                        deltas = seen.deltas(c, last=c == C - 1)
                        for one in kept:
                            one.add(seen.sites, deltas, batch, c)
                    for one in kept:
                        one.add_data(seen.sites, batch)
                    rest += seen.by_functions(range(C), budget)
            yield slice(0, C), _made(kept, rest)
            return
        with _Pass(self, x) as seen:
            lows = range(0, C, how.outputs) if only is None else (only.start,)
            for low in lows:
                high = min(low + how.outputs, C)
                kept = room(high - low)
                for c in range(low, high):
                    deltas = seen.deltas(c, last=low == lows[-1] and c == high - 1)
                    for one in kept:
                        one.add(seen.sites, deltas, slice(0, len(x)), c - low)
                for one in kept:
                    one.add_data(seen.sites, slice(0, len(x)))
                yield slice(low, high), _made(kept, seen.by_functions(range(low, high), budget))


class _Pass:
    """One forward pass, alive for backward passes."""

    def __init__(self, of: Gradients, x: Tensor) -> None:
        self.of, self.x = of, x

    def __enter__(self) -> _Pass:
        of, plan = self.of, self.of.plan
        axis = lambda key, *_: plan.axes[key][1] if key in plan.axes else None
        with differentiable(of.model):
            seen = watched(of.model, self.x, plan.followed, axis)
            if any(site.data is not None and site.data._version != site.version for site in seen.sites):
                seen = watched(of.model, self.x, plan.followed, axis, copies=True)
            same = {site.key: (site.function, site.axis) for site in seen.sites} == plan.axes
            if not (same and seen.spoilt.keys() <= plan.fallback.keys()):
                raise Changed
            self.f = outputs_of(seen.out, len(self.x), of.positions)
            check_finite(of.model, self.x, self.f)
        self.sites = seen.sites
        return self

    def __exit__(self, *_: object) -> None:
        del self.f, self.sites

    def deltas(self, c: int, last: bool) -> list[Any]:
        """The gradient of one combination of outputs behind every site."""
        torch = torch_library("The kernel")
        edges = [site.edge for site in self.sites]
        if not (edges and self.f.requires_grad):
            found = [None] * len(edges)
        else:
            with torch.inference_mode(False), torch.enable_grad():
                weights = self.of.combinations.row(c, self.f).expand_as(self.f)
                found = list(torch.autograd.grad(self.f, edges, weights, retain_graph=not last, allow_unused=True))
        if {site.key for site, d in zip(self.sites, found, strict=True) if d is not None} != self.of.plan.alive:
            raise Changed
        return found

    def by_functions(self, outputs: range, budget: int) -> list[Any]:
        """The gradients of the parameters that cannot be taken apart: a list with one tensor, or an empty one."""
        torch = torch_library("The kernel")
        of, plan = self.of, self.of.plan
        if not plan.fallback:
            return []
        weights = torch.stack([of.combinations.row(c, self.f) for c in outputs])
        each = len(outputs) * (12 * sum(plan.counts[name] for name in plan.fallback) + plan.pass_bytes)
        step = max(1, int(0.2 * budget / each))
        with differentiable(of.model):
            parts = [_by_functions(of, x, weights) for x in self.x.split(step)]
        return [torch.cat(parts)]


class _Kept:
    """The gradients of one group of parameters, filled output by output and batch by batch."""

    def __init__(self, group: Group, written: bool, plan: Plan, n: int, outputs: int) -> None:
        self.group, self.written, self.n, self.outputs = group, written, n, outputs
        self.roots = [plan.rates[name] ** 0.5 for name in group.parameters]
        self.counts = [plan.counts[name] for name in group.parameters]
        self.values: list[Any] = []  # one of (n, C, entry), or one of (n, C, t, b) per use
        self.data: list[Any] = []
        self.waiting: list[Any] = []  # δ of several outputs, to be multiplied together

    def add(self, sites: list[Site], deltas: list[Any], batch: slice, c: int) -> None:
        size = batch.stop - batch.start
        if self.written and self.group.factors and len(self.group.places) == 1:
            self._wait(sites[self.group.places[0][0]], deltas[self.group.places[0][0]], batch, c)
            return
        if self.written:
            first = 0
            for k in range(len(self.counts)):
                places = self.group.places if k == 0 else ((self.group.places[0][0], "bias"),)
                made = None
                for i, role in places:
                    if deltas[i] is not None:
                        g = written_out(sites[i], deltas[i], role, size, self.counts[k])
                        made = g if made is None else made + g
                if made is not None:
                    self._room(0, (sum(self.counts),), made)[batch, c, first : first + self.counts[k]] = (
                        made * self.roots[k] if self.roots[k] != 1 else made
                    )
                first += self.counts[k]
            return
        for place, (i, _) in enumerate(self.group.places):
            d = deltas[i]
            if d is None:
                continue
            d = rows(sites[i], d, size)
            if self.outputs == 1 and size == self.n and d.element_size() >= 4:
                self.values += [None] * (place + 1 - len(self.values))
                self.values[place] = d[:, None]  # no copy
            else:
                self._room(place, tuple(d.shape[1:]), d)[batch, c] = d

    def _wait(self, site: Site, delta: Any, batch: slice, c: int) -> None:
        """Products of several outputs' δ with one input at a time: few large ones are faster than many small."""
        torch = torch_library("The kernel")
        if delta is None:
            return
        self.waiting.append(delta)
        held = len(self.waiting) * delta.numel()
        if c + 1 < self.outputs and held < TOGETHER:
            return
        n, k = batch.stop - batch.start, len(self.waiting)
        x = self._scaled(columns(site, n))
        if site.kind == "conv" and delta.shape[0] == n:  # as they are: (example, output, row, place)
            d = torch.stack([delta.flatten(2) for delta in self.waiting], 1)
        else:
            d = torch.stack([rows(site, delta, n).transpose(1, 2) for delta in self.waiting], 1)
        self.waiting = []
        # Entries in the order (row, column), whichever way the matrix is stored: the same on both sides.
        made = (d.flatten(1, 2).to(x.dtype) @ x).view(n, k, -1)
        if n == self.n and k == self.outputs:
            self.values = [made]  # no copy
        else:
            self._room(0, tuple(made.shape[2:]), made)[batch, c + 1 - k : c + 1] = made

    def _scaled(self, x: Any) -> Any:
        """The columns times the roots of the rates, and one more column for the bias."""
        torch = torch_library("The kernel")
        x = x.float() if x.element_size() < 4 else x
        x = x * self.roots[0] if self.roots[0] != 1 else x
        return torch.nn.functional.pad(x, (0, 1), value=self.roots[1]) if len(self.roots) == 2 else x

    def _room(self, place: int, shape: tuple[int, ...], like: Any) -> Any:
        torch = torch_library("The kernel")
        self.values += [None] * (place + 1 - len(self.values))
        if self.values[place] is None:
            dtype = like.dtype if like.element_size() >= 4 else torch.float32
            # Every entry will be written: what has a gradient has one for every output, or the pass has changed.
            self.values[place] = torch.empty(self.n, self.outputs, *shape, dtype=dtype, device=like.device)
        return self.values[place]

    def add_data(self, sites: list[Site], batch: slice) -> None:
        torch = torch_library("The kernel")
        if self.written:
            return
        for place, (i, _) in enumerate(self.group.places):
            x = columns(sites[i], batch.stop - batch.start)
            x = self._scaled(x) if x.dtype.is_floating_point else x
            if batch.stop - batch.start == self.n:
                self.data.append(x)
            else:
                if batch.start == 0:
                    self.data.append(torch.empty(self.n, *x.shape[1:], dtype=x.dtype, device=x.device))
                self.data[place][batch] = x

    def piece(self) -> Piece | None:
        if not any(v is not None for v in self.values):
            return None  # nothing depends on these parameters
        if self.written:
            return Written(self.values[0])
        terms = []
        for place, value in enumerate(self.values):
            if value is not None:
                index = self.data[place].ndim == 2
                delta = value * self.roots[0] if index and self.roots[0] != 1 else value
                terms.append(Term(delta, self.data[place], self.group.flipped[place]))
        return Factors(tuple(terms), self.group.shape)


def _made(kept: list[_Kept], rest: list[Any]) -> list[Piece]:
    """All pieces; what is written out becomes one."""
    torch = torch_library("The kernel")
    found = [piece for piece in (one.piece() for one in kept) if piece is not None]
    out = [piece.values for piece in found if isinstance(piece, Written)]
    if rest:
        whole = torch.cat(rest)
        out.append(whole.float() if whole.element_size() < 4 else whole)
    made: list[Piece] = [piece for piece in found if isinstance(piece, Factors)]
    small = [v for v in out if v.shape[2] <= 4096]
    made += [Written(v) for v in out if v.shape[2] > 4096]
    if small:
        made.append(Written(small[0] if len(small) == 1 else torch.cat(small, 2)))
    return made


def _by_functions(of: Gradients, x: Tensor, weights: Tensor) -> Any:
    """(example, output, entry) by torch.func, or, where that fails, one example after the other."""
    torch = torch_library("The kernel")
    known, names = dict(of.model.named_parameters()), list(of.plan.fallback)
    chosen = {name: known[name].detach() for name in names}
    rest = {name: p.detach() for name, p in known.items() if name not in chosen}
    roots = [of.plan.rates[name] ** 0.5 for name in names]

    def one(values: dict[str, Any], example: Any) -> Any:
        out = torch.func.functional_call(of.model, {**rest, **values}, (example[None],))
        return weights @ outputs_of(out, 1, of.positions)[0]

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            found = torch.func.vmap(torch.func.jacrev(one), (None, 0))(chosen, x)
        return torch.cat([found[name].flatten(2) * root for name, root in zip(names, roots, strict=True)], 2)
    except (RuntimeError, ValueError, NotImplementedError):
        return torch.stack([_of_one(of, example, weights, roots) for example in x])


def _of_one(of: Gradients, example: Tensor, weights: Tensor, roots: list[float]) -> Any:
    torch = torch_library("The kernel")
    known = dict(of.model.named_parameters())
    chosen = [known[name] for name in of.plan.fallback]
    f = weights @ outputs_of(of.model(example[None]), 1, of.positions)[0]
    made = []
    for value in f:
        found = torch.autograd.grad(value, chosen, retain_graph=True, allow_unused=True)
        parts = zip(chosen, found, roots, strict=True)
        made.append(torch.cat([(torch.zeros_like(p) if g is None else g).flatten() * root for p, g, root in parts]))
    return torch.stack(made)
