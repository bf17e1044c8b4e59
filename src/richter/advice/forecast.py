r"""Where the start's own kernel would carry the parameters, and how far the kernel has then moved.

Linearised at the start, gradient flow fits the residual r by $\Delta\theta=J^T\frac{1-e^{-Kt}}{K}r$; the kernel at
θ₀ + Δθ, compared with the one at θ₀, says whether the linearisation was right to begin with. It costs two kernels.
Of many outputs the flow is taken in a Krylov space, which needs K times a vector only, and the two kernels on some.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.advice.norms import settle
from richter.advice.objective import flat, residual, rows_per_example
from richter.errors import ParameterError, message
from richter.probes import kernel_distance, ntk
from richter.probes.losses import check_loss
from richter.probes.observe import first_tensor, inputs
from richter.probes.tangent import learning_rates
from richter.regime import FAST_SHARE, FIT_TIME

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]
EXAMPLES = 24  # of the batch that the kernel is taken on
LARGEST = 512  # rows of the full kernel; above it the flow is taken in a Krylov space
DIRECTIONS = 24  # of that space
LONGEST = 1000.0  # fit time, in units of the fastest mode's
OUTPUTS = 16  # of each example that the two kernels sum over, drawn if there are more
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
    number: int = EXAMPLES,
) -> Forecast:
    """One linearised stride of gradient flow from the start.

    Args:
        model: a torch model; it is left as it was, and looked at in evaluation mode, batch norms with the statistics
            of the examples.
        batch: (inputs, targets), of which `number` are used.
        loss: mse (½ mean), half-sum, square or cross-entropy.
        rates: layer rates.
        time: how long; by default the time in which the start's kernel fits, see `fit_time`.
        whole: how many examples the loss sums over ("half-sum"); those used by default.
        number: of examples, drawn if there are more, always the same ones.
    """
    import torch

    net = copied(model).eval()
    x, y = examples(net, batch, loss, number)
    settle(net, x)
    n = len(x)
    learned = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    eta = learning_rates(net, rates)
    with torch.no_grad():
        out = net(x)
        f = flat(out)
        r = residual(out, y, loss)
        slope = (whole or n) / n if loss == "half-sum" else SLOPE[loss] / (n * rows_per_example(out, y, loss))
    flow = _eigen if f.numel() <= LARGEST else _krylov
    values, along, push_of = flow(net, x, r, slope, rates)
    fastest = float(values[-1])
    if fastest <= 0:
        return Forecast(0.0, 0.0, 0.0, float(time or 0.0), 0.0, 0.0, float(r.square().mean()))
    t = fit_time(values, along) if time is None else float(time)
    # (1 − e^{−λt})/λ, which is t at λ = 0
    z = values * t
    gain = t * np.where(z > 1e-12, -np.expm1(-z) / np.where(z > 1e-12, z, 1.0), 1.0)
    push = torch.as_tensor(slope * push_of(gain * along), dtype=f.dtype, device=f.device).reshape(f.shape)
    moves = torch.autograd.grad(flat(net(x)), [p for _, p in learned], grad_outputs=push, allow_unused=True)
    before = trace_kernel(net, x, rates)
    sizes = sum(float(p.detach().double().square().sum()) for _, p in learned)
    far = 0.0
    with torch.no_grad():
        for (name, p), d in zip(learned, moves, strict=True):
            if d is not None:
                p.add_(eta[name] * d)
                far += float((eta[name] * d).double().square().sum())
    settle(net, x)
    after = trace_kernel(net, x, rates)
    moved = float(np.linalg.norm(after.values - before.values) / np.linalg.norm(before.values))
    gone = float((along**2 * -np.expm1(-2 * z)).sum() / max(float(r.double().square().sum()), 1e-300))
    turn = float(kernel_distance(after, before))
    return Forecast(moved, turn, fastest, t, float(np.sqrt(far / max(sizes, 1e-300))), gone, float(r.square().mean()))


def fit_time(values: Floats, along: Floats) -> float:
    """Three e-folds of the slowest of the fastest modes that together hold 30 % of the loss, as `measure` has it.

    Never longer than a thousand times those of the fastest mode, when so much of the loss is out of reach.

    >>> fit_time(np.array([1.0, 9.0]), np.array([1.0, 0.1]))
    3.0
    """
    held = np.cumsum(along[::-1] ** 2)
    slow = values[::-1][int(np.argmax(held >= FAST_SHARE * held[-1] * (1 - 1e-12)))]
    return float(FIT_TIME / max(slow, values[-1] / LONGEST))


def copied(model: nn.Module) -> nn.Module:
    """A copy of a model, or one line that says why there is none."""
    try:
        return copy.deepcopy(model)
    except (RuntimeError, TypeError) as problem:
        why = " ".join(str(problem).split())[:120]
        raise ParameterError(message("the model", "be one that copy.deepcopy can copy", why)) from None


def examples(model: nn.Module, batch: tuple[Any, Any], loss: str, most: int | None = EXAMPLES) -> tuple[Tensor, Tensor]:
    """Examples of a batch as tensors of the model's type and device, at most so many, drawn: data may be sorted."""
    import torch

    check_loss(loss)
    if not isinstance(batch, (tuple, list)) or len(batch) != 2:
        raise ParameterError(message("the data", "be a pair (inputs, targets)", type(batch).__name__))
    own = next(p for p in model.parameters() if p.is_floating_point())
    x = inputs(model, torch.as_tensor(batch[0]).to(own.device))
    y = torch.as_tensor(batch[1]).to(own.device)
    if most is not None and len(x) > most:
        rows = torch.as_tensor(np.sort(np.random.default_rng(0).permutation(len(x))[:most]), device=own.device)
        x, y = x[rows], y[rows]
    x = x.to(own.dtype) if x.is_floating_point() else x
    return x, y.to(own.dtype) if y.is_floating_point() else y


def trace_kernel(net: nn.Module, x: Tensor, rates: Any = None) -> Any:
    """The trace kernel, of a wide output over some of its numbers, always the same ones."""
    import torch

    with torch.no_grad():
        one = first_tensor(net(x[:1]), "the model")
        outputs = one.numel()
    if outputs <= OUTPUTS:
        whole = one.ndim > 1
        return ntk(net if whole else _part(net, None), x, outputs="trace", rates=rates if whole else _inner(net, rates))
    # drawn, for evenly spaced ones may all be of one class at many positions
    keep = np.sort(np.random.default_rng(0).permutation(outputs)[:OUTPUTS])
    return ntk(_part(net, keep), x, outputs="trace", rates=_inner(net, rates))


def _eigen(net: nn.Module, x: Tensor, r: Tensor, slope: float, rates: Any) -> tuple[Floats, Floats, Any]:
    """Eigenvalues of the kernel flow, the residual's parts along its modes, and the way back."""
    n = len(x)
    K = ntk(_part(net, None), x, outputs="full", rates=_inner(net, rates)).values
    size = n * K.shape[2]
    K = np.asarray(K.transpose(0, 2, 1, 3).reshape(size, size)) * slope
    values, vectors = np.linalg.eigh((K + K.T) / 2)
    along = vectors.T @ r.flatten().double().cpu().numpy()
    return np.maximum(values, 0.0), along, lambda parts: vectors @ parts


def _krylov(net: nn.Module, x: Tensor, r: Tensor, slope: float, rates: Any) -> tuple[Floats, Floats, Any]:
    """The same in the space of r, Kr, K²r, …: K v = J η Jᵀ v by a backward pass and its own derivative."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    eta = learning_rates(net, rates)
    learned = [(name, p) for name, p in net.named_parameters() if p.requires_grad]
    with sdpa_kernel(SDPBackend.MATH):  # the only attention that is differentiable twice
        f = flat(net(x))
        dummy = torch.zeros_like(f, requires_grad=True)
        back = torch.autograd.grad(f, [p for _, p in learned], dummy, create_graph=True, allow_unused=True)
        used = [(name, g) for (name, _), g in zip(learned, back, strict=True) if g is not None]

        def product(v: Floats) -> Floats:
            given = torch.as_tensor(v, dtype=f.dtype, device=f.device).reshape(f.shape)
            parts = torch.autograd.grad(f, [p for name, p in learned], given, retain_graph=True, allow_unused=True)
            scaled = [eta[name] * d for (name, _), d in zip(learned, parts, strict=True) if d is not None]
            made = torch.autograd.grad([g for _, g in used], dummy, scaled, retain_graph=True)[0]
            return slope * made.detach().double().cpu().numpy().ravel()

        start = r.flatten().double().cpu().numpy()
        size = float(np.linalg.norm(start))
        if size == 0:
            return np.zeros(1), np.zeros(1), lambda parts: np.zeros(start.size)
        basis, diagonal, beside = [start / size], [], []
        for _ in range(min(DIRECTIONS, start.size)):
            w = product(basis[-1])
            diagonal.append(float(w @ basis[-1]))
            for _ in range(2):  # once is not enough in finite numbers
                for b in basis:
                    w = w - (w @ b) * b
            length = float(np.linalg.norm(w))
            if length <= 1e-8 * max(diagonal):
                break
            beside.append(length)
            basis.append(w / length)
    k = len(diagonal)
    T = np.diag(diagonal) + np.diag(beside[: k - 1], 1) + np.diag(beside[: k - 1], -1)
    values, vectors = np.linalg.eigh(T)
    V = np.stack(basis[:k], axis=1)
    return np.maximum(values, 0.0), size * vectors[0], lambda parts: V @ (vectors @ parts)


def _part(net: nn.Module, keep: Any) -> nn.Module:
    """The network with its output flat, of which only some numbers may be kept."""
    import torch
    from torch import nn as layers

    class Part(layers.Module):
        def __init__(self, inner: nn.Module) -> None:
            super().__init__()
            self.inner = inner

        def forward(self, x: Any) -> Any:
            f = flat(self.inner(x))
            return f if keep is None else f[:, torch.as_tensor(keep, device=f.device)]

    return Part(net)


def _inner(net: nn.Module, rates: Any) -> dict[str, float]:
    return {f"inner.{name}": rate for name, rate in learning_rates(net, rates).items()}
