"""The papers' own forms, as printed or corrected, against the solutions that generalise them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import brentq

from richter.maths import logistic, neuron_cases, scalar_limits, wide_law
from richter.maths.linear import flow_weights
from richter.maths.neuron import solve_neuron
from richter.maths.neuron_law import neuron_delta
from richter.refs import KUN24, NAM24, XU24
from richter.theory import DiagonalNetwork, ScalarNetwork, WideScalar

TIMES = np.linspace(0.0, 2.5, 6)


def _neuron(a0: float, w0: np.ndarray, target: np.ndarray) -> dict[str, np.ndarray]:
    return solve_neuron(TIMES, a0, w0[:, None], target[:, None])


@pytest.mark.place(KUN24["Eq. 22"], KUN24["Eq. 23"], KUN24["Eq. 24"], KUN24["Eq. 25"])
@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_balanced_case(sign: float) -> None:
    w0, target = np.array([0.3, -0.5]), np.array([2.0, -1.1])
    out = _neuron(sign * float(np.linalg.norm(w0)), w0, target)
    size = float(np.linalg.norm(target))
    mu0, phi0 = float(out["mu"][0]), float(out["phi"][0])
    np.testing.assert_allclose(neuron_cases.balanced_phi(TIMES, mu0, phi0, size), out["phi"], rtol=1e-12)
    np.testing.assert_allclose(neuron_cases.balanced_mu(TIMES, mu0, phi0, size), out["mu"], rtol=1e-12)


def test_the_balanced_solution_as_printed_is_wrong() -> None:
    w0, target = np.array([0.3, -0.5]), np.array([2.0, -1.1])
    out = _neuron(float(np.linalg.norm(w0)), w0, target)
    size, c_phi = float(np.linalg.norm(target)), float(np.arctanh(out["phi"][0]))
    z = c_phi + size * TIMES
    c_mu = 2 * np.cosh(c_phi) ** 2 / out["mu"][0] - (2 * c_phi + np.sinh(2 * c_phi))
    printed = 2 * np.cosh(z) ** 2 / (2 * z + np.sinh(2 * z) + c_mu)
    assert np.abs(printed - out["mu"]).max() > 0.1


@pytest.mark.place(
    KUN24["Eq. 26"],
    KUN24["Eq. 27"],
    KUN24["Eq. 28"],
    KUN24["Eq. 29"],
    KUN24["Eq. 30"],
    KUN24["Eq. 31"],
    KUN24["Eq. 32"],
)
@pytest.mark.parametrize("start", [(1.2, [0.3, -0.5]), (0.7, [-1.0, 0.2]), (0.3, [-2.0, 0.2]), (-0.2, [1.3, -0.5])])
def test_the_upstream_and_downstream_cases(start: tuple[float, list[float]]) -> None:
    a0, w0, target = start[0], np.array(start[1]), np.array([1.0, 0.7])
    out = _neuron(a0, w0, target)
    delta, size = float(neuron_delta(a0, w0)), float(np.linalg.norm(target))
    omega = target @ out["w"]
    nu0, v0 = omega[0] / a0, a0 / omega[0]
    if np.all(out["a"] * a0 > 0):
        np.testing.assert_allclose(neuron_cases.upstream_nu(TIMES, nu0, delta, size), omega / out["a"], rtol=1e-10)
        np.testing.assert_allclose(neuron_cases.upstream_a(TIMES, a0, nu0, delta, size), out["a"], rtol=1e-10)
    if np.all(omega * omega[0] > 0):
        np.testing.assert_allclose(neuron_cases.downstream_v(TIMES, v0, delta, size), out["a"] / omega, rtol=1e-10)
        np.testing.assert_allclose(neuron_cases.downstream_omega(TIMES, omega[0], v0, delta, size), omega, rtol=1e-10)
    da, domega = neuron_cases.crossing_flow(a0, omega[0], delta, size)
    assert da == pytest.approx(omega[0] - a0 * w0 @ w0, rel=1e-12)
    assert domega == pytest.approx(target @ (a0 * (target - a0 * w0)), rel=1e-12)


@pytest.mark.place(KUN24["Eq. 2"], KUN24["Eq. 16"], KUN24["Eq. 17"], KUN24["Eq. 18"])
@pytest.mark.parametrize("a0", [1.5, 0.2])
def test_the_flow_of_size_and_angle(a0: float) -> None:
    w0, target, rates = np.array([0.3, -0.9]), np.array([1.0, 0.6]), (0.5, 1.7)
    out = solve_neuron(TIMES, a0, w0[:, None], target[:, None], *rates)
    delta, size = float(neuron_delta(a0, w0, *rates)), float(np.linalg.norm(target))
    flow = lambda _, x: neuron_cases.coordinates_flow(x[0], x[1], delta, size, *rates)
    path = solve_ivp(
        flow, (0, TIMES[-1]), [out["mu"][0], out["phi"][0]], method="DOP853", t_eval=TIMES, rtol=1e-12, atol=1e-14
    )
    np.testing.assert_allclose(path.y, [out["mu"], out["phi"]], rtol=1e-8)
    squares = rates[1] * out["a"] ** 2 + rates[0] * (out["w"] ** 2).sum(axis=0)
    np.testing.assert_allclose(neuron_cases.kappa_of(out["mu"], delta, *rates), squares, rtol=1e-12)


@pytest.mark.place(XU24["Eq. 12"], XU24["Eq. 13"])
def test_the_slope_of_the_alignment_and_when_it_rises() -> None:
    rng = np.random.default_rng(0)
    for _ in range(200):
        u, v, y = rng.normal(size=4), rng.normal(size=4), rng.normal()
        gamma, eta_u, eta_w, rho = 0.6, *10 ** rng.uniform(-0.5, 0.5, 2), 1.4
        p, q = (np.sqrt(eta_u) * v + np.sqrt(eta_w) * u) / 2, (np.sqrt(eta_u) * v - np.sqrt(eta_w) * u) / 2
        P, Q, overlap = np.mean(p**2), np.mean(q**2), 2 * np.mean(p * q)
        zeta = lambda s, P=P, Q=Q, overlap=overlap: (s * P - Q / s) / np.sqrt((s * P + Q / s) ** 2 - overlap**2)
        slope = (zeta(1.3 + 1e-6) - zeta(1.3 - 1e-6)) / 2e-6
        assert wide_law.alignment_slope(1.3, P, Q, overlap) == pytest.approx(slope, rel=1e-6)
        net = WideScalar(u0=u, w0=v[:, None], x=[rho], y=y, gamma=gamma, eta_u=eta_u, eta_w=eta_w)
        ends = net.solve([0.0, np.inf], only=("alignment", "growth", "output"))
        rises = bool(wide_law.alignment_rises(P, Q, 4, y, gamma, rho, eta_u, eta_w))
        assert rises == (ends.alignment[1] > ends.alignment[0]) == (ends.growth[1] > 1) == (y > ends.output[0])


@pytest.mark.place(XU24["Sec. 3.2"], XU24["Eq. 30"], XU24["Eq. 8"], XU24["Eq. 5"], XU24["Eq. 6"], XU24["Eq. 9"])
def test_both_sign_conventions_of_the_growth_factor_and_the_misprint() -> None:
    rng = np.random.default_rng(1)
    u, v, y, gamma, t = rng.normal(size=5), rng.normal(size=5), 0.8, 0.4, 0.37
    net = WideScalar(u0=u, w0=v[:, None], x=[1.0], y=y, gamma=gamma)
    p, q = (v + u) / 2, (v - u) / 2
    np.testing.assert_allclose(wide_law.conserved_product(u, v), 4 * p * q, rtol=1e-12)
    assert np.abs(4 * p * q - (u**2 - v**2)).max() > 0.1  # as printed, with the other sign
    P, Q, c = np.mean(p**2), np.mean(q**2), gamma**2 * 5
    rate = np.sqrt((gamma * y) ** 2 + 4 * c**2 * P * Q)
    growth = net.solve([t, np.inf]).growth.values
    plus, minus = (rate + gamma * y) / (2 * c * P), (rate - gamma * y) / (2 * c * P)
    xi = (1 - plus) / (1 + minus) * np.exp(-4 * t * rate)
    assert growth[0] == pytest.approx((plus + xi * minus) / (1 - xi), rel=1e-12)  # minus > 0
    other = (1 - plus) / (1 + minus) * np.exp(-4 * t * rate)
    assert growth[0] == pytest.approx((plus - other * -minus) / (1 - other), rel=1e-12)  # minus < 0, Eq. 30
    ratio = lambda s: (s - plus) / (s + minus)
    assert ratio(growth[0]) == pytest.approx(ratio(1.0) * np.exp(-4 * t * rate), rel=1e-11)
    literal = (1 - plus) / (1 - minus) * np.exp(-4 * t * rate)  # Eq. 6 with Eq. 8 as printed
    assert abs((plus - literal * minus) / (1 - literal) - growth[0]) > 1e-3
    assert growth[1] == pytest.approx(plus, rel=1e-13)


@pytest.mark.place(NAM24["Eq. 3.7"], NAM24["Eq. 3.9"], NAM24["Eq. 3.10"], NAM24["Eq. A.20"])
def test_modes_of_the_diagonal_network_and_of_the_linear_model() -> None:
    variance, target, start = np.array([1.0, 0.4, 0.1]), np.array([1.0, 2.0, 0.5]), 1e-3
    net = DiagonalNetwork(a0=np.sqrt(start), b0=np.sqrt(start), target=target, input_variance=variance)
    t = np.linspace(0, 30, 7)
    sigmoid = logistic.logistic_mode(t[:, None], start, target, variance)
    np.testing.assert_allclose(net.solve(t).output.values, target * sigmoid, rtol=1e-11)
    decay = solve_ivp(lambda _, x: -variance * (x - 1), (0, 30), np.zeros(3), t_eval=t, rtol=1e-11, atol=1e-13).y.T
    np.testing.assert_allclose(logistic.linear_mode(t[:, None], variance), decay, atol=1e-9)


@pytest.mark.place(NAM24["Eq. 3.12"], NAM24["Eq. 3.13"], NAM24["Eq. 3.14"])
def test_stages_and_the_misprint_of_their_overlap() -> None:
    start, target, variance, epsilon = 1e-6, 1.5, np.array([1.0, 0.6, 0.1]), 0.03
    emergence, saturation = logistic.stage_times(epsilon, start, target, variance)
    reach = lambda share, v: brentq(lambda t: logistic.logistic_mode(t, start, target, v) - share, 0, 1e4, xtol=1e-12)
    for i, v in enumerate(variance):
        assert emergence[i] == pytest.approx(reach(epsilon, v), rel=1e-9)
        assert saturation[i] == pytest.approx(reach(1 - epsilon, v) - reach(epsilon, v), rel=1e-9)
    overlap = logistic.stage_overlap(start, target, variance[:-1], variance[1:])
    for i, value in enumerate(overlap):
        e, s = logistic.stage_times(value, start, target, variance[i : i + 2])
        assert s[0] == pytest.approx(e[1] - e[0], rel=1e-10)
        multiplier = (variance[i + 1] - variance[i]) / (variance[i + 1] + variance[i])
        assert 1 / (1 + (target / start - 1) * multiplier) < 0, "as printed ε is negative"
    net = DiagonalNetwork(a0=np.sqrt(start), b0=np.sqrt(start), target=target, input_variance=variance)
    np.testing.assert_allclose(net.stage_overlap(), overlap, rtol=1e-9)
    np.testing.assert_allclose(net.emergence_time(epsilon), emergence, rtol=1e-10)
    np.testing.assert_allclose(net.saturation_time(epsilon), saturation, rtol=1e-10)


@pytest.mark.place(NAM24["Eq. 6.12"], NAM24["Eq. 6.13"], NAM24["Eq. 6.14"], NAM24["Sec. 6.3.1"])
def test_theorem_1_as_printed_has_the_wrong_exponent() -> None:
    rng = np.random.default_rng(2)
    a, b, S, Z, t = rng.normal(size=6), rng.normal(size=6), 0.9, 2.0, 0.4
    net = ScalarNetwork(a0=a, b0=b, target=S, normalisation=Z)
    start, size = a @ b / Z, (a @ a + b @ b) / (2 * Z)
    root = np.sqrt(size**2 - start**2 + S**2)

    def growth(factor: float, t: float) -> float:
        e = np.exp(-factor * root / Z * t)
        top = size - start + S + root + (-size + start - S + root) * e
        return float(top / (size + start - S + root + (-size - start + S + root) * e))

    exact = net.solve([t, np.inf]).growth.values
    assert exact[0] == pytest.approx(growth(2, t), rel=1e-12)
    assert abs(exact[0] - growth(4, t)) > 0.01
    assert exact[1] == pytest.approx((S + root) / (size + start), rel=1e-12)
    for _ in range(300):
        a, b, S = rng.normal(size=3), rng.normal(size=3), abs(rng.normal())
        bound = scalar_limits.growth_bound(a, b, S)
        assert ScalarNetwork(a0=a, b0=b, target=S).limit().growth >= bound * (1 - 1e-12)


@pytest.mark.place(NAM24["Eq. 6.2"], NAM24["Eq. 6.3"], NAM24["Eq. 6.4"], NAM24["Eq. 6.8"], NAM24["Eq. 6.9"])
def test_the_aligned_and_the_anti_aligned_mode() -> None:
    a, b, Z, S = np.ones(6), np.array([1, 1, 1, -1, -1, -1.0]), 3.0, 0.7
    ds = ScalarNetwork(a0=a, b0=b, target=S, normalisation=Z).solve(TIMES)
    products = (ds.a * ds.b).values / Z
    theta, gap = products.sum(axis=1), products[:, :3].sum(axis=1) - products[:, 3:].sum(axis=1)
    flow = lambda _, x: scalar_limits.mode_flow(x[0], x[1], S, Z)
    path = solve_ivp(flow, (0, TIMES[-1]), [theta[0], gap[0]], method="DOP853", t_eval=TIMES, rtol=1e-12, atol=1e-14).y
    np.testing.assert_allclose(path, [theta, gap], rtol=1e-9, atol=1e-12)
    rise = scalar_limits.aligned_factor(theta, gap, theta[0], gap[0])
    fall = scalar_limits.anti_aligned_factor(theta, gap, theta[0], gap[0])
    np.testing.assert_allclose(ds.a.values[:, 0] ** 2, rise, rtol=1e-11)
    np.testing.assert_allclose(ds.a.values[:, 5] ** 2, fall, rtol=1e-11)


@pytest.mark.place(NAM24["Sec. 6.2.1"], NAM24["Sec. 6.2.2"], NAM24["Sec. 6.2.3"])
def test_the_three_limits_are_reached_at_their_order() -> None:
    signs = np.array([1, 1, 1, -1, -1, -1.0])
    t = np.linspace(0, 6, 13)

    def lazy_gap(S: float) -> float:  # target downscaling at zero output
        net = ScalarNetwork(a0=np.ones(6), b0=signs, target=S)
        return float(np.abs(net.solve(t).output.values - scalar_limits.linear_limit(t, 0.0, 6.0, S)).max() / S)

    gaps = np.array([lazy_gap(S) for S in (4e-2, 2e-2, 1e-2)])
    assert np.diff(np.log2(gaps)) == pytest.approx([-2, -2], abs=0.05)  # the kernel moves as S²

    def ntk_gap(width: int) -> float:
        half = np.concatenate([np.ones(width // 2), -np.ones(width // 2)])
        net = ScalarNetwork(a0=np.ones(width), b0=half, target=1.0, normalisation=np.sqrt(width))
        return float(
            np.abs(
                net.solve(t).output.values - scalar_limits.linear_limit(t, 0.0, np.sqrt(width), 1.0, np.sqrt(width))
            ).max()
        )

    gaps = np.array([ntk_gap(width) for width in (400, 1600, 6400)])
    assert np.diff(np.log2(gaps)) / 2 == pytest.approx([-1, -1], abs=0.05)

    def greedy_gap(scale: float) -> float:
        net = ScalarNetwork(a0=scale * np.ones(6), b0=scale * signs, target=1.0)
        late = np.linspace(0, 20, 41)
        limit = scalar_limits.greedy_limit(late, 3 * scale**2, 1.0)
        return float(np.abs(net.solve(late).output.values - limit).max())

    gaps = np.array([greedy_gap(scale) for scale in (4e-2, 2e-2, 1e-2)])
    assert np.all(np.diff(np.log2(gaps)) < -1.8), "the anti-aligned mode vanishes with the start's square"


@pytest.mark.place(NAM24["Eq. A.9"])
def test_weights_of_the_linear_model_follow_their_flow() -> None:
    rng = np.random.default_rng(3)
    features, targets, t = rng.normal(size=(5, 3)), rng.normal(size=3), np.array([0.0, 0.1, 0.7])
    flow = lambda _, w: -0.3 * (w @ features - targets) @ features.T
    path = solve_ivp(flow, (0, 0.7), np.zeros(5), method="DOP853", t_eval=t, rtol=1e-12, atol=1e-14).y.T
    np.testing.assert_allclose(flow_weights(features, targets, t, 0.3), path, rtol=1e-9, atol=1e-12)
