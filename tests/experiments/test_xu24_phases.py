"""What the contract's tests do not say of the phases: every claim can fail, and the diagram is the phase cell by cell."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import xarray as xr

from richter.errors import ParameterError, UnknownNameError
from richter.experiments import xu24_phases
from richter.experiments.xu24_phases import Phases
from richter.theory.phases import PHASES, phase, phase_diagram


@pytest.fixture(scope="module")
def run() -> tuple[Phases, xr.Dataset]:
    experiment = Phases.preset("smoke")
    return experiment, experiment.execute()


def finding(experiment: Phases, ds: xr.Dataset, name: str) -> str:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}[name]


def test_every_claim_can_fail_control(run: tuple[Phases, xr.Dataset], monkeypatch: pytest.MonkeyPatch) -> None:
    experiment, ds = run
    bent = ds.copy(deep=True)
    bent["exponent"] = ds.exponent + 0.5
    bent["low"], bent["high"] = ds.low + 0.5, ds.high + 0.5
    assert finding(experiment, bent, "stable") == finding(experiment, bent, "growth") == "fails"
    swapped = ds.copy(deep=True)
    swapped["alignment_end"] = ds.alignment_end.isel(variant=[1, 0]).assign_coords(variant=ds.variant)
    assert finding(experiment, swapped, "alignment") == "fails"
    monkeypatch.setitem(xu24_phases.PRINTED, "NTK", ("frozen",) * 9)
    assert finding(experiment, ds, "table") == "fails"


def test_the_diagram_is_the_phase_of_every_cell() -> None:
    xs, ys = np.linspace(-2, 2, 9), np.linspace(-1.5, 1.0, 6)
    cases: list[tuple[str, str, dict[str, float]]] = [
        ("c_eta", "c_gamma", {"c_d": 1.0, "c_u": 0.0, "c_w": -1.0}),
        ("c_u", "c_eta_w", {"c_d": 0.0, "c_gamma": 0.5, "c_w": -1.0, "c_eta_u": 0.0}),
    ]
    for x, y, base in cases:
        ds = phase_diagram(x, y, base, xs, ys, balanced_output=True)
        for i, j in np.ndindex(6, 9):
            given: dict[str, Any] = {**base, x: xs[j], y: ys[i]}
            if "c_eta" in given:
                given["c_eta_u"] = given["c_eta_w"] = given.pop("c_eta")
            assert PHASES[int(ds.phase[i, j])] == phase(**given, balanced_output=True).label


def test_diagrams_that_cannot_be_drawn() -> None:
    with pytest.raises(UnknownNameError, match="There is no exponent `c_gama`. Did you mean c_gamma"):
        phase_diagram("c_gama", "c_u", {}, [0], [0])
    with pytest.raises(ParameterError, match="`base` must give c_w, c_eta_u, c_eta_w. Got c_d."):
        phase_diagram("c_gamma", "c_u", {"c_d": 1}, [0], [0])
    with pytest.raises(ParameterError, match="have two different exponents"):
        phase_diagram("c_u", "c_u", {"c_d": 1}, [0], [0])
