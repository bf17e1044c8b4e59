"""A wide two-layer linear network trained on data on a line."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.line import reduce_line
from richter.maths.pair import LayerPair, layer_pair, solve_pair
from richter.maths.wide_law import NORMS, conserved_product, norm_case, wide_flow, wide_kernel
from richter.params import Given, Resolved, param
from richter.refs import XU24
from richter.regime import Evidence, Regime, by_alignment, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.paired import combinations, growth_of_path, refuse_near_saddle
from richter.theory.starts import draw

_PAIRED = {
    "alignment": "alignment", "kernel": "kernel", "kernel_change": "kernel_change",
    "growth": "growth", "p": "p", "q": "q",
}  # fmt: skip


@dataclass(frozen=True)
class _Prepared:
    pair: LayerPair
    layout: Layout
    direction: Floats  # x/ρ (input, start, 1)
    across: Floats  # the part of w₀ across the data, which never moves


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class WideScalar(AbstractTheory):
    r"""Two-layer linear network of any width on data on a line, from any start, with layer rates.

    $f(x)=\gamma\sum_{ij}u_iw_{ij}x_j$, loss $(f-y)^2$ (no ½: the paper's convention).

    >>> net = WideScalar(u0=[1.0, -1.0], w0=[[0.5], [0.2]], x=[1.0], y=2.0)
    >>> net.limit().output.item()
    2.0
    """

    u0: Given = param("output weights at the start", symbol="u(0)", dims=("neuron",))
    w0: Given = param("input weights at the start", symbol="w(0)", dims=("neuron", "input"))
    x: Given = param("the data's point on the line, √E[a²] n", symbol="x", dims=("input",))
    y: Given = param("its target, E[a y]/√E[a²]", symbol="y")
    gamma: Given = param(
        "output scale", symbol="γ", default=1.0, nonzero=True, advice="With 0 the output would stay 0."
    )
    eta_u: Given = param(
        "learning rate of the output weights",
        symbol="η_u",
        default=1.0,
        low=0,
        advice="Use 0 to freeze them.",
    )
    eta_w: Given = param(
        "learning rate of the input weights", symbol="η_w", default=1.0, low=0, advice="Use 0 to freeze them."
    )

    name: ClassVar[str] = "wide-scalar"
    title: ClassVar[str] = "Wide network on a line"
    formula: ClassVar[str] = "pᵢ = pᵢ(0) √α, qᵢ = qᵢ(0)/√α, α(t) = N/D with E = exp(−4t/t_c)"
    valid: ClassVar[str] = (
        "two-layer linear network with one output, gradient flow on E(f − y)², inputs on one line through 0"
    )
    places = (XU24["Theorem 1"], XU24["Prop. 1"], XU24["Prop. 2"])
    start_params: ClassVar[dict[str, str]] = {"u": "u0", "w": "w0"}
    loss_factor: ClassVar[float] = 2.0
    loss_says: ClassVar[str] = "(f − y)² (XU24: no ½, mean over data)"
    variables = (
        Variable("u", ("neuron",), "output weights", "state", "u"),
        Variable("w", ("neuron", "input"), "input weights", "state", "w"),
        Variable("output", (), "network output at x", "function", "f"),
        Variable("loss", (), "(f − y)²", "loss", "L"),
        Variable("p", ("neuron",), "growing combination (√η_u v + √η_w u)/2, v = Wx/ρ", symbol="p"),
        Variable("q", ("neuron",), "shrinking combination (√η_u v − √η_w u)/2", symbol="q"),
        Variable(
            "alignment", (), "cosine between u and Wx/ρ", symbol="ζ", undefined_when="u = 0 or Wx = 0"
        ),
        Variable("kernel", (), "NTK at the data, K(x, x)", symbol="K"),
        Variable(
            "kernel_change", (), "relative change of the kernel, |K − K₀|/K₀", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
        Variable("growth", (), "growth factor α: p² in units of p(0)²", symbol="α"),
        Variable("imbalance", ("neuron",), "conserved η_u v² − η_w u²", "invariant", "4pq"),
    )  # fmt: skip

    def check(self, resolved: Resolved) -> None:
        """x must not be 0."""
        x = resolved.values["x"]
        if (np.abs(x).max(axis=-1) < 1e-140).any():
            raise ParameterError(message("`x` of WideScalar", "not be all 0", x, "Leave such examples out."))

    def prepare(self, p: Layout) -> _Prepared:
        """Reduce the layers to the pair (u, Wx/ρ)."""
        rho = np.sqrt((p.x * p.x).sum(axis=0))
        direction = p.x / rho
        v0 = (p.w0 * direction).sum(axis=1)
        pair = layer_pair(p.u0, v0, p.y, p.gamma * rho, 2.0, p.eta_u, p.eta_w)
        refuse_near_saddle(pair, "WideScalar")
        return _Prepared(pair, p, direction, p.w0 - v0[:, None] * direction)

    def exact(self, prepared: _Prepared, t: Floats, only: Collection[str]) -> State:
        """Theorem 1 and Propositions 1 and 2 in one formula."""
        pair, p, wanted = prepared.pair, prepared.layout, set(only)
        need = {_PAIRED[name] for name in wanted & set(_PAIRED)}
        need |= {"u"} if "u" in wanted else set()
        need |= {"v_keep", "v_lost", "v_gain"} if "w" in wanted else set()
        need |= {"meeting"} if "output" in wanted else set()
        need |= {"residual"} if "loss" in wanted else set()
        got = solve_pair(pair, t, need)
        out = {name: got[source] for name, source in _PAIRED.items() if name in wanted}
        if "u" in wanted:
            out["u"] = got["u"]
        if "w" in wanted:
            out["w"] = got["v_keep"] * p.w0
            out["w"] += got["v_lost"] * prepared.across
            out["w"] += got["v_gain"][:, None] * prepared.direction
        if "output" in wanted:
            out["output"] = pair.scale * got["meeting"]
        if "loss" in wanted:
            out["loss"] = got["residual"] ** 2
        if "imbalance" in wanted:
            out["imbalance"] = conserved_product(pair.u0, pair.v0, p.eta_u, p.eta_w)
        return out

    def begin(self, p: Layout) -> State:
        """(u₀, w₀)."""
        return {"u": p.u0, "w": p.w0}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow on (f − y)², Eq. 18."""
        du, dw = wide_flow(state["u"], state["w"], p.x, p.y, p.gamma, p.eta_u, p.eta_w)
        return {"u": du, "w": dw}

    def rates(self, p: Layout, state: State) -> State:
        """(η_u, η_w)."""
        return {"u": p.eta_u, "w": p.eta_w}

    def aim(self, p: Layout) -> Floats:
        """y."""
        return p.y

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        u = state["u"]
        rho = np.sqrt((p.x * p.x).sum(axis=0))
        view = lambda s: (s["w"] * p.x).sum(axis=1) / rho
        v, v0, u0 = view(state), view(start), start["u"]
        now = combinations(u, v, p.eta_u, p.eta_w)
        inner = lambda x, y: (x * y).sum(axis=0)
        kernel = lambda s: wide_kernel(s["u"], s["w"], p.x, p.x, p.gamma, p.eta_u, p.eta_w)
        output = p.gamma * rho * inner(u, v)
        return {
            "p": now[0],
            "q": now[1],
            "output": output,
            "loss": (output - p.y) ** 2,
            "alignment": inner(u, v) / np.sqrt(inner(u, u) * inner(v, v)),
            "kernel": kernel(state),
            "kernel_change": np.abs(kernel(state) - kernel(start)) / kernel(start),
            "growth": growth_of_path(now, combinations(u0, v0, p.eta_u, p.eta_w), p.eta_u, p.eta_w),
        }

    def invariants(self, p: Layout, state: State) -> State:
        """η_u v² − η_w u² of every neuron, Eq. 23."""
        rho = np.sqrt((p.x * p.x).sum(axis=0))
        return {"imbalance": conserved_product(state["u"], (state["w"] * p.x).sum(axis=1) / rho, p.eta_u, p.eta_w)}

    def regime(self) -> Regime:
        """The mechanism (alignment, disalignment, rescaling) and the case of §3.3, with t_c's two parts."""
        prepared = self.prepare(self.layout)
        pair, rates = prepared.pair, prepared.pair.rates
        names = ("alignment", "growth", "kernel", "kernel_change")
        ends = self.exact(prepared, np.array([0.0, np.inf]), names)
        # At the saddle there is no cosine left; its limit is read after twenty time scales.
        near = self.exact(prepared, 5 / np.where(rates.root > 0, rates.root, 1.0), ("alignment",))["alignment"]
        starts = max(1, math.prod(self.batch_shape))
        one = lambda x: scalar_if_single(np.broadcast_to(x, (starts, 1))[:, 0], self.batch_shape)
        with np.errstate(all="ignore"):
            goal = pair.target / pair.scale
            side = np.sign(np.where(goal == 0, pair.meeting, goal))
            toward = side * (goal - pair.meeting)
            zeta0 = ends["alignment"][:, :1]
            zeta1 = np.where(np.isnan(ends["alignment"][:, 1:]), near, ends["alignment"][:, 1:])
            still = (toward == 0) | (ends["kernel"][:, :1] == 0)
            lost = bool((np.isnan(ends["alignment"][:, 1:]) & ~still & (goal != 0)).any())
            label = np.where(still, "frozen", by_alignment(zeta0, zeta1, toward))
            final = ends["growth"][:, 1:]
            case = np.where(pair.frozen, 0, norm_case(rates.p, rates.q, final))
            feature = rates.target**2
            kernel = 4 * rates.p * rates.q
            share = np.where(pair.frozen, 0.0, feature / (feature + kernel))
            t_c = np.where(pair.frozen, 1 / (2 * ends["kernel"][:, :1]), 1 / rates.root)
        return Regime(
            one(label),
            {
                "alignment_start": Evidence(one(zeta0), "ζ at the start"),
                "alignment_end": Evidence(one(zeta1), "ζ at the end", None),
                "growth_end": Evidence(one(final), "α₊; > 1: ζ rises, < 1: it falls", 1.0),
                "norms": Evidence(one(np.array(NORMS)[case]), "which of the four cases of §3.3"),
                "t_c": Evidence(one(t_c), "time scale of learning"),
                "feature_share": Evidence(one(share), "share of t_c⁻² that comes from feature learning"),
                "kernel_change": Evidence(one(ends["kernel_change"][:, 1:]), "|K − K₀|/K₀ at the end"),
            },
            (
                "ζ is the cosine between u and Wx; for y/γ < 0 alignment means that it goes to −1.",
                *(("Some starts end in the saddle u = 0, Wx = 0 and never learn the target.",) if lost else ()),
            ),
        )

    @classmethod
    def from_data(
        cls,
        *,
        inputs: Given,
        targets: Given,
        u0: Given,
        w0: Given,
        gamma: Given = 1.0,
        eta_u: Given = 1.0,
        eta_w: Given = 1.0,
        batch: tuple[str, ...] | None = None,
    ) -> Self:
        """The network trained on a data set on a line (Proposition 1, mean loss).

        The loss of the data set is this theory's loss plus a constant, `reduce_line(inputs, targets)[2]`.
        """
        x, y, _ = reduce_line(inputs, targets)
        return cls(u0=u0, w0=w0, x=x, y=y, gamma=gamma, eta_u=eta_u, eta_w=eta_w, batch=batch)

    @classmethod
    def random(
        cls,
        *,
        width: int,
        x: Given = 1.0,
        y: Given = 1.0,
        gamma: Given = 1.0,
        sigma_u: float = 1.0,
        sigma_w: float = 1.0,
        draws: int = 1000,
        rng: np.random.Generator | int = 0,
        eta_u: Given = 1.0,
        eta_w: Given = 1.0,
    ) -> Self:
        """Gaussian starts of both layers, as in XU24 §4.

        >>> WideScalar.random(width=50, gamma=1 / 50, draws=3).sizes["neuron"]
        50
        """
        if not isinstance(width, (int, np.integer)) or width < 1:
            raise ParameterError(message("`width`", "be a whole number ≥ 1", width))
        point = np.atleast_1d(np.asarray(x, dtype=np.float64))
        u0, w0 = draw(rng, draws, (sigma_u, (width,)), (sigma_w, (width, point.shape[-1])))
        return cls(u0=u0, w0=w0, x=point, y=y, gamma=gamma, eta_u=eta_u, eta_w=eta_w)
