"""The kernel operator of a feature map: its definition, the flow of the function, its eigenvalues."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.eigenfunctions import spectrum_of_features
from richter.maths.integrate import integrate
from richter.maths.kernel_operator import diagonal_intensity, function_flow, intensity, kernel_operator, mode_flow
from richter.maths.linear import linear_modes, weight_flow
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close


def sample(seed: int, key: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, key])
    return rng.normal(size=(3, 40)) * [[2.0], [1.0], [0.3]], rng.normal(size=40)


@pytest.mark.place(NAM24["Eq. 1.13"], NAM24["Eq. 1.14"], NAM24["Eq. 1.18"])
def test_the_operator_is_its_definition(seed: int) -> None:
    phi, f = sample(seed, 1)
    by_hand = [np.mean([phi[:, i] @ phi[:, j] * f[i] for i in range(40)]) for j in range(40)]
    assert_close(kernel_operator(phi, f), by_hand, IDENTITY, scale=np.abs(by_hand).max())
    outer = sum(np.mean(row * f) * row for row in phi)
    assert_close(kernel_operator(phi, f), outer, IDENTITY, scale=np.abs(outer).max())


@pytest.mark.place(
    NAM24["Eq. 1.12"], NAM24["Eq. 1.17"], NAM24["Eq. 1.19"], NAM24["Eq. 1.20"], NAM24["Eq. 1.21"], NAM24["Eq. 1.22"],
    NAM24["Eq. A.10"],
)  # fmt: skip
def test_the_function_moves_as_its_weights_do(seed: int) -> None:
    phi, target = sample(seed, 2)
    rng = np.random.default_rng([seed, 3])
    w, eta, h = rng.normal(size=3), 0.7, 1e-6
    loss = lambda w: ((w @ phi - target) ** 2).mean() / 2
    slope = [(loss(w + h * e) - loss(w - h * e)) / (2 * h) for e in np.eye(3)]
    moved = weight_flow(w, phi, target, eta / 40)
    np.testing.assert_allclose(moved, -eta * np.array(slope), rtol=1e-6)  # central differences of a parabola
    assert_close(function_flow(phi, w @ phi, target, eta), moved @ phi, IDENTITY, scale=1.0, times=10)


@pytest.mark.place(NAM24["Eq. A.11"], NAM24["Eq. A.12"])
def test_weights_move_in_the_span_of_the_examples(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    phi, y, w = rng.normal(size=(9, 4)), rng.normal(size=4), rng.normal(size=9)
    U, _, _ = np.linalg.svd(phi, full_matrices=False)
    moved = weight_flow(w, phi, y)
    assert np.abs(moved - U @ (U.T @ moved)).max() < 1e-13 * np.abs(moved).max() and np.abs(moved).max() > 0
    path = integrate(lambda v: weight_flow(v, phi, y), w, np.array([0.0, 50.0]))[:, 1]
    rest = w - U @ (U.T @ w)
    assert_close(path - U @ (U.T @ path), rest, SOLVED, scale=np.abs(rest).max())


@pytest.mark.place(NAM24["Eq. 1.15"], NAM24["Eq. 1.29"])
def test_intensities_are_the_eigenvalues(seed: int) -> None:
    phi, _ = sample(seed, 5)
    found = spectrum_of_features(phi.T)
    values, vectors = np.linalg.eigh(phi @ phi.T / 40)
    e = (vectors.T @ phi)[::-1] / np.sqrt(values[::-1, None])
    assert_close(intensity(phi, e), values[::-1], IDENTITY, times=100)
    assert_close(found.intensity, values[::-1], IDENTITY, times=100)
    for k in range(3):
        assert_close(kernel_operator(phi, e[k]), values[::-1][k] * e[k], IDENTITY, scale=values[-1], times=100)


@pytest.mark.place(NAM24["Eq. 1.23"], NAM24["Eq. 1.24"])
def test_each_eigenfunction_is_learned_alone(seed: int) -> None:
    # −ηρ_k(⟨e_k|f⟩ − ⟨e_k|f*⟩), whatever the other modes do; and its solution follows the weights.
    phi, target = sample(seed, 7)
    values, vectors = np.linalg.eigh(phi @ phi.T / 40)
    e = (vectors.T @ phi) / np.sqrt(values[:, None])
    w, eta = np.random.default_rng([seed, 8]).normal(size=3), 0.4
    coefficient = e @ (w @ phi) / 40
    told = -eta * values * (coefficient - e @ target / 40)
    assert_close(mode_flow(phi, e, w @ phi, target, eta), told, IDENTITY, scale=np.abs(told).max(), times=100)
    t = np.array([0.0, 0.5, 3.0])
    path = integrate(lambda v: weight_flow(v, phi, target, eta / 40), w, t)
    now, _ = linear_modes(t, values[:, None], (e @ target / 40)[:, None], eta, coefficient[:, None])
    assert_close(now, e @ (path.T @ phi).T / 40, SOLVED, scale=1.0)


@pytest.mark.place(NAM24["Eq. 3.11"])
def test_a_diagonal_network_has_a_feature_for_each_input(seed: int) -> None:
    rng = np.random.default_rng([seed, 6])
    a, variance = rng.normal(size=4), rng.uniform(0.1, 3.0, 4)
    x = np.linalg.qr(rng.normal(size=(60, 4)))[0].T * np.sqrt(60 * variance[:, None])  # uncorrelated
    told = diagonal_intensity(a, variance)
    for i in range(4):
        assert_close(
            kernel_operator(a[:, None] * x, x[i]), told[i] * x[i], IDENTITY, scale=np.abs(x).max() * told.max()
        )
