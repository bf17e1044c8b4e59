"""Every claim about shapes can fail."""

from __future__ import annotations

import pytest
import xarray as xr

from richter.experiments.kun24_shapes import Shapes


@pytest.fixture(scope="module")
def run() -> tuple[Shapes, xr.Dataset]:
    experiment = Shapes.preset("smoke")
    return experiment, experiment.execute()


def findings(experiment: Shapes, ds: xr.Dataset) -> dict[str, str]:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}


def test_the_claims_hold_and_fail_when_the_sides_are_swapped_control(run: tuple[Shapes, xr.Dataset]) -> None:
    experiment, ds = run
    assert set(findings(experiment, ds).values()) == {"holds"}
    swapped = ds.isel(delta=slice(None, None, -1)).assign_coords(delta=ds.delta)
    assert findings(experiment, swapped) == {"lazy": "fails", "square": "holds", "delayed": "fails", "rich": "holds"}
    still = ds.assign(kernel_change=0 * ds.kernel_change + 0.5)
    assert findings(experiment, still)["square"] == findings(experiment, still)["rich"] == "fails"
    early = ds.assign(half_time=0 * ds.half_time + 1.0)
    assert findings(experiment, early)["delayed"] == "fails"
