"""From three lines around a loop to a verdict: intervals, and which steps are a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="needs the extra torch")

import torch  # noqa: E402
import xarray as xr  # noqa: E402

import richter  # noqa: E402
from richter.figure.run import run_figures  # noqa: E402
from richter.probes.recorded_run import fit_time  # noqa: E402
from richter.training import mlp  # noqa: E402


def watched(make: Any, steps: int = 30, **options: Any) -> xr.Dataset:
    """A run of a small network under an optimiser."""
    x = torch.randn(24, 4, generator=torch.Generator().manual_seed(0))
    y = x[:, :1] * x[:, 1:2]
    net = mlp(4, [16], 1, rng=1)
    optimiser = make(net.parameters())
    with richter.watch(net, probe=(x, y), optimiser=optimiser, loss="mse", budget=None, **options) as see:
        for step in range(steps):
            optimiser.zero_grad()
            loss = 0.5 * (net(x) - y).square().mean()
            loss.backward()
            optimiser.step()
            see(step + 1, loss)
    return see.dataset()


def test_a_watched_run_has_intervals() -> None:
    regime = richter.measure(watched(lambda p: torch.optim.SGD(p, lr=0.05))).regime
    kernel = regime.evidence["kernel_change"]
    assert kernel.interval is not None and 0 < kernel.interval[0] < kernel.value < kernel.interval[1]
    assert not any("without resampled" in reason for reason in regime.reasons)


def test_momentum_goes_along_the_flow_faster_and_adam_is_no_time() -> None:
    plain = watched(lambda p: torch.optim.SGD(p, lr=0.01))
    heavy = watched(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9))
    adam = watched(lambda p: torch.optim.Adam(p, lr=0.01))
    assert fit_time(plain) > 0 and fit_time(heavy) == pytest.approx(fit_time(plain) / 10, rel=1e-12)
    assert fit_time(adam) != fit_time(adam)  # NaN
    regime = richter.measure(adam).regime
    assert "early_share" not in regime.evidence
    assert str(regime.label) != "delayed-rich"
    # What momentum says of time is right: its loss is where plain descent with the rate × 10 has it.
    far = watched(lambda p: torch.optim.SGD(p, lr=0.001, momentum=0.9), steps=400)
    same = watched(lambda p: torch.optim.SGD(p, lr=0.01), steps=400)
    assert float(far.loss[-1]) == pytest.approx(float(same.loss[-1]), rel=0.02)  # first order in the rate


def test_the_page_shows_when_the_starts_kernel_had_time_to_fit() -> None:
    ds = watched(lambda p: torch.optim.SGD(p, lr=0.1), steps=300)
    (figure,) = [figure for curve, figure in run_figures([("run", ds)]) if curve.ident == "kernel"]
    (line,) = [m for m in figure.panels[0].marks if m.kind == "vline"]
    assert float(line.x[0]) == pytest.approx(fit_time(ds) / 0.1, rel=1e-6)  # steps are cut at moments in between
    without = ds.assign_attrs(clock="steps")
    (figure,) = [figure for curve, figure in run_figures([("run", without)]) if curve.ident == "kernel"]
    assert not [m for m in figure.panels[0].marks if m.kind == "vline"]


def test_the_clock_survives_the_file(tmp_path: Path) -> None:
    watched(lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.5), file=tmp_path / "run.nc")
    ds = richter.schema.load(tmp_path / "run.nc")
    assert (ds.attrs["clock"], float(ds.attrs["pace"])) == ("flow", 2.0)


def looked_at(known: list[bool]) -> xr.Dataset:
    """A run that is rich at t = 3, its fit time 2, whose kernel was read at some of the moments only."""
    t, change = [0.0, 1.0, 1.9, 2.1, 3.0, 4.0], [0.0, 0.2, 0.38, 0.42, 0.6, 0.8]
    seen = [value if yes else float("nan") for value, yes in zip(change, known, strict=True)]
    kernel = ("step", seen, {"kind": "full", "fit_rate": "1.5"})
    loss = ("step", [1.0, 0.5, 0.3, 0.2, 0.1, 0.1])
    return xr.Dataset(
        {"kernel_change_full": kernel, "loss": loss}, {"step": range(6), "t": ("step", t)}, {"clock": "flow"}
    )


def test_looks_that_were_left_out_do_not_hide_when_the_kernel_moved_unless_they_do() -> None:
    for known in ([True] * 6, [True, True, False, False, True, True], [True, True, True, False, False, True]):
        regime = richter.measure(looked_at(known)).regime
        assert (regime.label, regime.evidence["early_share"].value) == ("rich", pytest.approx(0.5, rel=1e-12))
    blind = richter.measure(looked_at([True, False, False, False, False, True])).regime
    assert blind.label == "rich" and "early_share" not in blind.evidence
    assert any("was not looked at around the time" in reason for reason in blind.reasons)


@pytest.mark.parametrize(("classes", "kind"), [(10, "full"), (100, "trace")])
def test_many_classes_are_measured_by_the_trace(classes: int, kind: str) -> None:
    x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
    y = torch.arange(64) % classes
    with richter.watch(mlp(4, [8], classes, rng=0), (x, y), measure=None, budget=None) as see:
        see(1)
    regime = richter.measure(see.dataset()).regime
    assert f"{kind} kernel" in regime.evidence["kernel_change"].says
    assert any("trace kernel adds up the outputs" in said for said in regime.silent) == (kind == "trace")


def test_too_many_outputs_for_any_kernel_are_said_where_the_regime_is_asked_for() -> None:
    x = torch.randn(64, 4)
    ds = richter.watch(mlp(4, [8], 2000, rng=0), (x, torch.zeros(64, dtype=torch.int64)), budget=None).dataset()
    with pytest.raises(richter.errors.ParameterError, match="kernel_movement_trace: needs at most 32768 outputs"):
        richter.measure(ds)


def test_a_diverged_run_says_so() -> None:
    ds = looked_at([True] * 6).assign_attrs(clock="flow", diverged_at=4)
    assert any("not finite at step 4" in reason for reason in richter.measure(ds).regime.reasons)
    assert not any("not finite" in reason for reason in richter.measure(looked_at([True] * 6)).regime.reasons)
