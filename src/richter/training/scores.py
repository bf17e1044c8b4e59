"""How well a network does on a task, without touching it."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from richter.tasks.randomness import count
from richter.tasks.task import Task
from richter.training.losses import examples, loss_value


class Score(NamedTuple):
    """Loss and accuracy on the training and on the test examples; NaN where there are none or it has no meaning."""

    loss: float
    accuracy: float
    test_loss: float
    test_accuracy: float


def score(model: nn.Module, task: Task, *, loss: str = "mse", batch: int = 1000) -> Score:
    """The loss and the share of right classes, in evaluation mode, `batch` examples at a time.

    >>> from richter.tasks import gaussian_classes
    >>> from richter.training import mlp
    >>> score(mlp(10, [5], 3), gaussian_classes(50), loss="cross-entropy")._fields
    ('loss', 'accuracy', 'test_loss', 'test_accuracy')
    """
    count("`batch`", batch)
    data = examples(model, task, loss)
    classes = task.torch() if task.kind == "classification" else None
    modes = {module: module.training for module in model.modules()}
    model.eval()
    try:
        with torch.no_grad():
            train = _one(model, data.inputs, data.targets, classes.targets if classes else None, loss, batch)
            test = _one(
                model, data.test_inputs, data.test_targets, classes.test_targets if classes else None, loss, batch
            )
    finally:
        for module, training in modes.items():
            module.training = training
    return Score(*train, *test)


def _one(model: nn.Module, x: Tensor, y: Tensor, classes: Tensor | None, loss: str, batch: int) -> tuple[float, float]:
    if not len(x):
        return float("nan"), float("nan")
    total, right = 0.0, 0
    for start in range(0, len(x), batch):
        part = slice(start, start + batch)
        outputs = model(x[part])
        size = len(outputs)
        # A sum adds up over the parts, a mean by their sizes.
        total += float(loss_value(loss, outputs, y[part])) * (1.0 if loss == "half-sum" else size / len(x))
        if classes is not None:
            right += int((outputs.argmax(1) == classes[part].to(outputs.device)).sum())
    return total, (right / len(x) if classes is not None else float("nan"))
