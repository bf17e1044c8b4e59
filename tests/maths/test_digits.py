"""Every theory against 50 digits, on a thousand starts each, in units of the condition number."""

from __future__ import annotations

import numpy as np
import pytest

from richter.refs import KUN24, NAM24, XU24
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar
from tests.maths.judge import Verdict, assert_digits, judge
from tests.maths.starts import diagonal_starts, linear_starts, neuron_starts, scalar_starts, wide_starts
from tests.references import networks
from tests.references.neuron import neuron


def report(record_property: object, verdict: Verdict) -> None:
    """Keep the worst errors with the test's report."""
    for name, error in verdict.worst.items():
        record_property(name, error)  # type: ignore[operator]


@pytest.mark.place(KUN24["Eq. 13"], KUN24["Eq. 1"], KUN24["Eq. 10"], KUN24["Eq. 34"], KUN24["Eq. 35"], KUN24["Sec. 1"])
@pytest.mark.parametrize(("inputs", "starts"), [(1, 300), (2, 350), (3, 350)])
def test_single_neuron(inputs: int, starts: int, seed: int, record_property: object) -> None:
    verdict = judge(SingleNeuron, neuron, *neuron_starts(seed, inputs, starts))
    report(record_property, verdict)
    assert_digits(verdict)


@pytest.mark.place(
    XU24["Eq. 4"], XU24["Eq. 5"], XU24["Eq. 6"], XU24["Eq. 7"], XU24["Eq. 8"], XU24["Eq. 9"], XU24["Eq. 10"],
    XU24["Eq. 11"], XU24["Sec. 3.1"], XU24["Prop. 2"],
)  # fmt: skip
@pytest.mark.parametrize(("neurons", "inputs", "starts"), [(1, 1, 350), (2, 1, 350), (3, 2, 300)])
def test_wide_scalar(neurons: int, inputs: int, starts: int, seed: int, record_property: object) -> None:
    reference = lambda numbers: networks.wide(numbers, neurons, inputs)
    verdict = judge(WideScalar, reference, *wide_starts(seed, neurons, inputs, starts))
    report(record_property, verdict)
    assert_digits(verdict)


@pytest.mark.place(NAM24["Eq. 6.10"], NAM24["Eq. 6.11"], NAM24["Eq. 6.12"], NAM24["Eq. 6.13"])
@pytest.mark.parametrize(("neurons", "starts"), [(1, 500), (3, 500)])
def test_scalar_network(neurons: int, starts: int, seed: int, record_property: object) -> None:
    verdict = judge(ScalarNetwork, lambda x: networks.scalar(x, neurons), *scalar_starts(seed, neurons, starts))
    report(record_property, verdict)
    assert_digits(verdict)


@pytest.mark.place(NAM24["Eq. 6.10"], NAM24["Eq. 6.12"])
@pytest.mark.parametrize(("modes", "starts"), [(1, 500), (3, 500)])
def test_diagonal_network(modes: int, starts: int, seed: int, record_property: object) -> None:
    verdict = judge(DiagonalNetwork, lambda x: networks.diagonal(x, modes), *diagonal_starts(seed, modes, starts))
    report(record_property, verdict)
    assert_digits(verdict)


@pytest.mark.place(NAM24["Eq. 1.25"], NAM24["Eq. 1.26"])
@pytest.mark.parametrize(("modes", "starts"), [(1, 500), (3, 500)])
def test_linear_model(modes: int, starts: int, seed: int, record_property: object) -> None:
    verdict = judge(LinearModel, lambda x: networks.linear(x, modes), *linear_starts(seed, modes, starts))
    report(record_property, verdict)
    assert_digits(verdict)


def test_the_bar_sees_a_thirteenth_digit_control(seed: int) -> None:
    given, t = linear_starts(seed, 3, 20)
    wrong = judge(LinearModel, lambda x: networks.linear([*x[:-1], x[-1] * (1 + 2e-10)], 3), given, np.minimum(t, 1e9))
    assert wrong.wrong
