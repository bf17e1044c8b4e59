"""Work for an executor, tried again when it fails and kept apart when a worker dies.

When a pool breaks, every batch under way is lost and any of them may have been the cause. None is blamed: each is
computed again alone, and only one that breaks a worker by itself has used up an attempt.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Mapping
from concurrent.futures import FIRST_COMPLETED, BrokenExecutor, CancelledError, Future, wait
from typing import Any, TypeVar

from richter.errors import UnfinishedError
from richter.sweep.engines import AbstractEngine
from richter.sweep.task import Problem

ATTEMPTS = 3
DIED = (
    "its worker process died: killed by the system, out of memory, or a crash in a library. (A script that sweeps "
    'must do so under `if __name__ == "__main__":`.)'
)
T = TypeVar("T")
R = TypeVar("R")


def dispatch(
    work: Callable[[T], R | Problem],
    tasks: Mapping[int, T],
    engine: AbstractEngine,
    done: Callable[[int, R], None],
    attempts: int = ATTEMPTS,
) -> dict[int, Problem]:
    """Do all tasks in an open engine, tell each result once to `done`, and return the tasks that failed for good."""
    waiting, alone = deque(tasks), deque[int]()
    tried: Counter[int] = Counter()
    failed: dict[int, Problem] = {}
    running: dict[Future[Any], int] = {}
    apart = False  # whether the one under way is computed alone

    def blame(key: int, problem: Problem) -> None:
        tried[key] += 1
        if problem.again and tried[key] < attempts:
            waiting.append(key)
        else:
            failed[key] = problem.after(tried[key])

    def fill() -> bool:
        """Submit what may be under way now; False if the executor turns out to be broken."""
        nonlocal apart
        while waiting or alone:
            if running and (apart or alone or len(running) >= engine.width()):
                break
            source = alone or waiting
            try:
                future = engine.executor.submit(work, tasks[source[0]])
            except BrokenExecutor:
                return False
            running[future], apart = source.popleft(), source is alone
        return True

    try:
        while waiting or alone or running:
            whole = fill()
            ready, _ = wait(running, timeout=1.0, return_when=FIRST_COMPLETED)
            died: list[int] = []
            finished: list[tuple[int, R]] = []
            if not whole or any(_broke(future) for future in ready):
                ready, _ = wait(running)  # a broken pool ends all that it was given
            for future in ready:
                key = running.pop(future)
                try:
                    outcome = future.result()
                except BrokenExecutor:
                    died.append(key)
                except CancelledError:
                    raise UnfinishedError("The executor dropped its work: it was closed or lost.") from None
                except Exception as problem:  # it did not travel, or the cluster gave up
                    blame(key, Problem.of(problem))
                else:
                    if isinstance(outcome, Problem):
                        blame(key, outcome)
                    else:
                        finished.append((key, outcome))
            if len(died) == 1:
                blame(died[0], Problem(DIED))
            alone.extend(died if len(died) > 1 else [])
            if died or not whole:
                engine.renew()
            fill()  # let nobody wait while the results are written
            for key, result in finished:
                done(key, result)
    finally:
        for future in running:
            future.cancel()
    return failed


def _broke(future: Future[Any]) -> bool:
    return not future.cancelled() and isinstance(future.exception(), BrokenExecutor)
