"""Gradient flow of piecewise-linear networks across pattern changes, against integrators and closed forms."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from richter import catalog
from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError
from richter.maths import piecewise
from richter.maths.fan import Fan
from richter.maths.switching import follow
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import SingleNeuron
from richter.theory.piecewise_network import PiecewiseNetwork

Floats = NDArray[np.float64]
RATES = {"eta_a": 0.7, "eta_w": 1.3}


def _random(rng: np.random.Generator, h: int = 6, d: int = 3, n: int = 5, **given: Any) -> PiecewiseNetwork:
    w = 0.6 * rng.normal(size=(h, d))
    # δ > 0 keeps the output weights from 0, where a sliding neuron has no unique flow.
    a = rng.choice([-1.0, 1.0], h) * rng.uniform(0.8, 1.3, h) * np.linalg.norm(w, axis=1)
    return PiecewiseNetwork(a0=a, w0=w, X=rng.normal(size=(n, d)), y=2 * rng.normal(size=n), **{**RATES, **given})


def _flow(net: PiecewiseNetwork, q: Floats) -> Floats:
    h = len(net.a0)
    w = q[h:].reshape(h, -1)
    da, dw = piecewise.parameter_flow(q[:h], w, net.X, net.y, float(net.leak), float(net.eta_a), float(net.eta_w))
    return np.concatenate([da, dw.ravel()])


def _by_events(net: PiecewiseNetwork, end: float) -> tuple[Floats, int] | None:
    """scipy's integrator with one terminal event per pair; None where a neuron would slide."""
    from scipy.integrate import solve_ivp

    h, (n, d) = len(net.a0), net.X.shape
    q, t, changes = np.concatenate([net.a0, net.w0.ravel()]), 0.0, 0
    c = net.w0 @ net.X.T > 0
    while t < end:
        slopes = np.where(c, 1.0, float(net.leak))

        def frozen(_: float, q: Floats, slopes: Floats = slopes) -> Floats:
            a, w = q[:h], q[h:].reshape(h, d)
            rho = (a[:, None] * slopes * (w @ net.X.T)).sum(axis=0) - net.y
            xi = (slopes * rho) @ net.X
            return np.concatenate([-net.eta_a * (w * xi).sum(axis=1), (-net.eta_w * a[:, None] * xi).ravel()])

        events = []
        for i, j in np.ndindex(h, n):
            event = lambda _, q, i=i, j=j: float(q[h + i * d : h + (i + 1) * d] @ net.X[j])
            event.terminal, event.direction = True, -1.0 if c[i, j] else 1.0  # type: ignore[attr-defined]
            events.append(event)
        done = solve_ivp(frozen, (t, end), q, method="DOP853", rtol=1e-12, atol=1e-14, events=events, max_step=0.02)
        z = np.einsum("idt,jd->tij", done.y[h:].reshape(h, d, -1), net.X)
        if (((z > 0) != c) & (np.abs(z) > 1e-9)).any():
            return None  # an event that scipy has missed, right after another: no witness
        hit = [k for k, times in enumerate(done.t_events) if times.size]
        if hit and done.t[-1] < t + 1e-9:
            return None
        q, t = done.y[:, -1], float(done.t[-1])
        for k in hit:
            c[np.unravel_index(k, (h, n))] ^= True
            changes += 1
    return q, changes


def _state(ds: Any, k: int = -1) -> Floats:
    return np.concatenate([ds.a.values[k], ds.w.values[k].ravel()])


def test_the_path_is_that_of_an_integrator_with_one_event_per_pair(seed: int) -> None:
    rng = np.random.default_rng([seed, 40])
    compared = changed = 0
    for _ in range(60):
        net = _random(rng, h=3, n=3, leak=float(rng.choice([0.0, 0.5])))
        witness = _by_events(net, 1.5)
        if witness is None:
            continue
        ds = net.simulate([1.5], only=("a", "w"))
        assert ds.attrs["changes"] >= witness[1]
        if ds.attrs["changes"] > witness[1]:
            continue  # a neuron that touches an example and turns back within one of scipy's steps
        assert_close(_state(ds), witness[0], SOLVED, scale=np.abs(witness[0]).max())
        compared, changed = compared + 1, changed + witness[1]
        if compared >= 6 and changed >= 4:
            return
    raise AssertionError("too few paths without sliding")


def test_gradient_descent_tends_to_the_path_also_where_neurons_slide(seed: int) -> None:
    rng = np.random.default_rng([seed, 41])
    for k in range(3):
        net = _random(rng, leak=0.2 * (k == 1))
        try:
            ds = net.simulate([0.0, 0.5, 1.0], only=("a", "w"))
        except OutsideTheoryError:
            continue  # a neuron reaches w = 0, and says so
        q, step = _state(ds, 0), 2.5e-4
        for _ in range(4000):
            q = q + step * _flow(net, q)
        # First order in the step; a wrong pattern would be off by 0.1 and more.
        assert np.abs(q - _state(ds)).max() < 60 * step, (seed, k)


def test_a_sliding_neuron_is_a_smaller_network_exactly(seed: int) -> None:
    rng = np.random.default_rng([seed, 42])
    # The first example pushes the neuron off, the second pulls it on: it slides along the first and fits the second.
    a0, v0 = rng.uniform(0.5, 1.5), rng.uniform(0.2, 0.8)
    net = PiecewiseNetwork(a0=[a0], w0=[[0.0, v0]], X=[[1.0, 0.0], [0.6, 0.8]], y=[-2.0, 3.0])
    t = np.linspace(0.0, 6.0, 13)
    ds = net.simulate(t)
    exact = SingleNeuron(a0=a0, w0=[v0], beta_star=[3.0 / 0.8]).solve(0.64 * t)
    assert_close(ds.a.values[:, 0], exact.a.values, SOLVED)
    assert_close(ds.w.values[:, 0, 1], exact.w.values[:, 0], SOLVED)
    assert np.abs(ds.w.values[:, 0, 0]).max() < 1e-13 and ds.loss[-1] == pytest.approx(2.0)  # the first stays at 0
    # The slope that holds it there: the push 2c of the first is the pull 0.6 ρ of the second.
    c = follow(net.a0, net.w0, net.X, net.y, t).slopes[:, 0, 0]
    assert_close(2.0 * c, 0.6 * (3.0 - ds.output.values[:, 1]), IDENTITY, scale=2.0)


@pytest.mark.place(KUN24["App. C.2"], KUN24["App. D.1"])
def test_imbalance_is_conserved_and_the_loss_falls_through_every_change(seed: int) -> None:
    rng = np.random.default_rng([seed, 43])
    t = np.linspace(0.0, 3.0, 31)
    X, y = rng.normal(size=(8, 2)), rng.normal(size=8)
    changes = 0
    for tau, delta in ((0.1, 1.0), (0.1, -1.0), (0.5, 0.0)):
        net = PiecewiseNetwork.symmetrised(X=X, y=y, neurons=8, tau=tau, delta=delta, rng=seed, **RATES)
        ds = net.simulate(t, only=("delta", "loss", "output", "hamming", "kernel_distance", "parameter_distance"))
        assert np.abs(ds.delta - delta).max() < 1e-10  # drift of the integrator at 1e-12
        assert (np.diff(ds.loss) <= 1e-12 * ds.loss[0].item()).all()
        assert np.abs(ds.output[0]).max() < 1e-15 * 10, "mirrored neurons cancel"
        for name in ("hamming", "kernel_distance", "parameter_distance"):
            assert (ds[name] >= 0).all() and 0 <= ds[name][0] < 1e-30, name  # a rounding squared
        changes += ds.attrs["changes"]
    assert changes > 0


@pytest.mark.place(KUN24["Sec. 5"])
def test_the_output_moves_by_the_kernel_also_while_sliding(seed: int) -> None:
    rng = np.random.default_rng([seed, 44])
    checked = 0
    for _ in range(6):
        net, h = _random(rng), 1e-4
        middle = rng.uniform(0.05, 1.0, 8)
        try:
            ds = net.simulate(np.stack([middle - h, middle, middle + h], axis=1).ravel())
        except OutsideTheoryError:
            continue  # a neuron reaches w = 0, and says so
        f = ds.output.values.reshape(8, 3, -1)
        path = follow(net.a0, net.w0, net.X, net.y, np.sort(ds.t.values), float(net.leak), **RATES)
        bits = ((path.slopes == 1) * 2 + (path.slopes == 0)).reshape(8, 3, -1)[np.argsort(np.argsort(middle))]
        smooth = (bits == bits[:, :1]).all(axis=(1, 2))
        K, rho = ds.kernel.values.reshape(8, 3, 5, 5)[:, 1], f[:, 1] - net.y
        law = -np.einsum("tjk,tk->tj", K, rho)
        moved = (f[:, 2] - f[:, 0]) / (2 * h)
        size = np.abs(K).sum(axis=(1, 2)) * np.abs(rho).max(axis=1) * (1 + np.abs(K).sum(axis=(1, 2))) ** 2
        # Central differences: an error of h² times third derivatives, which are of size K³ρ.
        assert (np.abs(moved - law)[smooth] < 10 * h**2 * size[smooth, None]).all()
        checked += int(smooth.sum())
    assert checked > 20


@pytest.mark.place(KUN24["Sec. 5"])
def test_downstream_keeps_the_partition_and_upstream_changes_it_near_the_start(seed: int) -> None:
    rng = np.random.default_rng([seed, 45])
    X = rng.normal(size=(10, 2))
    X /= np.linalg.norm(X, axis=1)[:, None]
    y = piecewise.network_output(rng.choice([-1.0, 1.0], 3), rng.normal(size=(3, 2)), X)
    if not y.any():
        y = X[:, 0]
    made = {}
    for delta in (4.0, -4.0):
        net = PiecewiseNetwork.symmetrised(X=X, y=y, neurons=16, tau=0.1, delta=delta, rng=seed)
        ds = net.simulate([0.0, 0.3], only=("hamming", "parameter_distance", "function_distance", "loss"))
        made[delta] = ds.isel(t=1)
    assert made[-4.0].hamming < 0.05 < 0.1 < made[4.0].hamming
    assert made[-4.0].loss < 0.9 * 0.5 * (y @ y), "it learns all the same"


def test_examples_on_one_line_change_together(seed: int) -> None:
    rng = np.random.default_rng([seed, 46])
    corners = np.array([[1.0, 1.0], [1.0, -1.0], [-1.0, -1.0], [-1.0, 1.0]])
    X, y = np.concatenate([corners, 2 * corners[:1], np.zeros((1, 2))]), np.array([1.0, -1.0, 1.0, -1.0, 2.0, 0.5])
    net = PiecewiseNetwork.symmetrised(X=X, y=y, neurons=8, tau=0.2, delta=0.1, leak=0.1, rng=rng)
    ds = net.simulate(np.linspace(0, 2, 5))
    assert (np.diff(ds.loss) < 0).all() and np.abs(ds.delta - 0.1).max() < 1e-10
    assert (ds.output[:, 5] == 0).all() and (ds.kernel[:, 5] == 0).all(), "an input at 0 moves nothing"
    q, step = _state(ds, 0), 5e-4
    for _ in range(4000):
        q = q + step * _flow(net, q)
    assert np.abs(q - _state(ds)).max() < 60 * step  # first order in the step


def test_a_neuron_rests_at_zero_and_wakes_when_a_direction_descends() -> None:
    # Upstream, sliding towards w = 0 along the second example; there every direction ascends.
    X, y = np.array([[1.0, 0.3], [-1.0, 0.4], [0.1, -1.0]]), np.array([-1.0, -1.0, -1.0])
    net = PiecewiseNetwork(a0=[1.0], w0=[[0.02, 0.05]], X=X, y=y)
    ds = net.simulate(np.linspace(0, 2, 9))
    assert (ds.w[-1] == 0).all() and ds.a[-1] > 0 and ds.hamming[-1] > 0 and (ds.kernel[-1] == 0).all()
    assert np.abs(ds.delta - ds.delta[0]).max() < 1e-12


def test_the_least_direction_of_a_fan_is_least(seed: int) -> None:
    rng = np.random.default_rng([seed, 47])
    turn = np.linspace(0, 2 * np.pi, 20001)
    circle = np.stack([np.cos(turn), np.sin(turn)], axis=1)
    for leak in (0.0, 0.3):
        X, rho = rng.normal(size=(5, 2)), rng.normal(size=5)
        for sign in (1.0, -1.0):
            z = circle @ X.T
            values = sign * (np.maximum(z, leak * z) @ rho)
            value, where = Fan.of(X, leak).lowest(rho, sign)
            assert value <= values.min() + 1e-12 and value > values.min() - 1e-3  # the circle in steps of 3e-4
            x = X @ where
            assert_close(sign * (np.maximum(x, leak * x) @ rho), value, IDENTITY, scale=10.0)


def test_the_flow_on_one_input_passes_or_stops_at_zero() -> None:
    through = PiecewiseNetwork(a0=[1.0], w0=[[-0.1]], X=[[1.0], [-1.0]], y=[1.0, -1.0], leak=0.5)
    ds = through.simulate([0.0, 5.0])
    assert ds.w[-1, 0, 0] > 0 and ds.attrs["changes"] >= 1
    stop = PiecewiseNetwork(a0=[1.0], w0=[[-0.1]], X=[[1.0], [-1.0]], y=[-1.0, -1.0])
    assert abs(stop.simulate([5.0]).w.item()) < 1e-12


def test_values_along_a_run_are_the_network_s(seed: int) -> None:
    rng = np.random.default_rng([seed, 48])
    net = _random(rng, leak=0.3)
    ds = net.simulate([1.0, 0.0, 0.3])
    assert ds.t.values.tolist() == [1.0, 0.0, 0.3]
    assert (ds.a[1] == net.a0).all() and (ds.w[1] == net.w0).all()
    assert_close(net.values(ds, net.X).values, ds.output.values, IDENTITY, scale=10.0)
    assert_close(ds.mu.values, ds.a.values * np.linalg.norm(ds.w.values, axis=-1), IDENTITY)
    assert_close(ds.loss.values, ((ds.output.values - net.y) ** 2).sum(axis=1) / 2, IDENTITY)
    shift = np.sqrt(((ds.output.values - ds.output.values[1]) ** 2).mean(axis=1))
    assert_close(ds.function_distance.values, shift, IDENTITY, scale=1.0)
    moved = np.sqrt(((ds.a - ds.a[1]) ** 2).sum("neuron") + ((ds.w - ds.w[1]) ** 2).sum(["neuron", "input"]))
    assert_close(ds.parameter_distance.values, moved.values, IDENTITY, scale=1.0)
    K, first = ds.kernel.values[0], ds.kernel.values[1]
    cosine = (K * first).sum() / np.sqrt((K * K).sum() * (first * first).sum())
    assert_close(ds.kernel_distance.values[0], 1 - cosine, IDENTITY, scale=1.0)
    assert set(json.loads(ds.attrs["params"])) == {"a0", "w0", "X", "y", "leak", "eta_a", "eta_w"}
    assert net.with_(leak=0.1).leak == 0.1 and set(net.simulate([0.0], only="a")) == {"a"}
    assert repr(net).startswith("PiecewiseNetwork(a0=[")
    assert "piecewise-network" not in catalog.theories()


_GIVEN: dict[str, Any] = {"a0": [1.0], "w0": [[1.0, 0.0]], "X": [[1.0, 0.0]], "y": [1.0]}
_START: dict[str, Any] = {"X": np.eye(2), "y": [1.0, 1.0], "neurons": 4, "tau": 0.1, "delta": 1.0}


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: PiecewiseNetwork(**{**_GIVEN, "a0": [[1.0], [2.0]]}), "must have no batch dimensions"),
        (lambda: PiecewiseNetwork(**_GIVEN, leak=1.0), "`leak` of PiecewiseNetwork must be ≥ 0 and < 1. Got 1.0. A leak of 1"),
        (lambda: PiecewiseNetwork(**_GIVEN, leak=-0.1), "`leak` of PiecewiseNetwork must be ≥ 0"),
        (lambda: PiecewiseNetwork(**{**_GIVEN, "w0": [[0.0, 0.0]]}), "every row of `w0` of PiecewiseNetwork must have an entry"),
        (lambda: PiecewiseNetwork(**_GIVEN).simulate([np.inf]), r"the times of simulate\(\) must be finite"),
        (lambda: PiecewiseNetwork(**_GIVEN).values(PiecewiseNetwork(**_GIVEN).simulate([0.0]), [1.0]), "`points` must be"),
        (lambda: PiecewiseNetwork.symmetrised(**{**_START, "neurons": 3}), "`neurons` of symmetrised must be an even number"),
        (lambda: PiecewiseNetwork.symmetrised(**{**_START, "tau": 0.0}), "`tau` of symmetrised must be > 0"),
        (lambda: PiecewiseNetwork.symmetrised(**{**_START, "delta": np.nan}), "`delta` of symmetrised must be finite"),
        (lambda: PiecewiseNetwork.symmetrised(**{**_START, "X": [1.0]}), "`X` of symmetrised must be"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(call: Any, text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        call()


def test_an_unknown_variable_and_a_point_without_unique_flow_are_named() -> None:
    net = PiecewiseNetwork(**_GIVEN)
    with pytest.raises(UnknownNameError, match="PiecewiseNetwork has no variable `los`. Did you mean loss?"):
        net.simulate([0.0], only="los")
    # On three inputs, straight to w = 0 along the one direction that is left.
    down = PiecewiseNetwork(a0=[2.0], w0=[[0.1, 0.0, 0.0]], X=[[1.0, 0.0, 0.0], [-1.0, 2.0, 0.0]], y=[-3.0, 0.0])
    with pytest.raises(
        OutsideTheoryError, match="Neuron 0 reaches w = 0, where gradient flow on 3 inputs is not unique"
    ):
        down.simulate([3.0])


@pytest.mark.parametrize("turned", [False, True])
def test_the_slope_of_a_sliding_neuron_balances_its_pulls_with_a_leak_and_on_either_side(turned: bool) -> None:
    X, y = np.array([[1.0, 0.0], [0.6, 0.8]]), np.array([-2.0, 3.0])
    if turned:  # an example without a residual, which turns the common direction round
        X, y = np.concatenate([[[-1.0, 0.0]], X]), np.concatenate([[0.0], y])
    net = PiecewiseNetwork(a0=[1.0], w0=[[0.0, 0.5]], X=X, y=y, leak=0.2)
    t = np.array([0.0, 0.1, 0.2])
    path = follow(net.a0, net.w0, net.X, net.y, t, 0.2)
    rho = 3.0 - net.simulate(t).output.values[:, -1]
    assert_close(2.0 * path.slopes[:, 0, -2], 0.6 * rho, IDENTITY, scale=2.0)
