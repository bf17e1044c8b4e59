"""How far a network's kernel moves along a run, and how sure that is for other draws of the probe points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.fit_time import fit_rate
from richter.maths.resampling import Draws, movement
from richter.probes.activations import one_pass, shared
from richter.probes.ntk import kernel_values
from richter.probes.observe import first_tensor, flat, numbers, undisturbed
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.regime import FAST_SHARE, RESAMPLES
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float64]
Kind = Literal["full", "trace"]
# d(output)/dt = −factor · kernel · residual, summed over the n examples of training.
FACTORS = {
    "mse": lambda n: 1 / n,
    "half-sum": lambda n: 1.0,
    "square": lambda n: 2 / n,
    "cross-entropy": lambda n: 1 / n,
}


def _variables(kind: Kind) -> tuple[Variable, ...]:
    says = {"full": "full kernel", "trace": "kernel summed over outputs"}[kind]
    change = f"relative change ‖K − K₀‖/‖K₀‖ of the {says}"
    turned = f"distance 1 − cosine of the {says} from its start"
    undefined = "the kernel is 0"
    return (
        Variable(f"kernel_change_{kind}", (), change, symbol="‖ΔK‖/‖K₀‖", undefined_when=undefined),
        Variable(f"kernel_distance_{kind}", (), turned, symbol="S", undefined_when=undefined),
        Variable(f"kernel_change_{kind}_resampled", ("draw",), f"{change}, for draws of the probe points"),
        Variable(f"kernel_distance_{kind}_resampled", ("draw",), f"{turned}, for draws of the probe points"),
    )


@dataclass(frozen=True)
class _KernelMovement(AbstractProbe):
    """The kernel's relative change and distance, and the same for bootstrap draws of the examples."""

    rates: Mapping[str, float] | None = None
    draws: int = RESAMPLES
    loss: str | None = None  # of the training; by default what the targets say
    examples: int | None = None  # how many the training loss runs over; by default the probe's
    seed: int = 0
    points: int | None = None  # how many of the batch's examples are used at most, the first ones
    largest: int | None = None  # outputs of all of them together

    kind: ClassVar[Kind]

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Parameters, and outputs that are not too many."""
        if next(model.parameters(), None) is None:
            return "parameters"
        if self.largest is None:
            return ""
        x, _ = self._part(batch)
        size = one_pass(model, x[:1]).outputs.numel() * len(x)
        return f"at most {self.largest} outputs on its examples (they have {size})" if size > self.largest else ""

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """The kernel, and the rate at which it would fit the task."""
        K, batch = self._kernel(model, batch), self._part(batch)
        notes: dict[str, str] = {"kind": self.kind, "examples": str(len(batch[0]))}
        rate = start_rate(model, batch, K, self.loss, self.examples)
        if np.isfinite(rate):
            notes["fit_rate"] = repr(rate)
        return Snapshot({"kernel": K}, notes)

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """Change and distance now."""
        K = self._kernel(model, batch)
        change, turned = movement(K, origin.arrays["kernel"], Draws.make(len(K), self.draws, self.seed))
        made: dict[str, Reading] = {
            f"kernel_change_{self.kind}": float(change[0]),
            f"kernel_distance_{self.kind}": float(turned[0]),
        }
        if self.draws:
            made |= {
                f"kernel_change_{self.kind}_resampled": change[1:],
                f"kernel_distance_{self.kind}_resampled": turned[1:],
            }
        return made

    def _part(self, batch: Any) -> tuple[Any, Any]:
        x, y = batch
        return x[: self.points], None if y is None else y[: self.points]

    def _kernel(self, model: nn.Module, batch: Any) -> Floats:
        """The kernel of its part of the batch; at the first look it is the start's."""
        x, _ = self._part(batch)
        make = lambda: kernel_values(model, x, outputs=self.kind, rates=self.rates)[0]
        return shared((id(self), id(model), id(batch[0])), (self, model, batch), make)


@dataclass(frozen=True)
class FullKernelMovement(_KernelMovement):
    """Movement of the full kernel, which is what the regimes' thresholds are about."""

    kind: ClassVar[Kind] = "full"
    name: ClassVar[str] = "kernel_movement_full"
    variables: ClassVar[tuple[Variable, ...]] = _variables("full")


@dataclass(frozen=True)
class TraceKernelMovement(_KernelMovement):
    """Movement of the kernel summed over outputs: cheaper, and blind to what changes between outputs."""

    kind: ClassVar[Kind] = "trace"
    name: ClassVar[str] = "kernel_movement_trace"
    variables: ClassVar[tuple[Variable, ...]] = _variables("trace")


def start_rate(model: nn.Module, batch: Any, K: Floats, loss: str | None, examples: int | None) -> float:
    """The rate, per unit of t = step × rate, at which the start's kernel would fit; NaN if the loss is not known.

    Under cross-entropy the kernel is weighed by the mean curvature of the softmax at the start.
    """
    x, y = batch
    if y is None:
        return float("nan")
    name = loss or ("mse" if y.is_floating_point() else "cross-entropy")
    if name not in FACTORS:
        return float("nan")
    with undisturbed(model):
        f = flat(numbers(first_tensor(model(x), "the model"), "the model's output"))
    n, outputs = f.shape
    target = y.detach().cpu().numpy()
    if target.dtype.kind in "iu":
        if target.shape != (n,) or target.max() >= outputs:
            return float("nan")
        target = np.eye(outputs)[target]
    target = np.asarray(target, dtype=np.float64).reshape(n, -1)
    if target.shape != f.shape:
        raise ParameterError(message("the targets", f"have shape {f.shape}", f"{target.shape}"))
    curvature = 1.0
    if name == "cross-entropy":
        p = np.exp(f - f.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        residual = target - p
        curvature = float((p * (1 - p)).sum(axis=1).mean()) / max(outputs - 1, 1)
    else:
        residual = target - f
    # A probe of N points stands for n of training: its kernel's modes are N/n times as fast.
    weight = FACTORS[name](examples or n) * (examples or n) / n * curvature
    return fit_rate(weight * K / (outputs if K.ndim == 2 else 1), residual, FAST_SHARE)
