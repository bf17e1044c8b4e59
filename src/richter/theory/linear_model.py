"""A model of fixed features trained by gradient flow: lazy by construction, the reference of all others."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, Self

import numpy as np

from richter.errors import ParameterError, message
from richter.maths.linear import feature_modes, linear_modes
from richter.params import Given, numbers, param
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, Evidence, Regime, by_movement, scalar_if_single
from richter.schema import Variable
from richter.theory.base import AbstractTheory
from richter.theory.layout import Floats, Layout, State
from richter.theory.starts import draw


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LinearModel(AbstractTheory):
    r"""Fixed features: every mode relaxes alone, $c_k(t)=c_k^*(1-e^{-\eta\rho_kt})$.

    Loss $\tfrac12\mathbf E(f-f^*)^2=\tfrac12\sum_k(c_k-c^*_k)^2$ in the orthonormal eigenfunctions $e_k$.

    >>> LinearModel(eigenvalues=[1.0, 0.1], coefficients=[1.0, 1.0]).solve([1.0]).output.values.round(3).tolist()
    [[0.632, 0.095]]
    """

    eigenvalues: Given = param("eigenvalues of the kernel operator", symbol="ρ", dims=("mode",), low=0)
    coefficients: Given = param("the target's coefficients ⟨e_k|f*⟩", symbol="c*", dims=("mode",))
    eta: Given = param("learning rate", symbol="η", default=1.0, low=0, advice="Use 0 to freeze the model.")
    initial_output: Given = param("the start's coefficients", symbol="c(0)", dims=("mode",), default=0.0)

    name: ClassVar[str] = "linear-model"
    title: ClassVar[str] = "Linear model"
    formula: ClassVar[str] = "⟨e_k|f⟩(t) = c*_k (1 − exp(−ηρ_k t)) + c_k(0) exp(−ηρ_k t)"
    valid: ClassVar[str] = "fixed features, gradient flow on ½E(f − f*)²"
    places = (NAM24["Sec. 1.5"], NAM24["Eq. 1.26"])
    start_params: ClassVar[dict[str, str]] = {"output": "initial_output"}
    loss_factor: ClassVar[float] = 1.0
    loss_says: ClassVar[str] = "½Σ(c − c*)² (NAM24: ½, mean over data)"
    variables = (
        Variable("output", ("mode",), "coefficient of each eigenfunction", "function", "c"),
        Variable("loss", (), "½Σ(c − c*)²", "loss", "L"),
        Variable(
            "alignment", (), "cosine between function and target", symbol="ζ",
            undefined_when="the function or the target is 0",
        ),
        Variable("kernel", ("mode",), "eigenvalue of the NTK, ηρ", symbol="K"),
        Variable(
            "kernel_distance", (), "distance of the NTK from its start: 0", symbol="S(0, t)",
            undefined_when="the kernel is 0",
        ),
        Variable(
            "kernel_change", (), "relative change of the NTK: 0", symbol="‖ΔK‖/‖K₀‖", undefined_when="the kernel is 0"
        ),
    )  # fmt: skip

    def prepare(self, p: Layout) -> Layout:
        """Nothing to prepare."""
        return p

    def exact(self, prepared: Layout, t: Floats, only: Collection[str]) -> State:
        """Eq. 1.26."""
        p = prepared
        output, residual = linear_modes(t, p.eigenvalues, p.coefficients, p.eta, p.initial_output)
        out = {"output": output, "loss": (residual**2).sum(axis=0) / 2, **_read(p, output)}
        return {name: out[name] for name in only}

    def begin(self, p: Layout) -> State:
        """c(0)."""
        return {"output": p.initial_output}

    def flow(self, p: Layout, state: State) -> State:
        """Eq. 1.25."""
        return {"output": -p.eta * p.eigenvalues * (state["output"] - p.coefficients)}

    def rates(self, p: Layout, state: State) -> State:
        """ηρ: the weights' rate η times the squared size of each feature."""
        return {"output": p.eta * p.eigenvalues}

    def aim(self, p: Layout) -> Floats:
        """c*."""
        return p.coefficients

    def observables(self, p: Layout, state: State, start: State) -> State:
        """Every observable by its definition."""
        output = state["output"]
        return {"loss": ((output - p.coefficients) ** 2).sum(axis=0) / 2, **_read(p, output)}

    def invariants(self, p: Layout, state: State) -> State:
        """None."""
        return {}

    def regime(self) -> Regime:
        """Lazy by construction: the kernel is fixed."""
        p = self.layout
        moving = (p.eta * p.eigenvalues).max(axis=0)[:, 0] > 0
        change = np.broadcast_to(np.where(moving, 0.0, np.nan), (max(1, math.prod(self.batch_shape)),))
        return Regime(
            scalar_if_single(by_movement(change), self.batch_shape),
            {
                "kernel_change": Evidence(
                    scalar_if_single(change, self.batch_shape), "largest ‖K − K₀‖/‖K₀‖ on the way", LAZY_BELOW
                )
            },
            ("The features are fixed: nothing else can happen.",),
        )

    @classmethod
    def from_features(cls, *, features: Given, targets: Given, eta: Given = 1.0) -> Self:
        """The model of a data set: features Φ (feature, example), targets (example,), mean loss, w = 0.

        The part of the targets outside the span of the features stays in the loss and is not part of this
        theory; the weights themselves are `richter.maths.linear.flow_weights`.
        """
        Phi, Y = numbers("`features`", features), numbers("`targets`", targets)
        if Phi.ndim != 2 or Y.shape != Phi.shape[1:]:
            got = f"{Phi.shape} and {Y.shape}"
            raise ParameterError(message("`features` and `targets`", "be (feature, example) and (example,)", got))
        eigenvalues, coefficients = feature_modes(Phi, Y)
        return cls(eigenvalues=eigenvalues, coefficients=coefficients, eta=eta)

    @classmethod
    def random(
        cls,
        *,
        eigenvalues: Given,
        sigma: float = 1.0,
        draws: int = 1000,
        rng: np.random.Generator | int = 0,
        **others: Given,
    ) -> Self:
        """Gaussian targets: coefficients of standard deviation `sigma`.

        >>> LinearModel.random(eigenvalues=[1.0, 0.5], draws=4).batch_shape
        (4,)
        """
        (coefficients,) = draw(rng, draws, (sigma, np.shape(eigenvalues)[-1:] or (1,)))
        return cls.of(eigenvalues=eigenvalues, coefficients=coefficients, **others)


def _read(p: Layout, output: Floats) -> State:
    inner = lambda x, y: (x * y).sum(axis=0)
    kernel = p.eta * p.eigenvalues + 0 * output
    length = np.sqrt(inner(output, output)) * np.sqrt(inner(p.coefficients, p.coefficients))
    still = np.where((kernel > 0).any(axis=0), 0.0, np.nan)
    return {
        "alignment": inner(output, p.coefficients) / length,
        "kernel": kernel,
        "kernel_distance": still,
        "kernel_change": still,
    }
