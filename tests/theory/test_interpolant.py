"""Where the single neuron ends on low-rank data: exact against integration, with and without a crossing."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.integrate import solve_ivp

from richter.errors import ParameterError
from richter.refs import KUN24
from richter.theory import SingleNeuron
from richter.theory.interpolants import interpolant


def _problem(rng: np.random.Generator, null: int, equal: bool) -> dict[str, Any]:
    """Singular values between 0.7 and 1.4, or all 1, so that integration gets to the end."""
    rank = int(rng.integers(1, 5))
    d = rank + null
    directions = np.linalg.qr(rng.normal(size=(d, d)))[0][:, :rank]
    strengths = np.ones(rank) if equal else rng.uniform(0.7, 1.4, rank)
    X = np.linalg.qr(rng.normal(size=(rank + 1, rank)))[0] * strengths @ directions.T
    return {"X": X, "y": X @ rng.normal(size=d), "a0": 0.5 * rng.normal(), "w0": rng.normal(size=d) * rng.choice([0.3, 2.0]),
            "eta_a": 10 ** rng.uniform(-0.3, 0.3), "eta_w": 10 ** rng.uniform(-0.3, 0.3)}  # fmt: skip


def _integrated(p: dict[str, Any]) -> np.ndarray:
    """(a, w) after integration until the gradient is gone."""
    gram, pull = p["X"].T @ p["X"], p["X"].T @ p["y"]

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        error = x[0] * gram @ x[1:] - pull
        return np.concatenate(([-p["eta_a"] * x[1:] @ error], -p["eta_w"] * x[0] * error))

    state = np.concatenate(([p["a0"]], p["w0"]))
    span = 40.0
    while np.abs(state[0] * gram @ state[1:] - pull).max() > 1e-13 and span < 1e7:
        state = solve_ivp(flow, (0, span), state, method="LSODA", rtol=1e-12, atol=1e-14).y[:, -1]
        span *= 2
    return state


@pytest.mark.place(KUN24["Theorem 3.1"], KUN24["Eq. 5"], KUN24["Eq. 43"], KUN24["Eq. 70"], KUN24["Eq. 72"])
@pytest.mark.parametrize("null", range(1, 7))
def test_the_end_is_where_integration_ends(null: int) -> None:
    rng = np.random.default_rng(null)
    crossed, sources = 0, set()
    for k in range(40):
        p = _problem(rng, null, equal=k % 3 == 0)
        end, exact = _integrated(p), interpolant(**p)
        np.testing.assert_allclose(exact.beta.values, end[0] * end[1:], rtol=1e-10, atol=1e-10)  # β of size 1
        assert exact.sign.item() == np.sign(end[0])
        np.testing.assert_allclose(p["X"] @ exact.beta.values, p["y"], atol=1e-12)  # y of size 1
        assert exact.kkt_residual.item() < 1e-12
        crossed += int(np.sign(end[0]) != np.sign(p["a0"]))
        sources.add(exact.sign_source.item())
    assert crossed >= 3, "the problems must hold crossings"
    assert sources >= {"conserved", "loss"} and sources & {"basin", "integration"}


def test_without_the_sign_the_certificate_fails_where_a_crossed() -> None:
    from richter.maths.interpolation import kkt_residual

    rng = np.random.default_rng(3)
    for _ in range(200):
        p = _problem(rng, 2, equal=True)
        exact = interpolant(**p)
        if exact.sign.item() != np.sign(p["a0"]):
            null = np.eye(p["X"].shape[1]) - np.linalg.pinv(p["X"]) @ p["X"]
            delta = p["eta_w"] * p["a0"] ** 2 - p["eta_a"] * p["w0"] @ p["w0"]
            arguments = (null, exact.beta.values, p["a0"] * p["w0"], np.array(delta))
            printed = kkt_residual(*arguments, np.array(1.0), np.array(p["eta_a"] * p["eta_w"]))
            right = kkt_residual(*arguments, np.array(-1.0), np.array(p["eta_a"] * p["eta_w"]))
            assert right < 1e-12 < 1e-2 < printed
            return
    raise AssertionError("no crossing was drawn")


def test_full_rank_whitened_data_is_the_single_neuron() -> None:
    rng = np.random.default_rng(0)
    X = np.linalg.qr(rng.normal(size=(6, 3)))[0]
    y = rng.normal(size=6)
    a0, w0 = rng.normal(size=200), 2 * rng.normal(size=(200, 3))
    exact = interpolant(X=X, y=y, a0=a0, w0=w0)
    neuron = SingleNeuron(a0=a0, w0=w0, beta_star=X.T @ y).limit()
    np.testing.assert_allclose(exact.beta.values, neuron.beta.values, rtol=1e-9)
    np.testing.assert_allclose(exact.a.values, neuron.a.values, rtol=1e-9)
    assert set(exact.sign_source.values) == {"conserved", "loss", "basin"} and exact.beta.dims == ("start", "input")


def test_small_starts_forget_their_direction_unless_downstream() -> None:
    X, y = np.array([[1.0, 1.0, 0.0]]), np.array([1.0])
    shortest = np.linalg.pinv(X) @ y
    for delta, keeps in ((1.0, False), (0.0, False), (-1.0, True)):
        start = SingleNeuron.from_imbalance(beta0=[1e-6, 0.0, 1e-6], delta=delta, beta_star=[1.0, 0.0, 0.0])
        beta = interpolant(X=X, y=y, a0=start.a0, w0=start.w0).beta.values
        assert (np.abs(beta - shortest).max() > 0.1) == keeps


def test_tiny_starts_end_where_the_linear_flow_points_them() -> None:
    rng = np.random.default_rng(5)
    for size in (1e-3, 1e-8, 1e-12):
        X = rng.normal(size=(5, 3)) * [1.0, 0.6, 0.2]
        y, a0, w0 = X @ rng.normal(size=3), size * rng.normal(size=60), size * rng.normal(size=(60, 3))
        pull = X.T @ y
        push = a0 + w0 @ pull / np.linalg.norm(pull)  # the part that grows, for rates of 1
        clear = np.abs(push) > 3 * size**0.5 * size  # nonlinear terms are smaller by the square of the size
        made = interpolant(X=X, y=y, a0=a0, w0=w0)
        np.testing.assert_array_equal(made.sign.values[clear], np.sign(push)[clear])
        assert clear.sum() > 50 and "integration" in made.sign_source.values
        one = interpolant(X=X, y=y, a0=0.0, w0=w0[0])
        assert one.sign.item() == np.sign(w0[0] @ pull) and one.kkt_residual.item() < 1e-12


def test_slow_and_stiff_data_find_their_sign_in_time() -> None:
    rng = np.random.default_rng(6)
    for strengths, scale in (((1.0, 1e-6), 1.0), ((1.0, 0.3, 1e-5), 1e-12), ((1.0, 0.5), 1e3), ((3.0, 1e-4), 1e3)):
        X = np.linalg.qr(rng.normal(size=(4, 4)))[0][:, : len(strengths)] * strengths
        for a0 in (-1e-6, 0.0, 1e-6):
            made = interpolant(X=X, y=X @ np.ones(len(strengths)), a0=a0 * scale, w0=-scale * np.ones(len(strengths)))
            assert made.sign.item() == -1.0 and made.sign_source.item() in ("integration", "loss")


def test_a_start_at_rest_between_uneven_strengths_stays() -> None:
    at_rest = interpolant(X=[[2.0, 0.0], [0.0, 1.0]], y=[2.0, 0.0], a0=0.0, w0=[0.0, 3.0])
    assert at_rest.a.item() == 0.0 and at_rest.sign.item() == 0.0 and not at_rest.beta.values.any()


def test_targets_of_zero_and_inputs_of_zero() -> None:
    nothing = interpolant(X=[[0.0, 0.0]], y=[1.0], a0=0.5, w0=[1.0, 2.0])
    np.testing.assert_allclose(nothing.beta.values, [0.5, 1.0])  # no gradient at all
    fade = interpolant(X=np.eye(2), y=[0.0, 0.0], a0=0.1, w0=[1.0, 0.0])
    assert fade.beta.values.tolist() == [0.0, 0.0] and fade.a.item() == 0.0


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"X": [1.0, 2.0]}, "`X` of interpolant must have the dimensions (example, input). Got shape (2,)."),
        ({"y": [1.0, 2.0]}, "`y` of interpolant must have 1 entries along example, as `X` has. Got 2"),
        ({"w0": [1.0]}, "`w0` of interpolant must have 2 entries along input, as `X` has. Got 1"),
        ({"eta_a": 0.0}, "`eta_a` of interpolant must be > 0. Got 0.0."),
        ({"X": [[[1.0, 2.0]]] * 2}, "`X` and `y` of interpolant must have no batch dimensions."),
        ({"a0": float("nan")}, "`a0` of interpolant must be finite. Got nan."),
    ],
)
def test_wrong_input_is_one_clear_line(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        interpolant(**{"X": [[1.0, 2.0]], "y": [1.0], "a0": 1.0, "w0": [1.0, 0.0], **change})
    assert text in str(caught.value)
