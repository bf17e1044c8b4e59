"""Every claim about skills, their laws and their emergence can fail."""

from __future__ import annotations

import numpy as np
import pytest

from tests.experiments.smoke import failing, findings, smoke


@pytest.mark.parametrize(
    "name", ["nam24-scaling-laws", "nam24-compute", "nam24-finite-skills", "nam24-skill-curves", "nam24-few-shots",
             "nam24-parity-modes"],
)  # fmt: skip
def test_every_claim_is_decided_and_fails_only_where_it_is_known_to(name: str) -> None:
    found = findings(name)
    assert "undecided" not in found.values()
    assert {claim for claim, finding in found.items() if finding == "fails"} == set(smoke(name)[0].known_failures)


def test_other_exponents_and_prefactors_fail_control() -> None:
    _, ds = smoke("nam24-scaling-laws")
    name = "nam24-scaling-laws"
    for over in ("time", "data", "parameters"):
        bent = ds.assign({f"{over}_loss": ds[f"{over}_loss"] * ds[over] ** 0.01})
        assert failing(name, bent) >= {"exponents", "prefactors"}
        assert failing(name, ds.assign({f"{over}_law": 1.001 * ds[f"{over}_law"]})) == {"prefactors"}
    assert failing(name, ds.assign(time_valid=ds.time_valid | True)) == {"prefactors"}  # nothing is said outside
    assert failing(name, ds.assign(whole_sum=ds.plain_sum)) == {"sums"}  # without the Hurwitz tail
    assert failing(name, ds.assign(drawn_exact=1.1 * ds.drawn_exact)) == {"sampling"}
    assert findings(name, ds.assign(data_valid=ds.data_valid & False))["exponents"] == "undecided"


def test_another_optimum_fails_control() -> None:
    _, ds = smoke("nam24-compute")
    name = "nam24-compute"
    moved = ds.brute.copy()
    moved.loc[{"kind": "searched"}] = ds.brute.sel(kind="searched") + 1
    assert failing(name, ds.assign(brute=moved)) == {"optimum"}
    assert failing(name, ds.assign(law=1.01 * ds.law)) == {"optimum"}
    assert failing(name, ds.assign(whole_parameters=ds.whole_parameters**1.02)) == {"exponents"}
    assert findings(name, ds.assign(added=ds.loss))["added"] == "holds"


def test_a_wrong_correction_fails_control() -> None:
    _, ds = smoke("nam24-finite-skills")
    name = "nam24-finite-skills"
    assert failing(name, ds.assign(corrected=ds.law)) == {"better"}
    assert failing(name, ds.assign(corrected_slope=ds.opposite_slope)) == {"slope"}
    assert failing(name, ds.assign(missing=0 * ds.missing)) == {"missing_share"}
    assert findings(name, ds.assign(room=0 * ds.room))["better"] == "undecided"


def test_models_in_each_others_place_fail_control() -> None:
    _, ds = smoke("nam24-skill-curves")
    name = "nam24-skill-curves"
    swapped = ds.isel(model=[1, 0]).assign_coords(model=ds.model)
    assert failing(name, swapped) == {"sigmoidal", "no_emergence"}
    turned = ds.strength.isel(skill=slice(None, None, -1)).assign_coords(skill=ds.skill)
    assert failing(name, ds.assign(strength=turned)) >= {"rarer"}
    assert failing(name, ds.assign(trained=ds.trained + 0.6)) == {"sigmoidal"}
    assert failing(name, ds.assign(law_loss=ds.law_loss * ds.time**0.01)) == {"same_laws"}
    assert failing(name, ds.assign(size_loss=ds.size_loss * np.array([[1.0], [1.1]]))) == {"same_laws"}
    assert failing(name, ds.assign(learned=ds.learned * 0.8)) >= {"one_shot"}


def test_other_numbers_of_shots_fail_control() -> None:
    experiment, ds = smoke("nam24-few-shots")
    name = "nam24-few-shots"
    S, share = 5.0, np.minimum(ds["count"] / float(experiment.settings["needed"]), 1.0)
    printed = ds.strength * 0 + S * (1 - np.sqrt(1 - share)) + (ds.strength - ds.strength.mean("draw"))
    bent = ds.assign(strength=printed)
    assert failing(name, bent) == {"shots"} and findings(name, bent)["printed"] == "holds"
    assert (
        failing(name, ds.assign(drift=ds.drift + 1e-6))
        == failing(name, ds.assign(null_gap=ds.null_gap + 1e-6))
        == {"conserved"}
    )
    assert failing(name, ds.assign(end_gap=ds.end_gap + 1e-3)) == {"ends"}
    assert failing(name, ds.assign(basis_strength=ds.basis_strength * 0.99)) == {"basis"}


def test_modes_of_another_kind_fail_control() -> None:
    _, ds = smoke("nam24-parity-modes")
    name = "nam24-parity-modes"
    turned = ds.strength.isel(mode=[2, 1, 0]).assign_coords(mode=ds["mode"])
    assert failing(name, ds.assign(strength=turned)) >= {"decomposes", "apart"}
    t = ds.t
    logistic = ds.strength.isel(t=-1) / (1 + np.exp(-20 * (t - 0.6))) * 1.0
    made = findings(name, ds.assign(strength=logistic.transpose(*ds.strength.dims)))
    assert made["tail"] == "fails" and made["sigmoids"] == "holds" and made["apart"] == "fails"
    assert failing(name, ds.assign_coords(t=2 * ds.t)) == {"rate"}
    done = ds.weight.copy()
    done.loc[{"weight_name": "c"}] = -5.0
    assert findings(name, ds.assign(weight=done))["constant_first"] == "holds"
    assert findings(name, ds.assign(printed_slope=ds.slope))["printed"] == "holds"
