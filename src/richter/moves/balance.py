r"""Rescaling neuron by neuron: every hidden neuron gets the imbalance δ that is asked for, the function stays."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from torch import nn

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError, message, show
from richter.maths.layer_pairs import Rates
from richter.maths.rebalance import neuron_scale
from richter.moves.base import AbstractMove, Factor, Multiply, Record, checked, multiply, reciprocal
from richter.moves.change import probe_inputs
from richter.probes.conserved import Conserved, conserved
from richter.probes.pairs import Pair

Floats = NDArray[np.float64]
Names = tuple[str, str]
SWEEPS = 10_000
STILL = 1e-14  # largest change of a logarithm of a scale in the last sweep
NEAR = 1e-9  # the same, where sweeping has come to its end


@dataclass(frozen=True, kw_only=True)
class NeuronBalance(AbstractMove):
    r"""Incoming weights × s, outgoing ÷ s, for every neuron its own s, so that $\delta_i$ is as asked.

    $\delta_i=\eta_w\|a_i\|^2-\eta_a\|w_i\|^2-\frac{\eta_a\eta_w}{\eta_b}b_i^2$, exact for linear, ReLU and leaky ReLU
    neurons (and pooling). In a stack of layers all pairs are balanced together: that is the minimum of a convex
    function of the logarithms of the scales, reached by going through the pairs again and again.
    """

    delta: float | Sequence[float] = 0.0
    pairs: tuple[Names, ...] | None = None
    rates: Mapping[str, float] | float = 1.0

    name: ClassVar[str] = "neuron-balance"
    says: ClassVar[str] = "every hidden neuron gets the imbalance δ: upstream (> 0), balanced (0), downstream (< 0)"
    keeps: ClassVar[str] = "the function, exactly: rescaling symmetry of positively homogeneous neurons"

    def __post_init__(self) -> None:
        if not np.isfinite(np.asarray(self.delta, dtype=float)).all():
            raise ParameterError(message("`delta`", "be finite", self.delta))

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Rescale in place."""
        x = probe_inputs(model, batch)
        found = conserved(model, self.rates, x)
        chosen = self._chosen(found)
        scales = _scales(model, found, chosen, np.asarray(self.delta, dtype=float))
        factors: dict[str, Factor] = {}
        for pair, s in zip(chosen, scales, strict=True):
            for name, f in _factors(model, pair, s).items():
                factors[name] = factors[name] * f if name in factors else f
        change, undo = partial(multiply, model, factors), partial(multiply, model, reciprocal(factors))
        measured = checked(model, x, change, undo, self.name)
        others = {names: why for names, why in found.excluded.items() if names not in [p.names for p in chosen]}
        notes = tuple(f"`{a}` → `{b}` stays: {why}." for (a, b), why in others.items())
        back = Multiply(factors=reciprocal(factors))
        return Record(self, model, "the function, exactly", True, measured, factors, notes, back=back)

    def _chosen(self, found: Conserved) -> list[Pair]:
        if not found.pairs:
            why = "; ".join(f"`{a}` → `{b}`: {reason}" for (a, b), reason in found.excluded.items())
            raise OutsideTheoryError(
                message("the model", "have two layers with a conserved imbalance", why or "one weight layer")
            )
        if self.pairs is None:
            return list(found.pairs.values())
        for names in self.pairs:
            if tuple(names) in found.excluded:
                a, b = names
                raise OutsideTheoryError(f"The imbalance of `{a}` → `{b}` is not conserved: {found.excluded[a, b]}.")
            if tuple(names) not in found.pairs:
                known = ", ".join(f"({a!r}, {b!r})" for a, b in found.pairs)
                raise UnknownNameError(f"The model has no pair of layers {show(names)}. Known: {known}.")
        return [found.pairs[names[0], names[1]] for names in self.pairs]


def _scales(model: nn.Module, found: Conserved, chosen: list[Pair], delta: Floats) -> list[Floats]:
    """s of every neuron of every chosen pair, (hidden,) each."""
    scales = [np.ones(found.delta[p.names].shape) for p in chosen]
    wanted = [_wanted(p, delta, s.size) for p, s in zip(chosen, scales, strict=True)]
    # Squared norms, weight by weight, as the scales of the other pairs change them.
    first = [p.matched(p.first.value, p.second.value) for p in chosen]
    squares = [(W**2, A**2) for W, A in first]
    bias = [_bias_square(model, p, s.size) for p, s in zip(chosen, scales, strict=True)]
    feeds, reads = _neighbours(chosen)
    for _ in range(SWEEPS):
        moved = 0.0
        for k, pair in enumerate(chosen):
            r: Rates = found.rates[pair.names]
            W, A = squares[k]
            incoming = W if feeds[k] is None else _spread(chosen, feeds[k], k, scales, W, forward=False)
            outgoing = A if reads[k] is None else _spread(chosen, reads[k], k, scales, A, forward=True)
            share = r.a * r.w / r.bias if pair.first.bias and r.bias > 0 else 0.0
            new = neuron_scale(r.w * outgoing.sum(0), r.a * incoming.sum(1) + share * bias[k], wanted[k])
            moved = max(moved, float(np.abs(np.log(new / scales[k])).max(initial=0.0)))
            scales[k] = new
        if moved <= STILL or len(chosen) == 1:
            return scales
    if moved > NEAR:
        do = "Balance one pair at a time: pairs=((…, …),)."
        raise ParameterError(message("the imbalances of all layers", "be ones that a rescaling can give", None, do))
    return scales


def _neighbours(chosen: list[Pair]) -> tuple[list[int | None], list[int | None]]:
    """For each pair, the chosen pair that ends in its first layer and the one that begins with its second."""
    ends = {p.second.name: k for k, p in enumerate(chosen)}
    begins = {p.first.name: k for k, p in enumerate(chosen)}
    return [ends.get(p.first.name) for p in chosen], [begins.get(p.second.name) for p in chosen]


def _spread(
    chosen: list[Pair], other: int | None, k: int, scales: list[Floats], squares: Floats, *, forward: bool
) -> Floats:
    """A layer's squared weights as a neighbouring pair's scales make them."""
    assert other is not None
    pair, neighbour = chosen[k], chosen[other]
    weight = pair.second if forward else pair.first
    stored = _row_factor(neighbour, scales[other]) if forward else _column_factor(neighbour, scales[other])
    import torch

    full = torch.as_tensor(np.broadcast_to(stored, tuple(weight.value.shape)).copy())
    blank = pair.first.value if forward else pair.second.value
    W, A = pair.matched(*((blank, full) if forward else (full, blank)))
    # where a grouped convolution has no weight its factor is 0, as is the weight
    return squares * (A if forward else W) ** 2


def _row_factor(pair: Pair, s: Floats) -> Floats:
    """s for the rows of the first weight, turned to (output, input, …)."""
    rows = pair.first.value.shape[0]
    return np.repeat(s, rows // s.size).reshape(rows, *[1] * (pair.first.value.ndim - 1))


def _column_factor(pair: Pair, s: Floats) -> Floats:
    """1/s for the columns of the second weight, turned to (output, input, …)."""
    out, part = pair.second.value.shape[:2]
    groups = pair.second.groups
    columns = np.repeat(1 / s, part * groups // s.size)
    tail = [1] * (pair.second.value.ndim - 2)
    if groups == 1:
        return columns.reshape(1, part, *tail)
    return np.repeat(columns.reshape(groups, part), out // groups, axis=0).reshape(out, part, *tail)


def _factors(model: nn.Module, pair: Pair, s: Floats) -> dict[str, Floats]:
    """What the two parameters and the bias are multiplied by, in the shapes in which they are stored."""
    first, second = _row_factor(pair, s), _column_factor(pair, s)
    first = first.swapaxes(0, 1) if pair.first.turned == "transposed" else first
    second = second.swapaxes(0, 1) if pair.second.turned == "transposed" else second
    made = {pair.first.parameter: first, pair.second.parameter: second}
    if pair.first.bias:
        size = dict(model.named_parameters())[pair.first.bias].numel()
        made[pair.first.bias] = np.repeat(s, size // s.size)
    return made


def _bias_square(model: nn.Module, pair: Pair, hidden: int) -> Floats:
    if not pair.first.bias:
        return np.zeros(hidden)
    b = dict(model.named_parameters())[pair.first.bias].detach().double().cpu().numpy()
    return (b.reshape(hidden, -1) ** 2).sum(1)


def _wanted(pair: Pair, delta: Floats, hidden: int) -> Floats:
    if delta.ndim > 1 or (delta.ndim == 1 and delta.size != hidden):
        a, b = pair.names
        must = f"be one number, or {hidden} for the neurons between `{a}` and `{b}`"
        raise ParameterError(message("`delta`", must, f"shape {delta.shape}"))
    return np.broadcast_to(delta, (hidden,))


def balance(model: nn.Module, delta: float | Sequence[float] = 0.0, batch: Any = None, **options: Any) -> Record:
    """Give every hidden neuron the imbalance δ: `NeuronBalance(delta=delta, …).apply(model, batch)`.

    >>> from richter.probes import conserved
    >>> from richter.training import mlp
    >>> net = mlp(3, [4])
    >>> made = balance(net, 2.0)
    >>> made.exact, conserved(net).delta["layer1", "layer2"].round(4).tolist()
    (True, [2.0, 2.0, 2.0, 2.0])
    """
    return NeuronBalance(delta=delta, **options).apply(model, batch)
