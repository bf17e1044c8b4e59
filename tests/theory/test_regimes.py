"""Regimes where they are known from the papers' limits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.refs import XU24
from richter.regime import DELAYED_BELOW, LAZY_BELOW
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar


def test_the_neuron_goes_from_delayed_rich_over_rich_to_lazy() -> None:
    deltas = np.array([-1e4, -100.0, -10.0, 0.0, 10.0, 100.0, 1e4])
    regime = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=deltas, beta_star=[0.0, 1.0]).regime()
    assert list(regime.label) == ["delayed-rich"] * 3 + ["rich"] + ["lazy"] * 3
    change, early = regime.evidence["kernel_change"], regime.evidence["early_share"]
    assert change.threshold == LAZY_BELOW and early.threshold == DELAYED_BELOW
    assert np.all(np.asarray(change.value)[4:] < LAZY_BELOW)
    assert list(np.asarray(regime.evidence["geometry"].value)) == ["downstream"] * 3 + ["balanced"] + ["upstream"] * 3


def test_mere_growth_of_the_kernel_is_not_lazy() -> None:
    grown = SingleNeuron(a0=1e-3, w0=[0.0, 1e-3], beta_star=[0.0, 1.0]).regime()
    assert grown.label == "rich"
    assert grown.evidence["kernel_distance"].value == pytest.approx(0.0, abs=1e-12)


def test_a_start_that_never_moves_has_no_movement() -> None:
    assert SingleNeuron(a0=0.7, w0=[0.5, 0.3], beta_star=[1.0, 0.0], eta_a=0.0).regime().label == "lazy"
    assert SingleNeuron(a0=0.0, w0=[0.0, 0.0], beta_star=[1.0, 0.0]).regime().label == "undefined"


@pytest.mark.place(XU24["Sec. 3.3"], XU24["Eq. 13"])
def test_mechanisms_of_the_wide_network() -> None:
    rng = np.random.default_rng(0)
    u, w = rng.normal(size=50), rng.normal(size=(50, 1))
    aligned = WideScalar(u0=u, w0=w, x=[1.0], y=3.0, gamma=1 / 50).regime()
    assert aligned.label == "alignment"
    v = u + 0.3 * rng.normal(size=50)
    assert WideScalar(u0=u, w0=v[:, None], x=[1.0], y=0.2, gamma=1 / 50).regime().label == "disalignment"
    assert WideScalar(u0=u, w0=u[:, None], x=[1.0], y=3.0, gamma=1 / 50).regime().label == "rescaling"
    assert WideScalar(u0=[1.0], w0=[[2.0]], x=[1.0], y=2.0).regime().label == "frozen"
    assert WideScalar(u0=u, w0=w, x=[1.0], y=-3.0, gamma=1 / 50).regime().label == "alignment"


@pytest.mark.place(XU24["Sec. 3.3"])
def test_the_four_cases_of_the_norms_are_what_the_norms_do() -> None:
    nets = WideScalar.random(width=3, y=0.7, gamma=0.8, draws=300, rng=3)
    said = np.asarray(nets.regime().evidence["norms"].value)
    times = np.concatenate([[0.0], np.geomspace(1e-4, 1e4, 600)])
    norm = (nets.solve(times, only=("u",)).u ** 2).sum("neuron").values
    step = np.diff(norm, axis=1)
    slack = 1e-12 * norm.max(axis=1, keepdims=True)
    grows, shrinks = (step >= -slack).all(axis=1), (step <= slack).all(axis=1)
    turn = np.argmax(step > slack, axis=1)
    both = np.array(
        [(s[:k] <= e).all() and (s[k:] >= -e).all() for s, k, e in zip(step, turn, slack[:, 0], strict=True)]
    )
    happened = {"norms grow": grows, "norms shrink": shrinks, "norms shrink, then grow": both & ~grows & ~shrinks}
    assert set(said) == set(happened), "the draw must hold all three cases"
    for words, seen in happened.items():
        assert seen[said == words].all(), words


@pytest.mark.place(XU24["Eq. 7"])
def test_the_learning_time_splits_into_features_and_kernel() -> None:
    def share(scale: float) -> float:
        rng = np.random.default_rng(1)
        u, w = scale * rng.normal(size=100), scale * rng.normal(size=(100, 1))
        regime = WideScalar(u0=u, w0=w, x=[1.0], y=1.0, gamma=0.1).regime()
        rates = (0.1 * 1.0) ** 2  # η_u η_w γ² ρ² y²
        total = float(regime.evidence["t_c"].value) ** -2
        value = float(regime.evidence["feature_share"].value)
        assert value == pytest.approx(rates / total, rel=1e-12)
        return value

    assert share(0.01) > 0.99 and share(3.0) < 0.01


def test_scalar_and_diagonal_networks_and_the_linear_model() -> None:
    signs: dict[str, Any] = {"a0": [1.0, -1.0], "b0": [1.0, 1.0]}
    assert ScalarNetwork(**signs, target=1e-2).regime().label == "lazy"
    assert ScalarNetwork(**signs, target=10.0).regime().label == "rich"
    stage = DiagonalNetwork(a0=1e-6, b0=1e-6, target=[1.0, 1.0], input_variance=[1.0, 0.2]).regime()
    assert stage.label == "rich" and float(stage.evidence["stage_overlap"].value) < 1e-4
    assert DiagonalNetwork(a0=10.0, b0=[-10.0, 10.0], target=1.0).regime().label == "rich"
    assert DiagonalNetwork(a0=100.0, b0=1e-3, target=[1.0, 2.0]).regime().label == "lazy"
    assert LinearModel(eigenvalues=[1.0], coefficients=[1.0]).regime().label == "lazy"


def test_a_regime_prints_its_numbers_and_is_plain_data() -> None:
    regime = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).regime()
    assert "kernel_change = 0.6325" in str(regime) and "(threshold 0.3)" in str(regime)
    plain = regime.plain()
    assert plain["label"] == "rich"
