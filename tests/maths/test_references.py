"""The references solve the differential equations they are made for, to 50 digits."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from mpmath import mp

from tests.maths.starts import Floats, Starts, diagonal_starts, linear_starts, neuron_starts, scalar_starts, wide_starts
from tests.references import networks
from tests.references.neuron import flow as neuron_flow
from tests.references.neuron import neuron
from tests.references.precision import DIGITS, Number, Outputs

FIFTY = mp.mpf(10) ** -50
Made = tuple[Callable[[int], tuple[Starts, Floats]], Callable[[list[Number]], Outputs], tuple[str, ...], Any]


def neuron_slope(inputs: list[Number], state: list[list[Number]]) -> list[Number]:
    da, dw = neuron_flow(state[0][0], state[1], inputs[4:7], *inputs[7:9])
    return [da, *dw]


def wide_slope(inputs: list[Number], state: list[list[Number]]) -> list[Number]:
    rows = [state[1][0:2], state[1][2:4]]
    return networks.wide_flow(state[0], rows, inputs[6:8], inputs[8], inputs[9], inputs[10:12])


def scalar_slope(inputs: list[Number], state: list[list[Number]]) -> list[Number]:
    a, b = state
    S, Z, variance, eta_a, eta_b = inputs[4:9]
    pull = variance / Z * (sum(x * y for x, y in zip(a, b, strict=True)) / Z - S)
    return networks.product_flow(a, b, [pull, pull], [eta_a, eta_b])


def diagonal_slope(inputs: list[Number], state: list[list[Number]]) -> list[Number]:
    a, b = state
    pull = [v * (x * y - s) for v, x, y, s in zip(inputs[6:8], a, b, inputs[4:6], strict=True)]
    return networks.product_flow(a, b, pull, inputs[8:10])


def linear_slope(inputs: list[Number], state: list[list[Number]]) -> list[Number]:
    return [-inputs[4] * r * (c - g) for r, g, c in zip(inputs[:2], inputs[2:4], state[0], strict=True)]


REFERENCES: dict[str, Made] = {
    "neuron": (lambda seed: neuron_starts(seed, 3, 60), neuron, ("a", "w"), neuron_slope),
    "wide": (lambda seed: wide_starts(seed, 2, 2, 60), lambda x: networks.wide(x, 2, 2), ("u", "w"), wide_slope),
    "scalar": (lambda seed: scalar_starts(seed, 2, 60), lambda x: networks.scalar(x, 2), ("a", "b"), scalar_slope),
    "diagonal": (
        lambda seed: diagonal_starts(seed, 2, 60), lambda x: networks.diagonal(x, 2), ("a", "b"), diagonal_slope
    ),
    "linear": (lambda seed: linear_starts(seed, 2, 60), lambda x: networks.linear(x, 2), ("output",), linear_slope),
}  # fmt: skip
STARTS = {
    "neuron": ("a0", "w0"), "wide": ("u0", "w0"), "scalar": ("a0", "b0"), "diagonal": ("a0", "b0"),
    "linear": ("initial_output",),
}  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_solves_its_flow(name: str, seed: int) -> None:
    make, solve, states, slope = REFERENCES[name]
    given, times = make(seed)
    read = lambda inputs, t: [solve([*inputs, t])[state] for state in states]
    flat = lambda state: [x for part in state for x in part]
    checked = 0
    with mp.workdps(DIGITS):
        for i in range(len(times)):
            inputs = [mp.mpf(float(x)) for values in given.values() for x in np.ravel(values[i])]
            t = mp.mpf(float(times[i, 0]))
            start = [float(x) for key in STARTS[name] for x in np.ravel(given[key][i])]
            assert flat(read(inputs, mp.mpf(0))) == start
            if not (t and mp.isfinite(t)):
                continue
            h = t * mp.mpf(10) ** -60
            now = read(inputs, t)
            ahead, behind = flat(read(inputs, t + h)), flat(read(inputs, t - h))
            expected = slope(inputs, now)
            size = max(map(abs, expected)) + max(map(abs, flat(now))) / t
            slopes = [(x - y) / (2 * h) for x, y in zip(ahead, behind, strict=True)]
            assert max(abs(x - y) for x, y in zip(slopes, expected, strict=True)) <= FIFTY * size
            checked += 1
    assert checked > 30


@pytest.mark.parametrize("name", REFERENCES)
def test_reference_ends_where_it_stays(name: str, seed: int) -> None:
    make, solve, states, slope = REFERENCES[name]
    given, _ = make(seed)
    with mp.workdps(DIGITS):
        for i in range(30):
            inputs = [mp.mpf(float(x)) for values in given.values() for x in np.ravel(values[i])]
            end, late = (solve([*inputs, t]) for t in (mp.inf, mp.mpf(10) ** 200))
            moving = max(map(abs, slope(inputs, [end[state] for state in states])))
            for state in states:
                size = max(map(abs, [*end[state], *late[state]]))
                # On the saddle's axis some starts arrive like 1/√t only.
                assert all(
                    abs(x - y) <= mp.mpf(10) ** -45 * (1 + size) for x, y in zip(end[state], late[state], strict=True)
                )
                assert moving <= FIFTY * (1 + max(map(abs, inputs)) ** 8)


def test_a_wrong_reference_is_noticed_control() -> None:
    inputs = [mp.mpf(x) for x in (0.3, 1, -2, 0.5, 0.6, 0.8, 1.0, 2, 0.5)]
    with mp.workdps(DIGITS):
        t, h = mp.mpf("0.7"), mp.mpf(10) ** -60
        a = [neuron([*inputs, x])["a"][0] for x in (t - h, t + h)]
        state = neuron([*inputs, t])
        wrong = neuron_slope([*inputs[:-1], inputs[-1] * (1 + mp.mpf(10) ** -30)], [state["a"], state["w"]])
        right = neuron_slope(inputs, [state["a"], state["w"]])
        assert abs((a[1] - a[0]) / (2 * h) - right[0]) < FIFTY
        assert abs(wrong[1] - right[1]) > FIFTY
