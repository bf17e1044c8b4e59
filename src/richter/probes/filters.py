"""Smoothness of the filters of a model's first convolution."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.smoothness import Edges, smoothness
from richter.probes.observe import layer as find
from richter.probes.observe import numbers, torch_library

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float64]


def filter_smoothness(
    model: nn.Module, layer: str | None = None, edges: Edges = "valid", centre: float = 3.0
) -> Floats:
    r"""$\|\frac{w_{ij}}{\|w_{ij}\|}*\Delta\|^2$ (output, input) of a two-dimensional convolution (KUN24 Eq. 128).

    The smaller, the smoother; a filter of zeros: NaN. `layer`: the convolution; without it the first one that is
    registered. `centre=2` is Δ as printed, whose entries do not sum to 0.
    """
    torch = torch_library("filter_smoothness")
    if layer is not None:
        chosen = find(model, layer)
    else:
        chosen = next((m for m in model.modules() if isinstance(m, torch.nn.Conv2d)), model)
    if not isinstance(chosen, torch.nn.Conv2d):
        what = f"the layer `{layer}`" if layer else "the model"
        raise ParameterError(message(what, "be a Conv2d" if layer else "have a Conv2d", type(chosen).__name__))
    return smoothness(numbers(chosen.weight, f"{layer or 'the first convolution'}.weight"), edges, centre)
