"""Resampled movement against plain loops and against fresh draws of the examples."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths.fit_time import fit_rate
from richter.maths.resampling import Draws, interval, movement, pair_products
from richter.testing.tolerances import IDENTITY, assert_close, assert_within_errors


def _kernels(rng: np.random.Generator, n: int, outputs: int = 1) -> tuple[np.ndarray, np.ndarray]:
    J0 = rng.normal(size=(n, outputs, 12))
    J = J0 + 0.3 * rng.normal(size=J0.shape)
    kernel = lambda j: np.einsum("icp,jdp->ijcd", j, j)
    return kernel(J), kernel(J0)


def test_the_first_row_is_the_plain_movement(seed: int) -> None:
    K, K0 = _kernels(np.random.default_rng(seed), 7, 3)
    change, distance = movement(K, K0, Draws.make(7, 5, seed))
    assert_close(change[0], np.linalg.norm(K - K0) / np.linalg.norm(K0), IDENTITY)
    cosine = (K * K0).sum() / np.linalg.norm(K) / np.linalg.norm(K0)
    assert_close(distance[0], 1 - cosine, IDENTITY, scale=1.0)


def test_a_draw_is_a_loop_over_pairs(seed: int) -> None:
    rng = np.random.default_rng(seed)
    draws, G = Draws.make(5, 4, rng), rng.normal(size=(5, 5))
    for row, total in zip(draws.counts[1:], draws.total(G)[1:], strict=True):
        taken = np.repeat(np.arange(5), row.astype(int))
        want = sum(G[i, i] for i in taken) + sum(5 / 4 * G[i, j] for i in taken for j in taken if i != j)
        assert_close(total, want, IDENTITY, scale=np.abs(G).sum())


def test_a_draw_is_right_on_average(seed: int) -> None:
    rng = np.random.default_rng(seed)
    G = rng.normal(size=(6, 6)) ** 2
    G += np.diag(10 * np.ones(6))  # a heavy diagonal, which copies of an example would count twice
    assert_within_errors(Draws.make(6, 4000, rng).total(G)[1:], G.sum())


def test_the_interval_holds_what_another_probe_would_give(seed: int) -> None:
    # Features of unit size that move along a direction each example has its own share of.
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=12)

    def kernels(n: int) -> tuple[np.ndarray, np.ndarray]:
        J0 = rng.normal(size=(n, 12))
        J = J0 + rng.uniform(0, 0.6, size=(n, 1)) * direction
        return J @ J.T, J0 @ J0.T

    alone = Draws.make(50, 0)
    truth = float(np.mean([movement(*kernels(50), alone)[0][0] for _ in range(300)]))
    hits, widths = 0, []
    for _ in range(60):
        drawn = movement(*kernels(50), Draws.make(50, 200, rng))[0]
        low, high = interval(drawn[1:], 0.95)
        hits += low <= truth <= high
        widths.append(high - low)
    # 95 % of 60 are 57. The bootstrap of 50 examples is a little narrow: 51 to 58 were seen, and 47 to 54 where the
    # movement has heavy tails (exponential).
    assert hits >= 48 and np.mean(widths) < truth


def test_what_does_not_move_has_moved_by_nothing_and_zero_is_undefined() -> None:
    K = np.eye(4)
    change, distance = movement(K, K, Draws.make(4, 10))
    assert not change.any() and not distance.any()
    change, distance = movement(K, 0 * K, Draws.make(4, 10))
    assert np.isnan(change).all() and np.isnan(distance).all()
    tiny = movement(3e-200 * K, 1e-200 * K, Draws.make(4, 0))
    assert_close(tiny[0], 2.0, IDENTITY)
    assert_close(tiny[1], 0.0, IDENTITY, scale=1.0)


def test_the_fit_rate_of_outputs_is_that_of_the_flat_problem(seed: int) -> None:
    rng = np.random.default_rng(seed)
    K, _ = _kernels(rng, 4, 2)
    r = rng.normal(size=(4, 2))
    flat = K.transpose(0, 2, 1, 3).reshape(8, 8)
    for share in (0.1, 0.5, 1.0):
        assert_close(fit_rate(K, r, share), fit_rate(flat, r.ravel(), share), IDENTITY)
    # By hand: the fewest fast modes that hold the share.
    values, vectors = np.linalg.eigh(flat)
    held = (vectors.T @ r.ravel()) ** 2 / (r**2).sum()
    order = np.argsort(-values)
    count = next(k for k in range(1, 9) if held[order[:k]].sum() >= 0.5)
    assert_close(fit_rate(K, r, 0.5), values[order[count - 1]], IDENTITY)
    assert np.isnan(fit_rate(np.eye(2), [0.0, 0.0], 0.3))


def test_shapes_that_do_not_fit_are_said() -> None:
    with pytest.raises(ParameterError, match=r"the two kernels must have one shape"):
        pair_products(np.eye(2), np.eye(3))
    with pytest.raises(ParameterError, match=r"the matrix over pairs of examples must have shape \(3, 3\)"):
        Draws.make(3, 1).total(np.eye(2))
    with pytest.raises(ParameterError, match=r"the kernel must have shape \(2, 2\)"):
        fit_rate(np.eye(3), [1.0, 2.0], 0.3)
