"""The growth factor: its equation, its limits, its hitting times, and what is misprinted about it."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.growth import growth, growth_rates, time_to_output
from richter.maths.pair import layer_pair, solve_pair
from richter.refs import NAM24, XU24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow

TAU = np.linspace(0.0, 2.0, 9)


def members(seed: int, count: int = 40) -> tuple[Floats, Floats, Floats]:
    """A, B ≥ 0 and b of any sign, zeros among them."""
    rng = np.random.default_rng([seed, 30])
    A, B = 10 ** rng.uniform(-2, 1, (2, count)) * (rng.random((2, count)) > 0.15)
    return A, B, rng.standard_normal(count) * (rng.random(count) > 0.15)


@pytest.mark.place(
    XU24["Eq. 5"], XU24["Eq. 6"], XU24["Eq. 7"], XU24["Eq. 30"], XU24["Prop. 2"], NAM24["Eq. 6.12"], NAM24["Theorem 1"]
)
def test_growth_factor_solves_its_equation(seed: int) -> None:
    for A, B, b in zip(*members(seed), strict=True):
        got = growth(growth_rates(A, B, b), TAU)
        log = follow(lambda x, A=A, B=B, b=b: -2 * (A * np.exp(x) - B * np.exp(-x) - b), [0.0], TAU)[0]
        assert_close(np.log(got.factor), log, SOLVED, scale=1 + np.abs(log), says="ln α")
        residual = lambda x, A=A, B=B, b=b: A * x - B / x - b
        if residual(1.0):
            left = residual(got.factor) / residual(1.0)
            assert_close(got.left, left, SOLVED, scale=1.0, says="share of the residual")
        assert_close(got.done, 1 - got.left, IDENTITY, scale=1.0, says="left + done")
        assert_close(got.less_one, got.factor - 1, IDENTITY, scale=1 + got.factor, says="α − 1")
        rises = residual(1.0) <= 0
        assert_close(got.shrink, got.factor ** (-0.5 if rises else 0.5), IDENTITY, says="shrink")
        assert_close(got.shrink_less_one, got.shrink - 1, IDENTITY, scale=1.0, says="shrink − 1")
        assert_close(
            got.stretch, np.sqrt(got.factor) - 1 / np.sqrt(got.factor), IDENTITY, scale=got.factor + 1 / got.factor
        )


@pytest.mark.place(XU24["Eq. 7"], XU24["Eq. 8"], XU24["Eq. 9"], NAM24["Eq. 6.12"], NAM24["Eq. 6.14"])
def test_end_points_and_both_sign_conventions(seed: int) -> None:
    for A, B, b in zip(*members(seed), strict=True):
        end = growth(growth_rates(A, B, b), np.inf).factor.item()
        R = np.hypot(b, 2 * np.sqrt(A * B))
        assert_close(growth_rates(A, B, b).root, R, IDENTITY, says="1/t_c")
        if not A:
            assert end == (np.inf if b > 0 or (b == 0 and B) else 1.0 if b == B == 0 else pytest.approx(B / -b))
            continue
        assert_close(A * end, (R + b) / 2 if b > 0 else 2 * A * B / (R - b) if R - b else 0.0, IDENTITY, says="α₊")
        if not B or R < 0.1:
            continue
        S, total, start = b, A + B, A - B  # NAM24's S, Σ₀ and 𝒮₀ with Z = 1
        gamma_plus = (S + np.sqrt(total**2 - start**2 + S**2)) / (total + start)
        assert_close(end, gamma_plus, SOLVED, says="γ₊, Eq. 6.14")
        E = np.exp(-2 * R * TAU)
        plus, minus = (R + b) / (2 * A), (R - b) / (2 * A)  # convention I: both positive
        xi = (1 - plus) / (1 + minus) * E
        one = (plus + xi * minus) / (1 - xi)
        other = -minus  # convention II, Eq. 8 as printed: α₋ ≤ 0
        xi = (1 - plus) / (1 - other) * E
        two = (plus - xi * other) / (1 - xi)
        got = growth(growth_rates(A, B, b), TAU).factor
        assert_close(one, got, SOLVED, says="convention I")
        assert_close(two, got, SOLVED, says="convention II")


@pytest.mark.place(XU24["Eq. 5"], XU24["Eq. 8"], NAM24["Eq. 6.12"])
def test_misprints_of_the_growth_factor_are_wrong() -> None:
    A, B, b = 0.3, 0.8, 0.7
    R = np.hypot(b, 2 * np.sqrt(A * B))
    right = growth(growth_rates(A, B, b), TAU).factor
    plus, minus = (b + R) / (2 * A), (b - R) / (2 * A)  # Eq. 8 as printed …
    xi = (1 - plus) / (1 + minus) * np.exp(-2 * R * TAU)  # … in Eqs 5 and 6 as printed
    assert np.abs((plus + xi * minus) / (1 - xi) - right).max() > 1e-2
    printed = (plus + xi * plus) / (1 - xi)  # "α_i + ξα_i"
    assert np.abs(printed - right).max() > 1e-2
    double = growth(growth_rates(A, B, b), 2 * TAU).factor  # NAM24's exponent −4… is this clock
    assert np.abs(double - right).max() > 5e-2


@pytest.mark.place(XU24["Prop. 2"])
def test_the_singular_cases_of_proposition_2(seed: int) -> None:
    rng = np.random.default_rng([seed, 31])
    for _ in range(20):
        Q, y = 10 ** rng.uniform(-1, 1), rng.standard_normal()
        got = growth(growth_rates(0.0, Q, y), TAU)
        q_square = 1 / (np.exp(2 * y * TAU) + Q * np.expm1(2 * y * TAU) / y)
        assert_close(1 / got.factor, q_square, SOLVED, says="q²/q₀² for P = 0")
        assert_close(1 / growth(growth_rates(0.0, Q, 0.0), TAU).factor, 1 / (1 + 2 * Q * TAU), IDENTITY, says="y = 0")
        still = growth(growth_rates(0.4, Q, 0.4 - Q, 0.4 - Q), TAU)  # f(0) = y
        assert_close(still.factor, np.ones_like(TAU), IDENTITY)
    assert growth(growth_rates(0.0, 1.0, 1.0), np.inf).factor == np.inf


@pytest.mark.place(XU24["Eq. 5"])
def test_hitting_times_are_roots_of_the_solution(seed: int) -> None:
    from scipy.optimize import brentq

    rng = np.random.default_rng([seed, 32])
    for A, B, b in zip(*members(seed), strict=True):
        if not (A or B):
            continue
        rates = growth_rates(A, B, b)
        end = growth(rates, np.inf).factor.item()
        last = A * end if not B else -B / end if not A else A * end - B / end
        share = rng.uniform(0.05, 0.95)
        goal = float(A - B + share * (last - A + B))
        output = lambda tau, A=A, B=B, rates=rates: (lambda x: A * x - B / x)(float(growth(rates, tau).factor))
        tau = float(time_to_output(rates, goal))
        if abs(last - A + B) < 1e-3:
            continue
        assert np.isfinite(tau)
        high = 1.0
        while (output(high) - goal) * (A - B - goal) > 0:
            high *= 2
        root = brentq(lambda x, goal=goal, output=output: output(x) - goal, 0, high, xtol=1e-15, rtol=1e-14)
        assert_close(tau, root, SOLVED, says="hitting time")
        way = np.sign(last - A + B)
        assert time_to_output(rates, last + way) == np.inf  # beyond the end
        assert time_to_output(rates, A - B - way) == np.inf  # behind the start
        assert time_to_output(rates, A - B) == 0.0


@pytest.mark.place(
    XU24["Eq. 11"], XU24["Sec. 3.1"], NAM24["Eq. 6.10"], NAM24["Eq. 6.11"], NAM24["Eq. 6.13"], XU24["Eq. 4"]
)
def test_pair_solves_its_flow(seed: int) -> None:
    rng = np.random.default_rng([seed, 33])
    t = np.linspace(0, 1.5, 7)
    for _ in range(20):
        u0, v0 = rng.standard_normal((2, 3)) * 10 ** rng.uniform(-1, 0.5, (2, 1))
        s, y, eta_u, eta_v = 10 ** rng.uniform([-0.5, -0.5, -0.7, -0.7], [0.5, 0.5, 0.7, 0.7])
        g = rng.choice([1.0, 2.0])
        y *= rng.choice([-1, 1])
        got = solve_pair(layer_pair(u0[:, None], v0[:, None], y, s, g, eta_u, eta_v), t)

        def flow(
            x: Floats, s: float = s, y: float = y, g: float = g, rates: tuple[float, float] = (eta_u, eta_v)
        ) -> Floats:
            u, v = x[:3], x[3:]
            pull = g * s * (s * u @ v - y)
            return np.concatenate([-rates[0] * pull * v, -rates[1] * pull * u])

        path = follow(flow, [*u0, *v0], t)
        u, v = path[:3], path[3:]
        size = np.abs(path).max()
        assert_close(got["u"], u, SOLVED, scale=size, says="u")
        assert_close(got["v"], v, SOLVED, scale=size, says="v")
        assert_close(got["v_keep"] * v0[:, None] + got["v_gain"], got["v"], IDENTITY, scale=size, says="v by parts")
        assert_close(got["v_keep"] + got["v_lost"], np.ones_like(t), IDENTITY, says="keep + lost")
        assert_close(got["meeting"], (u * v).sum(0), SOLVED, scale=size**2, says="Σuv")
        assert_close(got["residual"], s * (u * v).sum(0) - y, SOLVED, scale=size**2, says="f − y")
        assert_close(got["u_square"], (u * u).sum(0), SOLVED, scale=size**2, says="‖u‖²")
        assert_close(got["v_square"], (v * v).sum(0), SOLVED, scale=size**2, says="‖v‖²")
        cosine = (u * v).sum(0) / np.sqrt((u * u).sum(0) * (v * v).sum(0))
        assert_close(got["alignment"], cosine, DERIVATIVE, scale=1.0, says="ζ")
        kernel = s**2 * (eta_u * (v * v).sum(0) + eta_v * (u * u).sum(0))
        assert_close(got["kernel"], kernel, SOLVED, says="kernel")
        assert_close(got["kernel_gain"], kernel - kernel[0], SOLVED, scale=kernel, says="kernel gain")
        assert_close(got["kernel_change"], np.abs(kernel / kernel[0] - 1), SOLVED, scale=kernel / kernel[0])
        p, q = ((np.sqrt(eta_u) * v + sign * np.sqrt(eta_v) * u) / 2 for sign in (1, -1))
        assert_close(got["p"], p, SOLVED, scale=size * 3, says="p")
        assert_close(got["q"], q, SOLVED, scale=size * 3, says="q")
        assert_close(got["growth"], ((p * p).sum(0) / (p[:, 0] @ p[:, 0])), DERIVATIVE, says="α")
