"""Prediction from the start alone: what the conserved quantities, the kernel and the exact theories say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from richter.advice.forecast import Forecast, examples, forecast
from richter.advice.prediction import Number, Prediction, as_rates
from richter.advice.two_layers import readings, two_layers
from richter.errors import RichterError
from richter.probes import conserved
from richter.regime import LAZY_BELOW

if TYPE_CHECKING:
    from torch import nn

LINEAR_LOSSES = ("mse", "half-sum", "square")
LEADS = 0.2  # imbalance, as a share of both layers' squares, beyond which one of them is said to lead


def predict(
    model: nn.Module,
    batch: tuple[Any, Any],
    *,
    loss: str = "mse",
    rates: Mapping[str, float] | None = None,
    time: float | None = None,
) -> Prediction:
    """What theory says about a network before it is trained.

    Args:
        model: a torch model; it is left as it was.
        batch: (inputs, targets).
        loss: mse (½ mean), half-sum, square or cross-entropy.
        rates: layer rates, by names of parameters or layers.
        time: of gradient flow until which the kernel's movement is predicted; by default the time in which the start's
            kernel fits (`richter.advice.forecast.fit_time`).

    >>> import torch
    >>> from richter.training import mlp
    >>> x = torch.linspace(-1, 1, 16)[:, None]
    >>> made = predict(mlp(1, [64]), (x, torch.sin(3 * x)))
    >>> made["kernel_movement"].theory, made["leads"].value in ("upstream", "downstream", "neither")
    ('NTK, linearised at the start', True)
    """
    x, y = examples(model, batch, loss)
    numbers: list[Number] = []
    notes: list[str] = []
    seen = forecast(model, (x, y), loss=loss, rates=rates, time=time, whole=len(batch[0]))
    numbers += _kernel(seen, loss)
    try:
        found = conserved(model, as_rates(rates), x)
    except RichterError as problem:
        notes.append(f"No imbalance: {problem}")
    else:
        for (first, second), delta in found.delta.items():
            size = float(found.size[first, second].sum())
            says = f"imbalance of `{first}` → `{second}`, share of both layers' squares; ±1: one layer is all"
            share = float(delta.sum()) / size if size > 0 else float("nan")
            numbers.append(Number(f"balance {first} → {second}", share, says, "KUN24 Sec. 5", True))
            middle = float(np.median(delta))
            spread = f"δ per neuron, median of {delta.size} ({delta.min():.3g} to {delta.max():.3g})"
            numbers.append(Number(f"delta {first} → {second}", middle, spread, "KUN24 Sec. 5", True))
        numbers.append(_leader(found))
        notes += [f"`{a}` → `{b}` has no conserved imbalance: {why}." for (a, b), why in found.excluded.items()]
    net = two_layers(model, x, rates)
    if net is not None and loss in LINEAR_LOSSES and y.is_floating_point():
        X = x.detach().double().cpu().numpy().reshape(len(x), -1)
        Y = y.detach().double().cpu().numpy().reshape(len(x), -1)
        if net.a.shape[1] and np.linalg.norm(X.T @ Y) > 0:
            numbers += readings(net, X, Y)
    elif net is None:
        notes.append("Not two full layers: the exact theories have nothing to say about it.")
    return Prediction(tuple(numbers), tuple(notes))


def _kernel(seen: Forecast, loss: str) -> list[Number]:
    theory = "NTK, linearised at the start"
    lazy = bool(seen.movement < LAZY_BELOW)
    assumes = f"the kernel keeps still on the way; it moves by {seen.movement:.2g}"
    squared = loss in LINEAR_LOSSES
    return [
        Number("kernel_movement", seen.movement, f"‖K − K₀‖/‖K₀‖ after the linearised stride of time {seen.time:.4g}",
               theory, lazy, assumes),
        Number("kernel_turn", seen.turn, "1 − cosine between the two kernels", theory, lazy, assumes),
        Number("expected", "lazy" if lazy else "rich", f"the movement against {LAZY_BELOW:g}", theory, lazy, assumes),
        Number("fastest_rate", seen.fastest, "largest eigenvalue of the kernel flow: learning rates below 2 over it",
               "NTK", squared, "for cross-entropy it is an upper bound"),
        Number("fitted", seen.fitted, "share of the squared residual that the start's kernel fits in that time",
               theory, lazy and squared, assumes if squared else "the loss is not squared"),
        Number("parameter_movement", seen.parameters, "‖Δθ‖/‖θ₀‖ of the stride", theory, lazy, assumes),
    ]  # fmt: skip


def _leader(found: Any) -> Number:
    """Which layers lead by the imbalances, weighted by size."""
    total = sum(float(d.sum()) for d in found.delta.values())
    size = sum(float(s.sum()) for s in found.size.values())
    share = total / size if size > 0 else 0.0
    word = "upstream" if share > LEADS else "downstream" if share < -LEADS else "neither"
    meaning = {
        "upstream": "early layers are small and move first: features, then the output",
        "downstream": "late layers are small and move first: the output, then features",
        "neither": "layers of like size move together",
    }[word]
    return Number("leads", word, f"{meaning} (share {share:+.2f})", "KUN24 Sec. 4, 5", bool(found.delta), "no pair")
