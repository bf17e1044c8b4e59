"""Every claim about forecasts and advised moves can fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter.experiments.kun24_advised_moves import AdvisedMoves
from richter.experiments.kun24_kernel_forecast import KernelForecast
from richter.experiments.moved_students import ARMS, GOALS, _at
from tests.experiments.smoke import smoke


def findings(ds: xr.Dataset, experiment: AdvisedMoves | KernelForecast) -> dict[str, str]:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}


def test_a_forecast_that_says_nothing_fails_control() -> None:
    pytest.importorskip("torch")
    pytest.importorskip("jax")
    experiment, ds = smoke("kun24-kernel-forecast")
    assert isinstance(experiment, KernelForecast)
    good = ds.assign(predicted_movement=ds.measured_movement.sel(moment=1.0, drop=True))
    assert findings(good, experiment)["ranks"] == findings(good, experiment)["numbers"] == "holds"
    turned = ds.assign(predicted_movement=1 / ds.predicted_movement)
    assert findings(turned, experiment)["ranks"] == "fails"
    assert findings(turned, experiment)["more_than_scale"] == "fails"
    far = ds.assign(predicted_movement=0.01 * ds.predicted_movement)
    assert findings(far, experiment)["numbers"] == "fails"
    # the run itself: the order is right even with few seeds and cells
    assert findings(ds, experiment)["ranks"] != "fails"


def made(advised: float, pilot: float, drawn: float) -> xr.Dataset:
    """Ten cases in which every arm multiplies the movement by a factor, or divides it for `lazier`."""
    ratio = np.ones((10, len(GOALS), len(ARMS), 4))
    for a, factor in enumerate((advised, pilot, drawn)):
        ratio[:, :, a] = factor
    ratio[:, GOALS.index("lazier")] = 1 / ratio[:, GOALS.index("lazier")]
    ratio[:, :, :2, 1:] = np.nan
    return xr.Dataset({"ratio": (("case", "goal", "arm", "draw"), ratio)}, {"goal": list(GOALS), "arm": list(ARMS)})


@pytest.mark.parametrize(
    ("factors", "wanted"),
    [((3.0, 3.0, 1.0), ("holds", "holds", "holds")), ((1.2, 3.0, 1.0), ("fails", "holds", "fails")),
     ((3.0, 0.5, 1.0), ("holds", "fails", "holds")), ((3.0, 3.0, 3.0), ("holds", "holds", "fails")),
     ((np.nan, np.nan, 1.0), ("fails", "fails", "fails"))],
)  # fmt: skip
def test_moves_that_do_not_get_there_fail_control(factors: tuple[float, ...], wanted: tuple[str, ...]) -> None:
    found = findings(made(*factors), AdvisedMoves())
    assert (found["reaches"], found["after_a_pilot"], found["control"]) == wanted
    few = made(*factors).isel(case=slice(2))
    assert set(findings(few.isel(draw=slice(1)), AdvisedMoves()).values()) == {"undecided"}


def test_movements_are_compared_at_a_loss() -> None:
    losses, moved = np.array([1.0, 0.6, 0.2]), np.array([0.0, 1.0, 3.0])
    assert _at(losses, moved, 0.4) == pytest.approx(2.0)
    assert _at(losses, moved, 1.0) == 0.0 and np.isnan(_at(losses, moved, 0.1))
    assert np.isnan(_at(np.array([1.0, np.nan]), moved[:2], 0.5))


def test_a_case_trains_what_was_advised() -> None:
    pytest.importorskip("torch")
    _, ds = smoke("kun24-advised-moves")
    advised = ds.sel(arm=list(ARMS[:2])).isel(draw=0)
    assert (advised.move != "").all() and (ds.before > 0).all() and np.isfinite(advised.ratio).any()
