"""Networks of every kind that a move must keep, or refuse, with inputs for each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from richter.training import lenet5, mlp, modular_transformer, resnet8


class ResidualBlock(nn.Module):
    """A residual block of convolutions without norms, between a stem and a head; nothing but homogeneous functions."""

    def __init__(self) -> None:
        super().__init__()
        self.stem, self.conv1 = nn.Conv2d(2, 4, 3, padding=1), nn.Conv2d(4, 4, 3, padding=1)
        self.conv2, self.head = nn.Conv2d(4, 4, 3, padding=1), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.stem(x))
        x = F.relu(x + self.conv2(F.relu(self.conv1(x))))
        return self.head(x.mean((2, 3)))


class NormedBlock(nn.Module):
    """A residual block with batch norm whose inner part ends in a convolution, so that one scaling is exact."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.conv1 = nn.BatchNorm2d(2), nn.Conv2d(2, 4, 3, padding=1)
        self.conv2, self.head = nn.Conv2d(4, 2, 3, padding=1), nn.Linear(2, 3)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.conv2(F.relu(self.conv1(self.norm(x))))
        return self.head(x.mean((2, 3)))


def rows(*shape: int) -> Tensor:
    return torch.randn(8, *shape, dtype=torch.float64)


def tokens() -> Tensor:
    return torch.randint(0, 7, (8, 3))


Made = tuple[Any, Tensor]
# name → (network, inputs, (first, last) layers between which everything is homogeneous)
KEPT: dict[str, Callable[[], tuple[Any, Tensor, tuple[Any, Any]]]] = {
    "mlp": lambda: (mlp(4, [7, 6], 3, start="torch"), rows(4), (0, -1)),
    "cnn": lambda: (lenet5(start="torch", size=20, channels=1), rows(1, 20, 20), (0, -1)),
    "resnet block": lambda: (ResidualBlock(), rows(2, 6, 6), ("stem", "head")),
    "normed block": lambda: (NormedBlock().eval(), rows(2, 6, 6), ("conv1", "conv2")),
    "transformer": lambda: (modular_transformer(7, d=8, heads=2, hidden=16), tokens(), ("block.up", "block.down")),
}
REFUSED: dict[str, Callable[[], tuple[Any, Tensor, str]]] = {
    "tanh": lambda: (mlp(4, [7, 6], 3, activation="tanh"), rows(4), "`tanh` in `act1` is not homogeneous"),
    "gelu": lambda: (mlp(4, [7], 3, activation="gelu"), rows(4), "`gelu` in `act1` is not homogeneous"),
    "batch norm": lambda: (resnet8(width=4).eval(), rows(3, 16, 16), "the output is multiplied by 3"),
    "positions": lambda: (modular_transformer(7, d=8, heads=2, hidden=16), tokens(), "`add` in `the model` adds"),
}


def made(name: str, dtype: torch.dtype) -> tuple[Any, Tensor, tuple[Any, Any]]:
    """One of `KEPT` in a type."""
    model, x, layers = KEPT[name]()
    return model.to(dtype), x.to(dtype) if x.is_floating_point() else x, layers


def state(model: nn.Module) -> dict[str, Tensor]:
    """A copy of everything that a model holds."""
    return {name: t.detach().clone() for name, t in model.state_dict().items()}


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest relative difference of two states."""
    return max(
        float((a[k].double() - b[k].double()).abs().max() / b[k].double().abs().max().clamp(min=1e-30)) for k in b
    )
