"""Torch's optimisers by name, with a factor on the rate of chosen layers."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import torch
from torch import nn

from richter.errors import ParameterError, UnknownNameError, message, nearest

OPTIMISERS = ("sgd", "momentum", "adam", "adamw")


def make_optimiser(
    model: nn.Module,
    name: str = "sgd",
    momentum: float = 0.9,
    weight_decay: float = 0.0,
    layer_rates: Mapping[str, float] | None = None,
) -> torch.optim.Optimizer:
    """An optimiser of the parameters that require a gradient; `set_rate` gives it its rate.

    >>> from richter.training import mlp
    >>> [group["factor"] for group in make_optimiser(mlp(2, [3]), layer_rates={"layer1": 0.1}).param_groups]
    [1.0, 0.1]
    """
    if name not in OPTIMISERS:
        raise UnknownNameError(f"No optimiser named `{name}`. {nearest(name, list(OPTIMISERS))}")
    if not 0 <= momentum < 1:
        raise ParameterError(message("`momentum`", "be at least 0 and below 1", momentum))
    if not (math.isfinite(weight_decay) and weight_decay >= 0):
        raise ParameterError(message("`weight_decay`", "be finite and ≥ 0", weight_decay))
    groups = _groups(model, dict(layer_rates or {}))
    if name in ("sgd", "momentum"):
        kept = momentum if name == "momentum" else 0.0
        return torch.optim.SGD(groups, lr=0.0, momentum=kept, weight_decay=weight_decay)
    kind = torch.optim.Adam if name == "adam" else torch.optim.AdamW
    return kind(groups, lr=0.0, weight_decay=weight_decay)


def set_rate(optimiser: torch.optim.Optimizer, rate: float | Callable[[int], float], step: int) -> None:
    """Give every group its rate for this step."""
    now = rate(step) if callable(rate) else rate
    for group in optimiser.param_groups:
        group["lr"] = now * group["factor"]


def _groups(model: nn.Module, factors: dict[str, float]) -> list[dict[str, object]]:
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not learned:
        raise ParameterError(message("the model", "have parameters that require a gradient", "none"))
    for prefix, factor in factors.items():
        if not any(_begins(name, prefix) for name in learned):
            known = sorted({name.rpartition(".")[0] or name for name in learned})
            raise UnknownNameError(f"No parameter of the model begins with `{prefix}`. {nearest(prefix, known)}")
        if not (math.isfinite(factor) and factor >= 0):
            raise ParameterError(message(f"the layer rate of {prefix}", "be finite and ≥ 0", factor))
    chosen: dict[str, list[nn.Parameter]] = {"": [], **{prefix: [] for prefix in factors}}
    for name, p in learned.items():
        fitting = [prefix for prefix in factors if _begins(name, prefix)]
        chosen[max(fitting, key=len, default="")].append(p)
    return [{"params": ps, "factor": float(factors.get(prefix, 1.0))} for prefix, ps in chosen.items() if ps]


def _begins(name: str, prefix: str) -> bool:
    return name == prefix or name.startswith(f"{prefix}.")
