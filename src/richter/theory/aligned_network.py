"""A linear network of any depth whose layers start aligned with each other and with the task."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.balance import imbalanced_pair
from richter.maths.deep_modes import deep_mode, deep_time
from richter.maths.growth import time_to_output
from richter.maths.logistic import aligned_flow
from richter.maths.pair import LayerPair, solve_pair
from richter.maths.spectrum import length, turn
from richter.params import Given, Resolved, param
from richter.refs import KUN24, NAM24
from richter.regime import LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State


@dataclass(frozen=True)
class _Prepared:
    layout: Layout
    pair: LayerPair | None  # two layers; None for deeper networks
    still: Floats  # a layer is frozen
    unit: Floats  # √(η_a η_w), in which the pair counts the strengths


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class AlignedNetwork(AbstractTheory):
    r"""Singular modes that learn alone: the strength $u_i$ of each mode of the product of all layers.

    Two layers with imbalance δ: $\dot u=-D\sqrt{4\eta_a\eta_wu^2+\delta^2}\,(u-s)$; L ≥ 3 balanced layers with one
    rate: $\dot u=\eta LD\,u^{2-2/L}(s-u)$. Loss $\tfrac12\sum_iD_i(u_i-s_i)^2$, D the input's spectrum.

    >>> net = AlignedNetwork(initial=1e-3, strengths=[3.0, 1.0], depth=3)
    >>> net.hitting_time(0.5).round(2).tolist()
    [3.14, 9.14]
    """

    initial: Given = param("product strength of each mode at the start", symbol="u(0)", dims=("mode",))
    strengths: Given = param("the target's product strengths, where the modes end", symbol="s", dims=("mode",))
    delta: Given = param("imbalance η_w a² − η_a w² of each mode (two layers)", symbol="δ", dims=("mode",), default=0.0)
    input_spectrum: Given = param(
        "eigenvalue of the inputs' covariance of each mode", symbol="D", dims=("mode",), default=1.0, low=0,
        open_low=True,
    )  # fmt: skip
    depth: Given = param("number of weight matrices", symbol="L", default=2.0, low=2)
    eta_a: Given = param(
        "learning rate of the last layer", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze it."
    )
    eta_w: Given = param(
        "learning rate of the first layer", symbol="η_w", default=1.0, low=0, advice="Use 0 to freeze it."
    )

    name: ClassVar[str] = "aligned-network"
    title: ClassVar[str] = "Aligned linear network"
    formula: ClassVar[str] = (
        "L = 2: the growth factor of each mode; L ≥ 3: T(z(t)) = T(z(0)) − ct, z = (u/s)^{−(L−2)/L}"
    )
    valid: ClassVar[str] = (
        "linear network whose layers share singular vectors with the task, gradient flow on ½Σ D(u − s)²; "
        "for more than two layers balanced, with one learning rate"
    )
    places = (NAM24["Eq. 3.15"], KUN24["App. B.6"])
    start_params: ClassVar[dict[str, str]] = {"output": "initial"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½Σ D(u − s)² (½, as KUN24 and NAM24)"
    variables = (
        Variable("output", ("mode",), "product strength of each mode", "function", "u"),
        Variable("loss", (), "½Σ D(u − s)²", "loss", "L"),
        Variable(
            "alignment", (), "cosine between function and target, weighted by D", symbol="ζ",
            undefined_when="the function or the target is 0",
        ),
        Variable("kernel", ("mode",), "eigenvalue of the NTK in the mode's own direction", symbol="K"),
        Variable(
            "kernel_distance", (), "distance of these eigenvalues from their start, 1 − cosine", symbol="S(0, t)",
            undefined_when="the kernel is 0 at the start or at t",
        ),
        Variable(
            "kernel_change", (), "relative change of these eigenvalues, ‖K − K₀‖/‖K₀‖", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
    )  # fmt: skip

    def check(self, resolved: Resolved) -> None:
        """Depth is one whole number; more than two layers are balanced and learn at one rate."""
        values = resolved.values
        depth = values["depth"]
        if depth.ndim or depth != np.rint(depth):
            raise ParameterError(message("`depth` of AlignedNetwork", "be one whole number ≥ 2", depth))
        if depth > 2 and (values["delta"] != 0).any():
            raise ParameterError(
                message("`delta` of AlignedNetwork", "be 0 for more than two layers", values["delta"], "Use depth=2.")
            )
        if depth > 2 and (values["eta_a"] != values["eta_w"]).any():
            raise ParameterError(
                message("`eta_a` and `eta_w` of AlignedNetwork", "be equal for more than two layers", "different rates")
            )

    @property
    def layers(self) -> int:
        """The depth L."""
        return int(self.params["depth"])

    def prepare(self, p: Layout) -> _Prepared:
        """Two layers: each mode's pair of weights from its strength and imbalance."""
        still = (p.eta_a == 0) | (p.eta_w == 0)
        if self.layers > 2:
            return _Prepared(p, None, still, np.ones(1))
        rate_a, rate_w = np.where(still, 1.0, p.eta_a), np.where(still, 1.0, p.eta_w)
        unit = np.sqrt(rate_a * rate_w)
        output, delta, target, clock = np.broadcast_arrays(
            unit * p.initial, p.delta, unit * p.strengths, p.input_spectrum
        )
        return _Prepared(p, imbalanced_pair(output, delta, target, clock), still, unit)

    def exact(self, prepared: _Prepared, t: Floats, only: Collection[str]) -> State:
        """Each mode's closed form; the rest is read off it."""
        p = prepared.layout
        if prepared.pair is None:
            output, residual = deep_mode(t, p.initial, p.strengths, self.layers, p.eta_a * p.input_spectrum)
            gain = None
        else:
            got = solve_pair(prepared.pair, t, ("meeting", "residual", "kernel_gain"))
            decay = np.exp(-p.input_spectrum * np.abs(p.delta) * np.minimum(t, 1e290))
            fixed = np.where(p.delta == 0, 1.0, decay) * (p.initial - p.strengths)
            output = np.where(prepared.still, p.strengths + fixed, got["meeting"] / prepared.unit)
            residual = np.where(prepared.still, fixed, got["residual"] / prepared.unit)
            gain = np.where(prepared.still, 0.0, got["kernel_gain"]) * p.input_spectrum
        if np.ndim(t) and (t == 0).any():
            output = np.where(t == 0, p.initial, output)
        made = self._read(p, output, residual, gain)
        return {name: made[name] for name in only}

    def begin(self, p: Layout) -> State:
        """u(0)."""
        return {"output": p.initial}

    def flow(self, p: Layout, state: State) -> State:
        """Each mode's flow."""
        return {"output": -self._kernel(p, state["output"]) * (state["output"] - p.strengths)}

    def rates(self, p: Layout, state: State) -> State:
        """K/D: how fast a mode answers to the gradient of the loss in u."""
        return {"output": self._kernel(p, state["output"]) / p.input_spectrum}

    def aim(self, p: Layout) -> Floats:
        """s."""
        return p.strengths

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        return self._read(p, state["output"], state["output"] - p.strengths, None)

    def invariants(self, p: Layout, state: State) -> State:
        """None: the imbalance is a parameter."""
        return {}

    def _kernel(self, p: Layout, u: Any) -> Any:
        if self.layers == 2:
            return aligned_flow(u, p.delta, p.input_spectrum, p.eta_a, p.eta_w)
        L = self.layers
        return p.eta_a * p.input_spectrum * L * (u * u) ** ((L - 1) / L)

    def _read(self, p: Layout, output: Floats, residual: Floats, gain: Floats | None) -> State:
        weigh = lambda x, y: (p.input_spectrum * x * y).sum(axis=0)
        kernel, first = self._kernel(p, output), self._kernel(p, p.initial)
        gain = kernel - first if gain is None else gain
        size = np.sqrt(weigh(output, output) * weigh(p.strengths, p.strengths))
        return {
            "output": output,
            "loss": weigh(residual, residual) / 2,
            "alignment": weigh(output, p.strengths) / size,
            "kernel": kernel + 0 * output,
            "kernel_distance": turn(first + 0 * output, kernel + 0 * output, gain + 0 * output),
            "kernel_change": length(gain + 0 * output) / length(first),
        }

    def hitting_time(self, share: float) -> Floats:
        """When each mode reaches `share` (between 0 and 1) of its target; ∞ if never. Shape (*batch, mode)."""
        if not 0 < share < 1:
            raise ParameterError(message("`share`", "lie between 0 and 1", share))
        prepared = self.prepare(self.layout)
        p = prepared.layout
        with np.errstate(all="ignore"):
            there = p.initial / p.strengths >= share
            if prepared.pair is None:
                speed = p.eta_a * p.input_spectrum
                time = deep_time(share * p.strengths, p.initial, p.strengths, self.layers, speed)
            else:
                rates = prepared.pair.rates
                time = time_to_output(rates, share * rates.target) / p.input_spectrum
                left = (1 - share) * p.strengths / (p.strengths - p.initial)
                slow = -np.log(left) / (p.input_spectrum * np.abs(p.delta))
                time = np.where(prepared.still, slow, time)
            return self.by_start(np.where(p.strengths == 0, np.nan, np.where(there, 0.0, time)))

    def order(self) -> Floats:
        """The modes in the order in which they reach half their target: the low-rank order. (*batch, mode)."""
        return np.argsort(self.hitting_time(0.5), axis=-1, kind="stable").astype(np.float64)

    def regime(self) -> Regime:
        """Lazy or rich, by how far the eigenvalues of the kernel move."""
        prepared = self.prepare(self.layout)
        times = np.concatenate([np.geomspace(1e-9, 1e9, 500), [np.inf]])
        with np.errstate(all="ignore"):
            got = self.exact(prepared, times, ("kernel_change", "kernel_distance"))
        starts = max(1, math.prod(self.batch_shape))
        one = lambda x: scalar_if_single(np.broadcast_to(x, (starts,)), self.batch_shape)
        change, turned = (np.fmax.reduce(got[name], axis=-1) for name in ("kernel_change", "kernel_distance"))
        return Regime(
            one(by_movement(change)),
            {
                "kernel_change": Evidence(one(change), "largest ‖K − K₀‖/‖K₀‖ on the way", LAZY_BELOW),
                "kernel_distance": Evidence(one(turned), "largest S(0, t), 1 − cosine, on the way"),
            },
        )
