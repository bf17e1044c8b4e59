r"""Where the start's own kernel would carry the parameters, and how far the kernel has then moved.

Linearised at the start, gradient flow fits the residual r by $\Delta\theta=J^T\frac{1-e^{-Kt}}{K}r$; the kernel at
θ₀ + Δθ, compared with the one at θ₀, says whether the linearisation was right to begin with. It costs two kernels.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes import kernel_distance, ntk
from richter.probes.losses import check_loss
from richter.probes.observe import first_tensor, inputs
from richter.probes.tangent import learning_rates
from richter.regime import FIT_TIME

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
EXAMPLES = 24  # of the batch that the kernel is taken on
LARGEST = 512  # rows of the full kernel; above it outputs are drawn from
SLOPE = {"mse": 1.0, "square": 2.0, "cross-entropy": 1.0}  # of the mean loss, times (f − y)/n


@dataclass(frozen=True)
class Forecast:
    """What the linearised start says.

    `movement`: ‖K − K₀‖/‖K₀‖ of the trace kernel after the stride. `turn`: 1 − cosine of the two. `fastest`: the
    largest eigenvalue of the kernel flow, 1/time; 2/fastest is the largest stable learning rate. `time`: of the stride.
    `parameters`: ‖Δθ‖/‖θ₀‖. `fitted`: share of the squared residual that the stride fits by the start's kernel.
    """

    movement: float
    turn: float
    fastest: float
    time: float
    parameters: float
    fitted: float
    residual: float


def forecast(
    model: nn.Module,
    batch: tuple[Any, Any],
    *,
    loss: str = "mse",
    rates: Mapping[str, float] | None = None,
    time: float | None = None,
    whole: int | None = None,
) -> Forecast:
    """One linearised stride of gradient flow from the start.

    Args:
        model: a torch model; it is left as it was, and looked at in evaluation mode.
        batch: (inputs, targets), of which the first 24 are used.
        loss: mse (½ mean), half-sum, square or cross-entropy.
        rates: layer rates.
        time: how long; by default three e-folds of the fastest mode, the time in which the start's kernel fits.
        whole: how many examples the loss sums over ("half-sum"); those used by default.
    """
    import torch

    net = copy.deepcopy(model).eval()
    x, y = examples(net, batch, loss)
    n = len(x)
    learned = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    eta = learning_rates(net, rates)
    f = first_tensor(net(x), "the model").flatten(1)
    r = residual(f.detach(), y, loss)
    keep = _kept(f.shape[1], n)
    slope = (whole or n) / n if loss == "half-sum" else SLOPE[loss] / n
    K = _kernel(net, x, keep, rates) * slope
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    values = np.maximum(values, 0.0)
    fastest = float(values[-1])
    if fastest == 0:
        return Forecast(0.0, 0.0, 0.0, float(time or 0.0), 0.0, 0.0, float(r.square().mean()))
    t = FIT_TIME / fastest if time is None else float(time)
    target = r[:, keep].flatten().double().cpu().numpy()
    along = vectors.T @ target
    # (1 − e^{−λt})/λ, which is t at λ = 0
    z = values * t
    gain = t * np.where(z > 1e-12, -np.expm1(-z) / np.where(z > 1e-12, z, 1.0), 1.0)
    push = torch.zeros_like(f)
    push[:, keep] = torch.as_tensor((vectors @ (gain * along)).reshape(n, -1) * slope, dtype=f.dtype, device=f.device)
    moves = torch.autograd.grad(f, [p for _, p in learned], grad_outputs=push, allow_unused=True)
    before = ntk(net, x, outputs="trace", rates=rates)
    sizes = sum(float(p.detach().double().square().sum()) for _, p in learned)
    far = 0.0
    with torch.no_grad():
        for (name, p), d in zip(learned, moves, strict=True):
            if d is not None:
                p.add_(eta[name] * d)
                far += float((eta[name] * d).double().square().sum())
    after = ntk(net, x, outputs="trace", rates=rates)
    moved = float(np.linalg.norm(after.values - before.values) / np.linalg.norm(before.values))
    gone = float((along**2 * -np.expm1(-2 * z)).sum() / max((along**2).sum(), 1e-300))
    turn = float(kernel_distance(after, before))
    return Forecast(moved, turn, fastest, t, float(np.sqrt(far / max(sizes, 1e-300))), gone, float(r.square().mean()))


def examples(model: nn.Module, batch: tuple[Any, Any], loss: str) -> tuple[Tensor, Tensor]:
    """The first examples of a batch as tensors of the model's type and device."""
    import torch

    check_loss(loss)
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ParameterError(message("the data", "be a pair (inputs, targets)", type(batch).__name__))
    own = next(p for p in model.parameters() if p.is_floating_point())
    x = inputs(model, torch.as_tensor(batch[0]).to(own.device))[:EXAMPLES]
    y = torch.as_tensor(batch[1]).to(own.device)[: len(x)]
    x = x.to(own.dtype) if x.is_floating_point() else x
    return x, y.to(own.dtype) if y.is_floating_point() else y


def residual(f: Tensor, y: Tensor, loss: str) -> Tensor:
    """What gradient descent pushes the outputs along: y − f, or indicators − softmax for classes; (example, output)."""
    import torch

    if loss == "cross-entropy":
        if y.ndim != 1 or y.is_floating_point():
            raise ParameterError(
                message("the targets", "be class numbers for cross-entropy", f"shape {tuple(y.shape)}")
            )
        return torch.nn.functional.one_hot(y, f.shape[1]).to(f.dtype) - torch.softmax(f, 1)
    if not y.is_floating_point():
        y = torch.nn.functional.one_hot(y, f.shape[1]).to(f.dtype)
    y = y.reshape(len(y), -1)
    if y.shape != f.shape:
        raise ParameterError(message("the targets", f"have shape {tuple(f.shape)}", f"{tuple(y.shape)}"))
    return y - f


def _kept(outputs: int, n: int) -> Any:
    """Outputs that the full kernel is taken over: all, or evenly spread ones if there are too many."""
    most = max(1, LARGEST // n)
    return np.arange(outputs) if outputs <= most else np.linspace(0, outputs - 1, most).astype(int)


def _kernel(net: nn.Module, x: Tensor, keep: Any, rates: Any) -> Floats:
    """The kernel over (example, output), as a matrix."""
    import torch
    from torch import nn as layers

    class Part(layers.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            return first_tensor(self.inner(x), "the model").flatten(1)[:, torch.as_tensor(keep)]

    named = {f"inner.{name}": rate for name, rate in learning_rates(net, rates).items()}
    K = ntk(Part(net), x, outputs="full", rates=named).values
    size = K.shape[0] * K.shape[2]
    return np.asarray(K.transpose(0, 2, 1, 3).reshape(size, size))
