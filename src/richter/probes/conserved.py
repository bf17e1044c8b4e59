"""What gradient flow conserves between two layers, and how much of it finite steps lose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.maths.layer_pairs import Rates, layer_imbalance, neuron_imbalance
from richter.maths.layer_pairs import predicted_drift as predicted_drift
from richter.probes.pairs import Names, Pair, Structure, dense, structure, turned
from richter.probes.trace import HOMOGENEOUS, LINEAR, MOVED, SCALED

if TYPE_CHECKING:
    from torch import Tensor, nn

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Conserved:
    """δ of every pair of layers for which gradient flow conserves it.

    `delta`: (hidden,) per pair. `matrix`: the full Δ (hidden, hidden) where nothing but linear maps is between the
    two. `size`: (hidden,) the sum of the same terms without their signs, what a drift is to be compared with.
    `excluded`: pairs for which it is not conserved, with the reason. `norms`: Frobenius norm of each weight layer.
    """

    delta: dict[Names, Floats]
    matrix: dict[Names, Floats]
    size: dict[Names, Floats]
    excluded: dict[Names, str]
    opaque: tuple[str, ...]
    norms: dict[str, float]
    rates: dict[Names, Rates]
    pairs: dict[Names, Pair]

    def gradients(self, model: nn.Module, pair: Names) -> dict[str, Floats]:
        """The model's present `.grad` of a pair, in the form that `predicted_drift` takes."""
        found = dict(model.named_parameters())
        both = self.pairs[pair]

        def grad(name: str) -> Tensor:
            tensor = found[name].grad
            if tensor is None:
                raise ParameterError(message(f"the gradient of `{name}`", "be there", "None", "Call loss.backward()."))
            return tensor

        first, second = grad(both.first.parameter), grad(both.second.parameter)
        W, A = both.matched(turned(both.first, first), turned(both.second, second))
        made = {"first": W, "second": A}
        if both.first.bias:
            made["bias"] = _per_neuron(dense(grad(both.first.bias)), W.shape[0])
        return made


def conserved(model: nn.Module, rates: Mapping[str, float] | float = 1.0, batch: Any = None) -> Conserved:
    r"""$\delta_i=\eta_w\|a_i\|^2-\eta_a\|w_i\|^2-\frac{\eta_a\eta_w}{\eta_b}b_i^2$ of every two layers in a row.

    Conserved by gradient flow on any loss if nothing but positively homogeneous or linear functions (ReLU, leaky
    ReLU, pooling) is between the layers, nobody else reads the first one, and every weight is used once. If all
    are linear, $\Delta=\eta_wA^TA-\eta_aWW^T$ is conserved too. Batch normalisation, tanh, residual sums and shared
    weights break the law: such pairs are in `excluded`. Plain gradient descent drifts by `predicted_drift` per
    step; momentum, weight decay and Adam are other dynamics. Convolutions: per channel.

    Args:
        model: a torch model; it is left as it was.
        rates: one learning rate, or a mapping from names of layers or parameters to rates; a parameter's own name
            wins over its layer's, names that are not given have rate 1.
        batch: inputs, of which two are used to see the order of execution. Without it zeros are tried.
    """
    found = structure(model, batch)
    rate_of = _rates(model, rates)
    parameters = dict(model.named_parameters())
    delta: dict[Names, Floats] = {}
    matrix: dict[Names, Floats] = {}
    size: dict[Names, Floats] = {}
    used: dict[Names, Rates] = {}
    excluded = dict(found.excluded)
    for pair in found.pairs:
        bias_name = pair.first.bias
        reason = _broken(found, pair)
        if not reason and bias_name and rate_of(bias_name) == 0 and bool((parameters[bias_name] != 0).any()):
            reason = f"`{bias_name}` has learning rate 0 and is not 0"
        if reason:
            excluded[pair.names] = reason
            continue
        r = Rates(rate_of(pair.second.parameter), rate_of(pair.first.parameter))
        W, A = pair.matched(pair.first.value, pair.second.value)
        bias = None
        if bias_name and rate_of(bias_name) > 0:
            r = Rates(r.a, r.w, rate_of(bias_name))
            bias = _per_neuron(dense(parameters[bias_name]), W.shape[0])
        delta[pair.names] = neuron_imbalance(A, W, bias, r)
        size[pair.names] = 2 * r.w * (A**2).sum(axis=0) - delta[pair.names]
        if set(pair.between) <= LINEAR | SCALED | MOVED and (
            bias is None or bias.shape[0] == dense(parameters[bias_name]).size
        ):
            matrix[pair.names] = layer_imbalance(A, W, bias, r)
        used[pair.names] = r
    norms = {name: float(np.linalg.norm(dense(w.value))) for name, w in found.record.weights.items()}
    kept = {pair.names: pair for pair in found.pairs if pair.names in delta}
    return Conserved(delta, matrix, size, excluded, found.opaque, norms, used, kept)


def conserved_drift(now: Conserved, origin: Conserved) -> dict[Names, tuple[float, float]]:
    """(absolute, relative) largest change of δ per pair; relative to the pair's largest `size` at the origin."""
    if now.delta.keys() != origin.delta.keys() or now.rates != origin.rates:
        must = "have the same pairs and rates"
        raise ParameterError(message("the two measurements", must, f"{list(now.delta)} and {list(origin.delta)}"))
    made = {}
    for pair, before in origin.delta.items():
        moved, scale = float(np.abs(now.delta[pair] - before).max()), float(origin.size[pair].max())
        made[pair] = (moved, moved / scale if scale > 0 else float("nan"))
    return made


def _broken(found: Structure, pair: Pair) -> str:
    """Why a pair's δ is not conserved, or nothing."""
    record, (first, second) = found.record, pair.names
    for weight in (pair.first, pair.second):
        if not weight.parameter:
            return f"the weight of `{weight.name}` is computed from other parameters"
        if record.uses[weight.parameter] > 1:
            return f"`{weight.parameter}` is used {record.uses[weight.parameter]} times"
    others = [name for name in record.readers.get(first, []) if name != second]
    if others:
        return f"`{first}` is also read by {', '.join(others)}"
    strange = [step for step in pair.between if step not in HOMOGENEOUS | LINEAR | SCALED | MOVED]
    if strange:
        return f"`{'`, `'.join(strange)}` is not positively homogeneous"
    return ""


def _per_neuron(bias: Floats, hidden: int) -> Floats:
    """A bias per neuron; where a view makes channels of neurons, the norm over each channel."""
    return bias if bias.size == hidden else np.linalg.norm(bias.reshape(hidden, -1), axis=1)


def _rates(model: nn.Module, rates: Mapping[str, float] | float) -> Any:
    if isinstance(rates, Mapping):
        names = [name for name, _ in model.named_parameters()]
        known = {*names, *(name.rpartition(".")[0] for name in names)} - {""}
        for name, rate in rates.items():
            if name not in known:
                raise UnknownNameError(f"The model has no layer or parameter `{name}`. {nearest(name, sorted(known))}")
            _check(name, rate)
        return lambda name: float(rates.get(name, rates.get(name.rpartition(".")[0], 1.0)))
    _check("all layers", rates)
    return lambda _: float(rates)


def _check(name: str, rate: float) -> None:
    if not (np.isfinite(rate) and rate >= 0):
        raise ParameterError(message(f"the learning rate of {name}", "be finite and ≥ 0", rate))
