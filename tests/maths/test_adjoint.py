"""Derivatives of the solutions against the adjoint of an integration that knows nothing of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from richter.maths.linear import linear_modes
from richter.maths.neuron import solve_neuron
from richter.maths.pair import layer_pair, solve_pair
from richter.testing.tolerances import SOLVED, assert_close
from tests.maths.ode import Floats

Flow = Callable[[Any, Any], Any]
Solve = Callable[[Any, Any, Any], Any]


def slopes(function: Callable[[Any], Any], at: Floats) -> Floats:
    """The Jacobian by complex steps, exact to rounding for a polynomial."""
    step = 1e-30
    columns = [np.imag(function(at + 1j * step * unit)) / step for unit in np.eye(at.size)]
    return np.stack(columns, -1)


def adjoint(flow: Flow, start: Floats, inputs: Floats, time: float, weights: Floats) -> Floats:
    """The gradient of weights·x(time) with respect to (start, inputs, time), by integrating back λ' = −Jᵀλ."""
    from scipy.integrate import solve_ivp

    precise: dict[str, Any] = {"method": "DOP853", "rtol": 1e-13, "atol": 1e-14}
    forth = solve_ivp(lambda _, x: flow(x, inputs), (0, time), start, dense_output=True, **precise)
    n = start.size

    def back(s: float, z: Floats) -> Floats:
        x = forth.sol(time - s)
        by_state = slopes(lambda y: flow(y, inputs), x)
        by_input = slopes(lambda p: flow(x, p), inputs)
        return np.concatenate([by_state.T @ z[:n], by_input.T @ z[:n]])

    done = solve_ivp(back, (0, time), np.concatenate([weights, np.zeros(inputs.size)]), **precise)
    assert forth.success and done.success
    return np.concatenate([done.y[:, -1], [weights @ flow(forth.y[:, -1], inputs)]])


def neuron_flow(x: Any, inputs: Any) -> Any:
    a, w, target, eta_a, eta_w = x[0], x[1:], inputs[:2], inputs[2], inputs[3]
    error = target - a * w
    return np.concatenate([np.reshape(eta_a * (w @ error), 1), eta_w * a * error])


def neuron(start: Any, inputs: Any, t: Any) -> list[Any]:
    out = solve_neuron(t, start[0], start[1:], inputs[:2], inputs[2], inputs[3], only=("a", "w"))
    return [out["a"], out["w"][0], out["w"][1]]


def pair_flow(x: Any, inputs: Any) -> Any:
    u, v, (target, scale, clock, eta_u, eta_v) = x[:2], x[2:], inputs
    error = clock * scale * (target - scale * (u @ v))
    return np.concatenate([eta_u * error * v, eta_v * error * u])


def pair(start: Any, inputs: Any, t: Any) -> list[Any]:
    out = solve_pair(layer_pair(start[:2], start[2:], *inputs), t, only=("u", "v"))
    return [out["u"][0], out["u"][1], out["v"][0], out["v"][1]]


def linear_flow(x: Any, inputs: Any) -> Any:
    return inputs[4] * inputs[:2] * (inputs[2:4] - x)


def linear(start: Any, inputs: Any, t: Any) -> list[Any]:
    made, _ = linear_modes(t, inputs[:2], inputs[2:4], inputs[4], start)
    return [made[0], made[1]]


MADE: dict[str, tuple[Flow, Solve, int, tuple[float, ...]]] = {
    # start; inputs; time
    "neuron, upstream": (neuron_flow, neuron, 3, (3.0, 0.3, -0.5, 1.0, 0.4, 0.8, 1.3, 0.4)),
    "neuron, balanced": (neuron_flow, neuron, 3, (0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, 0.9)),
    "neuron, downstream": (neuron_flow, neuron, 3, (0.2, -2.0, -1.5, 1.0, 0.4, 0.8, 1.3, 0.6)),
    "neuron, a = 0": (neuron_flow, neuron, 3, (0.0, 0.3, -0.5, 1.0, 0.4, 0.8, 1.3, 0.9)),
    "neuron, w frozen": (neuron_flow, neuron, 3, (0.7, 0.3, -0.5, 1.0, 0.4, 0.8, 0.0, 0.9)),
    "pair": (pair_flow, pair, 4, (0.7, -0.2, 0.3, 0.5, 1.0, 0.6, 2.0, 0.8, 1.3, 0.4)),
    "pair, falling": (pair_flow, pair, 4, (0.7, 0.2, 0.9, 0.5, 0.1, 1.2, 1.0, 0.8, 1.3, 0.7)),
    "pair, P = 0": (pair_flow, pair, 4, (0.5, -0.25, -0.5, 0.25, 1.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "linear": (linear_flow, linear, 2, (0.3, -0.2, 1.0, 0.25, 0.7, 0.9, 0.8, 1.5)),
}


@pytest.mark.parametrize("name", MADE)
def test_gradients_are_those_of_the_adjoint(name: str, torch: Any, seed: int) -> None:
    flow, solve, states, numbers = MADE[name]
    start, inputs, time = np.array(numbers[:states]), np.array(numbers[states:-1]), numbers[-1]
    weights = np.random.default_rng([seed, 7]).standard_normal(states)
    x = torch.tensor(numbers, dtype=torch.float64, requires_grad=True)
    ends = solve(x[:states], x[states:-1], x[-1])
    sum(w * end for w, end in zip(weights, ends, strict=True)).backward()
    got, want = x.grad.numpy().copy(), adjoint(flow, start, inputs, time, weights)
    frozen = np.flatnonzero(np.array(numbers) == 0.0)
    frozen = frozen[frozen >= states]  # a rate of 0 has a one-sided derivative alone
    got[frozen] = want[frozen] = 0.0
    assert_close(got, want, SOLVED, scale=float(np.abs(want).max()), says="gradient against the adjoint")
