"""Many experiments at one preset: each in a worker of its own, saved and judged; one that fails stops no other."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from richter import catalog
from richter.errors import FileError
from richter.report.summary import summarise
from richter.schema import load, save
from richter.sweep import AbstractEngine, engine_of
from richter.sweep.dispatch import dispatch
from richter.sweep.pace import Pace
from richter.sweep.task import Problem

Progress = Callable[[str, float], None]


@dataclass(frozen=True)
class Outcome:
    """What became of one experiment: the summary of its run, or why there is none."""

    name: str
    summary: dict[str, Any] | None = None
    file: Path | None = None
    problem: str = ""

    @property
    def failed(self) -> list[str]:
        """Claims that fail though it is not known that they do."""
        known = catalog.experiment(self.name).known_failures
        rows = self.summary["claims"] if self.summary else []
        return [row["claim"] for row in rows if row["finding"] == "fails" and row["claim"] not in known]


@dataclass(frozen=True)
class _Job:
    name: str
    preset: str
    file: Path
    store: Path
    again: bool


def run_all(
    names: Sequence[str],
    preset: str,
    folder: str | os.PathLike[str],
    *,
    again: bool = True,
    engine: str | AbstractEngine = "process",
    workers: int | None = None,
    progress: Progress | None = None,
) -> list[Outcome]:
    """Run experiments into `folder/NAME.nc` and judge them; without `again` a file of the same settings is kept.

    What a resumable run has finished is kept in `folder/parts/` until the run is whole.
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise FileError(f"{place} cannot hold runs: {problem.strerror or problem}.") from None
    for name in names:
        catalog.experiment(name).preset(preset)  # a wrong name or preset is said before anything runs
    file = lambda name: place / f"{catalog.experiment(name).name}.nc"
    parts = lambda name: place / "parts" / f"{catalog.experiment(name).name}-{preset}"
    jobs = {i: _Job(name, preset, file(name), parts(name), again) for i, name in enumerate(names)}
    found: dict[int, Outcome] = {}
    pace = Pace(max(1, len(jobs)))
    tell = progress or (lambda what, share: None)
    tell("Starting", 0.0)

    def keep(number: int, outcome: Outcome) -> None:
        found[number] = outcome
        pace.add(1)
        tell(f"{outcome.name} is done; {pace.words.replace('cells', 'experiments')}", pace.share)

    with engine_of(engine, workers) as open_engine:
        lost = dispatch(run_one, jobs, open_engine, keep, attempts=1)
    for number, why in lost.items():
        found[number] = Outcome(jobs[number].name, problem=why.why)
    return [found[number] for number in sorted(found)]


def run_one(job: _Job) -> Outcome | Problem:
    """One experiment, in a worker."""
    try:
        experiment = catalog.experiment(job.name).preset(job.preset)
        ds = None
        if not job.again and job.file.exists():
            with contextlib.suppress(FileError):
                old = load(job.file)
                if type(experiment).restore(old).settings == experiment.settings:
                    ds = old
        if ds is None:
            store = job.store if experiment.resumable() else None
            ds = experiment.execute(store=store)
            save(ds, job.file)
            if store is not None:
                import shutil

                shutil.rmtree(store, ignore_errors=True)
        return Outcome(job.name, summarise(experiment, ds, experiment.check(ds)), job.file)
    except Exception as problem:
        return Problem.of(problem)
