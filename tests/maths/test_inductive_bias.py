"""Where the single neuron ends on low-rank data, by integration, against what the papers print of it."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths import potentials
from richter.maths.interpolation import final_output_weight, kkt_residual
from richter.refs import KUN24
from richter.testing.tolerances import SOLVED, assert_close
from tests.maths.ode import Floats, follow


class End:
    """A start with a, w·β* > 0 on data with one direction missing, and where the flow of a and w ends."""

    def __init__(self, rng: np.random.Generator, delta: float, eta_a: float = 1.0, eta_w: float = 1.0) -> None:
        frame = np.linalg.qr(rng.standard_normal((3, 3)))[0]
        self.v, self.delta, self.product = frame[:, 2], delta, eta_a * eta_w
        self.X = np.diag(rng.uniform(0.9, 1.4, 2)) @ frame[:, :2].T
        self.shortest = frame[:, :2] @ rng.uniform(0.5, 1.0, 2)
        self.beta0 = frame @ rng.uniform(0.4, 0.9, 3)
        square = self.product * self.beta0 @ self.beta0
        a2 = (delta + np.sqrt(delta**2 + 4 * square)) / (2 * eta_w)
        gram, pull = self.X.T @ self.X, self.X.T @ self.X @ self.shortest

        def flow(x: Floats) -> Floats:
            error = gram @ (x[0] * x[1:]) - pull
            return np.concatenate([[-eta_a * x[1:] @ error], -eta_w * x[0] * error])

        end = follow(flow, np.concatenate([[np.sqrt(a2)], self.beta0 / np.sqrt(a2)]), [0.0, 120.0])[:, -1]
        self.a, self.beta = end[0], end[0] * end[1:]
        self.null_w = float(self.v @ self.beta0) / np.sqrt(a2)


def length(x: Floats) -> float:
    return float(np.linalg.norm(x))


@pytest.mark.place(KUN24["Theorem A.2"], KUN24["Eq. 68"], KUN24["Eq. 69"], KUN24["Eq. 70"])
@pytest.mark.parametrize("delta", [0.0, 0.6, 3.0])
def test_the_end_minimises_azulays_bias(delta: float, seed: int) -> None:
    end = End(np.random.default_rng([seed, 100]), delta)
    assert_close(end.X @ end.beta, end.X @ end.shortest, SOLVED, scale=1.0, says="Xβ = y")
    z = -1.5 * np.sqrt(np.sqrt(end.beta0 @ end.beta0 + delta**2 / 4) - delta / 2) * end.beta0 / length(end.beta0)
    bias = lambda b: float(potentials.azulay_potential(length(b), delta)) + float(z @ b)
    h = 1e-4  # central differences along the free direction
    slope = (bias(end.beta + h * end.v) - bias(end.beta - h * end.v)) / (2 * h)
    assert_close(slope, 0.0, SOLVED, scale=1.0, times=10, says="Theorem A.2")  # h² times the third derivative
    assert all(bias(end.beta + step * end.v) > bias(end.beta) for step in (-0.3, -0.01, 0.01, 0.3))
    x = np.linspace(0.3, 2.0, 9)
    derivative = (potentials.azulay_potential(x + h, delta) - potentials.azulay_potential(x - h, delta)) / (2 * h)
    printed = 1.5 * np.sqrt(np.sqrt(x**2 + delta**2 / 4) - delta / 2)
    assert_close(derivative, printed, SOLVED, scale=1.0, times=100, says="Eq. 70")  # h² times the third derivative
    constant = np.sqrt(2) * delta**1.5 / 3
    scaled = 2 * np.sqrt(2) / 3 * potentials.azulay_potential(x, delta) + constant
    kappa = np.sqrt(delta**2 + 4 * x**2)
    stated = (kappa - 2 * delta) * np.sqrt(kappa + delta) / 3 + constant  # Eq. 67
    assert_close(scaled, stated, SOLVED, scale=1.0 + constant, says="Eq. 69")


@pytest.mark.place(KUN24["Eq. 71"], KUN24["Eq. 72"])
@pytest.mark.parametrize("delta", [-0.4, 0.0, 1.5])
def test_what_the_free_direction_solves(delta: float, seed: int) -> None:
    end = End(np.random.default_rng([seed, 101]), delta)
    alpha, square = float(end.beta @ end.v), float(end.shortest @ end.shortest)
    k = (
        np.sqrt(np.sqrt(end.beta0 @ end.beta0 + delta**2 / 4) - delta / 2)
        * float(end.beta0 @ end.v)
        / length(end.beta0)
    )
    size = np.sqrt(square + alpha**2)
    left = np.sqrt(np.sqrt(square + alpha**2 + delta**2 / 4) - delta / 2) * alpha / size
    assert_close(left, k, SOLVED, scale=1.0, says="Eq. 71")
    printed = np.sqrt(size + delta**2 / 4) - delta / 2 * alpha / size
    assert abs(printed - k) > 0.1
    half = (k**2 + delta) / 2
    assert_close(alpha, k * np.sqrt(half + np.sqrt(half**2 + square)), SOLVED, scale=1.0, says="Eq. 72")
    array = lambda x: np.asarray(x, dtype=float)
    a = final_output_weight(array(end.null_w**2), array(delta), array(square), array(1.0), array(1.0))
    assert_close(a, end.a, SOLVED, scale=1.0, says="a(∞)")


@pytest.mark.place(KUN24["Eq. 5"], KUN24["Theorem 3.1"])
@pytest.mark.parametrize("delta", [-0.4, 0.8])
def test_theorem_3_1_is_in_units_of_the_rates(delta: float, seed: int) -> None:
    end = End(np.random.default_rng([seed, 102]), delta, eta_a=0.4, eta_w=0.6)
    array = lambda x: np.asarray(x, dtype=float)
    residual = lambda product: float(
        kkt_residual(np.outer(end.v, end.v), end.beta, end.beta0, array(delta), array(1.0), array(product))
    )
    assert residual(end.product) < 1e-8 < 1e-4 < residual(1.0)
