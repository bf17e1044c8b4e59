"""What the engine learns from: a task shared by all networks, one task each, or fresh examples at every step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.probes.losses import LOSSES
from richter.tasks.randomness import count
from richter.tasks.task import Task

Array = NDArray[Any]
ENGINE_LOSSES = {
    **LOSSES,
    "binary-cross-entropy": "mean over the examples of log(1 + eᶠ) − y·f, one output, y = 0 or 1",
}


@dataclass(frozen=True)
class Fresh:
    """New examples at every step: `draw(key, batch)` → inputs (batch, input) and targets (batch, output), in JAX.

    The step's key is the seed's key folded with the step, so that a run taken up again sees the same examples.
    `task` has the test examples, on which everything is measured.
    """

    draw: Callable[[Any, int], tuple[Any, Any]]
    batch: int
    task: Task


Source: TypeAlias = Task | Sequence[Task] | Fresh


@dataclass(frozen=True, eq=False)
class Arrays:
    """Inputs (example, input) and targets (output, example) of one batch of networks; a leading axis if not shared."""

    x: Array
    y: Array
    x_test: Array
    y_test: Array
    points: Array

    @property
    def shared(self) -> bool:
        """Whether all networks see the same examples."""
        return self.x_test.ndim == 2


def arrays(source: Source, starts: slice, loss: str, outputs: int, inputs: int, points: int) -> Arrays:
    """The arrays for some of the networks."""
    if isinstance(source, Fresh):
        made = _of(source.task, loss, outputs, inputs)
        return Arrays(made[2][:0], made[3][:, :0], made[2], made[3], made[2][:points])
    tasks = [source] if isinstance(source, Task) else list(source)[starts]
    if all(task is tasks[0] for task in tasks):
        x, y, x_test, y_test = _of(tasks[0], loss, outputs, inputs)
    else:
        rows = [_of(task, loss, outputs, inputs) for task in tasks]
        for other in rows:
            if [part.shape for part in other] != [part.shape for part in rows[0]]:
                raise ParameterError(message("the tasks", "have equally many examples", f"{len(rows)} that differ"))
        x, y, x_test, y_test = (np.stack(part) for part in zip(*rows, strict=True))
    return Arrays(x, y, x_test, y_test, x[..., :points, :])


def _of(task: Task, loss: str, outputs: int, inputs: int) -> list[Array]:
    """Inputs and targets of training and test; targets (output, example), classes become indicators."""
    flat = task.flat() if task.inputs.ndim > 2 else task
    if flat.kind == "classification":
        if loss == "binary-cross-entropy" and len(flat.classes) == 2:
            targets = [np.asarray(y, dtype=np.float64)[:, None] for y in (flat.targets, flat.test_targets)]
        else:
            eye = np.eye(len(flat.classes))
            targets = [eye[flat.targets], eye[flat.test_targets]]
    elif loss == "cross-entropy":
        must = f"be mse, half-sum or square for the regression {task.name}"
        raise ParameterError(message("`loss`", must, loss, 'Use loss="mse".'))
    else:
        targets = [flat.targets, flat.test_targets]
    if flat.inputs.shape[1] != inputs or targets[0].shape[1] != outputs:
        got = f"{inputs} and {outputs}"
        must = f"have {flat.inputs.shape[1]} inputs and {targets[0].shape[1]} outputs for {task.name}"
        raise ParameterError(message("the networks", must, got))
    return [flat.inputs, targets[0].T, flat.test_inputs, targets[1].T]


def check_loss(name: str) -> None:
    """The name is one of the engine's losses."""
    if name not in ENGINE_LOSSES:
        raise UnknownNameError(f"No loss named `{name}`. {nearest(name, list(ENGINE_LOSSES))}")


def check_source(source: Source, starts: int, batch: int | None) -> None:
    """One task, or one for each network; a batch no larger than the task."""
    if isinstance(source, Fresh):
        count("`batch` of fresh examples", source.batch)
        if batch is not None:
            raise ParameterError(message("`batch`", "be left out with fresh examples", batch, "They have their own."))
        return
    tasks = [source] if isinstance(source, Task) else list(source)
    if not isinstance(source, Task) and len(tasks) != starts:
        raise ParameterError(message("the tasks", f"be one, or one for each of {starts} networks", f"{len(tasks)}"))
    if batch is not None:
        count("`batch`", batch, 1, min(len(task) for task in tasks))
