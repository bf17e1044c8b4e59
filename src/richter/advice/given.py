"""What advice is asked about: a network and its data, looked at before anything is done with them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from richter.advice.forecast import copied
from richter.advice.objective import objective
from richter.errors import ParameterError, RichterError, message, show
from richter.measurement.points import as_batch
from richter.probes.losses import check_loss
from richter.probes.observe import refuse_chance

if TYPE_CHECKING:
    from torch import Tensor, nn


def built(model: Any) -> nn.Module:
    """The model, or what a function without arguments builds: that is nobody else's, and goes into evaluation mode."""
    from torch import nn

    if isinstance(model, nn.Module):
        return model
    if not callable(model):
        raise ParameterError(message("the model", "be a torch model or a function that builds one", show(model)))
    net = model()
    if not isinstance(net, nn.Module):
        raise ParameterError(message("what the function builds", "be a torch model", type(net).__name__))
    return net.eval()


def given(net: nn.Module, data: Any) -> tuple[Tensor, Tensor]:
    """Inputs and targets as tensors of the model's type."""
    if hasattr(data, "inputs") and hasattr(data, "targets"):
        data = (data.inputs, data.targets)
    if not isinstance(data, str) and not hasattr(data, "__fspath__"):
        if not isinstance(data, (tuple, list)) or len(data) != 2:
            got = f"{type(data).__name__} of {len(data)}" if isinstance(data, (tuple, list)) else type(data).__name__
            raise ParameterError(message("the data", "be a pair (inputs, targets), an .npz file or a task", got))
    if not any(p.is_floating_point() and p.requires_grad for p in net.parameters()):
        raise ParameterError(message("the model", "have parameters that learn", "none"))
    x, y = as_batch(net, data, None)
    if y is None:
        raise ParameterError(message("the data", "hold targets", "inputs only", "Give (x, y)."))
    device = next(net.parameters()).device
    x, y = x.to(device), y.to(device)
    for name, value in (("inputs", x), ("targets", y)):
        if value.is_floating_point() and not bool(value.isfinite().all()):
            bad = int((~value.isfinite()).sum())
            raise ParameterError(message(f"the {name}", "be finite", f"{bad} of {value.numel()} that are not"))
    return x, y


def check_model(net: nn.Module, x: Tensor, y: Tensor, loss: str) -> None:
    """The model takes the inputs, gives finite outputs, and the targets fit to them."""
    import torch

    check_loss(loss)
    refuse_chance(net)
    for name, p in net.named_parameters():
        if not bool(p.isfinite().all()):
            raise ParameterError(message(f"the parameter `{name}`", "be finite", "NaN or infinite numbers"))
    copy = copied(net).eval()
    try:
        with torch.no_grad():
            out = copy(x[:2])
    except (RuntimeError, IndexError, ValueError, TypeError) as problem:
        if isinstance(problem, RichterError):
            raise
        why = " ".join(str(problem).split())[:120]
        raise ParameterError(
            message("the inputs", "be what the model takes", f"shape {tuple(x.shape)}: {why}")
        ) from None
    value = objective(out, y[:2], loss)
    if not bool(torch.isfinite(value)):
        raise ParameterError(message("the loss at the start", "be finite", float(value)))
