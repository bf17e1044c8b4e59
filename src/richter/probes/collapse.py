"""Neural collapse, NC1 to NC4, of features, per layer when several are given."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from numpy.typing import ArrayLike

from richter.maths.collapse import (
    disagreement,
    duality_gap,
    equiangle,
    equinorm,
    sort_into_classes,
    within_over_between,
    within_quotient,
    within_times_between,
)


def neural_collapse(
    features: ArrayLike | Mapping[str, ArrayLike],
    labels: ArrayLike,
    weight: ArrayLike | None = None,
    bias: ArrayLike | None = None,
) -> Any:
    r"""How far features are from collapse; all entries are 0 on a collapsed network but `imbalance`, which is ≥ 1.

    `within_over_between` NC1 Tr(Σ_WΣ_B⁺)/C; `within_quotient` Tr Σ_W/Tr Σ_B; `within_times_between`
    Tr(Σ_WΣ_B)/(Tr Σ_B)², the quantity of NAM24 Eq. 2.10; `equinorm`, `equiangle` NC2; with the last layer's weight
    `duality` NC3, the largest gap of Eq. D.8, and `disagreement` NC4; `imbalance` the largest class over the
    smallest. For classes that are not
    balanced Σ_W weighs examples and Σ_B classes alike (Eqs D.4, D.5), and no simplex need be the end.

    Args:
        features: (example, feature), or a mapping from layers to such; the weight belongs to the last of them.
        labels: whole numbers (example,).
        weight: the last layer (class, feature), its rows in the order of the sorted labels.
        bias: the last layer's (class,).

    >>> made = neural_collapse([[1.0, -1.0], [-1.0, 1.0]], [0, 1], [[1.0, -1.0], [-1.0, 1.0]])
    >>> {name: round(value, 12) for name, value in made.items()}["equiangle"]
    0.0
    """
    if isinstance(features, Mapping):
        last = list(features)[-1] if features else ""
        return {
            name: neural_collapse(h, labels, *((weight, bias) if name == last else (None, None)))
            for name, h in features.items()
        }
    classes = sort_into_classes(features, labels)
    made = {
        "within_over_between": within_over_between(classes),
        "within_quotient": within_quotient(classes),
        "within_times_between": within_times_between(classes),
        "equinorm": equinorm(classes),
        "equiangle": equiangle(classes),
        "imbalance": classes.imbalance,
    }
    if weight is not None:
        made["duality"] = float(duality_gap(classes, weight).max())
        made["disagreement"] = disagreement(classes, weight, bias)
    return made
