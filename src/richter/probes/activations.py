"""The features of a named layer and the model's outputs, batch by batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.observe import (
    as_tensor,
    check_finite,
    first_tensor,
    flat,
    inputs,
    layer,
    numbers,
    torch_library,
    undisturbed,
)
from richter.probes.trace import watch

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
CHUNK = 512
T = TypeVar("T")
LAST = "the features of the last layer"


@dataclass(frozen=True)
class Pass:
    """What one forward pass of a batch gave: the outputs, and what a layer gave or the last one read."""

    outputs: Tensor  # (example, …)
    seen: tuple[Tensor, ...]  # per chunk; empty if no layer was named and the last one is no module
    layer: str

    @property
    def features(self) -> Floats:
        """(example, feature) in float64."""
        return np.concatenate([flat(numbers(part, self.layer or LAST)) for part in self.seen])


# What was found of models as they are inside `passes_shared`; None outside, where a model may change between calls.
_KEPT: ContextVar[dict[tuple[Any, ...], tuple[Any, Any]] | None] = ContextVar("_KEPT", default=None)


@contextmanager
def passes_shared() -> Iterator[None]:
    """Inside, and inside once more, a model is run once per batch and layer; it must not change meanwhile."""
    token = _KEPT.set({} if _KEPT.get() is None else _KEPT.get())
    try:
        yield
    finally:
        _KEPT.reset(token)


def shared(key: tuple[Any, ...], of: Any, make: Callable[[], T]) -> T:
    """What `make` gives; inside `passes_shared` it is made once. `of`: whose ids are in the key, so that they last."""
    kept = _KEPT.get()
    if kept is None:
        return make()
    if key not in kept:
        kept[key] = (of, make())
    made: T = kept[key][1]
    return made


def one_pass(model: nn.Module, batch: Any, layer_name: str | None = None) -> Pass:
    """Outputs and features of a batch, a tensor or an (inputs, targets) pair, without gradients."""
    x = inputs(model, batch)
    return shared(("pass", id(model), id(x), layer_name), (model, x), lambda: _pass(model, x, layer_name))


def _pass(model: nn.Module, x: Tensor, layer_name: str | None) -> Pass:
    torch = torch_library("A probe")
    name = layer_name or last_layer(model, x, required=False)
    seen: list[Tensor] = []
    outputs = []
    for part in x.split(CHUNK):
        with _hooked(model, name, bool(layer_name)) as caught, undisturbed(model):
            outputs.append(first_tensor(model(part), "the model"))
        if name and not caught:
            raise ParameterError(message(f"the layer `{name}`", "be run by the model", "no call of it"))
        check_finite(model, part, outputs[-1], *caught[-1:])
        seen += caught[-1:]
    return Pass(torch.cat(outputs), tuple(seen), layer_name or "")


@contextmanager
def _hooked(model: nn.Module, name: str, output: bool) -> Iterator[list[Any]]:
    """What a layer gives, or reads, at each call of it."""
    caught: list[Any] = []
    if not name:
        yield caught
        return
    target = layer(model, name)
    if output:
        handle = target.register_forward_hook(lambda _, __, out: caught.append(as_tensor(out, name)))
    else:
        handle = target.register_forward_pre_hook(lambda _, args: caught.append(args[0]))
    try:
        yield caught
    finally:
        handle.remove()


def last_layer(model: nn.Module, batch: Any, required: bool = True) -> str:
    """The weight layer, a module, whose output is the model's: its input are the features of the last layer.

    If there is no such layer and it is not `required`: an empty name.
    """
    record = watch(model, batch)
    modules = dict(model.named_modules())
    ends = [name for name in record.ends if name in modules]
    if len(ends) != 1 and not required:
        return ""
    if len(ends) != 1:
        got = ", ".join(ends) or "none"
        raise ParameterError(message("the last layer", "be one module", got, "Name the layer: layer='…'."))
    return ends[0]


def activations(model: nn.Module, batches: Any, layer_name: str | None = None) -> Iterator[tuple[Floats, Floats]]:
    """(features, outputs) per chunk, float64, (example, …) flattened to (example, feature).

    Args:
        model: a torch model; between two chunks it is as it was before.
        batches: a tensor of inputs, an (inputs, labels) pair, or an iterable of such, for instance a DataLoader.
        layer_name: whose output the features are; without it, the *input* of the last weight layer.
    """
    target = None
    for x in chunks(model, batches):
        if target is None:
            target = layer(model, layer_name or last_layer(model, x))
        seen: list[Any] = []
        if layer_name:
            handle = target.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        else:
            handle = target.register_forward_pre_hook(lambda _, args, seen=seen: seen.append(args[0]))
        try:
            with undisturbed(model):
                out = model(x)
        finally:
            handle.remove()
        if not seen:
            raise ParameterError(message(f"the layer `{layer_name}`", "be run by the model", "no call of it"))
        named, out = layer_name or LAST, first_tensor(out, "the model")
        check_finite(model, x, out, as_tensor(seen[-1], named))
        yield flat(numbers(seen[-1], named)), flat(numbers(out, "the model's output"))


def chunks(model: nn.Module, batches: Any) -> Iterator[Tensor]:
    """The inputs of one batch in chunks, or of an iterable of batches one by one."""
    torch = torch_library("A probe")
    single = isinstance(batches, torch.Tensor) or (
        isinstance(batches, (tuple, list)) and bool(batches) and isinstance(batches[0], torch.Tensor)
    )
    if single:
        yield from inputs(model, batches).split(CHUNK)
    elif isinstance(batches, Iterable):
        for batch in batches:
            yield from inputs(model, batch).split(CHUNK)
    else:
        inputs(model, batches)
