"""The isotropic wide network against integration of its layers, and its place in the paper's table of shapes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from richter.errors import OutsideTheoryError, ParameterError
from richter.maths.preconditioner import wide_preconditioner
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close
from richter.theory import IsotropicNetwork, SingleNeuron
from tests.references.isotropic import isotropic

DELTAS = (0.0, 1e-9, -1e-9, 1.0, -1.0, 100.0, -100.0)
RARE = (0.2, 0.16, 0.16, 0.2, 0.2, 0.04, 0.04)  # integration is slow far from balance


def _networks(count: int, seed: int) -> list[IsotropicNetwork]:
    rng = np.random.default_rng(seed)
    made: list[IsotropicNetwork] = []
    while len(made) < count:
        d, h, c = (int(n) for n in rng.integers(1, 9, 3))
        delta = float(rng.choice(DELTAS, p=RARE))
        h = min(h, c) if delta > 0 else min(h, d) if delta < 0 else h
        target, rates = rng.normal(size=(d, c)), 10 ** rng.uniform(-0.3, 0.3, 2)
        net = IsotropicNetwork.random(
            inputs=d, neurons=h, outputs=c, beta_star=target, delta=delta,
            scale=float(10 ** rng.uniform(-6, 1)), rng=rng, eta_a=float(rates[0]), eta_w=float(rates[1]),
        )  # fmt: skip
        if d == c <= h and abs(delta) < 1e-6 and np.linalg.det(net.W0.T @ net.A0) * np.linalg.det(target) < 0:
            continue  # det β cannot change its sign: into the saddle, where roundings decide
        made.append(net)
    return made


def _layers(net: IsotropicNetwork, times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """A and W integrated at the tightest tolerance, errors relative to each layer."""
    (h, c), d = net.A0.shape, net.W0.shape[1]
    ea, ew = float(net.eta_a), float(net.eta_w)

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        A, W = x[: h * c].reshape(h, c), x[h * c :].reshape(h, d)
        error = W.T @ A - net.beta_star
        return np.concatenate([(-ea * W @ error).ravel(), (-ew * A @ error.T).ravel()])

    of_a = np.arange(h * (c + d)) < h * c
    path, at = [np.concatenate([net.A0.ravel(), net.W0.ravel()])], 0.0
    for end in times[1:]:
        start = path[-1]
        atol = 1e-15 * np.where(of_a, np.abs(start[of_a]).max(), np.abs(start[~of_a]).max())
        done = solve_ivp(flow, (at, end), start, method="DOP853", rtol=3e-14, atol=atol)
        path.append(done.y[:, -1])
        at = end
    states = np.array(path)
    return states[:, of_a].reshape(-1, h, c), states[:, ~of_a].reshape(-1, h, d)


def _assert_all_digits(made: np.ndarray, exact: np.ndarray, says: str) -> None:
    """Twelve digits of the largest entry of each matrix (…, rows, columns), however small it is."""
    assert_close(made, exact, IDENTITY, scale=np.abs(exact).max(axis=(-2, -1), keepdims=True), says=says)


@pytest.mark.parametrize("seed", range(8))
def test_random_shapes_agree_with_integration(seed: int) -> None:
    for net in _networks(26, seed):
        # Directions that compete for too few neurons multiply the integrator's roundings: those nets end at t = 8.
        enough = net.A0.shape[0] >= min(net.beta_star.shape)
        times = np.array([0.0, 0.01, 0.3, 2.0, 8.0, 50.0])[: 6 if enough else 5]
        A, W = _layers(net, times)
        exact = net.solve(times)
        for name, x, y in (("beta", W, A), ("gram_a", A, A), ("gram_w", W, W)):
            _assert_all_digits(exact[name].values, np.einsum("thi,thj->tij", x, y), f"{name} of {net!r}")


@pytest.mark.parametrize("seed", range(4))
def test_extreme_starts_keep_all_digits_at_every_time(seed: int) -> None:
    rng, checked = np.random.default_rng([seed, 12]), 0
    for delta in (0.0, 1e-9, -1e-9, 1.0, -1.0, 100.0, -100.0, 1e6, -1e6):
        d, h, c = (int(n) for n in rng.integers(1, 5, 3))
        net = IsotropicNetwork.random(
            inputs=d, neurons=min(h, c) if delta > 0 else min(h, d) if delta < 0 else h, outputs=c, delta=delta,
            beta_star=rng.normal(size=(d, c)), scale=float(10 ** rng.choice([-12.0, -6.0, -2.0, 1.0])), rng=rng,
            eta_a=float(10 ** rng.uniform(-1, 1)), eta_w=float(10 ** rng.uniform(-1, 1)),
        )  # fmt: skip
        size = np.sqrt(max(float((net.A0**2).sum()), float((net.W0**2).sum())))
        times = [0.0, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 8.0, 50.0, np.inf]
        exact, reference = net.solve(times), isotropic(net.A0, net.W0, net.beta_star, net.eta_a, net.eta_w, times)
        for k, matrices in enumerate(reference):
            if matrices is not None:
                for name, matrix in matrices.items():
                    _assert_all_digits(exact[name].values[k], matrix, f"{name} at {times[k]} of {net!r}, layers {size}")
                checked += 1
    assert checked > 70


def test_the_end_is_a_minimum_reached_from_every_shape() -> None:
    for net in _networks(60, 9):
        (d, c), h = net.beta_star.shape, net.A0.shape[0]
        end = net.limit()
        beta, error = end.beta.values, end.beta.values - net.beta_star
        force = end.gram_w.values @ error * float(net.eta_a) + error @ end.gram_a.values * float(net.eta_w)
        size = np.abs(net.beta_star).max() * max(
            1.0, float(np.abs(end.gram_a.values).max() + np.abs(end.gram_w.values).max())
        )
        assert np.abs(force).max() < 1e-9 * size
        if h >= min(d, c):
            np.testing.assert_allclose(beta, net.beta_star, atol=1e-9 * np.abs(net.beta_star).max())
        else:  # the best approximation of rank h
            U, s, V = np.linalg.svd(net.beta_star)
            np.testing.assert_allclose(beta, (U[:, :h] * s[:h]) @ V[:h], atol=1e-7 * s[0])


def test_square_networks_do_not_see_the_sign_of_the_imbalance() -> None:
    beta_star = np.random.default_rng(1).normal(size=(3, 3))
    left, right = (np.linalg.qr(np.random.default_rng(k).normal(size=(3, 3)))[0] for k in (2, 3))
    make = lambda delta: IsotropicNetwork.from_singular_values(
        beta_star=beta_star, values=[0.3, 0.2, 0.1], neurons=3, delta=delta, left=left, right=right
    )
    t = [0.0, 0.1, 0.5, 2.0, np.inf]
    for delta in (0.1, 1.0, 30.0):
        np.testing.assert_allclose(make(delta).solve(t).beta, make(-delta).solve(t).beta, rtol=1e-10, atol=1e-12)


def test_one_neuron_and_one_output_is_the_single_neuron() -> None:
    rng = np.random.default_rng(4)
    t = [0.0, 0.2, 1.0, 5.0, np.inf]
    for _ in range(20):
        a, w, target = rng.normal(size=(1, 1)), rng.normal(size=(1, 3)), rng.normal(size=(3, 1))
        rates: dict[str, Any] = {"eta_a": rng.uniform(0.3, 2), "eta_w": rng.uniform(0.3, 2)}
        wide = IsotropicNetwork(A0=a, W0=w, beta_star=target, **rates).solve(t)
        neuron = SingleNeuron(a0=a[0, 0], w0=w[0], beta_star=target[:, 0], **rates).solve(t)
        np.testing.assert_allclose(wide.beta[..., 0], neuron.beta, rtol=1e-9, atol=1e-12)
        np.testing.assert_allclose(wide.kernel_distance, neuron.kernel_distance, rtol=1e-8, atol=1e-13)
        np.testing.assert_allclose(wide.kernel_change, neuron.kernel_change, rtol=1e-8, atol=1e-13)


def test_the_kernels_movement_is_that_of_the_full_matrices() -> None:
    net = _networks(3, 5)[2]
    state = net.simulate([0.0, 0.02])
    M = [
        np.kron(float(net.eta_w) * state.gram_a.values[i], np.eye(net.W0.shape[1]))
        + np.kron(np.eye(net.A0.shape[1]), float(net.eta_a) * state.gram_w.values[i])
        for i in (0, 1)
    ]
    np.testing.assert_allclose(
        M[0], wide_preconditioner(net.A0, net.W0, float(net.eta_a), float(net.eta_w)), atol=1e-14 * np.abs(M[0]).max()
    )
    cosine = np.sum(M[0] * M[1]) / (np.linalg.norm(M[0]) * np.linalg.norm(M[1]))
    assert state.kernel_distance[1].item() == pytest.approx(1 - cosine, abs=1e-14)
    change = np.linalg.norm(M[1] - M[0]) / np.linalg.norm(M[0])
    assert net.solve([0.02]).kernel_change.item() == pytest.approx(change, rel=1e-8)


@pytest.mark.place(KUN24["Theorem 4.1"])
@pytest.mark.parametrize(
    ("shape", "labels"),
    [
        ((5, 2, 2), ("delayed-rich", "rich", "lazy")),  # funnel
        ((2, 2, 5), ("lazy", "rich", "delayed-rich")),  # inverted funnel
        ((3, 3, 3), ("lazy", "rich", "lazy")),  # square
        ((3, 1, 1), ("delayed-rich", "rich", "lazy")),  # single neuron
    ],
)
def test_shapes_have_the_papers_regimes(shape: tuple[int, int, int], labels: tuple[str, str, str]) -> None:
    d, h, c = shape
    beta_star = np.random.default_rng(0).normal(size=(d, c))
    for delta, label in zip((-100.0, 0.0, 100.0), labels, strict=True):
        net = IsotropicNetwork.random(inputs=d, neurons=h, outputs=c, beta_star=beta_star, delta=delta, scale=0.5)
        assert net.regime().label == label, (shape, delta)


def test_other_imbalances_are_refused_with_the_way_out() -> None:
    net = IsotropicNetwork(A0=[[1.0, 2.0], [0.0, 1.0]], W0=[[1.0, 0.0], [0.0, 2.0]], beta_star=np.eye(2))
    with pytest.raises(
        OutsideTheoryError, match=r"must be δ times the identity. Got a relative deviation of .* simulate"
    ):
        net.solve([1.0])
    run = net.simulate([0.0, 1.0, 5.0])
    np.testing.assert_allclose(run.imbalance, np.broadcast_to([[4.0, 2.0], [2.0, -3.0]], (3, 2, 2)), atol=1e-10)


def test_a_frozen_layer_leaves_a_regression_in_the_other_on_any_inputs() -> None:
    rng = np.random.default_rng(6)
    for d, h, c in ((3, 2, 4), (2, 5, 3), (4, 4, 1), (3, 6, 2)):
        X = rng.normal(size=(8, d)) * np.geomspace(1, 0.2, d)
        A, W, Y = rng.normal(size=(h, c)), rng.normal(size=(h, d)), rng.normal(size=(8, c))
        target = np.linalg.lstsq(X, Y, rcond=None)[0]
        net = IsotropicNetwork(A0=A, W0=W, beta_star=target, input_gram=X.T @ X)
        of_a, of_w = net.with_(eta_w=0.0).limit(), net.with_(eta_a=0.0).limit()
        # The last layer alone: least squares on the features XWᵀ, from the start.
        A_end = A + np.linalg.pinv(X @ W.T) @ (Y - X @ W.T @ A)
        assert_close(of_a.beta.values, W.T @ A_end, IDENTITY, times=100, scale=1.0, says="conditioned by X")
        assert_close(of_a.gram_a.values, A_end.T @ A_end, IDENTITY, times=100, scale=np.abs(A_end).max() ** 2)
        # The first layer alone: the least change of Wᵀ with WᵀA nearest to β*.
        W_end = W + np.linalg.pinv(A.T) @ (target - W.T @ A).T
        assert_close(of_w.beta.values, W_end.T @ A, IDENTITY, times=100, scale=1.0, says="conditioned by A")
        assert_close(of_w.gram_w.values, W_end.T @ W_end, IDENTITY, times=100, scale=np.abs(W_end).max() ** 2)
        assert net.with_(eta_a=0.0).regime().label == "lazy"
        still = net.with_(eta_a=0.0, eta_w=0.0)
        assert np.array_equal(still.limit().beta.values, still.solve([0.0]).beta.values[0])
        assert still.regime().label == "undefined"


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"neurons": 3, "delta": 1.0}, "`neurons` must be at most the 2 outputs for δ > 0 (Δ = δI). Got 3."),
        ({"neurons": 5, "delta": -1.0}, "`neurons` must be at most the 4 inputs for δ < 0 (Δ = δI). Got 5."),
        ({"values": [1.0, 1.0, 1.0]}, "`values` must be at most 2 numbers ≥ 0. Got [1.0, 1.0, 1.0]."),
        ({"values": [-1.0]}, "`values` must be at most 2 numbers ≥ 0. Got [-1.0]."),
        ({"beta_star": [1.0]}, "`beta_star` must be (input, output). Got shape (1,)."),
    ],
)
def test_impossible_starts_are_one_clear_line(change: dict[str, Any], text: str) -> None:
    given: dict[str, Any] = {"beta_star": np.ones((4, 2)), "values": [0.5], "neurons": 2}
    with pytest.raises(ParameterError) as caught:
        IsotropicNetwork.from_singular_values(**{**given, **change})
    assert text in str(caught.value)


def test_any_inputs_and_any_imbalance_can_be_simulated_and_the_imbalance_is_conserved(seed: int) -> None:
    rng = np.random.default_rng([seed, 9])
    X, A0, W0, target = (rng.standard_normal(shape) for shape in ((6, 3), (2, 2), (2, 3), (3, 2)))
    rates = 10 ** rng.uniform(-0.3, 0.3, 2)
    net = IsotropicNetwork(
        A0=A0, W0=W0, beta_star=target, input_gram=X.T @ X / 6, eta_a=rates[0], eta_w=rates[1]
    )  # fmt: skip
    t = np.array([0.0, 0.5, 2.0])
    ds = net.simulate(t)
    size = np.abs(A0).max() ** 2 + np.abs(W0).max() ** 2
    assert_close(ds.imbalance.values, ds.imbalance.values[:1] + 0 * t[:, None, None], SOLVED, scale=size, says="Δ")
    # By examples: the loss and the kernel (I ⊗ X)M(I ⊗ Xᵀ) of KUN24 Sec. 4, formed in full.
    X = X / np.sqrt(6)
    beta, left, right = ds.beta.values, rates[1] * ds.gram_a.values, rates[0] * ds.gram_w.values
    assert_close(ds.loss.values, ((X @ (beta - target)) ** 2).sum(axis=(1, 2)) / 2, SOLVED)
    K = np.array([np.kron(left[i], X @ X.T) + np.kron(np.eye(2), X @ right[i] @ X.T) for i in range(3)])
    inner = lambda a, b: (a * b).sum()
    S = [1 - inner(K[0], K[i]) / np.sqrt(inner(K[0], K[0]) * inner(K[i], K[i])) for i in range(3)]
    assert_close(ds.kernel_distance.values, S, SOLVED, scale=1.0, says="S(0, t)")
    change = [np.sqrt(inner(K[i] - K[0], K[i] - K[0]) / inner(K[0], K[0])) for i in range(3)]
    assert_close(ds.kernel_change.values, change, SOLVED, scale=1.0, says="kernel change")
    with pytest.raises(OutsideTheoryError, match="be a multiple of the identity|be δ times the identity"):
        net.solve(t)


def test_inputs_of_another_size_only_change_the_clock(seed: int) -> None:
    make = lambda gram: IsotropicNetwork.random(
        inputs=3, neurons=2, outputs=2, beta_star=np.ones((3, 2)), delta=0.5, rng=seed
    ).with_(input_gram=gram)
    t = np.array([0.0, 0.4, 1.5, np.inf])
    fast, plain = make(2.5), make(1.0)
    assert_close(fast.solve(t).beta.values, plain.solve(2.5 * t).beta.values, IDENTITY, scale=1.0)
    assert_close(fast.solve(t).loss.values, 2.5 * plain.solve(2.5 * t).loss.values, IDENTITY, scale=1.0)
    assert_close(fast.solve(t[:3]).beta.values, fast.simulate(t[:3]).beta.values, SOLVED, scale=1.0)
    assert fast.regime().label == plain.regime().label
    uneven = make(np.diag([1.0, 2.0, 3.0]))
    with pytest.raises(OutsideTheoryError, match=r"`input_gram` .* multiple of the identity .* Whiten the inputs"):
        uneven.solve(t)
    with pytest.raises(ParameterError, match="`input_gram` of IsotropicNetwork must be symmetric"):
        make([[1.0, 2.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]])
    with pytest.raises(ParameterError, match="`input_gram` of IsotropicNetwork must be symmetric"):
        make(0.0)
