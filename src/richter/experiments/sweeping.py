"""An experiment over a grid of its settings: every cell is a run with the verdicts on its claims."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from richter.errors import ParameterError, message
from richter.experiments.base import AbstractExperiment
from richter.experiments.settings import check_names, declared
from richter.sweep import Grid

if TYPE_CHECKING:
    import xarray as xr

FINDING, MEASURED = "finding_", "measured_"


@dataclass(frozen=True)
class SettingsCell:
    """The function that a sweep computes in each cell: run at these settings, judge, return numbers and findings."""

    kind: type[AbstractExperiment]
    preset: str = "laptop"
    changes: Mapping[str, Any] = field(default_factory=dict)

    @property
    def source(self) -> type[AbstractExperiment]:
        """Whose code decides whether kept cells are still good."""
        return self.kind

    def __call__(self, **cell: Any) -> xr.Dataset:
        """One cell."""
        experiment = self.kind.preset(self.preset, **{**self.changes, **cell})
        ds = experiment.execute()
        for item, verdict in experiment.check(ds):
            ds[FINDING + item.name] = ((), verdict.finding, {"long_name": item.says})
            ds[MEASURED + item.name] = ((), verdict.measured)
        return ds


def settings_cell(
    kind: type[AbstractExperiment], grid: Grid, preset: str = "laptop", changes: Mapping[str, Any] | None = None
) -> SettingsCell:
    """The cell function, after every value of the grid has been checked against the settings."""
    known = declared(kind)
    check_names(kind.name, known, grid.dims)
    for name, values in grid.dims.items():
        for value in values:
            known[name].checked(f"`{name}` of {kind.name}", value)
    twice = [name for name in changes or {} if name in grid.dims]
    if twice:
        raise ParameterError(message(f"`{twice[0]}`", "be set or swept", "both"))
    kind.preset(preset, **dict(changes or {}))
    return SettingsCell(kind, preset, dict(changes or {}))


def findings(ds: xr.Dataset) -> dict[str, dict[str, int]]:
    """For each claim, in how many cells of a sweep it holds, fails and is undecided."""
    return {
        str(name)[len(FINDING) :]: dict(Counter(str(word) for word in ds[name].values.ravel()))
        for name in ds.data_vars
        if str(name).startswith(FINDING)
    }
