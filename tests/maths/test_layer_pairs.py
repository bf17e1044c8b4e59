"""Filters, pairs of layers and representations, each against a definition written out."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths.layer_pairs import Rates, alignment_of, layer_imbalance, neuron_imbalance, predicted_drift
from richter.maths.representation import debiased_alignment, relative_change
from richter.maths.smoothness import laplacian, smoothness
from richter.refs import KUN24, XU24
from richter.testing.tolerances import IDENTITY, assert_close, assert_within_errors


@pytest.mark.place(KUN24["Eq. 128"], KUN24["Eq. 129"])
@pytest.mark.parametrize("edges", ["valid", "same", "full"])
def test_smoothness_is_a_convolution_written_out(seed: int, edges: str) -> None:
    from scipy.signal import convolve2d

    rng = np.random.default_rng([seed, 1])
    w = rng.normal(size=(2, 3, 5, 6)) * 1e-200
    for centre in (2.0, 3.0):
        made = smoothness(w, edges, centre)  # type: ignore[arg-type]
        unit = w[1, 2] / np.linalg.norm(w[1, 2] * 1e200) * 1e200
        assert made[1, 2] == pytest.approx((convolve2d(unit, laplacian(centre), mode=edges) ** 2).sum(), rel=1e-12)
    assert_close(smoothness(w, edges), smoothness(-3e300 * w, edges), IDENTITY)  # type: ignore[arg-type]


def test_constant_and_linear_filters_are_perfectly_smooth_and_checkers_are_not_control() -> None:
    x, y = np.meshgrid(np.arange(7.0), np.arange(7.0))
    for w in (np.ones((7, 7)), 2 * x - y + 1):
        assert smoothness(w) < 1e-28
        # With the printed middle a constant is not smooth: |−1|² times the share of its interior, 25/49.
        assert smoothness(w, centre=2.0) > 0.3
    assert smoothness(np.ones((7, 7)), centre=2.0) == pytest.approx(25 / 49)
    checkers = (-1.0) ** (x + y)
    assert smoothness(checkers) == pytest.approx(16 * 25 / 49)
    # The print would rank a wave of this length smoother than a constant.
    wave = np.cos(np.arccos(1 - 0.5) * x)
    assert smoothness(wave, centre=2.0) < smoothness(np.ones((7, 7)), centre=2.0)
    assert smoothness(wave) > smoothness(np.ones((7, 7)))
    assert np.isnan(smoothness(np.zeros((3, 3))))
    with pytest.raises(ParameterError, match=r"filters must be at least 3 × 3\. Got shape \(1, 1\)\."):
        smoothness(np.ones((1, 1)))
    with pytest.raises(ParameterError, match=r'`edges` must be "valid", "same" or "full"\. Got wrap\.'):
        smoothness(np.ones((3, 3)), "wrap")  # type: ignore[arg-type]


@pytest.mark.place(XU24["Fig. 2"])
def test_alignment_is_its_definition_whatever_the_shapes(seed: int) -> None:
    rng = np.random.default_rng([seed, 2])
    for c, h, d in ((2, 5, 3), (30, 4, 50), (1, 6, 1), (4, 4, 100)):
        U, W = rng.normal(size=(c, h)) * 1e-180, rng.normal(size=(h, d)) * 1e170
        unit = lambda x: x / np.abs(x).max()
        defined = np.linalg.norm(unit(U) @ unit(W)) / (np.linalg.norm(unit(U)) * np.linalg.norm(unit(W)))
        assert alignment_of(U, W) == pytest.approx(defined, rel=1e-12)
    # Aligned: 1. Orthogonal: 0, without the rounding of a difference.
    u = rng.normal(size=7)
    assert alignment_of(np.outer(rng.normal(size=3), u), np.outer(u, rng.normal(size=9))) == pytest.approx(1, abs=1e-14)
    v = rng.normal(size=7)
    v -= u * (u @ v) / (u @ u)
    assert alignment_of(u[None], v[:, None]) < 1e-15
    assert np.isnan(alignment_of(np.zeros((1, 2)), np.ones((2, 1))))
    with pytest.raises(ParameterError, match=r"of one hidden size\. Got shapes \(1, 2\) and \(3, 1\)\."):
        alignment_of(np.ones((1, 2)), np.ones((3, 1)))


def _gradients(
    A: np.ndarray, W: np.ndarray, b: np.ndarray, X: np.ndarray, Y: np.ndarray, leak: float
) -> tuple[np.ndarray, ...]:
    z = W @ X + b[:, None]
    slope = np.where(z > 0, 1.0, leak)
    error = A @ (slope * z) - Y
    back = (A.T @ error) * slope
    return error @ (slope * z).T, back @ X.T, back.sum(axis=1)


@pytest.mark.place(KUN24["Sec. 5, imbalance"])
@pytest.mark.parametrize("leak", [0.0, 0.2, 1.0])
def test_the_flow_does_not_move_the_imbalance(seed: int, leak: float) -> None:
    # dδ/dt along the gradient flow vanishes at every point: 2(η_w a·ȧ − η_a w·ẇ − η_aη_w/η_b b ḃ) = 0.
    rng = np.random.default_rng([seed, 3])
    A, W, b = rng.normal(size=(2, 6)), rng.normal(size=(6, 3)), rng.normal(size=6)
    X, Y = rng.normal(size=(3, 20)), rng.normal(size=(2, 20))
    r = Rates(*rng.uniform(0.2, 3, 3))
    gA, gW, gb = _gradients(A, W, b, X, Y, leak)
    h = 1e-6
    move = lambda s: (A - s * h * r.a * gA, W - s * h * r.w * gW, b - s * h * r.bias * gb)
    slope = (neuron_imbalance(*move(1), r) - neuron_imbalance(*move(-1), r)) / (2 * h)
    size = np.abs(r.w * r.a * A * gA).sum()
    np.testing.assert_allclose(
        slope / size, 0, rtol=0, atol=1e-7
    )  # rounding of δ over the step: 1e-16/1e-6 of size 1…10
    full = (layer_imbalance(*move(1), r) - layer_imbalance(*move(-1), r)) / (2 * h)
    np.testing.assert_allclose(np.diag(full), slope, rtol=0, atol=1e-7 * size)  # as above
    moved = np.abs(full / size).max()
    assert moved < 1e-7 if leak == 1.0 else moved > 1e-4  # the whole matrix: linear neurons only
    # Without the bias it is not conserved.
    plain = (neuron_imbalance(*move(1)[:2], rates=r) - neuron_imbalance(*move(-1)[:2], rates=r)) / (2 * h)
    assert np.abs(plain / size).max() > 1e-5
    assert_close(np.diag(layer_imbalance(A, W, b, r)), neuron_imbalance(A, W, b, r), IDENTITY, scale=10.0)
    with pytest.raises(ParameterError, match=r"rate of the bias must be > 0\. Got 0\.0\. A frozen bias"):
        neuron_imbalance(A, W, b, Rates(1, 1, 0.0))


def test_finite_steps_drift_by_exactly_what_is_predicted(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    A, W, b = rng.normal(size=(2, 6)), rng.normal(size=(6, 3)), rng.normal(size=6)
    X, Y = rng.normal(size=(3, 20)), rng.normal(size=(2, 20))
    r, h = Rates(0.5, 1.5, 0.8), 1e-3
    before, seen = neuron_imbalance(A, W, b, r), []
    for _ in range(30):
        g = _gradients(A, W, b, X, Y, 0.1)
        seen.append(g)
        A, W, b = A - h * r.a * g[0], W - h * r.w * g[1], b - h * r.bias * g[2]
    predicted = predicted_drift(
        dict(zip(("second", "first", "bias"), map(np.array, zip(*seen, strict=True)), strict=True)), r, h
    )
    np.testing.assert_allclose(neuron_imbalance(A, W, b, r) - before, predicted, rtol=1e-6, atol=1e-13)  # δ of size 10
    assert np.abs(predicted).max() > 1e-6
    with pytest.raises(
        ParameterError, match=r'gradients must be "second" and "first", and "bias" if there is one\. Got w\.'
    ):
        predicted_drift({"w": [[1.0]]})


def test_the_debiased_alignment_is_its_definition_by_gram_matrices(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    X, Y = rng.normal(size=(30, 4)) + 5, rng.normal(size=(30, 60)) * 1e-100
    Y[:, :4] += 1e-100 * X

    def hsic(K: np.ndarray, L: np.ndarray) -> float:
        n = len(K)
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        one = np.ones(n)
        return float(
            (np.trace(K @ L) + one @ K @ one * (one @ L @ one) / ((n - 1) * (n - 2)) - 2 / (n - 2) * one @ K @ L @ one)
            / (n * (n - 3))
        )

    K, L = X @ X.T, (Y * 1e100) @ (Y * 1e100).T
    defined = hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))
    assert debiased_alignment(X, Y) == pytest.approx(defined, abs=1e-10)
    turn = np.linalg.qr(rng.normal(size=(4, 4)))[0]
    assert debiased_alignment(X, 3 * X @ turn + 2) == pytest.approx(1, abs=1e-12)
    assert np.isnan(debiased_alignment(X, np.ones((30, 2))))
    with pytest.raises(ParameterError, match=r"have the same examples, at least 4\. Got 3 and 3\."):
        debiased_alignment(np.eye(3), np.eye(3))
    assert np.isnan(relative_change([[1.0]], [[0.0]]))


def test_independent_features_are_not_aligned_on_average_control(seed: int) -> None:
    # The plain CKA is about 0.2 here.
    rng = np.random.default_rng([seed, 6])
    draws = np.array([debiased_alignment(rng.normal(size=(32, 8)), rng.normal(size=(32, 8))) for _ in range(200)])
    assert_within_errors(draws, 0.0)
