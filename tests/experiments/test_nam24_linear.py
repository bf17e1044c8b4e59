"""Every claim about linear models and about constructed features can fail, and what fails here is known."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter import catalog
from tests.experiments.smoke import failing, findings, smoke

NAMES = [name for name in catalog.experiments() if name.startswith("nam24-")]


@pytest.mark.parametrize(
    "name", ["nam24-intensities", "nam24-learnability", "nam24-overfitting", "nam24-spikes", "nam24-signal-first",
             "nam24-minimum-norm", "nam24-constructed-collapse"],
)  # fmt: skip
def test_every_claim_is_decided_and_fails_only_where_it_is_known_to(name: str) -> None:
    found = findings(name)
    assert "undecided" not in found.values()
    assert {claim for claim, finding in found.items() if finding == "fails"} == set(smoke(name)[0].known_failures)


def test_swapped_models_use_the_wrong_frequencies_control() -> None:
    _, ds = smoke("nam24-intensities")
    swapped = ds.isel(model=[1, 0]).assign_coords(model=ds.model)
    assert failing("nam24-intensities", swapped) == {"frequencies"}
    equal = ds.assign(utilisation=ds.utilisation.isel(model=0) + 0 * ds.utilisation)
    assert "interpolate" in failing("nam24-intensities", equal)
    assert "interpolate" in failing("nam24-intensities", ds.assign(residual=ds.residual + 1e-3))


def test_other_learnabilities_are_noticed_control() -> None:
    _, ds = smoke("nam24-learnability")
    name = "nam24-learnability"
    assert failing(name, ds.assign(learnability=ds.learnability * 0.9)) >= {"fractions", "conserved"}
    assert failing(name, ds.assign(clean_error=ds.clean_error * 0.7)) == {"errors"}
    turned = ds.measured_learnability.isel(mode=slice(None, None, -1)).assign_coords(mode=ds["mode"])
    assert failing(name, ds.assign(measured_learnability=turned)) >= {"preference", "fractions"}


def test_a_benign_fit_and_a_malignant_one_are_told_apart_control() -> None:
    _, ds = smoke("nam24-overfitting")
    name = "nam24-overfitting"
    swapped = ds.isel(target=[1, 0]).assign_coords(target=ds.target)
    assert failing(name, swapped) >= {"benign", "malignant", "signal"}
    assert failing(name, ds.assign(train_error=ds.train_error + 1e-3)) == {"benign", "malignant"}
    flat = ds.assign(fit=ds.fit * 0 + 1.0)
    assert failing(name, flat) == {"signal", "spikes"}
    # With a light tail in its place the printed claim would hold.
    assert (
        findings(name, ds.assign(expected_learnability=0 * ds.expected_learnability + 0.99))["printed_tail"] == "holds"
    )


def test_spikes_that_do_not_sharpen_fail_control() -> None:
    _, ds = smoke("nam24-spikes")
    assert failing("nam24-spikes", ds.assign(width=0 * ds.width + ds.theory[0])) == {"sharper"}
    assert failing("nam24-spikes", ds.assign(variance=0 * ds.variance + 0.5)) == {"benign"}
    few = ds.isel(p=slice(0, 2))
    assert findings("nam24-spikes", few)["sharper"] == "undecided"


def test_noise_that_is_fitted_with_the_signal_fails_control() -> None:
    _, ds = smoke("nam24-signal-first")
    name = "nam24-signal-first"
    assert failing(name, ds.assign(noise=ds.signal)) >= {"window", "rate"}
    assert failing(name, ds.assign(signal=ds.noise)) == {"window"}
    late = ds.assign_coords(t=3 * ds.t)
    assert "rate" in failing(name, late)
    # The printed window would hold for the lightest tail.
    light = ds.assign(noise=0 * ds.noise + 0.9, signal=0 * ds.signal)
    assert findings(name, light)["printed"] == "holds"


def test_other_ends_than_the_minimum_norm_fail_control() -> None:
    _, ds = smoke("nam24-minimum-norm")
    name = "nam24-minimum-norm"
    swapped = ds.isel(start=[1, 0]).assign_coords(start=ds.start)
    assert failing(name, swapped) == {"ends", "start"}
    assert failing(name, ds.assign(exact_gap=ds.exact_gap + 1e-6)) == {"ends"}
    assert failing(name, ds.assign(outside=ds.outside + 1e-6)) == {"span"}
    assert failing(name, ds.assign(path_gap=ds.path_gap + 0.1)) == {"way"}


def test_features_that_are_not_collapsed_fail_control() -> None:
    _, ds = smoke("nam24-constructed-collapse")
    name = "nam24-constructed-collapse"
    for variable in ("within_over_between", "equinorm", "equiangle", "gram_gap", "projection_distance"):
        assert failing(name, ds.assign({variable: ds[variable] + 1e-3})) == {"collapses"}
    assert failing(name, ds.assign(duality=ds.duality + 1e-3)) == failing(
        name, ds.assign(disagreement=ds.disagreement + 0.1)
    )
    assert failing(name, ds.assign(bent_within_quotient=np.sqrt(ds.bent_within_quotient))) == {"together"}
    assert failing(name, ds.assign(bent_projection_distance=0 * ds.bent_projection_distance + 1e-9)) == {"together"}
    assert failing(name, ds.assign(unequal=0 * ds.unequal)) == {"unequal"}


def test_all_runs_hold_finite_numbers() -> None:
    for name in NAMES:
        _, ds = smoke(name)
        for variable in ds.data_vars.values():
            excused = "undefined_when" in variable.attrs or name in ("nam24-growth", "nam24-few-shots")
            assert excused or bool(xr.apply_ufunc(np.isfinite, variable).all()) or variable.name in _MASKED, (
                name,
                variable.name,
            )


_MASKED = {"time_law", "whole_parameters"}
