"""The rotation to diagonal features."""

from __future__ import annotations

import numpy as np
import pytest

from richter.maths.kernel_operator import kernel_operator
from richter.maths.linear import diagonal_features, diagonal_weights
from richter.refs import NAM24
from richter.testing.tolerances import IDENTITY, assert_close


@pytest.mark.place(
    NAM24["Eq. 1.27"], NAM24["Eq. 1.28"], NAM24["Eq. A.1"], NAM24["Eq. A.2"], NAM24["Eq. A.3"], NAM24["Eq. A.4"],
    NAM24["Eq. A.5"], NAM24["Eq. A.6"],
)  # fmt: skip
def test_the_rotated_weights_make_the_same_function(seed: int) -> None:
    rng = np.random.default_rng([seed, 4])
    features, w = rng.normal(size=(4, 50)) * [[3.0], [1.0], [0.5], [0.1]], rng.normal(size=4)
    features = rng.normal(size=(4, 4)) @ features
    rho, O = diagonal_features(features @ features.T / 50)
    eigenfunctions = (O.T @ features) / np.sqrt(rho)[:, None]
    assert_close(eigenfunctions @ eigenfunctions.T / 50, np.eye(4), IDENTITY, scale=1.0, times=1e3)  # ρ over 1e4
    assert (np.diff(rho) < 0).all()
    assert_close(O.T @ O, np.eye(4), IDENTITY, scale=1.0)
    overlaps = features @ eigenfunctions.T / 50  # ⟨e_i|Φ_k⟩
    assert_close(overlaps / np.sqrt(rho), O, IDENTITY, scale=1.0, times=1e4)  # over √ρ, which spans two decades
    # A.2 to A.5: O_i·O_j is ⟨e_i|T e_j⟩/√(ρ_iρ_j), and T e_j is ρ_j e_j.
    products = np.array([[e @ kernel_operator(features, f) / 50 for f in eigenfunctions] for e in eigenfunctions])
    roots = np.sqrt(rho[:, None] * rho)
    assert_close(products / roots, O.T @ O, IDENTITY, scale=1.0, times=1e4)
    ratios = np.sqrt(rho / rho[:, None]) * (eigenfunctions @ eigenfunctions.T / 50)
    assert_close(ratios, O.T @ O, IDENTITY, scale=1.0, times=1e6)  # rounding times √(ρ_j/ρ_i)
    theta = diagonal_weights(O, w)
    function = w @ features
    assert_close(theta @ (np.sqrt(rho)[:, None] * eigenfunctions), function, IDENTITY, scale=np.abs(function).max())
    assert_close(theta @ theta, w @ w, IDENTITY)
    printed = O @ w
    assert np.abs(printed @ (np.sqrt(rho)[:, None] * eigenfunctions) - function).max() > 1e-3
