"""What a recorder has seen so far: the origin and the rows, in memory and on disk."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from richter.errors import ParameterError, message
from richter.probes import record_file
from richter.probes.observe import fingerprint
from richter.probes.probe import AbstractProbe, Snapshot
from richter.probes.rows import Row, Table, tabulate
from richter.schema import SCHEMA, Variable

if TYPE_CHECKING:
    from torch import nn

LONGEST = 20_000  # characters of a note; a file's header has no room for more


def facts_of(model: nn.Module, batch: Any, probes: Iterable[AbstractProbe]) -> dict[str, Any]:
    """What makes a run the same one, and `start`, by which its very first model is known."""
    x, y = batch
    return {
        "model": type(model).__name__,
        "parameters": {name: list(p.shape) for name, p in model.named_parameters()},
        "probe": fingerprint([x] if y is None else [x, y]),
        "probes": [probe.name for probe in probes],
        "start": fingerprint(model.parameters()),
    }


@dataclass
class Record:
    """The origin, a row per look, and what is to be said of them.

    `open_end`: a record that was taken up and does not know yet at which step the loop goes on.
    """

    path: Path | None
    origin: dict[str, Snapshot] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    attrs: dict[str, Any] = field(default_factory=lambda: {"ended": "not yet"})
    earlier: tuple[float, float] = (0.0, 0.0)  # seconds of watching and of training before an interruption
    fresh: bool = True  # whether the model is the one that the record begins with
    open_end: bool = False

    def begin(self, facts: Mapping[str, Any], origin: dict[str, Snapshot]) -> None:
        """Start with an origin; a file that is there gives way to it."""
        self.origin = origin
        self.attrs["model"] = facts["model"]
        if self.path is not None:
            self.path.unlink(missing_ok=True)
            kept = {**facts, "left_out": self.left_out}
            self.attrs["origin"] = record_file.write_origin(kept, origin, self.path)

    def take_up(self, facts: Mapping[str, Any]) -> None:
        """Read what an earlier process left, if it is of the same run."""
        assert self.path is not None
        kept = record_file.read_table(self.path)
        before, self.origin = record_file.read_origin(self.path, int(kept.attrs["origin"]))
        odd = [key for key in facts if key != "start" and facts[key] != before.get(key)]
        if odd:
            got, do = f"a record whose {odd[0]} differs", record_file.START_OVER
            raise ParameterError(message(f"the record {self.path}", "be of the same run", got, do))
        self.left_out, self.rows, self.fresh = before["left_out"], kept.rows(), facts["start"] == before["start"]
        self.earlier = float(kept.attrs["seconds_watching"]), float(kept.attrs["seconds_training"])
        self.attrs |= {"model": facts["model"], "origin": kept.attrs["origin"], "resumed": 1}
        self.open_end = True

    def trim(self, step: int) -> None:
        """Forget what is said from `step` on, the first step that is taken again."""
        first = self.rows[0].step
        if step <= first or (step == first + 1 and not self.fresh):
            do = f"Load the checkpoint before watching, or pass resume=False to start {self.path} over."
            got = f"step {step} of a model that is not the one it began with"
            raise ParameterError(message("the run", f"go on behind step {first}, where its record begins", got, do))
        self.rows = [row for row in self.rows if row.step < step]
        self.open_end = False

    def last(self, name: str) -> Row | None:
        """The last row that has a variable."""
        return next((row for row in reversed(self.rows) if name in row.readings), None)

    def table(self, probes: Iterable[AbstractProbe], more: Iterable[Variable], attrs: Mapping[str, Any]) -> Table:
        """Everything as labelled arrays."""
        kept = [(probe, self.origin[probe.name]) for probe in probes if probe.name in self.origin]
        notes = {
            v.name: {key: text[:LONGEST] for key, text in snapshot.notes.items()}
            for probe, snapshot in kept
            for v in probe.variables
        }
        coords = {key: value for _, snapshot in kept for key, value in snapshot.coords.items()}
        said = {"schema": SCHEMA, "source": "recorder", **attrs, **self.attrs}
        said["left_out"] = "; ".join(f"{name}: {why}" for name, why in self.left_out.items())[:LONGEST]
        return tabulate(self.rows, [*(v for probe, _ in kept for v in probe.variables), *more], notes, coords, said)
