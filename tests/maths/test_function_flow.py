"""How the function of one neuron and of a two-layer network moves, derived by the product rule alone."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths import neuron_cases as cases
from richter.maths.balance import split_by_imbalance
from richter.maths.network_law import network_flow, network_velocity, neuron_functions
from richter.maths.neuron import basin_margin
from richter.maths.neuron_law import function_velocity, neuron_delta, neuron_flow, neuron_flow_on
from richter.maths.preconditioner import neuron_grams, neuron_preconditioner, sum_of_neurons, wide_preconditioner
from richter.refs import KUN24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow

H = 1e-5  # step of the central differences


def gradient(loss: object, at: Floats) -> Floats:
    """The gradient of a scalar function by central differences."""
    made = np.zeros_like(at)
    for i in np.ndindex(at.shape):
        step = np.zeros_like(at)
        step[i] = H
        made[i] = (loss(at + step) - loss(at - step)) / (2 * H)  # type: ignore[operator]
    return made


@pytest.mark.place(KUN24["Eq. 11"], KUN24["Eq. 12"], KUN24["Eq. 3"], KUN24["Eq. 36"])
def test_the_neuron_descends_its_loss_on_any_inputs_and_its_function_moves_by_m(seed: int) -> None:
    rng = np.random.default_rng([seed, 70])
    for _ in range(10):
        X, y, a, w = rng.standard_normal((4, 3)), rng.standard_normal(4), rng.standard_normal(), rng.standard_normal(3)
        eta_a, eta_w = 10 ** rng.uniform(-0.5, 0.5, 2)
        loss = lambda v, X=X, y=y: ((X @ v[1:] * v[0] - y) ** 2).sum() / 2
        slope = gradient(loss, np.array([a, *w]))
        da, dw = neuron_flow_on(a, w, X.T @ X, X.T @ y, eta_a, eta_w)
        size = np.abs(slope).max()
        assert_close(da, -eta_a * slope[0], DERIVATIVE, scale=size * eta_a, says="da/dt, h = 1e-5")
        assert_close(dw, -eta_w * slope[1:], DERIVATIVE, scale=size * eta_w, says="dw/dt, h = 1e-5")
        pull = X.T @ (X @ (a * w) - y)
        velocity = function_velocity(a, w, pull, eta_a, eta_w)
        scale = np.abs(velocity).max() + size * (eta_a + eta_w)
        assert_close(velocity, a * dw + da * w, IDENTITY, scale=scale, says="Eq. 36: the product rule")
        M = neuron_preconditioner(a * w, neuron_delta(a, w, eta_a, eta_w), eta_a, eta_w)
        assert_close(velocity, -M @ pull, IDENTITY, scale=scale, times=10, says="Eq. 3")  # M goes by δ
    batch = lambda x: np.stack([x, 2 * x], axis=-1)
    many = neuron_flow_on(batch(a), batch(w), batch(X.T @ X), batch(X.T @ y), eta_a, eta_w)
    alone = neuron_flow_on(2 * a, 2 * w, 2 * X.T @ X, 2 * X.T @ y, eta_a, eta_w)
    assert_close(many[1][:, 1], alone[1], IDENTITY, scale=np.abs(alone[1]).max(), says="many at once")
    white = np.linalg.qr(X)[0]
    plain = neuron_flow(a, w, white.T @ y, eta_a, eta_w)
    assert_close(neuron_flow_on(a, w, white.T @ white, white.T @ y, eta_a, eta_w)[1], plain[1], IDENTITY, scale=10.0)


@pytest.mark.place(KUN24["Eq. 37"], KUN24["Eq. 38"])
def test_layers_follow_from_the_function_and_the_imbalance(seed: int) -> None:
    rng = np.random.default_rng([seed, 71])
    for _ in range(40):
        a, w = abs(rng.standard_normal()) + 0.1, rng.standard_normal(3)
        eta_a, eta_w = 10 ** rng.uniform(-0.5, 0.5, 2)
        beta, delta = a * w, eta_w * a**2 - eta_a * w @ w
        got_a, got_w = split_by_imbalance(beta, delta, eta_a, eta_w)
        kappa = np.sqrt(delta**2 + 4 * eta_a * eta_w * beta @ beta)
        assert_close(got_a**2, a**2, IDENTITY, scale=kappa / eta_w, says="a²")
        assert_close(got_a**2, (kappa + delta) / (2 * eta_w), IDENTITY, scale=kappa / eta_w, says="Eq. 37")
        outer = (kappa - delta) / (2 * eta_a) * np.outer(beta, beta) / (beta @ beta)
        assert_close(np.outer(got_w, got_w), outer, IDENTITY, scale=kappa / eta_a, says="Eq. 38")
        assert_close(got_w, w, IDENTITY, scale=np.sqrt(kappa / eta_a), times=1e3, says="w")  # δ subtracts squares


@pytest.mark.place(KUN24["Eq. 19"], KUN24["Eq. 20"], KUN24["Eq. 21"], KUN24["Eq. 26"])
def test_a_product_of_rates_of_one_is_enough_for_size_and_angle_only(seed: int) -> None:
    rng = np.random.default_rng([seed, 72])
    eta_a, eta_w = 4.0, 0.25
    for k in range(12):
        a, w, target = rng.choice([-1, 1]) * rng.uniform(0.5, 1.5), rng.standard_normal(3), rng.standard_normal(3)
        if k % 3 == 0:
            w *= abs(a) * np.sqrt(eta_w / eta_a) / np.linalg.norm(w)  # balanced for these rates
        delta = float(neuron_delta(a, w, eta_a, eta_w)) if k % 3 else 0.0
        B, size = float(np.linalg.norm(target)), float(np.linalg.norm(w))
        da, dw = neuron_flow(a, w, target, eta_a, eta_w)
        mu, phi = a * size, float(w @ target / size / B)
        d_mu = da * size + a * (w @ dw) / size
        d_phi = (dw @ target) / size / B - phi * (w @ dw) / size**2
        kappa = np.sqrt(delta**2 + 4 * mu**2)
        # Both sides by hand: κ(φB − μ), and 2μB(1 − φ²)/(κ − δ) as (κ + δ)B(1 − φ²)/2μ.
        assert_close(d_mu, kappa * (phi * B - mu), IDENTITY, scale=kappa * (B + abs(mu)), times=10, says="Eq. 19")
        stated = (kappa + delta) / (2 * mu) * B * (1 - phi**2)
        rough = (kappa + abs(delta)) / abs(mu) * B  # κ + δ by subtraction
        assert_close(d_phi, stated, IDENTITY, scale=rough, times=10, says="Eq. 20")
        flow = cases.coordinates_flow(mu, phi, delta, B)
        assert_close(flow, [d_mu, d_phi], IDENTITY, scale=[kappa * (B + abs(mu)), rough], times=10)
        if k % 3 == 0:
            balanced = np.sign(mu) * 2 * mu * (phi * B - mu)
            assert_close(d_mu, balanced, IDENTITY, scale=kappa * (B + abs(mu)), times=10, says="Eq. 21")
        nu = w @ target / a
        d_nu = dw @ target / a - nu * da / a
        bulk = (B + abs(nu) + abs(delta)) ** 2 * (eta_a + eta_w)
        assert_close(d_nu, eta_w * B**2 - delta * nu - eta_a * nu**2, IDENTITY, scale=bulk, times=100, says="Eq. 26")
        assert abs(d_nu - (B**2 - delta * nu - nu**2)) > 0.5 * B**2  # as printed


@pytest.mark.place(KUN24["Eq. 21"])
def test_balanced_size_follows_its_angle(seed: int) -> None:
    rng = np.random.default_rng([seed, 73])
    times = np.linspace(0.0, 2.0, 7)
    for sign in (-1.0, 1.0):
        mu0, phi0, B = sign * rng.uniform(0.2, 1.5), rng.uniform(-0.7, 0.7), rng.uniform(0.5, 2.0)
        flow = lambda x, B=B: [2 * abs(x[0]) * (x[1] * B - x[0]), np.sign(x[0]) * B * (1 - x[1] ** 2)]
        mu, phi = follow(flow, [mu0, phi0], times)
        assert_close(cases.balanced_mu(times, mu0, phi0, B), mu, SOLVED, scale=np.abs(mu).max(), says="μ")
        assert_close(cases.balanced_phi(times, mu0, phi0, B), phi, SOLVED, scale=1.0, says="φ")


@pytest.mark.place(KUN24["Eq. 33"], KUN24["Eq. 20"])
def test_a_product_of_rates_of_one_is_not_enough_for_the_basins() -> None:
    eta_a, eta_w, target = 4.0, 0.25, np.array([0.0, 1.0])
    a, w = 1.0, np.array([0.4, -0.4])
    delta, B = float(neuron_delta(a, w, eta_a, eta_w)), 1.0
    assert delta < 0
    printed = w @ target + a / 2 * (delta + np.sqrt(delta**2 + 4 * B**2))
    right = float(basin_margin(a, w, target, eta_a, eta_w))
    assert printed > 0 > right
    flow = lambda x: np.concatenate(
        [[neuron_flow(x[0], x[1:], target, eta_a, eta_w)[0]], neuron_flow(x[0], x[1:], target, eta_a, eta_w)[1]]
    )
    assert follow(flow, [a, *w], [0.0, 60.0])[0, -1] < 0


@pytest.mark.place(
    KUN24["Eq. 73"], KUN24["Eq. 74"], KUN24["Eq. 75"], KUN24["Eq. 76"], KUN24["Eq. 77"], KUN24["Eq. 100"]
)
@pytest.mark.parametrize(("d", "h", "c"), [(3, 2, 4), (4, 5, 2), (2, 2, 2)])
def test_the_network_descends_its_loss_and_its_function_moves_by_m(d: int, h: int, c: int, seed: int) -> None:
    rng = np.random.default_rng([seed, 74])
    X, Y = rng.standard_normal((5, d)), rng.standard_normal((5, c))
    A, W, (eta_a, eta_w) = rng.standard_normal((h, c)), rng.standard_normal((h, d)), 10 ** rng.uniform(-0.5, 0.5, 2)
    loss = lambda A, W: ((X @ W.T @ A - Y) ** 2).sum() / 2
    pull = X.T @ (X @ W.T @ A - Y)
    dA, dW = network_flow(A, W, pull, eta_a, eta_w)
    scale = np.abs(dA).max() + np.abs(dW).max()
    assert_close(dA, -eta_a * gradient(lambda a: loss(a, W), A), DERIVATIVE, scale=scale, says="Eq. 75, h = 1e-5")
    assert_close(dW, -eta_w * gradient(lambda w: loss(A, w), W), DERIVATIVE, scale=scale, says="Eq. 74, h = 1e-5")
    velocity = network_velocity(A, W, pull, eta_a, eta_w)
    size = np.abs(velocity).max()
    moved = ((W + H * dW).T @ (A + H * dA) - (W - H * dW).T @ (A - H * dA)) / (2 * H)
    assert_close(velocity, moved, DERIVATIVE, scale=size, says="Eq. 73, h = 1e-5")
    stated = -(eta_w * pull @ A.T @ A + eta_a * W.T @ W @ pull)
    assert_close(velocity, stated, IDENTITY, scale=size, times=10, says="Eqs 76 and 77")
    by_m = -wide_preconditioner(A, W, eta_a, eta_w) @ pull.ravel("F")
    assert_close(velocity.ravel("F"), by_m, IDENTITY, scale=size, times=10, says="Eq. 100")


@pytest.mark.place(
    KUN24["Eq. 81"], KUN24["Eq. 82"], KUN24["Eq. 83"], KUN24["Eq. 84"], KUN24["Eq. 85"], KUN24["Eq. 86"],
    KUN24["Lemma B.1"],
)  # fmt: skip
def test_each_neurons_layers_follow_from_its_function_and_imbalance(seed: int) -> None:
    rng = np.random.default_rng([seed, 75])
    A, W, eta_a, eta_w = rng.standard_normal((5, 2)), rng.standard_normal((5, 3)), 0.4, 2.5
    betas = neuron_functions(A, W)
    assert_close(betas.sum(axis=0), W.T @ A, IDENTITY, scale=np.abs(betas).sum(), says="Σβᵢ = β")
    a2, w2 = (A**2).sum(axis=1), (W**2).sum(axis=1)
    deltas = eta_w * a2 - eta_a * w2
    left, right = neuron_grams(betas, deltas, eta_a, eta_w)
    for i in range(5):
        b, aa, ww = betas[i], np.outer(A[i], A[i]), np.outer(W[i], W[i])
        assert_close(b.T @ b, w2[i] * aa, IDENTITY, scale=w2[i] * a2[i], says="Eq. 81, left")
        assert_close(b @ b.T, a2[i] * ww, IDENTITY, scale=w2[i] * a2[i], says="Eq. 81, right")
        assert_close([np.trace(b.T @ b), np.trace(b @ b.T)], a2[i] * w2[i], IDENTITY, says="Eq. 82")
        size = (eta_w * a2[i] + eta_a * w2[i]) * max(1 / eta_w, 1 / eta_a)
        assert_close(np.trace(left[i]), a2[i], IDENTITY, scale=size, times=10, says="Eq. 83")
        assert_close(np.trace(right[i]), w2[i], IDENTITY, scale=size, times=10, says="Eq. 84")
        assert_close(left[i], aa, IDENTITY, scale=size, times=10, says="Eq. 85")
        assert_close(right[i], ww, IDENTITY, scale=size, times=10, says="Eq. 86")
    printed_a, printed_w = neuron_grams(betas * np.sqrt(eta_a * eta_w), deltas)  # without η in front
    assert_close(np.trace(printed_a, axis1=1, axis2=2), eta_w * a2, IDENTITY, scale=eta_w * a2 + eta_a * w2)
    assert np.abs(np.trace(printed_w, axis1=1, axis2=2) - w2).max() > 0.1 * w2.max()
    M = wide_preconditioner(A, W, eta_a, eta_w)
    assert_close(sum_of_neurons(betas, deltas, eta_a, eta_w), M, IDENTITY, scale=M.max(), times=10, says="Lemma B.1")
