"""A loss on what any model gives: class scores of each example, or of each position of a sequence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from richter.errors import ParameterError, message
from richter.probes.losses import check_loss, loss_value
from richter.probes.observe import first_tensor

if TYPE_CHECKING:
    from torch import Tensor


def default_loss(y: Tensor) -> str:
    """Cross-entropy for class numbers, else mse."""
    return "mse" if y.is_floating_point() else "cross-entropy"


def paired(out: Any, y: Tensor, loss: str) -> tuple[Tensor, Tensor]:
    """Outputs (row, output) and targets, class numbers (row,) or (row, output); a row is an example or a position.

    >>> import torch
    >>> f, y = paired(torch.zeros(4, 7, 5), torch.zeros(4, 7, dtype=torch.long), "cross-entropy")
    >>> tuple(f.shape), tuple(y.shape)
    ((28, 5), (28,))
    """
    import torch

    check_loss(loss)
    f = first_tensor(out, "the model")
    if loss == "cross-entropy":
        return _scores(f, y)
    if not y.is_floating_point():
        width = f.shape[-1]
        if y.shape != f.shape[:-1] or int(y.max()) >= width or int(y.min()) < 0:
            raise ParameterError(_classes(f, y))
        y = torch.nn.functional.one_hot(y, width).to(f.dtype)
    if y.numel() != f.numel() or len(y) != len(f):
        must = f"have the shape of the output, {tuple(f.shape)}"
        raise ParameterError(message("the targets", must, f"shape {tuple(y.shape)}"))
    return flat(f), y.reshape(len(y), -1)


def objective(out: Any, y: Tensor, loss: str, whole: int | None = None) -> Tensor:
    """The loss; `whole`: examples that a batch stands for (half-sum)."""
    f, target = paired(out, y, loss)
    return loss_value(loss, f, target, whole)


def residual(out: Any, y: Tensor, loss: str) -> Tensor:
    """What gradient descent pushes the outputs along: y − f, or indicators − softmax; shaped (example, …)."""
    import torch

    f, target = paired(out, y, loss)
    if loss == "cross-entropy":
        made = torch.nn.functional.one_hot(target, f.shape[1]).to(f.dtype) - torch.softmax(f, 1)
        whole = first_tensor(out, "the model")
        if whole.ndim > 2 and whole.shape[:-1] != y.shape:  # (example, class, position)
            return made.reshape(len(y), -1, f.shape[1]).transpose(1, 2).reshape(len(y), -1)
        return made.reshape(len(y), -1)
    return target - f


def flat(out: Any) -> Tensor:
    """What a model gives as (example, number), also where it gives one number per example without an axis."""
    f = first_tensor(out, "the model")
    return f.flatten(1) if f.ndim > 1 else f[:, None]


def rows_per_example(out: Any, y: Tensor, loss: str) -> int:
    """Positions over which the loss is a mean, 1 if there are none."""
    return len(paired(out, y, loss)[0]) // len(y) if loss == "cross-entropy" else 1


def _scores(f: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    if y.is_floating_point() or f.ndim < 2:
        raise ParameterError(_classes(f, y))
    if y.shape == f.shape[:-1]:
        f, y = f.flatten(0, -2), y.flatten()
    elif f.ndim > 2 and y.shape == (len(f), *f.shape[2:]):
        f, y = f.movedim(1, -1).flatten(0, -2), y.flatten()
    else:
        raise ParameterError(_classes(f, y))
    if int(y.max()) >= f.shape[1] or int(y.min()) < 0:
        raise ParameterError(_classes(f, y))
    return f, y


def _classes(f: Tensor, y: Tensor) -> str:
    must = f"be class numbers below {f.shape[-1]}, one per row of an output of shape {tuple(f.shape)}"
    kind = "numbers" if y.is_floating_point() else f"classes {int(y.min())} to {int(y.max())}"
    do = 'For regression give targets that are not whole numbers in type, and loss="mse".'
    return message("the targets", must, f"{kind} of shape {tuple(y.shape)}", do)
