"""When a run is looked at."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.probes.moments import AbstractMoments, AnyOf, GivenSteps, LogSpaced, LossLevels, Past, log_moments, rule


def _seen(moments: AbstractMoments, steps: Iterable[int], losses: Iterable[float] | None = None) -> list[int]:
    """The steps at which a loop that looks whenever it is due would look."""
    past, found = Past(), []
    values = [math.nan] * 10**6 if losses is None else list(losses)
    for step, loss in zip(steps, values, strict=False):
        due = moments.due(step, loss, past)
        first = loss if math.isnan(past.first_loss) else past.first_loss
        past = Past(step if due else past.step, first, min(past.lowest_loss, loss) if due else past.lowest_loss)
        found += [step] if due else []
    return found


@pytest.mark.parametrize("per_decade", [1, 2.5, 6, 30])
def test_log_spaced_steps_are_the_powers_rounded(per_decade: float) -> None:
    wanted = {0, *(round(10 ** (k / per_decade)) for k in range(int(4 * per_decade) + 1))}
    assert _seen(LogSpaced(per_decade), range(10_001)) == sorted(wanted)
    assert {0, 1, 100, 10_000} <= wanted


def test_a_moment_that_was_passed_over_is_made_up_for_once() -> None:
    assert _seen(LogSpaced(1), [0, 7, 8, 99, 150, 160, 999, 1000]) == [0, 7, 99, 150, 1000]
    assert _seen(GivenSteps((3, 5, 5, 20)), [0, 4, 6, 7, 19, 25, 26]) == [4, 6, 25]
    assert _seen(GivenSteps(()), range(9)) == []


def test_loss_levels_are_crossed_once_each() -> None:
    losses = 8.0 * 0.9 ** np.arange(60)
    found = _seen(LossLevels(2.0), range(60), losses)
    below = [int(np.argmax(losses <= 8 / 2**k * (1 + 1e-9))) for k in range(1, 9)]
    assert found == below
    # A noisy loss does not cross a level twice; 0 is below all; NaN and an endless loss are no level.
    assert _seen(LossLevels(), range(9), [4, 3, 1.9, 5, 1.9, 0.9, math.inf, 0, 0]) == [2, 5, 7]
    assert _seen(LossLevels(), range(3), [math.nan] * 3) == []


def test_the_default_is_both() -> None:
    both = rule(None)
    assert isinstance(both, AnyOf)
    spaced = set(_seen(LogSpaced(), range(100)))
    losses = np.where(np.arange(100) < 90, 1.0, 0.3)
    assert set(_seen(both, range(100), losses)) == spaced | {90}
    assert set(_seen(rule(None, 500), range(501))) == set(log_moments(500))
    assert _seen(rule(4, 27), range(28)) == [0, 1, 5, 27]
    assert _seen(rule([9, 2]), range(20)) == [2, 9] == _seen(rule([9, 2], 5), range(20))
    assert rule(both) is both


def test_wrong_moments_are_one_line() -> None:
    with pytest.raises(ParameterError, match=r"a number of `moments` must come with the number of steps\. Got 5\."):
        rule(5)
    with pytest.raises(ParameterError, match=r"each of `moments` must be a whole number ≥ 0\. Got -1\."):
        rule([-1])
    with pytest.raises(ParameterError, match=r"`per_decade` of LogSpaced must be finite and > 0\. Got 0\."):
        LogSpaced(0)
    with pytest.raises(ParameterError, match=r"`factor` of LossLevels must be finite and > 1\. Got 1\."):
        LossLevels(1)
