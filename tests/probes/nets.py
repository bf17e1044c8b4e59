"""Small torch networks of every kind that the probes must tell apart."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def mlp(seed: int, sizes: tuple[int, ...] = (4, 7, 5, 2), activation: type[nn.Module] = nn.ReLU) -> Any:
    """A float64 network of linear layers, named 0, 2, 4, …"""
    torch.manual_seed(seed)
    layers: list[nn.Module] = []
    for d, h in zip(sizes, sizes[1:], strict=False):
        layers += [nn.Linear(d, h), activation()]
    return nn.Sequential(*layers[:-1]).double()


def small_cnn(seed: int) -> Any:
    """Two convolutions, pooling, a flattened linear layer; inputs (example, 2, 8, 8)."""
    torch.manual_seed(seed)
    made = nn.Sequential(
        nn.Conv2d(2, 3, 3),
        nn.ReLU(inplace=True),
        nn.Conv2d(3, 4, 3),
        nn.LeakyReLU(0.1),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16, 3),
    )
    return made.double()


class ByHand(nn.Module):
    """f = a·relu(x W + b), no modules at all."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        g = torch.Generator().manual_seed(seed)
        self.a = nn.Parameter(torch.randn(2, 6, generator=g, dtype=torch.float64))
        self.W = nn.Parameter(torch.randn(4, 6, generator=g, dtype=torch.float64))
        self.b = nn.Parameter(torch.randn(6, generator=g, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return torch.relu(x @ self.W + self.b) @ self.a.T


class OutOfOrder(nn.Module):
    """Layers are registered in another order than they run, and one is never run."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.last = nn.Linear(5, 2).double()
        self.idle = nn.Linear(3, 3).double()
        self.middle = nn.Linear(4, 5).double()
        self.first = nn.Linear(3, 4).double()

    def forward(self, x: Tensor) -> Tensor:
        return self.last(F.relu(self.middle(F.relu(self.first(x)))))


class Residual(nn.Module):
    """A residual block, batch normalisation and a shared weight."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.inner, self.outer = nn.Linear(4, 4).double(), nn.Linear(4, 4).double()
        self.shared, self.norm = nn.Linear(4, 4).double(), nn.BatchNorm1d(4).double()
        self.head = nn.Linear(4, 2).double()

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.outer(F.relu(self.inner(x)))
        x = F.relu(self.shared(F.relu(self.shared(x))))
        return self.head(F.relu(self.norm(x)))


class Attention(nn.Module):
    """One attention block over tokens, written with modules."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.embed = nn.Embedding(11, 8)
        self.block = nn.MultiheadAttention(8, 2, batch_first=True)
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 3)

    def forward(self, tokens: Tensor) -> Tensor:
        h = self.embed(tokens)
        h = h + self.block(h, h, h)[0]
        return self.down(F.gelu(self.up(h))).mean(1)


def train(model: nn.Module, x: Tensor, y: Tensor, step: float, steps: int) -> None:
    """Plain gradient descent on ½ΣΣ(f − y)²/n."""
    for _ in range(steps):
        model.zero_grad()
        (0.5 * ((model(x) - y) ** 2).sum() / len(x)).backward()
        with torch.no_grad():
            for p in model.parameters():
                if p.grad is not None:
                    p.sub_(step * p.grad)
