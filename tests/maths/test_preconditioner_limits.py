"""M of single neurons, of isotropic networks and far from balance: what the appendix says of each."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.preconditioner import (
    inverted_preconditioner,
    isotropic_grams,
    isotropic_preconditioner,
    neuron_preconditioner,
    sum_of_neurons,
    wide_preconditioner,
)
from richter.maths.shapes import rank_bound
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, assert_close

Floats = np.ndarray


@pytest.mark.place(KUN24["Eq. 92"], KUN24["Eq. 93"], KUN24["Eq. 94"], KUN24["Eq. 95"])
def test_one_neuron_with_one_output_or_one_input(seed: int) -> None:
    rng = np.random.default_rng([seed, 90])
    for _ in range(20):
        one, many, (eta_a, eta_w) = (
            rng.standard_normal((1, 1)),
            rng.standard_normal((1, 4)),
            10 ** rng.uniform(-1, 1, 2),
        )
        for A, W, of_beta in ((one, many, neuron_preconditioner), (many, one, inverted_preconditioner)):
            beta, delta = (W.T @ A).ravel(), float(eta_w * (A * A).sum() - eta_a * (W * W).sum())
            M, size = wide_preconditioner(A, W, eta_a, eta_w), eta_w * (A * A).sum() + eta_a * (W * W).sum()
            got = of_beta(beta, delta, eta_a, eta_w)
            assert_close(got, M, IDENTITY, scale=size, times=10, says="M from the layers")
            summed = sum_of_neurons((W.T @ A)[None], [delta], eta_a, eta_w)
            assert_close(got, summed, IDENTITY, scale=size, times=10, says="Eq. 7 for one neuron")
            kappa = np.sqrt(delta**2 + 4 * eta_a * eta_w * beta @ beta)
            weights = (
                (kappa + delta, kappa - delta) if of_beta is neuron_preconditioner else (kappa - delta, kappa + delta)
            )
            stated = weights[0] / 2 * np.eye(4) + weights[1] / 2 * np.outer(beta, beta) / (beta @ beta)
            assert_close(got, stated, IDENTITY, scale=size, says="Eqs 93 and 95")


@pytest.mark.place(KUN24["Eq. 96"])
def test_limits_of_one_neuron_with_one_input(seed: int) -> None:
    rng = np.random.default_rng([seed, 91])
    beta, eta_a, eta_w = rng.uniform(0.3, 1.0, 3), 0.4, 1.9
    along = np.outer(beta, beta) / (beta @ beta)
    M = lambda delta: inverted_preconditioner(beta, delta, eta_a, eta_w)
    balanced = np.sqrt(eta_a * eta_w) * np.linalg.norm(beta) * (along + np.eye(3))
    assert_close(M(0.0), balanced, IDENTITY, scale=balanced.max())
    far = 1e6  # M differs from its limit by k‖β‖²/|δ|: 1e-12 of |δ|
    assert_close(M(-far) / far, np.eye(3), IDENTITY, scale=1.0, times=10)
    assert_close(M(far) / far, along, IDENTITY, scale=1.0, times=10)
    assert np.linalg.eigvalsh(M(-far)).min() > 0  # δI, as printed, is negative


SHAPES = ((3, 3, 3), (4, 2, 3), (3, 2, 4), (4, 2, 2), (2, 2, 4), (2, 3, 4), (4, 3, 2), (4, 1, 1), (1, 1, 4))


def isotropic(rng: np.random.Generator, d: int, h: int, c: int, delta: float) -> tuple[Floats, Floats] | None:
    """(A, W) with AAᵀ − WWᵀ = δI, of full rank otherwise; None where the shape has none."""
    if h > (c if delta > 0 else d if delta < 0 else h):
        return None
    rank = min(d, h, c)
    frame = lambda n: np.linalg.qr(rng.standard_normal((n, n)))[0]
    small = np.where(np.arange(h) < rank, rng.uniform(0.2, 2.0, h), 0.0)  # the layer that need not have rank h
    a, w = (small + max(delta, 0.0), small + max(-delta, 0.0))
    turn = frame(h)
    make = lambda squares, n: turn @ (np.eye(h, n) * np.sqrt(np.pad(squares, (0, max(0, n - h)))[:n])) @ frame(n)
    return make(a, c), make(w, d)


@pytest.mark.place(KUN24["Eq. 98"], KUN24["Eq. 99"], KUN24["Lemma B.3"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_isotropic_layers_follow_from_their_function_under_conditions(shape: tuple[int, int, int], seed: int) -> None:
    d, h, c = shape
    rng = np.random.default_rng([seed, 92, *shape])
    eta_a, eta_w = 0.4, 1.9
    for delta in (-1.5, 0.0, 0.7):
        layers = isotropic(rng, d, h, c, delta)
        if layers is None:
            continue
        A, W = layers[0] / np.sqrt(eta_w), layers[1] / np.sqrt(eta_a)
        gap = eta_w * A @ A.T - eta_a * W @ W.T
        assert_close(gap, delta * np.eye(h), IDENTITY, scale=5.0, says="isotropic")
        of_a, of_w = isotropic_grams(W.T @ A, delta, eta_a, eta_w)
        # At δ = 0 the small root of a square of 1e-16 is 1e-8.
        times = 1e5 if delta == 0 else 10
        if delta <= 0 or h == c:
            assert_close(of_a, A.T @ A, IDENTITY, scale=5 / eta_w, times=times, says="Eq. 99")
        else:
            assert np.abs(of_a - A.T @ A).max() > 1e-3
        if delta >= 0 or h == d:
            assert_close(of_w, W.T @ W, IDENTITY, scale=5 / eta_a, times=times, says="Eq. 98")
        else:
            assert np.abs(of_w - W.T @ W).max() > 1e-3
        M = np.kron(eta_w * of_a, np.eye(d)) + np.kron(np.eye(c), eta_a * of_w)
        whole = isotropic_preconditioner(W.T @ A, delta, eta_a, eta_w)
        assert_close(whole, M, IDENTITY, scale=np.abs(M).max(), times=10, says="Eq. 97 is the sum of both")


def test_grams_keep_their_digits_far_from_balance() -> None:
    A, W = isotropic_grams(np.array([[3e-3]]), 1e6)
    assert_close([A.item(), W.item()], [1e6, 9e-12], IDENTITY)
    A, W = isotropic_grams(np.array([[3e-3]]), -1e6)
    assert_close([A.item(), W.item()], [9e-12, 1e6], IDENTITY)


@pytest.mark.place(KUN24["Eq. 89"], KUN24["Eq. 90"])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_the_rank_of_a_sum_of_directions_is_at_most_their_number_and_their_space(
    shape: tuple[int, int, int], seed: int
) -> None:
    d, h, c = shape
    A = np.random.default_rng([seed, 93]).standard_normal((h, c))
    unit = A / np.linalg.norm(A, axis=1, keepdims=True)
    directions = unit[:, :, None] * unit[:, None, :]  # βᵢᵀβᵢ/‖βᵢ‖²
    ranks = np.linalg.matrix_rank(directions)
    of_sum = int(np.linalg.matrix_rank(directions.sum(axis=0)))
    assert (ranks == 1).all() and of_sum <= ranks.sum() == h
    assert of_sum == min(h, c)  # in general position the bound is reached
    assert (
        np.linalg.matrix_rank(np.kron(directions.sum(axis=0), np.eye(d)))
        == d * of_sum
        == rank_bound(d, h, c, "upstream")
    )
