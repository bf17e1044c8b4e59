r"""How a neuron on two inputs leaves w = 0, where all its pre-activations vanish at once.

There the loss changes with w as $aG(w)$, $G(w)=\sum_j\sigma(w\cdot x_j)\rho_j$, which is linear on every sector between
the rays orthogonal to the examples. Gradient flow leaves along the steepest descent, or stays if there is none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from richter.maths.rays import partition_rays

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Fan:
    """The sectors of weight space (k of them), their slopes c (k, n), and σ(r·x) at their first rays (k, n)."""

    X: Floats
    rays: Floats
    slopes: Floats
    hidden: Floats

    @classmethod
    def of(cls, X: Floats, leak: float) -> Fan:
        """The fan of examples (n, 2), not all 0."""
        sectors = partition_rays(X)
        z = sectors.rays @ X.T
        return cls(X, sectors.rays, np.where(sectors.signs > 0, 1.0, leak), np.maximum(z, leak * z))

    def lowest(self, rho: Floats, sign: float) -> tuple[float, Floats]:
        """The least of sign·G on the unit circle, and where.

        >>> fan = Fan.of(np.array([[1.0, 0.0], [0.0, 2.0]]), 0.0)
        >>> value, where = fan.lowest(np.array([-3.0, -2.0]), 1.0)
        >>> value, where.tolist()
        (-5.0, [0.6, 0.8])
        """
        gradient = sign * (self.slopes * rho) @ self.X
        size = np.linalg.norm(gradient, axis=1)
        steepest = -gradient / np.where(size > 0, size, 1.0)[:, None]
        cross = lambda u, v: u[:, 0] * v[:, 1] - u[:, 1] * v[:, 0]
        inside = (cross(self.rays, steepest) >= 0) & (cross(steepest, np.roll(self.rays, -1, axis=0)) >= 0)
        values = np.concatenate([np.where(inside, -size, np.inf), sign * (self.hidden @ rho)])
        best = int(np.argmin(values))
        return float(values[best]), np.concatenate([steepest, self.rays])[best]
