"""Where parameters meet data in a forward pass: every place, the input it had and the gradient edge behind it.

The pass is watched function by function, so that functional calls count as much as modules. What cannot be taken
apart is never dropped: its parameters are named, with the reason, and are treated another way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from richter.probes.attention import apart
from richter.probes.observe import torch_library

if TYPE_CHECKING:
    from torch import Tensor, nn

# Functions that only move entries; what they give is still the parameter.
MOVES = frozenset(
    "getitem t T mT transpose permute swapaxes movedim view reshape flatten unflatten unsqueeze squeeze expand "
    "expand_as broadcast_to repeat contiguous chunk split unbind narrow select index_select flip view_as "
    "reshape_as clone".split()
)
TURNS = frozenset("t T mT transpose swapaxes".split())
SPREADS = frozenset("expand expand_as broadcast_to repeat".split())
POINTWISE = frozenset(
    "add radd iadd sub rsub isub subtract mul rmul imul multiply div truediv rtruediv itruediv divide true_divide "
    "maximum minimum where pow rpow addcmul lerp".split()
)
NORMS = frozenset("layer_norm rms_norm batch_norm group_norm".split())


@dataclass(frozen=True)
class Derived:
    """A parameter, or entries of it that were only moved about."""

    name: str
    how: str  # "" as stored, "turned" a transposed matrix, "moved" anything else
    index: Callable[[], Tensor]  # the position in the flat parameter of every entry


@dataclass
class Site:
    """One call in which parameters meet data."""

    key: int  # the call's number in the pass
    function: str
    kind: str  # "matrix", "conv", "table", "norm", "spread"
    layer: str
    axis: int  # of the examples in what the edge belongs to
    edge: Any
    shape: tuple[int, ...]
    parts: dict[str, Derived]  # "weight", "bias"
    data: Any = None
    version: int = 0
    facts: dict[str, Any] = field(default_factory=dict)
    normed: Any = None  # a norm's input, normalised, once it is


@dataclass
class Pass:
    """What one forward pass left behind."""

    out: Any = None
    sites: list[Site] = field(default_factory=list)
    spoilt: dict[str, str] = field(default_factory=dict)  # parameter → why it cannot be taken apart
    shapes: dict[int, tuple[str, tuple[int, ...]]] = field(default_factory=dict)


Axis = Callable[[int, str, tuple[int, ...]], "int | None"]


def watched(model: nn.Module, x: Tensor, names: dict[int, str], axis: Axis, copies: bool = False) -> Pass:
    """One forward pass; `names` are the parameters to follow, `axis` says where a call's result has its examples."""
    watcher = _watcher()(model, names, axis, copies)
    handles = []
    try:
        for name, module in model.named_modules():
            enter: Callable[..., None] = lambda *_, name=name: watcher.stack.append(name)
            leave: Callable[..., None] = lambda *_: watcher.leave()
            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        with watcher:
            out = model(x)
    finally:
        for handle in handles:
            handle.remove()
    watcher.seen.out = out
    return watcher.seen


def _watcher() -> Any:
    """The watching mode; a class made on use, since torch is."""
    torch = torch_library("A probe")
    from torch.autograd.graph import get_gradient_edge
    from torch.overrides import TorchFunctionMode

    class Watcher(TorchFunctionMode):
        def __init__(self, model: nn.Module, names: dict[int, str], axis: Axis, copies: bool) -> None:
            super().__init__()
            self.seen, self.axis, self.copies = Pass(), axis, copies
            self.stack: list[str] = []
            self.calls = 0
            self.kept: list[Any] = []  # an id must not be given away while it is a key
            self.derived = {id(p): _whole(p, names[id(p)]) for p in model.parameters() if id(p) in names}

        def leave(self) -> None:
            self.stack.pop()

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            self.calls += 1
            given = [t for t in _leaves((args, kwargs)) if isinstance(t, torch.Tensor)]
            own = [t for t in given if id(t) in self.derived]
            if not own or not torch.is_grad_enabled():
                out = func(*args, **kwargs)
                if isinstance(out, torch.Tensor):
                    self.seen.shapes[self.calls] = (_name(func), tuple(out.shape))
                return out
            if _name(func) == "multi_head_attention_forward":
                with self:
                    parts = apart(args, kwargs)
                if parts is not None:
                    return parts
            return self._meet(_name(func), func, args, kwargs, given, own)

        def _meet(self, name: str, func: Any, args: Any, kwargs: Any, given: list[Any], own: list[Any]) -> Any:
            data = [t for t in given if id(t) not in self.derived]
            if name in POINTWISE and data and len(own) == 1:
                return self._pointwise(name, func, args, kwargs, given, own[0])
            out = func(*args, **kwargs)
            made = [t for t in _leaves(out) if isinstance(t, torch.Tensor)]
            for t in made:
                self.seen.shapes[self.calls] = (name, tuple(t.shape))
            if not any(t.requires_grad for t in made):
                return out  # a size, a detached copy: no derivative comes back through it
            if name in MOVES and len(own) == 1 and isinstance(own[0], torch.Tensor) and args and args[0] is own[0]:
                self._moved(name, func, args, kwargs, own[0], out, made)
            elif data and len(made) == 1:
                # What changes a view in place cuts the graph at its base, past the edge that is kept here.
                out = out.clone() if isinstance(out, torch.Tensor) and out._is_view() else out
                if not self._site(name, args, kwargs, out):
                    self._unknown(own, name)
            else:
                self._unknown(own, name)
            return out

        def _unknown(self, own: list[Any], name: str) -> None:
            where = self.stack[-1] if self.stack and self.stack[-1] else "the model"
            self._spoil(own, f"`{name}` in {where}")

        def _spoil(self, own: list[Any], reason: str) -> None:
            for t in own:
                self.seen.spoilt.setdefault(self.derived[id(t)].name, reason)

        def _moved(self, name: str, func: Any, args: Any, kwargs: Any, v: Any, out: Any, made: list[Any]) -> None:
            before = self.derived[id(v)]
            if name in SPREADS and len(made) == 1:
                axis = self.axis(self.calls, name, tuple(out.shape))
                lead = out.ndim - v.ndim
                if axis is not None:  # spread over the examples: its gradient is one per example
                    if axis >= lead and v.shape[axis - lead] != 1:
                        return self._spoil([v], f"`{name}` repeats it over examples")
                    if name != "repeat" or out.numel() // out.shape[axis] == v.numel():
                        return self._add("spread", name, out, axis, {"weight": before}, None, value=tuple(v.shape))
                    return self._spoil([v], f"`{name}` repeats it over more than the examples")
            same = len(made) == 1 and made[0].shape == v.shape and name in {"contiguous", "clone", "view", "reshape"}
            for i, t in enumerate(made):
                how = before.how if same else "moved"
                if name in TURNS and v.ndim == 2 and t.shape == v.shape[::-1]:
                    how = {"": "turned", "turned": ""}.get(before.how, "moved")
                    how = "moved" if v.shape[0] == v.shape[1] and name in {"transpose", "swapaxes"} else how

                def index(i: int = i) -> Any:
                    moved = func(before.index(), *args[1:], **kwargs)
                    return moved if isinstance(moved, torch.Tensor) else moved[i]

                self.derived[id(t)] = Derived(before.name, how, index)
            self.kept += made

        def _pointwise(self, name: str, func: Any, args: Any, kwargs: Any, given: list[Any], v: Any) -> Any:
            shape = tuple(torch.broadcast_shapes(*(t.shape for t in given)))
            axis = self.axis(self.calls, name, shape)
            lead = len(shape) - v.ndim
            if axis is None or not v.requires_grad or (axis >= lead and v.shape[axis - lead] != 1):
                self._spoil([v], f"`{name}` with what is not one per example")
                out = func(*args, **kwargs)
                self.seen.shapes[self.calls] = (name, tuple(out.shape))
                return out
            wide = v.expand(shape)
            self._add("spread", name, wide, axis, {"weight": self.derived[id(v)]}, None, value=tuple(v.shape))
            swap = lambda t: wide if t is v else t
            out = func(*(swap(a) for a in args), **{k: swap(a) for k, a in kwargs.items()})
            self.seen.shapes[self.calls] = (name, tuple(out.shape))
            return out

        def _site(self, name: str, args: Any, kwargs: Any, out: Any) -> bool:
            """Record a call that can be taken apart; False if it cannot."""
            at: Any = lambda i, key, default=None: args[i] if len(args) > i else kwargs.get(key, default)
            axis = self.axis(self.calls, name, tuple(out.shape))
            part: Any = lambda t: self.derived.get(id(t)) if t is not None else None
            if name in {"linear", "matmul", "mm", "addmm"}:
                first, weight, bias = (
                    (at(1, "mat1"), at(2, "mat2"), at(0, "input"))
                    if name == "addmm"
                    else (at(0, "input"), at(1, "weight" if name == "linear" else "other"), None)
                )
                bias = at(2, "bias") if name == "linear" else bias
                if name == "addmm" and (kwargs.get("beta", 1) != 1 or kwargs.get("alpha", 1) != 1):
                    return False
                w, b = part(weight), part(bias)
                if part(first) or weight.ndim != 2 or first.ndim < 2 or axis is None or axis == out.ndim - 1:
                    return False
                if (w and w.how == "moved") or (b and (b.how or bias is None or bias.ndim != 1)):
                    return False
                flipped = (name != "linear") != bool(w and w.how == "turned")
                parts = {"weight": w, "bias": b}
                self._add("matrix", name, out, axis, parts, first, flipped=flipped)
            elif name in {"conv1d", "conv2d"}:
                data, weight, bias = at(0, "input"), at(1, "weight"), at(2, "bias")
                w, b = part(weight), part(bias)
                if part(data) or axis != 0 or out.ndim != weight.ndim or (w and w.how) or (b and b.how):
                    return False
                facts = {
                    "stride": at(3, "stride", 1), "padding": at(4, "padding", 0), "dilation": at(5, "dilation", 1),
                    "groups": at(6, "groups", 1), "kernel": tuple(weight.shape[2:]),
                }  # fmt: skip
                self._add("conv", name, out, 0, {"weight": w, "bias": b}, data, **facts)
            elif name == "embedding":
                index, weight = at(0, "input"), at(1, "weight")
                padding, w = at(2, "padding_idx"), part(weight)
                if at(3, "max_norm") is not None or at(5, "scale_grad_by_freq", False) or w is None:
                    return False
                if axis is None and padding is None:  # the same rows for every example: entries, moved
                    take = lambda: w.index()[index]
                    self.derived[id(out)] = Derived(w.name, "moved", take)
                    self.kept.append(out)
                    return True
                if w.how or axis is None or axis == out.ndim - 1:
                    return False
                self._add("table", name, out, axis, {"weight": w}, index, padding=padding, rows=weight.shape[0])
            elif name in NORMS:
                return self._norm(name, at, part, axis, out)
            else:
                return False
            return True

        def _norm(self, name: str, at: Any, part: Any, axis: int | None, out: Any) -> bool:
            data = at(0, "input")
            place = {"batch_norm": (3, 4), "group_norm": (2, 3), "layer_norm": (2, 3), "rms_norm": (2, 9)}[name]
            weight, bias = at(place[0], "weight"), at(place[1], "bias")
            w, b = part(weight), part(bias)
            if part(data) or axis is None or (w and w.how) or (b and b.how):
                return False
            facts: dict[str, Any]
            if name == "batch_norm":
                mean, var = at(1, "running_mean"), at(2, "running_var")
                if at(5, "training", False) or mean is None:
                    return False
                facts = {"mean": mean, "var": var, "eps": at(7, "eps", 1e-5)}
            elif name == "group_norm":
                facts = {"groups": at(1, "num_groups"), "eps": at(4, "eps", 1e-5)}
            else:
                facts = {"over": tuple(at(1, "normalized_shape")), "eps": at(3 if name == "rms_norm" else 4, "eps")}
                if axis >= out.ndim - len(facts["over"]):
                    return False
            if "over" not in facts and axis != 0:
                return False
            self._add("norm", name, out, axis, {"weight": w, "bias": b}, data, **facts)
            return True

        def _add(self, kind: str, name: str, y: Any, axis: int, parts: dict[str, Any], data: Any, **facts: Any) -> None:
            kept = None
            if data is not None:
                kept = data.detach().clone() if self.copies else data.detach()
            found = {role: d for role, d in parts.items() if d is not None}
            layer = self.stack[-1] if self.stack and self.stack[-1] else name
            site = Site(
                self.calls, name, kind, layer, axis, get_gradient_edge(y), tuple(y.shape), found, kept,
                0 if kept is None else kept._version, facts,
            )  # fmt: skip
            self.seen.sites.append(site)

    def _whole(p: Any, name: str) -> Derived:
        return Derived(name, "", lambda: torch.arange(p.numel(), device=p.device).view(p.shape))

    return Watcher


def _name(func: Any) -> str:
    name = str(getattr(func, "__name__", ""))
    if name == "__get__":
        name = str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name.strip("_") if name.startswith("__") else name.removesuffix("_")


def _leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in _leaves(item)]
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in _leaves(item)]
    return [value]
