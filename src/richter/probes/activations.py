"""The features of a named layer and the model's outputs, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.observe import first_tensor, flat, inputs, layer, numbers, torch_library, undisturbed
from richter.probes.trace import watch

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
CHUNK = 512


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
        named = layer_name or "the features of the last layer"
        yield flat(numbers(seen[-1], named)), flat(numbers(first_tensor(out, "the model"), "the model's output"))


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
