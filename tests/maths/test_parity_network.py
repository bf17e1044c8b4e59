"""The parity network of four weights: exact solution, exact gradients, modes that saturate one after another."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.maths.parity_network import (
    mode_strengths,
    parity_flow,
    parity_modes,
    parity_of_three,
    parity_output,
    parity_path,
    parity_solution,
    shared_layers,
)
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close


def random_weights(seed: int, key: int) -> np.ndarray:
    rng = np.random.default_rng([seed, key])
    return np.array([*rng.uniform(0.05, 2.0, 3), rng.normal()])


def network(torch: Any, weights: Any) -> Any:
    """The network as torch writes it, from the printed Eq. C.9."""
    a, b, g, c = weights
    W = torch.stack([torch.stack([-a, a, -a]), torch.stack([-b, b, -b]), torch.stack([g, -g, g])])
    inputs = torch.tensor([[i // 4, i // 2 % 2, i % 2] for i in range(8)], dtype=torch.float64).T
    hidden = torch.relu(W @ inputs + torch.stack([0 * a, b, -g])[:, None])
    return torch.stack([-2 * a, b, g]) @ hidden + c


@pytest.mark.place(NAM24["Eq. C.7"], NAM24["Eq. C.9"])
def test_the_solution_computes_the_parity(seed: int) -> None:
    inputs, targets = parity_of_three(1.7)
    assert targets.tolist() == [1.7 * (-1) ** int(column.sum()) for column in inputs.T]
    assert_close(parity_output(parity_solution(1.7)), targets, IDENTITY)
    assert not np.abs(parity_flow(parity_solution(1.7), 1.7)).max() > 1e-13
    W, b, w = shared_layers(random_weights(seed, 70))
    assert W.shape == (3, 3) and b[0] == 0 and w[0] < 0 < w[1]


@pytest.mark.place(
    NAM24["Eq. C.8"], NAM24["Eq. C.10"], NAM24["Eq. C.11"], NAM24["Eq. C.12"], NAM24["Eq. C.15"], NAM24["Eq. C.16"],
    NAM24["Eq. C.17"], NAM24["Eq. C.18"],
)  # fmt: skip
def test_output_and_gradients_are_those_of_automatic_differentiation(seed: int, torch: Any) -> None:
    S, eta = 1.7, 0.3
    for key in range(71, 76):
        weights = random_weights(seed, key)
        given = torch.tensor(weights, requires_grad=True)
        output = network(torch, given)
        assert_close(parity_output(weights), output.detach().numpy(), IDENTITY, scale=5.0)
        assert_close(parity_modes(weights).sum(axis=0) + weights[3], output.detach().numpy(), IDENTITY, scale=5.0)
        ((output - torch.tensor(parity_of_three(S)[1])) ** 2).sum().div(2).backward()
        assert_close(parity_flow(weights, S, eta), -eta * given.grad.numpy(), IDENTITY, scale=50.0)
        first = -2 * weights[0] ** 2 * np.maximum([0, 0, 1, 0, -1, -2, 0, -1], 0.0)  # −2α²σ(x₂ − x₁ − x₃)
        assert_close(parity_modes(weights)[0], first, IDENTITY)
    printed = -0.25 * (S - (-2 * 0.49 + 5 * 0.25 + 5 * 0.2))  # dβ²/dt at α = 0.7, β = 0.5, c = 0.2
    assert abs(2 * 0.5 * parity_flow([0.7, 0.5, 1.0, 0.2], S)[1] - printed) > 0.1


@pytest.mark.place(NAM24["Eq. C.13"], NAM24["Eq. C.14"])
def test_mode_strengths_add_up_to_the_skill_strength(seed: int) -> None:
    weights = np.stack([random_weights(seed, key) for key in (77, 78)], axis=1)
    S = 2.3
    targets = parity_of_three(S)[1]
    by_definition = (targets / S) @ parity_output(weights) / 8  # Eq. 4.7; the constant c has no correlation
    assert_close(mode_strengths(weights, S).sum(axis=0), by_definition, IDENTITY, scale=1.0)
    assert_close(mode_strengths(weights, S, normalised=True) * S, mode_strengths(weights, S), IDENTITY, scale=1.0)
    assert_close(mode_strengths(parity_solution(S), S, normalised=True), [0.5, 0.25, 0.25], IDENTITY)


@pytest.mark.parametrize("start", [0.003, 0.01, 0.05])
def test_the_skill_is_a_sum_of_sigmoids_with_different_times(start: float) -> None:
    # N17: the modes saturate in the order α, β, γ, and the sum has a longer tail than one logistic.
    S = 5.0
    path = parity_path(np.linspace(0, 8, 801), [start, start, start, 0.0], S)
    assert path.loss[-1] < 1e-12 * path.loss[0]
    assert_close(path.modes[:, -1], [S / 2, S / 4, S / 4], SOLVED, times=100)
    half = path.half_times()
    assert half[0] < half[1] < half[2] and half[2] > 1.2 * half[0]
    for i in range(3):  # sigmoid-like: slow, fast, slow, with one steepest point
        speed = np.diff(path.modes[i])
        assert 10 * max(speed[0], speed[-1]) < speed.max()
    total = path.modes.sum(axis=0)
    # One logistic through the 10 % and the 50 % point is done earlier than the network.
    cross = lambda level: float(np.interp(level * S, total[: np.argmax(total)], path.t[: np.argmax(total)]))
    slope = np.log(9) / (cross(0.5) - cross(0.1))
    assert cross(0.9) > cross(0.5) + 1.2 * np.log(9) / slope
    assert (np.diff(path.loss) <= 1e-12).all()


def test_the_constant_follows_the_modes() -> None:
    # App. C.4's text has c saturate first; the target's mean is 0, so nothing drives c before the modes have risen.
    path = parity_path(np.linspace(0, 3, 301), [0.003] * 3 + [0.0], 5.0)
    early = path.modes.sum(axis=0) < 0.05
    assert early.sum() > 10 and np.abs(path.weights[3][early]).max() < 0.05
    assert path.weights[3][-1] == pytest.approx(-5.0, rel=1e-2)
