"""Every claim about alignment, rates and rescaling can fail."""

from __future__ import annotations

import numpy as np

from richter.experiments.xu24_alignment import Alignment
from richter.experiments.xu24_rates_and_alignment import RatesAndAlignment
from richter.experiments.xu24_rescaling import Rescaling
from tests.experiments.test_kun24_neuron import fails, findings, smoke


def test_alignment_control() -> None:
    run = experiment, ds = smoke(Alignment)
    assert set(findings(experiment, ds).values()) == {"holds"}
    assert fails(run, "exact", member_gap=ds.member_gap + 1e-6)
    assert fails(run, "lines_through_points", descent_alignment=ds.descent_alignment + 0.2)
    swapped = ds.end.isel(scaling=[1, 0]).assign_coords(scaling=ds.scaling)
    assert fails(run, "kernel", end=swapped) and fails(run, "feature", end=swapped)
    other = ds.alignment.isel(kind=[0, 1, 3, 2]).assign_coords(kind=ds.kind)
    assert fails(run, "orthogonal", alignment=other) and fails(run, "disalignment", alignment=other)


def test_rates_and_alignment_control() -> None:
    run = experiment, ds = smoke(RatesAndAlignment)
    found = findings(experiment, ds)
    assert {name for name, finding in found.items() if finding == "fails"} == set(experiment.known_failures)
    assert fails(run, "monotone", steps_down=ds.steps_down - 1e-3, steps_up=ds.steps_up + 1e-3)
    assert fails(run, "rises", growth_end=1 / ds.growth_end)
    assert fails(run, "rises", target=-ds.target, first_output=-ds.first_output)
    assert fails(run, "ends", end_shift=0 * ds.end_shift)
    assert fails(run, "no_data", off_data=ds.off_data + 1e-6)
    assert fails(run, "equal_rates", turn=ds.turn + 1e-6)
    moved = ds.assign(turn=ds.turn + 0.1, condition=ds.ratio, wide_rise=ds.wide_rise / (1 + np.log(ds.ratio) ** 2))
    assert all(findings(experiment, moved)[name] == "holds" for name in experiment.known_failures)


def test_rescaling_control() -> None:
    run = experiment, ds = smoke(Rescaling)
    assert set(findings(experiment, ds).values()) == {"holds"}
    assert fails(run, "cases", said=5 - ds.said)
    assert fails(run, "cases", seen=0 * ds.seen)
    assert fails(run, "coincide", agree=ds.agree & (ds.said != 2))
    assert fails(run, "wide", kernel_change=ds.aligned_change)
    assert fails(run, "wide", aligned_change=ds.kernel_change)
