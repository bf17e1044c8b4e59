"""Every claim about alignment, rates and rescaling can fail."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.experiments.xu24_alignment import Alignment
from richter.experiments.xu24_phase_diagram import PhaseDiagram
from richter.experiments.xu24_rates_and_alignment import RatesAndAlignment
from richter.experiments.xu24_rescaling import Rescaling
from richter.experiments.xu24_scaling_transfer import ScalingTransfer
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


def test_phase_diagrams_over_any_two_exponents_control() -> None:
    run = experiment, ds = smoke(PhaseDiagram)
    assert set(findings(experiment, ds).values()) == {"holds"}
    assert fails(run, "theorem", growth_end=-ds.growth_end) and fails(run, "theorem", t_c=-ds.t_c)
    assert fails(run, "theorem", cell_phase=3 - ds.cell_phase)
    assert fails(run, "times", t_c=ds.t_c + 0.1)
    for x, y in (("c_d", "c_gamma"), ("c_u", "c_eta_w"), ("c_w", "c_eta")):
        other, there = smoke(PhaseDiagram, x=x, y=y, cells=9, checks=1, draws=300)
        assert set(findings(other, there).values()) == {"holds"}, (x, y)
        assert other.figure(there).panels[0].x.startswith(x)
    with pytest.raises(ParameterError, match="two different exponents"):
        PhaseDiagram(x="c_u", y="c_u").run()


def test_scaling_transfer_control() -> None:
    run = experiment, ds = smoke(ScalingTransfer)
    found = findings(experiment, ds)
    assert {name for name, finding in found.items() if finding == "fails"} == set(experiment.known_failures)
    swapped = ds.isel(variant=[1, 0]).assign_coords(variant=ds.variant)
    assert findings(experiment, swapped)["bounded"] == "fails"
    assert fails(run, "transfers", path=ds.path * (ds.width / ds.width.max()) ** 0.1)
    assert fails(run, "bounded", bound=ds.bound + 0.2)
    assert findings(experiment, ds.assign(norm=ds.excess))["norms"] == "holds"
    lazy = ds.isel(start=[1, 0]).assign_coords(start=ds.start)
    assert findings(experiment, lazy)["made_kernel"] == "holds"
    other = ds.isel(choice=[1, 0]).assign_coords(choice=ds.choice)
    assert findings(experiment, other)["cancelled"] == "holds"  # from a Gaussian start both learn features
    assert findings(experiment, lazy.isel(choice=[1, 0]))["cancelled"] == "fails"
