"""The diagonal linear network: every input has its own pair of weights."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.growth import time_to_output
from richter.maths.logistic import diagonal_flow
from richter.maths.pair import LayerPair, layer_pair, solve_pair
from richter.maths.spectrum import length, turn
from richter.maths.wide_law import conserved_product
from richter.params import Given, param
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, STAGE_LIKE_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.paired import combinations, growth_of_path, refuse_near_saddle
from richter.theory.starts import draw


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class DiagonalNetwork(AbstractTheory):
    r"""$f(x)=\sum_ix_ia_ib_i$ learns $\sum_ix_iS_i$: independent sigmoidal modes, any a ≠ b, any signs.

    Uncorrelated inputs, loss $\tfrac12\sum_i\mathbf E[x_i^2](a_ib_i-S_i)^2$.

    >>> net = DiagonalNetwork(a0=0.01, b0=0.01, target=[1.0, 1.0], input_variance=[1.0, 0.1])
    >>> net.emergence_time(0.05).round(1).tolist()
    [3.1, 31.3]
    """

    a0: Given = param("first weights at the start", symbol="a(0)", dims=("mode",))
    b0: Given = param("second weights at the start", symbol="b(0)", dims=("mode",))
    target: Given = param("target of each mode", symbol="S", dims=("mode",))
    input_variance: Given = param(
        "E[xᵢ²] of each mode", symbol="E[x²]", dims=("mode",), default=1.0, low=0, open_low=True
    )
    eta_a: Given = param(
        "learning rate of the first weights", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze them."
    )
    eta_b: Given = param(
        "learning rate of the second weights",
        symbol="η_b",
        default=1.0,
        low=0,
        advice="Use 0 to freeze them.",
    )

    name: ClassVar[str] = "diagonal-network"
    title: ClassVar[str] = "Diagonal linear network"
    formula: ClassVar[str] = "per mode aᵢ, bᵢ = ½(a₀+b₀) √γ ± ½(a₀−b₀)/√γ; for a = b logistic (Eq. 3.9)"
    valid: ClassVar[str] = "f(x) = Σ xᵢaᵢbᵢ, uncorrelated inputs, gradient flow on ½E(f − Σ xᵢSᵢ)²"
    places = (NAM24["Sec. 3.3"], NAM24["Sec. 3.4"])
    start_params: ClassVar[dict[str, str]] = {"a": "a0", "b": "b0"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½Σ E[xᵢ²](aᵢbᵢ − Sᵢ)² (NAM24: ½, mean over data)"
    variables = (
        Variable("a", ("mode",), "first weights", "state", "a"),
        Variable("b", ("mode",), "second weights", "state", "b"),
        Variable("output", ("mode",), "strength of each mode, ab", "function", "ab"),
        Variable("loss", (), "½Σ E[x²](ab − S)²", "loss", "L"),
        Variable("growth", ("mode",), "growth factor of the aligned combination", symbol="γ"),
        Variable(
            "alignment", (), "cosine between function and target, weighted by E[x²]", symbol="ζ",
            undefined_when="the function or the target is 0",
        ),
        Variable("kernel", ("mode",), "eigenvalue of the NTK, E[x²](η_b a² + η_a b²)", symbol="K"),
        Variable(
            "kernel_distance", (), "distance of the NTK from its start, 1 − cosine", symbol="S(0, t)",
            undefined_when="the kernel is 0 at the start or at t",
        ),
        Variable(
            "kernel_change", (), "relative change of the NTK, ‖K − K₀‖/‖K₀‖", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
        Variable("imbalance", ("mode",), "conserved η_b a² − η_a b²", "invariant"),
    )  # fmt: skip

    def prepare(self, p: Layout) -> tuple[LayerPair, Layout]:
        """One pair per mode; the neuron axis has length 1."""
        pair = layer_pair(p.b0[None], p.a0[None], p.target, 1.0, p.input_variance, p.eta_b, p.eta_a)
        refuse_near_saddle(pair, type(self).__name__)
        return pair, p

    def exact(self, prepared: tuple[LayerPair, Layout], t: Floats, only: Collection[str]) -> State:
        """Theorem 1 with p = 1, Z = 1 for each mode."""
        pair, p = prepared
        source = {
            "a": ("v",), "b": ("u",), "output": ("meeting",), "loss": ("residual",),
            "growth": ("growth",), "alignment": ("meeting",), "kernel": ("kernel",),
            "kernel_change": ("kernel_gain",), "kernel_distance": ("kernel", "kernel_gain"),
        }  # fmt: skip
        got = solve_pair(pair, t, {need for name in only for need in source.get(name, ())})
        k0 = lambda: p.input_variance * (p.eta_b * p.a0**2 + p.eta_a * p.b0**2)
        make = {
            "a": lambda: got["v"][0],
            "b": lambda: got["u"][0],
            "output": lambda: got["meeting"],
            "loss": lambda: (p.input_variance * got["residual"] ** 2).sum(axis=0) / 2,
            "growth": lambda: got["growth"],
            "alignment": lambda: _cosine(got["meeting"], p.target, p.input_variance),
            "kernel": lambda: p.input_variance * got["kernel"],
            "kernel_change": lambda: length(p.input_variance * got["kernel_gain"]) / length(k0()),
            "kernel_distance": lambda: turn(
                k0(), p.input_variance * got["kernel"], p.input_variance * got["kernel_gain"]
            ),
            "imbalance": lambda: conserved_product(p.b0, p.a0, p.eta_b, p.eta_a),
        }
        return {name: make[name]() for name in only}

    def begin(self, p: Layout) -> State:
        """(a₀, b₀)."""
        return {"a": p.a0, "b": p.b0}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow, Eq. 3.6."""
        da, db = diagonal_flow(state["a"], state["b"], p.target, p.input_variance)
        return {"a": p.eta_a * da, "b": p.eta_b * db}

    def rates(self, p: Layout, state: State) -> State:
        """(η_a, η_b)."""
        return {"a": p.eta_a, "b": p.eta_b}

    def aim(self, p: Layout) -> Floats:
        """S."""
        return p.target

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        a, b = state["a"], state["b"]
        kernel = lambda s: p.input_variance * (p.eta_b * s["a"] ** 2 + p.eta_a * s["b"] ** 2)
        now, first = kernel(state), kernel(start)
        meets = lambda x, y: np.einsum("i...,i...->...", np.sqrt(p.input_variance) * x, np.sqrt(p.input_variance) * y)
        pq = lambda s: combinations(s["b"][None], s["a"][None], p.eta_b, p.eta_a)
        return {
            "output": a * b,
            "loss": (p.input_variance * (a * b - p.target) ** 2).sum(axis=0) / 2,
            "growth": growth_of_path(pq(state), pq(start), p.eta_b, p.eta_a),
            "alignment": meets(a * b, p.target) / np.sqrt(meets(a * b, a * b) * meets(p.target, p.target)),
            "kernel": now,
            "kernel_distance": 1 - (now * first).sum(axis=0) / (length(now) * length(first)),
            "kernel_change": length(now - first) / length(first),
        }

    def invariants(self, p: Layout, state: State) -> State:
        """η_b a² − η_a b² of every mode, Eq. 3.8."""
        return {"imbalance": conserved_product(state["b"], state["a"], p.eta_b, p.eta_a)}

    def emergence_time(self, epsilon: float = 0.05) -> Floats:
        """When each mode reaches εS, any a ≠ b; ∞ if never, 0 if it is there. Shape (*batch, mode)."""
        return self._reach(_share(epsilon))

    def saturation_time(self, epsilon: float = 0.05) -> Floats:
        """How long each mode takes from εS to (1 − ε)S. Shape (*batch, mode)."""
        share = _share(epsilon)
        with np.errstate(invalid="ignore"):
            return self._reach(1 - share) - self._reach(share)

    def order(self) -> Floats:
        """The modes in the order in which they reach half their target. Shape (*batch, mode)."""
        return np.argsort(self._reach(0.5), axis=-1, kind="stable").astype(np.float64)

    def stage_overlap(self) -> Floats:
        """How far the earlier of two neighbours (in the order of learning) is from done when the next emerges.

        The ε with (1 − ε)S reached by the one when the other reaches εS, for any a ≠ b and S; Eq. 3.13
        (corrected) is the case a = b of equal S. Stage-like training: ε ≪ 1. Shape (*batch, mode − 1).
        """
        p = self._spread()
        half = self._to_rows(self._reach(0.5))
        order = np.argsort(half, axis=0, kind="stable")
        sorted_ = Layout({name: np.take_along_axis(x, order, axis=0) for name, x in p.items()})
        early, late = (
            Layout({name: x[part] for name, x in sorted_.items()}) for part in (slice(None, -1), slice(1, None))
        )
        pairs = [(self.prepare(q)[0], q) for q in (early, late)]
        share = lambda i, t: solve_pair(pairs[i][0], t, ("meeting",))["meeting"] / pairs[i][1].target
        high = np.take_along_axis(half, order, axis=0)[1:]
        low = np.zeros_like(high)
        with np.errstate(all="ignore"):
            for _ in range(80):  # the shares' sum rises from below 1 to above 1 on the way
                middle = (low + high) / 2
                below = share(0, middle) + share(1, middle) < 1
                low, high = np.where(below, middle, low), np.where(below, high, middle)
            overlap = np.where(np.isfinite(high), share(1, (low + high) / 2), np.nan)
        return self.by_start(overlap)

    def _reach(self, share: float) -> Floats:
        """When each mode reaches `share` of its target."""
        pair, p = self.prepare(self.layout)
        rates = pair.rates
        with np.errstate(all="ignore"):
            start = p.a0 * p.b0
            there = start / p.target >= share
            time = time_to_output(rates, share * rates.target) / p.input_variance
            if pair.frozen.any():  # a frozen layer: the residual decays at one rate
                speed = p.input_variance * solve_pair(pair, np.zeros(1), ("kernel",))["kernel"]
                left = (1 - share) * p.target / (p.target - start)
                slow = np.where(speed > 0, -np.log(left) / np.where(speed > 0, speed, 1.0), np.inf)
                time = np.where(pair.frozen, slow, time)
            time = np.where(p.target == 0, np.nan, np.where(there, 0.0, time))
        return self.by_start(time)

    def _spread(self) -> Layout:
        shape = (self.sizes["mode"], max(1, math.prod(self.batch_shape)), 1)
        return Layout({name: np.broadcast_to(x, shape) for name, x in self.layout.items()})

    def _to_rows(self, value: Floats) -> Floats:
        return np.moveaxis(value.reshape(-1, value.shape[-1]), -1, 0)[..., None]

    def regime(self) -> Regime:
        """Lazy or rich by the kernel's movement; how stage-like the modes are."""
        prepared = self.prepare(self.layout)
        pair, p = prepared
        with np.errstate(all="ignore"):
            kernel = self.exact(prepared, np.zeros(1), ("kernel",))["kernel"]
            rate = np.where(pair.frozen | (pair.rates.root == 0), kernel, 2 * pair.rates.root * p.input_variance)
            slow = np.where(rate > 0, rate, np.inf).min(axis=0)
            slow = np.where(np.isfinite(slow), slow, 1.0)
            reach = np.log10(np.maximum(rate.max(axis=0) / slow, 1.0)).max()
            times = np.minimum(np.geomspace(1e-3 / 10**reach, 1e3, 400) / slow, 1e290)
            got = self.exact(prepared, times, ("kernel_distance", "kernel_change"))
            end = self.exact(prepared, np.array([np.inf]), ("kernel_distance", "kernel_change"))
            largest = lambda name: np.fmax(np.fmax.reduce(got[name], axis=-1), end[name][..., 0])
            change, turned = largest("kernel_change"), largest("kernel_distance")
        starts = max(1, math.prod(self.batch_shape))
        one = lambda x: scalar_if_single(np.broadcast_to(x, (starts,)), self.batch_shape)
        evidence = {
            "kernel_change": Evidence(one(change), "largest ‖K − K₀‖/‖K₀‖ on the way", LAZY_BELOW),
            "kernel_distance": Evidence(one(turned), "largest S(0, t), 1 − cosine, on the way"),
        }
        if self.sizes["mode"] > 1:
            overlap = np.fmax.reduce(self.stage_overlap(), axis=-1)  # NaN where a neighbour never arrives
            evidence["stage_overlap"] = Evidence(
                scalar_if_single(overlap, self.batch_shape), "largest overlap of neighbours", STAGE_LIKE_BELOW
            )
        return Regime(one(by_movement(change)), evidence)

    @classmethod
    def random(
        cls,
        *,
        target: Given,
        sigma_a: float = 0.1,
        sigma_b: float = 0.1,
        draws: int = 1000,
        rng: np.random.Generator | int = 0,
        **others: Given,
    ) -> Self:
        """Gaussian starts of every mode.

        >>> DiagonalNetwork.random(target=[1.0, 2.0], draws=3).batch_shape
        (3,)
        """
        shape = np.shape(target)[-1:] or (1,)
        a0, b0 = draw(rng, draws, (sigma_a, shape), (sigma_b, shape))
        return cls.of(a0=a0, b0=b0, target=target, **others)


def _share(epsilon: float) -> float:
    if not 0 < epsilon < 0.5:
        raise ParameterError(message("`epsilon`", "lie between 0 and ½", epsilon))
    return float(epsilon)


def _cosine(output: Floats, target: Floats, weight: Floats) -> Floats:
    inner = lambda x, y: (weight * x * y).sum(axis=0)
    unit = output / np.abs(output).max(axis=0)  # squares of small outputs underflow
    return inner(unit, target) / np.sqrt(inner(unit, unit) * inner(target, target))
