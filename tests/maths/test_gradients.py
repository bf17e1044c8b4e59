"""Derivatives of the solutions by torch and jax, where they exist: at balance, on the axes, at 0 and at ∞."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from richter.maths.neuron import NEURON_OUTPUTS, solve_neuron
from richter.maths.pair import PAIR_OUTPUTS, layer_pair, solve_pair
from richter.testing.tolerances import DERIVATIVE, assert_close
from tests.maths.ode import Floats

Flat = Callable[[Any], dict[str, Any]]


@dataclass(frozen=True)
class Point:
    """Where to differentiate, and the outputs that have no derivative there."""

    at: tuple[float, ...]
    without: tuple[str, ...] = ()
    still: tuple[int, ...] = ()  # inputs that only have a one-sided derivative there


E = (0.8, 1.3)
NEURON = {  # a₀, w₀ (2), β* (2), η_a, η_w, t
    "ordinary": Point((0.7, 0.3, -0.5, 1.0, 0.4, *E, 0.9)),
    "upstream": Point((3.0, 0.3, -0.5, 1.0, 0.4, *E, 0.4)),
    "downstream": Point((0.2, -2.0, -1.5, 1.0, 0.4, *E, 0.6)),
    "negative": Point((-0.7, 0.3, 0.5, 1.0, -0.4, *E, 1.5)),
    "balanced": Point((0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, 0.9)),
    "balanced, early": Point((0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, 1e-3)),
    "balanced, late": Point((0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, 8.0)),
    "balanced, aligned": Point((0.625, 0.375, 0.5, 0.75, 1.0, 1.0, 1.0, 0.9)),
    "balanced, on the separatrix": Point((0.625, -0.375, -0.5, 0.75, 1.0, 1.0, 1.0, 0.9), ("kernel_distance",)),
    "a = 0": Point((0.0, 0.3, -0.5, 1.0, 0.4, *E, 0.9)),
    "a = 0, across": Point((0.0, 0.4, -1.0, 1.0, 0.4, *E, 0.9), ("mu", "kernel_change")),
    "aligned": Point((0.3, 2.0, 0.5, 1.0, 0.25, *E, 0.7)),
    "anti-aligned": Point((0.3, -2.0, -0.5, 1.0, 0.25, *E, 0.7)),
    "w = 0": Point((0.7, 0.0, 0.0, 1.0, 0.4, *E, 0.9)),
    "at rest": Point((0.0, 0.0, 0.0, 1.0, 0.4, *E, 0.9), ("mu", "phi", "kernel_distance", "kernel_change")),
    "at the start": Point((0.7, 0.3, -0.5, 1.0, 0.4, *E, 0.0), still=(7,)),
    "balanced, at the start": Point((0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, 0.0), still=(7,)),
    "w = 0, at the start": Point((0.7, 0.0, 0.0, 1.0, 0.4, *E, 0.0), ("mu", "phi"), (7,)),
    "at the end": Point((0.7, 0.3, -0.5, 1.0, 0.4, *E, np.inf), still=(7,)),
    "balanced, at the end": Point((0.625, 0.375, 0.5, 1.0, -0.4, 1.0, 1.0, np.inf), still=(7,)),
    "a = 0, at the end": Point((0.0, 0.3, -0.5, 1.0, 0.4, *E, np.inf), still=(7,)),
    "w = 0, at the end": Point((0.7, 0.0, 0.0, 1.0, 0.4, *E, np.inf), still=(7,)),
    "frozen a": Point((0.7, 0.3, -0.5, 1.0, 0.4, 0.0, 1.3, 0.9), still=(5,)),
    "frozen w": Point((0.7, 0.3, -0.5, 1.0, 0.4, 0.8, 0.0, 0.9), still=(6,)),
}
PAIR = {  # u₀ (2), v₀ (2), y, s, g, η_u, η_v, t
    "ordinary": Point((0.7, -0.2, 0.3, 0.5, 1.0, 0.6, 2.0, *E, 0.4)),
    "falling": Point((0.7, 0.2, 0.9, 0.5, 0.1, 1.2, 1.0, *E, 0.7)),
    "negative": Point((0.7, -0.2, 0.3, 0.5, -1.0, -0.6, 2.0, *E, 0.4)),
    "y = 0": Point((0.7, -0.2, 0.3, 0.5, 0.0, 0.6, 2.0, *E, 0.4)),
    "P = 0": Point((0.5, -0.25, -0.5, 0.25, 1.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "P = 0, falling": Point((0.5, -0.25, -0.5, 0.25, -1.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "Q = 0": Point((0.5, -0.25, 0.5, -0.25, 1.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "P = 0 = y": Point((0.5, -0.25, -0.5, 0.25, 0.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "u = 0": Point((0.0, 0.0, 0.3, 0.5, 1.0, 0.6, 2.0, *E, 0.4)),
    "one neuron's worth": Point((0.5, 0.0, 0.25, 0.0, 1.0, 0.6, 2.0, 1.0, 1.0, 0.4)),
    "at the start": Point((0.7, -0.2, 0.3, 0.5, 1.0, 0.6, 2.0, *E, 0.0), ("kernel_change",), (9,)),
    "at the end": Point((0.7, -0.2, 0.3, 0.5, 1.0, 0.6, 2.0, *E, np.inf), still=(9,)),
    "frozen u": Point((0.7, -0.2, 0.3, 0.5, 1.0, 0.6, 2.0, 0.0, 1.3, 0.4), still=(7,)),
}


def neuron(x: Any) -> dict[str, Any]:
    out: dict[str, Any] = solve_neuron(x[7], x[0], x[1:3], x[3:5], x[5], x[6])
    return out


def pair(x: Any) -> dict[str, Any]:
    return solve_pair(layer_pair(x[:2], x[2:4], x[4], x[5], x[6], x[7], x[8]), x[9])


def differences(solve: Flat, point: Point, h: float = 1e-5) -> dict[str, Floats]:
    """Jacobians (*own, input) of the numpy path by central differences of 4th order, step 1e-5 × 20."""
    x = np.array(point.at)
    made: dict[str, list[Floats]] = {}
    for i in range(x.size):
        step = np.zeros(x.size)
        step[i] = 0.0 if i in point.still else 20 * h
        with np.errstate(all="ignore"):
            one, two = (
                {k: np.asarray(v) - np.asarray(solve(x - n * step)[k]) for k, v in solve(x + n * step).items()}
                for n in (1, 2)
            )
        for name in one:
            made.setdefault(name, []).append((8 * one[name] - two[name]) / (240 * h))
    return {name: np.stack(columns, -1) for name, columns in made.items()}


def check(solve: Flat, point: Point, got: dict[str, Floats], outputs: tuple[str, ...]) -> None:
    want = differences(solve, point)
    size = {name: np.asarray(value) for name, value in solve(np.array(point.at)).items()}
    for name in outputs:
        if name in point.without:
            continue
        jacobian, expected = np.array(got[name]), want[name]
        jacobian[..., list(point.still)] = expected[..., list(point.still)] = 0.0
        scale = max(float(np.abs(expected).max()), float(np.abs(size[name]).max()), 0.1)
        assert_close(jacobian, expected, DERIVATIVE, scale=scale, says=f"gradient of {name}")


def by_torch(torch: Any, solve: Flat, point: Point) -> dict[str, Floats]:
    x = torch.tensor(point.at, dtype=torch.float64)
    names = list(solve(x))
    columns = torch.autograd.functional.jacobian(lambda x: tuple(solve(x)[name] for name in names), x)
    return {name: column.numpy() for name, column in zip(names, columns, strict=True)}


def by_jax(jax: Any, solve: Flat, point: Point) -> dict[str, Floats]:
    made = jax.jacrev(solve)(jax.numpy.asarray(point.at))
    return {name: np.asarray(value) for name, value in made.items()}


@pytest.mark.parametrize("name", NEURON)
def test_neuron_by_torch(name: str, torch: Any) -> None:
    check(neuron, NEURON[name], by_torch(torch, neuron, NEURON[name]), NEURON_OUTPUTS)


@pytest.mark.parametrize("name", NEURON)
def test_neuron_by_jax(name: str, jax: Any) -> None:
    check(neuron, NEURON[name], by_jax(jax, neuron, NEURON[name]), NEURON_OUTPUTS)


@pytest.mark.parametrize("name", PAIR)
def test_pair_by_torch(name: str, torch: Any) -> None:
    check(pair, PAIR[name], by_torch(torch, pair, PAIR[name]), PAIR_OUTPUTS)


@pytest.mark.parametrize("name", PAIR)
def test_pair_by_jax(name: str, jax: Any) -> None:
    check(pair, PAIR[name], by_jax(jax, pair, PAIR[name]), PAIR_OUTPUTS)
