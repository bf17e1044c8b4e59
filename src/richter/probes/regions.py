"""How many activation regions a plane through input space meets."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.observe import torch_library
from richter.probes.trace import signs, watch

if TYPE_CHECKING:
    from torch import Tensor, nn


@dataclass(frozen=True)
class Regions:
    """Sampled activation regions: a label per point of the grid, numbered in the order in which they are met."""

    labels: NDArray[np.int64]  # (second direction, first direction)
    at_least: int  # distinct patterns on the grid: a lower bound on the regions of the plane


def activation_regions(
    model: nn.Module, origin: Tensor, directions: Tensor, extent: float = 1.0, resolution: int = 100
) -> Regions:
    """Distinct activation patterns on a grid origin + s d₁ + t d₂, s and t from −extent to extent.

    `at_least` is a lower bound: regions between the points are missed, and it grows with the resolution. The exact
    partition of a two-layer network is `richter.maths.partition`'s.

    Args:
        model: a torch model; it is left as it was.
        origin: one input, without the example axis.
        directions: d₁ and d₂, stacked on the first axis.
        extent: half the side of the square.
        resolution: points per side.
    """
    torch = torch_library("activation_regions")
    for name, given in (("the origin", origin), ("the directions", directions)):
        if not isinstance(given, torch.Tensor):
            raise ParameterError(message(name, "be a tensor", type(given).__name__))
    if directions.shape != (2, *origin.shape):
        must = f"be two inputs, shape {(2, *origin.shape)}"
        raise ParameterError(message("the directions", must, f"shape {tuple(directions.shape)}"))
    if resolution < 2 or not extent > 0:
        raise ParameterError(message("the grid", "have at least 2 points and extent > 0", f"{resolution}, {extent}"))
    side = torch.linspace(-extent, extent, resolution, dtype=origin.dtype, device=origin.device)
    codes = np.concatenate([_codes(model, _row(origin, directions, t, side)) for t in side])
    # Equal rows of packed bits are equal patterns.
    whole = codes.view([("", codes.dtype)] * codes.shape[1])[:, 0]
    _, first, index = np.unique(whole, return_index=True, return_inverse=True)
    order = np.argsort(np.argsort(first))
    return Regions(order[index].reshape(resolution, resolution), int(first.size))


def _row(origin: Tensor, directions: Tensor, t: Tensor, side: Tensor) -> Tensor:
    s = side.reshape(-1, *[1] * origin.ndim)
    return origin + s * directions[0] + t * directions[1]


def _codes(model: nn.Module, x: Tensor) -> NDArray[Any]:
    found = signs(watch(model, x, patterns=True))
    if not found:
        what = "the model"
        raise ParameterError(
            message(what, "have ReLU-like neurons", "none of them", "Linear networks have one region.")
        )
    return np.ascontiguousarray(np.packbits(np.concatenate(list(found.values()), axis=1), axis=1))
