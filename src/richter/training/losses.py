"""The losses, with the convention of each: a factor of 2 in the loss is a factor of 2 in time."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.tasks.task import Task, Tensors
from richter.training.conventions import LOSSES as LOSSES


def check_loss(name: str) -> None:
    """The name is one of `LOSSES`."""
    if name not in LOSSES:
        raise UnknownNameError(f"No loss named `{name}`. {nearest(name, list(LOSSES))}")


def examples(model: nn.Module, task: Task, loss: str) -> Tensors:
    """The task as tensors of the model's type and device; for a squared loss classes become indicators."""
    check_loss(loss)
    if loss == "cross-entropy" and task.kind == "regression":
        must = f"be mse, half-sum or square for the regression {task.name}"
        raise ParameterError(message("`loss`", must, "cross-entropy", 'Use loss="mse".'))
    if loss != "cross-entropy" and task.kind == "classification":
        task = task.one_hot()
    own = next((p for p in model.parameters() if p.is_floating_point()), None)
    return task.torch(None if own is None else own.dtype, None if own is None else own.device)


def loss_value(name: str, outputs: Tensor, targets: Tensor, n: int | None = None) -> Tensor:
    """The loss of a batch by its name, a number that can be differentiated.

    Args:
        name: one of `LOSSES`.
        outputs: of the network, shape (example, output).
        targets: of the same shape, or class numbers.
        n: examples that the batch stands for ("half-sum" only); the batch itself by default.

    >>> f, y = torch.tensor([[1.0, 0.0], [0.0, 2.0]]), torch.tensor([[0.0, 0.0], [0.0, 0.0]])
    >>> [loss_value(name, f, y).item() for name in ("mse", "half-sum", "square")]
    [1.25, 2.5, 2.5]
    """
    wanted = (len(targets),) if name == "cross-entropy" else targets.shape
    got = outputs.shape[:1] if name == "cross-entropy" else outputs.shape
    if tuple(got) != tuple(wanted) or outputs.ndim != 2:
        shape = f"(example, class) for {wanted[0]} examples" if name == "cross-entropy" else f"shape {tuple(wanted)}"
        raise ParameterError(message("the network's output", f"have the {shape}", f"shape {tuple(outputs.shape)}"))
    if name == "cross-entropy":
        return functional.cross_entropy(outputs, targets)
    total = (outputs - targets).square().sum()
    b = len(targets)
    return total * {"mse": 0.5 / b, "half-sum": 0.5 * (n or b) / b, "square": 1.0 / b}[name]


def loss_of_zero(name: str, data: Tensors, outputs: int) -> float:
    """The loss of the network that is 0 everywhere: the scale against which a loss is large."""
    if name == "cross-entropy":
        return math.log(outputs)
    return float(loss_value(name, torch.zeros_like(data.targets), data.targets))
