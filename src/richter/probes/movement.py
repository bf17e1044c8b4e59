"""How far a network has moved from a snapshot: in its parameters, its activation patterns, its representation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.representation import debiased_alignment, relative_change
from richter.probes.activations import activations, chunks, last_layer, one_pass, shared
from richter.probes.observe import numbers
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.probes.trace import signs, watch
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]


@dataclass(frozen=True)
class Origin:
    """A snapshot: parameters by name, activation patterns by layer, features of one layer."""

    parameters: dict[str, Floats]
    patterns: dict[str, Bools]  # (example, unit)
    features: Floats | None  # (example, feature); None if the last layer is no module and none was named
    layer: str | None


@dataclass(frozen=True)
class Distance:
    """A distance in total and by layer."""

    absolute: float
    relative: float
    layers: dict[str, tuple[float, float]]  # (absolute, relative)


@dataclass(frozen=True)
class Flips:
    """Changed activations in total and by layer."""

    total: float
    layers: dict[str, float]
    normalised: str


@dataclass(frozen=True)
class Drift:
    """How far a representation has moved: `turned` = 1 − debiased CKA, `changed` = ‖Φ − Φ₀‖/‖Φ₀‖."""

    turned: float
    changed: float


def start(model: nn.Module, batch: Any, layer: str | None = None) -> Origin:
    """The snapshot that later measurements on the same batch are compared with.

    `layer` names the representation of `representation_drift`; without it, the input of the last weight layer.
    """
    chosen = layer or last_layer(model, next(iter(chunks(model, batch))), required=False)
    return Origin(
        _parameters(model), _patterns(model, batch), _features(model, batch, layer) if chosen else None, layer
    )


def distance(now: Mapping[str, Floats], before: Mapping[str, Floats]) -> Distance:
    r"""$\|\theta-\theta_0\|_2$ and its ratio to $\|\theta_0\|_2$, by name and in total; θ₀ = 0: relative NaN.

    >>> made = distance({"a": np.array([3.0])}, {"a": np.array([1.0])})
    >>> made.absolute, made.relative, made.layers
    (2.0, 2.0, {'a': (2.0, 2.0)})
    """
    if now.keys() != before.keys() or any(now[name].shape != before[name].shape for name in now):
        odd = sorted(now.keys() ^ before.keys()) or [n for n in now if now[n].shape != before[n].shape]
        raise ParameterError(message("the model", "have the parameters of the origin", f"a difference in {odd[0]}"))
    moved = {name: float(np.linalg.norm(now[name] - before[name])) for name in now}
    sizes = {name: float(np.linalg.norm(before[name])) for name in now}
    layers: dict[str, list[str]] = {}
    for name in now:
        layers.setdefault(name.rpartition(".")[0] or name, []).append(name)
    by_layer = {key: _ratio([moved[n] for n in names], [sizes[n] for n in names]) for key, names in layers.items()}
    return Distance(*_ratio(list(moved.values()), list(sizes.values())), by_layer)


def flips(
    now: Mapping[str, Bools], before: Mapping[str, Bools], normalised: Literal["bits", "neurons"] = "bits"
) -> Flips:
    """Activations that differ: as a fraction of the (unit, example) bits, or as neurons per example, not divided.

    >>> a, b = np.array([[True, False]]), np.array([[True, True]])
    >>> flips({"relu": a}, {"relu": b}).total, flips({"relu": a}, {"relu": b}, "neurons").total
    (0.5, 1.0)
    """
    if normalised not in ("bits", "neurons"):
        raise ParameterError(message("`normalised`", 'be "bits" or "neurons"', normalised))
    if not before:
        advice = "Hamming distance counts the flips of ReLU-like units."
        raise ParameterError(message("the model", "have ReLU-like neurons", "none of them", advice))
    if now.keys() != before.keys() or any(now[name].shape != before[name].shape for name in now):
        advice = "Measure on the batch that `start` was given."
        raise ParameterError(message("the activations", "be those of the origin's examples", None, advice))
    counts = {name: int((now[name] != before[name]).sum()) for name in now}
    examples = next(iter(before.values())).shape[0]
    over = {name: before[name].size if normalised == "bits" else examples for name in now}
    whole = sum(over.values()) if normalised == "bits" else examples
    return Flips(sum(counts.values()) / whole, {name: counts[name] / over[name] for name in now}, normalised)


def parameter_distance(model: nn.Module, origin: Origin) -> Distance:
    """‖θ − θ₀‖₂ over all parameters (KUN24 App. D.3), absolute, relative to ‖θ₀‖₂, and by layer; tied ones once."""
    return distance(_parameters(model), origin.parameters)


def hamming_distance(
    model: nn.Module, batch: Any, origin: Origin, normalised: Literal["bits", "neurons"] = "bits"
) -> Flips:
    """How many ReLU-like units have switched between active (input > 0) and not since the origin.

    "bits": the fraction of all (unit, example) activations (KUN24 App. D.3). "neurons": the number of units,
    averaged over examples, which the authors' code reports. Never compare the two. Functional activations count like
    modules; a position of a convolution's output is a unit.
    """
    return flips(_patterns(model, batch), origin.patterns, normalised)


def representation_drift(model: nn.Module, batch: Any, origin: Origin) -> Drift:
    """1 − debiased CKA between the features now and at the origin, which ignores rotations and scale, and ‖ΔΦ‖/‖Φ₀‖."""
    if origin.features is None:
        advice = "Name the layer: start(model, batch, layer='…')."
        raise ParameterError(message("the origin", "hold a representation", "none", advice))
    phi = _features(model, batch, origin.layer)
    if phi.shape != origin.features.shape:
        must = f"be those of the origin's examples, shape {origin.features.shape}"
        raise ParameterError(
            message("the features", must, f"{phi.shape}", "Measure on the batch that `start` was given.")
        )
    return Drift(1 - debiased_alignment(phi, origin.features), relative_change(phi, origin.features))


@dataclass(frozen=True)
class ParameterMovement(AbstractProbe):
    """`parameter_distance` along a run."""

    name: ClassVar[str] = "parameter_distance"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("parameter_distance", (), "‖θ − θ₀‖ over all parameters"),
        Variable("parameter_distance_relative", (), "‖θ − θ₀‖/‖θ₀‖", undefined_when="θ₀ = 0"),
        Variable("parameter_distance_layer", ("layer",), "‖θ − θ₀‖ of a layer"),
        Variable("parameter_distance_layer_relative", ("layer",), "‖θ − θ₀‖/‖θ₀‖ of a layer", undefined_when="θ₀ = 0"),
    )

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """The parameters; single precision and less is kept in single precision, which loses nothing."""
        kept = _parameters(model)
        for name, p in model.named_parameters():
            if p.dtype.itemsize <= 4:
                kept[name] = kept[name].astype(np.float32)
        return Snapshot(kept)

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The distances now."""
        moved = distance(_parameters(model), origin.arrays)
        return {
            "parameter_distance": moved.absolute,
            "parameter_distance_relative": moved.relative,
            "parameter_distance_layer": {name: pair[0] for name, pair in moved.layers.items()},
            "parameter_distance_layer_relative": {name: pair[1] for name, pair in moved.layers.items()},
        }


@dataclass(frozen=True)
class ActivationMovement(AbstractProbe):
    """`hamming_distance` along a run, as a fraction of the (unit, example) bits."""

    name: ClassVar[str] = "hamming_distance"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("hamming_distance", (), "share of (unit, example) activations that have switched since the start"),
        Variable("hamming_distance_layer", ("activation",), "the same by activation function"),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Units that switch."""
        return "" if watch(model, batch[0][:2], patterns=True).neurons else "ReLU-like neurons"

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """The patterns, a bit each."""
        found = _patterns(model, batch)
        return Snapshot({name: np.packbits(bits, axis=1) for name, bits in found.items()}, {"normalised": "bits"})

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The switched share now."""
        now = _patterns(model, batch)
        before = {
            name: np.unpackbits(bits, axis=1, count=now[name].shape[1] if name in now else None).astype(bool)
            for name, bits in origin.arrays.items()
        }
        found = flips(now, before)
        return {"hamming_distance": found.total, "hamming_distance_layer": found.layers}


@dataclass(frozen=True)
class RepresentationMovement(AbstractProbe):
    """`representation_drift` along a run, of what a layer gives or, without one, of what the last layer reads."""

    layer: str | None = None

    name: ClassVar[str] = "representation_drift"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("representation_drift", (), "1 − debiased CKA of the features with those at the start"),
        Variable("representation_change", (), "‖Φ − Φ₀‖/‖Φ₀‖ of the features", undefined_when="Φ₀ = 0"),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """A layer to look at, and examples to compare."""
        if len(batch[0]) < 4:
            return "at least 4 examples"
        return "" if self.layer or last_layer(model, batch[0], required=False) else "a last layer that is one module"

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """The features."""
        return Snapshot({"features": one_pass(model, batch, self.layer).features}, {"layer": self.layer or "last"})

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The drift now."""
        phi, before = one_pass(model, batch, self.layer).features, origin.arrays["features"]
        return {
            "representation_drift": 1 - debiased_alignment(phi, before),
            "representation_change": relative_change(phi, before),
        }


def _parameters(model: nn.Module) -> dict[str, Floats]:
    return {name: np.array(numbers(p, name)) for name, p in model.named_parameters()}


def _features(model: nn.Module, batch: Any, layer: str | None) -> Floats:
    return np.concatenate([rows for rows, _ in activations(model, batch, layer)])


def _patterns(model: nn.Module, batch: Any) -> dict[str, Bools]:
    def make() -> dict[str, Bools]:
        parts = [signs(watch(model, x, patterns=True)) for x in chunks(model, batch)]
        return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}

    return shared(("patterns", id(model), id(batch)), (model, batch), make)


def _ratio(moved: list[float], sizes: list[float]) -> tuple[float, float]:
    whole, size = float(np.linalg.norm(moved)), float(np.linalg.norm(sizes))
    return whole, whole / size if size > 0 else float("nan")
