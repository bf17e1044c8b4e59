"""Gradient descent beside the flow, and conversions between conventions."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import OutsideTheoryError, ParameterError, UnknownNameError
from richter.theory import DiagonalNetwork, IsotropicNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar
from richter.theory.base import AbstractTheory
from richter.theory.convert import convert_loss, convert_rate, convert_time, loss_scale, steps_to_time, time_to_steps
from richter.theory.discrete import descend, descent_gap, drift_per_step, largest_stable_step

THEORIES: list[AbstractTheory] = [
    SingleNeuron(a0=[0.5, 1.0], w0=[-0.4, 0.1], beta_star=[1.0, 1.0], eta_a=0.5),
    WideScalar.random(width=3, x=[1.0, 2.0], y=0.7, gamma=-0.5, draws=3, rng=1, eta_u=0.3),
    ScalarNetwork.random(width=3, target=0.7, draws=2, normalisation=1.5, eta_a=0.4),
    DiagonalNetwork(a0=[0.3, 0.2], b0=[0.1, -0.3], target=[1.0, 0.5], input_variance=[1.0, 0.4]),
    LinearModel(eigenvalues=[1.0, 0.2], coefficients=[1.0, -1.0]),
]


@pytest.mark.parametrize("theory", THEORIES, ids=lambda theory: theory.name)
def test_descent_minus_flow_is_the_predicted_gap_to_second_order(theory: AbstractTheory) -> None:
    first, second = [], []
    for step in (4e-3, 2e-3, 1e-3):
        run = descend(theory, step, [0, round(1 / step)])
        flow, gap = theory.solve([0.0, 1.0]), descent_gap(theory, [0.0, 1.0], step)
        first.append(float(abs(run.loss - flow.loss).max()))
        second.append(float(abs(run.loss - flow.loss - gap.loss).max()))
    assert np.diff(np.log2(first)) == pytest.approx([-1, -1], abs=0.05)
    assert np.diff(np.log2(second)) == pytest.approx([-2, -2], abs=0.05)


@pytest.mark.parametrize("theory", THEORIES[:4], ids=lambda theory: theory.name)
def test_the_drift_of_each_step_is_exact(theory: AbstractTheory) -> None:
    for step in (0.01, 0.2):
        run = descend(theory, step, [0, 1])
        name = next(v.name for v in theory.variables if v.role == "invariant")
        drift = drift_per_step(theory, [0.0], step)[name].isel(t=0)
        np.testing.assert_allclose(run[name].isel(t=1) - run[name].isel(t=0), drift, rtol=1e-9, atol=1e-15)  # δ ~ 1


def test_the_neurons_drift_is_the_published_combination() -> None:
    theory = SingleNeuron(a0=0.5, w0=[-0.4, 0.1], beta_star=[1.0, 1.0], eta_a=0.5, eta_w=2.0)
    error = 0.5 * theory.w0 - theory.beta_star
    g_a, g_w = theory.w0 @ error, 0.5 * error
    expected = 0.1**2 * 0.5 * 2.0 * (0.5 * g_a**2 - 2.0 * g_w @ g_w)
    assert drift_per_step(theory, [0.0], 0.1).delta.item() == pytest.approx(expected, rel=1e-12)


def test_the_largest_stable_step_separates_convergence_from_divergence() -> None:
    model = LinearModel(eigenvalues=[4.0, 1.0], coefficients=[1.0, 1.0])
    limit = float(largest_stable_step(model))
    assert descend(model, 0.99 * limit, [2000]).loss.item() < 1e-12
    assert descend(model, 1.01 * limit, [1000]).loss.item() > 1e6
    net = WideScalar(u0=[1.0, 0.5], w0=[[0.3], [1.0]], x=[1.5], y=2.0)
    limit = float(largest_stable_step(net))
    assert descend(net, 0.9 * limit, [5000]).loss.item() < 1e-20
    assert limit == pytest.approx(1 / net.limit().kernel.item(), rel=1e-6)
    with pytest.raises(OutsideTheoryError, match="diverged before step .* Use less than largest_stable_step"):
        descend(net, 20 * limit, [500])


def test_the_largest_stable_step_knows_the_inputs_of_a_wide_network(seed: int) -> None:
    rng = np.random.default_rng([seed, 41])
    A, W, target = rng.normal(size=(3, 2)), rng.normal(size=(3, 4)), rng.normal(size=(4, 2))
    gram = np.cov(rng.normal(size=(4, 30))) * np.outer(*[np.array([2.0, 1.0, 0.5, 0.2])] * 2)
    for rates in ({"eta_a": 0.0}, {"eta_w": 0.0}):  # the kernel stands still: the border is sharp
        net = IsotropicNetwork(A0=A, W0=W, beta_star=target, input_gram=gram).with_(**rates)
        limit = float(largest_stable_step(net))
        assert descend(net, 0.99 * limit, [3000]).loss.item() < descend(net, 0.99 * limit, [0]).loss.item()
        assert descend(net, 1.01 * limit, [3000]).loss.item() > 1e6
    white = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=1.0, delta=0.5, rng=seed)
    scaled = white.with_(input_gram=2.5)
    assert largest_stable_step(scaled) == pytest.approx(largest_stable_step(white) / 2.5, rel=1e-3)  # grids of times


def test_descend_stores_steps_and_times() -> None:
    run = descend(THEORIES[0], 0.1, [0, 3, 7])
    assert run.step.values.tolist() == [0, 3, 7] and run.t.values == pytest.approx([0.0, 0.3, 0.7])
    assert set(run.data_vars) == set(THEORIES[0].solve([0.0]).data_vars)
    for steps in ([], [3, 1], [-1], [0.5]):
        with pytest.raises(ParameterError, match="the steps must be increasing whole numbers ≥ 0"):
            descend(THEORIES[0], 0.1, steps)  # type: ignore[arg-type]
    for step in (0.0, -1.0, float("nan")):
        with pytest.raises(ParameterError, match="the step size must be > 0"):
            descend(THEORIES[0], step, [1])


@pytest.mark.parametrize("convention", ["KUN24", "XU24", "NAM24", "torch"])
def test_conventions_agree_with_gradient_descent_on_the_loss_itself(convention: str) -> None:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(12, 2)), rng.normal(size=12)
    scale = {"KUN24": 0.5, "XU24": 1 / 12, "NAM24": 1 / 24, "torch": 1 / 12}[convention]
    assert loss_scale(convention, examples=12) == pytest.approx(scale)
    residual = X @ [0.3, -0.1] - y
    loss = scale * residual @ residual
    assert convert_loss(loss, convention, "KUN24", examples=12) == pytest.approx(0.5 * residual @ residual)
    # The flow of a linear model under either loss, at the converted times and with the converted rates.
    at = lambda s, t: X.T @ y - X.T @ y + np.linalg.solve(X.T @ X, (np.eye(2) - _expm(-2 * s * t * X.T @ X)) @ X.T @ y)
    t = convert_time(0.05, "KUN24", convention, examples=12)
    np.testing.assert_allclose(at(scale, t), at(0.5, 0.05), rtol=1e-10)
    rate = convert_rate(1.0, "KUN24", convention, examples=12)
    np.testing.assert_allclose(at(scale * rate, 0.05), at(0.5, 0.05), rtol=1e-10)


def _expm(matrix: np.ndarray) -> np.ndarray:
    values, vectors = np.linalg.eigh(matrix)
    return vectors @ np.diag(np.exp(values)) @ vectors.T


def test_steps_and_times() -> None:
    assert steps_to_time(500, 0.01) == 5.0 and int(time_to_steps(5.0, 0.01)) == 500
    with pytest.raises(ParameterError, match="the rate of a step must be > 0"):
        steps_to_time(1, 0.0)
    with pytest.raises(UnknownNameError, match="No loss convention `KUN`. Did you mean KUN24"):
        loss_scale("KUN")
