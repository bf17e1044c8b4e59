"""Residual networks for small images (He et al. 2016), as narrow as one likes."""

from __future__ import annotations

from collections import OrderedDict

import torch
from torch import Tensor, nn

from richter.tasks.randomness import Rng, count
from richter.training.starts import Rule, built


class ResidualBlock(nn.Module):
    """Two 3 × 3 convolutions with batch normalisation, added to a shortcut."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        """The layers; a shortcut of another shape has its own convolution."""
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        same = stride == 1 and inputs == outputs
        self.shortcut = (
            nn.Identity()
            if same
            else nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))
        )

    def forward(self, x: Tensor) -> Tensor:
        """The block's output."""
        inner = self.norm2(self.conv2(torch.relu(self.norm1(self.conv1(x)))))
        return torch.relu(inner + self.shortcut(x))


def resnet18(
    *, width: int = 16, outputs: int = 10, channels: int = 3, start: Rule = "he", rng: Rng = 0
) -> nn.Sequential:
    """ResNet-18 with a 3 × 3 stem: four stages of two blocks, widths width × (1, 2, 4, 8).

    Width 64 is the usual one (11.2 million parameters), 16 has 0.7 million.
    """
    return _resnet((2, 2, 2, 2), width, outputs, channels, start, rng)


def resnet8(
    *, width: int = 16, outputs: int = 10, channels: int = 3, start: Rule = "he", rng: Rng = 0
) -> nn.Sequential:
    """ResNet-8: three stages of one block, widths width × (1, 2, 4); 78 thousand parameters for width 16.

    >>> resnet8(width=2)(torch.zeros(1, 3, 32, 32)).shape
    torch.Size([1, 10])
    """
    return _resnet((1, 1, 1), width, outputs, channels, start, rng)


def _resnet(blocks: tuple[int, ...], width: int, outputs: int, channels: int, start: Rule, rng: Rng) -> nn.Sequential:
    count("`width`", width)

    def make() -> nn.Sequential:
        layers: OrderedDict[str, nn.Module] = OrderedDict(
            conv=nn.Conv2d(channels, width, 3, padding=1, bias=False), norm=nn.BatchNorm2d(width), act=nn.ReLU()
        )
        before = width
        for stage, number in enumerate(blocks):
            after = width * 2**stage
            for block in range(number):
                stride = 2 if stage and not block else 1
                layers[f"stage{stage + 1}_block{block + 1}"] = ResidualBlock(before, after, stride)
                before = after
        layers.update(pool=nn.AdaptiveAvgPool2d(1), flat=nn.Flatten(), head=nn.Linear(before, outputs))
        return nn.Sequential(layers)

    return built(make, rng, start)
