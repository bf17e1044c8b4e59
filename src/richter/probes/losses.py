"""The losses, with the convention of each: a factor of 2 in the loss is a factor of 2 in time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.probes.activations import one_pass
from richter.probes.observe import numbers, torch_library
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import Tensor, nn

LOSSES = {
    "mse": "½ · mean over the examples of ‖f − y‖², as NAM24",
    "half-sum": "½ · sum over the examples of ‖f − y‖², as KUN24; a batch of b stands for all n: its sum times n/b",
    "square": "mean over the examples of ‖f − y‖², without ½, as XU24",
    "cross-entropy": "mean over the examples of −log softmax(f) at the class",
}
IGNORED = -100  # a class number that torch's cross-entropy passes over
LARGEST = 10_000  # values of the output that are kept at each moment


def check_loss(name: str) -> None:
    """The name is one of `LOSSES`."""
    if name not in LOSSES:
        raise UnknownNameError(f"No loss named `{name}`. {nearest(name, list(LOSSES))}")


def loss_value(name: str, outputs: Tensor, targets: Tensor, n: int | None = None) -> Tensor:
    """The loss of a batch by its name, a number that can be differentiated.

    Args:
        name: one of `LOSSES`.
        outputs: of the network, shape (example, output).
        targets: of the same shape, or class numbers.
        n: examples that the batch stands for ("half-sum" only); the batch itself by default.

    >>> import torch
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
        return torch_library("A loss").nn.functional.cross_entropy(outputs, targets)
    total = (outputs - targets).square().sum()
    b = len(targets)
    return total * {"mse": 0.5 / b, "half-sum": 0.5 * (n or b) / b, "square": 1.0 / b}[name]


@dataclass(frozen=True)
class Loss(AbstractProbe):
    """The loss on the probe's examples: by a name of `LOSSES`, by a function of (outputs, targets), or by the targets.

    Whole numbers as targets mean "cross-entropy" (of every position, if the outputs have positions), others "mse".
    """

    loss: str | Callable[[Any, Any], Any] | None = None

    name: ClassVar[str] = "loss"
    variables: ClassVar[tuple[Variable, ...]] = (Variable("loss", (), "loss on the probe's examples", "loss", "L"),)

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """A loss needs targets."""
        return "" if batch[1] is not None else "targets: probe=(x, y)"

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """Only which loss it is."""
        if isinstance(self.loss, str):
            check_loss(self.loss)
        y = batch[1][batch[1] != IGNORED]
        if not callable(self.loss) and not y.is_floating_point() and y.numel():
            classes = one_pass(model, batch).outputs.shape[-1]
            if not 0 <= int(y.min()) <= int(y.max()) < classes:
                must = f"be class numbers from 0 to {classes - 1}, one for each output"
                raise ParameterError(message("the probe's targets", must, f"{int(y.min())} to {int(y.max())}"))
        return Snapshot(notes={"loss": self._says(batch[1])})

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The loss now."""
        y = batch[1]
        outputs = one_pass(model, batch).outputs
        if callable(self.loss):
            return {"loss": float(self.loss(outputs, y))}
        name = self.loss or ("mse" if y.is_floating_point() else "cross-entropy")
        if name == "cross-entropy" and not y.is_floating_point():
            y = y.long().to(outputs.device)
            if outputs.ndim > 2 and outputs.shape[:-1] == y.shape:  # scores at every position of a sequence
                outputs, y = outputs.flatten(0, -2), y.flatten()
        elif not y.is_floating_point():  # classes become indicators
            y = torch_library("A loss").nn.functional.one_hot(y.long(), outputs.shape[-1])
        elif y.ndim == 1 and outputs.ndim == 2 and outputs.shape[1] == 1:
            y = y[:, None]
        return {"loss": float(loss_value(name, outputs, y))}

    def _says(self, y: Tensor) -> str:
        if callable(self.loss):
            return str(getattr(self.loss, "__name__", "a function that was given"))
        return LOSSES[self.loss or ("mse" if y.is_floating_point() else "cross-entropy")]


@dataclass(frozen=True)
class Output(AbstractProbe):
    """The network's outputs on the probe's examples, if they are not too many to keep."""

    largest: int = LARGEST

    name: ClassVar[str] = "output"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("output", ("example", "component"), "outputs on the probe's examples", "function", "f"),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Few enough values."""
        size = one_pass(model, batch[0][:1]).outputs.numel() * len(batch[0])
        return f"at most {self.largest} outputs (it has {size})" if size > self.largest else ""

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """Nothing."""
        return Snapshot()

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The outputs now."""
        made: NDArray[np.float64] = numbers(one_pass(model, batch).outputs, "the model's output")
        return {"output": made.reshape(made.shape[0], -1)}
