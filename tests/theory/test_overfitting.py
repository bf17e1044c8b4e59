"""Benign and malignant overfitting: the claims of NAM24 §1.6, decided by theory and by drawn data."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from richter.errors import ParameterError
from richter.maths.eigenlearning import eigenlearning, learned_fraction
from richter.maths.overfitting import (
    effective_ranks,
    fitted_coefficients,
    signal_window,
    sine_basis,
    spike_width,
    tail_weight,
    two_block_learnability,
    two_block_spectrum,
)
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, STANDARD_ERRORS, assert_close, assert_slope
from richter.theory import learnability, sample_learnability, sine_fits, two_block

PUBLISHED = {"n": 100, "p": 2000, "d": 5}  # Fig. 1.3 and 1.5


def _spread_inputs(rng: np.random.Generator, n: int) -> np.ndarray:
    """One x in the middle half of each of n cells of [0, ½], in which sines do not repeat: none collide."""
    return (np.arange(n) + 0.25 + 0.5 * rng.uniform(size=n)) / (2 * n)


@pytest.mark.place(NAM24["Eq. 1.36"])
def test_two_blocks_follow_the_corrected_equation() -> None:
    for n, p, d, T in (
        (100, 2000, 5, 100.0),
        (100, 2000, 5, 1.0),
        (50, 60, 10, 1e-8),
        (30, 31, 1, 1e6),
        (7, 20, 9, 2.0),
    ):
        rho = two_block_spectrum(p, d, T)
        L = learned_fraction(rho, eigenlearning(rho, float(n)).kappa)
        head, tail = two_block_learnability(np.array(n), np.array(p), np.array(d), np.array(T))
        assert_close([head, tail], [L[0], L[-1]], IDENTITY, times=10)  # the quadratic's b cancels a little
        assert_close(tail_weight(rho, d), T, IDENTITY)
        ranks = effective_ranks(rho, d)
        assert_close(ranks, [p - d, p - d], IDENTITY)
    many = two_block_learnability(np.array(100.0), np.array(2000.0), np.array(5.0), np.array([0.1, 1.0, 10.0, 100.0]))
    np.testing.assert_allclose(many[0], 100 / (100 + np.array([0.1, 1, 10, 100])), rtol=0.02)  # n/(n + T), d ≪ n ≪ p
    np.testing.assert_allclose(many[1], 95 / 1995, rtol=0.03)  # (n − d)/(p − d), d ≪ n ≪ p
    printed = 1.0
    assert many[0][-1] == pytest.approx(0.5061, abs=1e-4) and abs(many[0][-1] - printed) > 0.4


def test_benign_spectra_have_the_ranks_that_say_so() -> None:
    n, d, p = 200, 4, 20_000
    rho = two_block_spectrum(p, d, 1.0)
    told = learnability(rho, n)
    assert float(told.overfitting) - 1 == pytest.approx(d / n + n / effective_ranks(rho, d)[1], rel=0.05)
    falling = np.array([4.0, 2.0, 1.0, 1.0])
    assert [float(x) for x in effective_ranks(falling, 1)] == [2.0, 16 / 6]


@pytest.mark.parametrize("T", [1.0, 100.0])
def test_the_strong_features_learn_what_is_predicted(T: float, seed: int) -> None:
    rho, v = two_block_spectrum(2000, 5, T), np.zeros(2000)
    v[0] = np.sqrt(0.5)
    told = learnability(rho, 100, 0.0, v, 0.3)
    seen = sample_learnability(rho, 100, 0.0, v, 0.3, draws=40, rng=np.random.default_rng([seed, 10]))
    mean, error = seen.sel(statistic="mean"), seen.sel(statistic="standard error")
    off = np.abs(mean.learnability - told.learnability)[:5]
    assert (off < STANDARD_ERRORS * error.learnability[:5] + 0.01).all()  # 1 % asymptotic
    slack = 0.02 * float(told.clean_error)
    assert abs(float(mean.clean_error - told.clean_error)) < STANDARD_ERRORS * float(error.clean_error) + slack


def test_the_same_functions_with_opposite_intensities_fit_oppositely(seed: int) -> None:
    """N1 of the claims, Fig. 1.2: p = 10, n = 4, ρ = k^±8; 50 label sets each."""
    rng, k, used = np.random.default_rng([seed, 11]), np.arange(1.0, 11), []
    for _ in range(50):
        x, y = _spread_inputs(rng, 4), rng.normal(size=4)
        ds = sine_fits(x, y, [k**-8, k**8])
        shares = ds.utilisation.values
        used.append([shares[0, :4].sum(), shares[1, 6:].sum()])
        assert np.diff(shares @ k)[0] > 2  # mean frequency; 2.8 at least in 5000 label sets
        assert_close(shares.sum(axis=1), 1.0, IDENTITY)
        # Both interpolate: they differ between the examples only.
        at = ds.coefficient.sum("part").values @ sine_basis(x, 10)
        np.testing.assert_allclose(at, [y, y], rtol=1e-6, atol=1e-6)  # condition up to 1e8
        assert float(np.abs(ds.fit[0] - ds.fit[1]).max()) > 0.1
    assert (np.median(used, axis=0) > 0.95).all()  # the n strongest features carry the fit


def test_the_fit_is_the_sum_of_its_parts(seed: int) -> None:
    rng = np.random.default_rng([seed, 12])
    x, noise = _spread_inputs(rng, 20), 0.3 * rng.normal(size=20)
    y, rho = np.sin(2 * np.pi * x), two_block_spectrum(100, 3, 1.0)
    split = sine_fits(x, y, rho, noise, first=3, grid=14)
    whole = sine_fits(x, y + noise, rho, grid=14)
    assert dict(split.fit.sizes) == {"features": 2, "part": 2, "x": 14}
    peak = np.abs(whole.fit).max()
    assert_close(split.fit.sum(("features", "part")), whole.fit.sum(("features", "part")), SOLVED, scale=peak)
    assert_close(split.fit.sel(features="first", part="signal")[1], _head(split)[1], SOLVED)
    assert_close(split.label, y + noise, IDENTITY)
    assert split.features.values.tolist() == ["first", "rest"] and whole.features.values.tolist() == ["all"]


def _head(ds: Any) -> np.ndarray:
    return np.asarray(ds.coefficient.sel(part="signal").values[:3] @ sine_basis(ds.x.values, 3))


def test_gradient_flow_is_followed_and_ends_at_the_minimum_norm_solution(seed: int) -> None:
    """N29 of the claims: against integration on the way, against the pseudo-inverse at the end."""
    rng = np.random.default_rng([seed, 13])
    x = _spread_inputs(rng, 6)
    e, rho, y, eta = sine_basis(x, 25), 1 / np.arange(1.0, 26), rng.normal(size=6), 0.7
    features = np.sqrt(rho)[:, None] * e
    flow = lambda _, w: -eta * features @ (features.T @ w - y) / 6
    times = [0.5, 3.0, 20.0]
    path = solve_ivp(flow, (0, 20), np.zeros(25), t_eval=times, rtol=1e-11, atol=1e-13, method="DOP853").y.T
    got = fitted_coefficients(rho, e, y, np.array(times), eta)
    assert_close(got, np.sqrt(rho) * path, SOLVED, scale=np.abs(got).max())
    end = fitted_coefficients(rho, e, y, np.inf, eta)
    assert_close(end, np.sqrt(rho) * (np.linalg.pinv(features.T) @ y), SOLVED, scale=np.abs(end).max())
    weights = end / np.sqrt(rho)
    null = np.eye(25) - features @ np.linalg.pinv(features)
    assert np.linalg.norm(null @ weights) < 1e-9 * np.linalg.norm(weights)


@pytest.mark.place(NAM24["Sec. 1.6.1"])
def test_the_signal_is_fitted_in_the_window_and_the_noise_later(seed: int) -> None:
    """N28 of the claims, d = 5, n = 100, p = 2000, 8 data sets: it holds in 1 ≪ ηt ≪ n/T."""
    for T in (0.1, 1.0):
        start, end = (float(x) for x in signal_window(100, T))
        middle = np.sqrt(start * end)
        ds = two_block(**PUBLISHED, tail_weight=T, basis="gaussian", draws=8, rng=np.random.default_rng([seed, 14]),
                       times=[0.03 * start, middle, 0.69 * end, 30 * end])  # fmt: skip
        signal, noise = ds.signal_error.mean("draw").values / 0.5, ds.noise_left.mean("draw").values / 0.09
        assert signal[0] > 0.9 and signal[1] < 0.02 and signal[-1] < 0.02
        assert noise[1] > 0.6 and noise[-1] < 0.05  # e^-0.2 less d/n expected; 5 % scatter
        # Half of the amplitude, a quarter of the mean square, at ln 2 · n/T; the strong features took 5 of 100.
        assert noise[2] == pytest.approx(0.25, abs=0.07)


def test_the_printed_window_is_empty_for_the_printed_tail(seed: int) -> None:
    """With T = n the noise is fitted at the time of the signal, long before ηt = (p − d)/n = 19.95."""
    ds = two_block(**PUBLISHED, tail_weight=100.0, basis="gaussian", draws=8, rng=np.random.default_rng([seed, 15]),
                   times=[0.69, 4.0, 19.95])  # fmt: skip
    noise, signal = ds.noise_left.mean("draw").values / 0.09, ds.signal_error.mean("draw").values / 0.5
    assert noise[0] < 0.35 and noise[1] < 0.02
    assert signal[-1] > 0.2  # (1 − L)²: half of the signal is never learned
    assert ds.window_start == ds.window_end == 1.0


def test_overfitting_is_benign_when_intensity_and_quality_agree_and_malignant_when_not(seed: int) -> None:
    """N3 of the claims, Fig. 1.3 and 1.5: d = 5, n = 100, p = 2000, σ = 0.3, 8 data sets, target variance ½."""
    runs = {
        (mode, T): two_block(**PUBLISHED, tail_weight=T, target_mode=mode, basis="gaussian", draws=8, times=[np.inf],
                             rng=np.random.default_rng([seed, 16]))
        for mode in (1, 10) for T in (1.0, 100.0)
    }  # fmt: skip
    clean = {key: float(ds.clean_error.mean()) for key, ds in runs.items()}
    assert clean[1, 1.0] < 0.02  # benign: interpolates noise of variance 0.09 at an error of 0.01
    assert 0.11 < clean[1, 100.0] < 0.17  # the printed tail is too heavy: tempered, a quarter of the signal is lost
    assert clean[10, 1.0] > 0.45 and clean[10, 100.0] > 0.45  # malignant
    for key, ds in runs.items():
        assert (ds.train_error < 1e-20).all()  # every label is interpolated, to rounding
        draws = ds.clean_error.values[:, 0]
        error = draws.std(ddof=1) / np.sqrt(draws.size)
        told = float(ds.expected_clean_error)
        assert abs(draws.mean() - told) < STANDARD_ERRORS * error + 0.02 * told, key
        parts = ds.signal_error + ds.noise_error
        assert float(abs(parts.mean() - ds.clean_error.mean())) < 0.05


def test_more_features_make_the_spikes_sharper_and_their_weight_smaller(seed: int) -> None:
    """N3 of the claims, Fig. 1.4: n = 25 labels, p = 400 … 1600; the width goes like 1/p, and so does the variance."""
    rng = np.random.default_rng([seed, 17])
    x, y = _spread_inputs(rng, 25), rng.choice([-1.0, 1.0], 25)
    counts, widths, weights = [400, 800, 1600], [], []
    for p in counts:
        c = fitted_coefficients(np.ones(p), sine_basis(x, p), y)
        u = np.linspace(-1, 1, 201) / p
        around = (c @ sine_basis((x[:, None] + u).ravel(), p)).reshape(25, -1) * y[:, None]
        half = (around > 0.5).sum(axis=1) * (u[1] - u[0])
        widths.append(float(np.median(half)))
        weights.append(float((c**2).sum()))
        # Neighbours' tails and the grid: 5 %.
        assert widths[-1] == pytest.approx(spike_width(p), rel=0.05)
    assert_slope(counts, widths, -1.0)
    np.testing.assert_allclose(np.array(weights) * counts, 25, rtol=0.02)  # n/p for labels ±1, neighbours' tails


def test_near_examples_overshoot_their_noise() -> None:
    """Where sine features are no Gaussian ones: the error goes like the inverse square of the distance."""
    gaps, p = np.array([1e-2, 3e-3, 1e-3]) / 200, 200
    error = [
        (fitted_coefficients(np.ones(p), sine_basis(np.array([0.2, 0.2 + g]), p), np.array([1.0, -1.0])) ** 2).sum()
        for g in gaps
    ]
    assert_slope(gaps, error, -2.0)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"d": 100}, "`d`, `n` and `p` of two_block must satisfy d < n < p. Got 100, 100 and 2000."),
        ({"n": 2.0}, "`n` of two_block must be a whole number ≥ 1. Got 2.0."),
        ({"target_mode": 2001}, "`target_mode` of two_block must be one of the p = 2000 features. Got 2001."),
        ({"tail_weight": 0.0}, "`tail_weight` of two_block must be a number ≥ 1e-12. Got 0.0."),
        ({"noise": -0.1}, "`noise` of two_block must be a number ≥ 0. Got -0.1."),
        ({"basis": "cosine"}, "`basis` of two_block must be \"sine\" or \"gaussian\". Got cosine."),
        ({"times": [-1.0]}, "the times must be ≥ 0. Got -1.0."),
    ],
)  # fmt: skip
def test_wrong_blocks_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as problem:
        two_block(**given)
    assert str(problem.value).startswith(text)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"inputs": [0.1]}, "`inputs`, `signal` and `noise` of sine_fits must be lists of one length. Got (1,), (2,)"),
        ({"inputs": [0.1, 1.5]}, "`inputs` of sine_fits must lie in [0, 1]. Got 1.5."),
        (
            {"intensities": [[1.0, 0.0], [0.0, 0.0]]},
            "`intensities` of sine_fits must be (mode,) or (model, mode), each ≥ 0 and some of each model > 0. Got",
        ),
        ({"first": 3}, "`first` of sine_fits must be a whole number from 1 to 2. Got 3."),
        ({"grid": 1}, "`grid` of sine_fits must be a whole number ≥ 2. Got 1."),
    ],
)
def test_wrong_fits_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as problem:
        sine_fits(**{"inputs": [0.1, 0.2], "signal": [1.0, 2.0], "intensities": [1.0, 1.0], **given})
    assert str(problem.value).startswith(text)
