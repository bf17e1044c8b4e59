"""The probes that a watched run is measured with, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.probes.alignment import AlignmentProbe
from richter.probes.balance import Balance
from richter.probes.collapse import Collapse
from richter.probes.features import FeatureSpectrum
from richter.probes.kernel_movement import FullKernelMovement, TraceKernelMovement
from richter.probes.losses import Loss, Output
from richter.probes.movement import ActivationMovement, ParameterMovement, RepresentationMovement
from richter.probes.probe import AbstractProbe
from richter.regime import RESAMPLES

KERNELS: dict[str, type[FullKernelMovement] | type[TraceKernelMovement]] = {
    "full": FullKernelMovement,
    "trace": TraceKernelMovement,
}
POINTS = 32  # examples of the kernel
LARGEST = {"full": 2048, "trace": 32_768}  # outputs of these examples together; of the full kernel it is a side


def kernel_probe(
    kind: str, rates: Mapping[str, float] | float, loss: Any, points: int | None = POINTS, draws: int = RESAMPLES
) -> AbstractProbe:
    """The movement of a kernel of this kind, of the first `points` examples and of resamples of them."""
    if kind not in KERNELS:
        raise ParameterError(message("`kernel`", f"be one of auto, {', '.join(KERNELS)}, or None", kind))
    made = KERNELS[kind]
    return made(
        rates=None if isinstance(rates, (int, float)) else rates, draws=draws, points=points, largest=LARGEST[kind],
        loss=loss if isinstance(loss, str) else None if loss is None else "a function",
    )  # fmt: skip


def kernel_kind(outputs: int, examples: int) -> str:
    """The full kernel where it is small enough, else its trace.

    >>> kernel_kind(10, 32), kernel_kind(100, 32)
    ('full', 'trace')
    """
    return "full" if outputs * examples <= LARGEST["full"] else "trace"


def standard(
    loss: str | Callable[[Any, Any], Any] | None = None,
    rates: Mapping[str, float] | float = 1.0,
    layer: str | None = None,
) -> dict[str, AbstractProbe]:
    """Every probe by its name.

    >>> list(standard())[:4]
    ['loss', 'output', 'parameter_distance', 'hamming_distance']
    """
    made: list[AbstractProbe] = [
        Loss(loss),
        Output(),
        ParameterMovement(),
        ActivationMovement(),
        RepresentationMovement(layer),
        AlignmentProbe(),
        Balance(rates),
        FeatureSpectrum(layer),
        Collapse(layer),
    ]
    return {probe.name: probe for probe in made}


def chosen_probes(
    measure: Iterable[str | AbstractProbe] | None, known: Mapping[str, AbstractProbe]
) -> list[AbstractProbe]:
    """The probes that a caller names or brings along; all that are known for None."""
    if measure is None:
        return list(known.values())
    if isinstance(measure, str):
        raise ParameterError(message("`measure`", "be a list of names and probes", measure, f"Use [{measure!r}]."))
    made = []
    for item in measure:
        if isinstance(item, AbstractProbe):
            made.append(item)
        elif item in known:
            made.append(known[item])
        else:
            raise UnknownNameError(f"No probe named `{item}`. {nearest(str(item), list(known))}")
    return made
