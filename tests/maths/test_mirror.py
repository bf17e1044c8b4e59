"""Mirror flows: the potential's Hessian, its dual variable, distances, and the flows they describe."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from richter.errors import OutsideTheoryError, ParameterError
from richter.maths import mirror, potentials
from richter.maths.preconditioner import neuron_preconditioner, time_warp
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import AlignedNetwork, SingleNeuron, interpolant
from richter.theory.mirror_flow import mirror_flow
from tests.maths.ode import follow

DELTAS = (-30.0, -1.0, 0.0, 1e-6, 2.0, 50.0)


def phi(x: mp.mpf, delta: float) -> mp.mpf:
    """Eq. 67 with 50 digits."""
    with mp.workdps(50):
        kappa = mp.sqrt(mp.mpf(delta) ** 2 + 4 * x * x)
        constant = mp.sqrt(2) * mp.mpf(delta) ** mp.mpf("1.5") / 3 if delta > 0 else mp.mpf(0)
        return (kappa - 2 * delta) * mp.sqrt(kappa + delta) / 3 + constant


@pytest.mark.place(KUN24["Eq. 59"], KUN24["Eq. 60"])
def test_the_warped_inverse_is_the_potentials_hessian(seed: int) -> None:
    beta = np.random.default_rng(seed).standard_normal((5, 3))
    for delta in DELTAS:
        hessian = mirror.potential_hessian(beta, delta)
        size = np.linalg.norm(beta, axis=-1)
        unit = beta / size[:, None]
        along = unit[:, :, None] * unit[:, None, :]
        slope, curve = potentials.radial_slope(size, delta) / size, potentials.radial_curvature(size, delta)
        ansatz = slope[:, None, None] * (np.eye(3) - along) + curve[:, None, None] * along
        assert_close(hessian, ansatz, IDENTITY, scale=np.abs(hessian).max(), says="Eq. 60")
        M = neuron_preconditioner(beta, delta)
        warp = time_warp(size**2, delta)[:, None, None]
        assert_close(
            hessian @ M, warp * np.eye(3), IDENTITY, scale=np.abs(warp * M).max(), times=10
        )  # a product of conditioned matrices


def test_the_dual_is_the_slope_and_comes_back(seed: int) -> None:
    beta = np.random.default_rng(seed).standard_normal((50, 4)) * 10 ** np.linspace(-3, 3, 50)[:, None]
    for delta in DELTAS:
        theta = mirror.dual(beta, delta)
        weight = max(1.0, abs(delta) / float((theta * theta).sum(axis=-1).min()))  # ‖θ‖² + 2δ subtracts for δ < 0
        if weight < 1e6:
            assert_close(mirror.primal(theta, delta), beta, IDENTITY, scale=np.abs(beta).max(axis=-1)[:, None], times=10 * weight / 1e-6 if delta < 0 else 10)  # fmt: skip # conditioning of the way back
        size = np.linalg.norm(beta[25])
        slope = mp.diff(lambda x, delta=delta: phi(x, delta), mp.mpf(size))
        assert_close(np.linalg.norm(theta[25]), float(slope), SOLVED, says="‖∇Φ‖")


@pytest.mark.place(KUN24["Eq. 41"])
def test_bregman_distances_are_exact_near_and_far(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for delta in DELTAS:
        for gap in (0.0, 1e-8, 1e-3, 0.5, 3.0):
            other = rng.standard_normal(3)
            beta = other + gap * rng.standard_normal(3)
            with mp.workdps(50):
                x, y = (mp.sqrt(sum(mp.mpf(float(v)) ** 2 for v in vector)) for vector in (beta, other))
                inner = sum(mp.mpf(float(p)) * mp.mpf(float(q)) for p, q in zip(beta, other, strict=True))
                kappa = mp.sqrt(mp.mpf(delta) ** 2 + 4 * y * y)
                expected = phi(x, delta) - phi(y, delta) - mp.sqrt(kappa - delta) * (inner / y - y)
            assert_close(
                mirror.bregman(beta, other, delta), float(expected) if gap else 0.0, IDENTITY, times=10
            )  # 3 terms


@pytest.mark.place(KUN24["Eq. 40"], KUN24["Eq. 45"])
def test_the_mirror_flow_is_the_neurons_function(seed: int) -> None:
    rng = np.random.default_rng([seed, 3])
    times = np.array([0.0, 0.3, 1.0, 4.0])
    for delta in (-2.0, -0.1, 0.0, 0.5, 8.0):
        beta0, target = rng.uniform(0.3, 1.0, 3), rng.uniform(0.3, 1.0, 3)  # an acute angle: a keeps its sign
        rates = 10 ** rng.uniform(-0.3, 0.3, 2)
        net = SingleNeuron.from_imbalance(beta0=beta0, delta=delta, beta_star=target, eta_a=rates[0], eta_w=rates[1])
        made = mirror_flow(np.eye(3), target, beta0, delta, times, *rates)
        assert_close(made.beta.values, net.solve(times).beta.values, SOLVED, scale=1.0, says=f"β at δ = {delta}")
        assert_close(made.loss.values, net.solve(times).loss.values, SOLVED, scale=1.0, says="loss")


@pytest.mark.place(KUN24["Eq. 42"], KUN24["Eq. 41"])
def test_the_flow_ends_nearest_to_its_start(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    for delta in (-0.5, 0.0, 2.0):
        X, truth, beta0 = rng.uniform(0.2, 1.0, (2, 5)), rng.uniform(0.2, 1.0, 5), rng.uniform(0.2, 1.0, 5)
        y = X @ truth
        net = SingleNeuron.from_imbalance(beta0=beta0, delta=delta, beta_star=truth)
        end = interpolant(X, y, net.a0, net.w0).beta.values
        slow = float(np.linalg.svd(X)[1][-1] ** 2)
        mirrored = mirror_flow(X, y, beta0, delta, [0.0, 60 / slow / (1 + abs(delta))])
        assert_close(
            mirrored.beta.values[-1], end, SOLVED, scale=1.0, times=10, says="two ways to the end"
        )  # the flow has not quite ended
        gradient = mirror.bias_gradient(end, beta0, delta)
        null = np.linalg.svd(X)[2][2:]
        assert_close(null @ gradient, np.zeros(3), IDENTITY, scale=np.abs(gradient).max(), times=100, says="∇Q in the row space")  # fmt: skip # of an end known to 1e-14
        here = mirror.bregman(end, beta0, delta)
        there = mirror.bregman(end + 0.1 * rng.standard_normal((200, 3)) @ null, beta0 + np.zeros((200, 5)), delta)
        assert (there > here).all()


@pytest.mark.place(KUN24["Eq. 112"], KUN24["Eq. 115"])
def test_aligned_modes_are_a_mirror_flow_of_the_hyperbolic_entropy(seed: int) -> None:
    rng = np.random.default_rng([seed, 5])
    times = np.array([0.0, 0.2, 0.7, 2.0])
    for _ in range(5):
        u0, s, D = rng.uniform(0.05, 0.5, 3), rng.uniform(0.5, 2.0, 3), rng.uniform(0.5, 1.5, 3)
        delta, rates = rng.uniform(0.1, 2.0) * rng.choice([-1, 1]), 10 ** rng.uniform(-0.3, 0.3, 2)
        net = AlignedNetwork(initial=u0, strengths=s, delta=delta, input_spectrum=D, eta_a=rates[0], eta_w=rates[1])
        k2 = float(np.prod(rates))
        dual = follow(lambda x: -D * (mirror.aligned_primal(x, delta, k2) - s), mirror.aligned_dual(u0, delta, k2), times)  # fmt: skip # noqa: B023
        assert_close(mirror.aligned_primal(dual.T, delta, k2), net.solve(times).output.values, SOLVED, scale=1.0)
        h = 1e-5  # central differences of q
        q = lambda x: potentials.hyperbolic_entropy(x, delta, *rates)  # noqa: B023
        assert_close(mirror.aligned_dual(u0, delta, k2), (q(u0 + h) - q(u0 - h)) / (2 * h), SOLVED, scale=1.0, times=10, says="q′")  # fmt: skip # of differences


def test_what_is_no_mirror_flow_is_refused() -> None:
    with pytest.raises(OutsideTheoryError, match="crosses 0 on its way"):
        mirror_flow(np.eye(2), [1.0, 0.0], [-1.0, 0.0], -1.0, [0.0, 5.0])
    with pytest.raises(ParameterError, match="`beta0` of mirror_flow must not be 0"):
        mirror_flow(np.eye(2), [1.0, 0.0], [0.0, 0.0], 1.0, [1.0])
    with pytest.raises(ParameterError, match="one problem without batch dimensions"):
        mirror_flow(np.eye(2), [1.0, 0.0], [1.0, 0.0], [1.0, 2.0], [1.0])
    with pytest.raises(ParameterError, match="be finite and increasing"):
        mirror_flow(np.eye(2), [1.0, 0.0], [1.0, 0.0], 1.0, [1.0, np.inf])
