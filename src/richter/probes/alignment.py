"""Alignment of consecutive weight layers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from richter.maths.layer_pairs import alignment_of
from richter.probes.pairs import PairValues, pair_name, reasons, structure
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn


def layer_alignment(model: nn.Module, batch: Any = None) -> PairValues:
    r"""$\zeta=\|UW\|_F/(\|U\|_F\|W\|_F)$ of every two consecutive weight layers (XU24 Fig. 2), 0 to 1.

    It has no sign; XU24's signed alignment in the data's direction is `WideScalar`'s. What stands between the two
    layers (activations, normalisation, pooling) is not part of ζ and is listed in `between`; biases do not enter.
    Independent layers have ζ ≈ 1/√hidden, not 0. Convolutions are matched over channels: W as output channels ×
    rest, U as rest × input channels. Pairs that a residual sum, attention, a slice or a permutation separates are in
    `excluded`, with the reason; blocks whose weights cannot be seen are in `opaque`.

    Args:
        model: a torch model; it is left as it was.
        batch: inputs, of which two are used to see the order of execution. Without it zeros are tried.

    Returns:
        a mapping (first, second) → ζ with the attributes `between`, `excluded`, `opaque`.
    """
    found = structure(model, batch)
    made = {}
    for pair in found.pairs:
        W, A = pair.matched(pair.first.value, pair.second.value)
        made[pair.names] = alignment_of(A, W)
    return PairValues(made, {pair.names: pair.between for pair in found.pairs}, found.excluded, found.opaque)


@dataclass(frozen=True)
class AlignmentProbe(AbstractProbe):
    """`layer_alignment` along a run."""

    name: ClassVar[str] = "layer_alignment"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable(
            "layer_alignment", ("pair",), "‖UW‖/(‖U‖‖W‖) of consecutive layers", "observable", "ζ", "a layer is 0"
        ),
    )

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """Layers in a row."""
        return "" if structure(model, batch).pairs else "two weight layers, the second of which reads the first"

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """Only which pairs are out of scope."""
        return Snapshot(notes=reasons(structure(model, batch).excluded))

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """ζ per pair now."""
        return {"layer_alignment": {pair_name(pair): zeta for pair, zeta in layer_alignment(model, batch).items()}}
