"""Every claim about the single neuron can fail."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from richter.experiments import AbstractExperiment
from richter.experiments.kun24_basins import Basins
from richter.experiments.kun24_coordinates import Coordinates
from richter.experiments.kun24_function_paths import FunctionPaths
from richter.experiments.kun24_interpolants import Interpolants
from richter.experiments.kun24_neuron_dynamics import NeuronDynamics
from richter.experiments.kun24_time_scales import TimeScales

Run = tuple[Any, xr.Dataset]


def findings(experiment: AbstractExperiment, ds: xr.Dataset) -> dict[str, str]:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}


def smoke(kind: type[AbstractExperiment], **changes: Any) -> Run:
    experiment = kind.preset("smoke", **changes)
    return experiment, experiment.execute()


def fails(run: Run, name: str, **changes: Any) -> bool:
    """The claim holds on the run and fails on the changed one."""
    experiment, ds = run
    assert findings(experiment, ds)[name] == "holds"
    return findings(experiment, ds.assign(changes))[name] == "fails"


def test_dynamics_control() -> None:
    run = experiment, ds = smoke(NeuronDynamics)
    assert fails(run, "agrees", simulated_mu=ds.simulated_mu + 1e-6)
    assert fails(run, "conserved", simulated_delta=ds.simulated_delta + 1e-3)
    assert fails(run, "conserved", first_step_drift=-ds.first_step_drift)
    assert fails(run, "conserved", descent_drift=ds.descent_drift / ds.step_size)
    turned = ds.isel(imbalance=slice(None, None, -1)).assign_coords(imbalance=ds.imbalance)
    assert findings(experiment, turned)["upstream"] == findings(experiment, turned)["downstream"] == "fails"
    assert fails(run, "balanced", kernel_distance=0 * ds.kernel_distance)
    few, there = smoke(NeuronDynamics, deltas=[1.0], descent=50, moments=20)
    assert {findings(few, there)[name] for name in ("upstream", "balanced", "downstream")} == {"undecided"}


def test_the_kernel_with_the_first_output_weight_is_another() -> None:
    from richter.experiments.kun24_neuron_dynamics import _distance_with_first_a

    _, ds = smoke(NeuronDynamics, deltas=[-2.0], descent=50, moments=20)
    here = ds.isel(imbalance=0)
    K = float(here.a[0]) ** 2 * np.eye(2) + np.einsum("ti,tj->tij", here.w.values, here.w.values)
    cosine = np.einsum("tij,ij->t", K, K[0]) / (np.linalg.norm(K, axis=(1, 2)) * np.linalg.norm(K[0]))
    wrong = _distance_with_first_a(here)
    np.testing.assert_allclose(wrong, 1 - cosine, atol=1e-14)  # of distances of size 1
    assert float(abs(wrong - here.kernel_distance).max()) > 0.02


def test_time_scales_control() -> None:
    run = experiment, ds = smoke(TimeScales)
    found = findings(experiment, ds)
    assert {name for name, finding in found.items() if finding == "fails"} == {"angle_first"}
    # What the claim says would look like this: the angle settling ever faster than the size.
    faster = ds.assign(angle_time=ds.angle_time / ds.delta)
    assert findings(experiment, faster)["angle_first"] == "holds"
    assert fails(run, "still", largest_distance=ds.largest_distance * ds.delta)
    assert fails(run, "two_phases", balanced_size_time=1.2 * ds.balanced_size_time)
    assert fails(run, "two_phases", balanced_angle_time=ds.balanced_size_time)
    assert fails(run, "silent_alignment", balanced_angle_at_tenth=np.sqrt(ds.balanced_angle_at_tenth))
    assert fails(run, "slow_angle", angle_rate=2 * ds.angle_rate)
    assert fails(run, "delay", distance_time=np.sqrt(ds.distance_time))


def test_function_paths_control() -> None:
    run = _, ds = smoke(FunctionPaths)
    assert fails(run, "exact", path=ds.path + 1e-6)
    assert fails(run, "regression", off_regression=ds.off_regression * ds.delta)
    assert fails(run, "sweep", off_sweep=ds.off_regression.max() + 0 * ds.off_sweep)
    assert fails(run, "sweep", length=0.9 * ds.length)
    assert fails(run, "between", first_angle=-ds.first_angle)
    assert fails(run, "between", length=2 * ds.length)


def test_interpolants_control() -> None:
    run = _, ds = smoke(Interpolants)
    assert fails(run, "ends", problem_gap=ds.problem_gap + 1e-6)
    assert fails(run, "theorem", problem_printed_kkt=ds.problem_printed_kkt + 1e-6)
    assert fails(run, "theorem", problem_kkt=ds.problem_kkt + 1e-6)
    assert fails(run, "small", small_end=ds.end)
    assert fails(run, "direction", far_end=ds.far_end.isel(side=[1, 0]).assign_coords(side=ds.side))


def test_basins_control() -> None:
    run = _, ds = smoke(Basins)
    assert fails(run, "basins", end=ds["first"])
    assert fails(run, "basins", printed=ds["first"])
    assert fails(run, "descent", followed_sign=-ds.followed_sign)
    assert fails(run, "descent", followed_loss=ds.followed_loss + 1)
    assert fails(run, "saddle", margin_on_surface=ds.margin_on_surface + 1e-6)
    assert fails(run, "empty", stay=-ds.stay)


def test_coordinates_control() -> None:
    run = _, ds = smoke(Coordinates)
    assert fails(run, "recovers", simulated_w1=ds.simulated_w1 + 1e-6)
    assert fails(run, "by_cases", printed_gap=ds.printed_gap + 1e-6)
    assert fails(run, "once", crossings=ds.crossings + 1)
