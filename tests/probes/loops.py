"""A training loop of a user's kind, and a probe that a test can break."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from richter.probes import AbstractProbe, Snapshot, Watch
from richter.probes.probe import Reading
from richter.schema import Variable


def loop(
    net: nn.Module, x: Tensor, y: Tensor, see: Watch | None, steps: int, rate: float = 0.05, first: int = 0, **more: Any
) -> Any:
    """Plain gradient descent on ½ΣΣ(f − y)²/n from step `first` to `steps`; returns the optimiser."""
    optimiser = more.get("optimiser") or torch.optim.SGD(net.parameters(), lr=rate)
    for step in range(first, steps):
        optimiser.zero_grad()
        loss = 0.5 * (net(x) - y).square().sum() / len(x)
        loss.backward()
        optimiser.step()
        if see is not None:
            see(step + 1, loss)
    return optimiser


@dataclass(frozen=True)
class Told(AbstractProbe):
    """Measures what a function says of the model."""

    says: Callable[[nn.Module], Any]

    name: ClassVar[str] = "told"
    variables: ClassVar[tuple[Variable, ...]] = (Variable("told", (), "what was told"),)

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        return Snapshot()

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        return {"told": self.says(model)}
