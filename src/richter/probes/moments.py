"""When to look at a training run: at steps spread in the logarithm, and when the loss has fallen to a new level."""

from __future__ import annotations

import abc
import bisect
import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from richter.errors import ParameterError, message
from richter.params import count


@dataclass(frozen=True)
class Past:
    """What the choice of a moment may know: the last step looked at, the first loss, the lowest loss at a look."""

    step: int = -1
    first_loss: float = math.nan
    lowest_loss: float = math.inf


class AbstractMoments(abc.ABC):
    """A rule that says at which steps to look; it remembers nothing itself."""

    @abc.abstractmethod
    def due(self, step: int, loss: float, past: Past) -> bool:
        """Whether to look at this step, whose loss is NaN if none is known."""


@dataclass(frozen=True)
class LogSpaced(AbstractMoments):
    """Step 0 and so many steps per factor of ten, without an end.

    >>> [step for step in range(200) if LogSpaced(4).due(step, math.nan, Past(step - 1))]
    [0, 1, 2, 3, 6, 10, 18, 32, 56, 100, 178]
    """

    per_decade: float = 6.0

    def __post_init__(self) -> None:
        """Check the number."""
        if not (math.isfinite(self.per_decade) and self.per_decade > 0):
            raise ParameterError(message("`per_decade` of LogSpaced", "be finite and > 0", self.per_decade))

    def due(self, step: int, loss: float, past: Past) -> bool:
        """Whether a chosen step lies after the last look, up to this one."""
        return self._reached(step) > past.step

    def _reached(self, step: int) -> int:
        """The last chosen step up to this one."""
        if step <= 0:
            return step
        k = math.floor(self.per_decade * math.log10(step) + 1e-9)  # 10³ is not to be missed by rounding
        near = (round(10 ** (j / self.per_decade)) for j in (k, k + 1))
        return max(chosen for chosen in near if chosen <= step)


@dataclass(frozen=True)
class GivenSteps(AbstractMoments):
    """The steps of a list; one that was passed over is made up for at the next step seen.

    >>> [step for step in (0, 2, 4) if GivenSteps((0, 3)).due(step, math.nan, Past(step - 2))]
    [0, 4]
    """

    steps: tuple[int, ...]

    def due(self, step: int, loss: float, past: Past) -> bool:
        """Whether a listed step lies after the last look, up to this one."""
        return bisect.bisect(self.steps, step) > bisect.bisect(self.steps, past.step)


@dataclass(frozen=True)
class LossLevels(AbstractMoments):
    """Whenever the loss has fallen below another `factor` of the first one; needs the loss of every step.

    A level is taken from the loss as it is given: that of a small batch reaches it by luck before the mean does.

    >>> LossLevels().due(7, 0.24, Past(6, first_loss=1.0, lowest_loss=0.26))
    True
    """

    factor: float = 2.0

    def __post_init__(self) -> None:
        """Check the factor."""
        if not (math.isfinite(self.factor) and self.factor > 1):
            raise ParameterError(message("`factor` of LossLevels", "be finite and > 1", self.factor))

    def due(self, step: int, loss: float, past: Past) -> bool:
        """Whether this loss is at a lower level than that of any look before."""
        if not (past.first_loss > 0 and 0 < loss < past.lowest_loss):
            return loss == 0 < past.lowest_loss
        return self._level(past.first_loss, loss) > self._level(past.first_loss, min(past.lowest_loss, past.first_loss))

    def _level(self, first: float, loss: float) -> int:
        return math.floor(math.log(first / loss) / math.log(self.factor) + 1e-9)


@dataclass(frozen=True)
class AnyOf(AbstractMoments):
    """Whenever one of several rules says so."""

    rules: tuple[AbstractMoments, ...]

    def due(self, step: int, loss: float, past: Past) -> bool:
        """Whether any rule is due."""
        return any(rule.due(step, loss, past) for rule in self.rules)


def rule(moments: AbstractMoments | Iterable[int] | int | None, steps: int | None = None) -> AbstractMoments:
    """The rule that a caller means: itself, listed steps, a number of them, or the default.

    The default is log-spaced steps, 30 of them if it is known how many there are in all, and loss levels.
    """
    if isinstance(moments, AbstractMoments):
        return moments
    if isinstance(moments, int) and steps is None:
        do = "Give steps=…, or name the moments."
        raise ParameterError(message("a number of `moments`", "come with the number of steps", moments, do))
    if moments is None:
        spread = LogSpaced() if steps is None else GivenSteps(log_moments(steps))
        return AnyOf((spread, LossLevels()))
    return GivenSteps(chosen(moments, steps if isinstance(moments, int) else None))


def log_moments(steps: int, number: int = 30) -> tuple[int, ...]:
    """At most `number` steps from 0 to `steps`, both among them, evenly spread in the logarithm.

    >>> log_moments(100, 5)
    (0, 1, 5, 22, 100)
    """
    count("`steps`", steps, 0)
    count("`number`", number, 2)
    if steps == 0:
        return (0,)
    spread = np.geomspace(1, steps, number - 1) if number > 2 else np.array([steps])
    return tuple(sorted({0, steps, *(int(round(s)) for s in spread)}))


def chosen(moments: Iterable[int] | int | None, steps: int | None) -> tuple[int, ...]:
    """The moments as sorted steps: given ones, a number of them, or the default 30."""
    if moments is None or isinstance(moments, int):
        return log_moments(steps or 0, 30 if moments is None else count("`moments`", moments, 2))
    made = sorted({count("each of `moments`", step, 0) for step in moments})
    if made and steps is not None and made[-1] > steps:
        raise ParameterError(message("each of `moments`", f"be at most {steps}, the last step", made[-1]))
    return tuple(made)
