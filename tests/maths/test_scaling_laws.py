"""Scaling laws with their prefactors, against 50 digits, direct sums, brute force and simulation by sampling."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import mp
from scipy.stats import linregress
from scipy.stats import t as student

from richter.errors import ParameterError
from richter.maths.compute_optimal import (
    added_split,
    best_exponent,
    best_split,
    loss_of_time_and_parameters,
    shared_integral,
    whole_split,
)
from richter.maths.multilinear import expected_data_loss, linear_loss, multilinear_loss, multilinear_skill_loss
from richter.maths.power_fit import fit_power, local_exponents
from richter.maths.scaling_laws import (
    corrected_slope,
    corrected_time_law,
    data_drop,
    data_law,
    data_law_asymptote,
    data_step,
    missing_loss,
    parameter_law,
    parameter_law_asymptote,
    saturation_integral,
    scaling_exponents,
    skill_time_slope,
    slope_by_parts,
    small_start_integral,
    stage_drop,
    stage_wait,
    time_law,
    time_slope,
)
from richter.maths.skills import skill_frequencies, zipf_constant
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, STANDARD_ERRORS, assert_close, assert_slope, assert_within_errors
from richter.theory.scaling import scaling

MODEL = {"alpha": 0.6, "target": 1.3, "initial": 1e-3, "eta": 0.8}  # the numbers of the worked example


@pytest.mark.parametrize("s", [0.09, 0.375, 0.7])
@pytest.mark.parametrize("r", [1e-3, 1.5, 20.0, 1299.0])
def test_the_integral_of_the_time_law_is_a_difference_of_polylogarithms(r: float, s: float) -> None:
    with mp.workdps(40):
        exact = mp.gamma(s) * (mp.polylog(mp.mpf(s) - 1, -mp.mpf(r)) - mp.polylog(mp.mpf(s), -mp.mpf(r))).real
    assert_close(saturation_integral(r, s), float(exact), IDENTITY)


def test_the_integral_from_anywhere_and_for_the_smallest_starts() -> None:
    with mp.workdps(30):
        for r, s, u in (
            (1299.0, 0.375, 0.3),
            (1299.0, 0.375, 5.9),
            (1e30, 0.09, 2.0),
            (0.5, 0.6, 0.0),
            (3.0, 0.2, 30.0),
        ):
            knots = [u, *sorted(x for x in (1.0, 5.0, u + 3, 20.0, u + 12, 60.0, 70.0, 80.0) if x > u), u + 150]
            f = lambda v, r=r, s=s: v ** (s - 1) / (1 + mp.exp(v) / r) ** 2
            assert_close(saturation_integral(r, s, u), float(mp.quad(f, knots)), IDENTITY, times=10)
    small = 10.0 ** np.array([20.0, 40.0, 80.0, 160.0])
    off = small_start_integral(small, 0.375) / saturation_integral(small, 0.375) - 1
    assert_slope(np.log(small), off, -2, within=0.15, says="what the small-start form neglects")


@pytest.mark.place(NAM24["Sec. 4.3.1"], NAM24["Eq. 4.21"], NAM24["Eq. 4.25"], NAM24["Eq. 4.16"])
def test_the_time_law_is_the_sum_where_it_is_valid(seed: int) -> None:
    rng = np.random.default_rng([seed, 40])
    for _ in range(5):
        alpha, target = rng.uniform(0.1, 1.5), 10 ** rng.uniform(-0.3, 0.8)
        p = {
            "alpha": alpha,
            "target": target,
            "initial": target * 10 ** rng.uniform(-6, -1),
            "eta": rng.uniform(0.05, 1),
        }
        r = p["target"] / p["initial"] - 1
        clock = np.log(r) / (2 * p["eta"] * zipf_constant(alpha) * target)
        # Skill k emerges at clock · k^(α+1); what the integral over k neglects falls exponentially with that k.
        t = clock * np.array([60.0, 600.0]) ** (alpha + 1)
        loss = multilinear_loss(t, **p)
        assert np.abs(time_law(t, **p) / loss - 1).max() < 1e-4
        assert np.abs(time_law(t[1], **p) / loss[1] - 1) < 1e-12
        h = 1e-4 * t
        slope = (multilinear_loss(t + h, **p) - multilinear_loss(t - h, **p)) / (2 * h)
        assert np.abs(time_slope(t, loss, alpha) / slope - 1).max() < 1e-4
        early = clock * 0.3
        assert abs(time_law(early, **p) / multilinear_loss(early, **p) - 1) > 1e-4  # invalid before (control)


@pytest.mark.parametrize(("alpha", "t"), [(0.3, 1e5), (0.6, 1e4)])
def test_the_time_law_is_a_direct_sum_of_ten_million_skills_and_its_tail(alpha: float, t: float) -> None:
    A, count, block = zipf_constant(alpha), 10**7, 10**6
    loss = weight = 0.0
    for at in range(0, count, block):
        P = A * np.arange(at + 1.0, at + block + 1) ** -(alpha + 1)
        loss += (P * multilinear_skill_loss(np.asarray(t), P, 1.3, 1e-3, 0.8)).sum()
        weight += float(P.sum())
    with mp.workdps(30):
        tail = float(A * mp.zeta(mp.mpf(alpha) + 1, count + 1))
    assert tail == pytest.approx(1 - weight, abs=1e-9)
    whole = loss + tail * (1.3 - 1e-3) ** 2 / 2
    law = time_law(t, alpha, 1.3, 1e-3, 0.8)
    assert abs(law / whole - 1) < 1e-4
    assert (1 - loss / law > 0.03) == (alpha < 0.5)  # the plain sum of a small α is far too low (control)
    assert abs(float(multilinear_loss(t, alpha, 1.3, 1e-3, 0.8)) / whole - 1) < 1e-4


@pytest.mark.place(NAM24["Eq. 4.12"], NAM24["Eq. 4.13"], NAM24["Eq. 4.14"], NAM24["Eq. 4.15"])
def test_stages_in_sequence_give_the_time_exponent(seed: int) -> None:
    alpha = np.random.default_rng([seed, 41]).uniform(0.2, 1.5)
    k = np.array([1e2, 1e3, 1e4, 1e5])
    left = np.array([float(mp.zeta(alpha + 1, x)) for x in k])
    assert_close(stage_drop(k, alpha), (left - k ** -(alpha + 1) - left) / left, IDENTITY, times=1e5)  # a difference
    assert_slope(k, stage_drop(k, alpha) * k + alpha, -1)
    assert_slope(k, stage_wait(k, alpha) * k - (alpha + 1), -1, within=0.1)
    assert_close(stage_wait(3.0, alpha), (4 / 3) ** (alpha + 1) - 1, IDENTITY)
    assert_slope(k, stage_drop(k, alpha) / stage_wait(k, alpha) + alpha / (alpha + 1), -1, within=0.1)


@pytest.mark.place(NAM24["Sec. 4.3.2"], NAM24["Eq. 4.30"])
def test_the_data_law_is_the_expected_loss(seed: int) -> None:
    alpha = np.random.default_rng([seed, 42]).uniform(0.2, 1.5)
    D = np.array([1e3, 1e5, 1e7])
    exact = expected_data_loss(D, alpha, 1.3)
    assert np.abs(data_law(D, alpha, 1.3) / exact - 1).max() < 1e-6
    assert_slope(D, data_law_asymptote(D, alpha, 1.3) / exact - 1, -1, within=0.15)
    with mp.workdps(40):
        s = mp.mpf(alpha) / (mp.mpf(alpha) + 1)
        for d in (0.0, 7.0, 40.0, 1e6):
            A = 1 / mp.zeta(mp.mpf(alpha) + 1)
            value = mp.mpf("1.69") * A ** (1 - s) / (2 * (mp.mpf(alpha) + 1)) * mp.beta(s, d + 1)
            assert_close(data_law(d, alpha, 1.3), float(value), IDENTITY, times=10)


@pytest.mark.place(NAM24["Eq. 4.33"], NAM24["Eq. 4.34"])
def test_one_more_example_lowers_the_loss_by_the_corrected_share() -> None:
    first, second = data_law(np.array([1000.0, 1001.0]), 0.6, 1.3)
    assert_close(data_drop(1000, 0.6), second / first - 1, IDENTITY, times=1e4)  # a difference of near-equal losses
    assert float(data_drop(1000, 0.6)) == pytest.approx(-3.744851e-4, rel=2e-7)
    printed = -0.6 / (1 + 1.6 * 1000)
    assert printed == pytest.approx(-3.747658e-4, rel=2e-7)
    exact = float(expected_data_loss(1001, 0.6, 1.3) / expected_data_loss(1000, 0.6, 1.3) - 1)
    assert abs(exact / float(data_drop(1000, 0.6)) - 1) < 1e-6 < 5e-4 < abs(exact / printed - 1)


@pytest.mark.place(NAM24["Sec. 4.3.3"], NAM24["Eq. 4.36"])
def test_the_parameter_law_is_the_tail_of_the_frequencies() -> None:
    N = np.array([10.0, 100.0, 1e3, 1e4])
    exact = [multilinear_loss(np.inf, 0.6, 1.3, 1e-3, n_basis=int(n)) for n in N]
    assert_close(parameter_law(N, 0.6, 1.3), exact, IDENTITY)
    assert_slope(N, parameter_law_asymptote(N, 0.6, 1.3) / parameter_law(N, 0.6, 1.3) - 1, -2)


@pytest.mark.place(NAM24["Table 4.1"])
@pytest.mark.parametrize("alpha", [0.3, 0.6, 0.9])
def test_fitted_exponents_are_those_of_the_table(alpha: float) -> None:
    x = np.geomspace(1e5, 1e9, 9)
    e = {name: float(value) for name, value in scaling_exponents(alpha).items()}
    best = best_split(x, alpha, 1.3, 1e-3, 0.8)
    pairs = {
        "time": (x, multilinear_loss(x, alpha, 1.3, 1e-3, 0.8)), "data": (x, expected_data_loss(x, alpha, 1.3)),
        "parameters": (x, parameter_law(x, alpha, 1.3)), "compute": (x, best.loss),
        "best_time": (x, best.time), "best_parameters": (x, best.parameters),
    }  # fmt: skip
    for name, (across, up) in pairs.items():
        assert fit_power(across, up).exponent == pytest.approx(e[name], abs=2e-4), name  # asymptotic laws
        assert np.abs(local_exponents(across, up)[1:-1] - e[name]).max() < 1e-3, name
    assert (
        e["compute"]
        == pytest.approx(e["time"] * e["best_time"])
        == pytest.approx(e["parameters"] * e["best_parameters"])
    )
    # The linear model with the same skills has the same exponents (App. C.2).
    assert fit_power(x, linear_loss(x, alpha, 1.3, 0.8)).exponent == pytest.approx(e["time"], abs=2e-4)


def test_losses_simulated_by_sampling_agree_with_the_laws(seed: int) -> None:
    rng = np.random.default_rng([seed, 44])
    n, draws, D = 4000, 400, 3000
    P = skill_frequencies(0.6, n)
    counts = rng.multinomial(D, P / P.sum(), size=draws)
    drawn = (P * np.where(counts > 0, 0.0, (1.3 - 1e-3) ** 2 / 2)).sum(axis=1)
    assert_within_errors(drawn, float(expected_data_loss(D, 0.6, 1.3, 1e-3, n_skills=n)), says="data")
    # Test examples: the loss of one is ½(S − R_k)² of its skill.
    skill = rng.choice(n, size=100_000, p=P / P.sum())
    t = 2e3
    each = multilinear_skill_loss(np.asarray(t), P[skill], 1.3, 1e-3, 0.8)
    assert_within_errors(each, float(multilinear_loss(t, 0.6, 1.3, 1e-3, 0.8, n_skills=n)), says="time")
    each = np.where(skill < 60, 0.0, 1.3**2 / 2)
    assert_within_errors(
        each, float(multilinear_loss(np.inf, 0.6, 1.3, 1e-3, n_skills=n, n_basis=60)), says="parameters"
    )
    assert_within_errors(each, float(multilinear_loss(1e9, 0.6, 1.3, 1e-3, n_skills=n, n_basis=60)), says="late")


@pytest.mark.place(NAM24["Eq. C.1"], NAM24["Eq. C.2"])
def test_finitely_many_skills_decay_faster_by_the_corrected_law() -> None:
    n, alpha = 50_000, 0.1
    start = 1 / 10_001  # r = 10⁴
    loss = lambda t: multilinear_loss(t, alpha, 1.0, start, n_skills=n)
    t, h = 1e3, 0.5
    slope = float((loss(t - 2 * h) - 8 * loss(t - h) + 8 * loss(t + h) - loss(t + 2 * h)) / (12 * h))
    assert slope == pytest.approx(-4.578090e-5, rel=2e-7)
    assert float(corrected_slope(t, loss(t), alpha, 1.0, n)) == pytest.approx(-4.578521e-5, rel=2e-7)
    assert abs(float(time_slope(t, loss(t), alpha)) / slope - 1) > 0.4  # without the correction
    assert abs(float(time_slope(t, loss(t) - missing_loss(alpha, 1.0, n), alpha)) / slope - 1) > 0.9  # minus for plus
    times = np.geomspace(1e3, 3e4, 20)
    corrected = corrected_time_law(times, times[0], loss(times[0]), alpha, 1.0, n)
    plain = loss(times[0]) * (times / times[0]) ** (-alpha / (alpha + 1))
    assert np.abs(corrected / loss(times) - 1).max() < 2e-3 and np.abs(plain / loss(times) - 1).max() > 0.4
    # With the unmodelled tail the law is a pure power again.
    A = zipf_constant(alpha, n)
    whole = loss(times) + A / 2 * (1 - start) ** 2 * (np.array(float(mp.zeta(alpha + 1, n + 1))))
    assert np.abs(local_exponents(times, whole)[1:-1] + alpha / (alpha + 1)).max() < 1e-3


@pytest.mark.place(NAM24["Sec. 4.3.4"], NAM24["Eq. 4.37"], NAM24["Eq. 4.43"], NAM24["Eq. 4.44"])
def test_the_best_split_of_compute_is_that_of_brute_force() -> None:
    assert float(best_exponent(0.6, 1299.0)) == pytest.approx(5.9370506, abs=6e-8)  # the digits printed
    best = best_split(1e9, **MODEL)
    assert float(best.parameters) == pytest.approx(1406.9, abs=0.05)
    assert float(best.loss) == pytest.approx(8.2868e-3, abs=5e-8)
    assert_close(best.time * best.parameters, 1e9, IDENTITY)
    sizes = np.arange(1300, 1520)
    losses = np.array([float(multilinear_loss(1e9 / n, **MODEL, n_basis=int(n))) for n in sizes])
    assert sizes[np.argmin(losses)] == 1407
    assert losses.min() == pytest.approx(8.2861e-3, abs=5e-8)
    law = loss_of_time_and_parameters(1e9 / sizes, sizes, **MODEL)
    assert np.abs(law / losses - 1).max() < 1e-6
    for compute, tolerance in ((1e6, 0.05), (1e7, 0.02)):
        b = best_split(compute, **MODEL)
        around = np.unique(np.round(float(b.parameters) * np.linspace(0.7, 1.4, 60)))
        found = [float(multilinear_loss(compute / n, **MODEL, n_basis=int(n))) for n in around]
        assert abs(around[np.argmin(found)] / float(b.parameters) - 1) < tolerance


@pytest.mark.parametrize(
    ("alpha", "target", "initial", "eta"), [(0.6, 1.3, 1e-3, 0.8), (1.2, 1.0, 0.2, 1.0), (0.3, 5.0, 1e-6, 0.05)]
)
def test_the_best_whole_split_is_the_best_of_all(alpha: float, target: float, initial: float, eta: float) -> None:
    given = {"alpha": alpha, "target": target, "initial": initial, "eta": eta}
    C = np.array([1e3, 3e4, 1e5])
    best = whole_split(C, **given)
    for i, compute in enumerate(C):
        sizes = np.arange(1, int(4 * best_split(compute, **given).parameters) + 20)
        losses = np.array([float(multilinear_loss(compute / n, **given, n_basis=int(n))) for n in sizes])
        assert best.parameters[i] == sizes[np.argmin(losses)]
        assert best.loss[i] == losses.min()
    assert_close(best.time * best.parameters, C, IDENTITY)
    # The continuous optimum is its limit.
    large = 10.0 ** np.arange(8, 14, 2)
    assert np.abs(best_split(large, **given).parameters - whole_split(large, **given).parameters).max() < 2
    assert np.abs(best_split(large, **given).loss / whole_split(large, **given).loss - 1).max() < 1e-2


def test_a_best_whole_split_is_refused_or_ends_where_there_is_none() -> None:
    assert np.isnan(whole_split(1.0, 0.1, 5.0, 1e-2, 0.05).parameters)  # nothing is learned: more is always better
    near = whole_split(np.array([1e2, 1e12]), 0.1, 5.0, 4.0, 0.05)  # a start near the target: nothing to gain by time
    assert np.isnan(near.parameters).all() and np.isnan(near.loss).all()
    assert np.isnan(best_split(1e6, 0.01, 5.0, 4.9).parameters)
    assert np.isnan(scaling("compute", [1e2, 1e6, 1e12], alpha=0.01, initial=4.9).law).all()
    few = whole_split(np.array([1e4, 1e9]), 0.3, 5.0, 1e-2, 0.05, n_skills=20)
    assert few.parameters.tolist() == [13.0, 20.0]
    sizes = [float(multilinear_loss(1e4 / n, 0.3, 5.0, 1e-2, 0.05, 20, n)) for n in range(1, 21)]
    assert int(np.argmin(sizes)) + 1 == 13


def test_the_optimum_solves_its_condition(seed: int) -> None:
    rng = np.random.default_rng([seed, 45])
    alpha = np.append(rng.uniform(0.1, 1.5, 6), [0.02, 0.1])  # and starts near the target: u* is 1e-86 and less
    r = np.append(10 ** rng.uniform(0.3, 8, 6), [0.1, 1e-3])
    s = alpha / (alpha + 1)
    u = best_exponent(alpha, r)
    h = 1e-4 * u
    slope = (shared_integral(u + h, r, s) - shared_integral(u - h, r, s)) / (2 * h)
    share = alpha / ((alpha + 1) * (alpha + 2))
    assert np.abs(u * slope / (share * shared_integral(u, r, s)) - 1).max() < 1e-5  # central differences
    assert_close(shared_integral(0.0, r, s), saturation_integral(r, s), IDENTITY)
    assert_close(shared_integral(500.0, r, s), 500.0**s / s, IDENTITY)


@pytest.mark.place(NAM24["Eq. 4.38"], NAM24["Eq. 4.39"], NAM24["Eq. 4.40"], NAM24["Eq. 4.41"], NAM24["Eq. 4.42"])
def test_the_added_form_counts_twice() -> None:
    added = added_split(1e9, **MODEL)
    assert round(float(added.parameters)) == 2266 and float(added.loss) == pytest.approx(1.55e-2, rel=5e-3)
    assert float(added.loss / best_split(1e9, **MODEL).loss) == pytest.approx(1.88, abs=0.005)
    near = float(added.parameters) * np.array([0.99, 1.0, 1.01])
    sums = time_law(1e9 / near, **MODEL) + parameter_law_asymptote(near - 0.5, 0.6, 1.3)
    assert sums[1] < sums[[0, 2]].min()
    assert_close(sums[1], added.loss, IDENTITY)


def test_power_fits_cover_the_truth(seed: int) -> None:
    rng = np.random.default_rng([seed, 46])
    x = np.geomspace(1, 100, 12)
    inside = 0
    for _ in range(300):
        y = 3 * x**-0.7 * np.exp(0.1 * rng.normal(size=12))
        inside += fit_power(x, y).holds(-0.7)
    assert abs(inside / 300 - 0.95) < STANDARD_ERRORS * np.sqrt(0.95 * 0.05 / 300)
    fit, other = fit_power(x, y), linregress(np.log(x), np.log(y))
    quantile = student.ppf(0.975, 10)
    ends = other.slope + quantile * other.stderr * np.array([-1, 1])
    assert_close(fit.exponent_interval, ends, IDENTITY, times=10)
    ends = np.exp(other.intercept + quantile * other.intercept_stderr * np.array([-1, 1]))
    assert_close(fit.prefactor_interval, ends, IDENTITY, times=10)
    weighted = fit_power(x, y, error=0.1 * y)
    assert weighted.exponent_interval[0] < weighted.exponent < weighted.exponent_interval[1]
    assert weighted.exponent == pytest.approx(fit_power(x, y).exponent, abs=1e-12)  # equal weights
    assert weighted.prefactor_interval[0] < 3.5 and weighted.prefactor_interval[1] > 2.5
    for wrong, text in (
        (([1, 2], [1, 2]), "must be at least three pairs"), (([1, 2, 3], [1, 2, 0]), "must be finite and > 0"),
        (([2, 2, 2], [1, 2, 3]), "must have different x"), (([1, 2, 3], [1, 2, 3], [1, 0, 1]), "`error` must be one"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=text):
            fit_power(*wrong)


@pytest.mark.place(NAM24["Eq. 4.20"], NAM24["Eq. 4.22"], NAM24["Eq. 4.23"], NAM24["Eq. 4.24"])
def test_the_slope_of_the_time_law_is_an_integral_by_parts(seed: int) -> None:
    alpha, target, initial, eta, t, N = 0.4, 1.3, 1e-2, 0.8, 30.0, 500.0
    A = float(zipf_constant(alpha))
    loss = lambda k, t: multilinear_skill_loss(np.asarray(t), A * np.asarray(k) ** -(alpha + 1), target, initial, eta)
    k = np.array([1.0, 3.0, 20.0])
    h = 1e-5
    in_time = (loss(k, t * (1 + h)) - loss(k, t * (1 - h))) / (2 * t * h)
    in_rank = (loss(k * (1 + h), t) - loss(k * (1 - h), t)) / (2 * k * h)
    np.testing.assert_allclose(skill_time_slope(t, k, in_rank, alpha), in_time, rtol=1e-6)  # central differences
    x, weight = np.polynomial.legendre.leggauss(400)
    log = np.log(N) * (x + 1) / 2  # over ln k
    nodes, w = np.exp(log), weight * np.log(N) / 2 * np.exp(log)
    integral = lambda t: (w * A * nodes ** -(alpha + 1) * loss(nodes, t)).sum()
    direct = (integral(t * (1 + h)) - integral(t * (1 - h))) / (2 * t * h)
    ends = float(loss(1.0, t)), float(loss(N, t))
    parts = slope_by_parts(t, integral(t), ends, (1.0, N), alpha, A)
    np.testing.assert_allclose(parts, direct, rtol=1e-6)  # central differences
    # Without the bracket it is Eq. 4.25, right for endlessly many skills only.
    assert abs(float(time_slope(t, integral(t), alpha)) / direct - 1) > 0.1
    bracket = lambda n, t: A * n**-alpha * float(loss(n, t))
    assert bracket(1.0, 60.0) < 1e-20 and bracket(1e12, t) / bracket(1e4, t) == pytest.approx(1e8**-alpha, rel=1e-2)


@pytest.mark.place(NAM24["Eq. 4.31"], NAM24["Eq. 4.32"])
def test_one_more_sample_takes_away_an_integral(seed: int) -> None:
    alpha = np.random.default_rng([seed, 48]).uniform(0.2, 1.5)
    D = np.array([3.0, 50.0, 4000.0])
    law = data_law(D, alpha, 1.3), data_law(D + 1, alpha, 1.3)
    assert_close(data_step(D, alpha, 1.3), law[1] - law[0], IDENTITY, times=1e6)  # a difference of near-equal losses
    assert_close(data_step(D, alpha, 1.3) / law[0], data_drop(D, alpha), IDENTITY, times=10)
    with mp.workdps(30):
        A = 1 / mp.zeta(mp.mpf(alpha) + 1)
        least = A ** (1 / (mp.mpf(alpha) + 1))  # where P = 1
        f = lambda k: k ** (-2 * (alpha + 1)) * (1 - A * k ** -(alpha + 1)) ** 50
        whole = -mp.mpf("1.69") * A**2 / 2 * mp.quad(f, [least, 2, 5, 10, 50, 200, 1000, mp.inf])
    np.testing.assert_allclose(float(data_step(50.0, alpha, 1.3)), float(whole), rtol=1e-8)  # the quadrature's
