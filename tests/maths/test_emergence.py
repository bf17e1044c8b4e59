"""Emergence in time, data and parameters: the curves, their calibration on one skill, the prediction of others."""

from __future__ import annotations

from functools import partial

import numpy as np
import pytest
from scipy.stats import t as student

from richter.errors import ParameterError
from richter.maths.emergence import (
    Calibration,
    calibrate,
    emergence_in_data,
    emergence_in_parameters,
    emergence_in_time,
    half_parameters,
    half_samples,
    half_times,
    predict,
)
from richter.maths.extended_skills import basis_strength, few_shot_strength
from richter.maths.integrate import integrate
from richter.maths.logistic import stage_times
from richter.maths.skills import skill_frequencies
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, STANDARD_ERRORS, assert_close, assert_within_errors


@pytest.mark.place(NAM24["Eq. 5.1"], NAM24["Eq. 5.2"])
def test_the_rate_multiplier_enters_with_its_first_power(seed: int) -> None:
    rng = np.random.default_rng([seed, 60])
    S, eta, P, B, a0 = rng.uniform(0.5, 5), rng.uniform(0.05, 1), rng.uniform(0.1, 1), rng.uniform(0.05, 0.6), 0.05
    t = np.array([0.0, 1.0, 2.0]) * np.log(S / (B * a0**2)) / (2 * eta * P * B * S)
    flow = lambda x: -eta * P * B * (x[0] * x[1] * B - S) * x[::-1]  # on ½P(abℬ − S)²
    a, b = integrate(flow, np.array([a0, a0]), t)
    got = emergence_in_time(t, P, S, B * a0**2, eta, B)
    assert_close(got, a * b * B, SOLVED, scale=S)
    printed = emergence_in_time(t, P, S, B * a0**2, eta, B**2)
    assert abs(printed[1] / got[1] - 1) > 0.2
    half = half_times(P, S, B * a0**2, eta, B)
    assert_close(emergence_in_time(half, P, S, B * a0**2, eta, B), S / 2, IDENTITY, times=10)
    assert_close(half, stage_times(0.5, B * a0**2, S, eta * P * B)[0], IDENTITY, times=10)
    assert half_times(1.0, 1.0, 0.7) == 0.0


def test_data_emergence_is_the_mean_over_drawn_counts(seed: int) -> None:
    rng = np.random.default_rng([seed, 61])
    for D, P, needed in ((40, 0.3, 7), (5, 0.9, 9), (300, 0.01, 2), (60, 0.5, 30)):
        drawn = few_shot_strength(rng.binomial(D, P, size=4000), needed, 1.7)
        assert_within_errors(drawn, float(emergence_in_data(D, P, 1.7, needed)))
    assert emergence_in_data(0, 0.5, 1.0, 3).item() == 0.0
    assert_close(
        emergence_in_data(30, 0.4, 1.0, [6, 6.5, 7]).sum(),
        1.5 * emergence_in_data(30, 0.4, 1.0, [6, 7]).sum(),
        IDENTITY,
    )
    many = half_samples(0.2, 800)
    assert abs(emergence_in_data(many, 0.2, 1.0, 800).item() - 0.5) < 1e-3


def test_parameter_emergence_is_the_theorem_for_whole_numbers() -> None:
    N = np.arange(0, 25)
    got = emergence_in_parameters(N[None], np.arange(1, 6)[:, None], 2.0, 4)
    assert_close(got, basis_strength(N, 4, 5, 2.0), IDENTITY)
    assert_close(emergence_in_parameters(half_parameters(3, 4), 3, 2.0, 4), 1.0, IDENTITY)


@pytest.mark.parametrize("over", ["time", "data", "parameters"])
def test_calibrations_find_the_number_and_their_intervals_cover_it(seed: int, over: str) -> None:
    rng = np.random.default_rng([seed, 62])
    curves = {
        "time": (np.linspace(0, 60, 31), lambda x, n: emergence_in_time(x, 1.0, 1.0, 1e-3, 1.0, n), 0.12),
        "data": (np.linspace(10, 200, 20), lambda x, n: few_shot_strength(x, n, 1.0), 83.0),
        "parameters": (np.linspace(1, 12, 23), lambda x, n: emergence_in_parameters(x, 1, 1.0, n), 6.3),
    }
    x, curve, truth = curves[over]
    perfect = calibrate(x, curve(x, truth), curve, (1e-3, 1e5))
    assert perfect.value == pytest.approx(truth, rel=1e-9) and perfect.misfit < 1e-9
    inside, draws, widths, values = 0, 60, [], []
    for _ in range(draws):
        noisy = curve(x, truth) + 0.03 * rng.normal(size=x.size)
        found = calibrate(x, noisy, curve, (truth / 30, truth * 30))
        inside += found.interval[0] <= truth <= found.interval[1]
        widths.append(np.log(found.interval[1] / found.interval[0]) / 2 / student.ppf(0.975, x.size - 1))
        values.append(np.log(found.value))
        assert found.misfit == pytest.approx(0.03, rel=0.7)
    assert abs(inside / draws - 0.95) < STANDARD_ERRORS * np.sqrt(0.95 * 0.05 / draws)
    assert abs(np.std(values, ddof=1) / np.mean(widths) - 1) < STANDARD_ERRORS / np.sqrt(2 * draws)
    surer = calibrate(x, noisy, curve, (truth / 30, truth * 30), error=0.03, confidence=0.5)
    assert surer.interval[1] / surer.interval[0] < found.interval[1] / found.interval[0]


@pytest.mark.parametrize("error", [None, 0.01, 3.0])
def test_the_interval_is_students_for_a_curve_that_is_linear_in_the_logarithm(error: float | None) -> None:
    x = np.array([1.0, 2.0, 4.0, 7.0])
    y = np.array([0.6, 1.5, 2.7, 5.1])
    slope = (x * y).sum() / (x * x).sum()
    scatter = ((y - slope * x) ** 2).sum() / 3
    variance = scatter if error is None else max(scatter, error**2)  # no surer than the points' scatter
    half = student.ppf(0.95, 3) * np.sqrt(variance / (x * x).sum())
    found = calibrate(x, y, lambda x, n: np.log(n) * x, (1e-2, 1e2), error, confidence=0.9)
    assert_close(found.value, np.exp(slope), SOLVED)
    assert_close(found.interval, (np.exp(slope - half), np.exp(slope + half)), SOLVED)


def one_of_many(share: float, t: np.ndarray, rate: float) -> np.ndarray:
    return emergence_in_time(t, share, 5.0, 1e-3, 0.05, rate)


def test_one_skill_predicts_the_others(seed: int) -> None:
    rng = np.random.default_rng([seed, 63])
    P = skill_frequencies(0.6, 5)
    truth = 1 / 22
    alone = lambda t, rate: emergence_in_time(t, 1.0, 5.0, 1e-3, 0.05, rate)
    t = np.linspace(0, 900, 60)
    found = calibrate(t, alone(t, truth) + 0.05 * rng.normal(size=60), alone, (1e-4, 10.0), confidence=0.9999)
    for k in range(5):
        late = np.linspace(0, 3 * half_times(P[k], 5.0, 1e-3, 0.05, truth), 50)
        curve = partial(one_of_many, P[k])
        middle, low, high = predict(late, curve, found)
        true = emergence_in_time(late, P[k], 5.0, 1e-3, 0.05, truth)
        assert (low <= middle).all() and (middle <= high).all()
        assert (low - 1e-12 <= true).all() and (true <= high + 1e-12).all()
    assert found.ends == (found.value, *found.interval)


def test_what_cannot_be_calibrated_is_said() -> None:
    curve = lambda x, n: few_shot_strength(x, n, 1.0)
    late = lambda x, n: emergence_in_time(x, 1.0, 1.0, 1e-3, 1.0, n)
    for given, text in (
        (([1, 2], [0.1, 0.2], curve, (1, 10)), "a measured curve must be at least three pairs"),
        (([1, 2, 3], [0, 0, np.nan], curve, (1, 10)), "`strength` of a measured curve must be finite. Got nan."),
        (([1, 2, 3], [0, 0, 0], curve, (1, 10)), "must lie between 1 and 10. Got the end 10. The curve does not show"),
        (([1, 2, 3], [0, "a", 0], curve, (1, 10)), "`strength` of a measured curve must be a number or a rectangular"),
        (([90, 95, 99], [1, 1.01, 0.99], late, (1e-3, 1e3)), "Got one that 1e+03 fits as well as"),  # learned long ago
        (([1, 2, 3], [0.1, 0.2, 0.3], curve, (1, 100), [1, 1]), "`error` must be one number, or one for each point"),
        (([1, 2, 3], [0.1, 0.2, 0.3], curve, (0, 10)), "`between` must be two numbers > 0"),
        (([1, 2, 3], [0.1, 0.2, 0.3], curve, (1, 100), 0.0), "`error` must be > 0. Got 0.0."),
    ):
        with pytest.raises(ParameterError) as caught:
            calibrate(*given)
        assert text in str(caught.value)
    assert Calibration(2.0, (1.0, 3.0), 0.0, 3).ends == (2.0, 1.0, 3.0)
