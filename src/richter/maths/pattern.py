r"""The flow of a two-layer piecewise-linear network while its activation pattern stays, and how the pattern changes.

Where a neuron's hyperplane meets an example the flow jumps. If it points to the hyperplane from both sides the neuron
stays on it (Filippov's sliding): the subgradient of σ at 0 is then the one that keeps $w_i\cdot x_j=0$. Examples on
one line through 0 share a hyperplane and change together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from richter.errors import OutsideTheoryError
from richter.maths.arrangement import EQUAL, distinct_hyperplanes
from richter.maths.fan import Fan

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
TINY = 1e-14  # what rounding makes of a zero pre-activation, relative to ‖w‖
WAKE = 1e-9  # how steep the descent is, relative to the data's pull, with which a neuron leaves w = 0
LEAST = 1e-13  # the length, relative to |a|, with which a neuron leaves w = 0

PATIENCE = 1e7  # how far beyond rounding a neuron that returns at once may be from sliding


@dataclass
class Pattern:
    """Which neuron (h) is on which side of which distinct example direction (m), and where it slides."""

    X: Floats
    y: Floats
    leak: float
    eta_a: float
    eta_w: float
    units: Floats  # (m, d) the distinct directions of the examples
    group: NDArray[np.intp]  # (n,) the direction of each example, −1 for an example at 0
    facing: Floats  # (n,) 1 where the example points along its direction, −1 where against
    upper: Flags  # (h, m)
    stuck: Flags
    dead: Flags  # (h,) held at w = 0
    fan: Fan | None  # for two inputs
    sign: Floats = field(default_factory=lambda: np.zeros(0))

    @classmethod
    def of(
        cls, X: Floats, y: Floats, neurons: int, leak: float = 0.0, eta_a: float = 1.0, eta_w: float = 1.0
    ) -> Pattern:
        """No neuron active yet; `begin` reads the pattern off a state."""
        first, facing = distinct_hyperplanes(X)
        chosen = np.unique(first[first >= 0])
        group = np.where(first >= 0, np.searchsorted(chosen, first), -1)
        units = X[chosen] / np.linalg.norm(X[chosen], axis=1)[:, None]
        none = np.zeros((neurons, len(units)), bool)
        fan = Fan.of(X, leak) if X.shape[1] == 2 and len(units) else None
        return cls(X, y, leak, eta_a, eta_w, units, group, facing, none, none, np.zeros(neurons, bool), fan)

    @property
    def neurons(self) -> int:
        """Their number h."""
        return len(self.upper)

    def split(self, q: Floats) -> tuple[Floats, Floats]:
        """A state as a (h,) and w (h, d)."""
        return q[: self.neurons], q[self.neurons :].reshape(self.neurons, -1)

    def refresh(self, q: Floats) -> None:
        """Slopes (h, n) of the present pattern, sliding ones as below the hyperplane, and what sliding needs."""
        self.sign = np.sign(q[: self.neurons])
        on = (self.upper & ~self.stuck)[:, self.group] == (self.facing > 0)
        self.slopes = np.where(self.dead[:, None], 0.0, np.where(on & (self.group >= 0), 1.0, self.leak))
        self.sliding = np.flatnonzero(self.stuck.any(axis=1))
        d = self.X.shape[1]
        self.inverse = [np.linalg.pinv(self.units[self.stuck[i]]).T for i in self.sliding]
        away = [np.eye(d) - self.units[self.stuck[i]].T @ p for i, p in zip(self.sliding, self.inverse, strict=True)]
        self.away = np.array(away).reshape(-1, d, d)

    def residual(self, a: Floats, w: Floats) -> Floats:
        """ρ (n,)."""
        return (a[:, None] * self.slopes * (w @ self.X.T)).sum(axis=0) - self.y

    def fitted(self, q: Floats, share: float) -> bool:
        """Whether every residual is at most this share of the terms it is made of."""
        a, w = self.split(q)
        terms = np.abs(a[:, None] * self.slopes * (w @ self.X.T)).sum(axis=0) + np.abs(self.y)
        return bool((np.abs(self.residual(a, w)) <= share * terms).all())

    def drive(self, rho: Floats) -> Floats:
        """ξ_i; that of a sliding neuron has no component across its hyperplanes."""
        xi = (self.slopes * rho) @ self.X
        if self.sliding.size:
            xi[self.sliding] = np.einsum("ijk,ik->ij", self.away, xi[self.sliding])
        return xi

    def flow(self, q: Floats) -> Floats:
        """The state's derivative in this pattern."""
        a, w = self.split(q)
        xi = self.drive(self.residual(a, w))
        return np.concatenate([-self.eta_a * (w * xi).sum(axis=1), (-self.eta_w * a[:, None] * xi).ravel()])

    def margins(self, q: Floats) -> tuple[Floats, Floats, Flags]:
        """(h, m) how far each pair is from changing, its rounding error, and whether it would slide off upwards."""
        a, w = self.split(q)
        z = w @ self.units.T
        margin = np.where(self.upper, z, -z)
        noise = np.broadcast_to(TINY * np.linalg.norm(w, axis=1)[:, None], z.shape)
        up = np.zeros(z.shape, bool)
        if self.sliding.size:
            noise = noise.copy()
            for i, pairs, held, room, size in self.holds(q):
                margin[i, pairs], up[i, pairs] = np.minimum(held, room), room < held
                noise[i, pairs] = 10 * TINY * size
        if self.fan is not None and self.dead.any():
            # A dead neuron wakes when some direction from w = 0 begins to descend.
            rho = self.residual(a, w)
            slack = WAKE * (np.linalg.norm(self.X, axis=1) @ np.abs(rho))
            for i in map(int, np.flatnonzero(self.dead)):
                margin[i, 0] = self.fan.lowest(rho, self.sign[i])[0] + slack
        return margin, noise, up

    def holds(self, q: Floats) -> Iterator[tuple[int, NDArray[np.intp], Floats, Floats, float]]:
        """Of each sliding neuron: its directions, what holds it from above and from below, and the drive's size.

        The two are as the subgradient's distances from its bounds; negative where a bound is passed.
        """
        a, w = self.split(q)
        rho = self.residual(a, w)
        sizes, known = np.linalg.norm(self.X, axis=1) * rho, self.group >= 0
        jump = (1 - self.leak) * np.bincount(self.group[known], sizes[known], len(self.units))
        raw = (self.slopes[self.sliding] * rho) @ self.X
        for i, inverse, xi in zip(self.sliding, self.inverse, raw, strict=True):
            pairs = np.flatnonzero(self.stuck[i])
            held = -self.sign[i] * (inverse @ xi)
            yield int(i), pairs, held, self.sign[i] * jump[pairs] - held, float(np.abs(sizes).sum())

    def subgradients(self, q: Floats) -> Floats:
        """The slopes (h, n) that the flow uses; between the leak and 1 where a neuron slides."""
        made = self.slopes.copy()
        for i, pairs, held, room, _ in self.holds(q) if self.sliding.size else ():
            share = dict(zip(pairs.tolist(), np.clip(held / (held + room), 0.0, 1.0).tolist(), strict=True))
            for j in np.flatnonzero(self.stuck[i][self.group] & (self.group >= 0)):
                upper = share[int(self.group[j])]
                made[i, j] = self.leak + (1 - self.leak) * (upper if self.facing[j] > 0 else 1 - upper)
        return made

    def speeds(self, q: Floats, i: int) -> Floats:
        """How fast neuron i moves across each direction (m,)."""
        a, w = self.split(q)
        xi = self.drive(self.residual(a, w))[i]
        return np.asarray(-self.eta_w * a[i] * (self.units @ xi))

    def leave_zero(self, q: Floats, i: int) -> None:
        """Neuron i has reached w = 0: it leaves by the steepest descent, or stays while there is none.

        This is the curve of maximal slope; other solutions of the flow may start at w = 0 as well.
        """
        if self.fan is None:
            raise OutsideTheoryError(
                f"Neuron {i} reaches w = 0, where gradient flow on {self.X.shape[1]} inputs is not unique. "
                "Move the start a little, or use δ ≤ 0."
            )
        a, w = self.split(q)
        rho = self.residual(a, w)
        value, where = self.fan.lowest(rho, float(np.sign(a[i])))
        # A margin between resting and leaving, so that rounding does not decide again and again.
        self.dead[i] = value > -WAKE / 2 * (np.linalg.norm(self.X, axis=1) @ np.abs(rho))
        # Far below every tolerance, but with a direction.
        w[i] = 0.0 if self.dead[i] else LEAST * abs(a[i]) * where
        across = self.units @ where
        self.stuck[i] = (np.abs(across) <= EQUAL) & ~self.dead[i]
        self.upper[i] = (across > 0) & ~self.stuck[i] & ~self.dead[i]
        self.refresh(q)

    def settle(self, q: Floats, i: int, g: int, again: bool = False) -> None:
        """Neuron i has reached direction g, or the end of its sliding along it: choose how it goes on.

        `again`: it has only just left it. It dips by less than the integrator resolves, so it had better slide.
        """
        if self.dead[i]:
            self.leave_zero(q, i)
        elif self.stuck[i, g]:
            _, _, up = self.margins(q)
            self.stuck[i, g], self.upper[i, g] = False, up[i, g]
            self.refresh(q)
        else:
            self.upper[i, g] = not self.upper[i, g]
            self.refresh(q)
            if self.speeds(q, i)[g] * (1 if self.upper[i, g] else -1) < 0:
                self.stuck[i, g] = True
                self.refresh(q)
        for _ in range(len(self.units)):
            margin, noise, up = self.margins(q)
            gone = self.stuck[i] & (margin[i] < -noise[i] * (PATIENCE if again else 1.0))
            if not gone.any():
                return
            self.upper[i] = np.where(gone, up[i], self.upper[i])
            self.stuck[i] &= ~gone
            self.refresh(q)

    def begin(self, q: Floats) -> None:
        """The pattern at the start; a neuron that starts on an example goes where the flow takes it."""
        w = self.split(q)[1]
        z = w @ self.units.T
        small = np.abs(z) <= TINY * np.linalg.norm(w, axis=1)[:, None]
        self.upper, self.stuck = (z > 0) & ~small, np.zeros(z.shape, bool)
        self.refresh(q)
        for i, g in zip(*np.nonzero(small), strict=True):
            if self.speeds(q, i)[g] > 0:
                self.settle(q, i, g)
