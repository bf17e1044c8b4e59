"""The wide network's law, its data on a line, and the misprints of XU24."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import OutsideTheoryError
from richter.maths.line import reduce_line
from richter.maths.wide_law import (
    alignment_rises,
    alignment_slope,
    conserved_product,
    norm_case,
    wide_flow,
    wide_kernel,
)
from richter.refs import XU24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, SOLVED, assert_close
from richter.theory import WideScalar
from tests.maths.ode import Floats, follow

TIMES = np.linspace(0.0, 0.6, 7)


def network(rng: np.random.Generator, neurons: int = 3, inputs: int = 2) -> WideScalar:
    signs = rng.choice([-1.0, 1.0], 2)
    return WideScalar.of(
        u0=rng.standard_normal(neurons), w0=rng.standard_normal((neurons, inputs)), x=rng.standard_normal(inputs),
        y=signs[0] * 10 ** rng.uniform(-0.5, 0.3), gamma=signs[1] * 10 ** rng.uniform(-0.5, 0),
        eta_u=10 ** rng.uniform(-0.7, 0.3), eta_w=10 ** rng.uniform(-0.7, 0.3),
    )  # fmt: skip


def data_flow(X: Floats, Y: Floats, net: WideScalar, mean: bool = True) -> Floats:
    """(u, w) under gradient flow on the whole data set's loss, flat, at TIMES."""
    n, (d, d0) = len(Y), net.w0.shape
    gamma, eta_u, eta_w = float(net.gamma), float(net.eta_u), float(net.eta_w)

    def flow(state: Floats) -> Floats:
        u, w = state[:d], state[d:].reshape(d, d0)
        error = 2 * (gamma * X @ w.T @ u - Y) / (n if mean else 1)
        pull = error @ X
        return np.concatenate([-eta_u * gamma * w @ pull, (-eta_w * gamma * np.outer(u, pull)).ravel()])

    return follow(flow, [*net.u0, *net.w0.ravel()], TIMES)


@pytest.mark.place(XU24["Prop. 1"], XU24["App. A.1"])
def test_data_on_a_line_is_one_example(seed: int) -> None:
    rng = np.random.default_rng([seed, 40])
    for _ in range(8):
        net, n = network(rng), rng.standard_normal(2)
        X, Y = rng.standard_normal((6, 1)) * n, rng.standard_normal(6)
        x, y, rest = reduce_line(X, Y)
        path = data_flow(X, Y, net)
        ds = net.with_(x=x, y=y).solve(TIMES)
        size = np.abs(path).max()
        assert_close(ds.u.values.T, path[:3], SOLVED, scale=size, says="u")
        assert_close(ds.w.values.reshape(len(TIMES), -1).T, path[3:], SOLVED, scale=size, says="w")
        f = float(net.gamma) * np.einsum("it,ijt,nj->nt", path[:3], path[3:].reshape(3, 2, -1), X)
        loss = ((f - Y[:, None]) ** 2).mean(0)
        assert_close(ds.loss.values + rest, loss, SOLVED, says="loss of the data set")


@pytest.mark.place(XU24["App. A.1"])
def test_printed_sums_are_the_number_of_examples_too_fast(seed: int) -> None:
    rng = np.random.default_rng([seed, 41])
    X, Y = rng.uniform(0.5, 1.5, (5, 1)) * np.array([0.6, 0.8]), rng.uniform(0.5, 1.5, 5)
    net = network(rng).with_(eta_u=0.2, eta_w=0.2, u0=[0.5, 0.4, 0.1], w0=np.full((3, 2), 0.3), gamma=0.5)
    a = X @ [0.6, 0.8]
    printed = net.with_(x=np.sqrt((a * a).sum()) * np.array([0.6, 0.8]), y=(a @ Y) / np.sqrt(a @ a))
    exact = data_flow(X, Y, net)[:3]
    assert np.abs(printed.solve(TIMES).u.values.T - exact).max() > 1e-2
    assert_close(printed.solve(TIMES / len(Y)).u.values.T, exact, SOLVED, scale=1.0, says="with t → t/N")


def test_a_line_is_recognised(seed: int) -> None:
    rng = np.random.default_rng([seed, 42])
    with pytest.raises(OutsideTheoryError, match="one line"):
        reduce_line(rng.standard_normal((5, 2)), rng.standard_normal(5))
    x, y, rest = reduce_line(np.arange(4.0), 2 * np.arange(4.0))
    assert_close([float(x[0]) * 2, rest], [y, 0.0], IDENTITY, scale=1.0)


@pytest.mark.place(XU24["Eq. 2"], XU24["Eq. 18"], XU24["Eq. 10"], XU24["Eq. 22"], XU24["Eq. 23"], XU24["Sec. 3.2"])
def test_flow_kernel_and_conserved_product(seed: int) -> None:
    rng = np.random.default_rng([seed, 43])
    wrong = 0.0
    for _ in range(20):
        net = network(rng)
        u, w, x, y = net.u0, net.w0, net.x, float(net.y)
        gamma, rates = float(net.gamma), (float(net.eta_u), float(net.eta_w))
        du, dw = wide_flow(u, w, x, y, gamma, *rates)
        loss = lambda u, w, x=x, y=y, gamma=gamma: (gamma * u @ w @ x - y) ** 2
        h = 1e-5  # central differences
        for i in range(3):
            e = np.eye(3)[i] * h
            assert_close(du[i], -rates[0] * (loss(u + e, w) - loss(u - e, w)) / (2 * h), DERIVATIVE, scale=30.0)
            for j in range(2):
                E = np.zeros((3, 2))
                E[i, j] = h
                assert_close(dw[i, j], -rates[1] * (loss(u, w + E) - loss(u, w - E)) / (2 * h), DERIVATIVE, scale=30.0)
        other, residual = rng.standard_normal(2), gamma * u @ w @ x - y
        df = gamma * (du @ w @ other + u @ dw @ other)
        assert_close(df, -2 * wide_kernel(u, w, other, x, gamma, *rates) * residual, IDENTITY, scale=50.0, says="df/dt")
        printed = wide_kernel(u, w, other, x, gamma, *rates[::-1])
        wrong = max(wrong, abs(df + 2 * printed * residual), abs(df - 2 * printed * residual))
        ds = net.solve(TIMES)
        v, rho = ds.w.values @ x / np.linalg.norm(x), np.linalg.norm(x)
        product = conserved_product(ds.u.values, v, *rates)
        size = (ds.u.values**2 + v**2).max() * max(rates)
        assert_close(product, np.broadcast_to(product[0], product.shape), IDENTITY, scale=size, says="conserved")
        assert_close(4 * ds.p.values * ds.q.values, product, IDENTITY, scale=size, says="4pq")
        assert np.abs(4 * ds.p.values * ds.q.values - (ds.u.values**2 - v**2 * rho**2)).max() > 1e-2  # printed
    assert wrong > 0.1


@pytest.mark.place(XU24["Eq. 4"], XU24["Sec. 3.1"])
def test_printed_rho_and_printed_recovery_are_wrong(seed: int) -> None:
    rng = np.random.default_rng([seed, 44])
    net = network(rng).with_(x=[1.0, -0.6], eta_u=0.5, eta_w=2.0, gamma=0.6)
    y = 1.5 + net.solve(0.0).output.item()
    net = net.with_(y=y)
    ds = net.solve(TIMES)
    path = data_flow(np.array([[1.0, -0.6]]), np.array([y]), net)
    assert_close(ds.u.values.T, path[:3], SOLVED, scale=np.abs(path).max())
    rho = np.linalg.norm(net.x)
    moved = (ds.p - ds.p[0] + ds.q - ds.q[0]).values[:, :, None] * net.x / rho
    right, printed = net.w0 + moved / np.sqrt(0.5), net.w0 + moved / np.sqrt(2.0)
    assert_close(ds.w.values, right, IDENTITY, scale=np.abs(right).max(), says="w recovered")
    assert np.abs(ds.w.values - printed).max() > 1e-2
    mean = net.with_(x=net.x / np.sqrt(2), w0=net.w0)  # ρ² as a mean: the data is 1/√d₀ as long
    assert np.abs(mean.solve(TIMES).u.values.T - path[:3]).max() > 8e-3


@pytest.mark.place(XU24["Eq. 11"], XU24["Eq. 12"], XU24["Eq. 13"], XU24["Sec. 3.3"])
def test_mechanisms(seed: int) -> None:
    rng = np.random.default_rng([seed, 45])
    for _ in range(40):
        net = network(rng, neurons=4).with_(y=10 ** rng.uniform(-1, 0.5), gamma=0.7)
        ds = net.solve([*np.geomspace(1e-3, 10, 60), np.inf])
        p, q = net.solve(0.0).p.values[0], net.solve(0.0).q.values[0]
        P, Q, overlap = (p * p).mean(), (q * q).mean(), 2 * (p * q).mean()
        alpha = ds.growth.values
        zeta = (alpha * P - Q / alpha) / np.sqrt((alpha * P + Q / alpha) ** 2 - overlap**2)
        assert_close(ds.alignment.values, zeta, SOLVED, scale=1.0, says="ζ, Eq. 11")
        h = 1e-5 * alpha  # central differences
        at = lambda x, P=P, Q=Q, overlap=overlap: (x * P - Q / x) / np.sqrt((x * P + Q / x) ** 2 - overlap**2)
        slope = (at(alpha + h) - at(alpha - h)) / (2 * h)
        size = np.abs(slope).max() + 1
        assert_close(alignment_slope(alpha, P, Q, overlap), slope, DERIVATIVE, scale=size, times=10, says="h = 1e-5")
        rho, rates = float(np.linalg.norm(net.x)), (float(net.eta_u), float(net.eta_w))
        rises = bool(alignment_rises(P, Q, 4, float(net.y), 0.7, rho, *rates))
        assert rises == (alpha[-1] > 1) == (float(net.y) > net.solve(0.0).output.item())
        change = np.diff(ds.alignment.values)
        assert (change * (1 if rises else -1) > -1e-12).all()  # monotone to rounding
        norm = (ds.u.values**2).sum(-1)
        turn = int(np.argmin(norm))
        case = int(norm_case(P, Q, alpha[-1]))
        flat = 1e-9 * norm.max()  # rounding
        if case == 1:
            assert (np.diff(norm) > -flat).all()
        elif case == 2:
            assert (np.diff(norm) < flat).all()
        else:
            assert case == 3 and (np.diff(norm[: turn + 1]) < flat).all() and (np.diff(norm[turn:]) > -flat).all()
