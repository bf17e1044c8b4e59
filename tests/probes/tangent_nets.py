"""Networks in which parameters meet data in every way, and the kernel by its definition."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from richter.training.networks import lenet5, mlp
from richter.training.resnets import resnet18
from richter.training.transformers import gpt2, modular_transformer
from tests.probes.nets import Attention, ByHand, OutOfOrder, Residual, small_cnn

Floats = NDArray[np.float64]


def by_definition(
    model: nn.Module, x: Tensor, x2: Tensor | None = None, rates: dict[str, float] | None = None
) -> Floats:
    """Σ_p η_p ∂_p f_i(x) ∂_p f_j(x′) from one gradient per example and output; (N, N2, C, C)."""
    J = jacobian(model, x, rates)
    other = J if x2 is None else jacobian(model, x2, rates)
    return np.einsum("ncp,mdp->nmcd", J, other, optimize=True)


def jacobian(model: nn.Module, x: Tensor, rates: dict[str, float] | None = None) -> Floats:
    """(example, output, parameter), in float64 on the processor, scaled by the root of the rates."""
    named = dict(model.named_parameters())
    rows = []
    for example in x:
        f = model(example[None]).reshape(-1)
        for value in f:
            found = torch.autograd.grad(value, list(named.values()), retain_graph=True, allow_unused=True)
            parts = [
                (torch.zeros_like(p) if g is None else g).flatten() * (rates or {}).get(name, 1.0) ** 0.5
                for (name, p), g in zip(named.items(), found, strict=True)
            ]
            rows.append(torch.cat(parts).double().numpy())
    return np.stack(rows).reshape(len(x), -1, rows[0].size)


class Convolutions(nn.Module):
    """Strides, groups, dilation, padding of every sort, norms, parameters without a module, a weight used thrice."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Conv2d(2, 4, 3, stride=2, padding=1, groups=2, dilation=2)
        self.b = nn.Conv1d(4, 6, 3, padding="same", groups=2, dilation=2)
        self.norm = nn.GroupNorm(2, 6)
        self.c = nn.Conv1d(6, 4, 2, stride=3, padding_mode="circular", padding=1)
        self.batch = nn.BatchNorm1d(4)
        self.rms, self.head = nn.RMSNorm(4), nn.Linear(4, 2)
        self.scale = nn.Parameter(torch.randn(4))
        self.token, self.gain = nn.Parameter(torch.randn(1, 4, 1)), nn.Parameter(torch.tensor(0.7))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.b(self.a(x).flatten(2).tanh())).tanh()
        h = self.batch(self.c(h))
        h = torch.cat([h, self.token.expand(h.shape[0], -1, -1)], 2).mean(2)
        h = self.rms(h) * self.scale
        h = h + h @ self.head.weight.T @ self.head.weight
        return self.head(h) * self.gain


class Depthwise(nn.Module):
    """One filter per channel, reflected edges, kernels and strides that are not square, a convolution called twice."""

    def __init__(self) -> None:
        super().__init__()
        self.depth = nn.Conv2d(3, 6, (3, 2), groups=3, padding=1, padding_mode="reflect", stride=(2, 1))
        self.point, self.norm = nn.Conv2d(6, 4, 1, bias=False), nn.BatchNorm2d(4)
        self.twice = nn.Conv2d(4, 4, (2, 3), padding="same")
        self.deep = nn.Conv2d(4, 4, 2, groups=4, dilation=(1, 2), bias=False, padding=1, padding_mode="replicate")
        self.layer, self.head = nn.LayerNorm(4, bias=False), nn.Linear(4, 3)

    def forward(self, x: Tensor) -> Tensor:
        h = torch.relu(self.norm(self.point(self.depth(x))))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the copy that an even kernel needs
            h = self.twice(self.twice(h).tanh()).tanh()
        h = self.deep(h)
        return self.head(self.layer(h.mean((2, 3))))


class Unusual(nn.Module):
    """Layers without a rule of their own, which must be found all the same: their gradients come from torch.func."""

    def __init__(self) -> None:
        super().__init__()
        self.volume, self.up = nn.Conv3d(1, 2, 2), nn.ConvTranspose2d(2, 2, 2, stride=2)
        self.act, self.pair = nn.PReLU(2), nn.Bilinear(2, 2, 3)
        self.head = nn.Linear(3, 2)

    def forward(self, x: Tensor) -> Tensor:
        h = self.act(self.up(self.volume(x).mean(2))).mean((2, 3))
        return self.head(self.pair(h, h.tanh()))


class Recurrent(nn.Module):
    """A layer that cannot be taken apart, and one whose weight is computed from others."""

    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.LSTM(3, 4, batch_first=True)
        self.head = nn.utils.parametrizations.weight_norm(nn.Linear(4, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.inner(x)[0][:, -1])


class Positions(nn.Module):
    """Token and position embeddings looked up, the latter the same for every example; padding; examples second."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens, self.positions = nn.Embedding(7, 6, padding_idx=0), nn.Embedding(9, 6)
        self.norm, self.mix, self.head = nn.LayerNorm(6), nn.Linear(6, 6), nn.Linear(6, 3, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        h = self.tokens(x) + self.positions(torch.arange(1, x.shape[1] + 1))
        h = self.mix(self.norm(h).transpose(0, 1)).relu_().transpose(0, 1)
        return self.head(h.reshape(-1, 6)).view(*x.shape, 3).cumsum(1)


def _trained_norms(model: nn.Module, x: Tensor) -> nn.Module:
    """Statistics, scales and biases of the norms away from 0 and 1."""
    model.train()
    model(x)
    with torch.no_grad():
        for p in model.parameters():
            if p.ndim == 1:
                p.add_(0.3 * torch.randn_like(p))
    return model.eval()


def zoo(seed: int) -> dict[str, tuple[Any, Tensor]]:
    """Every network with four examples, in float64."""
    torch.manual_seed(seed)
    images = torch.randn(8, 3, 16, 16)
    made = {
        "mlp": (mlp(5, [7, 6], 3, rng=seed), torch.randn(4, 5)),
        "one output": (mlp(3, [4], 1, activation="tanh", rng=seed), torch.randn(4, 3)),
        "lenet5": (lenet5(rng=seed), torch.randn(4, 1, 28, 28)),
        "resnet18": (_trained_norms(resnet18(width=2, rng=seed), images), torch.randn(4, 3, 16, 16)),
        "one-layer transformer": (
            modular_transformer(5, d=8, heads=2, hidden=16, rng=seed),
            torch.tensor([[1, 2, 5], [3, 3, 5], [0, 4, 5], [1, 1, 5]]),
        ),
        "tied transformer": (
            _trained_norms(gpt2(layers=2, d=8, heads=2, context=6, vocabulary=7, rng=seed), torch.tensor([[1, 2]])),
            torch.randint(0, 7, (4, 3)),
        ),
        "convolutions": (_trained_norms(Convolutions(), torch.randn(9, 2, 9, 9)), torch.randn(4, 2, 9, 9)),
        "depthwise": (_trained_norms(Depthwise(), torch.randn(9, 3, 7, 6)), torch.randn(4, 3, 7, 6)),
        "unusual": (Unusual(), torch.randn(4, 1, 3, 4, 4)),
        "positions": (Positions(), torch.tensor([[1, 2, 0], [3, 3, 5], [0, 4, 6], [1, 1, 5]])),
        "recurrent": (Recurrent(), torch.randn(4, 5, 3)),
        "attention": (Attention(seed), torch.randint(0, 11, (4, 5))),
        "in place": (small_cnn(seed), torch.randn(4, 2, 8, 8)),
        "by hand": (ByHand(seed), torch.randn(4, 4)),
        "out of order": (OutOfOrder(seed), torch.randn(4, 3)),
        "shared": (Residual(seed), torch.randn(4, 4)),
    }
    return {
        name: (model.double().eval(), x.double() if x.dtype.is_floating_point else x)
        for name, (model, x) in made.items()
    }
