"""Consecutive weight layers of a torch model as matrices that meet in one hidden dimension."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.observe import torch_library
from richter.probes.trace import INPUT, MOVED, PARTS, Record, Source, Weight, watch

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
UNKNOWN = "unknown"  # stands for a layer where none can be named
Names = tuple[str, str]  # (first, second) in the order of execution


def pair_name(pair: Names) -> str:
    """A pair as the name of a coordinate.

    >>> pair_name(("fc1", "fc2"))
    'fc1 → fc2'
    """
    return " → ".join(pair)


def reasons(excluded: Mapping[Names, str]) -> dict[str, str]:
    """Why pairs are left out, as a note."""
    text = "; ".join(f"{pair_name(pair)}: {why}" for pair, why in excluded.items())
    return {"excluded": text} if text else {}


@dataclass(frozen=True)
class Pair:
    """Two layers, the second of which reads what the first gives, through `between` and nothing else."""

    first: Weight
    second: Weight
    between: tuple[str, ...]

    @property
    def names(self) -> Names:
        """(first, second)."""
        return self.first.name, self.second.name

    def matched(self, first: Tensor, second: Tensor) -> tuple[Floats, Floats]:
        """(W (hidden, input), A (output, hidden)) from tensors stored like the two weights, or their gradients.

        A convolution's hidden dimension is its channels: W is output channels × rest, A is rest × input channels.
        Behind a flattened convolution the linear layer's columns are channels × positions; positions join the rest.
        """
        W, A = dense(first, self.first.groups), dense(second, self.second.groups)
        W = W.reshape(W.shape[0], -1)
        A = np.moveaxis(A, 1, -1).reshape(-1, A.shape[1])
        hidden, read = W.shape[0], A.shape[1]
        if read > hidden:
            A = A.reshape(A.shape[0], hidden, read // hidden).swapaxes(1, 2).reshape(-1, hidden)
        elif hidden > read:
            W = W.reshape(read, -1)
        return W, A


@dataclass(frozen=True)
class Structure:
    """The pairs that can be compared, and by name every one that cannot."""

    record: Record
    pairs: tuple[Pair, ...]
    excluded: dict[Names, str]
    opaque: tuple[str, ...]


@dataclass(frozen=True)
class PairValues(Mapping[Names, float]):
    """A number per pair of consecutive layers, in the order of execution.

    `between`: the functions between the two. `excluded`: pairs that are out of scope, with the reason. `opaque`:
    blocks with weights of their own that cannot be looked into, and weights that were not seen to be used.
    """

    values_by_pair: dict[Names, float]
    between: dict[Names, tuple[str, ...]] = field(default_factory=dict)
    excluded: dict[Names, str] = field(default_factory=dict)
    opaque: tuple[str, ...] = ()

    def __getitem__(self, pair: Names) -> float:
        return self.values_by_pair[pair]

    def __iter__(self) -> Iterator[Names]:
        return iter(self.values_by_pair)

    def __len__(self) -> int:
        return len(self.values_by_pair)


def structure(model: nn.Module, batch: Any = None) -> Structure:
    """The consecutive weight layers of a model, by one watched pass of two examples.

    Without a batch, zeros of the shape that the first layer takes are tried.
    """
    record = watch(model, batch) if batch is not None else _watch_zeros(model)
    for name, weight in record.weights.items():
        if not bool(weight.value.isfinite().all()):
            raise ParameterError(message(f"the weight of layer `{name}`", "be finite", "NaN or ∞"))
    pairs: list[Pair] = []
    excluded: dict[Names, str] = {}
    for source, name in record.feeds:
        firsts = [layer for layer in source.layers if layer != INPUT]
        second = record.weights[name]
        if source.mixed:
            excluded |= {(layer, name): source.mixed for layer in firsts or [INPUT]}
        elif firsts:
            reason = _mismatch(record.weights[firsts[0]], second, source)
            if reason:
                excluded[firsts[0], name] = reason
            else:
                pairs.append(Pair(record.weights[firsts[0]], second, source.between))
        elif not source.layers:
            excluded[UNKNOWN, name] = f"what `{name}` reads cannot be followed"
    # A layer that did not run, or one inside compiled code, which cannot be watched.
    unseen = [f"{name} (not seen)" for name, p in model.named_parameters() if p.ndim >= 2 and name not in record.seen]
    return Structure(record, tuple(pairs), excluded, (*record.opaque, *unseen))


def _mismatch(first: Weight, second: Weight, source: Source) -> str:
    """Why two layers cannot be matched, or nothing."""
    parts = [step for step in source.between if step in PARTS]
    if parts:
        return f"`{parts[0]}` takes a part of the layer"
    made, read = first.value.shape[0], second.value.shape[1] * second.groups
    moved = [step for step in source.between if step in MOVED]
    if moved and (made != read or first.kind != "conv"):
        return f"`{moved[0]}` changes the order of the neurons"
    if made == read:
        return ""
    if read % made == 0 and first.kind == "conv" and second.kind != "conv":
        return ""
    if made % read == 0 and first.kind != "conv" and second.kind == "conv":
        return ""
    return f"the layer gives {made} values, the next takes {read}"


def dense(weight: Tensor, groups: int = 1) -> Floats:
    """A weight as float64; a grouped convolution with its zeros filled in, (output, input, …)."""
    w = weight.detach().to("cpu").double().numpy()
    if groups == 1:
        return np.asarray(w)
    out, part = w.shape[0] // groups, w.shape[1]
    full = np.zeros((w.shape[0], part * groups, *w.shape[2:]))
    for g in range(groups):
        rows = slice(g * out, (g + 1) * out)
        full[rows, g * part : (g + 1) * part] = w[rows]
    return full


def turned(weight: Weight, stored: Tensor) -> Tensor:
    """A tensor shaped like the parameter, such as its gradient, turned to (output, input, …)."""
    return stored.transpose(0, 1) if weight.turned == "transposed" else stored


def _watch_zeros(model: nn.Module) -> Record:
    torch = torch_library("A probe of layers")
    weight = next((p for p in model.parameters() if p.ndim >= 2), None)
    if weight is None:
        raise ParameterError(message("the model", "have at least one weight matrix", type(model).__name__))
    first: Any = next((m for m in model.modules() if hasattr(m, "in_features") or hasattr(m, "in_channels")), None)
    shapes: list[tuple[int, ...]] = [(2, weight.shape[1])]
    if first is not None and hasattr(first, "in_features"):
        shapes = [(2, int(first.in_features))]
    elif first is not None and hasattr(first, "kernel_size"):
        shapes = [(2, int(first.in_channels), *(size,) * len(first.kernel_size)) for size in (32, 28, 8, 16, 64, 224)]
    for shape in shapes:
        try:
            return watch(model, torch.zeros(shape, dtype=weight.dtype, device=weight.device))
        except (RuntimeError, IndexError, TypeError):
            continue
    advice = "Give a batch of inputs: batch=x."
    raise ParameterError(message("the input of the model", "be of a shape that its first layer tells", None, advice))
