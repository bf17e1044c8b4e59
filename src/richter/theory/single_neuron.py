"""One linear hidden neuron on whitened inputs: f(x) = a w·x."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.neuron import (
    NeuronModes,
    basin_margin,
    frozen_neuron_path,
    neuron_modes,
    neuron_path,
)
from richter.maths.neuron_law import neuron_delta, neuron_flow, neuron_kernel
from richter.params import Given, Resolved, param
from richter.refs import KUN24
from richter.regime import (
    DELAYED_BELOW,
    FIT_TIME,
    LAZY_BELOW,
    Evidence,
    Regime,
    by_movement,
    scalar_if_single,
)
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.starts import draw

TINY = 1e-140  # squares of smaller components underflow
REGIME_BLOCK = 32  # starts whose paths are searched for the largest movement at once


@dataclass(frozen=True)
class _Prepared:
    modes: NeuronModes
    layout: Layout
    frozen: Floats
    delta: Floats


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SingleNeuron(AbstractTheory):
    r"""The single linear neuron: one closed form for every start, imbalance and pair of learning rates.

    f(x) = a w·x with whitened inputs, $X^TX=I$, $\beta_*=X^Ty$, loss $\tfrac12\|\beta-\beta_*\|^2$.

    >>> ds = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).solve([0.0, 1.0, np.inf])
    >>> ds.phi.values.round(3).tolist()
    [0.0, 0.762, 1.0]
    """

    a0: Given = param("output weight at the start", symbol="a₀")
    w0: Given = param("input weights at the start", symbol="w₀", dims=("input",))
    beta_star: Given = param("least-squares solution Xᵀy", symbol="β*", dims=("input",))
    eta_a: Given = param(
        "learning rate of the output weight", symbol="η_a", default=1.0, low=0, advice="Use 0 to freeze it."
    )
    eta_w: Given = param(
        "learning rate of the input weights", symbol="η_w", default=1.0, low=0, advice="Use 0 to freeze them."
    )

    name: ClassVar[str] = "single-neuron"
    title: ClassVar[str] = "Single linear neuron"
    formula: ClassVar[str] = "q(t) = exp(Gt) q₀ / √(1 + ∫₀ᵗ‖exp(Gs) q₀‖² ds),  q = (√η_w a; √η_a w)"
    valid: ClassVar[str] = "f(x) = a w·x, gradient flow on ½‖Xβ − y‖² (sum over data), whitened inputs XᵀX = I, β* ≠ 0"
    places = (KUN24["Sec. 3"], KUN24["App. A"])
    start_params: ClassVar[dict[str, str]] = {"a": "a0", "w": "w0"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½‖β − β*‖² (KUN24: ½, sum over data)"
    variables = (
        Variable("a", (), "output weight", "state", "a"),
        Variable("w", ("input",), "input weights", "state", "w"),
        Variable("beta", ("input",), "function learned, a w", "function", "β"),
        Variable("loss", (), "½‖β − β*‖²", "loss", "L"),
        Variable("mu", (), "signed size of the function, a‖w‖", symbol="μ"),
        Variable("phi", (), "alignment: cosine between w and β*", symbol="φ", undefined_when="w = 0"),
        Variable(
            "kernel", ("input", "input_2"), "NTK on whitened inputs, η_w a² I + η_a w wᵀ", symbol="M"
        ),
        Variable(
            "kernel_distance", (), "distance of the NTK from its start, 1 − cosine", symbol="S(0, t)",
            undefined_when="the kernel is 0 at the start or at t",
        ),
        Variable(
            "kernel_change", (), "relative change of the NTK, ‖M − M₀‖/‖M₀‖", symbol="‖ΔK‖/‖K₀‖",
            undefined_when="the kernel is 0 at the start",
        ),
        Variable("delta", (), "conserved imbalance η_w a² − η_a‖w‖²", "invariant", "δ"),
    )  # fmt: skip

    def check(self, resolved: Resolved) -> None:
        """β* must not be 0; a start must not be so near the saddle that its squares underflow."""
        target = resolved.values["beta_star"]
        if (np.abs(target).max(axis=-1) < TINY).any():
            raise ParameterError(
                message(
                    "`beta_star` of SingleNeuron", "have a direction (not all 0)", target,
                    "For a target of 0 use WideScalar(u0=…, w0=…, x=…, y=0).",
                )
            )  # fmt: skip

    def prepare(self, p: Layout) -> _Prepared:
        """Decompose the starts along the eigenvectors of G."""
        modes = neuron_modes(p.a0, p.w0, p.beta_star, p.eta_a, p.eta_w)
        near = (np.abs(modes.y_plus) < TINY) & ~modes.separatrix
        if near.any():
            raise ParameterError(
                message(
                    "the start of SingleNeuron", f"be on the separatrix or at least {TINY:g} away from it",
                    float(modes.y_plus[near].flat[0]), "Set the tiny entries to 0 or rescale the problem.",
                )
            )  # fmt: skip
        delta = neuron_delta(p.a0, p.w0, p.eta_a, p.eta_w)
        return _Prepared(modes, p, modes.frozen_a | modes.frozen_w, delta)

    def exact(self, prepared: _Prepared, t: Floats, only: Collection[str]) -> State:
        """The unified closed form; a frozen layer by its own."""
        p = prepared.layout
        out = neuron_path(prepared.modes, t, only)
        if prepared.frozen.any():
            still = frozen_neuron_path(p.a0, p.w0, p.beta_star, p.eta_a, p.eta_w, t, only)
            out = {name: np.where(prepared.frozen, still[name], value) for name, value in out.items()}
        if "delta" in only:
            out["delta"] = prepared.delta
        return out

    def begin(self, p: Layout) -> State:
        """(a₀, w₀)."""
        return {"a": p.a0, "w": p.w0}

    def flow(self, p: Layout, state: State) -> State:
        """Gradient flow, Eqs. 14–15."""
        da, dw = neuron_flow(state["a"], state["w"], p.beta_star, p.eta_a, p.eta_w)
        return {"a": da, "w": dw}

    def rates(self, p: Layout, state: State) -> State:
        """(η_a, η_w)."""
        return {"a": p.eta_a, "w": p.eta_w}

    def aim(self, p: Layout) -> Floats:
        """β*."""
        return p.beta_star

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        a, w = state["a"], state["w"]
        size = np.sqrt((w * w).sum(axis=0))
        beta = a * w
        kernel = neuron_kernel(a, w, p.eta_a, p.eta_w)
        first = neuron_kernel(start["a"], start["w"], p.eta_a, p.eta_w)
        inner = lambda x, y: (x * y).sum(axis=(0, 1))
        cosine = inner(kernel, first) / np.sqrt(inner(kernel, kernel) * inner(first, first))
        target = np.sqrt((p.beta_star**2).sum(axis=0))
        return {
            "beta": beta,
            "loss": ((beta - p.beta_star) ** 2).sum(axis=0) / 2,
            "mu": a * size,
            "phi": (w * p.beta_star).sum(axis=0) / (size * target),
            "kernel": kernel,
            "kernel_distance": 1 - cosine,
            "kernel_change": np.sqrt(inner(kernel - first, kernel - first) / inner(first, first)),
        }

    def invariants(self, p: Layout, state: State) -> State:
        """δ, Eq. 13."""
        return {"delta": neuron_delta(state["a"], state["w"], p.eta_a, p.eta_w)}

    @property
    def delta(self) -> Floats:
        """The conserved δ = η_w a² − η_a‖w‖² of each start, in the batch's shape."""
        p = self.layout
        made = neuron_delta(p.a0, p.w0, p.eta_a, p.eta_w)
        return np.broadcast_to(made[:, 0], (max(1, int(np.prod(self.batch_shape))),)).reshape(self.batch_shape)

    def basin_margin(self) -> Floats:
        """Signed distance-like margin of the basins of attraction (Eq. 33 for any rates).

        Positive: ends with a > 0; negative: with a < 0; 0: on the saddle's surface.
        """
        p = self.layout
        made = basin_margin(p.a0, p.w0, p.beta_star, p.eta_a, p.eta_w)
        return np.broadcast_to(made[:, 0], (max(1, int(np.prod(self.batch_shape))),)).reshape(self.batch_shape)

    def regime(self) -> Regime:
        """Lazy, rich or delayed-rich, from how far and when the kernel moves."""
        p = self.layout
        modes = neuron_modes(p.a0, p.w0, p.beta_star, p.eta_a, p.eta_w)
        slowest = np.minimum(modes.fast, np.minimum(modes.slow, modes.root))
        # Up to 60 e-folds of the slowest rate: nothing changes after that in double precision.
        spans = np.geomspace(1e-4, 1.0, 300)
        fit = FIT_TIME / np.maximum(modes.a0**2 + modes.w0_square, 1e-300)
        times = np.concatenate([60 / slowest * spans, np.minimum(fit * spans, 1e290)], axis=-1)
        prepared = self.prepare(p)
        with np.errstate(all="ignore"):
            needed, starts = ("kernel_change", "kernel_distance"), len(times)
            blocks = [slice(i, i + REGIME_BLOCK) for i in range(0, starts, REGIME_BLOCK)]
            parts = [self.exact(self.prepare(p.rows(part)), times[part], needed) for part in blocks]
            moved = {name: np.concatenate([np.fmax.reduce(q[name], axis=-1) for q in parts]) for name in needed}
            early = self.exact(prepared, np.minimum(fit, 1e290), ("kernel_change",))["kernel_change"]
            end = self.exact(prepared, np.array([np.inf]), ("kernel_change", "kernel_distance", "a"))
            largest = lambda name: np.fmax(moved[name], end[name][:, 0])
            most, turned = largest("kernel_change"), largest("kernel_distance")
            share = np.where(most > 0, early[:, 0] / most, 1.0)
        shape = self.batch_shape
        one = lambda x: scalar_if_single(np.broadcast_to(x.reshape(-1), (most.size,)), shape)
        names = np.where(self.delta > 0, "upstream", np.where(self.delta < 0, "downstream", "balanced"))
        return Regime(
            scalar_if_single(by_movement(most, share), shape),
            {
                "kernel_change": Evidence(one(most), "largest ‖K − K₀‖/‖K₀‖ on the way", LAZY_BELOW),
                "kernel_distance": Evidence(one(turned), "largest S(0, t), 1 − cosine, on the way"),
                "early_share": Evidence(
                    one(share), "share of that change while the start's kernel would fit", DELAYED_BELOW
                ),
                "delta": Evidence(one(np.asarray(self.delta)), "conserved imbalance δ"),
                "geometry": Evidence(names if shape else str(names), "sign of δ"),
                "basin_margin": Evidence(one(self.basin_margin()), "positive: ends with a > 0"),
                "a_end": Evidence(one(end["a"][:, 0]), "output weight at t = ∞"),
            },
            ("The numbers are exact; a label changes only where its number crosses the threshold.",),
        )

    @classmethod
    def from_imbalance(
        cls,
        *,
        beta0: Given,
        delta: Given,
        beta_star: Given,
        eta_a: Given = 1.0,
        eta_w: Given = 1.0,
        batch: tuple[str, ...] | None = None,
    ) -> Self:
        """The start with a given function β₀ and imbalance δ (a₀ > 0), as in KUN24 Figs 3 and 4.

        >>> SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=0.0, beta_star=[0.0, 1.0]).a0.item()
        1.0
        """
        from richter.maths.balance import split_by_imbalance
        from richter.params import numbers

        parts = (beta0, delta, eta_a, eta_w)
        function, imbalance, rate_a, rate_w = (
            numbers(f"`{n}` of from_imbalance", v)
            for n, v in zip(("beta0", "delta", "eta_a", "eta_w"), parts, strict=True)
        )
        if function.ndim == 0:
            raise ParameterError(message("`beta0` of from_imbalance", "have the dimension input", function))
        for name, rate in (("eta_a", rate_a), ("eta_w", rate_w)):
            if not (rate > 0).all():
                raise ParameterError(message(f"`{name}` of from_imbalance", "be > 0", float(rate.min())))
        try:
            front = np.broadcast_shapes(function.shape[:-1], imbalance.shape, rate_a.shape, rate_w.shape)
        except ValueError:
            got = f"{function.shape[:-1]} and {imbalance.shape}"
            raise ParameterError(
                message("the batch dimensions of `beta0` and `delta`", "broadcast against each other", got)
            ) from None
        spread = np.broadcast_to(function, (*front, function.shape[-1]))
        a0, w0 = split_by_imbalance(np.moveaxis(spread, -1, 0), imbalance, rate_a, rate_w)
        return cls(a0=a0, w0=np.moveaxis(w0, 0, -1), beta_star=beta_star, eta_a=rate_a, eta_w=rate_w, batch=batch)

    @classmethod
    def random(
        cls,
        *,
        beta_star: Given,
        sigma_a: float = 1.0,
        sigma_w: float = 1.0,
        draws: int = 1000,
        rng: np.random.Generator | int = 0,
        eta_a: Given = 1.0,
        eta_w: Given = 1.0,
    ) -> Self:
        """Gaussian starts: a₀ with standard deviation `sigma_a`, each w₀ᵢ with `sigma_w`.

        >>> SingleNeuron.random(beta_star=[1.0, 0.0], draws=5).batch_shape
        (5,)
        """
        size = np.shape(beta_star)[-1:] or (1,)
        a0, w0 = draw(rng, draws, (sigma_a, ()), (sigma_w, size))
        return cls(a0=a0, w0=w0, beta_star=beta_star, eta_a=eta_a, eta_w=eta_w)
