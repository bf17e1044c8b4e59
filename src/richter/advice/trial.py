"""A candidate tried on paper: the moves applied to a copy, and where the new start's kernel would carry it."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from richter.advice.forecast import EXAMPLES, Forecast, copied, examples, forecast
from richter.advice.levers import Candidate
from richter.advice.norms import settle
from richter.errors import RichterError
from richter.regime import LAZY_BELOW

if TYPE_CHECKING:
    from torch import Tensor, nn

TIMES = 2.0  # by how much a prediction has to change the movement to be advised
PATIENCE = 3.0  # seconds for a forecast
LARGE = 300_000  # parameters; a small network is slow only at the first call of all
FEWEST = 6  # examples of one
LEAST = 1e-9  # a movement below this is none


@dataclass(frozen=True, eq=False)
class Start:
    """The network as it is, its data, and what is foreseen for it."""

    model: nn.Module
    x: Tensor
    y: Tensor
    loss: str
    optimiser: str
    goal: str
    seen: Forecast
    number: int = EXAMPLES  # of examples that forecasts look at


@dataclass(frozen=True, eq=False)
class Trial:
    """What a candidate makes of the start.

    `model`: a copy to which it was applied. `rate`: what the learning rate is multiplied by, so that the start's kernel
    works as fast as before. `change`: of the function, relative. `movement`: of the kernel, predicted.
    """

    candidate: Candidate
    model: nn.Module
    keeps: str
    exact: bool
    change: float
    rate: float
    rates: Mapping[str, float]
    targets: float
    parameters: float
    movement: float
    turn: float
    lazy: bool
    ratio: float
    reaches: bool
    notes: tuple[str, ...] = ()


def start_of(model: nn.Module, x: Tensor, y: Tensor, loss: str, optimiser: str, goal: str) -> Start:
    """The present start and its forecast; of a large network on fewer examples, for there are many to come."""
    begun = time.monotonic()
    seen, number = forecast(model, (x, y), loss=loss, whole=len(x)), EXAMPLES
    spent = time.monotonic() - begun
    if spent > PATIENCE and sum(p.numel() for p in model.parameters()) > LARGE:
        number = max(FEWEST, int(EXAMPLES * PATIENCE / spent))
        seen = forecast(model, (x, y), loss=loss, whole=len(x), number=number)
    return Start(model, x, y, loss, optimiser, goal, seen, number)


def attempt(candidate: Candidate, start: Start) -> Trial:
    """Apply to a copy and forecast; an error if it does not apply."""
    net = copied(start.model).eval()
    x, _ = examples(net, (start.x, start.y), start.loss, start.number)
    settle(net, x)
    try:
        records = candidate.apply(net, x)
    except (RuntimeError, TypeError, KeyError, NotImplementedError) as problem:
        if isinstance(problem, RichterError):
            raise
        raise RichterError(f"it cannot be tried: {' '.join(str(problem).split())[:120]}") from None
    last = records[-1]
    targets = math.prod(r.targets for r in records)
    exact = all(r.exact for r in records)
    change = last.change if len(records) == 1 else _change(start.model, last.model, x)
    before, after = (sum(p.numel() for p in m.parameters()) for m in (start.model, last.model))
    made = Trial(
        candidate, last.model, "; ".join(dict.fromkeys(r.preserves for r in records)), exact, change, 1.0, last.rates,
        targets, after / max(before, 1), 0.0, 0.0, True, 0.0, False,
        tuple(n for r in records for n in r.notes if "Adam" not in n or start.optimiser != "sgd"),
    )  # fmt: skip
    if candidate.fixed:
        return replace(made, reaches=_reaches(start, 0.0))
    y = start.y * targets if targets != 1 else start.y
    options: dict[str, Any] = {
        "loss": start.loss, "rates": last.rates, "whole": len(start.x), "number": start.number,
    }  # fmt: skip
    seen = forecast(last.model, (start.x, y), **options)
    speed = start.seen.fastest / seen.fastest if seen.fastest > 0 else 1.0
    if start.goal == "faster-features":  # the same number of steps at the same speed
        seen = forecast(last.model, (start.x, y), **options, time=start.seen.time * speed)
    # steps of Adam do not depend on the gradient's size: J is divided by, not its square
    rate = speed if start.optimiser == "sgd" else math.sqrt(speed)
    return replace(
        made, rate=rate, movement=seen.movement, turn=seen.turn, lazy=seen.movement < LAZY_BELOW,
        ratio=seen.movement / max(start.seen.movement, LEAST), reaches=_reaches(start, seen.movement),
    )  # fmt: skip


def mildest(rungs: Iterable[Candidate], start: Start) -> Trial:
    """The mildest of a ladder that is predicted to reach the goal, else the one that comes nearest to it."""
    best: Trial | None = None
    problem: RichterError | None = None
    for candidate in rungs:
        try:
            made = attempt(candidate, start)
        except RichterError as refused:
            problem = problem or refused
            break  # a stronger one of the same kind is refused for the same reason
        if not math.isfinite(made.movement):
            break
        if best is None or better(start.goal, made.movement, best.movement):
            best = made
        if made.reaches:
            return made
    if best is None:
        raise problem or RichterError("its start is not finite")
    return best


def better(goal: str, one: float, other: float) -> bool:
    """Whether a movement is nearer to the goal than another."""
    return one < other if goal == "lazier" else one > other


def goal_movement(start: Start) -> float:
    """What the kernel's movement has to become: twice or half of what it is, and on the other side of lazy."""
    now = start.seen.movement
    return min(now / TIMES, LAZY_BELOW) if start.goal == "lazier" else max(now * TIMES, LAZY_BELOW)


def _reaches(start: Start, movement: float) -> bool:
    return not better(start.goal, goal_movement(start), movement)


def _change(before: nn.Module, after: nn.Module, x: Tensor) -> float:
    from richter.moves.around import change_between

    net = copied(before).eval()
    settle(net, x)
    return change_between(net, after.eval(), x)
