"""What a forward pass computes, in the order in which it does: weight layers, what feeds them, and neurons.

One pass is watched function by function, so that functional calls (`F.relu`, `x @ self.W`) count as much as
modules, and the order is that of execution, not of registration.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message, show
from richter.probes.observe import first_tensor, inputs, torch_library, undisturbed

if TYPE_CHECKING:
    from torch import Tensor, nn

# What may stand between two layers, by the names of torch's functions (a trailing underscore is dropped).
NEURONS = frozenset("relu relu6 leaky_relu prelu hardtanh elu selu celu gelu silu mish threshold hardswish".split())
HOMOGENEOUS = frozenset(
    "relu leaky_relu prelu max_pool1d max_pool2d max_pool3d adaptive_max_pool1d adaptive_max_pool2d abs".split()
)
LINEAR = frozenset(
    "flatten view reshape contiguous squeeze unsqueeze clone to type float double dropout "
    "feature_dropout alpha_dropout avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d "
    "mean sum unflatten view_as reshape_as neg pad interpolate upsample".split()
)
SCALED = frozenset("mul div true_divide multiply divide".split())  # by a number
MOVED = frozenset("permute transpose t T mT swapaxes movedim".split())
ADDED = frozenset("add radd sub rsub subtract".split())
WEIGHTS = frozenset(
    "linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d embedding addmm matmul mm "
    "mv rmatmul bilinear".split()
)
PARTS = frozenset("getitem chunk split narrow select unbind index_select gather roll glu".split())
INPUT = "input"  # stands for the network's input where layers are named


@dataclass(frozen=True)
class Weight:
    """A weight layer as it was used: its matrix, where it came from."""

    name: str
    kind: str  # "linear", "conv", "embedding"
    value: Tensor  # (output, input, …): as if it were applied from the left
    parameter: str  # the name of the parameter, empty if the weight was computed from others
    bias: str = ""  # the name of the bias, empty if there is none
    groups: int = 1
    turned: str = ""  # "": stored as (output, input, …); else how `turn` undoes that


@dataclass(frozen=True)
class Source:
    """Where a value comes from: the weight layers before it, and what was done since."""

    layers: tuple[str, ...] = ()
    between: tuple[str, ...] = ()
    mixed: str = ""  # the function that joined several values, or one that cannot be followed


@dataclass
class Record:
    """What one pass left behind."""

    weights: dict[str, Weight] = field(default_factory=dict)
    feeds: list[tuple[Source, str]] = field(default_factory=list)  # (what went in, which layer), in order
    readers: dict[str, list[str]] = field(default_factory=dict)  # layer → who uses its output
    uses: dict[str, int] = field(default_factory=dict)  # parameter → how often it was used
    ends: tuple[str, ...] = ()  # the layers that the output comes from
    seen: set[str] = field(default_factory=set)  # parameters that any function was given
    opaque: list[str] = field(default_factory=list)  # functions that hold weights and cannot be looked into
    neurons: dict[str, Tensor] = field(default_factory=dict)  # name → what goes into the activation function


def watch(model: nn.Module, batch: Any, patterns: bool = False) -> Record:
    """One pass of `batch` through the model; for the structure two examples are enough and are all that is used.

    With `patterns` all examples pass and what goes into every activation function is kept as signs.
    """
    x = inputs(model, batch)
    watcher = _watcher()(model, patterns)
    seen = x if patterns else x[:2]
    watcher.sources[id(seen)] = Source((INPUT,))
    with undisturbed(model), named_places(model, watcher.stack), watcher:
        out = model(seen)
    watcher.record.ends = watcher.source(first_tensor(out, "the model")).layers
    for tensor in leaves(out):
        for name in watcher.source(tensor).layers:
            watcher.record.readers.setdefault(name, []).append("output")
    return watcher.record


@contextmanager
def named_places(model: nn.Module, stack: list[str]) -> Iterator[None]:
    """While inside, the name of the module that runs is on top of the stack."""

    def leave(*_: Any) -> None:
        stack.pop()

    handles = []
    try:
        for name, module in model.named_modules():
            enter: Callable[..., None] = lambda *_, name=name: stack.append(name)
            handles += [module.register_forward_pre_hook(enter), module.register_forward_hook(leave)]
        yield
    finally:
        for handle in handles:
            handle.remove()


def _watcher() -> Any:
    """The watching mode; a class made on use, since torch is."""
    torch = torch_library("A probe")
    from torch.overrides import TorchFunctionMode

    class Watcher(TorchFunctionMode):
        def __init__(self, model: nn.Module, patterns: bool) -> None:
            super().__init__()
            self.record, self.patterns = Record(), patterns
            self.stack: list[str] = []
            self.modules = dict(model.named_modules())
            self.names = {id(p): name for name, p in model.named_parameters()}
            self.params: dict[int, tuple[str, str]] = {id(p): (name, "") for name, p in model.named_parameters()}
            self.sources: dict[int, Source] = {}
            self.kept: list[Any] = []  # an id must not be given away while it is a key

        def source(self, tensor: Any) -> Source:
            return self.sources.get(id(tensor), Source())

        def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            kwargs = kwargs or {}
            name = function_name(func)
            given = [a for a in leaves((args, kwargs)) if isinstance(a, torch.Tensor)]
            if self.patterns and name in NEURONS:
                self._see(given[0])
            out = func(*args, **kwargs)
            made = [t for t in leaves(out) if isinstance(t, torch.Tensor)]
            if given and not self.patterns and name == "setitem":
                made = given[:1]
            if made and given and not self.patterns:
                self._follow(name, args, kwargs, given, made)
                self._changed_in_place(name, given, made)
            return out

        def _changed_in_place(self, name: str, given: list[Any], made: list[Any]) -> None:
            """A part of a value that is overwritten changes the whole, which then cannot be followed."""
            whole = getattr(given[0], "_base", None)
            if whole is not None and any(t is given[0] for t in made):
                self.sources[id(whole)] = Source(self.source(given[0]).layers, (), f"`{name}` changes a part in place")
                self.kept.append(whole)

        def _see(self, x: Tensor) -> None:
            place = self.stack[-1] if self.stack and self.stack[-1] else "model"
            name, k = place, 2
            while name in self.record.neurons:
                name, k = f"{place}#{k}", k + 1
            if not bool(torch.isfinite(x).all()):
                advice = "Look for a diverged weight or an input that is not finite."
                raise ParameterError(
                    message(f"what goes into the neurons of `{name}`", "be finite", "NaN or ∞", advice)
                )
            self.record.neurons[name] = (x.detach() > 0).flatten(1).to("cpu")

        def _follow(self, name: str, args: Any, kwargs: Any, given: list[Any], made: list[Any]) -> None:
            weights = [t for t in given if id(t) in self.params]
            values = [t for t in given if id(t) not in self.params]
            self.record.seen |= {self.params[id(t)][0] for t in weights}
            if not values:  # parameters only: a transposed or otherwise derived weight
                key, how = self.params[id(weights[0])]
                plain = name in {"t", "T", "transpose", "mT"} and weights[0].ndim == 2 and not how
                for t in made:
                    same = t is weights[0] or (t.shape == weights[0].shape and t.data_ptr() == weights[0].data_ptr())
                    same = same and name not in {"data", "detach"}  # no gradient comes back through these
                    self.params[id(t)] = (key, how if same else "transposed" if plain else "derived")
                self.kept += made
                return
            if name in WEIGHTS and weights and weights[0].ndim >= 2:
                result = self._weight(name, args, kwargs, weights, values)
            else:
                result = self._pass(name, weights, values)
            for t in made:
                self.sources[id(t)] = result
            self.kept += made

        def _weight(self, name: str, args: Any, kwargs: Any, weights: list[Any], values: list[Any]) -> Source:
            w = weights[0] if name != "addmm" or len(weights) == 1 else next(t for t in weights if t.ndim == 2)
            key, how = self.params[id(w)]
            module = self.stack[-1] if self.stack else ""
            # A tied weight has one name as a parameter and one layer per use.
            owned = bool(module) and any(p is w for p in self.modules[module]._parameters.values())
            label = module if owned or (how == "derived" and module) else key.removesuffix(".weight")
            self.record.uses[key] = self.record.uses.get(key, 0) + 1
            k, base = 2, label
            while label in self.record.weights:
                label, k = f"{base}#{k}", k + 1
            value, kind, turned = w.detach(), "linear", how
            if name == "embedding" or (
                name in {"matmul", "mm", "addmm", "rmatmul"} and not _on_the_left(name, args, w)
            ):
                value, kind = value.transpose(0, 1), "embedding" if name == "embedding" else "linear"
                turned = {"": "transposed", "transposed": ""}.get(how, how)
            if name.startswith("conv"):
                kind = "conv"
                if "transpose" in name:
                    value, turned = value.transpose(0, 1), "transposed" if not how else how
            bias = next((self.names[id(b)] for b in weights if b is not w and b.ndim == 1 and id(b) in self.names), "")
            lost = [b for b in weights if b is not w and id(b) not in self.names] or name == "bilinear"
            groups = _groups(name, args, kwargs)
            parameter = key if turned in ("", "transposed") and not lost and not (groups > 1 and turned) else ""
            self.record.weights[label] = Weight(label, kind, value, parameter, bias, groups, turned)
            feed = self.source(values[0]) if len(values) == 1 else self._pass(name, [], values)
            self.record.feeds.append((feed, label))
            for layer in feed.layers:
                self.record.readers.setdefault(layer, []).append(label)
            return Source((label,))

        def _pass(self, name: str, weights: list[Any], values: list[Any]) -> Source:
            sources = [self.source(v) for v in values]
            from_layers = [s for s in sources if s.layers or s.mixed]
            layers = tuple(dict.fromkeys(layer for s in sources for layer in s.layers))
            between = tuple(dict.fromkeys(step for s in sources for step in s.between))
            mixed = next((s.mixed for s in sources if s.mixed), "")
            place = self.stack[-1] if self.stack and self.stack[-1] else ""
            if weights and any(t.ndim >= 2 and name != "prelu" for t in weights):
                self.record.opaque.append(f"{place or 'model'} ({name})")
                for key in {self.params[id(t)][0] for t in weights}:
                    self.record.uses[key] = self.record.uses.get(key, 0) + 1
                return Source(layers, between, mixed or f"`{name}` holds weights of its own")
            if len(values) > 1 and name not in {"batch_norm", "layer_norm", "group_norm", "instance_norm"}:
                if len(from_layers) > 1 or name not in ADDED | SCALED:
                    nearest = dict.fromkeys(s.layers[-1] for s in sources if s.layers)
                    said = f"`{name}` joins {', '.join(nearest) or 'values'}"
                    return Source(layers, between, said if len(nearest) > 1 else mixed or said)
            if weights and name in ADDED and len(layers) == 1 and not between and self._bias(layers[0], weights):
                return Source(layers, between, mixed)
            step = (
                name
                if not (weights or len(values) > 1) or name in NEURONS or name.endswith("norm")
                else f"{name} with a tensor"
            )
            return Source(layers, (*between, step), mixed)

        def _bias(self, layer: str, weights: list[Any]) -> bool:
            """Whether a vector added right behind a layer is taken as its bias."""
            from dataclasses import replace

            w = self.record.weights[layer]
            if w.bias or weights[0].ndim != 1 or id(weights[0]) not in self.names or w.kind == "conv":
                return False
            self.record.weights[layer] = replace(w, bias=self.names[id(weights[0])])
            return True

    return Watcher


def function_name(func: Any) -> str:
    """A torch function's plain name, `add` for `__add__`, `add_` and `Tensor.add` alike."""
    name = str(getattr(func, "__name__", ""))
    if name == "__get__":
        name = str(getattr(getattr(func, "__self__", None), "__name__", name))
    return name.strip("_") if name.startswith("__") else name.removesuffix("_")


def _on_the_left(name: str, args: Any, w: Any) -> bool:
    """Whether the weight multiplies from the left, W x."""
    first = args[1] if name == "addmm" else args[0]
    return (first is w) != (name == "rmatmul")


def _groups(name: str, args: Any, kwargs: Any) -> int:
    if not name.startswith("conv"):
        return 1
    return int(kwargs.get("groups", args[6] if len(args) > 6 else 1))


def leaves(value: Any) -> list[Any]:
    """What a nest of lists and mappings holds."""
    if isinstance(value, (tuple, list)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for item in value.values() for leaf in leaves(item)]
    return [value]


def shown(names: Any) -> str:
    """Layer names for a message."""
    return show(", ".join(f"`{name}`" for name in names), 200).strip("'")


def signs(record: Record) -> dict[str, NDArray[np.bool_]]:
    """Which neuron is active on which example, by layer: (example, unit)."""
    return {name: x.numpy() for name, x in record.neurons.items()}
