"""A task as the tensors that a loss takes; the losses themselves are the probes', which stand further to the left."""

from __future__ import annotations

import math

import torch
from torch import nn

from richter.errors import ParameterError, message
from richter.probes.losses import LOSSES as LOSSES
from richter.probes.losses import check_loss as check_loss
from richter.probes.losses import loss_value as loss_value
from richter.tasks.task import Task, Tensors


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


def loss_of_zero(name: str, data: Tensors, outputs: int) -> float:
    """The loss of the network that is 0 everywhere: the scale against which a loss is large."""
    if name == "cross-entropy":
        return math.log(outputs)
    return float(loss_value(name, torch.zeros_like(data.targets), data.targets))
