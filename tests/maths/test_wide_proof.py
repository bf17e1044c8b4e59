"""XU24's proofs step by step: reduction to one example, conservation laws, the equation of one variable, its integral."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.integrate import quad

from richter.maths.growth import growth, growth_rates, growth_slope, time_to_output
from richter.maths.line import reduce_line
from richter.maths.pair import layer_pair
from richter.maths.wide_law import across_the_data, alignment_rises, halves_flow, neuron_imbalance, wide_flow
from richter.refs import XU24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow

TIMES = np.linspace(0.0, 0.6, 7)


class Network:
    """Weights, data and rates, and the flow of both layers by the package-free chain rule."""

    def __init__(self, rng: np.random.Generator, neurons: int = 4, inputs: int = 3) -> None:
        self.u, self.w = rng.standard_normal(neurons), rng.standard_normal((neurons, inputs))
        self.x = rng.choice([-1, 1], inputs) * rng.uniform(0.4, 1.0, inputs)
        self.y, self.gamma = float(rng.choice([-1, 1]) * rng.uniform(0.5, 1.5)), 0.5
        self.eta_u, self.eta_w = 10 ** rng.uniform(-0.5, 0.3, 2)
        self.rho = float(np.linalg.norm(self.x))

    @property
    def rates(self) -> tuple[float, float]:
        return self.eta_u, self.eta_w

    def halves(self, u: Floats, w: Floats) -> tuple[Floats, Floats]:
        """(p, q) by Eq. 4 with ρ as the sum."""
        grown, other = np.sqrt(self.eta_u) * w @ self.x, np.sqrt(self.eta_w) * self.rho * u
        return (grown + other) / (2 * self.rho), (grown - other) / (2 * self.rho)

    def path(self, times: Floats = TIMES) -> list[tuple[Floats, Floats]]:
        shape = self.w.shape

        def flow(state: Floats) -> Floats:
            u, w = state[: shape[0]], state[shape[0] :].reshape(shape)
            error = 2 * self.gamma * (self.gamma * u @ w @ self.x - self.y)
            return np.concatenate(
                [-self.eta_u * error * w @ self.x, (-self.eta_w * error * np.outer(u, self.x)).ravel()]
            )

        states = follow(flow, [*self.u, *self.w.ravel()], times)
        return [(s[: shape[0]], s[shape[0] :].reshape(shape)) for s in states.T]


@pytest.mark.place(XU24["Eq. 1"], XU24["Eq. 3"], XU24["Eq. 17"], XU24["Prop. 1"])
def test_the_loss_of_the_data_is_that_of_one_example_plus_a_constant(seed: int) -> None:
    rng = np.random.default_rng([seed, 110])
    n = rng.standard_normal(3)
    n /= np.linalg.norm(n)
    a, Y = rng.standard_normal(6), rng.standard_normal(6)
    X = a[:, None] * n
    x, y, rest = reduce_line(X, Y)
    sign = np.sign(x @ n)
    assert_close(x, sign * np.sqrt(np.mean(a**2)) * n, IDENTITY, scale=1.0, says="x")
    assert_close(y, sign * np.mean(a * Y) / np.sqrt(np.mean(a**2)), IDENTITY, scale=1.0, says="y")
    assert_close(rest, np.mean(Y**2) - y**2, IDENTITY, scale=np.mean(Y**2), says="E[ỹ²] − y²")
    # Read with the vector x̃, y would not be a number but E[a ỹ] n/√E[a²].
    for _ in range(5):
        u, w, gamma = rng.standard_normal(4), rng.standard_normal((4, 3)), rng.uniform(0.3, 1.0)
        of_data = np.mean((gamma * X @ w.T @ u - Y) ** 2)  # Eq. 1
        of_one = (gamma * u @ w @ x - y) ** 2  # Eq. 3
        assert_close(of_one + rest, of_data, IDENTITY, times=10, says="Eq. 17")
        f = gamma * u @ w @ n
        expanded = (a @ a) * f**2 - 2 * (a @ Y) * f + Y @ Y  # the print's right side
        assert_close(expanded, 6 * of_data, IDENTITY, scale=6 * of_data + Y @ Y, times=10, says="6 times the mean")


@pytest.mark.place(XU24["Eq. 19"], XU24["Eq. 20"], XU24["Eq. 21"], XU24["Eq. 2"])
def test_what_the_flow_conserves(seed: int) -> None:
    rng = np.random.default_rng([seed, 111])
    moved = 0.0
    for _ in range(5):
        net = Network(rng)
        path = net.path()
        u0, w0 = path[0]
        x, size = net.x, max(float(np.abs(w).max()) for _, w in path) ** 2 + 1
        first = neuron_imbalance(u0, w0, *net.rates)
        assert_close(first, net.eta_u * (w0**2).sum(1) - net.eta_w * u0**2, IDENTITY, scale=size * 10, says="Eq. 19")
        rest = across_the_data(w0, x)
        assert_close(rest @ x, np.zeros(4), IDENTITY, scale=size, says="across")
        for u, w in path[1:]:
            assert_close(neuron_imbalance(u, w, *net.rates), first, SOLVED, scale=size, says="Eq. 19")
            assert_close(across_the_data(w, x), rest, SOLVED, scale=size, says="across")
            for k in (1, 2):  # Eq. 20, read off what is across
                stated = w[:, 0] / x[0] - w[:, k] / x[k]
                assert_close(stated, rest[:, 0] / x[0] - rest[:, k] / x[k], SOLVED, scale=10 * size, says="Eq. 20")
            stated = (w**2).sum(1) - (w @ x) ** 2 / (x @ x)
            assert_close((across_the_data(w, x) ** 2).sum(1), stated, IDENTITY, scale=10 * size, says="Eq. 21")
        moved = max(moved, float(np.abs(path[-1][1] - w0).max()))
    assert moved > 1e-2


@pytest.mark.place(XU24["Eq. 24"], XU24["Eq. 25"], XU24["Eq. 26"], XU24["Eq. 27"], XU24["Eq. 35"])
def test_the_halves_move_by_one_variable(seed: int) -> None:
    rng = np.random.default_rng([seed, 112])
    for _ in range(5):
        net = Network(rng)
        p0, q0 = net.halves(net.u, net.w)
        d, s = len(p0), np.sqrt(net.eta_u * net.eta_w)
        P, Q = (p0**2).mean(), (q0**2).mean()
        weight, b = net.gamma**2 * d * net.rho**2, s * net.gamma * net.rho * net.y
        pair = layer_pair(net.u, net.w @ net.x / net.rho, net.y, net.gamma * net.rho, 2.0, *net.rates)
        assert_close([pair.rates.p, pair.rates.q], [weight * P, weight * Q], IDENTITY, times=10, says="Eq. 27")
        assert_close(pair.rates.target, b, IDENTITY, says="b")
        for u, w in net.path():
            p, q = net.halves(u, w)
            du, dw = wide_flow(u, w, net.x, net.y, net.gamma, *net.rates)
            moved = net.halves(du, dw)  # (p, q) is linear in (u, w)
            got = halves_flow(p, q, net.y, net.gamma, net.rho, *net.rates)
            size = np.abs(moved).max() + (p @ p + q @ q) ** 1.5 * weight
            assert_close(got, moved, IDENTITY, scale=size, times=10, says="Eq. 24")
            stated = -2 * net.gamma * s * p * net.rho * (((p**2 - q**2) * net.gamma * net.rho / s).sum() - net.y)
            assert_close(moved[0], stated, IDENTITY, scale=size, times=10, says="Eq. 24 as printed")
            assert_close(p * p0[0], p[0] * p0, SOLVED, scale=size, says="Eq. 25")
            assert_close(moved[0] * p[0], moved[0][0] * p, IDENTITY, scale=size**2, times=10, says="Eq. 25")
            alpha = float(p @ p) / float(p0 @ p0)
            one = -2 * p * (weight * P * alpha - weight * Q / alpha - b)
            assert_close(moved[0], one, SOLVED, scale=size * (1 + 1 / alpha), says="Eq. 26")
            slope = growth_slope(growth_rates(weight * P, weight * Q, b), np.asarray(alpha))
            # dα/dt = 2 dα/dτ, and p = p₀√α.
            assert_close(moved[0], p * slope / alpha, SOLVED, scale=size * (1 + 1 / alpha), says="dα/dτ")
        # P = 0: u = −√(η_u/η_w) v.
        q = q0 * 0.7
        got = halves_flow(0 * q, q, net.y, net.gamma, net.rho, *net.rates)[1]
        stated = -2 * q * (weight * Q * 0.49 + b)
        assert_close(got, stated, IDENTITY, scale=np.abs(got).max() + 1, times=10, says="Eq. 35")
        slope = growth_slope(growth_rates(0.0, weight * Q, b), np.asarray(1 / 0.49))
        assert_close(got, -q * slope * 0.49, IDENTITY, scale=np.abs(got).max() + 1, times=10, says="Eq. 35 from dα/dτ")


@pytest.mark.place(XU24["Theorem 1"])
def test_theorem_1_is_the_flow(seed: int) -> None:
    rng = np.random.default_rng([seed, 113])
    for _ in range(8):
        net = Network(rng)
        p0, q0 = net.halves(net.u, net.w)
        s, c = np.sqrt(net.eta_u * net.eta_w), net.gamma**2 * len(p0) * net.rho**2
        rates = growth_rates(c * (p0**2).mean(), c * (q0**2).mean(), s * net.gamma * net.rho * net.y)
        alpha = growth(rates, 2 * TIMES).factor
        for (u, w), factor in zip(net.path(), alpha, strict=True):
            p, q = net.halves(u, w)
            size = np.abs([p, q]).max() + 1
            assert_close(p, p0 * np.sqrt(factor), SOLVED, scale=size, says="p")
            assert_close(q, q0 / np.sqrt(factor), SOLVED, scale=size, says="q")


@pytest.mark.place(XU24["Eq. 31"], XU24["Eq. 32"], XU24["Eq. 33"], XU24["Eq. 34"])
def test_proposition_2_as_printed_and_where_it_is_singular(seed: int) -> None:
    rng = np.random.default_rng([seed, 114])
    times = np.linspace(0.05, 1.0, 6)
    for y in (*rng.uniform(-1.5, 1.5, 4), 0.0, None):
        net = Network(rng)
        net.u = -np.sqrt(net.eta_u / net.eta_w) * (net.w @ net.x) / net.rho  # P = 0
        net.y = net.gamma * float(net.u @ net.w @ net.x) if y is None else float(y)
        p0, q0 = net.halves(net.u, net.w)
        assert_close(p0, np.zeros(4), IDENTITY, scale=np.abs(q0).max())
        b = np.sqrt(net.eta_u * net.eta_w) * net.gamma * net.rho * net.y
        kernel = net.gamma**2 * 4 * net.rho**2 * (q0**2).mean()
        factor = growth(growth_rates(0.0, kernel, b), 2 * times).factor
        for (u, w), alpha, t in zip(net.path(np.array([0.0, *times]))[1:], factor, times, strict=True):
            p, q = net.halves(u, w)
            assert_close(p, np.zeros(4), SOLVED, scale=np.abs(q0).max(), says="Eq. 31")
            assert_close(q, q0 / np.sqrt(alpha), SOLVED, scale=np.abs(q0).max(), says="q")
            if y == 0.0:
                assert_close(alpha, 1 + 4 * kernel * t, SOLVED, says="y = 0")
            elif y is None:
                assert_close(alpha, 1.0, SOLVED, says="f(0) = y")
            else:
                slope = b / kernel  # α′, Eq. 34
                xi = np.exp(-4 * b * t) / (1 + slope)  # Eq. 33
                assert_close(1 / alpha, slope * xi / (1 - xi), SOLVED, times=1e3 / abs(slope), says="Eq. 32")  # 1 − ξ′


@pytest.mark.place(XU24["Eq. 28"], XU24["Eq. 29"], XU24["Eq. 30"])
def test_time_is_the_integral_over_the_growth_factor(seed: int) -> None:
    rng = np.random.default_rng([seed, 115])
    for _ in range(15):
        net = Network(rng)
        p0, q0 = net.halves(net.u, net.w)
        c, s = net.gamma**2 * len(p0) * net.rho**2, np.sqrt(net.eta_u * net.eta_w)
        A, B, b = c * (p0**2).mean(), c * (q0**2).mean(), s * net.gamma * net.rho * net.y
        R = np.hypot(b, 2 * np.sqrt(A * B))
        plus, minus = (b + R) / (2 * A), (b - R) / (2 * A)
        end = 1 + rng.uniform(0.2, 0.9) * (plus - 1)
        start = float(p0[0] ** 2)
        below = lambda z, b=b, A=A, B=B, start=start: 4 * (A / start * z**2 - b * z - B * start)
        t = -quad(lambda z, f=below: 1 / f(z), start, start * end, epsrel=1e-12)[0]
        rates = growth_rates(A, B, b)
        assert_close(time_to_output(rates, A * end - B / end) / 2, t, SOLVED, says="Eq. 28")
        anti = lambda x, R=R, plus=plus, minus=minus: -np.log(abs((x - plus) / (x - minus))) / (4 * R)
        assert_close(anti(end) - anti(1.0), t, SOLVED, scale=t + 1 / R, says="Eq. 29")
        ratio = (1 - plus) / (1 - minus) * np.exp(-4 * R * t)
        assert_close((end - plus) / (end - minus), ratio, SOLVED, says="Eq. 30", times=10)  # quadrature
        assert_close(growth(rates, np.asarray(2 * t)).factor, end, SOLVED, says="the way back")


@pytest.mark.place(XU24["Eq. 28"])
def test_the_printed_integral_without_rho_is_another_time() -> None:
    A, B, gamma, rho, y = 0.3, 0.8, 0.5, 2.0, 1.4
    time = lambda b: -quad(lambda z: 1 / (4 * (A * z**2 - b * z - B)), 1.0, 1.3)[0]
    right = float(time_to_output(growth_rates(A, B, gamma * rho * y), A * 1.3 - B / 1.3)) / 2
    assert_close(time(gamma * rho * y), right, SOLVED)
    assert abs(time(gamma * y) / right - 1) > 0.1


@pytest.mark.place(XU24["Eq. 13"])
def test_alignment_depends_on_the_root_of_the_ratio_of_rates(seed: int) -> None:
    net = Network(np.random.default_rng([seed, 116]))
    v = net.w @ net.x / net.rho
    ratios, sides = np.array([1e-4, 1e-5, 1e-6]), []
    for ratio in ratios:
        P = (((v + np.sqrt(ratio) * net.u) / 2) ** 2).mean()  # η_u = 1
        sides.append(np.sqrt(ratio) / (2 * 0.5 * 4 * net.rho * P))
    slope = np.polyfit(np.log(ratios), np.log(sides), 1)[0]
    assert abs(slope - 0.5) < 0.05  # printed: linear, 1
    one = lambda y: bool(alignment_rises(0.5, 0.6, 4, y, 0.5, 1.0, 1.0, 1.0))  # Q ≥ P
    assert one(0.1) and not one(-3.0)


@pytest.mark.place(XU24["Sec. 3.3"])
def test_norms_carry_their_rates(seed: int) -> None:
    net = Network(np.random.default_rng([seed, 117]))
    p0, q0 = net.halves(net.u, net.w)
    P, Q, product = (p0**2).mean(), (q0**2).mean(), p0 @ q0
    c, b = net.gamma**2 * 4 * net.rho**2, np.sqrt(net.eta_u * net.eta_w) * net.gamma * net.rho * net.y
    alphas = growth(growth_rates(c * P, c * Q, b), 2 * TIMES).factor
    off = 0.0
    for (u, w), alpha in zip(net.path(), alphas, strict=True):
        both, v = 4 * (alpha * P + Q / alpha), w @ net.x / net.rho
        assert_close(net.eta_w * u @ u, both - 2 * product, SOLVED, scale=both, says="η_w‖u‖²")
        assert_close(net.eta_u * v @ v, both + 2 * product, SOLVED, scale=both, says="η_u‖v‖²")
        off = max(off, abs(u @ u - both + 2 * product))
        step = 1e-6
        norm = lambda x, P=P, Q=Q: 4 * (x * P + Q / x)
        slope = (norm(alpha * (1 + step)) - norm(alpha * (1 - step))) / (2 * step * alpha)
        assert_close(slope, 4 * (P - Q / alpha**2), DERIVATIVE, scale=4 * (P + Q / alpha**2), says="d‖u‖²/dα")
    assert off > 1e-3 * both  # as printed
