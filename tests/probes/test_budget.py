"""The share of the time that watching takes, with a clock that the test turns."""

from __future__ import annotations

import pytest

from richter.probes.budget import LEDGER, Budget


class _Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def _run(share: float | None, look: float, seconds: float, step: float = 0.01, ask: bool = True) -> tuple[Budget, int]:
    """A run whose every step asks for a look; start, looks and end all cost `look`."""
    clock = _Clock()
    budget, looks = Budget(share, clock), 0

    def spend() -> None:
        with budget.spending(), budget.cost_of("all"):
            clock.now += look

    spend()
    budget.first = budget.spent
    for _ in range(int(seconds / step)):
        clock.now += step
        if ask and budget.affords("all", held_back=look):
            spend()
            looks += 1
    spend()
    return budget, looks


@pytest.mark.parametrize("look", [0.001, 0.05, 0.3])
@pytest.mark.parametrize("seconds", [30, 100])
def test_from_thirty_seconds_on_the_share_is_kept_and_used(look: float, seconds: float) -> None:
    budget, looks = _run(0.05, look, seconds)
    assert budget.overhead <= 0.05 * (1 + 1e-9)
    # It is used up, as far as it can be by whole looks.
    assert looks >= 0.05 * seconds / look - 4
    assert budget.spent == pytest.approx((looks + 2) * look)
    assert budget.trained == pytest.approx(seconds)


def test_a_start_that_costs_more_than_the_share_leaves_nothing_between() -> None:
    budget, looks = _run(0.05, 5.0, 30)
    assert looks == 0 and budget.overhead == pytest.approx(1 / 3)


def test_early_looks_are_granted_in_advance_but_not_all_of_them() -> None:
    _, early = _run(0.05, 0.02, 1)
    _, whole = _run(0.05, 0.02, 30)
    assert 15 < early < 0.45 * whole
    # However dear the start is, some of what it leaves is granted at once.
    clock = _Clock()
    budget = Budget(0.05, clock, first=1.2)
    with budget.spending():
        clock.now += 1.2
    with budget.cost_of("all"):
        clock.now += 0.02
    assert budget.affords("all", held_back=0.1) and not budget.affords("all", held_back=0.26)
    clock.now += 10
    assert budget.affords("all", held_back=0.26)


def test_without_a_share_there_is_no_limit() -> None:
    budget, looks = _run(None, 1.0, 1)
    assert looks == 100 and budget.stride(10, "all") == 1


def test_nested_time_is_counted_once_and_a_cost_is_forgotten_by_halves() -> None:
    clock = _Clock()
    budget = Budget(0.1, clock)
    with budget.spending():
        clock.now += 1
        with budget.spending(), budget.cost_of("x"):
            clock.now += 2
        assert budget.spent == 3 and budget.trained == 0
    clock.now += 7
    assert budget.spent == 3 and budget.trained == 7 and budget.overhead == pytest.approx(3 / 7)
    with budget.cost_of("x"):
        clock.now += 0.5
    assert budget.costs == {"x": 1.0} and budget.totals == {"x": 2.5}
    with pytest.raises(ZeroDivisionError), budget.spending(), budget.cost_of("x"):
        clock.now += 4
        raise ZeroDivisionError
    assert budget.spent == 7 and budget.costs["x"] == 4


def test_a_part_of_the_share_is_a_limit_of_its_own() -> None:
    clock = _Clock()
    budget = Budget(0.1, clock)
    clock.now += 30  # grants 3 s
    assert budget.affords("save", part=0.2)
    with budget.spending(), budget.cost_of("save"):
        clock.now += 0.35
    assert not budget.affords("save", part=0.2) and budget.affords("save")


def test_the_stride_keeps_gradients_within_their_part() -> None:
    clock = _Clock()
    budget = Budget(0.05, clock)
    with budget.spending(), budget.cost_of("gradients"):
        clock.now += 0.0011
    clock.now += 2.0  # 100 steps of 20 ms
    stride = budget.stride(100, "gradients")
    assert 0.0011 / stride <= LEDGER * 0.05 * 0.02 < 0.0011 / (stride - 1)
    assert budget.stride(0, "gradients") == 1 == budget.stride(100, "unknown")
