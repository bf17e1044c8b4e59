from __future__ import annotations

import json

import numpy as np
import pytest
import torch

from richter.advice.fit import fit_recorded, fit_run
from richter.errors import ParameterError, UnknownNameError
from richter.probes import kernel_distance, ntk
from richter.theory import SingleNeuron, WideScalar
from richter.training import two_layer

STARTS = {
    "upstream": ((2.0, [0.05, 0.1]), 2.0),
    "downstream": ((0.2, [0.7, 0.6]), 12.0),
    "balanced": ((0.05, [0.03, 0.04]), 6.0),
}


@pytest.mark.parametrize("name", STARTS)
@pytest.mark.parametrize("unit", [1.0, 40.0])
def test_a_single_neurons_run_gives_back_its_imbalance_scale_and_rate(name: str, unit: float) -> None:
    (a, w), last = STARTS[name]
    ds = SingleNeuron(a0=a, w0=w, beta_star=[1.5, 0.0]).solve(np.linspace(0, last, 40))
    best = fit_run(unit * ds.t, 3.0 * ds.loss, ds.kernel_distance)[0]  # another clock, another unit of the loss
    length = float(np.linalg.norm(w))
    assert best.theory == "single-neuron" and best.misfit < 1e-6
    assert best.parameters["delta"] == pytest.approx((a**2 - length**2) / 1.5, abs=1e-4)
    assert best.parameters["scale"] == pytest.approx(a * length / 1.5, rel=1e-3)
    assert best.parameters["rate"] == pytest.approx(1.5 / unit, rel=1e-3)
    assert best.parameters["alignment"] == pytest.approx(w[0] / length, abs=1e-3)


def test_a_wide_networks_run_gives_back_its_halves() -> None:
    theory = WideScalar(u0=[0.1, 0.3], w0=[[0.2], [-0.1]], x=[1.0], y=1.0)
    ds = theory.solve(np.linspace(0, 4, 40))
    best = fit_run(ds.t, ds.loss, theories=("wide-scalar", "linear-model"))[0]
    p, q = theory.solve([0.0]).p.values[0], theory.solve([0.0]).q.values[0]
    assert best.theory == "wide-scalar" and best.misfit < 1e-8
    # two neurons in both: the sums that enter the law are the same
    assert best.parameters["P"] == pytest.approx(float((p**2).mean()), rel=1e-5)
    assert best.parameters["Q"] == pytest.approx(float((q**2).mean()), rel=1e-4)
    assert best.parameters["rate"] == pytest.approx(1.0, rel=1e-6)
    P, Q = float((p**2).mean()), float((q**2).mean())  # two neurons on x = 1: c = 2 in t_c⁻² = y² + 4c²PQ
    assert best.parameters["feature_share"] == pytest.approx(1 / (1 + 16 * P * Q), rel=1e-4)
    assert best.parameters["growth_end"] == pytest.approx(float(theory.limit().growth), rel=1e-4)


def test_a_floor_under_the_loss_is_taken_off() -> None:
    ds = SingleNeuron(a0=0.2, w0=[0.7, 0.6], beta_star=[1.5, 0.0]).solve(np.linspace(0, 12, 40))
    best = fit_run(ds.t, ds.loss + 0.4, floor=0.4, theories=("single-neuron",))[0]
    assert best.misfit < 1e-6 and best.parameters["rate"] == pytest.approx(1.5, rel=1e-2)


def test_a_theory_without_a_kernel_pays_for_one_that_moved() -> None:
    t = np.linspace(0, 5, 60)
    turned = 0.3 * (1 - np.exp(-t))
    fit = fit_run(t, np.exp(-2 * t), turned, theories=("wide-scalar",))[0]
    assert fit.misfit < 1e-3  # the loss alone is no difficulty
    assert fit.criterion > 60 * np.log(np.mean(turned**2))  # as if what is left unexplained were its misfit


def test_an_exponential_is_a_linear_model_and_not_more(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    t = np.linspace(0, 5, 60)
    loss = np.exp(-2 * 0.7 * t) * np.exp(0.02 * rng.standard_normal(60))
    fits = {fit.theory: fit for fit in fit_run(t, loss, np.abs(1e-4 * rng.standard_normal(60)))}
    assert fits["linear-model"].parameters["rate"] == pytest.approx(0.7, rel=0.02)
    low, high = fits["linear-model"].intervals["rate"]
    assert low < fits["linear-model"].parameters["rate"] < high and high - low < 0.1
    assert min(fits.values(), key=lambda fit: fit.criterion).misfit < 0.02
    # a sigmoidal run is none: the control
    sigmoid = SingleNeuron(a0=0.05, w0=[0.03, 0.04], beta_star=[1.5, 0.0]).solve(np.linspace(0, 6, 60))
    wrong = fit_run(sigmoid.t, sigmoid.loss, theories=("linear-model",))[0]
    assert wrong.misfit > 0.1


def test_with_noise_the_truth_lies_in_the_intervals(seed: int) -> None:
    """δ and scale of eight noisy runs; of 16 intervals of 95 % at most four may miss (probability below 1e-2)."""
    ds = SingleNeuron(a0=0.2, w0=[0.7, 0.6], beta_star=[1.5, 0.0]).solve(np.linspace(0, 12, 60))
    rng = np.random.default_rng([seed, 5])
    truth = {"delta": (0.2**2 - 0.85) / 1.5, "scale": 0.2 * 0.85**0.5 / 1.5}
    missed = 0
    for _ in range(8):
        seen = np.sqrt(ds.loss) + 0.003 * rng.standard_normal(60)
        turned = ds.kernel_distance + 0.003 * rng.standard_normal(60)
        fit = fit_run(ds.t, seen**2, turned, theories=("single-neuron",))[0]
        missed += sum(not fit.intervals[name][0] <= value <= fit.intervals[name][1] for name, value in truth.items())
    assert missed <= 4


def test_a_recorded_torch_run_of_a_linear_neuron_is_recognised() -> None:
    """Whitened inputs, gradient descent with small steps, the kernel by the probe."""
    import xarray as xr

    X = torch.linalg.qr(torch.randn(12, 3, dtype=torch.float64))[0]
    target = torch.tensor([1.2, 0.0, 0.5], dtype=torch.float64)
    net = two_layer([0.3], [[-0.2, 0.3, 0.1]], activation="linear", dtype=torch.float64)
    y, h = X @ target[:, None], 0.01
    steps, losses, turned = [], [], []
    K0 = ntk(net, X, outputs="trace")
    for step in range(801):
        loss = 0.5 * (net(X) - y).square().sum()
        if step % 20 == 0:
            steps.append(step)
            losses.append(float(loss.detach()))
            turned.append(float(kernel_distance(ntk(net, X, outputs="trace"), K0)))
        net.zero_grad()
        loss.backward()
        with torch.no_grad():
            for p in net.parameters():
                assert p.grad is not None
                p.sub_(h * p.grad)
    ds = xr.Dataset({"loss": ("step", losses), "kernel_distance_trace": ("step", turned)}, {"step": steps})
    best = fit_recorded(ds, rate=h, inputs=3)[0]
    size, w = float(target.norm()), np.array([-0.2, 0.3, 0.1])
    length = float(np.linalg.norm(w))
    assert best.theory == "single-neuron" and best.misfit < 5e-3
    truth = {
        "rate": size, "delta": (0.3**2 - length**2) / size, "scale": 0.3 * length / size,
        "alignment": float(w @ target.numpy()) / (length * size),
    }  # fmt: skip
    for name, value in truth.items():  # gradient descent with steps of 0.01 is the flow to about 1 %
        assert best.parameters[name] == pytest.approx(value, rel=0.05, abs=0.01), name
    # the control: with the kernel of another dimension it is worse
    assert fit_recorded(ds, rate=h, inputs=2, theories=("single-neuron",))[0].misfit > 2 * best.misfit


@pytest.mark.parametrize("inputs", [2, 5])
def test_the_number_of_inputs_is_that_of_the_kernel(inputs: int) -> None:
    rest = [0.0] * (inputs - 2)
    ds = SingleNeuron(a0=0.3, w0=[0.1, 0.2, *rest], beta_star=[1.5, 0.0, *rest]).solve(np.linspace(0, 6, 40))
    best = fit_run(ds.t, ds.loss, ds.kernel_distance, theories=("single-neuron",), inputs=inputs)[0]
    assert best.misfit < 1e-6
    assert best.parameters["delta"] == pytest.approx((0.3**2 - 0.05) / 1.5, abs=1e-4)


def test_fits_are_text_and_data_and_wrong_requests_are_told() -> None:
    t = np.linspace(0, 3, 20)
    fit = fit_run(t, np.exp(-t))[0]
    json.dumps(fit.plain(), allow_nan=False)
    assert "misfit" in str(fit) and fit.curve.shape == (20,)
    with pytest.raises(ParameterError, match="at least 8 numbers each"):
        fit_run([0, 1], [1, 0])
    with pytest.raises(ParameterError, match="times must rise from 0 on"):
        fit_run(-t, np.exp(-t))
    with pytest.raises(ParameterError, match="be above the floor"):
        fit_run(t, np.exp(-t), floor=2.0)
    with pytest.raises(ParameterError, match="`inputs` must be a whole number ≥ 2. Got 1"):
        fit_run(t, np.exp(-t), inputs=1)
    with pytest.raises(UnknownNameError, match="No theory to fit named `neuron`"):
        fit_run(t, np.exp(-t), theories=("neuron",))
