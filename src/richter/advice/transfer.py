"""The pilot for transfer across width: networks of several widths under each rule, and what goes with the width."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from richter.advice.levers import Candidate
from richter.advice.pilot import Outcome, failed
from richter.errors import ParameterError, RichterError, message

if TYPE_CHECKING:
    from torch import Tensor, nn

    from richter.moves import Record

Wide = Callable[[int, int], "nn.Module"]
WIDTHS = (32, 64, 128, 256)
STEPS = 10
SEEDS = 2


def across(
    wide: Wide,
    candidates: Sequence[Candidate],
    data: tuple[Tensor, Tensor],
    *,
    loss: str,
    optimiser: str,
    rate: float,
    factors: Sequence[float],
    steps: int | None = None,
    tell: Callable[[int], None] = lambda done: None,
) -> list[Outcome]:
    """Every candidate's largest power of the width, of the output's movement or the hidden values', against none's."""
    x, y = data
    options: dict[str, Any] = {"widths": WIDTHS, "steps": steps or STEPS, "seeds": SEEDS, "loss": loss}
    options |= {"optimiser": optimiser}
    base = _powers(partial(built, wide), (x, y), rate=rate, **options)
    tell(1)
    made = []
    for k, (candidate, factor) in enumerate(zip(candidates, factors, strict=True), 2):
        try:
            make = partial(_moved, candidate, wide, x)
            moved = _powers(make, (x, y), rate=rate * factor, **options)
            made.append(_outcome(moved, base))
        except (RichterError, RuntimeError) as problem:
            made.append(failed(problem))
        tell(k)
    return made


def built(wide: Wide, width: int, seed: int) -> nn.Module:
    """A network of a width."""
    from torch import nn

    net = wide(width, seed)
    if not isinstance(net, nn.Module):
        must = "be torch models, one for every (width, seed)"
        raise ParameterError(message("what `wide` builds", must, type(net).__name__))
    return net


def _moved(candidate: Candidate, wide: Wide, x: Tensor, width: int, seed: int) -> Record:
    return candidate.apply(built(wide, width, seed), x)[-1]


def _powers(make: Callable[[int, int], Any], data: tuple[Tensor, Tensor], **options: Any) -> tuple[str, float]:
    from richter.moves import width_check, width_verdict

    found = width_verdict(width_check(make, data, **options))
    powers = [item.value for item in found.evidence.values()]
    return str(found.label), max((p for p in powers if math.isfinite(p)), key=abs, default=math.nan)


def _outcome(moved: tuple[str, float], base: tuple[str, float]) -> Outcome:
    says = f"in the width's power, {moved[0]} from {WIDTHS[0]} to {WIDTHS[-1]}; as it is: {base[0]}"
    after, before = abs(moved[1]), abs(base[1])
    ratio = (after + 1e-9) / (before + 1e-9)
    reached = moved[0] == "feature-learning"
    return Outcome(after, before, ratio, math.nan, math.nan, math.nan, moved[0] != "unstable", reached, says)
