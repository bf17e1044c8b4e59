"""The aligned network: full layers behind the modes, hitting times, order and depth."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpmath import mp
from scipy.integrate import quad, solve_ivp

from richter.errors import ParameterError
from richter.maths.deep_modes import deep_mode, deep_time
from richter.maths.logistic import greedy_mode
from richter.refs import KUN24, NAM24
from richter.theory import AlignedNetwork, SingleNeuron
from tests.references.pair import layers


def _integrate_layers(layers: list[np.ndarray], X: np.ndarray, Y: np.ndarray, t: float) -> np.ndarray:
    """The product of all layers after gradient flow of every one on ½‖X W₁ … W_L − Y‖²."""
    shapes = [w.shape for w in layers]
    split = lambda x: [
        part.reshape(s) for part, s in zip(np.split(x, np.cumsum([a * b for a, b in shapes])[:-1]), shapes, strict=True)
    ]
    product = lambda ws: np.linalg.multi_dot(ws) if len(ws) > 1 else ws[0]

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        ws = split(x)
        force = X.T @ (X @ product(ws) - Y)
        made = []
        for i in range(len(ws)):
            left = product(ws[:i]) if i else np.eye(shapes[0][0])
            right = product(ws[i + 1 :]) if i + 1 < len(ws) else np.eye(shapes[-1][1])
            made.append((-left.T @ force @ right.T).ravel())
        return np.concatenate(made)

    start = np.concatenate([w.ravel() for w in layers])
    return product(split(solve_ivp(flow, (0, t), start, method="DOP853", rtol=1e-12, atol=1e-14).y[:, -1]))


@pytest.mark.place(KUN24["App. B.6"], KUN24["Eq. 104"])
@pytest.mark.parametrize("depth", [2, 3, 5])
def test_modes_are_the_singular_values_of_the_product_of_all_layers(depth: int) -> None:
    rng = np.random.default_rng(depth)
    frame = lambda: np.linalg.qr(rng.normal(size=(3, 3)))[0]
    V, U = frame(), frame()
    spectrum, aims, start = np.array([2.0, 1.0, 0.5]), np.array([1.5, 0.8, 0.4]), np.array([0.2, 0.3, 0.1])
    X = np.diag(np.sqrt(spectrum)) @ V.T  # XᵀX = V D Vᵀ
    Y = X @ (V * aims) @ U.T
    turns = [V, *(frame() for _ in range(depth - 1)), U]
    layers = [a @ np.diag(start ** (1 / depth)) @ b.T for a, b in zip(turns[:-1], turns[1:], strict=True)]
    net = AlignedNetwork(initial=start, strengths=aims, input_spectrum=spectrum, depth=depth)
    for t in (0.3, 2.0):
        modes = V.T @ _integrate_layers(layers, X, Y, t) @ U
        np.testing.assert_allclose(modes, np.diag(net.solve(t).output.values[0]), atol=1e-9)  # modes of size 1


@pytest.mark.place(NAM24["Eq. 3.15"], NAM24["Eq. A.39"])
def test_two_balanced_layers_are_logistic() -> None:
    t, rho = np.linspace(0, 8, 9), np.array([2.0, 0.7])
    net = AlignedNetwork(initial=1e-3, strengths=rho)
    np.testing.assert_allclose(net.solve(t).output, rho * greedy_mode(t[:, None], 1e-3, rho), rtol=1e-11)


def test_an_unbalanced_mode_is_a_single_neuron_with_one_input() -> None:
    neuron = SingleNeuron.from_imbalance(beta0=[0.3], delta=[-1.0, 0.5], beta_star=[1.2], eta_a=0.4, eta_w=1.5)
    t = [0.0, 0.3, 1.0, np.inf]
    net = AlignedNetwork(initial=[0.3], strengths=[1.2], delta=[[-1.0], [0.5]], eta_a=0.4, eta_w=1.5)
    np.testing.assert_allclose(net.solve(t).output, neuron.solve(t).beta, rtol=1e-12)


def test_deep_modes_solve_their_equation_to_the_last_digits() -> None:
    for depth in (3, 4, 8):
        for start, aim in ((1e-6, 1.0), (0.1, 2.0), (3.0, 2.0), (-0.5, 1.5), (0.5, -1.5), (-1.0, -2.0), (0.7, 0.0)):
            t = np.array([0.05, 0.5, 3.0, 20.0])
            u, left = deep_mode(t, start, aim, depth)
            flow = lambda _, x, depth=depth, aim=aim: depth * np.abs(x) ** (2 - 2 / depth) * (aim - x)
            path = solve_ivp(flow, (0, 20), [start], method="LSODA", t_eval=t, rtol=1e-12, atol=1e-15).y[0]
            np.testing.assert_allclose(u, path, rtol=2e-8)
            np.testing.assert_allclose(left, u - aim, rtol=1e-6, atol=1e-14)  # u of size 1
    late = deep_mode(np.array([40.0]), 0.5, 1.0, 3)[1]
    later = deep_mode(np.array([41.0]), 0.5, 1.0, 3)[1]
    assert later / late == pytest.approx(np.exp(-3.0), rel=1e-9), "the approach to the target keeps its digits"


def test_deep_modes_keep_their_digits_from_tiny_starts_and_at_large_depths(seed: int) -> None:
    rng, checked = np.random.default_rng([seed, 21]), 0
    while checked < 40:
        depth, s = int(rng.choice([3, 4, 5, 8, 20, 50])), float(10 ** rng.uniform(-3, 3) * rng.choice([1, 1, -1]))
        start, rate = abs(s) * float(10 ** rng.uniform(-12, 2)), float(10 ** rng.uniform(-3, 3))
        begin = min(start, abs(s))
        t = float(10 ** rng.uniform(-3, 1)) / (rate * depth * begin ** (1 - 2 / depth) * abs(s))
        u = float(deep_mode(t, start, s, depth, rate)[0])
        if abs(u / s - 1) < 1e-9:
            continue
        with mp.workdps(30):  # the time at which the flow is at u, one part in e² after the other
            speed = lambda v, depth=depth, s=s, rate=rate: depth * rate * v ** (1 - mp.mpf(2) / depth) * (s - v)
            ends = mp.log(start), mp.log(u)
            parts = mp.linspace(*ends, int(abs(ends[1] - ends[0]) / 2) + 2)
            late = mp.quad(lambda y, speed=speed: 1 / speed(mp.exp(y)), parts) - t
            swing = max(1.0, abs(float(t * speed(u))), abs(float(speed(u) / speed(start))))
            assert abs(late * speed(u)) < 1e-13 * swing, (depth, s, start, rate, t)
        checked += 1


def test_two_layers_keep_their_digits_at_every_imbalance(seed: int) -> None:
    rng = np.random.default_rng([seed, 22])

    def exact(u: Any, s: Any, delta: Any, D: Any, eta_a: Any, eta_w: Any, t: Any) -> list[Any]:
        kappa = mp.sqrt(delta**2 + 4 * eta_a * eta_w * u**2)
        a, w = mp.sqrt((kappa + delta) / (2 * eta_w)), mp.sqrt((kappa - delta) / (2 * eta_a)) * mp.sign(u)
        (a,), (w,), _ = layers([a], [w], mp.mpf(1), s, eta_a, eta_w, D * t)
        return [a * w, D * (a * w - s) ** 2 / 2, D * (eta_w * a**2 + eta_a * w**2)]

    for _ in range(60):
        u, s = (float(10 ** rng.uniform(-12, 3) * rng.choice([-1, 1])) for _ in range(2))
        D, eta_a, eta_w = (float(x) for x in 10 ** rng.uniform(-3, 3, 3))
        delta = float(rng.choice([0.0, 1e-9, -1e-9, 1.0, -1.0, 1e6, -1e6]))
        fastest = D * max(np.hypot(delta, 2 * np.sqrt(eta_a * eta_w) * u), np.sqrt(eta_a * eta_w) * abs(s))
        t = float(10 ** rng.uniform(-8, 2)) / fastest
        net = AlignedNetwork(initial=[u], strengths=[s], delta=delta, input_spectrum=[D], eta_a=eta_a, eta_w=eta_w)
        ds = net.solve([t])
        with mp.workdps(200):
            given, step = [mp.mpf(x) for x in (u, s, delta, D, eta_a, eta_w, t)], mp.mpf(10) ** -25
            want, swing = exact(*given), [mp.mpf(0)] * 3
            for i in (i for i, x in enumerate(given) if x):
                moved = exact(*(x * (1 + step) if j == i else x for j, x in enumerate(given)))
                swing = [c + abs(x - y) / step for c, x, y in zip(swing, moved, want, strict=True)]
            for name, x, c in zip(("output", "loss", "kernel"), want, swing, strict=True):
                off = abs(mp.mpf(ds[name].item()) - x)
                assert off <= 1e-13 * max(abs(x), c) + mp.mpf(10) ** -290, (name, u, s, delta, t)


def test_hitting_times_are_integrals_and_modes_come_in_order() -> None:
    for depth in (3, 6):
        speed = lambda v, depth=depth: 1 / (0.5 * depth * v ** (2 - 2 / depth) * (1.5 - v))
        expected = quad(speed, 0.01, 1.2, epsabs=0, epsrel=1e-12, limit=200)[0]
        assert deep_time(1.2, 0.01, 1.5, depth, 0.5) == pytest.approx(expected, rel=1e-10)
    for depth in (2, 3, 4):
        net = AlignedNetwork(initial=[1e-2, 2e-2, -1e-2], strengths=[1.0, 2.0, -0.5], depth=depth)
        times = net.hitting_time(0.5)
        reached = np.array([net.solve(t).output.values[0, i] for i, t in enumerate(times)])
        np.testing.assert_allclose(reached, 0.5 * net.strengths, rtol=1e-9)
        assert net.order().tolist() == np.argsort(times).tolist() == [1, 0, 2]
    opposed = AlignedNetwork(initial=[-0.1, 0.1, 0.6], strengths=[1.0, 0.0, 1.0], depth=3)
    assert opposed.hitting_time(0.5)[0] == np.inf and np.isnan(opposed.hitting_time(0.5)[1])
    assert opposed.hitting_time(0.5)[2] == 0.0


def test_depth_separates_the_modes() -> None:
    gaps = []
    for depth in (2, 3, 4):
        first, second = AlignedNetwork(initial=1e-3, strengths=[2.0, 1.0], depth=depth).hitting_time(0.5)
        gaps.append(second / first)
    assert gaps[0] < gaps[1] < gaps[2]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"depth": 2.5}, "`depth` of AlignedNetwork must be one whole number ≥ 2. Got 2.5."),
        ({"depth": 1}, "`depth` of AlignedNetwork must be ≥ 2. Got 1.0."),
        ({"depth": [2, 3]}, "`depth` of AlignedNetwork must be one whole number ≥ 2. Got [2.0, 3.0]."),
        (
            {"depth": 3, "delta": 0.1},
            "`delta` of AlignedNetwork must be 0 for more than two layers. Got [0.1]. Use depth=2.",
        ),
        ({"depth": 3, "eta_a": 2.0}, "`eta_a` and `eta_w` of AlignedNetwork must be equal for more than two layers."),
        ({"input_spectrum": 0.0}, "`input_spectrum` of AlignedNetwork must be > 0. Got 0.0."),
    ],
)
def test_wrong_input_is_one_clear_line(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        AlignedNetwork(**{"initial": [0.1], "strengths": [1.0], **change})
    assert text in str(caught.value)
    with pytest.raises(ParameterError, match="`share` must lie between 0 and 1. Got 1.5."):
        AlignedNetwork(initial=[0.1], strengths=[1.0]).hitting_time(1.5)
