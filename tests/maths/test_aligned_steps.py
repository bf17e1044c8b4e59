"""The derivation of the aligned networks' bias, step by step against the flow of both layers."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths import deep_preconditioner as deep
from richter.maths import mirror, potentials
from richter.maths.logistic import aligned_flow
from richter.maths.network_law import network_flow, network_velocity
from richter.maths.preconditioner import isotropic_grams
from richter.refs import KUN24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow
from tests.maths.test_deep_preconditioner import isotropic_layers, unpack, velocity

RATES = 0.5, 1.6


class Aligned:
    """A square aligned network (Assumptions B.4 and B.5) on inputs of spectrum D, with imbalance δ."""

    def __init__(self, rng: np.random.Generator, delta: float, D: Floats) -> None:
        n, (eta_a, eta_w) = D.size, RATES
        frame = lambda: np.linalg.qr(rng.standard_normal((n, n)))[0]
        self.V, self.U, turn, self.delta, self.D = frame(), frame(), frame(), delta, D
        self.start = rng.uniform(0.3, 1.2, n)
        self.S = np.where(D > 0, rng.uniform(0.3, 1.2, n), 0.0) * D
        self.X = np.diag(np.sqrt(D)) @ self.V.T  # XᵀX = VDVᵀ
        made = np.sqrt(np.where(D > 0, 1 / np.where(D > 0, D, 1.0), 0.0)) * self.S
        self.Y = np.diag(made) @ self.U.T  # XᵀY = VSUᵀ
        kappa = np.sqrt(delta**2 + 4 * eta_a * eta_w * self.start**2)
        self.A = turn @ np.diag(np.sqrt((kappa + delta) / (2 * eta_w))) @ self.U.T
        self.W = turn @ np.diag(np.sqrt((kappa - delta) / (2 * eta_a))) @ self.V.T

    def pull(self, A: Floats, W: Floats) -> Floats:
        return self.X.T @ (self.X @ W.T @ A - self.Y)

    def after(self, t: float) -> tuple[Floats, Floats]:
        """Both layers after integration."""
        n = self.D.size
        split = lambda x: (x[: n * n].reshape(n, n), x[n * n :].reshape(n, n))

        def flow(x: Floats) -> Floats:
            return np.concatenate([d.ravel() for d in network_flow(*split(x), self.pull(*split(x)), *RATES)])

        return split(follow(flow, np.concatenate([self.A.ravel(), self.W.ravel()]), [0.0, t])[:, -1])


@pytest.mark.place(
    KUN24["Assumption B.4"], KUN24["Assumption B.5"], KUN24["Eq. 104"], KUN24["Eq. 105"], KUN24["Eq. 106"],
    KUN24["Eq. 107"], KUN24["Eq. 108"], KUN24["Eq. 109"], KUN24["Eq. 110"], KUN24["Eq. 113"],
)  # fmt: skip
@pytest.mark.parametrize("delta", [-1.2, 0.8])
def test_every_step_of_the_aligned_flow(delta: float, seed: int) -> None:
    net = Aligned(np.random.default_rng([seed, 95]), delta, np.array([1.7, 1.0, 0.4]))
    eta_a, eta_w = RATES
    for t in (0.01, 0.5):
        A, W = net.after(t)
        modes = net.V.T @ W.T @ A @ net.U
        strength = np.diag(modes)
        assert_close(modes, np.diag(strength), SOLVED, scale=1.0, says="the network stays aligned")
        velocity = network_velocity(A, W, net.pull(A, W), eta_a, eta_w)
        size = np.abs(velocity).max() + 1.0
        gram = net.X.T @ net.X
        error = gram @ W.T @ A - net.X.T @ net.Y
        stated = -(eta_w * error @ A.T @ A + eta_a * W.T @ W @ error)
        assert_close(velocity, stated, IDENTITY, scale=size, times=100, says="Eq. 104")  # X and XᵀX
        of_a, of_w = isotropic_grams(W.T @ A, delta, eta_a, eta_w)
        AA, WW = net.U.T @ (eta_w * of_a) @ net.U, net.V.T @ (eta_a * of_w) @ net.V
        root = np.sqrt(eta_a * eta_w * strength**2 + delta**2 / 4)
        assert_close(AA, np.diag(root + delta / 2), SOLVED, scale=size, says="Λ_AA")
        assert_close(WW, np.diag(root - delta / 2), SOLVED, scale=size, says="Λ_WW")
        L, S, D = np.diag(strength), np.diag(net.S), np.diag(net.D)
        inside = (gram @ net.V @ L @ net.U.T - net.V @ S @ net.U.T) @ net.U @ AA @ net.U.T
        inside = inside + net.V @ WW @ net.V.T @ (gram @ net.V @ L @ net.U.T - net.V @ S @ net.U.T)
        assert_close(velocity, -inside, SOLVED, scale=size, says="Eq. 105")
        gap = D @ L - S
        assert_close(velocity, -net.V @ (gap @ AA + WW @ gap) @ net.U.T, SOLVED, scale=size, says="Eq. 106")
        printed = -net.V @ ((L - S) @ AA + WW @ (L - S)) @ net.U.T
        assert np.abs(velocity - printed).max() > 1e-2
        moved = np.diag(net.V.T @ velocity @ net.U)
        assert_close(moved, -np.diag(gap @ AA + WW @ gap), SOLVED, scale=size, says="Eq. 107")
        assert_close(moved, -2 * root * np.diag(gap), SOLVED, scale=size, says="Eq. 108")
        speed = aligned_flow(strength, delta, 1.0, eta_a, eta_w)
        assert_close(moved, -speed * np.diag(gap), SOLVED, scale=size, says="Eq. 109")
        whole = -aligned_flow(strength, delta, net.D, eta_a, eta_w) * (strength - net.S / net.D)
        assert_close(moved, whole, SOLVED, scale=size, says="with the spectrum")
        h = 1e-5
        bend = lambda u: mirror.aligned_dual(u, delta, eta_a * eta_w)
        curvature = (bend(strength + h) - bend(strength - h)) / (2 * h)
        assert_close(1 / curvature, speed, DERIVATIVE, says="Eq. 113, h = 1e-5")
        assert_close(moved, -np.diag(gap) / curvature, DERIVATIVE, scale=size, says="Eq. 110")


@pytest.mark.place(KUN24["Eq. 103"], KUN24["Eq. 111"])
@pytest.mark.parametrize("delta", [-0.9, 0.6])
def test_aligned_networks_end_at_the_minimum_of_their_bias(delta: float, seed: int) -> None:
    net = Aligned(np.random.default_rng([seed, 96]), delta, np.array([1.5, 0.8, 0.0]))  # one direction without data
    A, W = net.after(60.0)
    end = np.diag(net.V.T @ W.T @ A @ net.U)
    assert_close(net.X @ net.V @ np.diag(end) @ net.U.T, net.Y, SOLVED, scale=1.0, says="XVΛUᵀ = Y")
    assert_close(W.T @ A, net.V @ np.diag(end) @ net.U.T, SOLVED, scale=1.0, says="β = VΛUᵀ")
    assert np.abs(net.X @ net.U @ np.diag(end) @ net.V.T - net.Y).max() > 1e-2  # as printed
    Q = lambda u: mirror.aligned_bias(u, net.start, delta, *RATES)
    least = float(Q(end))
    for step in (1e-3, -1e-3, 0.1, -0.1):  # along what the data leaves free
        assert Q(end + step * np.array([0.0, 0.0, 1.0])) > least
    slope = (Q(end + [0, 0, 1e-5]) - Q(end - [0, 0, 1e-5])) / 2e-5
    assert_close(slope, 0.0, SOLVED, scale=1.0, says="∇Q, h = 1e-5")
    fitted = (Q(end + [1e-5, 0, 0]) - Q(end - [1e-5, 0, 0])) / 2e-5
    slopes = mirror.aligned_dual(end, delta, RATES[0] * RATES[1]) - mirror.aligned_dual(
        net.start, delta, RATES[0] * RATES[1]
    )
    assert_close(fitted, slopes[0], SOLVED, scale=1.0, says="∂Q/∂Λ₁")


@pytest.mark.place(KUN24["Eq. 114"], KUN24["Theorem B.6"])
def test_both_printed_entropies_have_another_curvature() -> None:
    x, delta, (eta_a, eta_w), h = 0.7, 0.9, (0.3, 2.0), 1e-4
    k = np.sqrt(eta_a * eta_w)
    wanted = 1 / np.sqrt(4 * k**2 * x**2 + delta**2)
    second = lambda q: (q(x + h) - 2 * q(x) + q(x - h)) / h**2
    tail = lambda u, d: -np.sqrt(4 * k**2 * u**2 + d**2) + d
    eq_114 = lambda u, d=delta: (2 * k * u * np.arcsinh(2 * k * u / d) + tail(u, d)) / 4
    theorem = lambda u, d=delta: (2 * u * np.arcsinh(2 * k * u / d) + tail(u, d)) / 4
    right = lambda u: float(potentials.hyperbolic_entropy(u, delta, eta_a, eta_w))
    # Second differences: h² times the fourth derivative, and rounding over h².
    assert_close(second(right), wanted, DERIVATIVE, times=10)
    assert_close(second(eq_114), k**2 * wanted, DERIVATIVE, times=10, says="Eq. 114 is k² times that")
    assert_close(eq_114(x) / k**2, right(x), IDENTITY)
    assert abs(second(theorem) / wanted - 1) > 0.05 and abs(second(theorem) / (k**2 * wanted) - 1) > 0.05
    assert second(lambda u: eq_114(u, -delta)) < 0  # concave for δ < 0 as printed


@pytest.mark.place(KUN24["Definition B.7"])
@pytest.mark.parametrize("l", [1, 3])
def test_isotropic_deep_layers_stay_isotropic(l: int, seed: int) -> None:
    rng = np.random.default_rng([seed, 97])
    X = rng.standard_normal((5, 3))
    size, target = 0.8, rng.standard_normal(3)
    a, weights = isotropic_layers(rng, 3, l, size)
    start = np.concatenate([a, np.array(weights).ravel()])
    later = follow(lambda x: velocity(x, 3, l, X.T @ X, target), start, [0.0, 0.3])[:, -1]
    a, weights = unpack(later, 3, l)
    assert np.abs(a).max() > 1e-2  # it has moved
    gaps = deep.isotropy_gaps(a, np.array(weights), -(size**2))
    assert gaps.shape == (l,)
    assert_close(gaps, np.zeros(l), SOLVED, scale=1.0)
    weights[-1] = weights[-1] * 1.1
    assert (deep.isotropy_gaps(a, np.array(weights), -(size**2))[-1:] > 0.1).all()
    assert np.linalg.eigvalsh(np.outer(a, a) - 0.1 * np.eye(3)).min() < 0  # no W Wᵀ for δ > 0
