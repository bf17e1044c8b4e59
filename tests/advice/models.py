"""Networks that the advice has never seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NormedCnn(nn.Module):
    """Convolutions with batch norms."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 16, 3, stride=2, padding=1),
            nn.BatchNorm2d(16), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return self.body(x)


class Reader(nn.Module):
    """A transformer of torch's own layers, dropout among them, that reads tokens and names a class."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(20, 16)
        layer = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 1, enable_nested_tensor=False)
        self.out = nn.Linear(16, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.encoder(self.tokens(x)).mean(1))


def images() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    x = torch.randn(48, 3, 8, 8)
    return NormedCnn(), (x, x.mean((2, 3)).argmax(1))


def tokens() -> tuple[nn.Module, tuple[Tensor, Tensor]]:
    x = torch.randint(0, 20, (48, 6))
    return Reader().eval(), (x, x.sum(1) % 4)
