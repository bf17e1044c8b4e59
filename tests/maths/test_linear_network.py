"""Two-layer linear networks: gradients of the mean loss, what is conserved, rotated modes, the logistic of a mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.maths.integrate import integrate
from richter.maths.linear_network import (
    aligned_product,
    descend,
    in_task_modes,
    layer_difference,
    layer_flow,
    linear_network,
    mode_weight_flow,
    rotated_flow,
    task_modes,
)
from richter.maths.logistic import greedy_mode
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close, assert_slope

D, P, C = 5, 7, 3


def drawn(seed: int, key: int, examples: int = 20) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng([seed, key])
    return (
        rng.standard_normal((examples, D)), rng.standard_normal((examples, C)), rng.standard_normal((D, P)),
        rng.standard_normal((P, C)),
    )  # fmt: skip


@pytest.mark.place(
    NAM24["Eq. 3.4"], NAM24["Eq. A.22"], NAM24["Eq. A.24"], NAM24["Eq. A.25"], NAM24["Eq. A.26"], NAM24["Eq. A.27"],
    NAM24["Eq. A.28"], NAM24["Eq. A.33"],
)  # fmt: skip
def test_the_flow_is_the_gradient_of_half_the_mean_square(seed: int, torch: Any) -> None:
    x, y, first, second = drawn(seed, 1)
    one, two = torch.tensor(first, requires_grad=True), torch.tensor(second, requires_grad=True)
    output = torch.tensor(x) @ one @ two
    assert_close(linear_network(x, first, second), output.detach().numpy(), IDENTITY, scale=10.0)
    (((output - torch.tensor(y)) ** 2).sum(dim=1).mean() / 2).backward()
    up, down = layer_flow(first, second, x.T @ x / 20, x.T @ y / 20)
    assert_close(up, -one.grad.numpy(), IDENTITY, scale=10.0)
    assert_close(down, -two.grad.numpy(), IDENTITY, scale=10.0)
    rest = x @ first @ second - y  # weight by weight, as A.25 and A.27
    i, j, k = 1, 4, 2
    assert_close(up[i, j], -np.mean(x[:, i] * (rest @ second[j])), IDENTITY, scale=10.0)
    assert_close(down[j, k], -np.mean((x @ first[:, j]) * rest[:, k]), IDENTITY, scale=10.0)


@pytest.mark.place(NAM24["Eq. A.29"], NAM24["Eq. A.31"])
def test_the_difference_of_the_layers_is_conserved_for_any_data(seed: int) -> None:
    x, y, first, second = drawn(seed, 2)
    moments, cross = x.T @ x / 20, x.T @ y / 20

    def flow(flat: np.ndarray) -> np.ndarray:
        rows = layer_flow(flat[: D * P].reshape(D, P), flat[D * P :].reshape(P, C), moments, cross)
        return np.concatenate([row.ravel() for row in rows])

    path = integrate(flow, np.concatenate([first.ravel(), second.ravel()]) / 2, np.array([0.0, 0.5, 4.0]))
    at = [layer_difference(path[: D * P, k].reshape(D, P), path[D * P :, k].reshape(P, C)) for k in range(3)]
    assert_close(at[1], at[0], SOLVED, scale=np.abs(at[0]).max())
    assert_close(at[2], at[0], SOLVED, scale=np.abs(at[0]).max())
    assert np.abs(path[:, 2] - path[:, 0]).max() > 0.05  # it did move
    up, down = layer_flow(first, second, moments, cross)  # and what is conserved is W₁ᵀW₁ − W₂W₂ᵀ, not their sum
    assert_close(first.T @ up, down @ second.T, IDENTITY, scale=np.abs(up).max() * 5)
    # Gradient descent drifts at first order in the step.
    steps, drift = np.array([4e-3, 2e-3, 1e-3]), []
    for step in steps:
        _, one, two = descend(first / 2, second / 2, moments, cross, step, round(1 / step), np.zeros(0, int))
        drift.append(np.abs(layer_difference(one, two) - layer_difference(first / 2, second / 2)).max())
    assert_slope(steps, drift, 1)


@pytest.mark.place(NAM24["Eq. A.30"], NAM24["Eq. A.32"], NAM24["Eq. A.34"], NAM24["Eq. A.35"], NAM24["Eq. A.36"])
def test_task_modes_turn_the_flow_into_a_diagonal_task(seed: int) -> None:
    x, y, first, second = drawn(seed, 3)
    cross = x.T @ y / 20
    U, rho, V = modes = task_modes(cross)
    assert_close(U * rho @ V.T, cross, IDENTITY, scale=np.abs(cross).max(), times=10)
    assert (np.diff(rho) < 0).all()
    assert_close(U.T @ cross @ V, np.diag(rho), IDENTITY, scale=rho[0], times=10)
    rotation, _ = np.linalg.qr(np.random.default_rng([seed, 4]).standard_normal((P, P)))
    # Inputs in the span of the modes only: the network in their coordinates follows the rotated flow.
    inside = U @ U.T @ first
    rows = layer_flow(inside, second, np.eye(D), cross)
    turned = rotated_flow(*in_task_modes(inside, second, modes, rotation), rho)
    for got, want in zip(turned, in_task_modes(*rows, modes, rotation), strict=True):
        assert_close(got, want, IDENTITY, scale=np.abs(want).max(), times=10)


@pytest.mark.place(NAM24["Eq. A.37"])
def test_rotated_layers_are_as_balanced(seed: int) -> None:
    x, y, first, second = drawn(seed, 8)
    U, _, V = np.linalg.svd(x.T @ y)  # all directions: full bases
    R, _ = np.linalg.qr(np.random.default_rng([seed, 9]).standard_normal((P, P)))
    rotated = layer_difference(U.T @ first @ R.T, R @ second @ V.T)
    assert_close(rotated, R @ layer_difference(first, second) @ R.T, IDENTITY, scale=20.0)


@pytest.mark.place(NAM24["Eq. A.38"], NAM24["Eq. A.40"], NAM24["Eq. 3.15"])
def test_balanced_aligned_layers_stay_so_and_their_modes_are_logistic(seed: int) -> None:
    x, y, *_ = drawn(seed, 5)
    U, rho, V = modes = task_modes(x.T @ y / 20)
    rng = np.random.default_rng([seed, 6])
    R, _ = np.linalg.qr(rng.standard_normal((P, P)))
    start = np.sqrt(rho) * np.array([1e-3, 0.1, 0.9])
    first, second = U * start @ R[:C], R[:C].T * start @ V.T
    assert np.abs(layer_difference(first, second)).max() < 1e-14
    assert_close(aligned_product(start, modes), first @ second, IDENTITY, scale=np.abs(first @ second).max(), times=10)
    t = np.array([0.0, 1.0, 5.0, 20.0]) / rho[0]
    path = integrate(lambda a: mode_weight_flow(a, rho), start, t)
    assert_close(path**2 / rho[:, None], greedy_mode(t, start[:, None] ** 2, rho[:, None]), SOLVED, scale=1.0)
    # Small steps of the whole network end where the modes do, at first order in the step.
    steps, off = np.array([0.02, 0.01, 0.005]) / rho[0], []
    for step in steps:
        _, one, two = descend(first, second, np.eye(D), x.T @ y / 20, step, round(5 / rho[0] / step), np.zeros(0, int))
        off.append(np.abs(one @ two - aligned_product(path[:, 2], modes)).max())
    assert_slope(steps, off, 1, within=0.1)  # steps near 1 % of the rate


def test_descent_is_looked_at_when_asked(seed: int) -> None:
    x, y, first, second = drawn(seed, 7)
    moments, cross = x.T @ x / 20, x.T @ y / 20
    path, one, two = descend(first, second, moments, cross, 1e-3, 5, np.array([0, 2, 5]))
    assert len(path) == 3 and np.array_equal(path[0][0], first) and np.array_equal(path[2][1], two)
    again, *_ = descend(first, second, moments, cross, 1e-3, 2, np.array([2]))
    assert np.array_equal(path[1][0], again[0][0]) and not np.array_equal(one, first)
