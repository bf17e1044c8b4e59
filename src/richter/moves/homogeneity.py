r"""What scaling parameters does to the function: one pass, in which every value carries the factor it gets.

If each parameter θ is multiplied by $e^{s_\theta}$, a value between the layers is multiplied by $e^s$ as long as all
functions on its way are homogeneous; products add the exponents, sums need them equal. The bias of a layer has to
follow with its layer's exponent, the running statistics of a batch norm with those of its input. Where a function
is not homogeneous (tanh, softmax) or a sum's exponents differ (residuals, embeddings), the pass says which and where.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from richter.probes.observe import first_tensor, inputs, undisturbed
from richter.probes.trace import ADDED, HOMOGENEOUS, LINEAR, MOVED, PARTS, function_name, leaves, named_places

EQUAL = 1e-9  # exponents this near to each other are meant to be equal
SMALL = 1e-4  # a number this small that is added is an ε against division by 0
BROKEN = math.nan  # the exponent of a value that is not a multiple of what it was

KEEPING = HOMOGENEOUS | LINEAR | MOVED | PARTS | {
    "relu_", "dropout1d", "dropout2d", "dropout3d", "expand", "expand_as", "repeat", "repeat_interleave", "unfold",
    "fold", "flip", "roll", "sort", "topk", "amax", "amin", "max", "min", "median", "norm", "std", "cumsum", "detach",
    "half", "bfloat16", "cpu", "cuda", "tril", "triu", "diagonal", "copy", "positive", "zeros_like", "data", "real",
    "linalg_norm", "vector_norm", "unsqueeze", "pixel_shuffle", "channel_shuffle", "adaptive_avg_pool", "nan_to_num",
}  # fmt: skip
PRODUCTS = frozenset("mul multiply rmul matmul mm bmm mv dot rmatmul einsum outer inner baddbmm tensordot".split())
QUOTIENTS = frozenset("div true_divide divide".split())
LEVELS = ADDED | frozenset("maximum minimum where setitem".split())  # sums in which a number is a value
SUMS = LEVELS | frozenset("cat concat concatenate stack hstack vstack".split())
POWERS = {"square": 2.0, "sqrt": 0.5, "rsqrt": -0.5, "reciprocal": -1.0, "var": 2.0}
FORGETTING = frozenset("layer_norm group_norm instance_norm rms_norm normalize".split())
ORDERS = frozenset("gt lt ge le eq ne sign argmax argmin heaviside isnan isfinite".split())


@dataclass
class Flow:
    """What a scaling does: the exponent of the output, who has to follow, and what stands in the way."""

    output: float = 0.0
    followers: dict[str, float] = field(default_factory=dict)  # parameter or buffer → exponent
    conflicts: list[str] = field(default_factory=list)
    nearly: list[str] = field(default_factory=list)  # norms, which forget a scale up to their ε
    used: set[str] = field(default_factory=set)

    @property
    def scales(self) -> bool:
        """Whether the output is multiplied by e^output and nothing else happens."""
        return not self.conflicts and not math.isnan(self.output)


def flow(model: nn.Module, exponents: Mapping[str, float], batch: Any, follow: bool = True) -> Flow:
    """The effect of multiplying each named parameter by e to its exponent; two examples are looked at.

    Args:
        model: a torch model; it is left as it was.
        exponents: of parameters by their full names; others stay.
        batch: inputs.
        follow: whether vectors that are added behind a layer (biases) may be scaled along.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> import torch
    >>> made = flow(net, {"0.weight": 1.0, "2.weight": 1.0}, torch.ones(1, 2))
    >>> made.output, made.followers
    (2.0, {'0.bias': 1.0, '2.bias': 2.0})
    """
    x = inputs(model, batch)[:2]
    watcher = _Watcher(model, dict(exponents), follow)
    with undisturbed(model), named_places(model, watcher.stack), watcher:
        out = model(x)
    watcher.flow.output = watcher.exponent(first_tensor(out, "the model"))
    # A module whose code does not pass through torch's functions is invisible: its parameters are never given.
    for name in exponents:
        if name not in watcher.flow.used:
            watcher.flow.conflicts.append(f"`{name}` was not seen to be used")
    return watcher.flow


class _Watcher(TorchFunctionMode):
    def __init__(self, model: nn.Module, exponents: dict[str, float], follow: bool) -> None:
        super().__init__()
        self.flow, self.given, self.follow = Flow(), exponents, follow
        self.stack: list[str] = []
        self.names = {id(p): name for name, p in (*model.named_parameters(), *model.named_buffers())}
        self.own = {id(p): p for p in (*model.parameters(), *model.buffers())}
        self.values: dict[int, float] = {}
        self.kept: list[Any] = []  # an id must not be given away while it is a key

    def exponent(self, tensor: Any) -> float:
        """Of a value, or of a parameter."""
        name = self.names.get(id(tensor))
        if name is None:
            return self.values.get(id(tensor), 0.0)
        return self.given.get(name, self.flow.followers.get(name, 0.0))

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = function_name(func)
        given = [a for a in leaves((args, kwargs)) if isinstance(a, Tensor)]
        self.flow.used |= {self.names[id(t)] for t in given if id(t) in self.names}
        first = self.exponent(given[0]) if given else 0.0
        out = func(*args, **kwargs)
        made = [t for t in leaves(out) if isinstance(t, Tensor)]
        if name == "setitem":
            made = given[:1]
        if made and given:
            result = self._result(name, args, kwargs, given)
            for t in made:
                whole = getattr(t, "_base", None)
                in_place = whole is not None and t is given[0]
                if in_place and not _equal(result, first):  # a part of a value is overwritten: the whole is mixed
                    self.values[id(whole)] = self._conflict(name, "changes a part in place")
                    self.kept.append(whole)
                self.values[id(t)] = result
            self.kept += made
        return out

    def _result(self, name: str, args: Any, kwargs: Any, given: list[Tensor]) -> float:
        s = [self.exponent(t) for t in given]
        if any(math.isnan(x) for x in s):
            return BROKEN
        if name == "linear" or name.startswith("conv") or name == "embedding":
            return self._layer(name, args, kwargs, s)
        if name == "addmm":
            return self._sum(name, [args[0]], s[1] + s[2])
        if name == "batch_norm":
            return self._batch_norm(args, kwargs)
        if name in FORGETTING:
            return self._norm(name, given, kwargs)
        if name == "scaled_dot_product_attention":
            return s[2] if _equal(s[0] + s[1], 0.0) else self._conflict(name, "is not homogeneous in query and key")
        if name in SUMS:
            items = leaves((args, kwargs.get("tensors")))
            return self._sum(name, [a for a in items if _value(a) and (name in LEVELS or isinstance(a, Tensor))])
        if name in KEEPING and all(_equal(x, 0.0) for x in s[1:]):
            return s[0]
        if name in PRODUCTS:
            return sum(s)
        if name in QUOTIENTS:
            return s[0] - sum(s[1:])
        if name in POWERS:
            return POWERS[name] * s[0]
        if name == "pow" and len(s) == 1 and isinstance(args[-1], (int, float)):
            return float(args[-1]) * s[0]
        if all(_equal(x, 0.0) for x in s) or (name in ORDERS and _against_zero(args, s)):
            return 0.0
        if name in ("masked_fill", "clamp", "clamp_min") and _no_level(name, args, kwargs):
            return s[0]
        return self._conflict(name, "is not homogeneous")

    def _layer(self, name: str, args: Any, kwargs: Any, s: list[float]) -> float:
        weight = kwargs.get("weight", args[1] if len(args) > 1 else None)
        bias = None if name == "embedding" else kwargs.get("bias", args[2] if len(args) > 2 else None)
        both = self.exponent(weight) + (0.0 if name == "embedding" else s[0])
        return both if bias is None else self._sum(name, [bias], both)

    def _batch_norm(self, args: Any, kwargs: Any) -> float:
        words = ("input", "running_mean", "running_var", "weight", "bias", "training", "momentum", "eps")
        said = {**dict(zip(words, args, strict=False)), **kwargs}
        s = self.exponent(said["input"])
        if not _equal(s, 0.0):
            if said.get("running_mean") is not None:
                self._let(said["running_mean"], s)
                self._let(said["running_var"], 2 * s)
            self.flow.nearly.append(self._at("batch_norm", "forgets the scale of its input, up to its ε"))
        return self._affine("batch_norm", said.get("weight"), said.get("bias"))

    def _norm(self, name: str, given: list[Tensor], kwargs: Any) -> float:
        if not _equal(self.exponent(given[0]), 0.0):
            self.flow.nearly.append(self._at(name, "forgets the scale of its input, up to its ε"))
        rest = [t for t in given[1:] if id(t) in self.names]
        weight = kwargs.get("weight", rest[0] if rest else None)
        bias = kwargs.get("bias", rest[1] if len(rest) > 1 else None)
        return self._affine(name, weight, bias)

    def _affine(self, name: str, weight: Any, bias: Any) -> float:
        s = 0.0 if weight is None else self.exponent(weight)
        return s if bias is None else self._sum(name, [bias], s)

    def _sum(self, name: str, items: list[Any], known: float | None = None) -> float:
        """The one exponent of everything that is added; biases are given it."""
        small = [a for a in items if isinstance(a, float) and 0 < abs(a) <= SMALL]
        levels = [a for a in items if not isinstance(a, Tensor) and a != 0 and a not in small]
        # a tensor is free to follow if it is a vector of parameters that nobody has scaled yet
        free = [t for t in items if isinstance(t, Tensor) and self._free(t)]
        fixed = [] if known is None else [known]
        fixed += [self.exponent(t) for t in items if isinstance(t, Tensor) and not any(t is f for f in free)]
        fixed += [0.0 for _ in levels]
        s = fixed[0] if fixed else 0.0
        if any(not _equal(x, s) for x in fixed):
            shown = " and ".join(f"{math.exp(x):.4g}" for x in dict.fromkeys(fixed))
            return self._conflict(name, f"adds what is multiplied by {shown}")
        if small and not _equal(s, 0.0):
            self.flow.nearly.append(self._at(name, f"adds {small[0]:g}, which is not scaled"))
        for t in free:
            if not self._let(t, s):
                return self._conflict(name, f"adds `{self.names[id(t)]}`, which does not follow its layer")
        return s

    def _free(self, t: Tensor) -> bool:
        return id(t) in self.names and self.names[id(t)] not in self.given and self.own[id(t)].ndim <= 1

    def _let(self, t: Tensor, s: float) -> bool:
        """Give a parameter or buffer its exponent; whether that could be done."""
        name = self.names.get(id(t))
        if name is None or (not self.follow and bool((t != 0).any())):
            return _equal(s, 0.0)
        return _equal(self.flow.followers.setdefault(name, s), s)

    def _at(self, name: str, what: str) -> str:
        return f"`{name}` in `{(self.stack[-1] if self.stack else '') or 'the model'}` {what}"

    def _conflict(self, name: str, what: str) -> float:
        self.flow.conflicts.append(self._at(name, what))
        return BROKEN


def _equal(a: float, b: float) -> bool:
    return abs(a - b) <= EQUAL


def _value(a: Any) -> bool:
    """Whether an argument is a number or a tensor of numbers, not a mask, an index or a word."""
    if isinstance(a, Tensor):
        return a.is_floating_point() or a.is_complex()
    return isinstance(a, (float, int)) and not isinstance(a, bool)


def _against_zero(args: Any, s: list[float]) -> bool:
    """A comparison with 0, or of values scaled alike, does not see the scale."""
    other = args[1] if len(args) > 1 else 0
    return all(_equal(x, s[0]) for x in s) and (isinstance(other, Tensor) or other == 0)


def _no_level(name: str, args: Any, kwargs: Any) -> bool:
    if name == "masked_fill":
        level = kwargs.get("value", args[2] if len(args) > 2 else None)
        return isinstance(level, (int, float)) and (level == 0 or math.isinf(level))
    low = kwargs.get("min", args[1] if len(args) > 1 else None)
    high = kwargs.get("max", args[2] if len(args) > 2 else None)
    return all(level is None or (isinstance(level, (int, float)) and level == 0) for level in (low, high))
