"""The gradients of one block of examples: a forward pass, one backward pass per output, torch.func for the rest."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from richter.probes.contract import Factors, Kind, Piece, Written, cheaper_written
from richter.probes.gradients import columns, rows, written_out
from richter.probes.observe import torch_library
from richter.probes.tangent import Changed, Group, Plan, Positions, check_finite, differentiable, outputs_of
from richter.probes.uses import Site, watched

if TYPE_CHECKING:
    from torch import Tensor, nn


def pieces(
    model: nn.Module, x: Tensor, plan: Plan, kind: Kind, positions: Positions, weights: Tensor | None = None
) -> list[Piece]:
    """The gradients of every group of parameters for the examples x, scaled by the root of the rates.

    Args:
        weights: (row, output): which combinations of the outputs to take; without them every output by itself.
    """
    torch = torch_library("The kernel")
    n = x.shape[0]
    parameters = dict(model.named_parameters())
    with differentiable(model):
        seen = watched(model, x, plan.followed, lambda key, *_: _planned(plan, key))
        same = {site.key: (site.function, site.axis) for site in seen.sites} == plan.axes
        if not (same and seen.spoilt.keys() <= plan.fallback.keys()):
            raise Changed
        if any(site.data is not None and site.data._version != site.version for site in seen.sites):
            seen = watched(model, x, plan.followed, lambda key, *_: _planned(plan, key), copies=True)
        f = outputs_of(seen.out, n, positions)
        check_finite(model, x, f)
        if weights is None:
            weights = torch.eye(f.shape[1], dtype=f.dtype, device=f.device)
        builders = [_Builder(group, seen.sites, plan, parameters, n, len(weights), kind) for group in plan.groups]
        edges = [site.edge for site in seen.sites]
        for c, row in enumerate(weights.to(f.dtype)):
            last = c == len(weights) - 1
            deltas = (
                torch.autograd.grad(f, edges, row.expand_as(f), retain_graph=not last, allow_unused=True)
                if edges and f.requires_grad
                else [None] * len(edges)
            )
            if {site.key for site, d in zip(seen.sites, deltas, strict=True) if d is not None} != plan.alive:
                raise Changed
            for builder in builders:
                builder.add(deltas)
        made = [builder.piece() for builder in builders]
        if plan.fallback:
            made.append(_by_functions(model, x, plan, positions, weights.to(f.dtype)))
    return made


def _planned(plan: Plan, key: int) -> int | None:
    return plan.axes[key][1] if key in plan.axes else None


class _Builder:
    """Collects the gradients of one group, output by output."""

    def __init__(
        self, group: Group, sites: list[Site], plan: Plan, parameters: dict[str, Any], n: int, outputs: int, kind: Kind
    ) -> None:
        self.group, self.n = group, n
        self.places = [(i, sites[i], role) for i, role in group.places]
        self.roots = [plan.rates[name] ** 0.5 for name in group.parameters]
        self.counts = [parameters[name].numel() for name in group.parameters]
        self.like = parameters[group.parameters[0]]
        self.found: list[Any] = []
        self.columns = None
        if group.factors:
            site = self.places[0][1]
            self.columns = columns(site, n)
            b = self.like.numel() // (site.facts["rows"] if site.kind == "table" else self.columns.shape[-1])
            a = self.columns.shape[-1] if self.columns.ndim == 3 else self.like.numel() // b
            self.b = b
            if self.columns.ndim == 3 and cheaper_written(kind, outputs, self.columns.shape[1], a, b):
                self.columns = None

    def add(self, deltas: Any) -> None:
        torch = torch_library("The kernel")
        if self.columns is not None:
            (i, site, _), d = self.places[0], deltas[self.places[0][0]]
            t = self.columns.shape[1]
            self.found.append(
                rows(site, d, self.n)
                if d is not None
                else torch.zeros(self.n, t, self.b, dtype=self.like.dtype, device=self.like.device)
            )
            return
        places = self.places
        if len(self.group.parameters) == 2:
            places = [*places, (places[0][0], places[0][1], "bias")]
        per: list[Any] = [None] * len(self.group.parameters)
        for i, site, role in places:
            k = self.group.parameters.index(site.parts[role].name)
            if deltas[i] is not None:
                g = written_out(site, deltas[i], role, self.n, self.counts[k]) * self.roots[k]
                per[k] = g if per[k] is None else per[k] + g
        blank = lambda k: torch.zeros(self.n, self.counts[k], dtype=self.like.dtype, device=self.like.device)
        self.found.append(torch.cat([blank(k) if g is None else g for k, g in enumerate(per)], 1))

    def piece(self) -> Piece:
        torch = torch_library("The kernel")
        made = torch.stack(self.found, 1)
        if made.element_size() < 4:
            made = made.float()
        if self.columns is None:
            return Written(made)
        if self.columns.ndim == 2:
            return Factors(made * self.roots[0], self.columns)
        x = self.columns.to(made.dtype) * self.roots[0]
        if len(self.roots) == 2:
            x = torch.cat([x, torch.full_like(x[..., :1], self.roots[1])], -1)
        return Factors(made, x)


def _by_functions(model: nn.Module, x: Tensor, plan: Plan, positions: Positions, weights: Tensor) -> Written:
    """The gradients of the parameters that cannot be taken apart, by torch.func, or one example after the other."""
    torch = torch_library("The kernel")
    known = dict(model.named_parameters())
    chosen = {name: known[name].detach() for name in plan.fallback}
    rest = {name: p.detach() for name, p in known.items() if name not in chosen}
    roots = [plan.rates[name] ** 0.5 for name in chosen]

    def one(values: dict[str, Any], example: Any) -> Any:
        out = torch.func.functional_call(model, {**rest, **values}, (example[None],))
        return weights @ outputs_of(out, 1, positions)[0]

    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "There is a performance drop")
            found = torch.func.vmap(torch.func.jacrev(one), (None, 0))(chosen, x)
        flat = [found[name].flatten(2) * root for name, root in zip(chosen, roots, strict=True)]
    except (RuntimeError, ValueError, NotImplementedError):
        flat = [
            torch.stack(rows)
            for rows in zip(*(_one_by_one(model, e, plan, positions, weights) for e in x), strict=True)
        ]
    found = torch.cat(flat, 2)
    return Written(found.float() if found.element_size() < 4 else found)


def _one_by_one(model: nn.Module, example: Tensor, plan: Plan, positions: Positions, weights: Tensor) -> list[Any]:
    torch = torch_library("The kernel")
    known = dict(model.named_parameters())
    f = weights @ outputs_of(model(example[None]), 1, positions)[0]
    made: list[list[Any]] = [[] for _ in plan.fallback]
    for c in range(len(f)):
        found = torch.autograd.grad(f[c], [known[n] for n in plan.fallback], retain_graph=True, allow_unused=True)
        for k, (name, g) in enumerate(zip(plan.fallback, found, strict=True)):
            g = torch.zeros_like(known[name]) if g is None else g
            made[k].append(g.flatten() * plan.rates[name] ** 0.5)
    return [torch.stack(rows) for rows in made]
