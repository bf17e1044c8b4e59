"""One run of an experiment at the smoke preset, shared by the tests that bend it."""

from __future__ import annotations

from functools import cache

import xarray as xr

from richter import catalog
from richter.experiments import AbstractExperiment


@cache
def smoke(name: str) -> tuple[AbstractExperiment, xr.Dataset]:
    """The experiment and its run; do not change the Dataset in place."""
    experiment = catalog.experiment(name).preset("smoke")
    return experiment, experiment.execute()


def findings(name: str, ds: xr.Dataset | None = None) -> dict[str, str]:
    """What every claim says of a Dataset, or of the run itself."""
    experiment, run = smoke(name)
    return {item.name: verdict.finding for item, verdict in experiment.check(run if ds is None else ds)}


def failing(name: str, ds: xr.Dataset) -> set[str]:
    """The claims that hold for the run and fail for the Dataset."""
    before, after = findings(name), findings(name, ds)
    return {claim for claim in before if before[claim] == "holds" and after[claim] == "fails"}
