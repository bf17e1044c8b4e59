"""Intensity, quality and utilisation of a network's features (NAM24 ch. 2)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message
from richter.maths.eigenfunctions import (
    Moments,
    effective_dimension,
    effective_dimension_of_intensity,
    in_chunks,
    moments,
    spectrum,
    spectrum_of_features,
)
from richter.maths.projections import (
    class_indicators,
    cumulative,
    minimum_projection_distance_from_moments,
    shares_from_moments,
)
from richter.probes.activations import activations, last_layer, one_pass
from richter.probes.observe import flat, numbers
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.schema import Variable

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

BLOCK = 4096  # examples per matrix product
Floats = NDArray[np.float64]


def feature_metrics(
    features: ArrayLike,
    targets: ArrayLike,
    learned: ArrayLike,
    test: tuple[ArrayLike, ArrayLike, ArrayLike] | None = None,
) -> xr.Dataset:
    """The same as `features`, from arrays; the spectrum's tail is exact where that is affordable.

    Args:
        features: Φ (example, feature) of the training examples.
        targets: (example, component); one-hot for classes.
        learned: the network's outputs (example, component).
        test: the same three of test examples, for the inner products; without it, the training examples.

    >>> phi = np.array([[2.0, 1.0], [2.0, -1.0]])
    >>> made = feature_metrics(phi, [1.0, -1.0], [1.0, -1.0])
    >>> made.intensity.values.tolist(), made.utilisation.values.round(12).tolist()
    ([4.0, 1.0], [0.0, 1.0])
    """
    variables, attrs = _of_arrays(features, targets, learned, test)
    return _labelled(variables, attrs)


def _of_arrays(
    features: ArrayLike, targets: ArrayLike, learned: ArrayLike, test: tuple[ArrayLike, ArrayLike, ArrayLike] | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    F, g = _columns(targets), _columns(learned)
    phi_test, F_test, g_test = (features, F, g) if test is None else (test[0], _columns(test[1]), _columns(test[2]))
    seen = moments(in_chunks(phi_test, np.concatenate([F_test, g_test], axis=1), BLOCK))
    found = spectrum_of_features(features, gram=seen.gram if test is None else None)
    return _measured(found, seen, F.shape[1], F.shape[0], test is None)


def features(
    model: nn.Module, train: Any, targets: Any, test: Any = None, test_targets: Any = None, layer: str | None = None
) -> xr.Dataset:
    r"""Intensity ρ_k, quality Q*_k and utilisation Q̂_k of the features of a layer, over `mode` k.

    The training examples give the eigenfunctions e_k, the test examples the inner products (NAM24 Sec. 2.3); without
    test examples the training ones serve for both. Features stream past: only their Gram matrix is held, in
    float64. Intensities below 1e-14 of the largest are rounding: `meaningful` counts those above, the others have
    share NaN. Classes that are not balanced keep their projector; `imbalance` is the largest class over the smallest,
    and the thesis' C-feature statements are for 1. Shares of k near the number of test examples are biased.

    Args:
        model: a torch model in evaluation mode; it is left as it was.
        train: inputs, an (inputs, labels) pair, or an iterable of these, for instance a DataLoader that does not
            shuffle.
        targets: whole-number labels (example,), or numbers (example, component) for regression.
        test: like `train`.
        test_targets: like `targets`.
        layer: whose output the features are; without it, the input of the last weight layer. Anything behind the
            example axis is flattened into features.

    Returns:
        Dataset: `intensity, quality, utilisation, cumulative_quality, cumulative_utilisation` over `mode`;
        `effective_dimension_intensity` (Eq. 2.6: the first feature counts as one), `…_intensity_raw` (Eq. 1.16, as in
        Table 2.1), `effective_dimension_quality`, `effective_dimension_utilisation` (Eq. 1.16),
        `minimum_projection_distance` (κ_CKA), `constant_overlap` |⟨e_1|1⟩|, `dimension` (C), `meaningful`,
        `imbalance`.
    """
    if (test is None) != (test_targets is None):
        raise ParameterError(message("`test` and `test_targets`", "be given together", "one of them"))
    F, balance = _targets(targets)
    seen = moments(_with_targets(activations(model, train, layer), F))
    found = spectrum(seen.gram, seen.examples)
    n = seen.examples
    if test is not None:
        F_test, balance = _targets(test_targets, F.shape[1])
        seen = moments(_with_targets(activations(model, test, layer), F_test))
    made = _labelled(*_measured(found, seen, F.shape[1], n, test is None))
    return made.assign(imbalance=((), balance, {"long_name": "largest class over smallest", "units": "1"}))


_SHARES = "above 1e-14 of the largest intensity only; its inner products are with the probe's own examples"


@dataclass(frozen=True)
class FeatureSpectrum(AbstractProbe):
    """`features` along a run: what a layer gives or, without one, what the last layer reads.

    Eigenfunctions and inner products are of the probe's own examples, so that shares of k near their number are
    biased; `features` with test examples of their own has no such limit.
    """

    layer: str | None = None
    largest: int = 1024  # features; the eigenvalues of more are too dear to be a matter of course

    name: ClassVar[str] = "features"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("intensity", ("mode",), "intensity of the k-th feature", symbol="ρ_k"),
        Variable(
            "quality", ("mode",), "share of the target in the k-th feature", symbol="Q*_k", undefined_when=_SHARES
        ),
        Variable(
            "utilisation", ("mode",), "share of the output in the k-th feature", symbol="Q̂_k", undefined_when=_SHARES
        ),
        Variable("cumulative_quality", ("mode",), "share of the target in the first k features", symbol="Π*"),
        Variable("cumulative_utilisation", ("mode",), "share of the output in the first k features", symbol="Π̂"),
        Variable("effective_dimension_intensity", (), "1 + D_eff(ρ₂, …), Eq. 2.6"),
        Variable("effective_dimension_intensity_raw", (), "D_eff(ρ), Eq. 1.16"),
        Variable("effective_dimension_quality", (), "D_eff(Q*), Eq. 1.16"),
        Variable("effective_dimension_utilisation", (), "D_eff(Q̂), Eq. 1.16"),
        Variable("minimum_projection_distance", (), "κ_CKA, Eq. 2.9"),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Targets and a layer that is not too wide."""
        if batch[1] is None:
            return "targets: probe=(x, y)"
        if not self.layer and not last_layer(model, batch[0], required=False):
            return "a last layer that is one module"
        width = one_pass(model, batch[0][:1], self.layer).features.shape[1]
        rows = batch[1].shape[0] == len(batch[0]) and (batch[1].ndim == 1 or batch[1].is_floating_point())
        if not rows:
            return "one target per example"
        return f"at most {self.largest} features (it has {width})" if width > self.largest else ""

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """Only which layer it is."""
        import scipy.linalg  # noqa: F401  loaded here, so that the first look tells what a look costs

        return Snapshot(notes={"layer": self.layer or "last", "inner_products": "train"})

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The spectrum and its shares now."""
        passed = one_pass(model, batch, self.layer)
        targets, _ = _targets(batch[1], passed.outputs.shape[-1])
        learned = flat(numbers(passed.outputs, "the model's output"))
        if not passed.features.any():
            name = self.layer or last_layer(model, batch[0], required=False)
            what = f"the output of `{name}`" if self.layer else f"the features, which `{name}` reads,"
            raise ParameterError(message(what, "not be 0 on every example", f"{passed.features.shape[1]} zeros each"))
        made, _ = _of_arrays(passed.features, targets, learned, None)
        return {v.name: made[v.name][1] for v in self.variables}


def _with_targets(stream: Iterator[tuple[Floats, Floats]], targets: Floats) -> Iterator[tuple[Floats, Floats]]:
    start = 0
    for phi, out in stream:
        rows = targets[start : start + phi.shape[0]]
        start += phi.shape[0]
        if rows.shape[0] != phi.shape[0]:
            break
        yield phi, np.concatenate([rows, out], axis=1)
    if start != targets.shape[0]:
        must = "have one row per example"
        raise ParameterError(message("the targets", must, f"{targets.shape[0]} rows for {start} examples or more"))


def _targets(given: Any, classes: int = 0) -> tuple[Floats, float]:
    array = np.asarray(given.detach().cpu().numpy() if hasattr(given, "detach") else given)
    if array.ndim == 1 and array.dtype.kind in "iu" and array.size:
        made = class_indicators(array, max(classes, int(array.max()) + 1))
        counts = made.sum(axis=0)
        return made, float(counts.max() / counts.min()) if counts.min() else float("inf")
    return _columns(array), float("nan")


def _columns(values: ArrayLike) -> Floats:
    array = np.asarray(values, dtype=np.float64)
    return array[:, None] if array.ndim == 1 else array


def _measured(
    found: Any, seen: Moments, components: int, n_train: int, same: bool
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Variables as (dims, values, attributes), and what is said of all."""
    of_target, of_learned = slice(0, components), slice(components, None)
    p, k = found.intensity.size, found.meaningful
    shares = {}
    for name, columns in (("quality", of_target), ("utilisation", of_learned)):
        shares[name] = np.full(p, np.nan)
        shares[name][:k] = shares_from_moments(found, seen, columns)
    rho = found.intensity[:k]
    says = {
        "intensity": (found.intensity, "intensity ρ_k of the k-th feature"),
        "quality": (shares["quality"], "share of the target functions in the k-th feature"),
        "utilisation": (shares["utilisation"], "share of the learned functions in the k-th feature"),
        "cumulative_quality": (cumulative(shares["quality"]), "Π*(k)"),
        "cumulative_utilisation": (cumulative(shares["utilisation"]), "Π̂(k)"),
    }
    constant = abs(float(found.directions[:, 0] @ seen.mean)) / np.sqrt(_square(found, seen))
    numbers = {
        "effective_dimension_intensity": (effective_dimension_of_intensity(rho), "1 + D_eff(ρ₂, …), Eq. 2.6"),
        "effective_dimension_intensity_raw": (effective_dimension(rho), "D_eff(ρ), Eq. 1.16"),
        "effective_dimension_quality": (effective_dimension(_known(shares["quality"])), "D_eff(Q*), Eq. 1.16"),
        "effective_dimension_utilisation": (effective_dimension(_known(shares["utilisation"])), "D_eff(Q̂), Eq. 1.16"),
        "minimum_projection_distance": (minimum_projection_distance_from_moments(seen, of_learned), "κ_CKA, Eq. 2.9"),
        "constant_overlap": (constant, "|⟨e_1|1⟩| on the test examples"),
        "dimension": (components, "components of the target"),
        "meaningful": (k, "intensities above rounding"),
    }
    variables: dict[str, Any] = {name: ("mode", v, {"long_name": s, "units": "1"}) for name, (v, s) in says.items()}
    variables |= {name: ((), float(v), {"long_name": s, "units": "1"}) for name, (v, s) in numbers.items()}
    attrs = {"examples": n_train, "test_examples": seen.examples, "inner_products": "train" if same else "test"}
    return variables, attrs


def _labelled(variables: dict[str, Any], attrs: dict[str, Any]) -> xr.Dataset:
    import xarray as xr

    return xr.Dataset(variables, attrs=attrs)


def _known(shares: Floats) -> Floats:
    return np.where(np.isnan(shares), 0.0, shares)


def _square(found: Any, seen: Moments) -> float:
    u = found.directions[:, 0]
    return float(u @ seen.gram @ u) / seen.examples
