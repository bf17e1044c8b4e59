"""The eigenlearning predictions as labelled results, and drawn data sets as their witness."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.errors import ParameterError, RichterError
from richter.maths.eigenlearning import learned_fraction
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, STANDARD_ERRORS, assert_close
from richter.theory import learnability, power_law_learnability, sample_learnability

ASYMPTOTIC = 0.015  # of the formulas at n = 60 (FORMULAS: 1.5 % or better), beside the standard errors


def test_a_learning_curve_has_labels() -> None:
    rho, v = np.ones((2, 3, 5)) * [1, 0.5, 0.2, 0.1, 0.1], np.arange(5.0)
    ds = learnability(rho, n=[1, 2, 5, 9], ridge=0.1, coefficients=v, noise=[0.1, 0.2, 0.3])
    assert dict(ds.sizes) == {"start_1": 2, "start_2": 3, "n": 4, "mode": 5}
    assert ds.learnability.dims == ("start_1", "start_2", "n", "mode") and ds.kappa.dims == ("start_1", "start_2", "n")
    assert ds.n.values.tolist() == [1, 2, 5, 9] and "without ½" in ds.attrs["loss_convention"]
    one = learnability(rho[0, 0], 5, 0.1, v, 0.2)
    assert one.learnability.dims == ("mode",) and one.kappa.dims == ()
    for name in ds.data_vars:
        assert_close(ds[name].sel(n=5)[1, 1], one[name], IDENTITY)
    assert set(map(str, ds.data_vars)) == {
        "kappa", "learnability", "overfitting", "train_error", "test_error", "clean_error"
    }  # fmt: skip


def test_errors_follow_from_their_definition(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    rho, v, n, ridge, sigma = rng.uniform(0.1, 2, 30), rng.normal(size=30), 12.0, 0.7, 0.4
    ds = learnability(rho, n, ridge, v, sigma)
    L = rho / (rho + float(ds.kappa))
    factor = n / (n - (L**2).sum())
    test = factor * (((1 - L) ** 2 * v**2).sum() + sigma**2)
    assert_close(ds.test_error, test, IDENTITY)
    assert_close(ds.clean_error, test - sigma**2, IDENTITY, times=10)  # the test subtracts
    assert_close(ds.train_error, (ridge / (n * float(ds.kappa))) ** 2 * test, IDENTITY)
    assert_close(ds.overfitting, factor, IDENTITY)


def test_multiplicities_count_modes() -> None:
    v = np.array([0.6, 0.8, 1.0])
    ds = learnability([1.0, 0.1], [2, 6, 20], 0.2, [1.0, 1.0], 0.3, multiplicities=[2, 10])
    full = learnability([1.0] * 2 + [0.1] * 10, [2, 6, 20], 0.2, [*v, *[0.0] * 9], 0.3)
    for name in ("kappa", "overfitting", "train_error", "test_error", "clean_error"):
        assert_close(ds[name], full[name], IDENTITY, says=name)


def test_without_coefficients_only_the_errors_are_undefined() -> None:
    ds = learnability([1.0, 0.5], 1, noise=1.0)
    for name in ("train_error", "test_error", "clean_error"):
        assert np.isnan(ds[name]) and ds[name].attrs["undefined_when"] == "no coefficients are given"
    assert np.isfinite(ds.kappa) and np.isfinite(ds.learnability).all()


def test_the_infinite_power_law_is_the_limit_of_a_long_one() -> None:
    rho = np.arange(1.0, 200_001) ** -2.5
    v = np.zeros(rho.size)
    v[:3] = [1.0, 0.5, 2.0]
    long, infinite = (
        learnability(rho, [2, 30], 0.01, v, 0.1),
        power_law_learnability(1.5, [2, 30], 0.01, v[:3], 0.1),
    )
    for name in ("kappa", "overfitting", "train_error", "test_error", "clean_error"):
        np.testing.assert_allclose(long[name], infinite[name], rtol=1e-6, err_msg=name)  # the modes left out: p^-1.5
    assert dict(power_law_learnability(1.0, 3, modes=7).sizes) == {"mode": 7}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"eigenvalues": [1, -1], "n": 1}, "`eigenvalues` of learnability must be ≥ 0. Got -1.0. Set rounding errors to 0."),
        ({"eigenvalues": [1, np.nan], "n": 1}, "`eigenvalues` of learnability must be finite. Got nan. Set"),
        ({"eigenvalues": [1], "n": 0}, "`n` of learnability must be > 0. Got 0.0."),
        ({"eigenvalues": [1], "n": [[1, 2]]}, "`n` of learnability must be a number or a list. Got shape (1, 2)."),
        (
            {"eigenvalues": [1], "n": 1, "ridge": -1},
            "`ridge` of learnability must be ≥ 0. Got -1.0. Use 0 for the minimum-norm solution.",
        ),
        ({"eigenvalues": [1], "n": 1, "noise": -1}, "`noise` of learnability must be ≥ 0. Got -1.0."),
        ({"eigenvalues": [1, 2], "n": 1, "coefficients": [1, 2, 3]}, "`coefficients` of learnability must have 2 entries"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(RichterError) as problem:
        learnability(**given)
    assert str(problem.value).startswith(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"alpha": 0.0, "n": 1}, "`alpha` of power_law_learnability must be between 0.001 and 100. Got 0.0."),
        ({"alpha": [1.0, 2.0], "n": 1}, "`alpha` of power_law_learnability must be one number. Got shape (2,)."),
        ({"alpha": 1.0, "n": 1e9}, "`n` of power_law_learnability must be between 0.001 and 1e+06. Got 1000000000.0."),
        (
            {"alpha": 100.0, "n": [2, 1000]},
            "`n` of power_law_learnability must keep (4n)^(1 + alpha) below 1e280, as κ falls that low. "
            "Got n = 1000, alpha = 100.",
        ),
        ({"alpha": 1.0, "n": 1, "noise": -1.0}, "`noise` of power_law_learnability must be ≥ 0. Got -1.0."),
        ({"alpha": 1.0, "n": 1, "coefficients": [[1.0]]}, "`coefficients` of power_law_learnability must be a list. Got"),
    ],
)  # fmt: skip
def test_wrong_power_laws_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as problem:
        power_law_learnability(**given)
    assert str(problem.value).startswith(text)


@pytest.mark.place(NAM24["Eq. 1.35"])
@pytest.mark.parametrize(
    ("p", "n", "ridge", "decay"), [(200, 60, 0.0, 1.5), (200, 60, 0.5, 1.5), (300, 80, 0.0, 0.8), (90, 120, 0.3, 1.0)]
)
def test_learnability_predicts_the_mean_learned_coefficient_and_the_error(
    p: int, n: int, ridge: float, decay: float, seed: int
) -> None:
    """N2 of the claims: 300 data sets, n = 60 to 120; asymptotic within 1.5 % beside the standard errors."""
    k = np.arange(1.0, p + 1)
    rho, v = k**-decay, np.where(k % 3 == 0, -1.0, 1.0) * k**-0.7
    told = learnability(rho, n, ridge, v, 0.5)
    seen = sample_learnability(rho, n, ridge, v, 0.5, draws=300, rng=np.random.default_rng([seed, p, n]))
    mean, error = seen.sel(statistic="mean"), seen.sel(statistic="standard error")

    def near(name: str, want: Any, slack: Any) -> None:
        off = np.abs(np.asarray(mean[name]) - want)
        allowed = STANDARD_ERRORS * np.asarray(error[name]) + slack
        assert (off <= allowed).all(), f"{name}: {np.max(off / allowed):.3g} of what is allowed"

    for name in ("test_error", "clean_error"):  # against noisy labels, and against the target itself
        near(name, float(told[name]), ASYMPTOTIC * float(told[name]))
    near("train_error", float(told.train_error), ASYMPTOTIC * float(told.train_error) + 1e-20)  # rounding, no ridge
    L = told.learnability.values
    # The fluctuation of a mode's fraction is not small where L is near 0 or 1; its mean is off by 3 % of L(1 − L).
    near("learnability", L, ASYMPTOTIC * 2 * L * (1 - L) + 1e-12)
    near("coefficient", L * v, ASYMPTOTIC * 2 * np.abs(v) * L * (1 - L) + 1e-12)
    # Not decided by noise: the noisy and the clean error differ by much more than their uncertainty.
    assert float(told.test_error - told.clean_error) == pytest.approx(0.25) and float(error.test_error) < 0.02


def test_more_examples_than_features_leave_the_classical_training_error(seed: int) -> None:
    p, n, sigma = 40, 100, 0.7
    told = learnability(np.geomspace(1, 1e-4, p), n, 0.0, np.ones(p), sigma)
    seen = sample_learnability(np.geomspace(1, 1e-4, p), n, 0.0, np.ones(p), sigma, draws=300, rng=[seed, 5])  # type: ignore[arg-type]
    mean, error = seen.sel(statistic="mean"), seen.sel(statistic="standard error")
    assert_close(told.train_error, sigma**2 * (n - p) / n, IDENTITY)
    assert_close(mean.learnability, 1.0, SOLVED)
    assert abs(float(mean.train_error - told.train_error)) < STANDARD_ERRORS * float(error.train_error)
    exact = sigma**2 * p / (n - p - 1)  # of Gaussian features; the asymptotic formula has n − p
    assert abs(float(mean.clean_error) - exact) < STANDARD_ERRORS * float(error.clean_error)
    assert float(told.clean_error) == pytest.approx(exact, rel=0.02)


def test_a_finite_pool_is_learned_like_gaussian_features(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    p, pool, n = 120, 4000, 50
    basis = np.linalg.qr(rng.normal(size=(pool, p)))[0].T * np.sqrt(pool)
    rho, v = np.arange(1.0, p + 1) ** -1.2, np.ones(p) * 0.1
    seen = sample_learnability(rho, n, 0.2, v, 0.3, eigenfunctions=basis, draws=150, rng=rng)
    told = learnability(rho, n, 0.2, v, 0.3)
    mean, error = seen.sel(statistic="mean"), seen.sel(statistic="standard error")
    for name in ("train_error", "test_error"):
        off = abs(float(mean[name] - told[name]))
        assert off < STANDARD_ERRORS * float(error[name]) + 2 * ASYMPTOTIC * float(told[name]), name


def test_the_drawn_learned_fraction_is_the_derivative_of_the_drawn_coefficient() -> None:
    k = np.arange(1.0, 31)
    fit = lambda v: sample_learnability(k**-1.0, 10, 0.3, v, 0.2, draws=5, rng=3).sel(statistic="mean")
    for mode in (0, 7, 29):
        up, down = np.zeros(30), np.zeros(30)
        up[mode], down[mode] = 1.0, -1.0
        slope = (fit(up).coefficient - fit(down).coefficient)[mode] / 2  # linear in v: no step size
        assert_close(slope, fit(up).learnability[mode], IDENTITY, times=10)  # a difference
    total = learned_fraction(k**-1.0, np.asarray(learnability(k**-1.0, 10, 0.3).kappa)).sum()
    assert float(fit(np.ones(30)).learnability.sum()) == pytest.approx(float(total), rel=0.1)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"n": 2.5}, "`n` of sample_learnability must be a whole number ≥ 1. Got 2.5."),
        ({"n": [1, 2]}, "the parameters of sample_learnability must have no batch dimensions. Got eigenvalues (2,), n (2,)"),
        ({"n": 2, "draws": 1}, "`draws` must be a whole number ≥ 2. Got 1. A standard error needs two."),
        (
            {"n": 2, "eigenfunctions": [[1.0, 2.0]]},
            "`eigenfunctions` of sample_learnability must have the shape (2 modes, examples). Got shape (1, 2).",
        ),
        (
            {"n": 2, "eigenfunctions": [[1.0, 2.0], [1.0, 1.0]]},
            "`eigenfunctions` of sample_learnability must be orthonormal over their examples, E[e_k e_l] = δ_kl. "
            "Got a mean that is 1.5 off. Diagonalise the features first.",
        ),
    ],
)  # fmt: skip
def test_wrong_draws_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as problem:
        sample_learnability([1.0, 0.5], **given)
    assert str(problem.value).startswith(text)
