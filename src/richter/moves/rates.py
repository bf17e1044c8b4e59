r"""Layer-wise learning rates as parameter groups, for SGD, Adam and AdamW.

The theories' rates are those of gradient flow. Training layer θ at rate r is the same as training φ = θ/√r at rate 1
(KUN24 §3: $\tilde a=\sqrt{\eta_w}\,a$), and for that change of variables each optimiser has its own arithmetic: SGD
multiplies the step by r, Adam by √r (its steps do not depend on the gradient's size; its ε is then divided by √r),
and AdamW's decoupled decay is divided by √r so that rate × decay stays as it is.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import nn

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.moves.base import AbstractMove, Record

OPTIMISERS = ("sgd", "adam", "adamw")


@dataclass(frozen=True, kw_only=True)
class LayerRates(AbstractMove):
    """Factors on the learning rates of layers, by the beginnings of parameter names; others have 1, frozen ones 0.

    The factors are gradient flow's; `groups` turns them into what each optimiser needs.
    """

    rates: Mapping[str, float]

    name: ClassVar[str] = "layer-rates"
    says: ClassVar[str] = (
        "learning rates layer by layer: a faster early layer is upstream, a faster late one downstream"
    )
    keeps: ClassVar[str] = "the function and all values, exactly; only the speeds are changed"

    def __post_init__(self) -> None:
        for layer, rate in self.rates.items():
            if not (math.isfinite(rate) and rate >= 0):
                raise ParameterError(message(f"the rate of {layer}", "be finite and ≥ 0", rate))

    @property
    def inverse(self) -> LayerRates:
        """The same with 1 over every rate."""
        frozen = [layer for layer, rate in self.rates.items() if rate == 0]
        if frozen:
            raise ParameterError(message(f"the rate of {frozen[0]}", "be > 0 for an inverse", 0.0))
        return LayerRates(rates={layer: 1 / rate for layer, rate in self.rates.items()})

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Check the names; the model stays, the record's `rates` go to the optimiser."""
        _chosen(model, self.rates)
        note = 'Make the optimiser with groups(model, "sgd", lr, record.rates).'
        back = None if 0.0 in self.rates.values() else self.inverse
        return Record(self, model, self.keeps, True, 0.0, rates=dict(self.rates), notes=(note,), back=back)


def groups(
    model: nn.Module,
    optimiser: str,
    lr: float,
    rates: Mapping[str, float],
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> list[dict[str, Any]]:
    """Parameter groups for `torch.optim.SGD`, `Adam` or `AdamW` that give each layer its gradient-flow rate.

    Args:
        model: the network.
        optimiser: sgd, adam or adamw.
        lr: the rate of a layer with factor 1.
        rates: factors by the beginnings of parameter names.
        eps: of Adam.
        weight_decay: as the optimiser defines it; it stays what it is in the variables φ.

    >>> from richter.training import mlp
    >>> net = mlp(2, [3])
    >>> [g["lr"] for g in groups(net, "sgd", 0.1, {"layer1": 4.0})]
    [0.1, 0.4]
    >>> [g["lr"] for g in groups(net, "adam", 0.1, {"layer1": 4.0})]
    [0.1, 0.2]
    >>> made = torch.optim.AdamW(groups(net, "adamw", 0.1, {"layer1": 4.0}))
    """
    if optimiser not in OPTIMISERS:
        raise UnknownNameError(f"No optimiser named `{optimiser}`. {nearest(optimiser, list(OPTIMISERS))}")
    if not (math.isfinite(lr) and lr > 0):
        raise ParameterError(message("`lr`", "be finite and > 0", lr))
    made: list[dict[str, Any]] = []
    for rate, names, parameters in _chosen(model, rates):
        group: dict[str, Any] = {"params": parameters, "name": ", ".join(names)}
        root = math.sqrt(rate)
        if optimiser == "sgd":
            # ½λ‖φ‖² = ½(λ/r)‖θ‖²: the decay that stays the same in φ is λ/r, times the rate lr·r.
            group |= {"lr": lr * rate, "weight_decay": weight_decay / rate if rate else 0.0}
        else:
            coupled = weight_decay / rate if optimiser == "adam" and rate else weight_decay / root if rate else 0.0
            group |= {"lr": lr * root, "eps": eps / root if rate else eps, "weight_decay": coupled}
        made.append(group)
    return made


@contextmanager
def scaled_rates(optimiser: torch.optim.Optimizer, model: nn.Module, rates: Mapping[str, float]) -> Iterator[None]:
    """An existing SGD optimiser with other layer rates while inside, if its groups are as fine as the layers."""
    if not isinstance(optimiser, torch.optim.SGD):
        do = 'Make a new one with groups(model, "adam", lr, rates).'
        raise ParameterError(message("the optimiser", "be SGD", type(optimiser).__name__, do))
    factor = {id(p): rate for rate, _, parameters in _chosen(model, rates) for p in parameters}
    before = [group["lr"] for group in optimiser.param_groups]
    try:
        for group in optimiser.param_groups:
            wanted = {factor.get(id(p), 1.0) for p in group["params"]}
            if len(wanted) > 1:
                do = 'Make the groups with groups(model, "sgd", lr, rates).'
                raise ParameterError(message("a parameter group", "have one rate", f"{sorted(wanted)}", do))
            group["lr"] *= wanted.pop() if wanted else 1.0
        yield
    finally:
        for group, lr in zip(optimiser.param_groups, before, strict=True):
            group["lr"] = lr


def _chosen(model: nn.Module, rates: Mapping[str, float]) -> list[tuple[float, list[str], list[nn.Parameter]]]:
    """(factor, names, parameters) for each given beginning, the longest that fits, and for the rest."""
    begins = lambda name, prefix: name == prefix or name.startswith(f"{prefix}.")
    learned = {name: p for name, p in model.named_parameters() if p.requires_grad}
    for prefix in rates:
        if not any(begins(name, prefix) for name, _ in model.named_parameters()):
            known = sorted({name.rpartition(".")[0] or name for name in learned})
            raise UnknownNameError(f"No parameter of the model begins with `{prefix}`. {nearest(prefix, known)}")
    made: dict[str, list[str]] = {"": [], **{prefix: [] for prefix in rates}}
    for name in learned:
        made[max((prefix for prefix in rates if begins(name, prefix)), key=len, default="")].append(name)
    return [
        (float(rates.get(prefix, 1.0)), names, [learned[n] for n in names]) for prefix, names in made.items() if names
    ]


def layer_rates(model: nn.Module, rates: Mapping[str, float]) -> Record:
    """Factors on the rates of layers: `LayerRates(rates=rates).apply(model)`."""
    return LayerRates(rates=rates).apply(model)
