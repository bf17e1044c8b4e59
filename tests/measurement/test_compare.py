"""Two runs, or a run and a theory, side by side."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from richter import schema
from richter.errors import ParameterError
from richter.measurement.compare import compare
from richter.measurement.measured import Measured
from richter.probes.verdict import verdict
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import SingleNeuron, WideScalar

THEORY = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0])
TIMES = np.linspace(0.0, 3.0, 31)


def test_a_run_is_laid_over_the_theory_at_its_own_times() -> None:
    made = compare(THEORY.simulate(TIMES), THEORY, names=("run", "theory"))
    assert made.names == ("run", "theory")
    found = {d.name: d for d in made.differences}
    assert {"a", "w", "loss", "kernel_change_full", "kernel_distance_full"} <= found.keys()
    for d in made.differences:
        assert d.relative < SOLVED.rtol or (np.isnan(d.relative) and d.absolute < 1e-12), d  # δ is 0 on both sides
    assert [regime.label if regime else None for regime in made.regimes] == ["rich", "rich"]


def test_a_wrong_number_is_found_where_it_is() -> None:
    wrong = THEORY.solve(TIMES)
    wrong.loss[7] += 0.25
    (loss,) = [d for d in compare(wrong, THEORY).differences if d.name == "loss"]
    assert_close(loss.absolute, 0.25, IDENTITY)
    assert_close(loss.relative, 0.25 / float(THEORY.solve([0.0]).loss[0]), IDENTITY)
    assert_close(loss.at, TIMES[7], IDENTITY)
    assert loss.ends[0] == loss.ends[1]


def test_runs_with_other_moments_are_interpolated_over_shared_times() -> None:
    line = lambda t: xr.Dataset({"loss": ("t", 2.0 - t)}, {"t": t})
    made = compare(line(np.array([0.0, 1.0, 1.5])), line(np.array([0.5, 1.25, 2.0])))
    assert made.differences[0].absolute == pytest.approx(0.0, abs=1e-15)
    assert made.regimes == (None, None) and made.names == ("run a", "run b")
    with pytest.raises(ParameterError, match="the times of the two sides must overlap. Got 0 to 1 and 2 to 3"):
        compare(line(np.array([0.0, 1.0])), line(np.array([2.0, 3.0])))


def test_files_and_measured_runs_are_sides_too(tmp_path: Path) -> None:
    ds = THEORY.solve(TIMES)
    path = schema.save(ds, tmp_path / "run.nc")
    measured = Measured((ds,), verdict(ds))
    made = compare(path, measured)
    assert all(d.absolute == 0 for d in made.differences)
    assert made.names == ("run.nc", "single-neuron") and made.regimes[1] is measured.regime
    plain = made.plain()
    assert [side["name"] for side in plain["sides"]] == ["run.nc", "single-neuron"]  # type: ignore[attr-defined]


def test_kinds_of_kernels_do_not_mix() -> None:
    def run(kind: str, name: str = "kernel_distance") -> xr.Dataset:
        return xr.Dataset({name: ("t", [0.0, 0.1], {"kind": kind})}, {"t": [0.0, 1.0]})

    with pytest.raises(
        ParameterError, match="`kernel_distance` of both sides must be of one kind of kernel. Got full and trace"
    ):
        compare(run("full"), run("trace"))
    with pytest.raises(ParameterError, match="the two sides must share a variable over t"):
        compare(run("full", "kernel_distance_full"), run("trace", "kernel_distance_trace"))
    trace = run("trace", "kernel_distance_trace").assign(loss=("t", [1.0, 0.5]))
    assert [d.name for d in compare(trace, THEORY).differences] == ["loss"]


def test_what_cannot_be_compared_is_said() -> None:
    with pytest.raises(
        ParameterError, match=r"must have times: a run or a solution\. Got two theories\. Give one as a solution"
    ):
        compare(THEORY, THEORY)
    with pytest.raises(ParameterError, match="a theory in compare.. must be of one start. Got a batch of shape"):
        compare(THEORY.solve(TIMES), THEORY.with_(a0=[1.0, 2.0]))
    with pytest.raises(
        ParameterError, match="the first side of compare.. must be a Dataset, a run, a file or a theory. Got 3"
    ):
        compare(3, THEORY)
    with pytest.raises(ParameterError, match="the second side of compare.. must have times"):
        compare(THEORY.solve(TIMES), xr.Dataset({"loss": ("draw", [1.0])}))


def test_a_theory_with_another_label_keeps_it() -> None:
    wide = WideScalar(u0=[1.0, -1.0], w0=[[0.5], [0.2]], x=[1.0], y=2.0)
    made = compare(wide.simulate(TIMES), wide)
    assert made.regimes[1] is not None and made.regimes[1].label == "alignment"
    assert "wide-scalar (a): " in str(made)


def recorded(rate: float, values: list[float]) -> xr.Dataset:
    """A recorded run: moments in steps, its own rate, looks that were left out."""
    steps = np.array([0, 10, 20, 40])
    kernel = ("step", values, {"kind": "full"})
    loss = ("step", [1.0, 0.5, 0.2, 0.1])
    return xr.Dataset(
        {"kernel_change_full": kernel, "loss": loss}, {"step": steps, "t": ("step", rate * steps)}, {"rate": rate}
    )


def test_two_recorded_runs_are_laid_over_each_other_on_their_steps() -> None:
    slow, fast = recorded(1e-4, [0.0, 0.1, 0.2, 0.4]), recorded(10.0, [0.0, 1.0, np.nan, 4.0])
    made = compare(slow, fast)
    assert made.over == "step" and made.plain()["over"] == "step" and "at step = 40" in str(made)
    change = {d.name: d for d in made.differences}["kernel_change_full"]
    assert (change.at, change.ends) == (40.0, (0.4, 4.0)) and change.absolute == pytest.approx(3.6, rel=1e-12)
    # Between its looks a run is interpolated: at step 20 the second lies at 2.
    swapped = {d.name: d for d in compare(fast, slow.isel(step=[0, 1, 2])).differences}["kernel_change_full"]
    assert (swapped.at, swapped.ends) == (10.0, (1.0, 0.1))
    middle = {d.name: d for d in compare(slow.isel(step=[0, 1, 2]), fast).differences}["kernel_change_full"]
    assert (middle.at, middle.ends) == (20.0, (0.2, 2.0))


def test_a_run_and_a_theory_are_compared_in_time() -> None:
    theory = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0])
    assert compare(theory.simulate([0.0, 1.0]), theory).over == "t"
