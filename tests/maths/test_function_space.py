"""Preconditioners and potentials against the definitions they come from."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from richter.maths import potentials
from richter.maths.preconditioner import (
    inverse_coefficients,
    isotropic_preconditioner,
    isotropy_holds,
    neuron_preconditioner,
    neuron_preconditioner_inverse,
    sum_of_neurons,
    time_warp,
    wide_preconditioner,
)
from richter.refs import KUN24


def _neuron(rng: np.random.Generator, d: int = 3) -> tuple[float, np.ndarray, float, float]:
    return rng.normal() * 3, rng.normal(size=d), *10 ** rng.uniform(-1, 1, 2)


@pytest.mark.place(KUN24["Eq. 4"], KUN24["Eq. 39"], KUN24["Eq. 46"], KUN24["Eq. 48"], KUN24["Eq. 49"])
def test_m_of_the_neuron_is_its_definition_and_its_inverse_is_the_inverse() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        a, w, eta_a, eta_w = _neuron(rng)
        delta = eta_w * a**2 - eta_a * w @ w
        defined = eta_w * a**2 * np.eye(3) + eta_a * np.outer(w, w)
        np.testing.assert_allclose(
            neuron_preconditioner(a * w, delta, eta_a, eta_w), defined, rtol=1e-11, atol=1e-13
        )  # entries of size 1
        beta = a * w
        M = neuron_preconditioner(beta, delta)
        np.testing.assert_allclose(neuron_preconditioner_inverse(beta, delta) @ M, np.eye(3), atol=1e-10)
        f, h = inverse_coefficients(beta @ beta, delta)
        np.testing.assert_allclose(f * np.eye(3) - h * np.outer(beta, beta), neuron_preconditioner_inverse(beta, delta))
    # Far downstream κ + δ cancels; the sum M⁻¹M stays right along β.
    beta = np.array([1e-3, 0.0])
    assert (neuron_preconditioner_inverse(beta, -1e6) @ neuron_preconditioner(beta, -1e6))[0, 0] == pytest.approx(1)


@pytest.mark.place(KUN24["Eq. 57"], KUN24["Eq. 58"])
def test_the_warped_inverse_is_a_hessian_map_and_the_plain_one_is_none() -> None:
    rng = np.random.default_rng(1)
    for delta in (-2.0, 0.5, 3.0):
        beta = rng.normal(size=3)

        def derivative(warped: bool, beta: np.ndarray = beta, delta: float = delta) -> np.ndarray:
            def H(b: np.ndarray) -> np.ndarray:
                scale = time_warp(b @ b, delta) if warped else 1.0
                return scale * neuron_preconditioner_inverse(b, delta)

            step = 1e-5
            return np.stack([(H(beta + step * e) - H(beta - step * e)) / (2 * step) for e in np.eye(3)], axis=-1)

        skew = lambda T: np.abs(T - T.transpose(0, 2, 1)).max()  # ∂H_ij/∂β_k − ∂H_ik/∂β_j
        assert skew(derivative(True)) < 1e-8 < 1e-2 < skew(derivative(False))


@pytest.mark.place(KUN24["Eq. 6"], KUN24["Eq. 78"], KUN24["Eq. 79"], KUN24["Eq. 80"])
def test_m_of_the_wide_network_moves_beta() -> None:
    rng = np.random.default_rng(2)
    for d, h, c in ((3, 2, 4), (4, 5, 2), (2, 2, 2), (3, 1, 1)):
        A, W, G = rng.normal(size=(h, c)), rng.normal(size=(h, d)), rng.normal(size=(d, c))
        eta_a, eta_w = 0.7, 1.9
        dA, dW = -eta_a * W @ G, -eta_w * A @ G.T  # gradient flow with loss gradient G in β = WᵀA
        moved = dW.T @ A + W.T @ dA
        np.testing.assert_allclose(
            moved.ravel("F"), -wide_preconditioner(A, W, eta_a, eta_w) @ G.ravel("F"), rtol=1e-12, atol=1e-13
        )


@pytest.mark.place(KUN24["Theorem 4.1"], KUN24["Eq. 7"], KUN24["Eq. 87"], KUN24["Eq. 86"])
def test_m_is_a_sum_over_neurons() -> None:
    rng = np.random.default_rng(3)
    A, W, eta_a, eta_w = rng.normal(size=(5, 2)), rng.normal(size=(5, 3)), 0.4, 2.5
    betas = W[:, :, None] * A[:, None, :]
    deltas = eta_w * (A**2).sum(axis=1) - eta_a * (W**2).sum(axis=1)
    M = wide_preconditioner(A, W, eta_a, eta_w)
    np.testing.assert_allclose(sum_of_neurons(betas, deltas, eta_a, eta_w), M, rtol=1e-11, atol=1e-12)
    # As printed (no learning rates) it is another matrix.
    printed = sum_of_neurons(betas, (A**2).sum(axis=1) - (W**2).sum(axis=1))
    assert np.abs(printed - M).max() > 0.1


def _isotropic(d: int, h: int, c: int, delta: float, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """A start with AAᵀ − WWᵀ = δI (rates 1)."""
    O = np.linalg.qr(rng.normal(size=(h, h)))[0]
    n = min(d, c, h)
    w2 = np.zeros(h)
    w2[:n] = rng.uniform(0.2, 2.0, n)
    if delta < 0:
        w2 = np.where(np.arange(h) < n, w2, 0.0) - delta
    a2 = w2 + delta
    frame = lambda size: np.linalg.qr(rng.normal(size=(size, size)))[0]
    pad = lambda v, size: np.pad(np.diag(np.sqrt(np.maximum(v, 0))), ((0, 0), (0, max(0, size - h))))[:, :size]
    return O @ pad(a2, c) @ frame(c), O @ pad(w2, d) @ frame(d)


@pytest.mark.place(KUN24["Lemma B.3"], KUN24["Eq. 97"], KUN24["Eq. 101"], KUN24["Eq. 102"])
@pytest.mark.parametrize(
    ("d", "h", "c", "delta"),
    [(3, 3, 3, 1.0), (3, 3, 3, -2.0), (5, 2, 2, 1.5), (2, 2, 5, -1.5), (4, 2, 3, 0.0), (2, 3, 4, 0.0)],
)
def test_isotropic_m_is_a_function_of_beta(d: int, h: int, c: int, delta: float) -> None:
    A, W = _isotropic(d, h, c, delta, np.random.default_rng(4))
    np.testing.assert_allclose(A @ A.T - W @ W.T, delta * np.eye(h), atol=1e-12)
    assert isotropy_holds(d, h, c, delta)
    M = wide_preconditioner(A, W)
    np.testing.assert_allclose(isotropic_preconditioner(W.T @ A, delta), M, atol=1e-7 if delta == 0 else 1e-11)


def test_without_the_rank_conditions_the_isotropic_form_is_wrong() -> None:
    assert not isotropy_holds(4, 1, 1, -1.0)
    A, W = _isotropic(4, 1, 1, -1.0, np.random.default_rng(5))
    beta = W.T @ A
    M = wide_preconditioner(A, W)
    assert np.abs(isotropic_preconditioner(beta, -1.0) - M).max() > 0.3
    np.testing.assert_allclose(neuron_preconditioner(beta[:, 0], -1.0), M, atol=1e-12)


def _phi(x: float, delta: float) -> mp.mpf:
    with mp.workdps(60):
        X, D = mp.mpf(x), mp.mpf(delta)
        kappa = mp.sqrt(D**2 + 4 * X**2)
        psi = lambda k: (k - 2 * D) * mp.sqrt(k + D) / 3
        return psi(kappa) - psi(abs(D))


@pytest.mark.place(KUN24["Eq. 63"], KUN24["Eq. 66"], KUN24["Eq. 67"])
def test_the_potential_keeps_its_digits() -> None:
    rng = np.random.default_rng(6)
    x, delta = 10 ** rng.uniform(-6, 6, 400), 10 ** rng.uniform(-6, 6, 400) * rng.choice([-1, 0, 1], 400)
    exact = np.array([float(_phi(*pair)) for pair in zip(x, delta, strict=True)])
    np.testing.assert_allclose(potentials.radial_potential(x, delta), exact, rtol=1e-13)
    mild = np.abs(delta) < 10 * x
    np.testing.assert_allclose(potentials.radial_potential_printed(x[mild], delta[mild]), exact[mild], rtol=1e-9)
    assert potentials.radial_potential_printed(1e-6, 1e6) != pytest.approx(float(_phi(1e-6, 1e6)), rel=0.1, abs=0)


@pytest.mark.place(KUN24["Eq. 61"], KUN24["Eq. 62"], KUN24["Eq. 64"], KUN24["Eq. 65"])
def test_slope_and_curvature_are_derivatives() -> None:
    for delta in (-1.5, 0.0, 0.7, 4.0):
        for x in (0.1, 1.0, 5.0):
            slope = mp.diff(lambda t, delta=delta: _phi(t, delta), x)
            assert potentials.radial_slope(x, delta) == pytest.approx(float(slope), rel=1e-12)
            curvature = mp.diff(lambda t, delta=delta: _phi(t, delta), x, 2)
            assert potentials.radial_curvature(x, delta) == pytest.approx(float(curvature), rel=1e-9)


@pytest.mark.place(KUN24["Eq. 68"])
def test_azulays_potential_is_the_same_up_to_scale_and_constant() -> None:
    x = np.linspace(0.1, 5, 50)
    for delta in (0.0, 0.5, 3.0):
        constant = np.sqrt(2) * delta**1.5 / 3
        scaled = 2 * np.sqrt(2) / 3 * potentials.azulay_potential(x, delta) + constant
        np.testing.assert_allclose(
            potentials.radial_potential(x, delta), scaled, rtol=1e-9
        )  # q_δ cancels its own constant
    # Where δ is far larger than β, and at β = 0, as the printed form in 100 digits.
    with mp.workdps(100):
        for size, delta in ((1e-9, 1e6), (1e-3, 1e8), (2.0, 1e-9), (1e-30, 1.0)):
            x, d = mp.mpf(size), mp.mpf(delta)
            r = mp.sqrt(x**2 + d**2 / 4)
            printed = (x**2 - d / 2 * (d / 2 + r)) * mp.sqrt(r - d / 2) / x
            assert potentials.azulay_potential(size, delta) == pytest.approx(float(printed), rel=1e-14)
    assert potentials.azulay_potential([0.0, 0.0], [2.0, 0.0]).tolist() == pytest.approx([-np.sqrt(2), 0.0])


@pytest.mark.place(KUN24["Theorem B.6"])
def test_the_hyperbolic_entropy_has_its_second_derivative_and_its_limits() -> None:
    q = potentials.hyperbolic_entropy
    for eta_a, eta_w, delta in ((1.0, 1.0, 0.5), (0.3, 2.0, -2.0)):
        k2 = eta_a * eta_w
        for x in (0.2, 3.0):
            step = 1e-4
            second = (
                q(x + step, delta, eta_a, eta_w) - 2 * q(x, delta, eta_a, eta_w) + q(x - step, delta, eta_a, eta_w)
            ) / step**2
            assert second == pytest.approx(1 / np.sqrt(4 * k2 * x**2 + delta**2), rel=1e-6)
    local = lambda delta: np.log2(q(2.0, delta) / q(1.0, delta))
    assert local(1e6) == pytest.approx(2, abs=1e-6) and 1 < local(1e-30) < 1.05


@pytest.mark.place(KUN24["Theorem B.9"], KUN24["Eq. 119"], KUN24["Sec. 4"])
def test_rich_deep_networks_end_at_the_minimum_of_the_deep_potential() -> None:
    from scipy.integrate import solve_ivp

    X, y = np.array([[1.0, 0.5, -0.3]]), np.array([1.0])
    v = np.linalg.qr(np.vstack([X, np.eye(3)]).T)[0][:, 1:]  # the null space of X
    for l in (1, 2, 3):
        beta0 = np.array([0.2, 0.3, 0.4])
        p = l / (l + 1)

        def flow(_: float, b: np.ndarray, p: float = p, l: int = l) -> np.ndarray:
            size = np.linalg.norm(b)
            pull = X.T @ (y - X @ b)
            return size ** (2 * p) * (pull + l * b * (b @ pull) / size**2)

        end = solve_ivp(flow, (0, 400), beta0, rtol=1e-12, atol=1e-14, method="LSODA").y[:, -1]
        size, start = np.linalg.norm(end), np.linalg.norm(beta0)
        gradient = end * size ** ((l + 2) / (l + 1) - 2) - start ** (-p) * beta0
        printed = end * size ** ((l + 2) / (l + 1) - 2) - start ** (-(l + 2) / (l + 1)) * beta0
        assert np.abs(v.T @ gradient).max() < 1e-9 and np.abs(v.T @ printed).max() > 0.1
        step = 1e-6 * v[:, 0]
        Q = lambda b, beta0=beta0, l=l: potentials.deep_potential(b, beta0, l)
        assert abs(Q(end + step) - Q(end - step)) / 2e-6 < 1e-8
