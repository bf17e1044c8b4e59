r"""A ReLU network of width 3 with shared weights (α, β, γ, c) that computes the parity of three bits.

$f(x)=w^T\sigma(Wx+b)+c$ on all 8 inputs, loss $\tfrac12\sum_8(f-Y)^2$ (divide times by 8 for the mean); the formulas
hold for α, β, γ > 0. The first axis of `weights` is (α, β, γ, c).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.maths.integrate import integrate
from richter.refs import NAM24, implements

Floats = NDArray[np.float64]
INPUTS = np.array([[i >> 2 & 1, i >> 1 & 1, i & 1] for i in range(8)], dtype=float).T  # (bit, example), Eq. C.7
SIGNS = 1 - 2 * (INPUTS.sum(axis=0) % 2)


@implements(NAM24["Eq. C.7"])
def parity_of_three(target: float = 1.0) -> tuple[Floats, Floats]:
    """All inputs (bit, example) and S times their parity, + for an even number of ones.

    >>> parity_of_three()[1].tolist()
    [1.0, -1.0, -1.0, 1.0, -1.0, 1.0, 1.0, -1.0]
    """
    return INPUTS.copy(), target * SIGNS


@implements(NAM24["Eq. C.9"])
def shared_layers(weights: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """W (neuron, bit, …), b (neuron, …) and w (neuron, …) of the shared weights."""
    alpha, beta, gamma, _ = np.asarray(weights, dtype=float)
    zero = np.zeros_like(alpha)
    W = np.array([[-alpha, alpha, -alpha], [-beta, beta, -beta], [gamma, -gamma, gamma]])
    return W, np.array([zero, beta, -gamma]), np.array([-2 * alpha, beta, gamma])


@implements(NAM24["Eq. C.10"], NAM24["Eq. C.11"])
def parity_modes(weights: ArrayLike) -> Floats:
    r"""$f^{(q)}=w_q\sigma(W_qx+b_q)$ of each neuron on all inputs, (mode, example, …)."""
    W, b, w = shared_layers(weights)
    before = np.einsum("qi...,ie->qe...", W, INPUTS) + b[:, None]
    return w[:, None] * np.maximum(before, 0.0)


@implements(NAM24["Eq. C.8"], NAM24["Eq. C.12"])
def parity_output(weights: ArrayLike) -> Floats:
    """f on all inputs, (example, …)."""
    return parity_modes(weights).sum(axis=0) + np.asarray(weights, dtype=float)[3]


def parity_solution(target: float) -> Floats:
    r"""$\alpha=\beta=\gamma=\sqrt{2S}$, $c=-S$: the network that computes the parity exactly.

    >>> parity_output(parity_solution(2.0)).round(12).tolist() == parity_of_three(2.0)[1].tolist()
    True
    """
    return np.array([np.sqrt(2 * target)] * 3 + [-target])


@implements(
    NAM24["Eq. C.15"].misprint(
        printed="dα²/dt = 2ηα²(−S − (−2α² + 2β² + c))",
        right="dα²/dt = 8ηα²(S + (−2α² + 2β² + c)) on ½Σ₈(f − Y)²",
        how="automatic differentiation, exact; as printed the flow climbs the loss",
    ),
    NAM24["Eq. C.16"].misprint(
        printed="dβ²/dt = −ηβ²(S − (−2α² + 5β² + 5c))",
        right="dβ²/dt = 4ηβ²(S − (−4α² + 7β² + 5c))",
        how="automatic differentiation, exact; the print vanishes at the same point",
    ),
    NAM24["Eq. C.17"].misprint(
        printed="dγ²/dt = −ηγ²(S − (γ² + c))", right="dγ²/dt = 4ηγ²(S − (γ² + c))",
        how="automatic differentiation, exact"
    ),
    NAM24["Eq. C.18"].misprint(
        printed="dc/dt = −η(2α² − 5β² − γ² − 8c)", right="dc/dt = η(2α² − 5β² − γ² − 8c)",
        how="automatic differentiation, exact",
    ),
)  # fmt: skip
def parity_flow(weights: ArrayLike, target: float, eta: float = 1.0) -> Floats:
    r"""Gradient flow of (α, β, γ, c), from that of α², β², γ², c; the axes of `weights`."""
    alpha, beta, gamma, c = np.asarray(weights, dtype=float)
    S, A, B, G = target, alpha**2, beta**2, gamma**2
    return np.array([
        4 * eta * alpha * (S + (-2 * A + 2 * B + c)),
        2 * eta * beta * (S - (-4 * A + 7 * B + 5 * c)),
        2 * eta * gamma * (S - (G + c)),
        eta * (2 * A - 5 * B - G - 8 * c),
    ])  # fmt: skip


@implements(
    NAM24["Eq. C.13"].misprint(
        printed="R^(q) = Yᵀf^(q)/8S²",
        right="R^(q) = Yᵀf^(q)/8S by the definition (4.7); the print is R^(q)/S",
        how="algebra: at the solution the print adds up to 1, the skill strength is S",
    ),
    NAM24["Eq. C.14"],
)
def mode_strengths(weights: ArrayLike, target: float, *, normalised: bool = False) -> Floats:
    r"""$\mathcal R^{(q)}=\frac1{8S}Y^Tf^{(q)}$ as in Eq. 4.7, (mode, …); their sum is the skill strength.

    The print, $\frac1{8S^2}Y^Tf^{(q)}$, is $\mathcal R^{(q)}/S$: `normalised`.

    >>> float(mode_strengths(parity_solution(2.0), 2.0).sum().round(12))
    2.0
    """
    made = np.einsum("e,qe...->q...", SIGNS, parity_modes(weights)) / 8
    return made / target if normalised else made


@dataclass(frozen=True)
class ParityPath:
    """Weights (4, t), outputs (example, t) and mode strengths (mode, t) of a training run."""

    t: Floats
    weights: Floats
    output: Floats
    modes: Floats
    loss: Floats

    def half_times(self) -> Floats:
        """When each mode, and last their sum, first reaches half its final strength (by interpolation)."""
        rows = np.concatenate([self.modes, self.modes.sum(axis=0)[None]])
        share = rows / rows[:, -1:]
        made = np.empty(len(rows))
        for i, row in enumerate(share):  # four rows
            after = int(np.argmax(row >= 0.5))
            part = (0.5 - row[after - 1]) / (row[after] - row[after - 1]) if after else 0.0
            made[i] = self.t[after - 1] + part * (self.t[after] - self.t[after - 1]) if after else self.t[0]
        return made


def parity_path(t: ArrayLike, start: ArrayLike, target: float, eta: float = 1.0) -> ParityPath:
    """Gradient flow from `start` = (α, β, γ, c) at increasing times, integrated to 1e-11."""
    times = np.asarray(t, dtype=float)
    weights = integrate(
        lambda flat: parity_flow(flat, target, eta), np.asarray(start, dtype=float), times,
        method="DOP853", rtol=1e-11, atol=1e-13,
    )  # fmt: skip
    output = parity_output(weights)
    loss = ((output - parity_of_three(target)[1][:, None]) ** 2).sum(axis=0) / 2
    return ParityPath(times, weights, output, mode_strengths(weights, target), loss)
