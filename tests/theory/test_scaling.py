"""Tables of scaling laws and of emergence, and their pictures."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.figure import emergence_figure, scaling_figure
from richter.maths.emergence import emergence_in_time
from richter.maths.skills import skill_frequencies
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import MultilinearSkills, calibrate_emergence, emergence, learning_curves, scaling
from richter.theory.scaling import BOTTLENECKS

USUAL: dict[str, Any] = {"target": 1.3, "initial": 1e-3, "eta": 0.8}


@pytest.mark.parametrize("over", BOTTLENECKS)
def test_every_law_holds_where_it_says_so(over: str) -> None:
    # N13: exponents fitted to exact sums, and prefactors.
    ds = scaling(over, np.geomspace(1e4, 1e8, 9), alpha=[0.3, 0.6, 0.9], **USUAL)
    assert ds.loss.dims == ("alpha", over) and ds.valid.values.all()
    assert np.abs(ds.relative_error.values).max() < (1e-2 if over == "compute" else 1e-6)
    assert np.abs(ds.fitted_exponent - ds.law_exponent).max() < 2e-3
    assert np.abs(ds.exponent[:, 1:-1] - ds.law_exponent).max() < 1e-2
    early = scaling(over, [1.0, 2.0, 4.0, 1e9], alpha=0.6, **USUAL)
    assert early.valid.values[0, -1]
    told = np.abs(early.relative_error.values[0]) <= early.attrs["valid_to"]
    assert not (early.valid.values[0] & ~told).any()
    assert early.attrs["valid_to"] == (1e-2 if over == "compute" else 1e-4)
    assert (ds.fitted_low <= ds.fitted_exponent).all() and (ds.fitted_exponent <= ds.fitted_high).all()
    assert early.valid.values[0, 0] == (over == "parameters")


def test_a_law_is_not_called_valid_where_its_error_changes_sign() -> None:
    # Over compute with the usual numbers the law crosses the exact loss near C = 100, where it is wrong on both sides.
    ds = scaling("compute", [10.0, 100.0, 1e3, 1e6, 1e7], alpha=0.6)
    assert abs(float(ds.relative_error[0, 1])) < 1e-2 < abs(float(ds.relative_error[0, 2]))
    assert ds.valid.values[0].tolist() == [False, False, False, True, True]
    whole = ds.whole_parameters.values[0]
    assert (np.abs(whole - ds.best_parameters.values[0])[1:] < 1.5).all() and (whole % 1 == 0).all()
    assert np.isnan(scaling("compute", [1.0, 2.0, 4.0], alpha=0.1).whole_parameters).all()


@pytest.mark.parametrize("n_skills", [np.inf, 50_000])
@pytest.mark.parametrize("over", ["time", "data", "parameters"])
def test_slopes_do_not_depend_on_the_points_asked_for(over: str, n_skills: float) -> None:
    ends = (1e3, 1e4)
    coarse = scaling(over, [ends[0], 3e3, ends[1]], alpha=[0.1, 0.6], n_skills=n_skills)
    fine = scaling(over, np.geomspace(*ends, 400), alpha=[0.1, 0.6], n_skills=n_skills)
    assert_close(coarse.exponent.isel({over: [0, -1]}), fine.exponent.isel({over: [0, -1]}), SOLVED)
    there = fine[over].values
    slope = np.gradient(np.log(fine.loss.values), np.log(there), axis=1)
    assert np.abs(fine.exponent.values - slope)[:, 1:-1].max() < 2e-4  # differences of second order, steps of 0.6 %
    assert (fine.exponent.values < 0).all()


def test_a_finite_number_of_skills_bends_the_law_as_corrected() -> None:
    # N14, Fig. C.1: α = 0.1, N = 50 000.
    ds = scaling("time", np.geomspace(1e2, 1e5, 13), alpha=[0.1, 0.6], n_skills=50_000, **USUAL)
    late = ds.lead.values > 30
    error = lambda name: np.abs(ds[name] / ds.loss - 1).values
    assert error("corrected")[late].max() < 1e-2
    assert error("law")[0, late[0]].max() > 0.5 > 0.01 > error("law")[1, late[1]][:-4].max() - 0.2
    assert (ds.missing[0] > 0.4).all() and not ds.valid.values[0].any()
    model = MultilinearSkills(alpha=0.1, n_skills=50_000, **USUAL)
    assert_close(ds.loss[0], model.solve(ds["time"].values, only=("loss",)).loss, IDENTITY)


def test_learning_curves_touch_the_best_split_from_above() -> None:
    # Fig. 4.3.
    C = np.geomspace(1e6, 1e10, 30)
    curves = learning_curves(C, np.unique(np.round(np.geomspace(10, 2e4, 60))), alpha=0.6, **USUAL)
    best = scaling("compute", C, alpha=0.6, **USUAL)
    lowest = curves.loss.min("n_basis").values
    ratio = lowest / best.loss.values[0]
    assert (ratio > 1 - 1e-12).all() and ratio.max() < 1.01  # 60 sizes only
    assert (best.added.values > 1.5 * best.loss.values).all()


def test_emergence_is_calibrated_on_one_skill_and_predicts_the_others(seed: int) -> None:
    rng = np.random.default_rng([seed, 95])
    t = np.linspace(0, 1500, 60)
    alone = emergence_in_time(t, 1.0, 5.0, 1e-3, 0.05, 0.04)
    found = calibrate_emergence("time", t, alone + 0.05 * rng.normal(size=60))
    assert found.value == pytest.approx(0.04, rel=0.05)
    ds = emergence("time", calibration=found)
    P = skill_frequencies(0.6, 5)
    true = np.log(5000 - 1) / (2 * 0.05 * P * 0.04 * 5)
    assert (ds.half_low <= ds.half).all() and (ds.half <= ds.half_high).all()
    assert_close(ds.half / ds.half[0], true / true[0], IDENTITY, times=10)
    assert (np.abs(ds.half / true - 1) < 0.05).all()
    assert (ds.low <= ds.skill_strength + 1e-12).all() and (ds.high > ds.low).any()


def test_emergence_over_time_says_where_training_is_stage_like() -> None:
    t = np.linspace(0, 80_000, 20_001)
    small, large = (emergence("time", t, initial=initial, epsilon=0.1) for initial in (1e-9, 0.4))
    for ds in (small, large):
        rows = [ds.skill_strength.values[k] / 5 for k in range(5)]
        for k in range(5):
            first, wait = float(ds.emerges[k]), float(ds.saturates[k])
            assert np.interp([0.1, 0.9], rows[k], t) == pytest.approx([first, first + wait], rel=0.01)  # the grid
        gaps = np.diff(ds.emerges.values)
        assert ds.staged.values[:-1].tolist() == (ds.saturates.values[:-1] < gaps).astype(float).tolist()
        assert np.isnan(ds.staged[-1])
    assert small.staged[:3].all() and not large.staged[:-1].any()
    assert "emerges" not in emergence("data")


def test_emergence_over_data_and_parameters() -> None:
    data = emergence("data", [400.0, 1000.0, 4000.0], calibration=200)
    P = skill_frequencies(0.6, 5)
    assert_close(data.half, 100 / P, IDENTITY)
    effective = emergence("data", [400.0, 1000.0, 4000.0], calibration=200, strength="effective")
    assert_close(effective.half, 150 / P, IDENTITY)
    assert (effective.skill_strength <= data.skill_strength + 0.05).all()
    share = np.minimum(data["data"].values * P[:, None] / 200, 1.0)
    assert np.abs(data.skill_strength / 5 - share).max() < 0.05  # the counts fluctuate
    assert_close(effective.skill_strength, 5 * (1 - np.sqrt(1 - share)), IDENTITY, scale=1.0)
    neurons = emergence("parameters", [2.0, 6.0, 30.0])
    assert neurons.half.values.tolist() == [2.0, 6.0, 10.0, 14.0, 18.0]
    assert (neurons.skill_strength[:, -1] == 5.0).all()
    assert emergence("parameters", n_skills=2).sizes["parameters"] > 5
    found = calibrate_emergence("data", [50, 100, 300], 5 * (1 - np.sqrt(1 - np.array([50, 100, 300]) * P[0] / 200)),
                                frequency=P[0], strength="effective")  # fmt: skip
    assert found.value == pytest.approx(200, rel=1e-9)


def test_pictures_of_laws_and_of_emergence(seed: int) -> None:
    ds = scaling("time", alpha=[0.1, 0.6], n_skills=50_000)
    labels = [m.label for m in scaling_figure(ds).panels[0].marks]
    assert labels == ["α = 0.1", "α = 0.6", "scaling law", "", "corrected for finitely many skills", ""]
    compute = scaling("compute", np.geomspace(1e6, 1e9, 5))
    curves = learning_curves(np.geomspace(1e6, 1e9, 5), [30, 300])
    assert [m.label for m in scaling_figure(compute, curves).panels[0].marks] == ["N = 30", "N = 300", "scaling law"]
    t = np.linspace(0, 1500, 60)
    alone = emergence_in_time(t, 1.0, 5.0, 1e-3, 0.05, 0.04)
    noise = 0.05 * np.random.default_rng([seed, 96]).normal(size=60)
    skills = emergence("time", t, calibration=calibrate_emergence("time", t, alone + noise), n_skills=2)
    kinds = [m.kind for m in emergence_figure(skills, skills).panels[0].marks]
    assert kinds == ["band", "line", "points"] * 2
    assert emergence_figure(emergence("data", n_skills=2)).caption == "examples per skill D_c = 800."


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: scaling("memory"), "`over` must be one of time, data, parameters, compute. Got memory."),
        (lambda: scaling(alpha=-1), "`alpha` must be > 0"),
        (lambda: scaling(initial=9.0), "`initial` must lie between 0 and the target. Got 9.0."),
        (lambda: scaling(values=[1.0, 2.0]), "`values` must be at least three increasing numbers"),
        (lambda: scaling(values=[3.0, 2.0, 1.0]), "`values` must be at least three increasing numbers"),
        (lambda: scaling(n_skills=0), "`n_skills` must be a whole number ≥ 1, or inf. Got 0."),
        (lambda: scaling(n_skills=2.5), "`n_skills` must be a whole number ≥ 1, or inf. Got 2.5."),
        (lambda: scaling(target=np.inf), "`target` must be > 0 and finite. Got inf."),
        (lambda: scaling(eta=np.inf), "`eta` must be > 0 and finite. Got inf."),
        (lambda: emergence(n_skills=10**7), "`n_skills` must be a whole number from 1 to 10000"),
        (lambda: learning_curves([1e3], [0.5]), "`sizes` must be whole numbers ≥ 1"),
        (lambda: emergence("memory"), "`over` must be one of time, data, parameters. Got memory."),
        (lambda: emergence(calibration=-1.0), "`calibration` must be > 0 and finite. Got -1.0."),
        (lambda: emergence(strength="mine"), "`strength` must be one of definition, effective. Got mine."),
        (lambda: emergence(initial=0.0), "`initial` must lie between 0 and the target. Got 0.0."),
        (lambda: emergence(epsilon=0.5), "`epsilon` must lie between 0 and ½. Got 0.5."),
        (lambda: emergence(values=[-1.0]), "`values` must be ≥ 0. Got -1.0."),
        (
            lambda: calibrate_emergence("time", [1], [1], frequency=2.0),
            "`frequency` must lie between 0 and 1. Got 2.0.",
        ),
    ],
)
def test_wrong_questions_are_refused(make: object, text: str) -> None:
    assert callable(make)
    with pytest.raises(ParameterError) as caught:
        make()
    assert text in str(caught.value)
