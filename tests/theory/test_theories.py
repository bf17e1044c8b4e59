"""What each theory offers beyond the laws."""

from __future__ import annotations

import numpy as np
import pytest

from richter.errors import OutsideTheoryError, ParameterError
from richter.maths.line import reduce_line
from richter.maths.linear import flow_weights
from richter.refs import KUN24, NAM24, XU24
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar
from richter.theory.horizon import horizon
from richter.theory.starts import mean_and_spread


@pytest.mark.place(KUN24["Eq. 33"])
def test_the_basin_margin_names_the_branch_of_ten_thousand_starts() -> None:
    rng = np.random.default_rng(5)
    draws = 10_000
    theory = SingleNeuron(
        a0=rng.normal(size=draws), w0=2 * rng.normal(size=(draws, 3)), beta_star=[0.4, -0.3, 0.5],
        eta_a=10 ** rng.uniform(-1, 1, draws), eta_w=10 ** rng.uniform(-1, 1, draws),
    )  # fmt: skip
    ends = np.sign(theory.limit(only=("a",)).a.values)
    assert np.array_equal(ends, np.sign(theory.basin_margin()))
    crossed = np.sign(theory.a0) != ends
    assert 100 < crossed.sum() and np.all(theory.delta[crossed] < 0)


def test_from_imbalance_has_the_function_and_the_imbalance_asked_for() -> None:
    deltas = np.array([-1e6, -1.0, 0.0, 1e-9, 1.0, 1e6])
    theory = SingleNeuron.from_imbalance(
        beta0=[-1.0, 0.5], delta=deltas, beta_star=[0.0, 1.0], eta_a=0.5, eta_w=[2.0, 1.0, 3.0, 1.0, 1.0, 0.1]
    )
    np.testing.assert_allclose(theory.a0[:, None] * theory.w0, np.tile([-1.0, 0.5], (6, 1)), rtol=1e-14)
    np.testing.assert_allclose(theory.delta, deltas, rtol=1e-12, atol=1e-14)  # δ = 0 is a difference of squares of 1
    with pytest.raises(ParameterError, match="broadcast against each other"):
        SingleNeuron.from_imbalance(beta0=[[1.0, 0.0]] * 2, delta=[1.0, 2.0, 3.0], beta_star=[0.0, 1.0])


def test_kernel_distance_keeps_its_digits_far_upstream_and_downstream() -> None:
    # At δ = ±10⁶ the kernel turns by angles whose cosine is 1 in double precision.
    theory = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=[-1e6, 1e6], beta_star=[0.0, 1.0])
    early = theory.solve([1e-8], only=("kernel_distance",)).kernel_distance.values[:, 0]
    assert np.all(early > 0) and np.all(early < 1e-12)


@pytest.mark.place(XU24["Prop. 1"], XU24["App. A.1"])
def test_a_data_set_on_a_line_trains_like_its_one_point() -> None:
    from richter.maths.integrate import integrate

    rng = np.random.default_rng(2)
    n = np.array([0.6, -0.8, 0.0])
    a, targets = rng.normal(size=20), rng.normal(size=20)
    u0, w0 = rng.normal(size=4), rng.normal(size=(4, 3))
    net = WideScalar.from_data(inputs=a[:, None] * n, targets=targets, u0=u0, w0=w0, gamma=0.7, eta_u=0.5)

    def flow(flat: np.ndarray) -> np.ndarray:  # gradient flow on the mean loss of all 20 examples
        u, w = flat[:4], flat[4:].reshape(4, 3)
        inputs = a[:, None] * n
        error = 0.7 * inputs @ (w.T @ u) - targets
        pull = 2 * 0.7 * error @ inputs / 20
        return np.concatenate([-0.5 * w @ pull, -np.outer(u, pull).ravel()])

    path = integrate(flow, np.concatenate([u0, w0.ravel()]), np.array([0.0, 0.5, 2.0]))
    exact = net.solve([0.0, 0.5, 2.0])
    np.testing.assert_allclose(exact.u.values, path[:4].T, rtol=1e-8)
    np.testing.assert_allclose(exact.w.values.reshape(3, -1), path[4:].T, rtol=1e-8)
    offset = reduce_line(a[:, None] * n, targets)[2]
    loss = np.mean((0.7 * (a[:, None] * n) @ (w0.T @ u0) - targets) ** 2)
    assert exact.loss[0].item() + offset == pytest.approx(loss, rel=1e-12)
    # As printed in A.1 (sums instead of means) the flow is 20 times too fast.
    printed = net.with_(x=np.sqrt(20) * net.x, y=np.sqrt(20) * net.y)
    assert abs(printed.solve([0.05]).u.values - net.solve([0.05]).u.values).max() > 0.05
    np.testing.assert_allclose(printed.solve([0.05]).u.values, net.solve([1.0]).u.values, rtol=1e-12)


def test_directions_without_data_never_move() -> None:
    net = WideScalar.random(width=3, x=[1.0, 2.0, 0.0], draws=5)
    across = np.array([2.0, -1.0, 0.0])
    w = net.solve([0.0, 1.0, np.inf]).w.values @ across
    np.testing.assert_allclose(w, np.broadcast_to(w[:, :1], w.shape), rtol=0, atol=1e-14)  # of numbers of size 1


def test_data_off_a_line_is_refused() -> None:
    with pytest.raises(OutsideTheoryError, match="a second direction of relative size"):
        WideScalar.from_data(inputs=[[1.0, 0.0], [0.0, 1.0]], targets=[1.0, 1.0], u0=[1.0], w0=[[1.0, 1.0]])
    with pytest.raises(ParameterError, match="`inputs` must not all be 0"):
        reduce_line([[0.0, 0.0]], [1.0])


@pytest.mark.place(NAM24["Eq. A.8"], NAM24["App. A.2"])
def test_the_linear_model_ends_at_the_minimum_norm_solution() -> None:
    rng = np.random.default_rng(4)
    for p, n in ((12, 5), (5, 12)):
        features, targets = rng.normal(size=(p, n)), rng.normal(size=n)
        end = flow_weights(features, targets, np.inf)
        np.testing.assert_allclose(end, targets @ np.linalg.pinv(features), rtol=1e-10)
        model = LinearModel.from_features(features=features, targets=targets, eta=0.3)
        t = np.array([0.0, 0.7, 3.0])
        # The theory runs on the mean loss: its clock is n times slower than Eq. A.9's sum.
        residual = flow_weights(features, targets, t / n, eta=0.3) @ features - targets
        outside = np.sum(targets**2) / n - np.sum(model.coefficients**2)
        np.testing.assert_allclose(model.solve(t).loss.values, (np.mean(residual**2, axis=1) - outside) / 2, rtol=1e-10)


def test_modes_emerge_in_the_order_of_their_strength() -> None:
    net = DiagonalNetwork(a0=1e-2, b0=[2e-2, -1e-2, 1e-2], target=[1.0, -2.0, 0.5], input_variance=[1.0, 1.0, 3.0])
    ds = net.solve(np.linspace(0, 40, 4001), only=("output",))
    for epsilon in (0.05, 0.3):
        first = net.emergence_time(epsilon)
        seen = [float(ds.t[np.argmax(ds.output.values[:, i] / net.target[i] >= epsilon)]) for i in range(3)]
        np.testing.assert_allclose(first, seen, atol=0.011)  # the grid of times
    assert net.order().tolist() == np.argsort(net.emergence_time(0.499)).tolist()
    with pytest.raises(ParameterError, match="`epsilon` must lie between 0 and ½. Got 0.7."):
        net.emergence_time(0.7)


def test_modes_that_never_or_already_emerged() -> None:
    net = DiagonalNetwork(a0=[0.1, 1.0, 0.3], b0=[-0.1, 1.0, 0.3], target=[1.0, 1.0, 0.0])
    assert net.emergence_time(0.1).tolist()[:2] == [np.inf, 0.0]
    assert np.isnan(net.emergence_time(0.1)[2])
    frozen = DiagonalNetwork(a0=[1.0], b0=[0.0], target=[2.0], eta_a=0.0)
    assert frozen.emergence_time(0.25).item() == pytest.approx(-np.log(0.75), rel=1e-12)


def test_random_starts_give_mean_and_spread() -> None:
    ds = SingleNeuron.random(beta_star=[1.0, 0.0], sigma_a=0.5, sigma_w=2.0, draws=20_000, rng=1).solve([0.0])
    spread = mean_and_spread(ds)
    a = spread.a.sel(statistic=["mean", "standard deviation", "standard error"]).values[:, 0]
    assert abs(a[0]) < 4 * a[2] and a[1] == pytest.approx(0.5, rel=0.03) and a[2] == pytest.approx(a[1] / np.sqrt(2e4))
    assert spread.w.sel(statistic="standard deviation").values == pytest.approx(2.0, rel=0.03)
    assert spread.a.sel(statistic="draws").item() == 20_000
    again = SingleNeuron.random(beta_star=[1.0, 0.0], draws=3, rng=np.random.default_rng(1))
    assert np.array_equal(again.a0, SingleNeuron.random(beta_star=[1.0, 0.0], draws=3, rng=1).a0)
    with pytest.raises(ParameterError, match="`over` must be one of start, t"):
        mean_and_spread(ds, over="strat")


@pytest.mark.place(XU24["Eq. 4"])
def test_gaussian_starts_have_the_papers_p_and_q() -> None:
    # Eq. 14's text: mean (η_w σ_u² + η_u σ_w²)/4, variance (·)²/8d.
    d, draws, eta_u, eta_w, sigma_u, sigma_w = 40, 4000, 0.5, 2.0, 1.5, 0.7
    net = WideScalar.random(width=d, sigma_u=sigma_u, sigma_w=sigma_w, eta_u=eta_u, eta_w=eta_w, draws=draws, rng=8)
    P = (net.solve([0.0], only=("p",)).p.values[:, 0] ** 2).mean(axis=1)
    expected = (eta_w * sigma_u**2 + eta_u * sigma_w**2) / 4
    assert abs(P.mean() - expected) < 4 * P.std() / np.sqrt(draws)
    variance = (4 * expected) ** 2 / (8 * d)
    assert P.var() == pytest.approx(variance, rel=4 * np.sqrt(2 / draws) * 1.5)


def test_wide_networks_of_a_hundred_thousand_neurons() -> None:
    net = WideScalar.random(width=100_000, gamma=1e-5, draws=2, rng=0)
    ds = net.solve([0.0, 1.0, np.inf], only=("output", "alignment", "kernel", "loss"))
    assert ds.output.isel(t=-1).values == pytest.approx(1.0, rel=1e-12)
    assert np.isfinite(ds.alignment.values).all()


def test_the_horizon_is_where_the_loss_is_gone() -> None:
    for theory in (
        SingleNeuron(a0=1e-3, w0=[1e-3, 0.0], beta_star=[0.0, 1.0]), ScalarNetwork(a0=[0.1], b0=[0.1], target=2.0),
        LinearModel(eigenvalues=[1.0, 1e-4], coefficients=[1.0, 1.0]),
    ):  # fmt: skip
        end = horizon(theory)
        loss = theory.solve([0.0, end / 3, end], only=("loss",)).loss.values
        assert loss[2] <= 1e-3 * loss[0] < loss[1]
    assert horizon(SingleNeuron(a0=0.0, w0=[0.0], beta_star=[1.0])) == 1.0
