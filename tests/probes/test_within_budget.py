"""Which probes look when time is short, with a clock that the probes themselves turn."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from richter import schema
from richter.probes import AbstractProbe, Recorder, Snapshot
from richter.probes.moments import AbstractMoments, GivenSteps, LogSpaced
from richter.probes.probe import Reading
from richter.probes.record_file import write_table
from richter.probes.recorder import CLOCKED
from richter.schema import Variable

SHARE = 0.05 / CLOCKED  # of which 0.05 is spent by the clock


class _Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


@dataclass(frozen=True)
class _Cheap(AbstractProbe):
    clock: _Clock
    cost: float = 0.01

    name: ClassVar[str] = "cheap"
    variables: ClassVar[tuple[Variable, ...]] = (Variable("cheap", (), "cheap"),)

    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        return Snapshot()

    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        self.clock.now += self.cost
        return {self.name: self.clock.now}


@dataclass(frozen=True)
class _Dear(_Cheap):
    cost: float = 0.2

    name: ClassVar[str] = "dear"
    variables: ClassVar[tuple[Variable, ...]] = (Variable("dear", (), "dear"),)


def _run(
    seconds: float, step: float = 0.01, moments: AbstractMoments | None = None, **more: Any
) -> tuple[Recorder, Any, list[int]]:
    """A run of so many seconds; also the steps after which the file was written."""
    clock, net = _Clock(), nn.Linear(2, 1)
    recorder = Recorder(
        [_Dear(clock), _Cheap(clock)], (torch.zeros(1, 2), None), moments=moments or LogSpaced(), budget=SHARE, **more
    )
    recorder.budget.clock = clock
    recorder.start(net)
    written: list[int] = []
    for k in range(1, round(seconds / step) + 1):
        clock.now += step
        recorder.see(k, net)
        if recorder.record.path is not None and recorder.record.path.stat().st_mtime_ns not in written:
            written.append(recorder.record.path.stat().st_mtime_ns)
    recorder.close(net)
    return recorder, recorder.dataset(), written


def test_a_dear_probe_is_neither_starved_nor_in_the_way() -> None:
    recorder, ds, _ = _run(100)
    dear, cheap = (ds.step.values[np.isfinite(ds[name].values)] for name in ("dear", "cheap"))
    assert recorder.budget.overhead <= 0.05
    assert set(dear) < set(cheap)
    assert len(cheap) == 25 and 5 < len(dear) < 25  # all moments, and some
    # Not all of it is spent at the beginning: the dear one is read in every part of the run.
    for low, high in ((0, 1), (1, 300), (300, 3000), (3000, 10_000), (10_000, 10_001)):
        assert ((dear >= low) & (dear < high)).any(), (low, high)


def test_looks_at_every_step_leave_half_of_the_time_to_the_dear_probe() -> None:
    recorder, ds, _ = _run(100, moments=GivenSteps(tuple(range(10_001))))
    totals = recorder.budget.totals
    assert recorder.budget.overhead <= 0.05
    assert totals["dear"] > 0.4 * recorder.budget.spent < 2.5 * totals["cheap"]


def test_what_has_waited_longest_comes_first() -> None:
    clock, net = _Clock(), nn.Linear(2, 1)
    recorder = Recorder([_Cheap(clock), _Dear(clock)], (torch.zeros(1, 2), None), moments=range(9), budget=SHARE)
    recorder.budget.clock = clock
    recorder.start(net)
    order = lambda: [probe.name for probe in sorted(recorder.probes, key=recorder._urgency)]
    assert order() == ["cheap", "dear"]  # read at the same step: what is cheaper
    recorder.record.rows[-1].readings.pop("dear")
    assert order() == ["dear", "cheap"]


def test_the_last_look_fills_what_the_last_moment_left_out() -> None:
    _, ds, _ = _run(2, moments=GivenSteps((1, 2, 3, 4, 5, 6, 200)))
    assert ds.step.values[-1] == 200 and np.isfinite(ds.dear.values[-1]) and np.isfinite(ds.cheap.values[-1])
    missing = np.isnan(ds.dear.values)
    assert missing.sum() >= 3 and not missing[0] and np.isfinite(ds.cheap.values).all()
    assert len(np.unique(ds.step)) == ds.sizes["step"]


def test_a_moment_without_time_is_made_up_for_as_soon_as_there_is_some() -> None:
    _, ds, _ = _run(60, step=1.0, moments=GivenSteps((0, 1, 2, 40)))
    seen = ds.step.values[np.isfinite(ds.dear.values)]
    assert seen[0] == 0 and seen[-1] == 60 and ds.attrs["overhead"] <= 0.05
    clock, net = _Clock(), nn.Linear(2, 1)
    recorder = Recorder([_Dear(clock)], (torch.zeros(1, 2), None), moments=[1], budget=SHARE)
    recorder.budget.clock = clock
    recorder.start(net)
    looked = []
    for step in range(1, 200):
        clock.now += 0.1
        looked += [step] if recorder.see(step, net) else []
    # 0.2 s at the start, 0.2 s kept back for the end: 0.2 s more fit once 0.05 · 30 s − 0.4 s has grown by enough.
    assert len(looked) == 1 and looked[0] == 1


def test_the_file_is_not_written_after_every_look(tmp_path: Path, monkeypatch: Any) -> None:
    clocks: list[_Clock] = []

    def slow(table: Any, path: Path) -> None:
        clocks[0].now += 0.05
        write_table(table, path)

    monkeypatch.setattr("richter.probes.recorder.write_table", slow)
    clock, net = _Clock(), nn.Linear(2, 1)
    clocks.append(clock)
    recorder = Recorder(
        [_Cheap(clock)], (torch.zeros(1, 2), None), moments=range(10**4), budget=SHARE, file=tmp_path / "run.nc"
    )
    recorder.budget.clock = clock
    recorder.start(net)
    for k in range(1, 3001):
        clock.now += 0.02
        recorder.see(k, net)
    spent = recorder.budget
    assert spent.overhead <= 0.05 and spent.totals["save"] <= 0.2 * 0.05 * spent.trained + 0.05
    assert spent.totals["save"] > 0.15  # but it is written on the way
    assert spent.totals["cheap"] > 3 * spent.totals["save"]
    assert schema.load(tmp_path / "run.nc").sizes["step"] > 50
