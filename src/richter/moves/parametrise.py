r"""Parametrisations: output scale and rates from the width, so that a network stays in one phase however wide it is.

With $\kappa=d/d_0$ the width over a base width, XU24 Table 1 and Corollaries 2 and 3 give the exponents of
γ, σ² and η of a two-layer network; at the base width nothing but the start's variances is set. Deeper networks: the
matrices between two wide layers have variance 1/fan-in and a rate that is smaller by their own fan-in, which lets them
learn as much as the first layer does (under feature learning this is the µP rule). That extension is not in XU24;
`width_check` tests it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from torch import nn

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError, message, nearest
from richter.maths.scaling_limits import fan_in_exponents, speed_exponents, to_feature_learning, to_kernel
from richter.moves.around import Scaled, Unwrap, change_between
from richter.moves.base import AbstractMove, Factor, Multiply, Record, multiply, reciprocal
from richter.moves.change import output, probe_inputs
from richter.probes.trace import Record as Pass
from richter.probes.trace import Weight, watch
from richter.theory.phases import SCALINGS, phase

BASE = 100  # hidden neurons at which the variants of one start are the same (XU24 App. B.3)


@dataclass(frozen=True)
class Rule:
    """Exponents of the output scale, of the variances of the last and first layer, and of the rates; γ at the base."""

    name: str
    c_gamma: float
    c_u: float
    c_w: float
    c_eta: float
    gamma: float = 1.0
    speed: float = 1.0  # on all rates, what γ at the base width takes away
    start: Literal["unit", "xavier", "fan-in", "as it is"] = "as it is"

    @property
    def phase(self) -> str:
        """The phase of a two-layer network as the width grows."""
        return str(phase(1, self.c_gamma, self.c_u, self.c_w, self.c_eta, self.c_eta).label)


def rule(name: str, base: int = BASE) -> Rule:
    """The rule of a name: ntk, mean-field, xavier, kaiming, with + (feature learning) or - (kernel) behind it.

    "standard" is Kaiming with a constant rate. "feature-learning" and "kernel" keep the weights of a start with
    variance 1/fan-in as they are. The exponents of the first are those of Kaiming+, whose constants leave it nearly
    lazy at any width one meets, since at the base width its last layer need not grow to fit: here the output at the
    base width is multiplied by 1/√base and the rates by base, so that the last layer has to double. Kaiming's
    exponents are those of the fan-in (Table 1 prints them exchanged).

    >>> [(r.phase, r.c_eta, r.c_gamma) for r in map(rule, ["kaiming+", "kaiming-", "mean-field", "standard"])]
    [('feature-learning', 1.0, -1.0), ('kernel', -1.0, 0.0), ('frozen', 0.0, -1.0), ('unstable', 0.0, 0.0)]
    """
    known = {s.name.lower().replace(" ", "-"): s for s in SCALINGS if s.c_d}
    key = name.lower().replace("−", "-").replace("⁺", "+").replace("⁻", "-").replace(" ", "-")
    c_u, c_w = (float(c) for c in fan_in_exponents(1.0))
    if key in ("feature-learning", "kernel"):
        pair = to_feature_learning(1, c_u, c_w) if key == "feature-learning" else to_kernel(1, c_u, c_w)
        small = base**-0.5 if key == "feature-learning" else 1.0
        return Rule(key, float(pair[1]), c_u, c_w, float(pair[0]), small, small**-2)
    key = "kaiming" if key == "standard" else key
    stem, sign = (key[:-1], key[-1]) if key[-1:] in ("+", "-") else (key, "")
    if stem not in known:
        names = [*known, "standard", "feature-learning", "kernel"]
        raise UnknownNameError(
            f"No parametrisation named `{name}`. {nearest(stem, names)} The first four also with + or -."
        )
    s = known[stem]
    if stem != "kaiming":
        c_u, c_w = s.c_u, s.c_w
    rate, scale = s.c_eta, s.c_gamma
    if sign:
        plus = sign == "+"
        pair = to_feature_learning(s.c_d, c_u, c_w) if plus else to_kernel(s.c_d, c_u, c_w, s.below)
        rate, scale = float(pair[0]), float(pair[1])
    # unit variance of the last layer gives an output of order √d, which γ = 1/√d at the base width undoes
    gamma = base**-0.5 if (s.c_u, s.c_w) == (0, 0) else 1.0
    start: Any = {"xavier": "xavier", "kaiming": "fan-in"}.get(stem, "unit")
    return Rule(name, scale + 0.0, c_u, c_w, rate + 0.0, gamma, start=start)


@dataclass(frozen=True, kw_only=True)
class Parametrise(AbstractMove):
    """Set the start's variances (keeping every weight's direction), the output scale and the layers' rates by a rule.

    Args:
        rule: see `rule`.
        base: the width of the last hidden layer at which the rates are `lr` itself.
        optimiser: sgd; adam and adamw for feature learning, where each step has a size of its own.
    """

    rule: str = "feature-learning"
    base: int = BASE
    optimiser: Literal["sgd", "adam", "adamw"] = "sgd"

    name: ClassVar[str] = "parametrise"
    says: ClassVar[str] = "output scale and rates by width: the phase that a network stays in as it grows (XU24 Sec. 4)"
    keeps: ClassVar[str] = "every weight up to a factor per layer; the output is rescaled"

    def __post_init__(self) -> None:
        if not (isinstance(self.base, int) and self.base >= 1):
            raise ParameterError(message("`base`", "be a whole number ≥ 1", self.base, f"Use base={BASE}."))
        if self.optimiser not in ("sgd", "adam", "adamw"):
            raise ParameterError(message("`optimiser`", "be sgd, adam or adamw", self.optimiser))
        found = rule(self.rule, self.base)
        if self.optimiser != "sgd" and found.phase != "feature-learning":
            do = 'Use optimiser="sgd".'
            must = "be a feature-learning one for Adam, whose steps do not depend on the gradient's size"
            raise OutsideTheoryError(message("the rule", must, f"{self.rule}, {found.phase}", do))

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Rescale the weights in place and wrap the output; the record's `rates` belong to the optimiser."""
        x = probe_inputs(model, batch)
        found, seen = rule(self.rule, self.base), watch(model, x)
        weights = self._weights(seen)
        kappa = _fan_in(weights[-1]) / self.base
        factors = _variances(found, weights, self.base)
        multiply(model, factors)
        gamma = found.gamma * kappa**found.c_gamma
        wrapped = Scaled(model, output=gamma)
        wrapped.train(model.training)
        rates = {f"inner.{name}": f for name, f in self._rates(model, found, weights, kappa, gamma).items()}
        notes = [f"XU24: the phase of two layers is {found.phase}; width {_fan_in(weights[-1])}, base {self.base}."]
        if len(weights) > 2:
            notes.append("More than two layers: the matrices in between are an extension of XU24; see width_check(…).")
        if found.phase == "kernel" and float(output(wrapped, x).abs().max()) > 0:
            notes.append("A kernel limit at finite width wants a start of zero output: zero_output(model).")
        measured = change_between(model, wrapped, x)
        kept = f"every weight up to a factor per layer; output × {gamma:.6g}"
        back = _Undo(factors=reciprocal(factors))
        return Record(self, wrapped, kept, False, measured, factors, tuple(notes), rates=rates, back=back)

    def _weights(self, seen: Pass) -> list[Weight]:
        weights = list(seen.weights.values())
        if len(weights) < 2 or len(seen.ends) != 1:
            got = f"{len(weights)} weight layers, output from {', '.join(seen.ends) or 'none'}"
            raise OutsideTheoryError(message("the model", "have at least two weight layers and one last one", got))
        last = seen.weights[seen.ends[0]]
        strange = [w.name for w in weights if not w.parameter or seen.uses[w.parameter] > 1]
        if strange:
            do = "Parametrise a model whose weights are its own."
            raise OutsideTheoryError(message(f"the weight of `{strange[0]}`", "be a parameter used once", "not so", do))
        return [*(w for w in weights if w is not last), last]

    def _rates(
        self, model: nn.Module, found: Rule, weights: list[Weight], kappa: float, gamma: float
    ) -> dict[str, float]:
        """Gradient-flow factors on the rate of every parameter; for Adam such that √ of them is the rule's."""
        adam = self.optimiser != "sgd"
        wide = 1.0 if adam else found.speed * kappa**found.c_eta
        rates = {name: wide for name, p in model.named_parameters() if p.requires_grad}
        first = {w.parameter for w in weights if _reads_input(w, weights)}
        for w in weights[:-1]:
            if w.parameter not in first:
                own = _fan_in(w) / self.base
                rates[w.parameter] = own**-2.0 if adam else wide * own ** -(1.0 + found.c_w)
        if weights[-1].bias and weights[-1].bias in rates:
            # the last bias is in front of γ: its own rate lets it move the output as fast as the other weights do
            c = found.c_eta
            K = float(speed_exponents(1, found.c_gamma, found.c_u, found.c_w, c, c)[1])
            rates[weights[-1].bias] = gamma**-2.0 * (1.0 if adam else kappa**K)
        return rates


@dataclass(frozen=True, kw_only=True)
class _Undo(AbstractMove):
    """Take the wrapper off and the factors back."""

    factors: dict[str, Factor]

    name: ClassVar[str] = "undo"
    says: ClassVar[str] = "takes a parametrisation back"
    keeps: ClassVar[str] = "what was learned, in the old variables"

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        inner = Unwrap().apply(model).model
        return Multiply(factors=self.factors).apply(inner)


def _reads_input(w: Weight, weights: list[Weight]) -> bool:
    """Whether a layer's fan-in is the data's: the first one, and embeddings."""
    return w is weights[0] or w.kind == "embedding"


def _fan_in(w: Weight) -> int:
    return 1 if w.kind == "embedding" else math.prod(w.value.shape[1:])


def _variances(found: Rule, weights: list[Weight], base: int) -> dict[str, Factor]:
    """What takes every weight from the mean square it has to the rule's.

    Xavier's variance is that of the formula at the base width and goes on like 1/width, as in Table 1: the formula
    itself does so only once the network is much wider than its inputs and outputs are many.
    """
    if found.start == "as it is":
        return {}
    made: dict[str, Factor] = {}
    for w in weights:
        fan_in, fan_out = _fan_in(w), w.value.shape[0] * math.prod(w.value.shape[2:])
        wanted = 1 / fan_in
        if found.start == "xavier" and _reads_input(w, weights):
            wanted = 2 / (fan_in + base) * base / fan_out
        elif found.start == "xavier" and w is weights[-1]:
            wanted = 2 / (base + fan_out) * base / fan_in
        elif found.start == "xavier":
            wanted = 2 / (fan_in + fan_out)
        elif found.start == "unit" and w is weights[-1]:
            wanted = 1.0
        present = float(w.value.detach().double().square().mean())
        if present == 0:
            do = "Draw it first; a rule of variances rescales what is there."
            raise OutsideTheoryError(message(f"the weight of `{w.name}`", "not be 0", "all 0", do))
        made[w.parameter] = math.sqrt(wanted / present)
    return made


def parametrise(model: nn.Module, name: str = "feature-learning", batch: Any = None, **options: Any) -> Record:
    """Put a network into a phase: `Parametrise(rule=name, …).apply(model, batch)`.

    >>> import torch
    >>> from richter.moves import groups
    >>> from richter.training import mlp
    >>> made = parametrise(mlp(3, [400]), "feature-learning")
    >>> optimiser = torch.optim.SGD(groups(made.model, "sgd", 0.05, made.rates), lr=0.05)
    >>> round(made.rates["inner.layer1.weight"], 6), round(made.model.output_scale.item(), 6)
    (400.0, 0.025)
    """
    return Parametrise(rule=name, **options).apply(model, batch)
