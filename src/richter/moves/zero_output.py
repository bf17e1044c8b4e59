r"""Starts whose output is 0 everywhere, by a second copy of the network."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from richter.errors import OutsideTheoryError, ParameterError, message
from richter.moves.around import Unwrap, change_between
from richter.moves.base import AbstractMove, Record
from richter.moves.change import probe_inputs, relative_change
from richter.probes.pairs import structure


class Difference(nn.Module):
    r"""$s\,(f_\theta(x)-f_{\theta'}(x))$ of a network and a copy of it, which learns too or stays as it was."""

    def __init__(self, inner: nn.Module, learns: bool) -> None:
        """Wrap a network; the copy starts where the network is."""
        super().__init__()
        self.inner, self.learns = inner, learns
        self.copy = copy.deepcopy(inner)
        self.scale = math.sqrt(0.5) if learns else 1.0
        if not learns:
            self.copy.requires_grad_(False)

    def forward(self, *args: Any, **kwargs: Any) -> Tensor:
        """The difference, 0 at the start."""
        first: Tensor = self.inner(*args, **kwargs)
        return self.scale * (first - self.copy(*args, **kwargs))


@dataclass(frozen=True, kw_only=True)
class ZeroOutput(AbstractMove):
    r"""A start with output 0.

    `how="copies"`: $(f_\theta-f_{\theta'})/\sqrt2$, both copies learn; twice the parameters. `how="frozen"`:
    $f_\theta-f_{\theta_0}$, the start is subtracted. Both keep the kernel $K_0$ exactly. `how="mirror"`: in the last
    hidden layer the second half of the neurons repeats the first, with opposite outgoing weights, as the student of
    KUN24 App. D.1; in place, same size, another kernel of the same kind.
    """

    how: Literal["copies", "frozen", "mirror"] = "copies"

    name: ClassVar[str] = "zero-output"
    says: ClassVar[str] = "a start whose output is 0: the kernel phase needs it, and large output scales do"
    keeps: ClassVar[str] = "the kernel at the start, exactly; the output becomes 0"

    def __post_init__(self) -> None:
        if self.how not in ("copies", "frozen", "mirror"):
            raise ParameterError(message("`how`", "be copies, frozen or mirror", self.how))

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Wrap, or mirror in place."""
        if self.how == "mirror":
            return self._mirror(model, batch)
        if any(isinstance(m, nn.modules.dropout._DropoutNd) and m.p > 0 for m in model.modules()):
            do = "Set p = 0 first; the two copies would draw apart."
            raise OutsideTheoryError(message("a network with a copy", "be without dropout", "dropout", do))
        wrapped = Difference(model, learns=self.how == "copies")
        wrapped.train(model.training)
        measured = change_between(model, wrapped, batch)
        return Record(self, wrapped, self.keeps, False, measured, back=Unwrap())

    def _mirror(self, model: nn.Module, batch: Any) -> Record:
        x = probe_inputs(model, batch)
        found = structure(model, x)
        last = [p for p in found.pairs if found.record.ends == (p.second.name,)]
        if len(last) != 1 or not (last[0].first.parameter and last[0].second.parameter):
            do = 'Use how="copies".'
            raise OutsideTheoryError(message("the last two layers", "be a pair of plain weights", "none", do))
        pair, known = last[0], dict(model.named_parameters())
        hidden = pair.matched(pair.first.value, pair.second.value)[0].shape[0]
        if hidden % 2 or pair.second.groups > 1 or "transposed" in (pair.first.turned, pair.second.turned):
            must = "have an even number of neurons and plain weights"
            raise OutsideTheoryError(message(f"`{pair.first.name}`", must, hidden, 'Use how="copies".'))
        rows, columns = known[pair.first.parameter], known[pair.second.parameter]
        tensors = [rows, *([known[pair.first.bias]] if pair.first.bias else [])]

        def change() -> None:
            with torch.no_grad():
                for t in tensors:
                    half = t.shape[0] // 2
                    t[half:] = t[:half].clone()
                half = columns.shape[1] // 2
                columns[:, half:] = -columns[:, :half].clone()
                if pair.second.bias:
                    known[pair.second.bias].zero_()

        measured = relative_change(model, x, change)
        kept = "the width and the neurons' distribution; the output becomes 0"
        return Record(self, model, kept, False, measured, notes=(f"mirrored: `{pair.first.name}`",))


def zero_output(model: nn.Module, how: Literal["copies", "frozen", "mirror"] = "copies", batch: Any = None) -> Record:
    """A start with output 0: `ZeroOutput(how=how).apply(model, batch)`.

    >>> made = zero_output(nn.Sequential(nn.Linear(2, 4), nn.Tanh(), nn.Linear(4, 1)))
    >>> made.model(torch.ones(3, 2)).tolist()
    [[0.0], [0.0], [0.0]]
    """
    return ZeroOutput(how=how).apply(model, batch)
