"""An advice: ranked options, each with what is expected, measured and paid for it."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from richter.advice.pilot import Outcome
from richter.advice.prediction import Prediction

if TYPE_CHECKING:
    from torch import nn

    from richter.moves import AbstractMove

COSTS = ("the function is kept", "outputs, inputs or targets are in other units", "it starts from another function",
         "memory, time, or the features themselves")  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """What is foreseen: the kernel's movement under the move, and what it would be without.

    `theory` it comes from; `holds`: whether its assumptions hold here, and if not, `assumes` says what is missing.
    """

    movement: float
    before: float
    ratio: float
    turn: float
    label: str
    reaches: bool
    theory: str
    holds: bool
    assumes: str


@dataclass(frozen=True)
class Option:
    """A move for the goal.

    `moves` in a row, `code`: as they are typed. `keeps`: what stays. `exact`: whether the function is kept up to
    rounding; `change`: by how much of its largest output it changed on the data. `rate`, `rates`, `targets`: factors on
    the learning rate, on that of single layers, and on the targets. `cost`: 0 to 3, and `pays` in words. `measured`: by
    the pilot.
    """

    rank: int
    lever: str
    moves: tuple[AbstractMove, ...]
    code: str
    says: str
    place: str
    keeps: str
    exact: bool
    change: float
    rate: float
    rates: dict[str, float]
    targets: float
    cost: int
    pays: str
    expected: Expected | None
    measured: Outcome | None
    snippet: str
    notes: tuple[str, ...] = ()

    def apply(self, model: nn.Module, x: Any) -> nn.Module:
        """Do it: the network to go on with, the same object unless a move wraps it."""
        for move in self.moves:
            model = move.apply(model, x).model
        return model

    def plain(self) -> dict[str, object]:
        """As plain data, for JSON."""
        made: dict[str, object] = {name: value for name, value in vars(self).items() if name != "moves"}
        made["expected"] = None if self.expected is None else {k: _number(v) for k, v in vars(self.expected).items()}
        made["measured"] = None if self.measured is None else self.measured.plain()
        return {**made, "change": _number(self.change), "notes": list(self.notes)}

    def __str__(self) -> str:
        lines = [f"{self.rank}. {self.code}", f"   why: {self.says} [{self.place}]"]
        if self.expected is not None:
            e = self.expected
            holds = "holds here" if e.holds else f"does not hold here: {e.assumes}"
            told = f"the kernel moves by {e.movement:.3g} instead of {e.before:.3g} ({_times(e.ratio)}, {e.label})"
            told = told if math.isfinite(e.movement) else f"the {e.label} phase"
            lines += [f"   expected: {told} [{e.theory}; {holds}]"]
        if self.measured is not None:
            m = self.measured
            got = "reaches the goal" if m.reached else "does not reach the goal"
            end = f"1 − cosine {m.turn:.2g}, loss {m.loss:.4g}, layer alignment {m.alignment:.2f}"
            end = end if math.isfinite(m.loss) else "how it moves at several widths"
            told = f"{m.movement:.3g} instead of {m.before:.3g} ({_times(m.ratio)})"
            lines += [f"   pilot: {told} {m.says}; {end}: {got}"]
        lines += [f"   keeps: {self.keeps}", f"   costs: {self.pays}"]
        return "\n".join([*lines, *(f"   {note}" for note in self.notes)])


@dataclass(frozen=True, repr=False)
class Advice:
    """What to change for a goal, best first.

    `start`: what theory says about the network as it is. `rate`: the learning rate that the options' factors are of.
    `refused`: levers that do not apply, and why. `pilot`: what
    was tried and how, if it was.
    """

    goal: str
    means: str
    start: Prediction
    rate: float
    options: tuple[Option, ...]
    refused: dict[str, str]
    pilot: dict[str, object] | None
    notes: tuple[str, ...]

    @property
    def best(self) -> Option:
        """The first option."""
        return self.options[0]

    @property
    def snippet(self) -> str:
        """Code for the first option."""
        return self.best.snippet

    def plain(self) -> dict[str, Any]:
        """As plain data."""
        return {
            "schema": 1, "goal": self.goal, "means": self.means, "start": self.start.plain(),
            "rate": self.rate,
            "options": [option.plain() for option in self.options], "refused": dict(self.refused),
            "pilot": self.pilot, "notes": list(self.notes), "snippet": self.snippet,
        }  # fmt: skip

    def to_json(self) -> str:
        """As JSON, strict: what is not finite is null."""
        return json.dumps(self.plain(), ensure_ascii=False, allow_nan=False)

    def table(self) -> str:
        """One line per option."""
        head = ("", "move", "expected", "pilot", "function", "rate ×", "reaches")
        rows = [head, *(_row(option) for option in self.options)]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        return "\n".join("  ".join(c.ljust(w) for c, w in zip(row, widths, strict=True)).rstrip() for row in rows)

    def __str__(self) -> str:
        lines = [f"goal: {self.goal}: {self.means}", *self.notes, "", self.table(), "", str(self.best)]
        if self.refused:
            lines += ["", "does not apply:", *(f"  {name}: {why}" for name, why in self.refused.items())]
        return "\n".join([*lines, "", self.snippet])

    def __repr__(self) -> str:
        return str(self)


def _row(option: Option) -> tuple[str, ...]:
    e, m = option.expected, option.measured
    expected = "" if e is None else _times(e.ratio) if math.isfinite(e.movement) else e.label
    kept = "kept" if option.exact else "?" if math.isnan(option.change) else f"changes {option.change:.2g}"
    judged = m.reached if m is not None else e is not None and e.reaches
    return (
        str(option.rank), show_code(option.code), expected, "" if m is None else _times(m.ratio), kept,
        f"{option.rate:.3g}", "yes" if judged else "no",
    )  # fmt: skip


def show_code(code: str, width: int = 64) -> str:
    """The moves, cut to the width of a column."""
    return code if len(code) <= width else f"{code[: width - 1]}…"


def _times(ratio: float) -> str:
    return "× ?" if math.isnan(ratio) else f"× {ratio:.3g}" if ratio < 1e4 else "× > 10⁴"


def _number(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value
