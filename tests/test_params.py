"""Declared parameters: what is accepted, and the exact words when it is not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.errors import ParameterError, RichterError, UnknownNameError
from richter.params import declared, json_schema, parse
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar

GOOD: dict[str, Any] = {"a0": 1.0, "w0": [1.0, 0.0], "beta_star": [0.0, 1.0]}


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"a0": float("nan")}, "`a0` of SingleNeuron must be finite. Got nan."),
        ({"a0": float("inf")}, "`a0` of SingleNeuron must be finite. Got inf."),
        ({"a0": 1e200}, "`a0` of SingleNeuron must be at most 1e+30 in magnitude. Got 1e+200. Rescale the problem."),
        ({"w0": [1e-40, 0.0]}, "`w0` of SingleNeuron must be 0 or at least 1e-30 in magnitude. Got 1e-40. Rescale"),
        ({"batch": 3}, "`batch` must be a name or a tuple of names. Got 3."),
        ({"a0": [1.0, 2.0], "batch": ("t",)}, "`batch` must be different names, none of them t. Got ('t',)."),
        ({"a0": "one"}, "`a0` of SingleNeuron must be a number or a rectangular array of numbers. Got 'one'."),
        ({"a0": True}, "`a0` of SingleNeuron must be a number or a rectangular array of numbers. Got True."),
        ({"a0": None}, "`a0` of SingleNeuron must be a number or a rectangular array of numbers. Got None."),
        ({"w0": [[1.0], [1.0, 2.0]]}, "must be a number or a rectangular array of numbers."),
        ({"w0": []}, "`w0` of SingleNeuron must not be empty. Got shape (0,)."),
        (
            {"w0": [1.0, 2.0, 3.0]},
            "`beta_star` of SingleNeuron must have 3 entries along input, as `w0` has. Got 2 (shape (2,)).",
        ),
        ({"eta_a": -1.0}, "`eta_a` of SingleNeuron must be ≥ 0. Got -1.0. Use 0 to freeze it."),
        ({"eta_w": -0.5}, "`eta_w` of SingleNeuron must be ≥ 0. Got -0.5. Use 0 to freeze them."),
        (
            {"beta_star": [0.0, 0.0]},
            "`beta_star` of SingleNeuron must have a direction (not all 0). Got [0.0, 0.0]. "
            "For a target of 0 use WideScalar(u0=…, w0=…, x=…, y=0).",
        ),
        (
            {"a0": [1.0, 2.0], "eta_a": [1.0, 1.0, 1.0]},
            "the batch dimensions of SingleNeuron must broadcast against each other. Got a0 (2,), eta_a (3,).",
        ),
        ({"batch": ("x",)}, "`batch` must name the 0 batch dimensions. Got ('x',)."),
    ],
)
def test_a_wrong_parameter_is_one_clear_line(change: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SingleNeuron(**{**GOOD, **change})
    assert text in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: WideScalar(u0=[1.0], w0=[1.0], x=[1.0], y=1.0),
            "`w0` of WideScalar must have the dimensions (neuron, input)",
        ),
        (lambda: WideScalar(u0=[1.0], w0=[[1.0]], x=[0.0], y=1.0), "`x` of WideScalar must not be all 0"),
        (lambda: WideScalar(u0=[1.0], w0=[[1.0]], x=[1.0], y=1.0, gamma=0), "`gamma` of WideScalar must not be 0"),
        (lambda: ScalarNetwork(a0=[1.0], b0=[1.0], target=1, normalisation=-1.0), "flip the sign of b0"),
        (lambda: DiagonalNetwork(a0=1, b0=1, target=[1.0], input_variance=0.0), "must be > 0"),
        (lambda: LinearModel(eigenvalues=[-1.0], coefficients=[1.0]), "`eigenvalues` of LinearModel must be ≥ 0"),
        (lambda: SingleNeuron.random(beta_star=[1.0], draws=0), "`draws` must be a whole number ≥ 1. Got 0."),
        (lambda: SingleNeuron.random(beta_star=[1.0], sigma_a=-1.0), "a standard deviation must be finite and ≥ 0"),
        (lambda: SingleNeuron(a0=0.0, w0=[1.0, 1e-150], beta_star=[0.0, 1.0]).solve(1.0), "separatrix"),
        (lambda: WideScalar(u0=[1e-150, 1.0], w0=[[1e-150], [-1.0]], x=[1.0], y=1.0).solve(1.0), "saddle's axis"),
    ],
)
def test_each_theory_refuses_what_it_cannot_solve(make: Any, text: str) -> None:
    with pytest.raises(RichterError) as caught:
        make()
    assert text in str(caught.value)


@pytest.mark.parametrize(
    ("times", "text"),
    [
        ([], "the times must hold at least one number. Got none. Use t=[0, 1, inf]."),
        ([-1.0], "the times must be ≥ 0. Got -1.0."),
        ([float("nan")], "the times must be ≥ 0. Got nan."),
        ([[0.0], [1.0]], "the times must be a list. Got shape (2, 1)."),
        ("soon", "the times must be numbers. Got 'soon'."),
    ],
)
def test_wrong_times_are_one_clear_line(times: Any, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SingleNeuron(**GOOD).solve(times)
    assert text in str(caught.value)


def test_unknown_names_come_with_the_nearest() -> None:
    theory = SingleNeuron(**GOOD)
    with pytest.raises(UnknownNameError, match=r"no variable `bta`. Did you mean beta\? Known: a, beta, delta"):
        theory.solve(1.0, only=("bta",))
    with pytest.raises(UnknownNameError, match=r"no parameter `a`. "):
        theory.with_(a=1.0)
    with pytest.raises(UnknownNameError, match=r"no parameter `eta`. Did you mean eta_"):
        SingleNeuron.of(eta=1.0)
    with pytest.raises(ParameterError, match=r"must be given `w0` \(input\), `beta_star` \(input\). Got a0."):
        SingleNeuron.of(a0=1.0)


def test_scalars_spread_over_their_own_dimension() -> None:
    net = DiagonalNetwork(a0=0.1, b0=0.2, target=[1.0, 2.0, 3.0])
    assert net.a0.tolist() == [0.1, 0.1, 0.1]
    assert SingleNeuron(a0=1, w0=0, beta_star=2.0).w0.tolist() == [0.0]


def test_batches_broadcast_and_are_named() -> None:
    theory = SingleNeuron(a0=np.ones((3, 1)), w0=np.ones((2, 2)), beta_star=[1.0, 2.0], batch=("imbalance", "draw"))
    assert theory.solve([0.0]).w.dims == ("imbalance", "draw", "t", "input")
    assert theory.solve([0.0]).w.shape == (3, 2, 1, 2)
    plain = SingleNeuron(a0=np.ones(3), w0=[1.0], beta_star=[1.0])
    assert plain.solve([0.0]).a.dims == ("start", "t")
    assert SingleNeuron(a0=np.ones((2, 2)), w0=[1.0], beta_star=[1.0]).solve([0.0]).a.dims == (
        "start_1",
        "start_2",
        "t",
    )


def test_float32_and_integers_come_out_as_float64() -> None:
    theory = SingleNeuron(a0=np.float32(0.1), w0=np.array([1, 2], dtype=np.int8), beta_star=np.ones(2, np.float32))
    ds = theory.solve(np.float32(1.0))
    assert {str(v.dtype) for v in ds.data_vars.values()} == {"float64"}
    assert theory.a0.item() == float(np.float32(0.1))


def test_parameters_cannot_be_changed_behind_the_theory() -> None:
    given = np.array([1.0, 0.0])
    theory = SingleNeuron(a0=1.0, w0=given, beta_star=[0.0, 1.0])
    before = theory.solve(1.0).loss.item()
    given[:] = 5.0
    assert theory.solve(1.0).loss.item() == before
    with pytest.raises(ValueError, match="read-only"):
        theory.w0[0] = 2.0


def test_one_declaration_gives_schema_and_options() -> None:
    schema = json_schema("SingleNeuron", "x", declared(SingleNeuron))
    properties: Any = schema["properties"]
    assert schema["required"] == ["a0", "w0", "beta_star"]
    assert properties["eta_a"]["anyOf"][0] == {"type": "number", "minimum": 0}
    assert properties["eta_a"]["default"] == 1.0
    assert parse("SingleNeuron", declared(SingleNeuron), {"a0": "1e-3", "w0": "[1, 2]"}) == {"a0": 1e-3, "w0": [1, 2]}
    with pytest.raises(ParameterError, match=r"`w0` of SingleNeuron must be a JSON array, such as \[1, 0\]. Got"):
        parse("SingleNeuron", declared(SingleNeuron), {"w0": "[1, 2"})
