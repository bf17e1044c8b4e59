"""What a sweep would cost, from one batch that is really computed; nothing is written."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from richter.errors import UnfinishedError
from richter.sweep.driver import Dims, Engine, Work, kept
from richter.sweep.engines import AbstractEngine, engine_of
from richter.sweep.identity import made_with
from richter.sweep.pace import duration
from richter.sweep.store import MANIFEST, Store, identifier
from richter.sweep.task import Done, Task, compute

PATIENCE = 60.0  # seconds: a batch that takes longer is not measured a second time


@dataclass(frozen=True)
class Plan:
    """Cells, time, memory and disk of a sweep; the times are measured on the batch in its middle."""

    cells: int
    batches: int
    done_cells: int
    workers: int
    first_seconds: float
    batch_seconds: float
    seconds: float
    disk_bytes: int
    free_bytes: int
    worker_bytes: int

    @property
    def fits(self) -> bool:
        """Whether the disk has room."""
        return self.disk_bytes < self.free_bytes

    def words(self) -> list[str]:
        """The plan in four lines."""
        done = f", of which {self.done_cells} are done" if self.done_cells else ""
        return [
            f"cells   {self.cells} in {self.batches} batches{done}",
            f"time    {duration(self.seconds)} with {self.workers} at a time: a batch takes "
            f"{duration(self.batch_seconds)}, a worker's first {duration(self.first_seconds)}",
            f"memory  {self.worker_bytes / 1e6:.0f} MB a worker",
            f"disk    {self.disk_bytes / 1e6:.3g} MB of {self.free_bytes / 1e6:.3g} MB free"
            + ("" if self.fits else ": it does not fit"),
        ]

    def plain(self) -> dict[str, Any]:
        """The plan as plain data."""
        return {**asdict(self), "fits": self.fits}


def plan(
    function: Callable[..., Any],
    grid: Dims,
    *,
    store: str | os.PathLike[str] | None = None,
    fixed: Mapping[str, Any] | None = None,
    batch: int | None = None,
    apart: Sequence[str] = (),
    seed: int | None = None,
    engine: Engine = "process",
    workers: int | None = None,
    mixed: bool = False,
) -> Plan:
    """What `sweep` would take with the same arguments; the batch in the middle of what is missing is computed twice.

    >>> from richter.sweep.driver import divmod_of
    >>> plan(divmod_of, {"x": range(10), "y": [2, 3]}, engine="here").cells
    20
    """
    work = Work.of(function, grid, fixed, batch, apart, seed)
    place = Store(store if store is not None else ".")
    name, done = identifier(work.identity), set[int]()
    if store is not None and (place.folder / MANIFEST).exists():
        name = place.check(work.identity, made_with(work.function), mixed)
        done = set(kept(place, name, work.batches))
    missing = [number for number in range(len(work.batches)) if number not in done]
    task = work.task((missing or [0])[len(missing) // 2], name)
    chosen = engine_of(engine, workers)
    chosen.ready(task)
    with chosen:
        begin = time.perf_counter()
        one = _measure(chosen, task)
        first = time.perf_counter() - begin  # with the start of a worker and what it imports and compiles
        usual = min(one.seconds, _measure(chosen, task).seconds) if first < PATIENCE else one.seconds
        at_once = chosen.parallel()
    rounds = math.ceil(len(missing) / at_once)
    size = len(one.content)
    return Plan(
        cells=work.grid.size,
        batches=len(work.batches),
        done_cells=sum(len(work.batches[number]) for number in done),
        workers=at_once,
        first_seconds=first,
        batch_seconds=usual,
        seconds=(first - usual if rounds else 0.0) + rounds * usual,
        disk_bytes=size * len(missing) + size * len(work.batches),  # the batches, and the whole beside them
        free_bytes=place.free(),
        worker_bytes=one.memory,
    )


def _measure(engine: AbstractEngine, task: Task) -> Done:
    outcome = engine.executor.submit(compute, task).result()
    if not isinstance(outcome, Done):
        raise UnfinishedError(f"The batch of {dict(task.cells[0])} failed: {outcome.why}")
    engine.learn(outcome.memory)
    return outcome
