"""Phases of scaling limits: Table 1 cell by cell, the corollaries, and finite sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from richter.errors import ParameterError
from richter.maths.scaling_limits import speed_exponents, stable_rate, to_feature_learning, to_kernel
from richter.refs import XU24
from richter.theory.finite_size import expected_exponents, finite_size, fitted_exponents, gaussian_pair
from richter.theory.phases import SCALINGS, phase, table_1

# XU24 Table 1 as printed: phase, c_η*, phase*, (c_η⁺, c_γ⁺), phase⁺, (c_η⁻, c_γ⁻), phase⁻.
PRINTED: dict[str, tuple[Any, ...]] = {
    "NTK": ("kernel", 0, "kernel", 1, -1, "feature-learning", 0, -0.5, "kernel"),
    "mean field": ("frozen", 1, "feature-learning", 1, -1, "feature-learning", 0, -0.5, "kernel"),
    "Xavier": ("feature-learning", 0, "feature-learning", 0, 0, "feature-learning", -2, 1, "kernel"),
    "Kaiming": ("unstable", -1, "kernel", 1, -1, "feature-learning", -1, 0, "kernel"),
    "lazy": ("unstable", -2, "kernel", 0, 0, "feature-learning", -2, 1, "kernel"),
}


@pytest.mark.place(XU24["Eq. 15"], XU24["Theorem 2"], XU24["Eq. 16"])
@pytest.mark.parametrize("row", table_1(), ids=lambda row: str(row["scaling"]))
def test_table_1_cell_by_cell(row: dict[str, object]) -> None:
    cells = list(row.values())
    assert tuple(cells[1:]) == PRINTED[str(cells[0])]


@pytest.mark.place(XU24["Corollary 1"], XU24["Corollary 2"], XU24["Corollary 3"])
def test_the_corollaries_hold_for_random_exponents() -> None:
    rng = np.random.default_rng(0)
    c_gamma, c_u, c_w = rng.uniform(-3, 3, (3, 500))
    one = np.ones(500)
    rate = stable_rate(one, c_gamma, c_u, c_w)
    F, K = speed_exponents(one, c_gamma, c_u, c_w, rate, rate)
    np.testing.assert_allclose(np.maximum(F, K), 0, atol=1e-12)  # of exponents of size 1
    for above in (0.0, 1.0):
        eta, gamma = to_feature_learning(one, c_u, c_w, above)
        assert set(np.asarray(phase(one, gamma, c_u, c_w, eta, eta).label)) == {"feature-learning"}
    for below in (0.1, 2.0):
        eta, gamma = to_kernel(one, c_u, c_w, below)
        assert set(np.asarray(phase(one, gamma, c_u, c_w, eta, eta).label)) == {"kernel"}
    assert set(np.asarray(phase(one, c_gamma, c_u, c_w, rate + 1, rate + 1).label)) == {"unstable"}
    assert set(np.asarray(phase(one, c_gamma, c_u, c_w, rate - 1, rate - 1).label)) == {"frozen"}


@pytest.mark.place(XU24["Sec. 4"], XU24["Sec. 4.1"])
def test_the_printed_kernel_condition_is_wrong() -> None:
    # Printed: 0 = c_γ + c_d + max{·} > c_η + c_η. The NTK scaling misses it, a frozen scaling meets it.
    printed = lambda g, u, w, e: abs(g + 1 + max(e + u, e + w)) < 1e-12 and 0 > 2 * e
    assert phase(1, -0.5, 0, 0, 0, 0).label == "kernel" and not printed(-0.5, 0, 0, 0)
    assert phase(1, -0.5, 0, 0, -0.5, -0.5).label == "frozen" and printed(-0.5, 0, 0, -0.5)


def test_without_balance_a_dominating_kernel_part_is_not_the_kernel_phase() -> None:
    assert phase(0, 1, 0, 0, -2, -2).label == "feature-learning"
    assert phase(0, 1, 0, 0, -2, -2, balanced_output=True).label == "kernel"
    assert phase(0, 0.5, 0, -1, -1, -1).label == "kernel"  # one layer dominates: case 3
    assert "still feature learning" in str(phase(0, 1, 0, 0, -2, -2))


@pytest.mark.place(XU24["Eq. 14"])
@pytest.mark.parametrize("scaling", SCALINGS, ids=lambda scaling: scaling.name)
def test_finite_sizes_have_the_exponents_of_the_limit(scaling: Any, seed: int) -> None:
    rate = float(stable_rate(scaling.c_d, scaling.c_gamma, scaling.c_u, scaling.c_w))
    pairs: dict[str, tuple[Any, Any]] = {
        "printed": (0.0, scaling.c_gamma), "stable": (rate, scaling.c_gamma),
        "plus": to_feature_learning(scaling.c_d, scaling.c_u, scaling.c_w),
        "minus": to_kernel(scaling.c_d, scaling.c_u, scaling.c_w, scaling.below),
    }  # fmt: skip
    for eta, gamma in ((float(e), float(g)) for e, g in pairs.values()):
        exponents = {"c_d": scaling.c_d, "c_gamma": gamma, "c_u": scaling.c_u, "c_w": scaling.c_w,
                     "c_eta_u": eta, "c_eta_w": eta}  # fmt: skip
        zero = bool(scaling.balanced_output)
        made = fitted_exponents(finite_size(exponents, (1e2, 1e3, 1e4, 1e5), 8000, rng=seed, zero_output=zero))
        for name, expected in expected_exponents(exponents, zero).items():
            got = float(made.exponent.sel(quantity=name))
            if expected == -np.inf:
                assert np.isnan(got), name
            else:
                assert got == pytest.approx(expected, abs=0.02), (name, eta, gamma)


def test_the_drawn_lengths_and_angles_are_those_of_gaussian_layers(seed: int) -> None:
    from scipy.stats import ks_2samp

    rng = np.random.default_rng([seed, 30])
    for width in (2, 5, 64):
        for zero in (False, True):
            u, w = gaussian_pair(rng, 4000, width, zero)
            U, W = rng.standard_normal((2, 4000, width))
            if zero:
                half = width // 2
                U[:, half : 2 * half], W[:, half : 2 * half] = -U[:, :half], W[:, :half]
                U, W = U[:, : 2 * half], W[:, : 2 * half]
            inner = lambda a, b: (a * b).sum(axis=1)
            for one, two in ((inner(u, u), inner(U, U)), (inner(w, w), inner(W, W)), (inner(u, w), inner(U, W))):
                if zero and one is not two and np.abs(two).max() < 1e-9:
                    assert not one.any()
                else:
                    assert ks_2samp(one, two).pvalue > 1e-6, (width, zero)


def test_learning_times_far_below_rounding_are_fitted_too() -> None:
    exponents = {"c_d": 1.0, "c_gamma": 2.0, "c_u": 0.0, "c_w": 0.0, "c_eta_u": -0.4, "c_eta_w": -0.4}
    made = fitted_exponents(finite_size(exponents, (1e2, 1e3, 1e5), 500))
    assert float(made.exponent.sel(quantity="t_c")) == pytest.approx(-4.6, abs=0.02)


def test_a_fit_needs_three_sizes() -> None:
    ds = finite_size(dict.fromkeys(("c_d", "c_gamma", "c_u", "c_w", "c_eta_u", "c_eta_w"), 0.0), (10, 100), 5)
    with pytest.raises(ParameterError, match="have at least three values of κ. Got 2"):
        fitted_exponents(ds)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: phase(-1, 0, 0, 0, 0, 0), "`c_d` must be ≥ 0 (a width cannot shrink). Got -1.0."),
        (lambda: phase(1, float("nan"), 0, 0, 0, 0), "`c_gamma` must be finite. Got nan."),
        (lambda: phase([1, 1], [0, 0, 0], 0, 0, 0, 0), "the exponents must broadcast against each other."),
        (lambda: to_kernel(1, 0, 0, below=0), "`below` must be > 0. Got 0.0."),
        (lambda: to_feature_learning(1, 0, 0, above=-1), "`above` must be ≥ 0. Got -1.0."),
        (lambda: finite_size({"c_d": 1.0}), "`scaling` must have the keys c_d, c_gamma"),
    ],
)
def test_wrong_exponents_are_one_clear_line(make: Any, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert text in str(caught.value)
