"""Kernels compared: definitions written out, kernels that are known, and what streamed sums make of them."""

from __future__ import annotations

import math

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths import kernels
from richter.testing.tolerances import IDENTITY, assert_close, assert_within_errors

Floats = np.ndarray


def gram(rng: np.random.Generator, n: int, rank: int, outputs: int = 1) -> Floats:
    """A full kernel (n, n, C, C) of random gradients."""
    J = rng.normal(size=(n, outputs, rank)) + 0.5
    return np.asarray(np.einsum("nip,mjp->nmij", J, J))


def test_the_distance_is_one_minus_the_cosine(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    K, L = gram(rng, 6, 9, 3), gram(rng, 6, 9, 3)
    defined = 1 - (K * L).sum() / (np.linalg.norm(K) * np.linalg.norm(L))
    assert_close(kernels.cosine_distance(K, L), defined, IDENTITY)
    assert kernels.cosine_distance(K, 5 * K) < 1e-30
    assert kernels.cosine_distance(1e-200 * K, 1e200 * L) == pytest.approx(defined, rel=IDENTITY.rtol)
    # A turn by 1e-7 is seen to many digits, where 1 − cosine has none.
    A = np.zeros((2, 2))
    A[0, 0] = 1
    turn = A.copy()
    turn[1, 1] = 1e-7
    assert kernels.cosine_distance(turn, A) == pytest.approx(
        0.5e-14, rel=1e-6, abs=0
    )  # next term: 1e-14 of it, and rounding
    assert math.isnan(kernels.cosine_distance(0 * K, K))
    with pytest.raises(ParameterError, match=r"two kernels must have one shape\. Got \(2, 2\) and \(6, 6, 3, 3\)\."):
        kernels.cosine_distance(A, K)
    with pytest.raises(ParameterError, match=r"the kernel must be finite\. Got 1 of 4 that are not\."):
        kernels.cosine_distance(np.array([[1.0, np.nan], [0, 0]]), A)


def test_the_distance_from_sums_is_the_distance(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    K = gram(rng, 5, 7)
    for size in (1.0, 1e-4, 1e-8):
        L = K + size * gram(rng, 5, 7)
        found = kernels.distance_from_sums((K * K).sum(), ((K - L) ** 2).sum(), ((K - L) * (K + L)).sum())
        assert found == pytest.approx(kernels.cosine_distance(K, L), rel=1e-5, abs=0)  # 1e-16 · size of the sums over S
    assert kernels.distance_from_sums(9.0, 4.0, 8.0, clipped=False) == 0
    assert kernels.distance_from_sums(9.0, 0.5, 8.0, clipped=False) < 0 == kernels.distance_from_sums(9.0, 0.5, 8.0)
    assert math.isnan(kernels.distance_from_sums(1.0, 1.0, 1.0))


@pytest.mark.parametrize("outputs", [1, 3])
def test_the_plain_alignment_is_that_of_centred_kernels(seed: int, outputs: int) -> None:
    rng = np.random.default_rng([seed, 3])
    K, L = gram(rng, 7, 4, outputs), gram(rng, 7, 5, outputs)
    H = np.eye(7) - 1 / 7
    k, l = (np.einsum("ab,bcij,cd->adij", H, x, H) for x in (K, L))
    assert_close(kernels.centred(K), k, IDENTITY, scale=np.abs(K).max())
    defined = (k * l).sum() / np.sqrt((k * k).sum() * (l * l).sum())
    assert_close(kernels.alignment(K, L), defined, IDENTITY, times=10)  # centring cancels a mean of size 1
    assert kernels.alignment(3 * K + 7, K) == pytest.approx(1, rel=IDENTITY.rtol)
    assert math.isnan(kernels.alignment(np.ones((5, 5)), np.eye(5)))
    with pytest.raises(ParameterError, match=r"must be square in its examples\. Got shape \(2, 3\)\. Leave out x2\."):
        kernels.alignment(np.ones((2, 3)), np.ones((2, 3)))


def by_tuples(K: Floats, L: Floats) -> float:
    """The unbiased HSIC as the mean over distinct examples a, b, c, d of K_ab (L_ab + L_cd − L_ac − L_bd)."""
    n, total, count = len(K), 0.0, 0
    for a in range(n):
        for b in range(n):
            for c in range(n):
                for d in range(n):
                    if len({a, b, c, d}) == 4:
                        total += float((K[a, b] * (L[a, b] + L[c, d] - L[a, c] - L[d, b])).sum())
                        count += 1
    return total / count


@pytest.mark.parametrize("outputs", [1, 2])
def test_the_debiased_alignment_is_a_mean_over_distinct_examples(seed: int, outputs: int) -> None:
    rng = np.random.default_rng([seed, 4])
    K, L = gram(rng, 6, 8, outputs), gram(rng, 6, 8, outputs)
    L = 0.5 * L + 0.5 * K
    defined = by_tuples(K, L) / np.sqrt(by_tuples(K, K) * by_tuples(L, L))
    assert kernels.alignment(K, L, debiased=True) == pytest.approx(defined, rel=1e-10, nan_ok=True)  # 360 · 1e-13
    assert kernels.alignment(K, K, debiased=True) == pytest.approx(1, rel=IDENTITY.rtol)
    with pytest.raises(ParameterError, match=r"debiased alignment must have at least 4 examples\. Got 3\."):
        kernels.alignment(K[:3, :3], L[:3, :3], debiased=True)


def test_independent_kernels_have_debiased_alignment_zero_and_a_plain_one_above_control(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    plain, debiased = [], []
    for _ in range(300):
        x, y = rng.normal(size=(2, 32, 8))
        plain.append(kernels.alignment(x @ x.T, y @ y.T))
        debiased.append(kernels.alignment(x @ x.T, y @ y.T, debiased=True))
    assert_within_errors(np.array(debiased), 0.0)
    assert np.mean(plain) > 0.15


def test_ranks_are_numbers_of_eigenvalues(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    frame = np.linalg.qr(rng.normal(size=(6, 6)))[0]
    flat = frame[:, :4] @ frame[:, :4].T  # four equal eigenvalues
    assert kernels.effective_rank(flat) == pytest.approx(4, rel=1e-10)  # eigenvalues of 1e-16 · their logarithm
    assert kernels.participation_ratio(flat) == pytest.approx(4, rel=IDENTITY.rtol)
    K = gram(rng, 5, 40, 3)
    matrix = K.transpose(0, 2, 1, 3).reshape(15, 15)
    values = np.linalg.eigvalsh(matrix)
    assert_close(kernels.eigenvalues(K)[::-1], values, IDENTITY, scale=values.max())
    shares = values / values.sum()
    assert kernels.effective_rank(K) == pytest.approx(np.exp(-(shares * np.log(shares)).sum()), rel=1e-10)  # as above
    assert kernels.participation_ratio(K) == pytest.approx(values.sum() ** 2 / (values**2).sum(), rel=1e-10)  # the same
    diagonal = np.einsum("nmcc->nmc", K)
    blocks = np.concatenate([np.linalg.eigvalsh(diagonal[:, :, c]) for c in range(3)])
    assert_close(kernels.eigenvalues(diagonal), np.sort(blocks)[::-1], IDENTITY, scale=blocks.max())
    assert math.isnan(kernels.effective_rank(np.zeros((3, 3)))) and math.isnan(kernels.participation_ratio(0 * K))
