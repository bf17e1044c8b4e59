"""M⁻¹ is no Hessian and g·M⁻¹ is one: the derivatives behind it by 50-digit arithmetic and by differences."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import mpmath as mp
import numpy as np
import pytest

from richter.maths import hessian_map as maps
from richter.maths.mirror import potential_hessian
from richter.maths.preconditioner import neuron_preconditioner, neuron_preconditioner_inverse, time_warp
from richter.refs import KUN24
from richter.testing.tolerances import DERIVATIVE, IDENTITY, assert_close

Floats = np.ndarray
DELTAS = (-40.0, -2.0, -0.1, 0.0, 0.5, 3.0, 60.0)
H = 1e-4  # relative step of the central differences


def derivative(map_of: Callable[[Floats], Floats], beta: Floats) -> Floats:
    """∂H_ij/∂β_k by fourth-order central differences with step 1e-4·‖β‖."""
    h = H * float(np.linalg.norm(beta))
    slope = lambda e: (8 * (map_of(beta + e) - map_of(beta - e)) - (map_of(beta + 2 * e) - map_of(beta - 2 * e))) / (12 * h)  # fmt: skip
    return np.stack([slope(h * e) for e in np.eye(beta.size)], axis=-1)


def printed(x: mp.mpf, delta: float) -> tuple[mp.mpf, mp.mpf]:
    """(f, h) as Eq. 49 prints them."""
    s = mp.sqrt(mp.mpf(delta) ** 2 + 4 * x)
    return 2 / (s + delta), (s - delta) / (x * s * (s + delta))


@pytest.mark.place(KUN24["Eq. 44"], KUN24["Eq. 50"], KUN24["Eq. 51"], KUN24["Eq. 52"], KUN24["Eq. 53"])
def test_the_inverse_of_m_is_no_hessian_map_and_the_warped_one_is(seed: int) -> None:
    rng = np.random.default_rng([seed, 80])
    for delta in DELTAS:
        beta = rng.standard_normal(3)
        beta *= rng.uniform(0.5, 2.0) / np.linalg.norm(beta)
        T = maps.inverse_derivative(beta, delta)
        size = np.abs(T).max()
        plain = derivative(partial(neuron_preconditioner_inverse, delta=delta), beta)
        assert_close(T, plain, DERIVATIVE, scale=size, says=f"∂M⁻¹ at δ = {delta}")
        with mp.workdps(50):
            x = mp.mpf(float(beta @ beta))
            f1, h1 = (mp.diff(lambda v, n=n, delta=delta: printed(v, delta)[n], x) for n in (0, 1))
            _, h = printed(x, delta)
            stated = {  # Eqs 51–53 with i, j, k = 0, 1, 2
                (0, 1, 2): -2 * h1 * beta[0] * beta[1] * beta[2],
                (0, 0, 1): 2 * f1 * beta[1] - 2 * h1 * beta[1] * beta[0] ** 2,
                (0, 1, 0): -h * beta[1] - 2 * h1 * beta[1] * beta[0] ** 2,
            }
        for entry, value in stated.items():
            assert_close(
                T[entry], float(value), IDENTITY, scale=size, times=100, says=f"entry {entry}"
            )  # β·β in float64
        gap = maps.asymmetry(T)
        # Eq. 50 fails by (2f′ + h)β_j in the entries of Eqs 52 and 53, and in no entry with three different indices.
        x = float(beta @ beta)
        assert_close(gap[0, 0, 1], float(maps.hessian_gap(x, delta)) * beta[1], IDENTITY, scale=size, times=10)
        assert_close(gap[0, 1, 2], 0.0, IDENTITY, scale=size)
        assert np.abs(gap).max() > 1e-4 * size
        warped = lambda b, delta=delta: time_warp(b @ b, delta) * neuron_preconditioner_inverse(b, delta)
        T = derivative(warped, beta)
        assert_close(maps.asymmetry(T), np.zeros((3, 3, 3)), DERIVATIVE, scale=np.abs(T).max(), says="g M⁻¹")
    many = maps.inverse_derivative(np.stack([beta, 2 * beta]), delta)
    assert_close(many[1], maps.inverse_derivative(2 * beta, delta), IDENTITY, says="many at once")


@pytest.mark.place(KUN24["Eq. 54"], KUN24["Eq. 55"], KUN24["Eq. 56"], KUN24["Eq. 57"], KUN24["Eq. 58"])
def test_the_gap_is_never_zero_and_the_warp_closes_it(seed: int) -> None:
    rng = np.random.default_rng([seed, 81])
    for delta in DELTAS:
        x = float(10 ** rng.uniform(-1, 1))
        with mp.workdps(50):
            f, h = printed(mp.mpf(x), delta)
            f1 = mp.diff(lambda v, delta=delta: printed(v, delta)[0], mp.mpf(x))
            g = lambda v, delta=delta: mp.sqrt(mp.sqrt(mp.mpf(delta) ** 2 + 4 * v) + delta)
            g1 = mp.diff(g, mp.mpf(x))
            gap, here = 2 * f1 + h, g(mp.mpf(x))
            warped = here * f, here * h
            bent = mp.diff(lambda v, g=g, delta=delta: g(v) * printed(v, delta)[0], mp.mpf(x))
            rate = -gap / (2 * f)
            zero = 2 * bent + warped[1]
            ode = g1 - rate * here  # Eq. 57
            s = mp.sqrt(mp.mpf(delta) ** 2 + 4 * mp.mpf(x))
            closed = rate * s * (s + delta) - 1  # Eq. 58
        assert abs(float(zero / bent)) < 1e-25 and abs(float(ode / g1)) < 1e-25 and abs(float(closed)) < 1e-25
        assert_close(maps.hessian_gap(x, delta), float(gap), IDENTITY, says="Eq. 54")
        assert_close(maps.warped_coefficients(x, delta), [float(v) for v in warped], IDENTITY, says="Eq. 55")
        assert_close(time_warp(x, delta), float(here), IDENTITY, says="g")
        beta = np.array([0.6, 0.8]) * np.sqrt(x)
        one, two = maps.warped_coefficients(x, delta)
        H = potential_hessian(beta, delta)
        assert_close(
            one * np.eye(2) - two * np.outer(beta, beta), H, IDENTITY, scale=np.abs(H).max() + one, says="g M⁻¹"
        )


@pytest.mark.place(KUN24["Eq. 47"])
def test_the_inverse_is_that_of_sherman_and_morrison(seed: int) -> None:
    rng = np.random.default_rng([seed, 82])
    for delta in (-2.0, 0.0, 3.0):
        beta = rng.uniform(0.5, 1.5, 3)
        kappa = np.sqrt(delta**2 + 4 * beta @ beta)
        A, u, v = (kappa + delta) / 2 * np.eye(3), (kappa - delta) / (2 * beta @ beta) * beta, beta
        assert_close(A + np.outer(u, v), neuron_preconditioner(beta, delta), IDENTITY, scale=kappa, times=10)
        back = np.linalg.inv(A)
        inverse = back - back @ np.outer(u, v) @ back / (1 + v @ back @ u)
        size = np.abs(inverse).max()
        assert_close(
            neuron_preconditioner_inverse(beta, delta), inverse, IDENTITY, scale=size, times=100
        )  # κ ± δ subtract
        assert_close(u @ back @ v, (kappa - delta) / (kappa + delta), IDENTITY, says="the simplification", times=10)
