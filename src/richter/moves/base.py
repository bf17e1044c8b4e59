"""A move changes how a network will learn; its record says what it did, what it kept, and how to undo it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.moves.change import probe_inputs, relative_change

Floats = NDArray[np.float64]
Factor = float | Floats
ROUNDED = 0.1  # change that is still rounding where the weights are of 16 bits


@dataclass(frozen=True, eq=False)
class Record:
    """What a move did to one model.

    `model`: the network to go on with, the same object unless the move wraps it. `factors`: what every changed
    parameter or buffer was multiplied by, numbers or arrays that broadcast to it. `preserves`: a sentence.
    `exact`: whether the function is kept up to rounding. `change`: its measured relative change on the batch, NaN
    if it was not measured. `rate`: what the learning rate has to be multiplied by to keep the speed. `rates`: factors
    on the rates of single layers. `targets`: what the targets have to be multiplied by.
    """

    move: AbstractMove
    model: nn.Module
    preserves: str
    exact: bool
    change: float = float("nan")
    factors: Mapping[str, Factor] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    rate: float = 1.0
    rates: Mapping[str, float] = field(default_factory=dict)
    targets: float = 1.0
    back: AbstractMove | None = None

    @property
    def inverse(self) -> AbstractMove:
        """The move that undoes this one: `record.inverse.apply(record.model).model` is the network as it was."""
        if self.back is None:
            do = f"Use `with {type(self.move).__name__}(…).applied(model):`, which puts the old state back."
            raise OutsideTheoryError(message(f"the move {self.move.name}", "have an inverse", "none", do))
        return self.back

    def plain(self) -> dict[str, object]:
        """The record as plain data, for JSON."""
        listed = {name: x if isinstance(x, float) else np.asarray(x).tolist() for name, x in self.factors.items()}
        return {
            "move": self.move.name, "with": self.move.plain(), "preserves": self.preserves, "exact": self.exact,
            "change": None if np.isnan(self.change) else self.change, "factors": listed, "rate": self.rate,
            "rates": dict(self.rates), "targets": self.targets, "notes": list(self.notes),
        }  # fmt: skip

    def __str__(self) -> str:
        measured = "" if np.isnan(self.change) else f" (measured on the batch: {self.change:.2g} relative)"
        lines = [f"{self.move.name}: keeps {self.preserves}{measured}"]
        spread = lambda x: f"{x:.6g}" if isinstance(x, float) else f"{np.min(x):.4g} … {np.max(x):.4g}"
        lines += [f"  {name} × {spread(x)}" for name, x in self.factors.items()]
        lines += [f"  learning rate × {self.rate:.6g}"] if self.rate != 1 else []
        lines += [f"  learning rate of {name} × {x:.6g}" for name, x in self.rates.items()]
        lines += [f"  targets × {self.targets:.6g}"] if self.targets != 1 else []
        return "\n".join([*lines, *(f"  {note}" for note in self.notes)])


@dataclass(frozen=True, kw_only=True)
class AbstractMove(ABC):
    """One change, ready to be applied to any model."""

    name: ClassVar[str]
    says: ClassVar[str]  # what it is for
    keeps: ClassVar[str]  # what it preserves, in a sentence

    @abstractmethod
    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Change the model, in place unless the record's `model` is another one, and say what was done.

        Args:
            model: a torch model.
            batch: inputs to see the order of the layers and to measure the function's change. Without it random
                inputs of the shape that the first layer tells are tried.
        """

    @contextmanager
    def applied(self, model: nn.Module, batch: Any = None) -> Iterator[Record]:
        """The move while inside; on the way out every parameter, buffer and flag is as it was, bit by bit."""
        values = [(t, t.detach().clone()) for t in (*model.parameters(), *model.buffers())]
        flags = [(p, p.requires_grad) for p in model.parameters()]
        try:
            yield self.apply(model, batch)
        finally:
            with torch.no_grad():
                for t, before in values:
                    t.copy_(before)
            for p, learned in flags:
                p.requires_grad_(learned)

    def plain(self) -> dict[str, object]:
        """The move's settings as plain data."""
        return {f.name: _plain(getattr(self, f.name)) for f in fields(self)}


@dataclass(frozen=True, kw_only=True)
class Multiply(AbstractMove):
    """Multiply parameters and buffers by what is given, nothing else: the inverse of every rescaling."""

    factors: Mapping[str, Factor]

    name: ClassVar[str] = "multiply"
    says: ClassVar[str] = "multiplies parameters by given factors"
    keeps: ClassVar[str] = "what the factors keep"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Multiply; the function's change is measured only if a batch is given."""
        measured = float("nan")
        if batch is not None:
            x = probe_inputs(model, batch)
            measured = relative_change(model, x, lambda: multiply(model, self.factors))
        else:
            multiply(model, self.factors)
        back = Multiply(factors=reciprocal(self.factors))
        return Record(self, model, self.keeps, False, measured, dict(self.factors), back=back)


def multiply(model: nn.Module, factors: Mapping[str, Factor]) -> None:
    """Multiply named parameters and buffers in place, in float64 where the factor is an array."""
    known = {**dict(model.named_parameters(remove_duplicate=False)), **dict(model.named_buffers())}
    missing = [name for name in factors if name not in known]
    if missing:
        raise ParameterError(message(f"`{missing[0]}`", "be a parameter or buffer of the model", "another model's"))
    with torch.no_grad():
        for name, factor in factors.items():
            known[name].copy_(times(known[name], factor))


def times(tensor: Tensor, factor: Factor) -> Tensor:
    """A tensor times a factor, rounded once."""
    if isinstance(factor, float):
        return tensor * factor
    return (tensor.double() * torch.as_tensor(factor, dtype=torch.float64, device=tensor.device)).to(tensor.dtype)


def reciprocal(factors: Mapping[str, Factor]) -> dict[str, Factor]:
    """1 over every factor."""
    return {name: 1 / x for name, x in factors.items()}


def checked(model: nn.Module, batch: Any, change: Callable[[], None], undo: Callable[[], None], promise: str) -> float:
    """Make a change that promises to keep the function, measure, and take it back if the promise is broken."""
    x = probe_inputs(model, batch)
    measured = relative_change(model, x, change)
    own = next((p for p in model.parameters() if p.is_floating_point()), None)
    allowed = min(1e4 * float(torch.finfo(torch.float32 if own is None else own.dtype).eps), ROUNDED)
    if not measured <= allowed:
        undo()
        got = f"a change of {measured:.2g} of the largest output"
        do = "The model computes something that a pass does not show; use approximate=True to apply it anyway."
        raise OutsideTheoryError(message(f"the function under {promise}", "stay as it is", got, do))
    return measured


def _plain(value: object) -> object:
    if isinstance(value, Mapping):
        return {str(key): _plain(x) for key, x in value.items()}
    if isinstance(value, np.ndarray):
        return value.tolist()
    return list(value) if isinstance(value, tuple) else value
