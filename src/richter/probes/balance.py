"""What gradient flow conserves between two layers, along a run; and what finite steps add to it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.probes.conserved import Conserved, conserved
from richter.probes.pairs import Names, Pair, pair_name, reasons
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Balance(AbstractProbe):
    """`conserved` along a run: δ of every hidden neuron, its drift per pair of layers, the layers' norms."""

    rates: Mapping[str, float] | float = 1.0
    name: ClassVar[str] = "conserved"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("delta", ("neuron",), "what gradient flow conserves of each neuron", "invariant", "δ"),
        Variable("conserved_drift", ("pair",), "largest |δ − δ₀| of a pair's neurons", "observable", "|Δδ|"),
        Variable("conserved_drift_relative", ("pair",), "the same over the pair's largest Σ|terms of δ| at the start",
                 undefined_when="both layers are 0 at the start"),
        Variable("layer_norm", ("layer",), "Frobenius norm of a weight layer"),
    )  # fmt: skip

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """A pair that conserves something."""
        found = conserved(model, self.rates, batch)
        if found.delta:
            return ""
        return "two layers between which something is conserved " + reasons(found.excluded).get("excluded", "")

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """δ and its size per pair, and which pairs are out of scope."""
        found = conserved(model, self.rates, batch)
        arrays = {f"delta/{pair_name(pair)}": value for pair, value in found.delta.items()}
        arrays |= {f"size/{pair_name(pair)}": value for pair, value in found.size.items()}
        of = np.concatenate([np.full(len(value), pair_name(pair)) for pair, value in found.delta.items()])
        return Snapshot(arrays, reasons(found.excluded), {"neuron_pair": ("neuron", of)})

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """δ, its drift and the norms now."""
        found = conserved(model, self.rates, batch)
        before = {name.removeprefix("delta/"): x for name, x in origin.arrays.items() if name.startswith("delta/")}
        now = {pair_name(pair): value for pair, value in found.delta.items()}
        if now.keys() != before.keys():
            got = f"{', '.join(now) or 'none'}"
            raise ParameterError(message("the pairs of layers", f"be those of the start, {', '.join(before)}", got))
        drift = {pair: float(np.abs(now[pair] - before[pair]).max()) for pair in before}
        sizes = {pair: float(origin.arrays[f"size/{pair}"].max()) for pair in before}
        relative = {pair: drift[pair] / sizes[pair] if sizes[pair] > 0 else float("nan") for pair in before}
        return {
            "delta": np.concatenate([now[pair] for pair in before]),
            "conserved_drift": drift,
            "conserved_drift_relative": relative,
            "layer_norm": found.norms,
        }


PREDICTED = (
    Variable("delta_predicted", ("neuron",), "δ₀ and what the gradient descent steps seen add to it", "observable",
             undefined_when="no gradient was seen"),
    Variable("predicted_drift", ("pair",), "largest |δ − δ₀| that finite steps of gradient descent explain",
             undefined_when="no gradient was seen"),
    Variable("unexplained_drift", ("pair",), "largest |δ − δ₀ − what finite steps explain|",
             undefined_when="no gradient was seen"),
)  # fmt: skip


@dataclass
class Ledger:
    """What finite steps have added to δ so far: the sum over steps of `predicted_drift`, from the gradients seen.

    Between two steps whose gradients were seen it is interpolated in a straight line, so that the sum is exact if
    every step's are.
    """

    found: Conserved
    origin: Snapshot  # of Balance
    step: int = 0  # up to which the sum goes
    total: dict[Names, Floats] = field(init=False)
    last: dict[Names, Floats] = field(default_factory=dict, init=False)  # of the last step seen; empty: none
    seen: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        """Nothing has been added yet."""
        self.total = {names: np.zeros(len(delta)) for names, delta in self.found.delta.items()}

    def add(self, step: int, model: nn.Module, rate: float) -> bool:
        """Count the gradients that the model holds, which are those of the step that led to `step`."""
        gap = step - self.step
        parameters = dict(model.named_parameters())
        grads = {
            name: parameters[name].grad
            for pair in self.found.pairs.values()
            for name in (pair.first.parameter, pair.second.parameter)
        }
        if gap <= 0 or any(grad is None for grad in grads.values()):
            return False
        for names, pair in self.found.pairs.items():
            r = self.found.rates[names]
            g_w, g_a = squares(pair, grads[pair.first.parameter], grads[pair.second.parameter])
            made = r.a * g_a - r.w * g_w
            bias = parameters[pair.first.bias].grad if pair.first.bias and r.bias else None
            if bias is not None:
                made = made - r.bias * _per_neuron(bias, len(made))
            now = rate**2 * r.a * r.w * made.cpu().numpy()
            before = self.last.get(names, now)
            # Σ over the steps k of the gap of the straight line from `before` (k = 0) to `now` (k = gap).
            self.total[names] = self.total[names] + (gap - 1) / 2 * before + (gap + 1) / 2 * now
            self.last[names] = now
        self.step, self.seen = step, self.seen + 1
        return True

    def readings(self, delta: Any, now: int | None = None) -> dict[str, Reading]:
        """The three variables of `PREDICTED`, `delta` being δ now; nothing if the sum does not go up to `now`."""
        if now is not None and self.step != now:
            return {}
        total, start = np.concatenate(list(self.total.values())), self._start
        made: dict[str, Reading] = {"delta_predicted": start + total, "predicted_drift": self._largest(total)}
        if delta is not None:
            made["unexplained_drift"] = self._largest(delta - start - total)
        return made

    def restore(self, step: int, predicted: Any) -> None:
        """Take up the sum where a record left it."""
        self.total = dict(zip(self.total, self._split(predicted - self._start), strict=True))
        self.step, self.last = step, {}

    @property
    def _start(self) -> Floats:
        return np.concatenate([self.origin.arrays[f"delta/{pair_name(names)}"] for names in self.total])

    def _split(self, values: Floats) -> list[Floats]:
        return np.split(values, np.cumsum([len(part) for part in self.total.values()])[:-1])

    def _largest(self, values: Floats) -> dict[str, float]:
        parts = zip(self.total, self._split(values), strict=True)
        return {pair_name(names): float(np.abs(part).max()) for names, part in parts}


def squares(pair: Pair, first: Any, second: Any) -> tuple[Tensor, Tensor]:
    """Σ of squares per hidden neuron, (hidden,) each, of tensors stored like the weights of a pair."""
    W = _turned(first, pair.first.turned).square().flatten(1).sum(1, dtype=_float64())
    A = _turned(second, pair.second.turned)
    groups = pair.second.groups
    A = A.reshape(groups, A.shape[0] // groups, *A.shape[1:]).square().transpose(1, 2).flatten(2)
    A = A.sum(2, dtype=_float64()).flatten()  # per input channel
    if len(A) > len(W):  # behind a flattened convolution: positions join
        A = A.reshape(len(W), -1).sum(1)
    elif len(W) > len(A):
        W = W.reshape(len(A), -1).sum(1)
    return W, A


def _turned(stored: Tensor, how: str) -> Tensor:
    return stored.transpose(0, 1) if how == "transposed" else stored


def _per_neuron(bias: Tensor, hidden: int) -> Tensor:
    b = bias.square().double()
    return b if len(b) == hidden else b.reshape(hidden, -1).sum(1)


def _float64() -> Any:
    import torch

    return torch.float64
