"""Every claim about ReLU networks can fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter.experiments import AbstractExperiment
from richter.experiments.kun24_relu_evolution import ReluEvolution
from richter.experiments.kun24_relu_surface import ReluSurface
from richter.theory import PiecewiseNetwork


def findings(experiment: AbstractExperiment, ds: xr.Dataset) -> dict[str, str]:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}


@pytest.fixture(scope="module")
def evolution() -> tuple[ReluEvolution, xr.Dataset]:
    experiment = ReluEvolution.preset("smoke")
    return experiment, experiment.execute()


def test_swapped_starts_turn_the_claims_of_the_evolution_around_control(
    evolution: tuple[ReluEvolution, xr.Dataset],
) -> None:
    experiment, ds = evolution
    assert set(findings(experiment, ds).values()) == {"holds"}
    swapped = ds.isel(kind=[1, 0, 2]).assign_coords(kind=ds.kind)
    assert findings(experiment, swapped)["reweighs"] == "fails"
    late = ds.assign(turned=ds.turned.where(ds.t >= experiment.span / 2, 0.0))
    assert findings(experiment, late)["turns_first"] == findings(experiment, late)["near"] == "fails"
    assert findings(experiment, ds.assign(delta_drift=("step_size", [1.0, 1.0])))["conserved"] == "fails"
    never = ds.assign(loss=ds.loss.isel(t=0) + 0 * ds.loss)
    assert findings(experiment, never)["reweighs"] == "undecided"


def test_the_descent_approaches_the_flow(evolution: tuple[ReluEvolution, xr.Dataset]) -> None:
    experiment, ds = evolution
    net = experiment.network(-1, experiment.seed)
    assert isinstance(net, PiecewiseNetwork)
    t = float(ds.t[30])
    flow = net.simulate([t], ("a", "w"))
    here = ds.sel(kind="downstream").isel(start=0, t=30)
    gap = float(abs(flow.a.isel(t=0) - here.a).max())
    assert gap < 20 * experiment.step * float(np.abs(here.a).max())  # first order in the step


def test_bent_surfaces_fail_their_claims_control() -> None:
    experiment = ReluSurface.preset("smoke")
    ds = experiment.execute()
    assert set(findings(experiment, ds).values()) == {"holds"}
    assert findings(experiment, ds.assign(largest_gap=ds.largest_gap + 1e-6))["convex"] == "fails"
    assert findings(experiment, ds.assign(cones=ds.cones - 1))["conic"] == "fails"
    assert findings(experiment, ds.assign(flips=ds.flips - 1))["two_colours"] == "fails"
