"""Smoothness of convolution filters."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.refs import KUN24, implements

Floats = NDArray[np.float64]
Edges = Literal["valid", "same", "full"]


@implements(
    KUN24["Eq. 129"].misprint(
        printed="Δ with 2 in the middle; its entries sum to −1",
        right="Δ with 3 in the middle; its entries sum to 0, as a Laplacian's must",
        how="the printed Δ gives a constant filter 1 per interior pixel's share, not 0, and ranks it below a wave",
    )
)
def laplacian(centre: float = 3.0) -> Floats:
    """The 3 × 3 Laplacian; `centre=2` is the printed one.

    >>> float(laplacian().sum()), float(laplacian(2).sum())
    (0.0, -1.0)
    """
    return np.array([[-0.25, -0.5, -0.25], [-0.5, centre, -0.5], [-0.25, -0.5, -0.25]])


@implements(KUN24["Eq. 128"])
def smoothness(filters: ArrayLike, edges: Edges = "valid", centre: float = 3.0) -> Floats:
    r"""$\big\|\frac{w}{\|w\|_2}*\Delta\big\|_2^2$ of each filter (…, height, width): the smaller, the smoother.

    A filter that is 0 everywhere: NaN. `edges`: "valid" stays inside the filter, so that a constant filter has 0;
    "same" and "full" pad with zeros and count the filter's rim as an edge. The paper does not say which.

    >>> float(smoothness(np.ones((4, 4))))
    0.0
    """
    w = np.asarray(filters, dtype=np.float64)
    if w.ndim < 2 or min(w.shape[-2:]) < 3:
        advice = "Smaller filters have no interior for the 3 × 3 Laplacian."
        raise ParameterError(message("the filters", "be at least 3 × 3", f"shape {w.shape}", advice))
    if edges not in ("valid", "same", "full"):
        raise ParameterError(message("`edges`", 'be "valid", "same" or "full"', edges))
    pad = {"valid": 0, "same": 1, "full": 2}[edges]
    peak = np.abs(w).max(axis=(-2, -1), keepdims=True)
    scaled = w / np.where(peak > 0, peak, np.nan)
    unit = scaled / np.sqrt((scaled**2).sum(axis=(-2, -1), keepdims=True))
    padded = np.pad(unit, [(0, 0)] * (w.ndim - 2) + [(pad, pad)] * 2)
    # Δ is symmetric: convolution and correlation are the same.
    answer = np.einsum(
        "...ij,ij->...", np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (-2, -1)), laplacian(centre)
    )
    return (answer**2).sum(axis=(-2, -1))
