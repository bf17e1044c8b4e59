"""How far a sweep is and how long it will still take, from what was measured in this session."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field


@dataclass
class Pace:
    """Cells done against all; cells that were there before this session do not count as speed."""

    total: int
    before: int = 0
    clock: Callable[[], float] = time.monotonic
    done: int = field(init=False)
    begun: float = field(init=False)

    def __post_init__(self) -> None:
        """The clock starts."""
        self.done, self.begun = self.before, self.clock()

    def add(self, cells: int) -> None:
        """Some more cells are done."""
        self.done += cells

    @property
    def share(self) -> float:
        """The share that is done."""
        return self.done / self.total

    @property
    def left(self) -> float | None:
        """Seconds still to go at the speed of this session; None while nothing was measured."""
        fresh = self.done - self.before
        return (self.clock() - self.begun) / fresh * (self.total - self.done) if fresh else None

    @property
    def words(self) -> str:
        """One line.

        >>> Pace(10, before=4).words
        '4 of 10 cells'
        """
        left = self.left
        return f"{self.done} of {self.total} cells" + ("" if left is None else f", {duration(left)} left")


def duration(seconds: float) -> str:
    """A time in words.

    >>> [duration(s) for s in (0.0123, 4.56, 75, 200, 5400, 200000)]
    ['12 ms', '4.6 s', '75 s', '3.3 min', '90 min', '56 h']
    """
    if seconds < 1:
        return f"{1000 * seconds:.0f} ms"
    size, unit = (1, "s") if seconds < 120 else (60, "min") if seconds < 7200 else (3600, "h")
    value = seconds / size
    return f"{value:.1f} {unit}" if value < 10 else f"{value:.0f} {unit}"
