"""The scale of the start at one width: the starts are the paper's, and every claim can fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter.experiments.image_runs import drawn
from richter.experiments.xu24_start_scales import StartScales
from richter.theory.phases import phase
from tests.experiments.smoke import findings, smoke

NAME = "xu24-start-scales"


def test_the_starts_are_those_of_the_paper_and_c_0_is_mean_field() -> None:
    experiment = StartScales(powers=(-1.0, 0.0, 2.0), width=64, base=16, kappa=10.0)
    small, middle, large = experiment.scales()
    assert middle == pytest.approx((1.0, 1.0, 4 / 64, 4.0))
    assert small == pytest.approx((1.0, 10**-0.5, 4 / 64, 4.0))
    assert large == pytest.approx((10.0, 10.0, 0.4 / 64, 4.0))
    for c, label in ((-1.0, "feature-learning"), (2.0, "kernel")):
        assert phase(0, min(-c / 2, 0), max(c, 0), c, 0, 0, balanced_output=True).label == label


def test_a_mirrored_start_gives_zero_and_a_drawn_one_grows_with_c() -> None:
    x = np.random.default_rng(0).standard_normal((6, 5))
    scales = StartScales(powers=(0.0, 2.0), width=64).scales()
    zero, _ = drawn(scales, (5, 64, 10), 2, 0, mirrored=True)
    assert np.abs(zero(x)).max() < 1e-6  # float32
    nets, rates = drawn(scales, (5, 64, 10), 2, 0)
    out = np.sqrt((nets(x) ** 2).mean((1, 2)))
    np.testing.assert_allclose(out[2:] / out[:2], 10.0, rtol=1e-5)  # κ^(c/2), the same numbers drawn
    assert rates.tolist() == [4.0] * 4


def test_every_claim_can_fail_control() -> None:
    experiment, ds = smoke(NAME)
    assert findings(NAME)["weights"] == "holds"
    flat = ds.assign({name: _jitter(0.1 + 0 * ds[name]) for name in ("parameter_distance", "kernel_distance")})
    found = findings(NAME, flat)
    assert found["weights"] == found["kernel"] == "fails"
    steep = ds.assign(kernel_distance=_jitter(0 * ds.kernel_distance + 10.0**-ds.power))
    assert findings(NAME, steep)["kernel"] == "holds"
    backwards = ds.assign(kernel_distance=_jitter(0 * ds.kernel_distance + 10.0 ** -abs(ds.power)))
    assert findings(NAME, backwards)["kernel"] == "fails"  # below c = 0 too
    low = ds.train_accuracy * 0 + xr.where(ds.power < 0, 1.0, 0.8)
    assert findings(NAME, ds.assign(train_accuracy=low))["fits"] == "holds"
    assert findings(NAME, ds.assign(train_accuracy=low * 0.9))["fits"] == "undecided"
    assert findings(NAME, ds.assign(train_accuracy=low * 0 + 1.0))["fits"] == "fails"
    cifar = StartScales(**{**experiment.settings, "images": "cifar10"})
    for train, gain, finding in (
        (512, 0.05, "holds"),
        (512, 0.01, "undecided"),
        (50_000, 0.01, "fails"),
        (512, -0.05, "fails"),
    ):
        judge = StartScales(**{**cifar.settings, "train": train})
        accuracy = _jitter(ds.test_accuracy * 0 + 0.4 + gain * (ds.power == min(experiment.powers)))  # type: ignore[attr-defined]
        assert judge.accuracy(ds.assign(test_accuracy=accuracy)).finding == finding


def _jitter(values: xr.DataArray) -> xr.DataArray:
    """One part in ten thousand, so that intervals are not empty."""
    return values * (1 + 1e-4 * np.random.default_rng(0).standard_normal(values.shape))
