"""The sweep: cells that are missing are computed and kept; what is whole is put together."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from richter.errors import FileError, ParameterError, UnfinishedError, message
from richter.schema import SCHEMA, save
from richter.sweep.assemble import assemble, digest
from richter.sweep.dispatch import ATTEMPTS, dispatch
from richter.sweep.engines import AbstractEngine, engine_of
from richter.sweep.grid import Grid
from richter.sweep.identity import describe, describe_value, made_with
from richter.sweep.pace import Pace
from richter.sweep.part import Part
from richter.sweep.store import MANIFEST, WHOLE, Store
from richter.sweep.task import Done, Problem, Task, compute

if TYPE_CHECKING:
    import xarray as xr

Progress = Callable[[str, float], None]
Engine = str | Executor | AbstractEngine | None
Dims = Grid | Mapping[str, Iterable[Any]]


@dataclass(frozen=True)
class Work:
    """A sweep in full: the function, its grid, what stays fixed, and how cells are put into batches."""

    function: Callable[..., Any]
    grid: Grid
    fixed: Mapping[str, Any]
    together: bool
    batches: tuple[tuple[int, ...], ...]
    seed: int | None
    identity: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        function: Callable[..., Any],
        grid: Dims,
        fixed: Mapping[str, Any] | None,
        batch: int | None,
        apart: Sequence[str],
        seed: int | None,
    ) -> Work:
        """From the arguments of `sweep`."""
        if not callable(function):
            raise ParameterError(message("the function of a sweep", "be callable", function))
        whole = grid if isinstance(grid, Grid) else Grid(grid)
        kept = dict(fixed or {})
        twice = [name for name in kept if name in whole.dims]
        if twice:
            raise ParameterError(message(f"`{twice[0]}`", "be fixed or a dimension of the grid", "both"))
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or seed < 0):
            raise ParameterError(message("`seed`", "be a whole number ≥ 0", seed))
        batches = tuple(whole.batches(1 if batch is None else batch, apart))
        identity = {
            "function": describe(function), "grid": whole.plain(), "fixed": describe_value(kept),
            "batch": batch, "apart": list(apart), "seed": seed,
        }  # fmt: skip
        return cls(function, whole, kept, batch is not None, batches, seed, identity)

    def task(self, batch: int, sweep: str) -> Task:
        """One batch for a worker; a cell's seed depends on its number alone."""
        numbers = self.batches[batch]
        cells = tuple(self.grid.cell(number) for number in numbers)
        seeds = None if self.seed is None else tuple(cell_seed(self.seed, number) for number in numbers)
        return Task(self.function, self.together, batch, numbers, cells, self.fixed, seeds, sweep)


def sweep(
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
    attempts: int = ATTEMPTS,
    mixed: bool = False,
    progress: Progress | None = None,
) -> xr.Dataset:
    """Compute `function` in every cell of a grid, in parallel, once; after a stop the same call continues.

    Without `batch` the function takes the values of one cell by name and returns a number, a mapping from names to
    arrays (or (dims, array)), or a Dataset. With `batch=n` (32 is a good number) it takes a list of up to n cells and
    every array it returns has these as its first axis; `apart` names dimensions of which a batch holds one value
    only. `fixed` are further arguments of every call. With a `seed` a call gets a `seed` (or `seeds`) that depends on
    the cell's number alone.

    `store` is a folder that keeps every finished batch; without it, only a temporary one does. `engine` is "process"
    (a pool of spawned processes with one thread each), "here", "dask", "dask://host:port", or any executor. A batch
    is tried `attempts` times. `mixed` continues a store begun with other versions of the code or of libraries.

    >>> ds = sweep(divmod_of, {"x": [7, 8], "y": [2, 3]}, engine="here")
    >>> ds.quotient.values.tolist(), ds.attrs["cells"]
    ([[3, 2], [4, 2]], 4)
    """
    work = Work.of(function, grid, fixed, batch, apart, seed)
    if isinstance(attempts, bool) or not isinstance(attempts, int) or attempts < 1:
        raise ParameterError(message("`attempts`", "be a whole number ≥ 1", attempts))
    chosen = engine_of(engine, workers)
    with _folder(store) as place, place.locked():
        ds = _complete(work, place, chosen, attempts, mixed, progress or (lambda what, share: None))
        if place.lasting:
            try:
                save(ds, place.folder / WHOLE)
            except FileError as problem:
                raise _stopped(place, problem, work.grid.size, work.grid.size) from None
        return ds


def read(store: str | os.PathLike[str], partial: bool = False) -> xr.Dataset:
    """The Dataset of a finished sweep; with `partial` also of an unfinished one, missing cells as NaN and marked so."""
    place = Store(store)
    found = place.manifest()
    identity = found["identity"]
    grid = Grid(identity["grid"])
    batches = grid.batches(identity["batch"] or 1, identity["apart"])
    parts = kept(place, found["id"], batches)
    missing = sum(len(cells) for number, cells in enumerate(batches) if number not in parts)
    if missing and not partial:
        raise UnfinishedError(
            f"{missing} of {grid.size} cells of the sweep in {place.folder} are missing. "
            "Run it again to compute them, or ask for partial=True."
        )
    return _whole(grid, parts, identity, found["made"])


def divmod_of(x: float, y: float) -> dict[str, float]:
    """Quotient and remainder: a function of one cell, for examples."""
    return {"quotient": x // y, "remainder": x % y}


def cell_seed(seed: int, number: int) -> int:
    """The seed of a cell: it does not depend on the other cells of the grid.

    >>> cell_seed(0, 3) == cell_seed(0, 3) != cell_seed(1, 3)
    True
    """
    import numpy as np

    return int(np.random.SeedSequence([seed, number]).generate_state(1, np.uint64)[0] >> np.uint64(1))


def _complete(
    work: Work, place: Store, engine: AbstractEngine, attempts: int, mixed: bool, progress: Progress
) -> xr.Dataset:
    made = made_with(work.function)
    try:
        name = place.begin(work.identity, made, mixed)
        parts = kept(place, name, work.batches)
    except OSError as problem:
        if isinstance(problem, FileError):
            raise
        raise _stopped(place, problem, 0, work.grid.size) from None
    pace = Pace(work.grid.size, sum(len(work.batches[number]) for number in parts))
    progress(pace.words, pace.share)
    missing = {number: work.task(number, name) for number in range(len(work.batches)) if number not in parts}
    failed: dict[int, Problem] = {}
    if missing:
        engine.ready(next(iter(missing.values())))

        def keep(batch: int, result: Done) -> None:
            place.put(batch, result.content)
            engine.learn(result.memory)
            # Read back what the disk holds: only that counts as done.
            parts[batch] = place.get(batch, name, work.batches[batch])
            pace.add(len(work.batches[batch]))
            progress(pace.words, pace.share)

        try:
            with engine:
                failed = dispatch(compute, missing, engine, keep, attempts)
            place.fail(_report(work, failed))
        except (OSError, UnfinishedError) as problem:
            raise _stopped(place, problem, pace.done, pace.total) from None
    if failed:
        first = failed[min(failed)]
        lost = sum(len(work.batches[number]) for number in failed)
        times = "once" if first.attempts == 1 else f"{first.attempts} times"
        raise UnfinishedError(
            f"{lost} of {pace.total} cells failed, the first (tried {times}): "
            f"{work.grid.cell(work.batches[min(failed)][0])}: {first.why} The other {pace.done} are {place.where}"
            + ("; failed.json in it says which failed and why." if place.lasting else ".")
        )
    return _whole(work.grid, parts, work.identity, json.loads((place.folder / MANIFEST).read_text())["made"])


def kept(place: Store, name: str, batches: Sequence[tuple[int, ...]]) -> dict[int, Part]:
    """The finished batches by number; a damaged file counts as absent."""
    parts = {}
    for number, cells in enumerate(batches):
        if place.path(number).exists():
            with contextlib.suppress(FileError):
                parts[number] = place.get(number, name, cells)
    return parts


def _whole(grid: Grid, parts: Mapping[int, Part], identity: Mapping[str, Any], made: Mapping[str, str]) -> xr.Dataset:
    ds = assemble(grid, parts.values())
    done = sum(len(part.cells) for part in parts.values())
    ds.attrs = {
        "schema": SCHEMA, "cells": grid.size, "missing_cells": grid.size - done, "digest": digest(parts.values()),
        "sweep": json.dumps(identity, ensure_ascii=False), "made_with": json.dumps(made),
        "compute_seconds": round(sum(float(part.note["seconds"]) for part in parts.values()), 3),
    }  # fmt: skip
    return ds


def _report(work: Work, failed: Mapping[int, Problem]) -> list[dict[str, Any]]:
    return [
        {
            "batch": number, "cells": [work.grid.cell(cell) for cell in work.batches[number]],
            "why": problem.why, "attempts": problem.attempts, "trace": problem.trace,
        }
        for number, problem in sorted(failed.items())
    ]  # fmt: skip


def _stopped(place: Store, problem: Exception, done: int, total: int) -> UnfinishedError:
    words = getattr(problem, "strerror", None) or str(problem)
    further = f" ({place.free() / 1e9:.3g} GB are free there); the same call continues" if place.lasting else ""
    return UnfinishedError(
        f"The sweep stopped: {words.rstrip('.')}. {done} of {total} cells are {place.where}{further}."
    )


@contextlib.contextmanager
def _folder(store: str | os.PathLike[str] | None) -> Iterator[Store]:
    if store is not None:
        yield Store(store)
        return
    with tempfile.TemporaryDirectory(prefix="richter-sweep-") as folder:
        yield Store(folder, lasting=False)
