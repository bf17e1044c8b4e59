"""How much of a run's time the watching may take, and what it took."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

HORIZON = 30.0  # seconds of training from which on the share holds
ADVANCE = 1 / 3  # of what is left for the looks by then is granted at once, because the early steps matter most
LEDGER = 0.2  # of the share goes at most to the gradients that are seen between two looks
SAVING = 0.2  # and this much to writing the file before the end


@dataclass
class Budget:
    """Seconds spent on watching, out of a share of the seconds of training; a share of None is no limit.

    What the start of a run costs, libraries loaded for it included, and what its end will cost is always spent; a
    look in between has to fit. From 30 s of training on the whole costs at most the share, unless the start and the
    end alone cost more. Before, what will be left for the looks by then is granted bit by bit, a third of it at once.
    """

    share: float | None = 0.05
    clock: Callable[[], float] = time.perf_counter
    before: float = 0.0  # seconds spent up to the look that is going on
    costs: dict[str, float] = field(default_factory=dict)  # name → seconds it will take, by what it took
    totals: dict[str, float] = field(default_factory=dict)  # name → seconds that it took in all
    first: float = 0.0  # seconds that the start took
    began: float = field(init=False)
    since: float | None = field(default=None, init=False)  # when the look that is going on began

    def __post_init__(self) -> None:
        """Start the clock."""
        self.begin()

    def begin(self) -> None:
        """Start the clock, again."""
        self.began = self.clock()

    @contextmanager
    def spending(self) -> Iterator[None]:
        """Time spent on watching; what is nested is counted once."""
        if self.since is not None:
            yield
            return
        self.since = self.clock()
        try:
            yield
        finally:
            self.before, self.since = self.spent, None

    @contextmanager
    def cost_of(self, name: str) -> Iterator[None]:
        """Learn what one item costs: the last time, or half the time before if that is more."""
        start = self.clock()
        try:
            yield
        finally:
            took = self.clock() - start
            self.costs[name] = max(took, self.costs.get(name, 0.0) / 2)
            self.totals[name] = self.totals.get(name, 0.0) + took

    @property
    def spent(self) -> float:
        """Seconds spent on watching so far."""
        return self.before + (0.0 if self.since is None else self.clock() - self.since)

    @property
    def trained(self) -> float:
        """Seconds since the start that were not spent on watching."""
        return max(self.clock() - self.began - self.spent, 0.0)

    @property
    def overhead(self) -> float:
        """(seconds with watching)/(seconds without) − 1 so far."""
        trained = self.trained
        return self.spent / trained if trained > 0 else float("nan")

    def affords(self, name: str, held_back: float = 0.0, part: float = 1.0) -> bool:
        """Whether one more of `name` fits now, into its part too, with some seconds held back for the end."""
        if self.share is None:
            return True
        cost = self.costs.get(name, 0.0)
        granted = self._granted(held_back)
        return self.spent + cost + held_back <= granted and self.totals.get(name, 0.0) + cost <= part * granted

    def _granted(self, held_back: float) -> float:
        """Seconds that may have been spent by now, the start and the end among them."""
        share, trained = self.share or 0.0, self.trained
        fixed = self.first + held_back
        room = share * HORIZON - fixed
        if trained >= HORIZON or room <= 0:
            return share * trained
        return max(share * trained, fixed + room * (ADVANCE + (1 - ADVANCE) * trained / HORIZON))

    def stride(self, steps: int, name: str) -> int:
        """Every how many steps an item may be repeated that has a small part of the share to itself."""
        cost, trained = self.costs.get(name, 0.0), self.trained
        if self.share is None or not (cost and steps and trained):
            return 1
        return max(1, -int(-cost * steps // (LEDGER * self.share * trained)))
