"""A model's parameters, taken apart: which gradients have factors, which are written out, which need torch.func."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

import numpy as np

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.probes.gradients import written_out
from richter.probes.observe import check_finite, first_tensor, torch_library, undisturbed
from richter.probes.uses import Pass, Site, watched

if TYPE_CHECKING:
    from torch import Tensor, nn

Positions = int | Sequence[int] | None
Rates = Mapping[str, float] | float | None


def learning_rates(model: nn.Module, rates: Rates) -> dict[str, float]:
    """The rate of every parameter: its own name wins over its layers', those over patterns, the last pattern wins.

    What is not named has rate 1; a parameter that does not learn (`requires_grad=False`) has 0.
    """
    given = rates if isinstance(rates, Mapping) else {"*": 1.0 if rates is None else rates}
    parameters = dict(model.named_parameters())
    # A shared parameter has several names, each of which may be used.
    aliases: dict[int, list[str]] = {}
    for name, p in model.named_parameters(remove_duplicate=False):
        aliases.setdefault(id(p), []).append(name)
    layers = {name.rpartition(".")[0] for names in aliases.values() for name in names}
    layers |= {layer[:i] for layer in layers for i, c in enumerate(layer) if c == "."}
    known = {name for names in aliases.values() for name in names} | layers - {""}
    for key, rate in given.items():
        if not (isinstance(rate, (int, float, np.number)) and np.isfinite(rate) and rate >= 0):
            raise ParameterError(message(f"the learning rate of {key}", "be finite and ≥ 0", rate))
        if key != "*" and key not in known and not any(fnmatchcase(name, key) for name in known):
            raise UnknownNameError(f"The model has no layer or parameter `{key}`. {nearest(key, sorted(known))}")
    made = {}
    for name, p in parameters.items():
        rank = (-1, 0)
        rate = 1.0
        for order, (key, value) in enumerate(given.items()):
            for alias in aliases[id(p)]:
                if alias == key:
                    found = (10**6, order)
                elif key in layers and alias.startswith(key + "."):
                    found = (1 + len(key), order)
                elif fnmatchcase(alias, key):
                    found = (0, order)
                else:
                    continue
                if found >= rank:
                    rank, rate = found, float(value)
        made[name] = rate if p.requires_grad else 0.0
    return made


@contextmanager
def differentiable(model: nn.Module) -> Iterator[None]:
    """Gradients on and nothing in their way, whatever is around the call; the model stays as it was."""
    torch = torch_library("The kernel")
    with torch.inference_mode(False), undisturbed(model), torch.enable_grad():
        yield


def outputs_of(out: Any, n: int, positions: Positions) -> Tensor:
    """The model's output as (example, output), at chosen positions of a sequence."""
    f = first_tensor(out, "the model")
    if f.ndim == 0 or f.shape[0] != n:
        advice = "A kernel needs one output, or one row of outputs, per example."
        raise ParameterError(
            message("the model's output", f"have {n} examples first", f"shape {tuple(f.shape)}", advice)
        )
    if not f.dtype.is_floating_point:
        raise ParameterError(message("the model's output", "be real numbers", str(f.dtype)))
    if positions is not None:
        if f.ndim < 3:
            must = "have positions, (example, position, output),"
            raise ParameterError(message("the model's output", must, f"shape {tuple(f.shape)}", "Leave out positions."))
        chosen = [positions] if isinstance(positions, int) else list(positions)
        if not chosen or not all(-f.shape[1] <= p < f.shape[1] for p in chosen):
            must = f"be whole numbers from {-f.shape[1]} to {f.shape[1] - 1}"
            raise ParameterError(message("`positions`", must, positions))
        f = f[:, chosen]
    return f.reshape(n, -1)


@dataclass(frozen=True)
class Group:
    """A parameter, with the bias of the same layer if that can be joined to it, and where it is used."""

    parameters: tuple[str, ...]
    places: tuple[tuple[int, str], ...]  # (site, role)
    factors: bool = False  # whether the gradient has factors: it is a matrix, and used as one everywhere
    sizes: tuple[tuple[int, int, int], ...] = ()  # of every use: places t in one example, columns a, rows b of factors
    flipped: tuple[bool, ...] = ()  # for every use, whether the matrix is stored the other way round
    shape: tuple[int, int] = (1, 1)  # of the matrix as it is stored
    table: bool = False  # whether one use is an embedding


@dataclass(frozen=True)
class Plan:
    """How the gradients of a model are found; the same for every batch of its inputs."""

    axes: dict[int, tuple[str, int]]  # call → (function, axis of the examples)
    alive: frozenset[int]  # calls that the outputs depend on
    groups: tuple[Group, ...]
    rates: dict[str, float]  # of the parameters that learn
    counts: dict[str, int]  # numbers in each of them
    fallback: dict[str, str]  # parameter → why it needs torch.func
    outputs: int
    followed: dict[int, str]
    pass_bytes: float  # what one example's forward and backward pass holds


class Changed(Exception):
    """A pass took another way than the one that was examined."""


def examine(model: nn.Module, x: Tensor, rates: Rates, positions: Positions) -> Plan:
    """Find where every parameter is used, and check on three examples that the parts add up to the gradient."""
    torch = torch_library("The kernel")
    rate_of = {name: rate for name, rate in learning_rates(model, rates).items() if rate > 0}
    parameters = dict(model.named_parameters())
    followed = {id(parameters[name]): name for name in rate_of}
    held: dict[int, int] = {}

    def pack(t: Tensor) -> Tensor:
        held[t.untyped_storage().data_ptr()] = t.untyped_storage().nbytes()
        return t

    with differentiable(model):
        sample = x[torch.arange(3, device=x.device) % x.shape[0]]
        small = watched(model, sample[:2], followed, lambda *_: None)
        two = outputs_of(small.out, 2, positions)
        axis = lambda key, name, shape: _axis(small.shapes.get(key), name, shape)
        with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
            large = watched(model, sample, followed, axis)
        f = outputs_of(large.out, 3, positions)
        check_finite(model, sample, f)
        _check_separate(model, two, f)
        wrong, alive = _compared(parameters, large, f, followed)
        spoilt = {**wrong, **large.spoilt}
    for p in model.parameters():
        held.pop(p.untyped_storage().data_ptr(), None)
    axes = {site.key: (site.function, site.axis) for site in large.sites}
    width = max(4, f.element_size())
    counts = {name: parameters[name].numel() for name in rate_of}
    # Behind every site its δ, and of a norm its normalised input.
    passing = sum(held.values()) + width * sum((1 + (s.kind == "norm")) * math.prod(s.shape) for s in large.sites)
    return Plan(
        axes, alive, _groups(large.sites, rate_of, spoilt, counts), rate_of, counts, spoilt, f.shape[1], followed,
        passing / 3 + width * f.shape[1],
    )  # fmt: skip


def _axis(before: tuple[str, tuple[int, ...]] | None, name: str, shape: tuple[int, ...]) -> int | None:
    """The axis that grew by half from two examples to three."""
    if before is None or len(before[1]) != len(shape):
        return None
    grown = [i for i, (a, b) in enumerate(zip(before[1], shape, strict=True)) if a != b]
    return grown[0] if len(grown) == 1 and 2 * shape[grown[0]] == 3 * before[1][grown[0]] else None


def _tolerance(dtype: Any) -> float:
    torch = torch_library("The kernel")
    return float(torch.finfo(dtype).eps) ** 0.5 * (1 if dtype == torch.float64 else 3)


def _check_separate(model: nn.Module, two: Tensor, three: Tensor) -> None:
    """An error if what one example gives depends on the others."""
    from torch import nn

    gap, size = float((two - three[:2]).detach().abs().max()), float(three.detach().abs().max())
    if not gap <= 10 * _tolerance(three.dtype) * size:
        for name, module in model.named_modules():
            if isinstance(module, nn.modules.batchnorm._BatchNorm) and (module.training or module.running_mean is None):
                what = f"the layer `{name}`, which takes its statistics from the batch,"
                raise ParameterError(message(what, "be in evaluation mode", "training mode", "Call model.eval()."))
        raise ParameterError(
            message(
                "the model's output for one example", "not depend on the others in the batch", f"a change by {gap:.3g}"
            )
        )


def _compared(
    parameters: Mapping[str, Any], seen: Pass, f: Tensor, followed: Mapping[int, str]
) -> tuple[dict[str, str], frozenset[int]]:
    """Parameters whose gradient for one example is not the sum of the parts found, and the calls that matter."""
    torch = torch_library("The kernel")
    weights = torch.linspace(0.5, 1.5, f.shape[1], dtype=f.dtype, device=f.device)
    names = list(followed.values())
    edges = [site.edge for site in seen.sites]
    if not f.requires_grad:
        return {}, frozenset()
    found = torch.autograd.grad((f[0] * weights).sum(), [*edges, *(parameters[n] for n in names)], allow_unused=True)
    deltas, whole = found[: len(edges)], dict(zip(names, found[len(edges) :], strict=True))
    parts: dict[str, Any] = {}
    spoilt: dict[str, str] = {}
    for site, delta in zip(seen.sites, deltas, strict=True):
        if delta is None:
            continue
        for role, part in site.parts.items():
            made = written_out(*_first(site, delta), role, 1, parameters[part.name].numel())
            parts[part.name] = parts.get(part.name, 0) + made[0]
            if bool((delta.movedim(site.axis, 0).unflatten(0, (3, -1))[1:] != 0).any()):
                spoilt[part.name] = f"`{site.function}` in {site.layer} does not keep the examples apart"
    for name in names:
        g = whole[name]
        g = torch.zeros_like(parameters[name]) if g is None else g
        gap = (parts.get(name, torch.zeros(1, dtype=g.dtype, device=g.device)) - g.flatten()).norm()
        if not bool(gap <= _tolerance(g.dtype) * g.norm()):
            spoilt.setdefault(name, "it is used in a way that was not seen")
    alive = (site.key for site, delta in zip(seen.sites, deltas, strict=True) if delta is not None)
    return spoilt, frozenset(alive)


def _first(site: Site, delta: Tensor) -> tuple[Site, Tensor]:
    """A site and its gradient for the first of three examples."""
    cut = lambda t: t.narrow(site.axis, 0, t.shape[site.axis] // 3)
    return replace(site, data=None if site.data is None else cut(site.data)), cut(delta)


def _groups(
    sites: Sequence[Site], rates: Mapping[str, float], spoilt: Mapping[str, str], counts: Mapping[str, int]
) -> tuple[Group, ...]:
    places: dict[str, list[tuple[int, str]]] = {}
    for i, site in enumerate(sites):
        for role, part in site.parts.items():
            if part.name not in spoilt:
                places.setdefault(part.name, []).append((i, role))
    made, done = [], set()
    for name, used in places.items():
        if all(role == "weight" and _is_matrix(sites[i]) for i, role in used):
            first = sites[used[0][0]]
            bias = first.parts["bias"].name if "bias" in first.parts and len(used) == 1 else ""
            joined = bool(bias) and len(places.get(bias, ())) == 1
            made.append(_matrix((name, bias) if joined else (name,), used, sites, counts[name]))
            done |= {name, bias} if joined else {name}
    for name, used in places.items():
        if name not in done:
            made.append(Group((name,), tuple(used)))
    return tuple(made)


def _is_matrix(site: Site) -> bool:
    return site.kind in {"matrix", "table"} or (site.kind == "conv" and site.facts["groups"] == 1)


def _matrix(names: tuple[str, ...], used: list[tuple[int, str]], sites: Sequence[Site], count: int) -> Group:
    turned, sizes = [], []
    for i, _ in used:
        site = sites[i]
        b = site.shape[1] if site.kind == "conv" else site.shape[-1]
        columns = 1 if site.kind == "table" else count // b + len(names) - 1
        sizes.append((math.prod(site.shape) // (3 * b), columns, b))
        turned.append(site.kind == "table" or bool(site.facts.get("flipped")))
        rows, columns = (count // b, b) if turned[-1] else (b, count // b)
    extra = len(names) - 1
    shape = (rows + extra * turned[0], columns + extra * (not turned[0]))
    table = any(sites[i].kind == "table" for i, _ in used)
    return Group(names, tuple(used), True, tuple(sizes), tuple(turned), shape, table)
