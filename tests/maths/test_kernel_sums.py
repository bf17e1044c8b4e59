"""Sums over tiles are the whole; sketches are unbiased and their error bars hold what they promise."""

from __future__ import annotations

import math

import numpy as np
import pytest

from richter.maths import kernels
from richter.maths.kernel_sums import Places, Sums, cross_mean, estimated_distance, jackknife
from richter.testing.tolerances import IDENTITY, assert_within_errors
from tests.maths.test_kernels import gram

Floats = np.ndarray
ONE = Places(np.zeros(1, dtype=np.intp), np.zeros(1, dtype=np.intp))


def tiled(K: Floats, L: Floats, edge: int, target: Floats | None = None) -> Sums:
    """Sums of (sketch, n, n) kernels from the lower triangle of their tiles."""
    m, n = K.shape[:2]
    sums = Sums(m, n, 1)
    for a in range(0, n, edge):
        for b in range(0, a + 1, edge):
            r, c = slice(a, min(a + edge, n)), slice(b, min(b + edge, n))
            T = None if target is None else target[r, c, None]
            sums.add(np.stack([K[:, r, c], L[:, r, c]])[..., None], r, c, ONE, a != b, T)
    return sums


def test_tiles_of_a_symmetric_kernel_make_the_numbers_of_the_whole(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    K, L = (gram(rng, 11, 6)[..., 0, 0] for _ in range(2))
    y = rng.normal(size=(11, 2))
    y -= y.mean(axis=0)
    T = y @ y.T
    every = np.ones(1, dtype=bool)
    for edge in (11, 4, 1):
        sums = tiled(K[None], L[None], edge, T)
        pairs = {
            "distance": (sums.distance(), kernels.cosine_distance(K, L)),
            "change": (sums.change(), np.linalg.norm(K - L) / np.linalg.norm(L)),
            "alignment": (sums.alignment(), kernels.alignment(K, L)),
            "debiased": (sums.alignment(debiased=True), kernels.alignment(K, L, debiased=True)),
            "norm now": (sums.norm(0), np.linalg.norm(K)),
            "norm before": (sums.norm(1), np.linalg.norm(L)),
            "trace": (sums.trace(1, every), np.trace(L)),
            "rank": (sums.rank(0, every), kernels.participation_ratio(K)),
            "target": (sums.target_alignment(0), kernels.alignment(K, T)),
            "target before": (sums.target_alignment(1), kernels.alignment(L, T)),
        }
        for name, (found, defined) in pairs.items():
            assert found.error is None
            assert found.value == pytest.approx(defined, rel=1e-10, nan_ok=True), name  # sums cancel by centring


def test_kernels_that_are_zero_or_do_not_vary_have_no_distance_or_alignment() -> None:
    zero, flat = np.zeros((1, 5, 5)), np.ones((1, 5, 5))
    assert math.isnan(tiled(zero, flat, 2).distance().value) and math.isnan(tiled(flat, zero, 2).change().value)
    assert math.isnan(tiled(flat, np.eye(5)[None], 2).alignment().value)
    assert math.isnan(tiled(flat, np.eye(5)[None], 2, np.zeros((5, 5))).target_alignment(1).value)
    assert tiled(flat, 3 * flat, 2).distance().value == 0


def sketched(K: Floats, signs: Floats) -> Floats:
    """Sketches (sketch, n, n) of a full kernel (n, n, C, C) by signs (sketch, C)."""
    return np.asarray(np.einsum("vi,nmij,vj->vnm", signs, K, signs, optimize=True))


def drawn(rng: np.random.Generator, sketches: int, outputs: int) -> Floats:
    return rng.choice([-1.0, 1.0], size=(sketches, outputs))


def test_squares_of_different_sketches_have_no_bias_and_of_one_they_have_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    K = gram(rng, 6, 5, 12)
    truth = float((np.einsum("nmii->nm", K) ** 2).sum())
    free, biased = [], []
    for _ in range(600):
        S = sketched(K, drawn(rng, 4, 12)).reshape(4, -1)
        free.append(cross_mean(S @ S.T))
        biased.append(float((S.mean(axis=0) ** 2).sum()))
    assert_within_errors(np.array(free), truth)
    assert np.mean(biased) > 1.1 * truth


def draws(
    rng: np.random.Generator, outputs: int, sketches: int, common: float, number: int
) -> tuple[float, Floats, Floats]:
    """The true distance of two random trace kernels; estimates of it from sketches, and their errors."""
    J = common * rng.normal(size=(8, 1, 30)) + 0.7 * rng.normal(size=(8, outputs, 30))
    M = J + 0.6 * rng.normal(size=(8, 1, 30)) + 0.3 * rng.normal(size=(8, outputs, 30))
    trace = lambda A: np.einsum("nip,mip->nm", A, A)
    values, errors = [], []
    for _ in range(number):
        v = drawn(rng, sketches, outputs)
        rows = [np.tensordot(v, A, (1, 1)) for A in (M, J)]
        k, l = ((r @ r.transpose(0, 2, 1)).reshape(sketches, -1) for r in rows)
        d, s = k - l, k + l
        grown = d @ s.T
        found = estimated_distance(k @ k.T, d @ d.T, (grown + grown.T) / 2)
        values.append(found.value)
        errors.append(found.error or 0.0)
    return kernels.cosine_distance(trace(M), trace(J)), np.array(values), np.array(errors)


@pytest.mark.parametrize(("outputs", "sketches", "common"), [(20, 16, 1.0), (200, 8, 1.0), (200, 16, 0.2)])
def test_the_error_bar_of_a_sketched_distance_covers_the_truth(
    seed: int, outputs: int, sketches: int, common: float
) -> None:
    """Two errors hold the truth in 0.85 to 0.95 of the draws, and half an error in fewer than two thirds."""
    truth, values, errors = draws(np.random.default_rng([seed, 3, outputs]), outputs, sketches, common, 250)
    scores = np.abs(values - truth) / errors
    covered = float(np.mean(scores < 2))
    assert covered > 0.85 - 0.09, covered  # four standard errors of a share over 250 draws, 0.023 each
    # A bar that is much too long would cover too.
    assert float(np.mean(scores < 0.5)) < 2 / 3
    assert abs(values.mean() - truth) < 0.5 * values.std()


def test_more_sketches_have_smaller_errors_as_one_over_the_root(seed: int) -> None:
    few, many = (np.median(draws(np.random.default_rng([seed, 4]), 200, m, 2.0, 60)[2]) for m in (16, 64))
    assert few / many == pytest.approx(2, rel=0.4)  # medians of 60 error bars, each good to a third and a tenth


def test_the_jackknife_of_a_mean_is_its_error(seed: int) -> None:
    x = np.random.default_rng([seed, 5]).normal(size=9)
    found = jackknife(lambda kept: float(x[kept].mean()), 9)
    assert found.value == pytest.approx(x.mean(), rel=IDENTITY.rtol)
    wide = 2.3060041350333704 / 1.959963984540054  # Student's t with 8 degrees, and the normal, at 0.975
    assert found.error == pytest.approx(wide * x.std(ddof=1) / 3, rel=1e-10)  # differences of means
    # A square of a mean has the bias s²/m, which is taken off.
    assert jackknife(lambda kept: float(x[kept].mean() ** 2), 9).value == pytest.approx(
        x.mean() ** 2 - x.var(ddof=1) / 9
    )
    assert jackknife(lambda kept: 2.0, 1).error is None
