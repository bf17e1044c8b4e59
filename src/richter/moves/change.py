"""What a move does to the function, measured: inputs to look at it, and its relative change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from richter.errors import ParameterError, message
from richter.probes.observe import first_tensor, inputs, undisturbed
from richter.probes.trace import leaves

EXAMPLES = 16
CANCELLED = 1e-6  # an output this much smaller than the values on its way is 0 by cancellation
SIDES = (32, 28, 8, 16, 64, 224)  # of images, tried in this order


def probe_inputs(model: nn.Module, batch: Any = None) -> Tensor:
    """The batch's inputs, or random ones of the shape that the first layer tells; the same ones every time."""
    if batch is not None:
        return inputs(model, batch)
    generator = torch.Generator().manual_seed(0)
    own = next((p for p in model.parameters() if p.is_floating_point()), None)
    first: Any = next((m for m in model.modules() if isinstance(m, _FIRST)), None)
    if own is None or isinstance(first, nn.Embedding):
        raise ParameterError(message("the batch", "be given for such a model", "nothing", "Give inputs: batch=x."))
    shapes: list[tuple[int, ...]] = []
    if isinstance(first, nn.Linear):
        shapes = [(EXAMPLES, first.in_features)]
    elif first is not None:
        shapes = [(EXAMPLES, first.in_channels, *(side,) * len(first.kernel_size)) for side in SIDES]
    else:
        shapes = [(EXAMPLES, size) for p in model.parameters() if p.ndim == 2 for size in p.shape[::-1]]
    for shape in shapes:
        x = torch.randn(shape, generator=generator).to(own.device, own.dtype)
        try:
            output(model, x)
        except (RuntimeError, IndexError, TypeError):
            continue
        return x
    do = "Give a batch of inputs: batch=x."
    raise ParameterError(message("the input of the model", "be of a shape that its first layer tells", None, do))


def output(model: nn.Module, x: Tensor) -> Tensor:
    """What the model gives, in float64; flags, buffers and random state stay as they are."""
    with undisturbed(model):
        return first_tensor(model(x), "the model").detach().double()


def relative_change(model: nn.Module, x: Tensor, change: Callable[[], None]) -> float:
    """max |f' − f| / max |f| over the inputs, before and after `change()`.

    Where the output is 0 by cancellation, as in a symmetrised start, the largest value on the way to it takes the
    place of max |f|.
    """
    with _Largest() as seen:
        before = output(model, x)
    change()
    return largest_change(before, output(model, x), seen.value)


def largest_change(before: Tensor, after: Tensor, reach: float = 0.0) -> float:
    """max |f' − f| / max |f|; where f is 0, up to rounding of values of size `reach`, over that, or absolute.

    >>> largest_change(torch.tensor([1.0, -2.0]), torch.tensor([1.0, -1.0]))
    0.5
    """
    size = float(before.abs().max())
    moved = float((after - before).abs().max())
    size = reach if size <= CANCELLED * reach else size
    return moved / size if size > 0 else moved


class _Largest(TorchFunctionMode):
    """The largest number that a pass makes on its way."""

    def __init__(self) -> None:
        super().__init__()
        self.value = 0.0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for t in leaves(out):
            if isinstance(t, Tensor) and t.is_floating_point() and t.numel():
                self.value = max(self.value, float(t.detach().abs().nan_to_num(posinf=0.0).max()))
        return out


_FIRST = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.Embedding)
