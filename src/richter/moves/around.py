r"""Moves around the network: output and input scale as a wrapper, target scale on the data.

A network $\gamma f(x)$ on targets y learns, under a squared loss, like f on targets y/γ with the rate × γ²: the
output scale is a lazy-rich knob (XU24 §4, KUN24 §1, NAM24 §6.3) once the learning rate is divided by it twice.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from richter.errors import ParameterError, message
from richter.moves.base import AbstractMove, Record
from richter.moves.change import largest_change, output, probe_inputs


class Scaled(nn.Module):
    """γ f(κ x): a network between two fixed factors, which are saved with it as buffers."""

    def __init__(self, inner: nn.Module, output: float = 1.0, input: float = 1.0) -> None:
        """Wrap a network."""
        super().__init__()
        self.inner = inner
        own = next((p for p in inner.parameters() if p.is_floating_point()), torch.zeros(()))
        self.register_buffer("output_scale", torch.tensor(output, dtype=own.dtype, device=own.device))
        self.register_buffer("input_scale", torch.tensor(input, dtype=own.dtype, device=own.device))

    def forward(self, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        """The scaled output; of a mapping or a tuple, the scores are scaled."""
        given = x * self.get_buffer("input_scale") if x.is_floating_point() else x
        return _times(self.inner(given, *args, **kwargs), self.get_buffer("output_scale"))


@dataclass(frozen=True, kw_only=True)
class Unwrap(AbstractMove):
    """Take a wrapper off again; the network inside goes on with what it has learned."""

    name: ClassVar[str] = "unwrap"
    says: ClassVar[str] = "takes a wrapper off"
    keeps: ClassVar[str] = "the parameters"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """The network inside."""
        inner = getattr(model, "inner", None)
        if not isinstance(inner, nn.Module):
            raise ParameterError(message("the model", "be one that a move has wrapped", type(model).__name__))
        return Record(self, inner, self.keeps, False)


@dataclass(frozen=True, kw_only=True)
class OutputScale(AbstractMove):
    r"""f → τ f with the learning rate ÷ τ²: large τ is lazy, small τ is rich, at the same speed.

    The parameters and their ratios stay. For a squared loss the first step moves the output by as much as before,
    since the kernel is multiplied by τ² and the rate divided by it; parameters move by 1/τ of what they did.
    """

    tau: float

    name: ClassVar[str] = "output-scale"
    says: ClassVar[str] = "output × τ, learning rate ÷ τ²: large τ is lazy, small τ is rich, at the same speed"
    keeps: ClassVar[str] = "the parameters, and the kernel × learning rate; the output is multiplied by τ"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tau) and self.tau > 0):
            raise ParameterError(message("`tau`", "be finite and > 0", self.tau, "Use tau=0.1 to go richer."))

    @property
    def inverse(self) -> OutputScale:
        """The same with 1/τ."""
        return OutputScale(tau=1 / self.tau)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Wrap; the record's `rate` is 1/τ²."""
        notes = (
            "Start from zero output (ZeroOutput) if τ is large, or the start's output is multiplied too.",
            "Adam's steps do not depend on the gradient's size: there the rate is divided by τ once.",
        )
        return _wrapped(self, model, batch, output=self.tau, rate=self.tau**-2, notes=notes)


@dataclass(frozen=True, kw_only=True)
class InputScale(AbstractMove):
    """f(κ x): smaller inputs are richer (NAM24 Table 6.1); the first layer's rate ÷ κ² keeps its speed."""

    kappa: float

    name: ClassVar[str] = "input-scale"
    says: ClassVar[str] = "inputs × κ: smaller is richer, less grokking delay (NAM24 Table 6.1)"
    keeps: ClassVar[str] = "the parameters; in a homogeneous network without biases the output is multiplied by κ"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.kappa) and self.kappa > 0):
            raise ParameterError(message("`kappa`", "be finite and > 0", self.kappa, "Use kappa=0.1 to go richer."))

    @property
    def inverse(self) -> InputScale:
        """The same with 1/κ."""
        return InputScale(kappa=1 / self.kappa)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Wrap."""
        return _wrapped(self, model, batch, input=self.kappa)


@dataclass(frozen=True, kw_only=True)
class TargetScale(AbstractMove):
    """Train on c·y instead of y and divide what comes out by c: large targets are rich, small ones lazy.

    The same as the output scale 1/c with the learning rate × c² for a squared loss (NAM24 §6.3). `record.targets` is
    the factor: train on `record.targets * y`, and divide what the network gives by it.
    """

    factor: float

    name: ClassVar[str] = "target-scale"
    says: ClassVar[str] = "targets × c: large targets are rich, small ones lazy (NAM24 Sec. 6.3)"
    keeps: ClassVar[str] = "the network; what it gives is divided by c in the old units"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor > 0):
            raise ParameterError(message("`factor`", "be finite and > 0", self.factor, "Use factor=10 to go richer."))

    @property
    def inverse(self) -> TargetScale:
        """The same with 1/c."""
        return TargetScale(factor=1 / self.factor)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Leave the network and say what the targets are multiplied by."""
        note = "Train on targets × `targets` and divide predictions by it; for regression only."
        return Record(
            self, model, "the network, exactly", True, 0.0, notes=(note,), targets=self.factor, back=self.inverse
        )


def _wrapped(
    move: AbstractMove,
    model: nn.Module,
    batch: Any,
    output: float = 1.0,
    input: float = 1.0,
    rate: float = 1.0,
    notes: tuple[str, ...] = (),
) -> Record:
    wrapped = Scaled(model, output, input)
    wrapped.train(model.training)
    measured = change_between(model, wrapped, batch)
    return Record(move, wrapped, move.keeps, False, measured, rate=rate, notes=notes, back=Unwrap())


def change_between(before: nn.Module, after: nn.Module, batch: Any) -> float:
    """The relative change of the function from one network to another; NaN if no inputs can be made up."""
    try:
        x = probe_inputs(before, batch)
    except ParameterError:
        if batch is not None:
            raise
        return math.nan
    return largest_change(output(before, x), output(after, x))


def _times(value: Any, scale: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value * scale
    if isinstance(value, Mapping):
        made = dict(value)
        key = "logits" if "logits" in made else next(k for k, v in made.items() if isinstance(v, Tensor))
        return {**made, key: made[key] * scale}
    if isinstance(value, (tuple, list)) and value and isinstance(value[0], Tensor):
        return (value[0] * scale, *value[1:])
    raise ParameterError(message("the output of the model", "be a tensor, or hold one", type(value).__name__))


def scale_output(model: nn.Module, tau: float, batch: Any = None) -> Record:
    """Output × τ, rate ÷ τ²: `OutputScale(tau=tau).apply(model, batch)`.

    >>> made = scale_output(nn.Linear(2, 1), 0.5)
    >>> made.rate, made.change
    (4.0, 0.5)
    """
    return OutputScale(tau=tau).apply(model, batch)


def scale_input(model: nn.Module, kappa: float, batch: Any = None) -> Record:
    """Inputs × κ: `InputScale(kappa=kappa).apply(model, batch)`."""
    return InputScale(kappa=kappa).apply(model, batch)


def scale_targets(model: nn.Module, factor: float) -> Record:
    """Targets × c: `TargetScale(factor=factor).apply(model)`."""
    return TargetScale(factor=factor).apply(model)
