"""Modes that learn alone, and the limits of the scalar network, against the flows they solve."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.linear import feature_modes, flow_weights, linear_modes
from richter.maths.logistic import diagonal_flow, linear_mode, logistic_mode, product_flow, stage_overlap, stage_times
from richter.maths.scalar_limits import (
    aligned_factor,
    anti_aligned_factor,
    direction_terms,
    greedy_limit,
    growth_bound,
    linear_limit,
    mode_flow,
    scalar_output,
)
from richter.refs import NAM24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close, assert_slope
from richter.theory import DiagonalNetwork, ScalarNetwork
from tests.maths.ode import Floats, follow

TIMES = np.linspace(0.0, 4.0, 9)


@pytest.mark.place(NAM24["Eq. 3.6"], NAM24["Eq. A.16"], NAM24["Eq. 3.9"], NAM24["Eq. A.20"])
def test_logistic_mode(seed: int) -> None:
    rng = np.random.default_rng([seed, 50])
    for _ in range(20):
        a0, S, variance = rng.uniform(0.05, 0.5), rng.uniform(0.5, 2), rng.uniform(0.3, 1.5)
        path = follow(lambda x, S=S, variance=variance: diagonal_flow(x[0], x[1], S, variance), [a0, a0], TIMES)
        assert_close(logistic_mode(TIMES, a0**2, S, variance), path[0] * path[1] / S, SOLVED)
        h, a, b = 1e-6, *rng.standard_normal(2)  # central differences of ½E[x²](ab − S)²
        loss = lambda a, b, S=S, variance=variance: variance * (a * b - S) ** 2 / 2
        slope = [-(loss(a + h, b) - loss(a - h, b)) / (2 * h), -(loss(a, b + h) - loss(a, b - h)) / (2 * h)]
        assert_close(diagonal_flow(a, b, S, variance), slope, SOLVED, scale=30.0)
    opposite = follow(lambda x: diagonal_flow(x[0], x[1], 1.0), [0.2, -0.2], TIMES)
    assert np.abs(opposite[0] * opposite[1] - logistic_mode(TIMES, 0.04, 1.0)).max() > 0.5  # a = −b: not logistic


@pytest.mark.place(NAM24["Eq. 3.7"], NAM24["Eq. 3.10"], NAM24["Eq. 1.25"], NAM24["Eq. 1.26"])
def test_linear_modes(seed: int) -> None:
    rng = np.random.default_rng([seed, 51])
    S, variance = 1.7, 0.4
    theta = follow(lambda x: -variance * (x - S), [0.0], TIMES)[0]
    assert_close(linear_mode(TIMES, variance), theta / S, SOLVED)
    rho, goal, start = rng.uniform(0, 2, 3) * [1, 1, 0], rng.standard_normal(3), rng.standard_normal(3)
    path = follow(lambda c: -0.7 * rho * (c - goal), start, TIMES)
    output, residual = linear_modes(TIMES, rho[:, None], goal[:, None], 0.7, start[:, None])
    assert_close(output, path, SOLVED, scale=np.abs(path).max())
    assert_close(residual, path - goal[:, None], SOLVED, scale=np.abs(path).max())


@pytest.mark.place(NAM24["Eq. 3.12"])
def test_stage_times_are_when_the_logistic_mode_is_there(seed: int) -> None:
    rng = np.random.default_rng([seed, 52])
    for _ in range(20):
        epsilon, S, variance = rng.uniform(0.01, 0.4), rng.uniform(0.3, 3), rng.uniform(0.1, 2)
        start = S * 10 ** rng.uniform(-8, -3)
        emergence, saturation = stage_times(epsilon, start, S, variance)
        assert_close(
            logistic_mode(emergence, start, S, variance), epsilon, IDENTITY, times=100, says="at ln(S/ab) ≲ 20"
        )
        assert_close(logistic_mode(emergence + saturation, start, S, variance), 1 - epsilon, IDENTITY, times=100)
        net = DiagonalNetwork(a0=[start**0.5], b0=[start**0.5], target=[S], input_variance=[variance])
        assert_close(net.emergence_time(epsilon), emergence, IDENTITY, times=100, says="DiagonalNetwork")


@pytest.mark.place(NAM24["Eq. 3.13"], NAM24["Eq. 3.14"])
def test_stage_overlap(seed: int) -> None:
    rng = np.random.default_rng([seed, 53])
    for _ in range(20):
        S, start = rng.uniform(0.5, 2), 10 ** rng.uniform(-6, -2)
        first, second = np.sort(rng.uniform(0.1, 2, 2))[::-1]
        epsilon = stage_overlap(start, S, first, second)
        (early, duration), (late, _) = (stage_times(epsilon, start, S, v) for v in (first, second))
        assert_close(duration, late - early, IDENTITY, times=1e3, scale=late, says="τˢᵢ = τᵉᵢ₊₁ − τᵉᵢ")
        smaller = stage_times(epsilon * 1.01, start, S, first)[1] < (
            stage_times(epsilon * 1.01, start, S, second)[0] - stage_times(epsilon * 1.01, start, S, first)[0]
        )
        assert smaller  # Eq. 3.14 holds for every larger ε
        ratio = (second - first) / (second + first)
        printed = 1 / (1 + (S / start - 1) * ratio)
        assert printed < 0
        assert_close(1 / (1 + (S / start - 1) ** ratio), 1 - epsilon, IDENTITY, says="as an exponent, printed sign")
        net = DiagonalNetwork(a0=[start**0.5] * 2, b0=[start**0.5] * 2, target=[S] * 2, input_variance=[first, second])
        assert_close(net.stage_overlap(), [float(epsilon)], SOLVED, says="DiagonalNetwork")


@pytest.mark.place(NAM24["Eq. A.7"], NAM24["Eq. A.8"], NAM24["Eq. A.9"], NAM24["App. A.2"])
def test_flow_weights_end_at_the_minimum_norm_solution(seed: int) -> None:
    rng = np.random.default_rng([seed, 54])
    for features, examples, rank in ((3, 6, 3), (6, 3, 3), (5, 5, 2)):
        Phi = rng.standard_normal((features, rank)) @ rng.standard_normal((rank, examples))
        Y, eta = rng.standard_normal(examples), 0.3 / float(np.linalg.norm(Phi, 2)) ** 2
        path = follow(lambda w, Phi=Phi, Y=Y, eta=eta: -eta * (w @ Phi - Y) @ Phi.T, np.zeros(features), TIMES * 5)
        got = flow_weights(Phi, Y, TIMES * 5, eta)
        assert_close(got.T, path, SOLVED, scale=np.abs(path).max(), says="w(t)")
        least = Y @ np.linalg.pinv(Phi, rcond=1e-12)
        assert_close(flow_weights(Phi, Y, np.inf, eta), least, IDENTITY, times=1e3, scale=np.abs(least).max())
        if rank == examples:  # as many features as it takes: every label is met (A.7)
            assert_close(flow_weights(Phi, Y, np.inf, eta) @ Phi, Y, IDENTITY, times=1e3, scale=np.abs(Y).max())
        rho, c = feature_modes(Phi, Y)
        loss = ((got @ Phi - Y) ** 2).mean(-1) / 2
        outside = ((least @ Phi - Y) ** 2).mean() / 2
        _, residual = linear_modes(TIMES * 5, rho[:, None], c[:, None], eta * examples)
        learned = np.where(rho[:, None] > 1e-12 * rho.max(), residual, 0.0)
        assert_close((learned**2).sum(0) / 2 + outside, loss, SOLVED, says="the same loss by modes")


def signed_network(rng: np.random.Generator, width: int, target: float, Z: float, size: float) -> ScalarNetwork:
    """|a| = |b| for every neuron, half of them aligned with the target."""
    a = size * rng.choice([-1.0, 1.0], width)
    return ScalarNetwork(a0=a, b0=a * np.resize([1.0, -1.0], width), target=target, normalisation=Z)


def theta_and_gap(net: ScalarNetwork, t: Floats) -> tuple[Floats, Floats, Floats]:
    ds = net.solve(t)
    part = ds.a.values * ds.b.values / float(net.normalisation)
    aligned = net.a0 * net.b0 * float(net.target) > 0
    return part.sum(1), part[:, aligned].sum(1) - part[:, ~aligned].sum(1), ds.a.values**2


@pytest.mark.place(NAM24["Eq. 6.2"], NAM24["Eq. 6.3"], NAM24["Eq. 6.4"], NAM24["Eq. 6.8"], NAM24["Eq. 6.9"])
def test_two_mode_flow(seed: int) -> None:
    rng = np.random.default_rng([seed, 55])
    net = signed_network(rng, 6, 1.3, 2.0, 0.6)
    theta, gap, square = theta_and_gap(net, TIMES)
    path = follow(lambda x: mode_flow(x[0], x[1], 1.3, 2.0), [theta[0], gap[0]], TIMES)
    assert_close(theta, path[0], SOLVED, scale=1.0, says="θ, Eq. 6.3")
    assert_close(gap, path[1], SOLVED, scale=1.0, says="Δθ, Eq. 6.4")
    aligned = net.a0 * net.b0 > 0
    up, down = aligned_factor(theta, gap, theta[0], gap[0]), anti_aligned_factor(theta, gap, theta[0], gap[0])
    assert_close(square[:, aligned] / square[0, aligned], up[:, None] * np.ones(3), IDENTITY, says="Eq. 6.8")
    assert_close(square[:, ~aligned] / square[0, ~aligned], down[:, None] * np.ones(3), IDENTITY, says="Eq. 6.9")
    other = (gap - theta) / (gap[0] - theta[0])
    assert_close(down, other, SOLVED, says="the other form of Eq. 6.9, which cancels")
    ahead, behind = (theta_and_gap(net, TIMES[1:] + h)[2] for h in (1e-5, -1e-5))
    slope = (ahead - behind)[:, aligned].sum(1) / 2e-5  # Eq. 6.2, central differences, h = 1e-5
    assert_close(slope, -2 / 2.0 * (theta - 1.3)[1:] * square[1:, aligned].sum(1), SOLVED, times=100, scale=1.0)


@pytest.mark.place(NAM24["Eq. 6.1"], NAM24["Eq. 6.5"], NAM24["Eq. 6.6"], NAM24["Eq. 6.7"])
def test_aligned_neurons_keep_their_direction(seed: int) -> None:
    net = signed_network(np.random.default_rng([seed, 58]), 6, 1.3, 2.0, 0.6)
    aligned, h = net.a0 * net.b0 > 0, 1e-5
    now, behind, ahead = (net.solve(TIMES[1:] + step) for step in (0, -h, h))
    a = now.a.values[:, aligned].T
    assert_close(scalar_output(now.a.values.T, now.b.values.T, 2.0), now.output.values, IDENTITY, says="Eq. 6.1")
    of_length, of_weights = direction_terms(a, now.output.values, 1.3, 2.0)
    size = lambda ds: np.sqrt((ds.a.values[:, aligned] ** 2).sum(1))
    slope = lambda x: (x(ahead) - x(behind)) / (2 * h)  # central differences, h = 1e-5
    assert_close(of_length, a * slope(lambda ds: 1 / size(ds)), DERIVATIVE, scale=1.0, says="Eq. 6.5, first term")
    assert_close(of_weights, slope(lambda ds: ds.a.values[:, aligned].T) / size(now), DERIVATIVE, scale=1.0)
    assert not (of_length + of_weights).any()
    printed = a / size(now)
    assert np.abs(of_length / printed - 1).min() > 0.1, "Eq. 6.6 as printed lacks the factor (θ − S)/Z"


@pytest.mark.place(NAM24["Sec. 6.2.2"])
def test_target_downscaling_is_linear_to_second_order(seed: int) -> None:
    rng = np.random.default_rng([seed, 56])
    a, b = rng.standard_normal((2, 4))
    b = np.concatenate([b, -b])
    a = np.concatenate([a, a])  # θ₀ = 0
    sigma = float((a**2 + b**2).sum() / 2)
    scales, off = np.array([1e-2, 3e-3, 1e-3, 3e-4]), []
    for S in scales:
        exact = ScalarNetwork(a0=a, b0=b, target=S).solve(TIMES / sigma).output.values
        off.append(np.abs(exact - linear_limit(TIMES / sigma, 0.0, sigma, S)).max())
    assert_slope(scales, off, 3, says="deviation ∝ S³: relative to S of second order")


@pytest.mark.place(NAM24["Sec. 6.2.3"])
def test_ntk_initialisation_is_linear_to_first_order_in_the_width(seed: int) -> None:
    widths, off = np.array([100, 400, 1600, 6400]), []
    for p in widths:
        net = signed_network(np.random.default_rng([seed, 57]), int(p), 1.0, float(np.sqrt(p)), 1.0)
        t = TIMES / np.sqrt(p) * np.sqrt(p)
        exact = net.solve(t).output.values
        off.append(np.abs(exact - linear_limit(t, 0.0, np.sqrt(p), 1.0, np.sqrt(p))).max())
    assert_slope(widths, off, -1, says="deviation ∝ 1/p: θ² over Σ₀²")


@pytest.mark.place(NAM24["Sec. 6.2.1"])
def test_greedy_limit(seed: int) -> None:
    rng = np.random.default_rng([seed, 58])
    a, b = rng.standard_normal((2, 5))
    sizes, off = 10.0 ** -np.array([2.5, 3.0, 3.5, 4.0]), []
    for size in sizes:
        aligned = float(((a + b) ** 2).sum() * size**2 / 4)
        t = np.log(1 / aligned) / 2 + np.linspace(-2, 2, 41)  # around the rise
        exact = ScalarNetwork(a0=size * a, b0=size * b, target=1.0).solve(t).output.values
        off.append(np.abs(exact - greedy_limit(t, aligned, 1.0)).max())
    # The anti-aligned combination is left out: it advances the clock by a share Q/S ∝ size².
    assert_slope(sizes, off, 2, says="deviation ∝ size²")
    balanced = ScalarNetwork(a0=0.01 * a, b0=0.01 * a, target=1.0).solve(TIMES).output.values
    assert_close(greedy_limit(TIMES, float((a**2).sum()) * 1e-4, 1.0), balanced, IDENTITY, says="exact for a = b")


@pytest.mark.place(NAM24["Sec. 6.3.1"])
def test_growth_bound(seed: int) -> None:
    rng = np.random.default_rng([seed, 59])
    tight = 1.0
    for _ in range(200):
        a, b = rng.standard_normal((2, 3)) * 10 ** rng.uniform(-2, 1)
        S, Z, eta_a, eta_b = *10 ** rng.uniform(-1, 1, 2), *10 ** rng.uniform(-1, 1, 2)
        net = ScalarNetwork(a0=a, b0=b, target=S, normalisation=Z, eta_a=eta_a, eta_b=eta_b)
        end, bound = net.limit().growth.item(), float(growth_bound(a, b, S, Z, eta_a, eta_b))
        assert end >= bound * (1 - 1e-12)  # to rounding
        tight = min(tight, bound / end)
    same = ScalarNetwork(a0=[1.0, -2.0], b0=[1.0, -2.0], target=1e-3)
    printed = 1.0  # 𝒮₀/Σ₀ of a = b
    assert same.limit().growth.item() < printed
    assert_close(
        growth_bound(same.a0, same.b0, 1e-3), same.limit().growth.item(), IDENTITY, says="an equality at a = b"
    )


@pytest.mark.place(
    NAM24["Eq. A.13"], NAM24["Eq. A.14"], NAM24["Eq. A.15"], NAM24["Eq. A.17"], NAM24["Eq. A.18"], NAM24["Eq. A.19"]
)
def test_a_product_of_weights_follows_from_the_gradient_of_the_mean_loss(seed: int) -> None:
    rng = np.random.default_rng([seed, 90])
    a, b, S, variance = rng.normal(size=3), rng.normal(size=3), rng.normal(size=3), rng.uniform(0.2, 2.0, 3)
    x = np.linalg.qr(rng.normal(size=(50, 3)))[0] * np.sqrt(50 * variance)  # uncorrelated inputs of these variances
    loss = lambda a, b: ((x @ (a * b - S)) ** 2).mean() / 2
    da, db = diagonal_flow(a, b, S, variance)
    h = 1e-5
    for i, e in enumerate(np.eye(3)):
        slope = (loss(a + h * e, b) - loss(a - h * e, b)) / (2 * h), (loss(a, b + h * e) - loss(a, b - h * e)) / (2 * h)
        np.testing.assert_allclose([da[i], db[i]], [-slope[0], -slope[1]], rtol=1e-6, atol=1e-9)  # h = 1e-5
    assert_close(product_flow(a, b, S, variance), da * b + a * db, IDENTITY, scale=10.0)
    assert_close(product_flow(a, a, S, variance), -2 * variance * a * a * (a * a - S), IDENTITY, scale=10.0)
