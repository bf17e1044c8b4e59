"""The paper's three-case solution of the single neuron agrees with the unified form, and its misprints do not."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths import neuron_cases as cases
from richter.maths.neuron import basin_margin, solve_neuron
from richter.maths.neuron_law import neuron_delta, neuron_flow
from richter.refs import KUN24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from tests.maths.ode import Floats, follow

TIMES = np.linspace(0.0, 3.0, 13)
WITNESSES = cases.balanced_phi, cases.balanced_mu


def start(rng: np.random.Generator, delta: float, inputs: int = 3) -> tuple[float, Floats, Floats]:
    """A start with this δ (rates 1): a₀ of either sign, w₀ in any direction, and a target."""
    long = np.sqrt(max(-delta, 0.0) + 10 ** rng.uniform(-1, 0.5))
    w0 = rng.standard_normal(inputs)
    w0 *= long / np.linalg.norm(w0)
    return rng.choice([-1.0, 1.0]) * float(np.sqrt(delta + w0 @ w0)), w0, rng.standard_normal(inputs)


def paths(a0: float, w0: Floats, target: Floats, t: Floats = TIMES) -> dict[str, Floats]:
    return solve_neuron(t, a0, w0[:, None], target[:, None])


@pytest.mark.place(KUN24["Eq. 22"], KUN24["Eq. 23"], KUN24["Eq. 24"], KUN24["Eq. 25"])
def test_balanced(seed: int) -> None:
    rng = np.random.default_rng([seed, 20])
    for _ in range(30):
        a0, w0, target = start(rng, 0.0)
        B = float(np.linalg.norm(target))
        mu0, phi0 = a0 * float(np.linalg.norm(w0)), float(w0 @ target / np.linalg.norm(w0) / B)
        got = paths(a0, w0, target)
        phi, mu = cases.balanced_phi(TIMES, mu0, phi0, B), cases.balanced_mu(TIMES, mu0, phi0, B)
        assert_close(got["phi"], phi, SOLVED, scale=1.0, says="φ, Eq. 23")
        assert_close(got["mu"], mu, SOLVED, scale=np.abs(mu).max(), says="μ, Eq. 25")
        # Eqs 22 and 24 by central differences, h = 1e-4.
        sides = [(f(TIMES + 1e-4, mu0, phi0, B), f(TIMES - 1e-4, mu0, phi0, B)) for f in WITNESSES]
        d_phi, d_mu = ((after - before) / 2e-4 for after, before in sides)
        sign = np.sign(mu0)
        slope_phi = sign * B * (1 - phi**2)
        slope_mu = sign * 2 * mu * (phi * B - mu)
        assert_close(d_phi, slope_phi, DERIVATIVE, scale=B**3, says="Eq. 22")
        assert_close(d_mu, slope_mu, DERIVATIVE, scale=(B + abs(mu0)) ** 3, says="Eq. 24")


@pytest.mark.place(KUN24["Eq. 25"])
def test_printed_balanced_mu_is_right_for_a_target_of_length_1_only() -> None:
    def printed(t: Floats, mu0: float, phi0: float, B: float) -> Floats:
        c = np.arctanh(phi0)
        c_mu = 2 * np.cosh(c) ** 2 / mu0 - (2 * c + np.sinh(2 * c))
        z = c + B * t
        return np.asarray(2 * np.cosh(z) ** 2 / (2 * z + np.sinh(2 * z) + c_mu))

    off = lambda B: np.abs(printed(TIMES, 0.7, 0.2, B) - cases.balanced_mu(TIMES, 0.7, 0.2, B)).max()
    assert off(1.0) < 1e-14  # the two agree to rounding there
    assert off(2.3) > 0.1


@pytest.mark.place(KUN24["Eq. 26"], KUN24["Eq. 27"], KUN24["Eq. 28"])
def test_upstream(seed: int) -> None:
    rng = np.random.default_rng([seed, 21])
    for _ in range(20):
        delta = 10 ** rng.uniform(-1, 0.5)
        a0, w0, target = start(rng, delta)
        B, nu0 = float(np.linalg.norm(target)), float(w0 @ target / a0)
        got = paths(a0, w0, target)
        nu, a = cases.upstream_nu(TIMES, nu0, delta, B), cases.upstream_a(TIMES, a0, nu0, delta, B)
        assert_close((got["w"] * target[:, None]).sum(0) / got["a"], nu, SOLVED, scale=np.abs(nu).max(), says="ν")
        assert_close(got["a"], a, SOLVED, says="a")
        slope = (cases.upstream_nu(TIMES + 1e-4, nu0, delta, B) - cases.upstream_nu(TIMES - 1e-4, nu0, delta, B)) / 2e-4
        scale = (B + delta + abs(nu0)) ** 4
        assert_close(slope, B**2 - delta * nu - nu**2, DERIVATIVE, scale=scale, says="Eq. 26, h = 1e-4")


@pytest.mark.place(KUN24["Eq. 29"], KUN24["Eq. 30"], KUN24["Eq. 31"], KUN24["Eq. 32"])
def test_downstream(seed: int) -> None:
    rng = np.random.default_rng([seed, 22])
    crossings = 0
    for k in range(30):
        delta = -(10 ** rng.uniform(-1, 0.5))
        a0, w0, target = start(rng, delta)
        B = float(np.linalg.norm(target))
        omega0 = float(w0 @ target)
        if k % 2:  # a crosses 0: then w·β* keeps its sign
            a0 = -0.1 * np.sign(omega0) * abs(a0)
            w0 *= np.sqrt(a0**2 - delta) / np.linalg.norm(w0)
            omega0 = float(w0 @ target)
        state = np.array([a0, *w0])
        da, dw = neuron_flow(a0, w0, target)
        flow = cases.crossing_flow(a0, omega0, delta, B)
        assert_close([da, dw @ target], flow, IDENTITY, scale=np.abs(state).max() ** 3 + B**2, says="Eqs 29, 30")
        got = paths(a0, w0, target)
        omega = (got["w"] * target[:, None]).sum(0)
        if np.abs(omega).min() < 0.05 or (np.sign(omega) != np.sign(omega0)).any():
            continue
        crossings += int((np.sign(got["a"]) != np.sign(a0)).any())
        v = cases.downstream_v(TIMES, a0 / omega0, delta, B)
        assert_close(got["a"] / omega, v, SOLVED, scale=np.abs(v).max(), says="v, Eq. 31")
        w_along = cases.downstream_omega(TIMES, omega0, a0 / omega0, delta, B)
        assert_close(omega, w_along, SOLVED, says="ω, Eq. 32")
    assert crossings >= 3


@pytest.mark.place(KUN24["Eq. 2"], KUN24["Eq. 16"], KUN24["Eq. 17"], KUN24["Eq. 18"])
def test_flow_in_coordinates(seed: int) -> None:
    rng = np.random.default_rng([seed, 23])
    for k in range(24):
        eta_a, eta_w = 10 ** rng.uniform(-0.7, 0.7, 2)
        a0, w0, target = start(rng, [0.0, 1.5, -0.7][k % 3])
        if k % 3 == 2:
            a0 = float(np.sign(w0 @ target)) * max(abs(a0), 0.3)  # μ = 0 is singular in these coordinates
        delta = float(neuron_delta(a0, w0, eta_a, eta_w))
        B, size = float(np.linalg.norm(target)), float(np.linalg.norm(w0))
        got = solve_neuron(TIMES, a0, w0[:, None], target[:, None], eta_a, eta_w)
        if np.abs(got["mu"]).min() < 1e-2 or (np.sign(got["mu"]) != np.sign(got["mu"][0])).any():
            continue
        flow = lambda x, delta=delta, B=B, rates=(eta_a, eta_w): cases.coordinates_flow(x[0], x[1], delta, B, *rates)
        mu, phi = follow(flow, np.array([a0 * size, w0 @ target / size / B]), TIMES)
        assert_close(got["mu"], mu, SOLVED, scale=np.abs(mu).max(), says="μ")
        assert_close(got["phi"], phi, SOLVED, scale=1.0, says="φ")
        kappa = eta_w * got["a"] ** 2 + eta_a * (got["w"] ** 2).sum(0)
        assert_close(cases.kappa_of(got["mu"], delta, eta_a, eta_w), kappa, IDENTITY, says="κ, Eq. 18")


@pytest.mark.place(KUN24["Eq. 34"], KUN24["Eq. 35"])
def test_parameters_from_coordinates(seed: int) -> None:
    rng = np.random.default_rng([seed, 24])
    eta_a, eta_w = 3.0, 0.4
    for _ in range(20):
        a0, w0, target = start(rng, rng.uniform(-1, 1))
        got = solve_neuron(TIMES, a0, w0[:, None], target[:, None], eta_a, eta_w)
        delta, e = neuron_delta(a0, w0, eta_a, eta_w), target / np.linalg.norm(target)
        kappa = np.sqrt(delta**2 + 4 * eta_a * eta_w * got["mu"] ** 2)
        size = np.sqrt((got["w"] ** 2).sum(0))
        times = 1e4  # κ ± δ cancels as printed
        assert_close(eta_w * got["a"] ** 2, (kappa + delta) / 2, IDENTITY, scale=kappa, times=times, says="a²")
        assert_close(eta_a * size**2, (kappa - delta) / 2, IDENTITY, scale=kappa, times=times, says="‖w‖²")
        across = w0 - (w0 @ e) * e
        c1 = size * got["phi"]
        c2 = np.sqrt(np.maximum(size**2 - c1**2, 0.0))
        made = c1 * e[:, None] + c2 * (across / np.linalg.norm(across))[:, None]
        assert_close(got["w"], made, DERIVATIVE, scale=size.max(), says="w from φ; the root of c₂ cancels")
        kappa_printed = np.sqrt(delta**2 + 4 * got["mu"] ** 2)
        assert np.abs(np.sqrt((kappa_printed - delta) / 2) - size).max() > 1e-2


@pytest.mark.place(KUN24["Eq. 33"])
def test_basins(seed: int) -> None:
    rng = np.random.default_rng([seed, 25])
    count = 5000
    a0, w0 = rng.standard_normal(count), rng.standard_normal((2, count)) * rng.choice([0.3, 1.0, 3.0], count)
    target = rng.standard_normal((2, count))
    eta_a, eta_w = np.where(rng.random((2, count)) < 0.5, 1.0, 10 ** rng.uniform(-1.5, 1.5, (2, count)))
    end = solve_neuron(np.full(count, np.inf), a0, w0, target, eta_a, eta_w, only=("a",))["a"]
    margin = basin_margin(a0, w0, target, eta_a, eta_w)
    assert (np.sign(end) == np.sign(margin)).all()
    delta, B = neuron_delta(a0, w0, eta_a, eta_w), np.sqrt((target**2).sum(0))
    with np.errstate(over="ignore"):
        root = np.sqrt(delta**2 + 4 * eta_a * eta_w * B**2)
    stated = eta_a * (w0 * target).sum(0) + a0 / 2 * (delta + root)
    scale = np.abs(eta_a * (w0 * target).sum(0)) + np.abs(a0) / 2 * (np.abs(delta) + root)
    assert_close(margin, stated, IDENTITY, scale=scale)
    for rates, sign in (((0.0, 2.0), a0), ((2.0, 0.0), (w0 * target).sum(0))):  # a frozen layer
        assert (np.sign(basin_margin(a0, w0, target, *rates)) == np.sign(sign)).all()
    up = delta >= 0
    assert up.sum() > 500 and (~up).sum() > 500
    assert (np.sign(end[up]) == np.sign(a0[up])).all()
    crossed = np.flatnonzero((np.sign(end) != np.sign(a0)) & (eta_a == 1) & (eta_w == 1))
    assert crossed.size > 50
    for i in [*crossed[:8], *np.flatnonzero((delta < 0) & (eta_a == 1) & (eta_w == 1))[:8]]:  # printed case: rates 1
        assert (margin[i] > 0) == (w0[:, i] @ target[:, i] > -a0[i] / 2 * (delta[i] + np.hypot(delta[i], 2 * B[i])))
        if abs(margin[i]) > 0.05:
            flow = lambda x, b=target[:, i]: np.concatenate(
                [[neuron_flow(x[0], x[1:], b)[0]], neuron_flow(x[0], x[1:], b)[1]]
            )
            late = follow(flow, [a0[i], *w0[:, i]], [0.0, 60 / B[i]])[0, -1]
            assert np.sign(late) == np.sign(margin[i])
