"""The symmetries of each theory: a change of the problem and what it does to the solution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from richter.theory.aligned_network import AlignedNetwork
from richter.theory.base import AbstractTheory
from richter.theory.diagonal_network import DiagonalNetwork
from richter.theory.scalar_network import ScalarNetwork
from richter.theory.single_neuron import SingleNeuron
from richter.theory.wide_scalar import WideScalar

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Symmetry:
    """The changed problem; how each variable of the plain solution must look in it, and on which clock."""

    name: str
    theory: AbstractTheory
    acts: dict[str, Callable[[Floats], Floats]] = field(default_factory=dict)
    renames: dict[str, str] = field(default_factory=dict)
    clock: float = 1.0

    def act(self, name: str, value: Floats) -> Floats:
        """The plain variable as it must look in the changed problem."""
        return self.acts[name](value) if name in self.acts else value

    def source(self, name: str) -> str:
        """The changed problem's variable that corresponds to `name`."""
        return self.renames.get(name, name)


def symmetries_of(theory: AbstractTheory, seed: int = 0) -> list[Symmetry]:
    """All declared symmetries of a theory."""
    rates = {name: 2.5 * value for name, value in theory.params.items() if name.startswith("eta")}
    if isinstance(theory, AlignedNetwork):  # δ is measured in units of the rates
        rates["delta"] = 2.5 * theory.params["delta"]
    made = [Symmetry("a faster clock", theory.with_(**rates), clock=1 / 2.5)]
    rng = np.random.default_rng(seed)
    flip = lambda x: -x
    if isinstance(theory, SingleNeuron):
        turn = _rotation(theory.sizes["input"], rng)
        rotate = lambda x: x @ turn.T
        made.append(Symmetry(
            "rotation of the inputs",
            theory.with_(w0=rotate(theory.w0), beta_star=rotate(theory.beta_star)),
            {"w": rotate, "beta": rotate},
        ))  # fmt: skip
        made.append(
            Symmetry(
                "sign of both layers", theory.with_(a0=-theory.a0, w0=-theory.w0), {"a": flip, "w": flip, "phi": flip}
            )
        )
        made.append(Symmetry(
            "sign of a and the target",
            theory.with_(a0=-theory.a0, beta_star=-theory.beta_star),
            {"a": flip, "beta": flip, "phi": flip},
        ))  # fmt: skip
        scale = 3.0  # (a, w) → s(a, w), β* → s²β*, t → t/s²
        made.append(Symmetry(
            "scale",
            theory.with_(a0=scale * theory.a0, w0=scale * theory.w0, beta_star=scale**2 * theory.beta_star),
            {"a": lambda x: scale * x, "w": lambda x: scale * x, "beta": lambda x: scale**2 * x,
             "loss": lambda x: scale**4 * x},
            clock=scale**-2,
        ))  # fmt: skip
    if isinstance(theory, WideScalar):
        turn = _rotation(theory.sizes["input"], rng)
        mix = _rotation(theory.sizes["neuron"], rng)
        made.append(Symmetry(
            "rotation of the inputs", theory.with_(x=theory.x @ turn.T, w0=theory.w0 @ turn.T),
            {"w": lambda w: w @ turn.T},
        ))  # fmt: skip
        made.append(Symmetry(
            "rotation of the neurons", theory.with_(u0=theory.u0 @ mix.T, w0=mix @ theory.w0),
            {"u": lambda u: u @ mix.T, "w": lambda w: mix @ w},
        ))  # fmt: skip
        made.append(Symmetry(
            "sign of u and the target", theory.with_(u0=-theory.u0, y=-theory.y),
            {"u": flip, "output": flip, "alignment": flip},
        ))  # fmt: skip
    if isinstance(theory, (ScalarNetwork, DiagonalNetwork)):
        swapped = theory.with_(a0=theory.b0, b0=theory.a0, eta_a=theory.eta_b, eta_b=theory.eta_a)
        made.append(Symmetry("swap of the layers", swapped, renames={"a": "b", "b": "a"}))
        made.append(Symmetry(
            "sign of a and the target", theory.with_(a0=-theory.a0, target=-theory.target),
            {"a": flip, "output": flip, **({"alignment": flip} if isinstance(theory, ScalarNetwork) else {})},
        ))  # fmt: skip
    return made


def _rotation(size: int, rng: np.random.Generator) -> Floats:
    turn: Floats = np.linalg.qr(rng.normal(size=(size, size)))[0]
    return turn
