"""The activation regions of a two-layer network without biases on two inputs: sectors between rays from 0."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.arrangement import distinct_hyperplanes

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Sectors:
    """The sectors of the plane between a network's zero rays, anticlockwise.

    Attributes:
        rays: (ray, 2) unit vectors by increasing angle; sector k lies between ray k and the next.
        signs: (sector, neuron) +1 active, −1 not, 0 for a neuron with w = 0.
        slopes: (sector, 2) of the network's output; without output weights, of the sum of the neurons.
    """

    rays: Floats
    signs: NDArray[np.int8]
    slopes: Floats

    @property
    def count(self) -> int:
        """The number of sectors: 1 without rays, else as many as rays."""
        return len(self.signs)

    @property
    def angles(self) -> Floats:
        """The angles of the rays, in [0, 2π)."""
        turn = np.arctan2(self.rays[:, 1], self.rays[:, 0])
        return np.where(turn < 0, turn + 2 * np.pi, turn)

    @property
    def centres(self) -> Floats:
        """A unit vector inside each sector (sector, 2)."""
        if not len(self.rays):
            return np.array([[1.0, 0.0]])
        return _between(self.rays)

    @property
    def boundaries(self) -> NDArray[np.intp]:
        """The two sectors on either side of each ray (ray, 2)."""
        after = np.arange(len(self.rays))
        return np.stack([(after - 1) % self.count, after], axis=1)

    def colours(self) -> NDArray[np.int8]:
        """Two colours such that neighbours differ: there is always an even number of rays."""
        return (np.arange(self.count) % 2).astype(np.int8)


def partition_rays(w: ArrayLike, a: ArrayLike | None = None, leak: float = 0.0) -> Sectors:
    r"""The sectors on which every neuron of $\sum_ia_i\sigma(w_i\cdot x)$ keeps its sign; w (neuron, 2).

    Each distinct line makes two rays. Parallel weights (within 1e-12) share their line; w = 0 has none.

    >>> made = partition_rays([[1.0, 0.0], [0.0, 2.0], [-3.0, 0.0]], [1.0, 1.0, 1.0])
    >>> made.count, made.rays.round(12).tolist()
    (4, [[1.0, 0.0], [0.0, 1.0], [-1.0, 0.0], [0.0, -1.0]])
    >>> made.slopes.tolist()
    [[1.0, 2.0], [-3.0, 2.0], [-3.0, 0.0], [1.0, 0.0]]
    """
    w = np.asarray(w, dtype=float)
    if w.ndim != 2 or w.shape[1] != 2 or not np.isfinite(w).all():
        raise ParameterError(message("`w` of partition_rays", "be finite numbers (neuron, 2)", f"shape {w.shape}"))
    out = np.ones(len(w)) if a is None else np.asarray(a, dtype=float)
    if out.shape != (len(w),):
        raise ParameterError(message("`a` of partition_rays", f"be ({len(w)},)", f"shape {out.shape}"))
    first, facing = distinct_hyperplanes(w)
    chosen = np.unique(first[first >= 0])
    normal = w[chosen]
    ray = np.stack([-normal[:, 1], normal[:, 0]], axis=1) / np.linalg.norm(normal, axis=1)[:, None]
    ray = np.concatenate([ray, -ray]) + 0.0  # no −0, whose angle is π
    turn = np.arctan2(ray[:, 1], ray[:, 0])
    rays = ray[np.argsort(np.where(turn < 0, turn + 2 * np.pi, turn))]
    centres = _between(rays) if len(rays) else np.array([[1.0, 0.0]])
    side = np.sign(centres @ normal.T)
    # Parallel neurons switch together, even where they differ by rounding; w = 0 has orientation 0.
    signs = np.zeros((len(centres), len(w)), dtype=np.int8)
    if chosen.size:
        signs[:] = side[:, np.minimum(np.searchsorted(chosen, first), chosen.size - 1)] * facing
    slopes = (np.where(signs > 0, 1.0, leak) * out) @ w
    return Sectors(rays, signs, slopes)


def _between(rays: Floats) -> Floats:
    """Unit vectors halfway from each ray to the next, anticlockwise; a ray and its opposite have a right angle."""
    following = np.roll(rays, -1, axis=0)
    if len(rays) == 2:
        return np.stack([-rays[:, 1], rays[:, 0]], axis=1)
    middle = rays + following
    return np.asarray(middle / np.linalg.norm(middle, axis=1)[:, None])
