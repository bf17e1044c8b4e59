r"""Layer scales: the function kept, the regime changed (KUN24 §5: upstream and downstream starts)."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal

from torch import nn

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError, message, nearest
from richter.moves.base import AbstractMove, Factor, Multiply, Record, checked, multiply, reciprocal
from richter.moves.change import probe_inputs, relative_change
from richter.moves.homogeneity import Flow, flow
from richter.probes.trace import watch

Layer = str | int  # a name, or a place in the order of execution


@dataclass(frozen=True, kw_only=True)
class ScaleLayers(AbstractMove):
    """Multiply the weights of layers, by name or by place in the order of execution.

    With `function="keep"` (the default) the factors have to cancel: biases in between follow their layers, and where
    the function would change (a norm, tanh, softmax or a residual sum in between) it is refused with the place.
    `approximate=True` applies it all the same and measures. `function="scale"`: the output may be multiplied by a
    number. `function="change"`: anything goes, and the change is measured.
    """

    factors: Mapping[Layer, float]
    function: Literal["keep", "scale", "change"] = "keep"
    biases: Literal["follow", "stay"] = "follow"
    approximate: bool = False

    name: ClassVar[str] = "scale-layers"
    says: ClassVar[str] = "multiplies layers' weights: which layer leads, and how richly"
    keeps: ClassVar[str] = "the function, where the layers in between are positively homogeneous"

    def __post_init__(self) -> None:
        for layer, factor in self.factors.items():
            if not (math.isfinite(factor) and factor > 0):
                raise ParameterError(message(f"the factor of layer {layer!r}", "be finite and > 0", factor))
        if self.function not in ("keep", "scale", "change"):
            raise ParameterError(message("`function`", "be keep, scale or change", self.function))
        if self.biases not in ("follow", "stay"):
            raise ParameterError(message("`biases`", "be follow or stay", self.biases))

    @property
    def inverse(self) -> ScaleLayers:
        """The same with 1 over every factor."""
        opposite = {layer: 1 / x for layer, x in self.factors.items()}
        return ScaleLayers(factors=opposite, function=self.function, biases=self.biases, approximate=self.approximate)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Scale in place."""
        x = probe_inputs(model, batch)
        names = layer_parameters(model, x, tuple(self.factors))
        wanted: dict[str, float] = {}
        for layer, factor in self.factors.items():
            wanted[names[layer]] = wanted.get(names[layer], 1.0) * factor
        found = flow(model, {name: math.log(f) for name, f in wanted.items()}, x, self.biases == "follow")
        problem = self._problem(found)
        if problem and not self.approximate and self.function != "change":
            do = 'Use approximate=True to apply it all the same, or function="change" if that is what you want.'
            raise OutsideTheoryError(f"{self.name} would change the function: {problem}. {do}")
        followers = {name: math.exp(s) for name, s in found.followers.items() if s != 0}
        followers = {} if found.conflicts else followers
        factors: dict[str, Factor] = {**wanted, **followers}
        change, undo = partial(multiply, model, factors), partial(multiply, model, reciprocal(factors))
        exact = self.function == "keep" and not problem and not found.nearly
        measured = checked(model, x, change, undo, self.name) if exact else relative_change(model, x, change)
        notes = (*found.nearly, *([f"Not function-preserving: {problem}."] if problem else []), share(model, wanted))
        kept = self._kept(found, exact, problem)
        return Record(self, model, kept, exact, measured, factors, notes, back=Multiply(factors=reciprocal(factors)))

    def _problem(self, found: Flow) -> str:
        if found.conflicts:
            return "; ".join(found.conflicts[:3])
        if self.function == "keep" and abs(found.output) > 1e-9:
            forgets = f" ({'; '.join(found.nearly[:2])})" if found.nearly else ""
            return f"the output is multiplied by {math.exp(found.output):.6g}{forgets}"
        return ""

    def _kept(self, found: Flow, exact: bool, problem: str) -> str:
        if exact:
            return "the function, exactly"
        if problem:
            return "the shapes of the scaled layers; the function is changed"
        if abs(found.output) <= 1e-9:
            return "the function, up to the ε of norms" if found.nearly else "the function, exactly"
        return f"the function up to the factor {math.exp(found.output):.6g}"


@dataclass(frozen=True, kw_only=True)
class Upstream(AbstractMove):
    r"""First layer ÷ α, last layer × α: δ grows, the earlier layers lead (KUN24 §5); α < 1 is downstream.

    For two layers with $|a_i|=\|w_i\|$ it gives $\delta_i=\|w_i\|^2(\alpha^2-\alpha^{-2})$. The function is kept
    where everything between the two is positively homogeneous.
    """

    alpha: float
    first: Layer = 0
    last: Layer = -1
    biases: Literal["follow", "stay"] = "follow"
    approximate: bool = False

    name: ClassVar[str] = "upstream"
    says: ClassVar[str] = "small early and large late layers: faster features, richer (KUN24 Sec. 5)"
    keeps: ClassVar[str] = ScaleLayers.keeps

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ParameterError(message("`alpha`", "be finite and > 0", self.alpha, "Use alpha=2."))

    @property
    def inverse(self) -> Upstream:
        """The same with 1/α."""
        return Upstream(
            alpha=1 / self.alpha, first=self.first, last=self.last, biases=self.biases, approximate=self.approximate
        )

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Scale in place."""
        from dataclasses import replace

        x = probe_inputs(model, batch)
        names = layer_parameters(model, x, (self.first, self.last))
        if names[self.first] == names[self.last]:
            must = "be two different layers"
            raise ParameterError(message("`first` and `last`", must, f"`{names[self.first]}` twice"))
        scales = ScaleLayers(
            factors={names[self.first]: 1 / self.alpha, names[self.last]: self.alpha},
            biases=self.biases, approximate=self.approximate,
        )  # fmt: skip
        return replace(scales.apply(model, x), move=self)


@dataclass(frozen=True, kw_only=True)
class OverallScale(AbstractMove):
    r"""All weights × τ: small is rich, large is lazy.

    A homogeneous network of L layers then gives $\tau^Lf$, and every δ is multiplied by τ².
    """

    tau: float
    biases: Literal["follow", "stay"] = "follow"

    name: ClassVar[str] = "overall-scale"
    says: ClassVar[str] = "all weights × τ: small starts are rich, large ones lazy"
    keeps: ClassVar[str] = "directions of all neurons; the function up to a factor where the network is homogeneous"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.tau) and self.tau > 0):
            raise ParameterError(message("`tau`", "be finite and > 0", self.tau, "Use tau=0.1 for a small start."))

    @property
    def inverse(self) -> OverallScale:
        """The same with 1/τ."""
        return OverallScale(tau=1 / self.tau, biases=self.biases)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Scale in place."""
        from dataclasses import replace

        x = probe_inputs(model, batch)
        names = dict.fromkeys(w.parameter for w in watch(model, x).weights.values() if w.parameter)
        scales = ScaleLayers(
            factors=dict.fromkeys(names, self.tau), function="scale", biases=self.biases, approximate=True
        )
        return replace(scales.apply(model, x), move=self)


@dataclass(frozen=True, kw_only=True)
class SmallEmbeddings(AbstractMove):
    """Embeddings ÷ α (KUN24 Fig. 6d): not function-preserving, unlike what the figure's caption says of layer scales.

    The stream that the embeddings feed goes through softmax or norms and joins other terms, so that no later layer
    can make up for it. The record measures the change and says how large a part of the parameters was scaled.
    """

    alpha: float
    layers: tuple[str, ...] = ()

    name: ClassVar[str] = "small-embeddings"
    says: ClassVar[str] = (
        "embeddings ÷ α: features of the tokens are learned earlier, less grokking delay (KUN24 Fig. 6d)"
    )
    keeps: ClassVar[str] = "the directions of the embeddings; NOT the function"

    def __post_init__(self) -> None:
        if not (math.isfinite(self.alpha) and self.alpha > 0):
            raise ParameterError(message("`alpha`", "be finite and > 0", self.alpha, "Use alpha=4."))

    @property
    def inverse(self) -> SmallEmbeddings:
        """The same with 1/α."""
        return SmallEmbeddings(alpha=1 / self.alpha, layers=self.layers)

    def apply(self, model: nn.Module, batch: Any = None) -> Record:
        """Scale in place."""
        from dataclasses import replace

        own = {id(p): name for name, p in model.named_parameters()}
        found = [own[id(m.weight)] for m in model.modules() if isinstance(m, nn.Embedding)]
        chosen = [layer if layer in own.values() else f"{layer}.weight" for layer in self.layers] or found
        if not chosen:
            do = "Name the layers to scale: layers=('…',)."
            raise ParameterError(message("the model", "hold an embedding", "none", do))
        factors: dict[Layer, float] = {name: 1 / self.alpha for name in dict.fromkeys(chosen)}
        return replace(ScaleLayers(factors=factors, function="change").apply(model, batch), move=self)


def layer_parameters(model: nn.Module, x: Any, layers: tuple[Layer, ...]) -> dict[Layer, str]:
    """The parameter that each name or place stands for: its own name, a module's weight, or a layer of the pass."""
    known = dict(model.named_parameters())
    made: dict[Layer, str] = {}
    in_order: list[str] | None = None
    for layer in layers:
        if isinstance(layer, str):
            near = next((name for name in (layer, f"{layer}.weight") if name in known), None)
            if near is None:
                names = sorted({name.removesuffix(".weight") for name in known if name.endswith("weight")} or known)
                raise UnknownNameError(f"The model has no layer `{layer}`. {nearest(layer, names)}")
            made[layer] = near
            continue
        if in_order is None:
            record = watch(model, x)
            in_order = [
                w.parameter or f"the weight of `{w.name}`, computed from others" for w in record.weights.values()
            ]
        if not -len(in_order) <= layer < len(in_order):
            raise ParameterError(message("the place of a layer", f"be below {len(in_order)}", layer))
        if in_order[layer] not in known:
            do = "Name a layer with a weight of its own."
            raise ParameterError(message(f"layer {layer}", "have a weight of its own", in_order[layer], do))
        made[layer] = in_order[layer]
    return made


def share(model: nn.Module, names: Mapping[str, float]) -> str:
    """How large a part of all parameters the named ones are."""
    counted = dict(model.named_parameters())
    some = sum(counted[name].numel() for name in names if name in counted)
    whole = sum(p.numel() for p in model.parameters())
    said = ", ".join(f"`{name}`" for name in names) if len(names) <= 3 else f"{len(names)} weights"
    return f"{said}: {some / max(whole, 1):.1%} of all parameters."


def upstream(model: nn.Module, alpha: float, batch: Any = None, **options: Any) -> Record:
    """First layer ÷ α, last × α: `Upstream(alpha=alpha, …).apply(model, batch)`.

    >>> net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    >>> made = upstream(net, 4.0)
    >>> made.exact, sorted(made.factors.items())
    (True, [('0.bias', 0.25), ('0.weight', 0.25), ('2.weight', 4.0)])
    """
    return Upstream(alpha=alpha, **options).apply(model, batch)


def downstream(model: nn.Module, alpha: float, batch: Any = None, **options: Any) -> Record:
    """First layer × α, last ÷ α: the later layers lead."""
    return Upstream(alpha=1 / alpha, **options).apply(model, batch)


def scale_layers(model: nn.Module, factors: Mapping[Layer, float], batch: Any = None, **options: Any) -> Record:
    """Multiply layers' weights: `ScaleLayers(factors=factors, …).apply(model, batch)`."""
    return ScaleLayers(factors=factors, **options).apply(model, batch)


def scale_overall(model: nn.Module, tau: float, batch: Any = None, **options: Any) -> Record:
    """All weights × τ: `OverallScale(tau=tau, …).apply(model, batch)`."""
    return OverallScale(tau=tau, **options).apply(model, batch)


def shrink_embeddings(model: nn.Module, alpha: float, batch: Any = None, **options: Any) -> Record:
    """Embeddings ÷ α: `SmallEmbeddings(alpha=alpha, …).apply(model, batch)`."""
    return SmallEmbeddings(alpha=alpha, **options).apply(model, batch)
