"""Starts, scales and batches at which a plausible implementation goes wrong."""

from __future__ import annotations

import time
from typing import Any

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.theory import (
    DiagonalNetwork,
    IsotropicNetwork,
    LinearModel,
    ScalarNetwork,
    SingleNeuron,
    WideScalar,
    interpolant,
)
from richter.theory.convert import convert_loss, time_to_steps
from richter.theory.discrete import descend, largest_stable_step
from richter.theory.finite_size import finite_size
from richter.theory.horizon import horizon


def _any(value: Any) -> Any:
    """A value of a type that the signature forbids."""
    return value


@pytest.mark.parametrize("delta", [-1e12, -1e9, -1e7, -1e5, -1e3, 1e5, 1e9])
def test_the_isotropic_network_far_from_balance_is_the_single_neuron(delta: float) -> None:
    neuron = SingleNeuron.from_imbalance(beta0=[-1.0, 0.2, 0.1], delta=delta, beta_star=[0.0, 1.0, 2.0])
    wide = IsotropicNetwork(A0=[[neuron.a0]], W0=[neuron.w0], beta_star=[[0.0], [1.0], [2.0]])
    t = [0.0, 0.1 / abs(delta), 1.0, 0.3 * abs(delta), 3 * abs(delta), np.inf]
    np.testing.assert_allclose(wide.solve(t).beta[..., 0], neuron.solve(t).beta, atol=1e-8)  # β of size 1
    assert wide.regime().label == neuron.regime().label


def test_wide_shapes_far_from_balance_reach_their_target() -> None:
    for shape, delta in (((3, 2, 2), -1e7), ((2, 2, 3), 1e7), ((4, 3, 2), -1e10)):
        d, h, c = shape
        target = np.random.default_rng(1).normal(size=(d, c))
        net = IsotropicNetwork.random(inputs=d, neurons=h, outputs=c, beta_star=target, delta=delta, scale=0.3)
        np.testing.assert_allclose(net.limit().beta.values, target, atol=1e-7)  # roundings of layers of size √|δ|


def test_isotropic_batches_broadcast_like_all_others() -> None:
    net = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=1.0)
    assert net.with_(eta_a=[1.0, 1.0]).solve([1.0]).beta.shape == (2, 1, 3, 2)
    targets = net.with_(beta_star=np.arange(1.0, 5.0)[:, None, None] * np.ones((3, 2))).solve([1.0, np.inf])
    np.testing.assert_allclose(targets.beta[:, 0], np.stack([
        net.with_(beta_star=k * np.ones((3, 2))).solve([1.0]).beta[0] for k in (1.0, 2.0, 3.0, 4.0)
    ]), rtol=1e-12)  # fmt: skip
    stacked = net.with_(A0=np.ones((4, 1, 1)) * net.A0)
    assert stacked.solve([1.0]).loss.shape == (4, 1) and stacked.regime().label.shape == (4,)
    step = largest_stable_step(net)
    assert step > 0 and descend(net, 0.5 * float(step), [400]).loss.item() < net.solve([0.0]).loss.item()


@pytest.mark.parametrize(
    "problem",
    [
        {"X": np.eye(2), "y": [0.0, 1.0], "a0": 1.0, "w0": [0.0, -1.0]},  # balanced and opposed: into the saddle
        {"X": [[1.0, 0.0]], "y": [1.0], "a0": 1.0, "w0": [-1.0, 0.0]},
        {"X": np.eye(2), "y": [0.0, 1.0], "a0": 0.0, "w0": [1.0, 0.0]},  # at rest
        {"X": [[1.0, 2.0]], "y": [1.0], "a0": 0.0, "w0": [2.0, -1.0]},
    ],
)
def test_interpolants_know_the_saddle(problem: dict[str, Any]) -> None:
    end = interpolant(**problem)
    assert end.a.item() == 0.0 and end.sign.item() == 0.0 and np.all(end.beta.values == 0.0)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: WideScalar(u0=[1e60], w0=[[1.0]], x=[1.0], y=1.0), "`u0` of WideScalar must be at most 1e+30"),
        (lambda: WideScalar(u0=[1.0], w0=[[1.0]], x=[1e-60], y=1.0), "`x` of WideScalar must be 0 or at least 1e-30"),
        (lambda: LinearModel(eigenvalues=[1.0], coefficients=[1e-200]), "`coefficients` of LinearModel must be 0 or"),
        (lambda: SingleNeuron.from_imbalance(beta0=-1, delta=0, beta_star=[1]), "`beta0` of from_imbalance must have"),
        (
            lambda: SingleNeuron.from_imbalance(beta0=[1, 0], delta=-1, beta_star=[1, 0], eta_a=0),
            "`eta_a` of from_imbalance must be > 0. Got 0.0.",
        ),
        (
            lambda: IsotropicNetwork.from_singular_values(
                beta_star=np.eye(2), values=[0.1], neurons=2, left=np.ones((2, 2))
            ),
            "`left` must be an orthogonal (2, 2) matrix.",
        ),
        (
            lambda: IsotropicNetwork.random(inputs=2, neurons=1, outputs=2, beta_star=np.ones((3, 3))),
            "`beta_star` must be a number or (2, 2). Got shape (3, 3).",
        ),
        (lambda: time_to_steps(np.inf, 0.1), "a time in steps must be finite. Got inf."),
        (
            lambda: finite_size(dict.fromkeys(("c_d", "c_gamma", "c_u", "c_w", "c_eta_u", "c_eta_w"), 0.0), [-1.0]),
            "`kappa`",
        ),
        (lambda: WideScalar.random(width=_any(3.0)), "`width` must be a whole number ≥ 1. Got 3.0."),
        (
            lambda: descend(LinearModel(eigenvalues=[1.0], coefficients=[1.0]), 0.1, _any(10)),
            "the steps must be increasing",
        ),
        (
            lambda: SingleNeuron.random(beta_star=[1, 0.0], draws=3).with_(batch=("input",)),
            "`batch` must be different names, none of them input.",
        ),
    ],
)
def test_what_cannot_be_solved_is_refused_in_one_line(make: Any, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize("scale", [1e-12, 1e-6, 1e6, 1e12])
def test_scales_far_from_one_are_solved(scale: float) -> None:
    made = [
        WideScalar(u0=[scale, -2 * scale], w0=[[scale], [0.5 * scale]], x=[1.0], y=scale**2),
        SingleNeuron(a0=scale, w0=[scale, -scale], beta_star=[scale**2, 0.0]),
        ScalarNetwork(a0=[scale, scale], b0=[scale, -2 * scale], target=scale**2),
        DiagonalNetwork(a0=scale, b0=[scale, 2 * scale], target=[scale**2, 2 * scale**2]),
        IsotropicNetwork(A0=[[scale]], W0=[[2 * scale]], beta_star=[[scale**2]]),
    ]
    unit = [
        type(m)(**{k: np.sign(v) * np.abs(v) ** 0 * _unit(v, scale) for k, v in m.params.items()}) for m in made[1:]
    ]
    for theory, one in zip(made[1:], unit, strict=True):
        big, small = theory.solve([0.0, 0.7 / scale**2, np.inf]), one.solve([0.0, 0.7, np.inf])
        for name in ("kernel_change", "alignment", "phi"):
            if name in big:
                np.testing.assert_allclose(big[name], small[name], rtol=1e-9, atol=1e-12)
    assert np.isfinite(made[0].solve([0.0, 1.0 / scale**2, np.inf]).output).all()


def _unit(value: np.ndarray, scale: float) -> np.ndarray:
    """Numbers without the powers of the scale they were made with."""
    size = np.abs(value)
    power = np.rint(np.log(np.where(size > 0, size, 1.0)) / np.log(scale))
    return size / scale**power


def test_labels_of_networks_that_cannot_move_agree() -> None:
    still: dict[str, Any] = {"eta_a": 0.0, "eta_w": 0.0}
    assert SingleNeuron(a0=1.0, w0=[1.0], beta_star=[2.0], **still).regime().label == "undefined"
    assert ScalarNetwork(a0=[1.0], b0=[0.5], target=1.0, eta_a=0.0, eta_b=0.0).regime().label == "undefined"
    assert DiagonalNetwork(a0=[1.0], b0=[0.5], target=1.0, eta_a=0.0, eta_b=0.0).regime().label == "undefined"
    assert LinearModel(eigenvalues=[0.0], coefficients=[1.0]).regime().label == "undefined"
    assert WideScalar(u0=[1.0], w0=[[2.0]], x=[1.0], y=1.0, eta_u=0.0, eta_w=0.0).regime().label == "frozen"


def test_starts_that_die_in_the_saddle_are_called_so() -> None:
    dying = WideScalar(u0=[1.0, 2.0], w0=[[-1.0], [-2.0]], x=[1.0], y=2.0).regime()
    assert dying.label == "rescaling" and "end in the saddle" in str(dying)
    assert WideScalar(u0=[1.0], w0=[[1.0]], x=[1.0], y=0.0).regime().label == "rescaling"
    nothing = WideScalar(u0=[0.0, 0.0], w0=[[1.0, 0.0], [1.0, 0.0]], x=[0.0, 1.0], y=1.0)
    assert nothing.limit().growth.item() == 1.0 and nothing.regime().label == "frozen"


def test_a_mode_that_never_arrives_does_not_hide_the_others_overlap() -> None:
    net = DiagonalNetwork(a0=0.01, b0=[0.01, 0.01, -0.01], target=[1.0, 2.0, 1.0])
    value = net.regime().evidence["stage_overlap"].value
    assert 0 < value < 0.5


def test_regimes_of_many_starts_take_their_share_of_time() -> None:
    start = time.perf_counter()
    SingleNeuron.random(beta_star=[0.0, 1.0], draws=2000).regime()
    net = IsotropicNetwork.random(inputs=2, neurons=2, outputs=2, beta_star=1.0)
    net.with_(A0=np.ones((300, 1, 1)) * net.A0).regime()
    assert time.perf_counter() - start < 20


def test_the_horizon_follows_the_rates() -> None:
    for eigenvalue in (1e-20, 1e12):
        end = horizon(LinearModel(eigenvalues=[eigenvalue], coefficients=[1.0]))
        assert 3 < end * eigenvalue < 10


def test_conversions_take_lists_and_big_integers_are_numbers() -> None:
    np.testing.assert_allclose(convert_loss([1.0, 2.0], "XU24", "NAM24"), [0.5, 1.0])
    assert SingleNeuron(a0=10**20, w0=[1.0], beta_star=[1.0]).a0.item() == 1e20
