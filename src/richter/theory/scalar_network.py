"""A two-layer linear network with one input and one output."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.pair import LayerPair, layer_pair, solve_pair
from richter.maths.scalar_limits import growth_bound, scalar_output
from richter.maths.wide_law import conserved_product
from richter.params import Given, param
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.paired import (
    combinations,
    growth_of_path,
    largest_kernel_change,
    refuse_near_saddle,
)
from richter.theory.starts import draw

_NAMES = ("alignment", "kernel_change", "growth")


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class ScalarNetwork(AbstractTheory):
    r"""Scalar in, scalar out, any width and start: $f(x)=\frac xZ\sum_ia_ib_i$ learns $xS$.

    Loss $\tfrac12\mathbf E[x^2](\theta-S)^2$ with $\theta=\frac1Z\sum ab$; the growth factor is NAM24's γ(t).

    >>> net = ScalarNetwork(a0=[1.0, -1.0], b0=[1.0, 1.0], target=1.0)
    >>> net.limit().growth.round(4).item()
    1.618
    """

    a0: Given = param("first-layer weights at the start", symbol="a(0)", dims=("neuron",))
    b0: Given = param("second-layer weights at the start", symbol="b(0)", dims=("neuron",))
    target: Given = param("target slope", symbol="S")
    normalisation: Given = param(
        "output divisor", symbol="Z", default=1.0, low=0, open_low=True,
        advice="For a negative one flip the sign of b0.",
    )  # fmt: skip
    input_variance: Given = param("E[x²]", symbol="E[x²]", default=1.0, low=0, open_low=True)
    eta_a: Given = param(
        "learning rate of the first layer", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze it."
    )
    eta_b: Given = param(
        "learning rate of the second layer", symbol="η_b", default=1.0, low=0, advice="Use 0 to freeze it."
    )

    name: ClassVar[str] = "scalar-network"
    title: ClassVar[str] = "Scalar linear network"
    formula: ClassVar[str] = "aᵢ, bᵢ = ½(a₀+b₀)ᵢ √γ ± ½(a₀−b₀)ᵢ/√γ, γ(t) = N/D with E = exp(−2R E[x²] t)"
    valid: ClassVar[str] = "f(x) = (x/Z) Σ aᵢbᵢ, gradient flow on ½E(f − xS)²"
    places = (NAM24["Sec. 6.2"], NAM24["Theorem 1"])
    start_params: ClassVar[dict[str, str]] = {"a": "a0", "b": "b0"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½E[x²](θ − S)² (NAM24: ½, mean over data)"
    variables = (
        Variable("a", ("neuron",), "first-layer weights", "state", "a"),
        Variable("b", ("neuron",), "second-layer weights", "state", "b"),
        Variable("output", (), "slope of the function, Σab/Z", "function", "θ"),
        Variable("loss", (), "½E[x²](θ − S)²", "loss", "L"),
        Variable("growth", (), "growth factor of the aligned combination", symbol="γ"),
        Variable("alignment", (), "cosine between a and b", symbol="ζ", undefined_when="a = 0 or b = 0"),
        Variable("kernel", (), "NTK averaged over x, E[x²](η_b‖a‖² + η_a‖b‖²)/Z²", symbol="K"),
        Variable(
            "kernel_change", (), "relative change of the kernel, |K − K₀|/K₀", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
        Variable("imbalance", ("neuron",), "conserved η_b a² − η_a b²", "invariant"),
    )  # fmt: skip

    def prepare(self, p: Layout) -> tuple[LayerPair, Layout]:
        """The pair (b, a)."""
        pair = layer_pair(p.b0, p.a0, p.target, 1 / p.normalisation, p.input_variance, p.eta_b, p.eta_a)
        refuse_near_saddle(pair, type(self).__name__)
        return pair, p

    def exact(self, prepared: tuple[LayerPair, Layout], t: Floats, only: Collection[str]) -> State:
        """Theorem 1 with the corrected exponent."""
        pair, p = prepared
        source = {
            "a": "v",
            "b": "u",
            "output": "meeting",
            "loss": "residual",
            "kernel": "kernel",
        }
        source |= {name: name for name in _NAMES}
        got = solve_pair(pair, t, [source[name] for name in only if name in source])
        make = {
            "a": lambda: got["v"],
            "b": lambda: got["u"],
            "output": lambda: pair.scale * got["meeting"],
            "loss": lambda: p.input_variance * got["residual"] ** 2 / 2,
            "kernel": lambda: p.input_variance * got["kernel"],
            "imbalance": lambda: conserved_product(p.b0, p.a0, p.eta_b, p.eta_a),
        }
        return {name: make[name]() if name in make else got[name] for name in only}

    def begin(self, p: Layout) -> State:
        """(a₀, b₀)."""
        return {"a": p.a0, "b": p.b0}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow on ½E(f − xS)²."""
        a, b = state["a"], state["b"]
        force = p.input_variance / p.normalisation * (scalar_output(a, b, p.normalisation) - p.target)
        return {"a": -p.eta_a * force * b, "b": -p.eta_b * force * a}

    def rates(self, p: Layout, state: State) -> State:
        """(η_a, η_b)."""
        return {"a": p.eta_a, "b": p.eta_b}

    def aim(self, p: Layout) -> Floats:
        """S."""
        return p.target

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        inner = lambda x, y: (x * y).sum(axis=0)
        a, b = state["a"], state["b"]
        kernel = lambda s: (
            p.input_variance / p.normalisation**2 * (p.eta_b * inner(s["a"], s["a"]) + p.eta_a * inner(s["b"], s["b"]))
        )
        output = scalar_output(a, b, p.normalisation)
        pq = lambda s: combinations(s["b"], s["a"], p.eta_b, p.eta_a)
        return {
            "output": output,
            "loss": p.input_variance * (output - p.target) ** 2 / 2,
            "growth": growth_of_path(pq(state), pq(start), p.eta_b, p.eta_a),
            "alignment": inner(a, b) / np.sqrt(inner(a, a) * inner(b, b)),
            "kernel": kernel(state),
            "kernel_change": np.abs(kernel(state) - kernel(start)) / kernel(start),
        }

    def invariants(self, p: Layout, state: State) -> State:
        """η_b a² − η_a b² of every neuron."""
        return {"imbalance": conserved_product(state["b"], state["a"], p.eta_b, p.eta_a)}

    def regime(self) -> Regime:
        """Lazy (linear) or rich (greedy), from γ₊ and the kernel's largest change."""
        pair, p = self.prepare(self.layout)
        starts = max(1, int(np.prod(self.batch_shape)))
        one = lambda x: scalar_if_single(np.broadcast_to(x, (starts, 1))[:, 0], self.batch_shape)
        with np.errstate(all="ignore"):
            final = self.exact((pair, p), np.array([np.inf]), ("growth",))["growth"]
            begins = self.exact((pair, p), np.zeros(1), ("kernel",))["kernel"]
            most = np.where(begins > 0, largest_kernel_change(pair, final), np.nan)
            bound = growth_bound(p.a0, p.b0, p.target, p.normalisation, p.eta_a, p.eta_b)
        return Regime(
            one(by_movement(most)),
            {
                "kernel_change": Evidence(one(most), "largest |K − K₀|/K₀ on the way", LAZY_BELOW),
                "growth_end": Evidence(one(final), "γ₊; 1: linear dynamics, ≫ 1: greedy"),
                "growth_bound": Evidence(one(bound), "S/Σ₀, a lower bound of γ₊ for S ≥ 0"),
            },
            ("Richer: a larger target, a smaller start or a larger Z; lazier: the opposite (NAM24 §6.3.1).",),
        )

    @classmethod
    def random(
        cls,
        *,
        width: int,
        target: Given = 1.0,
        normalisation: Given = 1.0,
        sigma_a: float = 1.0,
        sigma_b: float = 1.0,
        draws: int = 1000,
        rng: np.random.Generator | int = 0,
        **others: Given,
    ) -> Self:
        """Gaussian starts of both layers.

        >>> ScalarNetwork.random(width=100, normalisation=10.0, draws=4).batch_shape
        (4,)
        """
        if not isinstance(width, (int, np.integer)) or width < 1:
            raise ParameterError(message("`width`", "be a whole number ≥ 1", width))
        a0, b0 = draw(rng, draws, (sigma_a, (width,)), (sigma_b, (width,)))
        return cls.of(a0=a0, b0=b0, target=target, normalisation=normalisation, **others)
