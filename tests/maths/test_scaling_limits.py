"""Scaling limits: the steps of Theorem 2's proof, and the misprints in the descriptions of the experiments."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.growth import growth, growth_rates
from richter.maths.scaling_limits import (
    classify,
    fan_in_exponents,
    speed_exponents,
    stable_rate,
    start_scaling,
    to_feature_learning,
    to_kernel,
    trained_scales,
)
from richter.refs import XU24
from richter.testing.tolerances import IDENTITY, SLOPE, assert_close, assert_slope, assert_within_errors
from richter.theory.phases import phase, table_1

KAPPA = np.array([1e8, 1e9, 1e10])


@pytest.mark.place(XU24["Eq. 36"], XU24["Eq. 37"], XU24["Eq. 38"], XU24["Definition 1"])
def test_the_kernel_stays_in_the_kernel_phase_and_moves_in_the_other(seed: int) -> None:
    rng = np.random.default_rng([seed, 120])
    seen = []
    for _ in range(60):
        c_d, c_gamma, c_u, c_w = 1.0, *rng.uniform(-2, 2, 3)
        rate = float(stable_rate(c_d, c_gamma, c_u, c_w))
        if rng.random() < 0.4:
            rate, c_gamma = (float(c) for c in to_feature_learning(c_d, c_u, c_w))
        F, K = (float(x) for x in speed_exponents(c_d, c_gamma, c_u, c_w, rate, rate))
        assert abs(max(F, K)) < 1e-12  # Eq. 15
        if 0 < K - F < 1.5 or abs(c_u - c_w) < 0.5:
            continue  # the limit is too far away to be seen at κ = 1e10
        label = classify(F, K, True).item()
        # P = Q: the mean squares of Gaussian layers, ρ = y = 1.
        P = (KAPPA ** (rate + c_u) + KAPPA ** (rate + c_w)) / 4
        kernel = KAPPA ** (2 * c_gamma + c_d) * P  # γ²dP
        end = growth(growth_rates(kernel, kernel, KAPPA ** (c_gamma + rate)), np.inf).factor
        if K >= F:
            assert_slope(KAPPA, kernel * end, 0.0, says="Eq. 38: the kernel's size stays")
            assert abs(K) < 1e-12  # Eq. 37
        assert_slope(KAPPA, kernel, K, says="exponent of γ²dP")
        if label == "kernel":
            assert abs(end[-1] - 1) < 1e-6, "Eq. 36: α₊ → 1"
        else:
            assert label == "feature-learning" and abs(end[-1] - 1) > 0.1
        # The kernel over time is 2c(αP + Q/α): by how much it has moved at the end.
        moved = abs((end + 1 / end) / 2 - 1)
        assert (moved[-1] < 1e-6) == (label == "kernel"), "Definition 1"
        seen.append(label)
    assert {"kernel", "feature-learning"} <= set(seen)


@pytest.mark.place(XU24["App. B.3"])
def test_trained_scales_have_the_exponents_of_table_1() -> None:
    width = np.array([10.0, 100.0, 1000.0])
    made = trained_scales(width)
    rows = {str(row["scaling"]): row for row in table_1()}
    for name, (gamma, eta) in made.items():
        base, kind = (name[:-1], name[-1]) if name[-1] in "+-" else (name, "-" if name == "NTK" else "+")
        row = rows[base]
        assert_slope(width, gamma, float(str(row[f"c_gamma{kind}"])), says=f"γ of {name}")
        assert_slope(width, eta, float(str(row[f"c_eta{kind}"])), says=f"η of {name}")
    for one, other in (("NTK", "mean field"), ("Kaiming+", "Kaiming-"), ("Xavier+", "Xavier-")):
        at_100 = [np.array(made[name])[:, 1] for name in (one, other)]
        assert_close(at_100[0], at_100[1], IDENTITY, says=f"{one} and {other} at width 100")
        assert np.abs(np.array(made[one])[:, 2] / np.array(made[other])[:, 2] - 1).max() > 0.5
    assert phase(1, 0, 0, -1, -1, -1).label == "kernel"
    assert phase(1, 0, 0, -1, 1, 1).label == "unstable"  # Kaiming⁻ with η ∝ d, as printed


@pytest.mark.place(XU24["Table 1"])
def test_fan_in_is_the_other_way_round_and_it_does_not_matter(seed: int) -> None:
    rng = np.random.default_rng([seed, 121])
    c_u, c_w = (float(c) for c in fan_in_exponents(1.0))
    x, draws = np.array([1.0, -0.5, 2.0]), 400
    for width in (50, 400):
        hidden = lambda c, n=width: (np.sqrt(n**c) * rng.standard_normal((draws, n, 3)) @ x) ** 2
        assert_within_errors(hidden(c_w).mean(1), float(x @ x), says="fan-in keeps the hidden layer's size")
        assert hidden(-1.0).mean() < 0.1 * float(x @ x)  # as printed it shrinks with the width
        read = (np.sqrt(width**c_u) * rng.standard_normal((draws, width))).sum(1) ** 2
        assert_within_errors(read, 1.0, says="and the output's")
    for eta, gamma in ((0, 0), (-1, 0), (1, -1)):
        assert phase(1, gamma, 0, -1, eta, eta).label == phase(1, gamma, c_u, c_w, eta, eta).label
    assert [float(c) for c in to_kernel(1, 0, -1)] == [float(c) for c in to_kernel(1, c_u, c_w)]


@pytest.mark.place(XU24["Sec. 4.2"], XU24["App. B.4"])
@pytest.mark.parametrize("c_w", [-1.0, -0.4, 0.5, 1.2])
def test_starts_of_growing_scale_have_no_output_of_order_1(c_w: float, seed: int) -> None:
    rng = np.random.default_rng([seed, 122])
    c_u, c_gamma, c_out = (float(c) for c in start_scaling(c_w))
    F, K = speed_exponents(0, c_gamma, c_u, c_w, 0, 0)
    assert np.maximum(F, K) == pytest.approx(0, abs=1e-12) and (K > F + 1e-12) == (c_w > 0)  # exponents of size 1
    kappa, width, draws = np.array([1e1, 1e2, 1e3, 1e4]), 8, 4000
    u = rng.standard_normal((4, draws, width)) * kappa[:, None, None] ** (c_u / 2)
    w = rng.standard_normal((4, draws, width)) * kappa[:, None, None] ** (c_w / 2)
    size = np.sqrt(((kappa[:, None] ** c_gamma * (u * w).sum(-1)) ** 2).mean(-1))
    assert_slope(kappa, size, c_out, within=SLOPE, says="f(0)")
    assert abs(c_out) > 0.1 and c_out == pytest.approx(c_w / 2)
    if c_w > 0:
        ratio = ((u + w) ** 2).sum(-1) / ((u - w) ** 2).sum(-1)
        assert (np.median(np.abs(ratio - 1), axis=-1) > 0.2).all()  # P/Q does not tend to 1
        assert phase(0, c_gamma, c_u, c_w, 0, 0).label == "feature-learning"
        assert phase(0, c_gamma, c_u, c_w, 0, 0, balanced_output=True).label == "kernel"
        F, K = speed_exponents(0, -c_gamma, c_w, c_u, 0, 0)  # App. B.4 as printed
        assert max(F, K) == pytest.approx(2 * c_w) and phase(0, -c_gamma, c_w, c_u, 0, 0).label == "unstable"
