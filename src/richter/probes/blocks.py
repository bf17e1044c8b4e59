"""The gradients of a block of examples: a forward pass, one backward pass per output, torch.func for the rest."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from richter.probes.contract import Kind, Piece, cost_of_places, cost_written
from richter.probes.filling import Filling, pieces, waits
from richter.probes.memory import COMING, HELD, Sizes, Split, split
from richter.probes.observe import check_finite, torch_library
from richter.probes.tangent import Changed, Plan, Positions, differentiable, outputs_of
from richter.probes.uses import watched

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Combinations:
    """Which combinations of the outputs are differentiated: each by itself, or signs drawn for every output."""

    count: int
    seed: int | None = None
    first: int = 0  # how many others come before

    def parts(self, size: int) -> list[Combinations]:
        """The same, so many at a time."""
        starts = range(0, self.count, size)
        return [replace(self, count=min(size, self.count - i), first=self.first + i) for i in starts]

    def row(self, index: int, like: Tensor) -> Tensor:
        """The weights (output,) of one combination."""
        torch = torch_library("The kernel")
        if self.seed is None:
            made = torch.zeros(like.shape[1], dtype=like.dtype, device=like.device)
            made[self.first + index] = 1
            return made
        return self._signs(self.first + index, like)

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

    def written(self, budget: int, n: int) -> tuple[bool, ...]:
        """Which groups are written out: where that is cheaper, and smaller than factors or there is room for it.

        `n`: examples on the side that has more; both sides must be found in the same way.
        """
        C = self.combinations.count
        made, larger = [], {}
        room = (HELD + COMING) * budget / self._width
        for i, group in enumerate(self.plan.groups):
            size = C * sum(self.plan.counts[name] for name in group.parameters)
            factors = sum(t * (a + C * b) for t, a, b in group.sizes)
            cheap = not group.factors
            if group.factors and not group.table:
                t, a, b = max(group.sizes)
                by_places = cost_of_places(self.kind, C, t, a, b, len(group.sizes))
                cheap = cost_written(self.kind, C, size // C) < by_places
            made.append(cheap and (not group.factors or size <= factors))
            room -= n * (size if made[-1] else factors)
            if cheap and not made[-1]:
                larger[i] = n * (size - factors)
        for i in sorted(larger, key=larger.__getitem__):
            room -= larger[i]
            made[i] = room >= 0
        return tuple(made)

    @property
    def _width(self) -> int:
        """Bytes of a number."""
        return max(4, next(self.model.parameters()).element_size())

    def sizes(self, written: tuple[bool, ...]) -> Sizes:
        """Bytes per example."""
        data, waiting, gradients = 0, 0, sum(self.plan.counts[name] for name in self.plan.fallback)
        for group, out in zip(self.plan.groups, written, strict=True):
            if out:
                gradients += sum(self.plan.counts[name] for name in group.parameters)
                waiting += sum(t * b for t, _, b in group.sizes) if waits(group) else 0
            else:
                data += sum(t * a for t, a, _ in group.sizes)
                gradients += sum(t * b for t, _, b in group.sizes)
        return Sizes(self.plan.pass_bytes, self._width * data, self._width * gradients, self._width * waiting)

    def split(self, budget: int, n: int) -> Split:
        """Blocks that fit into so many bytes, if the side that has more examples has n."""
        sets, written = 2 if self.kind == "full" else 1, self.written(budget, n)
        how = split(self.sizes(written), len(self.x), self.combinations.count, budget, sets)
        return replace(how, written=written)

    def pieces(
        self, part: slice, how: Split, budget: int, only: slice | None = None
    ) -> Iterator[tuple[slice, list[Piece]]]:
        """(outputs, gradients) of a block of examples, some outputs at a time, from one pass if there are several.

        `only`: these outputs, where not all fit at once.
        """
        C, x = self.combinations.count, self.x[part]
        room = lambda outputs: [
            Filling(group, out, self.plan, self.kind, len(x), outputs, how.waiting)
            for group, out in zip(self.plan.groups, how.written, strict=True)
        ]
        if how.outputs >= C:
            yield slice(0, C), self._in_batches(x, room(C), how.batch, budget)
            return
        with _Pass(self, x) as seen:
            lows = range(0, C, how.outputs) if only is None else (only.start,)
            for low in lows:
                outputs = range(low, min(low + how.outputs, C))
                kept = room(len(outputs))
                seen.fill(kept, slice(0, len(x)), outputs, last=low == lows[-1])
                yield slice(low, outputs.stop), pieces(kept, seen.by_functions(outputs, budget))

    def _in_batches(self, x: Tensor, kept: list[Filling], size: int, budget: int) -> list[Piece]:
        """The gradients of all outputs; what the passes held is gone before they are used."""
        every, rest = range(self.combinations.count), []
        for first in range(0, len(x), size):
            batch = slice(first, min(first + size, len(x)))
            with _Pass(self, x[batch]) as seen:
                seen.fill(kept, batch, every, last=True)
                rest += seen.by_functions(every, budget)
        return pieces(kept, rest)


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

    def fill(self, kept: list[Filling], batch: slice, outputs: range, last: bool) -> None:
        """Fill in the gradients of these outputs; `last`: no others will be asked for."""
        for c in outputs:
            deltas = self.deltas(c, last and c == outputs[-1])
            for one in kept:
                one.add(self.sites, deltas, batch, c - outputs.start)
        for one in kept:
            one.add_data(self.sites, batch)

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
