"""Neural collapse, NC1 to NC4, of features, per layer when several are given."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
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
from richter.probes.activations import last_layer, one_pass
from richter.probes.observe import numbers
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn


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


@dataclass(frozen=True)
class Collapse(AbstractProbe):
    """`neural_collapse` along a run, of what a layer gives or, without one, of what the last layer reads.

    Without a layer the last one's weight is compared too (NC3, NC4), if it is a linear layer with a row per class.
    """

    layer: str | None = None

    name: ClassVar[str] = "neural_collapse"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("within_over_between", (), "NC1, Tr(Σ_W Σ_B⁺)/C", undefined_when="all class means agree"),
        Variable("within_quotient", (), "NC1 by traces, Tr Σ_W/Tr Σ_B", undefined_when="all class means agree"),
        Variable("within_times_between", (), "Tr(Σ_W Σ_B)/(Tr Σ_B)²", undefined_when="all class means agree"),
        Variable("equinorm", (), "NC2, spread of the lengths of the class means", undefined_when="they are all 0"),
        Variable("equiangle", (), "NC2, largest |cos + 1/(C − 1)|", undefined_when="a class mean is at the centre"),
        Variable("duality", (), "NC3, largest gap between a class's weight and mean", undefined_when="no such layer"),
        Variable("disagreement", (), "NC4, share not in the class of the nearest mean", undefined_when="no such layer"),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Labels of at least two classes, and a layer."""
        y = batch[1]
        if y is None or y.is_floating_point() or y.ndim != 1 or len(y) != len(batch[0]):
            return "a whole number per example as its class"
        if len(y.unique()) < 2:
            return "examples of at least two classes"
        return "" if self.layer or last_layer(model, batch[0], required=False) else "a last layer that is one module"

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """The imbalance of the classes, which does not change."""
        counts = batch[1].unique(return_counts=True)[1]
        notes = {"layer": self.layer or "last", "imbalance": f"{float(counts.max() / counts.min()):g}"}
        return Snapshot(notes=notes)

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """NC1 to NC4 now."""
        labels = batch[1].cpu().numpy()
        passed = one_pass(model, batch, self.layer)
        phi = passed.features
        shape = np.unique(labels).size, phi.shape[1]
        weight, bias = (None, None) if self.layer else self._last(model, batch, shape)
        made = neural_collapse(phi, labels, weight, bias)
        return {v.name: float(made.get(v.name, np.nan)) for v in self.variables}

    def _last(self, model: nn.Module, batch: Any, shape: tuple[int, int]) -> tuple[Any, Any]:
        """The last layer's weight and bias, if there is a row per class and a column per feature."""
        last = model.get_submodule(last_layer(model, batch[0]))
        weight, bias = getattr(last, "weight", None), getattr(last, "bias", None)
        if weight is None or tuple(weight.shape) != shape:
            return None, None
        return numbers(weight, "the last layer's weight"), None if bias is None else numbers(bias, "its bias")
