"""Intensity, quality and utilisation of a network's features (NAM24 ch. 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

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
from richter.probes.activations import activations

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
    F, g = _columns(targets), _columns(learned)
    phi_test, F_test, g_test = (features, F, g) if test is None else (test[0], _columns(test[1]), _columns(test[2]))
    seen = moments(in_chunks(phi_test, np.concatenate([F_test, g_test], axis=1), BLOCK))
    found = spectrum_of_features(features, gram=seen.gram if test is None else None)
    return _dataset(found, seen, F.shape[1], F.shape[0], test is None)


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
    made = _dataset(found, seen, F.shape[1], n, test is None)
    return made.assign(imbalance=((), balance, {"long_name": "largest class over smallest", "units": "1"}))


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


def _dataset(found: Any, seen: Moments, components: int, n_train: int, same: bool) -> xr.Dataset:
    import xarray as xr

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
    return xr.Dataset(variables, attrs=attrs)


def _known(shares: Floats) -> Floats:
    return np.where(np.isnan(shares), 0.0, shares)


def _square(found: Any, seen: Moments) -> float:
    u = found.directions[:, 0]
    return float(u @ seen.gram @ u) / seen.examples
