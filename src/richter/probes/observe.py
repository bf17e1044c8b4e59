"""Looking at a torch model without leaving a trace: flags, buffers and random state stay as they were."""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import MissingExtraError, ParameterError, RichterError, UnknownNameError, message, nearest

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]


def torch_library(what: str) -> Any:
    """The torch library, or one line saying which extra brings it."""
    try:
        import torch
    except ImportError:
        raise MissingExtraError(f"{what} needs PyTorch: pip install 'richter[torch]'") from None
    return torch


@contextmanager
def undisturbed(model: nn.Module) -> Iterator[None]:
    """No gradients inside; on the way out, errors included, flags, buffers and random state are as before.

    The model is run in the mode that it is in. Training mode with a layer that draws at random is an error;
    batch normalisation in training mode uses the batch's statistics and gets its running ones back.
    """
    torch = torch_library("A probe")
    refuse_chance(model)
    flags = {module: module.training for module in model.modules()}
    buffers = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({t.device.index or 0 for t in model.parameters() if t.device.type == "cuda"})
    try:
        with torch.no_grad(), torch.random.fork_rng(devices=devices):
            yield
    finally:
        with torch.no_grad():
            for buffer, before in buffers:
                if not torch.equal(buffer, before):
                    buffer.copy_(before)
        for module, training in flags.items():
            module.training = training


@contextmanager
def evaluated(model: nn.Module) -> Iterator[None]:
    """The model in evaluation mode inside; every module's own mode is back on the way out."""
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside what torch.compile or a data-parallel wrapper made of it; they share their parameters."""
    torch = torch_library("A probe")
    inner = getattr(model, "_orig_mod", None)
    if isinstance(model, (torch.nn.DataParallel, torch.nn.parallel.DistributedDataParallel)):
        inner = model.module
    return model if inner is None else unwrapped(inner)


def refuse_chance(model: nn.Module) -> None:
    """An error if the model is in training mode and holds a layer that draws at random."""
    from torch import nn

    for name, module in model.named_modules():
        random = isinstance(module, (nn.modules.dropout._DropoutNd, nn.RReLU, nn.FractionalMaxPool2d))
        share = getattr(module, "p" if isinstance(module, nn.modules.dropout._DropoutNd) else "dropout", 0.0)
        attention = isinstance(module, (nn.MultiheadAttention, nn.RNNBase)) and share > 0
        if module.training and ((random and share != 0) or isinstance(module, nn.RReLU) or attention):
            what = f"the model, whose layer `{name or type(model).__name__}` draws at random in training,"
            raise ParameterError(message(what, "be in evaluation mode", "training mode", "Call model.eval() first."))


def inputs(model: nn.Module, batch: Any) -> Tensor:
    """The inputs of a batch, a tensor or an (inputs, labels) pair, checked against the model's device."""
    torch = torch_library("A probe")
    x = batch[0] if isinstance(batch, (tuple, list)) and len(batch) else batch
    if not isinstance(x, torch.Tensor):
        raise ParameterError(
            message("the batch", "be a tensor or an (inputs, labels) pair of tensors", type(x).__name__)
        )
    if x.ndim == 0 or x.shape[0] == 0:
        raise ParameterError(
            message("the batch", "have at least one example on its first axis", f"shape {tuple(x.shape)}")
        )
    first = next(model.parameters(), None)
    if first is not None and first.device != x.device:
        advice = f"Use batch.to({str(first.device)!r})."
        raise ParameterError(message("the batch", f"be on the model's device, {first.device}", str(x.device), advice))
    return x


def layer(model: nn.Module, name: str) -> nn.Module:
    """The layer of that name, or the nearest names."""
    import difflib

    known = {key: module for key, module in model.named_modules() if key}
    if name not in known:
        close = difflib.get_close_matches(name, known, n=6, cutoff=0.0) if len(known) > 12 else list(known)
        raise UnknownNameError(f"The model has no layer `{name}`. {nearest(name, close)}")
    return known[name]


def tried(model: nn.Module, x: Tensor) -> Tensor:
    """What the model gives for the first example, or one line that names the layer at which it fails."""
    torch = torch_library("A probe")
    entered: list[Any] = []
    hook = torch.nn.modules.module.register_module_forward_pre_hook(lambda module, _: entered.append(module))
    try:
        with evaluated(model), undisturbed(model):
            value = model(x[:1])
    except RichterError:
        raise
    except Exception as problem:
        names = {id(module): name for name, module in model.named_modules()}
        name = next((names[id(module)] for module in reversed(entered) if id(module) in names), "")
        why = " ".join(str(problem).split())[:160] or type(problem).__name__
        got = f"shape {tuple(x.shape)}, with which `{name or type(model).__name__}` fails: {why}"
        raise ParameterError(message("the probe's inputs", "be what the model takes", got)) from None
    finally:
        hook.remove()
    return first_tensor(value, "the model")


def as_tensor(value: Any, name: str) -> Tensor:
    """The output of a layer, if it is a tensor."""
    torch = torch_library("A probe")
    if not isinstance(value, torch.Tensor):
        whole = name == "the model"
        advice = "Wrap it in a module that returns one." if whole else "Name a layer that returns one tensor."
        raise ParameterError(message(f"the output of `{name}`", "be a tensor", type(value).__name__, advice))
    return value


def first_tensor(value: Any, name: str) -> Tensor:
    """The tensor among what a model returns: itself, "logits" of a mapping, or the first one."""
    torch = torch_library("A probe")
    if isinstance(value, Mapping):
        value = list(value.values()) if "logits" not in value else value["logits"]
    if isinstance(value, (tuple, list)):
        value = next((item for item in value if isinstance(item, torch.Tensor)), value)
    return as_tensor(value, name)


def numbers(value: Any, name: str) -> Floats:
    """A layer's values as float64, if they are finite."""
    tensor = as_tensor(value, name).detach()
    array = tensor.to("cpu").double().numpy() if tensor.dtype.is_floating_point else tensor.cpu().numpy().astype(float)
    if not np.isfinite(array).all():
        bad = int((~np.isfinite(array)).sum())
        advice = "Look for a diverged weight or an input that is not finite."
        raise ParameterError(
            message(f"the values of `{name}`", "be finite", f"{bad} of {array.size} that are not", advice)
        )
    return array


def check_finite(model: nn.Module, x: Tensor, *values: Tensor) -> None:
    """An error that names the first layer whose values are not finite, if what the model gave for `x` is not."""
    torch = torch_library("A probe")
    finite = lambda t: not t.dtype.is_floating_point or bool(torch.isfinite(t).all())
    if all(finite(value) for value in values):
        return
    bad: list[str] = []

    def look(name: str, out: Any) -> None:
        found = [t for t in (out if isinstance(out, (tuple, list)) else [out]) if isinstance(t, torch.Tensor)]
        if not bad and not all(finite(t) for t in found):
            bad.append(name)

    handles = [
        module.register_forward_hook(lambda _, __, out, name=name: look(name, out))
        for name, module in model.named_modules()
        if name and not list(module.children())
    ]
    try:
        with undisturbed(model):
            model(x)
    finally:
        for handle in handles:
            handle.remove()
    source = "" if finite(x) else "the input"
    what = source or (f"the values of layer `{bad[0]}`" if bad else "the model's output")
    advice = "Look for a diverged weight or an input that is not finite."
    raise ParameterError(message(what, "be finite", "NaN or ∞", advice))


def flat(array: Floats) -> Floats:
    """(example, …) as (example, feature): everything behind the first axis is one feature each."""
    return array.reshape(array.shape[0], -1)


def fingerprint(tensors: Iterable[Tensor]) -> int:
    """A checksum of the bytes of tensors.

    >>> import torch
    >>> fingerprint([torch.zeros(2)]) == fingerprint([torch.zeros(3)])
    False
    """
    torch = torch_library("A checksum")
    made = 0
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        made = zlib.crc32(flat.view(torch.uint8).numpy().tobytes(), made)
    return made
