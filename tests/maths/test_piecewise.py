"""The flow, coordinates and kernel of piecewise-linear networks against autograd, each other and 50 digits."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from mpmath import mp
from numpy.typing import NDArray

from richter.maths import piecewise
from richter.refs import KUN24
from richter.testing.tolerances import IDENTITY, assert_close

Floats = NDArray[np.float64]
RATES = {"eta_a": 0.6, "eta_w": 1.7}


def _draw(rng: np.random.Generator, *front: int, h: int = 7, d: int = 3, n: int = 5) -> tuple[Floats, ...]:
    a, w = rng.normal(size=(*front, h)), rng.normal(size=(*front, h, d))
    return a, w, rng.normal(size=(n, d)), rng.normal(size=n)


@pytest.mark.place(KUN24["Eq. 124"])
@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_the_flow_is_minus_the_gradient_by_autograd(seed: int, torch: Any, leak: float) -> None:
    a, w, X, y = _draw(np.random.default_rng([seed, 20]))
    A, W = torch.tensor(a, requires_grad=True), torch.tensor(w, requires_grad=True)
    f = torch.nn.functional.leaky_relu(torch.tensor(X) @ W.T, leak) @ A
    (0.5 * ((f - torch.tensor(y)) ** 2).sum()).backward()
    da, dw = piecewise.parameter_flow(a, w, X, y, leak, **RATES)
    assert_close(da, -0.6 * A.grad.numpy(), IDENTITY, scale=np.abs(da).max())
    assert_close(dw, -1.7 * W.grad.numpy(), IDENTITY, scale=np.abs(dw).max())
    assert_close(piecewise.network_output(a, w, X, leak), f.detach().numpy(), IDENTITY, scale=np.abs(a).sum())


@pytest.mark.place(KUN24["Sec. 5"])
@pytest.mark.parametrize("leak", [0.0, 0.3])
def test_the_kernel_is_the_sum_of_both_layers_jacobians(seed: int, torch: Any, leak: float) -> None:
    a, w, X, _ = _draw(np.random.default_rng([seed, 21]))
    f = lambda A, W: torch.nn.functional.leaky_relu(torch.tensor(X) @ W.T, leak) @ A
    Ja, Jw = torch.autograd.functional.jacobian(f, (torch.tensor(a), torch.tensor(w)))
    Jw = Jw.reshape(len(X), -1)
    defined = (0.6 * Ja @ Ja.T + 1.7 * Jw @ Jw.T).numpy()
    K = piecewise.kernel_matrix(a, w, X, leak, **RATES)
    assert_close(K, defined, IDENTITY, scale=np.abs(defined).max())
    # As printed, through the M_i.
    c, M = piecewise.slopes(w @ X.T, leak), piecewise.preconditioners(a, w, **RATES)
    assert_close(np.einsum("ij,jp,ipq,kq,ik->jk", c, X, M, X, c), K, IDENTITY, scale=np.abs(defined).max())
    assert_close(piecewise.kernel_matrix(a, w, X, leak, **RATES, pattern=c), K, IDENTITY, scale=np.abs(K).max())


@pytest.mark.place(KUN24["Eq. 8"], KUN24["Eq. 125"], KUN24["Eq. 126"])
def test_the_functions_move_as_the_parameters_do(seed: int) -> None:
    a, w, X, y = _draw(np.random.default_rng([seed, 22]), 4, 2)
    da, dw = piecewise.parameter_flow(a, w, X, y, 0.2, **RATES)
    moved = da[..., None] * w + a[..., None] * dw
    flow = piecewise.function_flow(a, w, X, y, 0.2, **RATES)
    assert_close(flow, moved, IDENTITY, scale=np.abs(moved).max())
    betas, deltas = a[..., None] * w, piecewise.imbalance(a, w, **RATES)
    M = piecewise.preconditioners_of_functions(betas, deltas, **RATES)
    defined = piecewise.preconditioners(a, w, **RATES)
    assert_close(M, defined, IDENTITY, scale=np.abs(defined).max(), times=10)  # δ/β of neurons near balance
    xi = piecewise.drive(a, w, X, y, 0.2)
    assert_close(-np.einsum("...ij,...j->...i", M, xi), flow, IDENTITY, scale=np.abs(flow).max(), times=10)  # as above


@pytest.mark.place(KUN24["Eq. 9"], KUN24["Eq. 127"])
def test_spherical_coordinates_move_as_the_parameters_do(seed: int) -> None:
    a, w, X, y = _draw(np.random.default_rng([seed, 23]), 6)
    mu, unit = piecewise.to_spherical(a, w)
    delta = piecewise.imbalance(a, w, **RATES)
    assert (delta < 0).any() and (delta > 0).any()
    dmu, dunit = piecewise.spherical_flow(mu, unit, delta, X, y, 0.2, **RATES)
    da, dw = piecewise.parameter_flow(a, w, X, y, 0.2, **RATES)
    size = np.linalg.norm(w, axis=-1)
    dsize = (unit * dw).sum(axis=-1)
    assert_close(dmu, da * size + a * dsize, IDENTITY, scale=np.abs(dmu).max(), times=10)  # κ of neurons near balance
    turned = (dw - dsize[..., None] * unit) / size[..., None]
    assert_close(dunit, turned, IDENTITY, scale=np.abs(turned).max(), times=10)  # as above
    back = piecewise.from_spherical(mu, unit, delta, **RATES)
    assert_close(back[0], a, IDENTITY, scale=np.abs(a).max(), times=10)  # as above
    assert_close(back[1], w, IDENTITY, scale=np.abs(w).max(), times=10)  # as above


@pytest.mark.place(KUN24["Eq. 9"])
@pytest.mark.parametrize("delta", [-1e8, -1.0, 0.0, 1e8])
def test_the_spherical_flow_keeps_its_digits_far_from_balance(seed: int, delta: float) -> None:
    rng = np.random.default_rng([seed, 24])
    unit, x, y, mu = rng.normal(size=2), rng.normal(size=2), rng.normal(), rng.normal()
    unit /= np.linalg.norm(unit)
    x *= np.sign(x @ unit)  # active
    dmu, dunit = piecewise.spherical_flow([mu], unit[None], [delta], x[None], [y])
    with mp.workdps(50):
        u, X, m = [mp.mpf(float(v)) for v in unit], [mp.mpf(float(v)) for v in x], mp.mpf(mu)
        rho = m * (u[0] * X[0] + u[1] * X[1]) - mp.mpf(float(y))
        along = (u[0] * X[0] + u[1] * X[1]) * rho
        kappa = mp.sqrt(mp.mpf(delta) ** 2 + 4 * m * m)
        turn = (kappa + mp.mpf(delta)) / (2 * m)
        exact = [float(-turn * (X[k] * rho - along * u[k])) for k in range(2)]
        speed = float(-kappa * along)
        size = float(abs(turn * rho) * mp.sqrt(X[0] ** 2 + X[1] ** 2) * (1 + abs(mp.mpf(float(y)) / rho)))
    assert_close(dunit[0], exact, IDENTITY, scale=size)
    assert_close(dmu, speed, IDENTITY, scale=abs(speed) * (1 + abs(y / float(rho))))


def test_what_is_undefined_is_nan_and_what_is_defined_is_not() -> None:
    mu, unit = piecewise.to_spherical([1.0, 0.0], [[0.0, 0.0], [0.0, 2.0]])
    assert mu.tolist() == [0.0, 0.0] and np.isnan(unit[0]).all() and unit[1].tolist() == [0.0, 1.0]
    X, y = np.eye(2), np.array([1.0, -1.0])
    _, downstream = piecewise.spherical_flow([0.0], unit[1:], [-4.0], X, y)
    _, upstream = piecewise.spherical_flow([0.0], unit[1:], [1.0], X, y)
    assert downstream.tolist() == [[0.0, 0.0]] and np.isnan(upstream).all()
    M = piecewise.preconditioners_of_functions(np.zeros((3, 2)), [2.0, 0.0, -2.0])
    assert M[0].tolist() == [[2.0, 0.0], [0.0, 2.0]] and (M[1] == 0).all() and np.isnan(M[2]).all()
    a, w = piecewise.from_spherical([0.0, -0.0], [[1.0, 0.0]] * 2, [4.0, -4.0])
    assert a.tolist() == [2.0, 0.0] and w.tolist() == [[0.0, 0.0], [2.0, 0.0]]
    assert piecewise.slopes([0.0, -1e-300], 0.25).tolist() == [0.25, 0.25]


@pytest.mark.place(KUN24["App. C.2"])
def test_imbalance_is_conserved_by_the_flow_and_does_not_cancel(seed: int) -> None:
    a, w, X, y = _draw(np.random.default_rng([seed, 25]), 3)
    da, dw = piecewise.parameter_flow(a, w, X, y, 0.1, **RATES)
    terms = 1.7 * a * da, 0.6 * (w * dw).sum(axis=-1)
    assert_close(terms[0], terms[1], IDENTITY, scale=np.abs(terms[0]).max())
    delta = piecewise.imbalance(a, w, **RATES)
    assert_close(delta, 1.7 * a**2 - 0.6 * (w**2).sum(axis=-1), IDENTITY, scale=(w**2).sum(axis=-1))
    tiny = piecewise.imbalance([1.0 + 2**-40], [[1.0, 0.0]])
    assert tiny[0] == 2.0**-40 * (2 + 2.0**-40)  # a² − ‖w‖² has lost 12 digits


@pytest.mark.place(KUN24["App. D.1"])
def test_the_layer_scale_gives_every_unit_neuron_the_imbalance(seed: int) -> None:
    rng = np.random.default_rng([seed, 26])
    tau, delta = 10 ** rng.uniform(-2, 1, 200), rng.normal(size=200) * 10 ** rng.uniform(-3, 3, 200)
    alpha = piecewise.layer_scale(tau, delta)
    big = tau**2 * (alpha**2 + alpha**-2)
    assert_close(tau**2 * (alpha**2 - alpha**-2), delta, IDENTITY, scale=big)
    general = piecewise.layer_scale(tau, delta, **RATES)
    left, right = 1.7 * (tau * general) ** 2, 0.6 * (tau / general) ** 2
    assert_close(left - right, delta, IDENTITY, scale=left + right)
    # As printed, δ² = τ²(α² − α⁻²), the imbalance would be another one, and never negative.
    assert np.abs(tau**2 * (alpha**2 - alpha**-2) - delta**2).max() > 1e-3 and (delta < 0).any()
