"""Fully connected networks and LeNet-5, as plain `nn.Sequential`."""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence

import torch
from numpy.typing import ArrayLike
from torch import nn

from richter.errors import ParameterError, message
from richter.tasks.randomness import Rng, count
from richter.training.starts import Rule, built

ACTIVATIONS: dict[str, type[nn.Module]] = {"relu": nn.ReLU, "tanh": nn.Tanh, "gelu": nn.GELU, "linear": nn.Identity}


def mlp(
    inputs: int,
    widths: Sequence[int],
    outputs: int = 1,
    *,
    bias: bool = True,
    activation: str = "relu",
    start: Rule = "he",
    scale: float = 1.0,
    dtype: torch.dtype | None = None,
    rng: Rng = 0,
) -> nn.Sequential:
    """A fully connected network; images are flattened. Layers are named `layer1`, `layer2`, ….

    Args:
        inputs: numbers in one example.
        widths: the hidden layers.
        outputs: numbers in one output.
        bias: whether layers have biases.
        activation: relu, tanh, gelu or linear.
        start: rule of the start, see `richter.training.starts.built`.
        scale: factor on every drawn weight.
        dtype: of the parameters; float32 by default.
        rng: seed or numpy generator.

    >>> [name for name, _ in mlp(3, [5, 5]).named_children()]
    ['flat', 'layer1', 'act1', 'layer2', 'act2', 'layer3']
    """
    if activation not in ACTIVATIONS:
        raise ParameterError(message("`activation`", f"be one of {', '.join(ACTIVATIONS)}", activation))
    sizes = [count("`inputs`", inputs), *(count("each of `widths`", w) for w in widths), count("`outputs`", outputs)]

    def make() -> nn.Sequential:
        layers: OrderedDict[str, nn.Module] = OrderedDict(flat=nn.Flatten())
        for i in range(1, len(sizes)):
            layers[f"layer{i}"] = nn.Linear(sizes[i - 1], sizes[i], bias=bias, dtype=dtype)
            if i < len(sizes) - 1:
                layers[f"act{i}"] = ACTIVATIONS[activation]()
        return nn.Sequential(layers)

    return built(make, rng, start, scale)


def two_layer(
    a: ArrayLike, w: ArrayLike, *, activation: str = "relu", dtype: torch.dtype | None = None
) -> nn.Sequential:
    """The network Σ aᵢ σ(wᵢ·x) without biases, from its arrays: `a` (neuron,) or (output, neuron), `w` (neuron, input).

    For a drawn start use `mlp(inputs, [width], outputs, bias=False)`.

    >>> two_layer([1.0, -1.0], [[1.0, 0.0], [0.0, 2.0]])(torch.tensor([[3.0, 1.0]])).tolist()
    [[1.0]]
    """
    second, first = (torch.as_tensor(x, dtype=dtype or torch.float32) for x in (a, w))
    if second.ndim == 1:
        second = second[None]
    if first.ndim != 2 or second.ndim != 2 or second.shape[1] != first.shape[0]:
        got = f"a of shape {tuple(second.shape)} and w of shape {tuple(first.shape)}"
        raise ParameterError(message("a two-layer network", "have a (output, neuron) and w (neuron, input)", got))
    model = mlp(first.shape[1], [first.shape[0]], second.shape[0], bias=False, activation=activation, dtype=dtype)
    with torch.no_grad():
        model.get_parameter("layer1.weight").copy_(first)
        model.get_parameter("layer2.weight").copy_(second)
    return model


def lenet5(
    *, channels: int = 1, size: int = 28, outputs: int = 10, activation: str = "relu", start: Rule = "he", rng: Rng = 0
) -> nn.Sequential:
    """LeNet-5: two convolutions with pooling, three full layers; 61,706 parameters for 28 × 28 and 10 outputs.

    Images of 28 pixels are padded by 2, so that they enter as the original's 32 × 32.

    >>> sum(p.numel() for p in lenet5().parameters())
    61706
    """
    if activation not in ACTIVATIONS:
        raise ParameterError(message("`activation`", f"be one of {', '.join(ACTIVATIONS)}", activation))
    padding = 2 if size == 28 else 0
    side = ((size + 2 * padding - 4) // 2 - 4) // 2
    if side < 1:
        raise ParameterError(message("`size` of LeNet-5", "be at least 16 pixels", size))
    act = ACTIVATIONS[activation]

    def make() -> nn.Sequential:
        return nn.Sequential(
            OrderedDict(
                conv1=nn.Conv2d(channels, 6, 5, padding=padding), act1=act(), pool1=nn.AvgPool2d(2),
                conv2=nn.Conv2d(6, 16, 5), act2=act(), pool2=nn.AvgPool2d(2), flat=nn.Flatten(),
                layer3=nn.Linear(16 * side * side, 120), act3=act(),
                layer4=nn.Linear(120, 84), act4=act(), layer5=nn.Linear(84, outputs),
            )
        )  # fmt: skip

    return built(make, rng, start)


def parameters(model: nn.Module) -> int:
    """How many numbers a network has to learn; shared ones count once.

    >>> parameters(mlp(3, [5]))
    26
    """
    return sum(math.prod(p.shape) for p in model.parameters())
