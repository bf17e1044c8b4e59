r"""What a model of fixed features learns from n examples: learnability, κ and the errors (NAM24 §1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.eigenlearning import (
    Eigenlearning,
    eigenlearning,
    learned_fraction,
    power_law_eigenlearning,
    unlearned_fraction,
)
from richter.params import Given, Param, numbers, resolve

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CONVENTION = "mean square errors without ½; NAM24's losses are half of them"
DECADES = 280.0  # of eigenvalues that a double holds
VALID = "asymptotic in n and in the number of modes: about 1 % at n = 60"
PARAMS = {
    "eigenvalues": Param(
        "eigenvalues of the kernel operator", "ρ", ("mode",), low=0, advice="Set rounding errors to 0."
    ),
    "n": Param("number of training examples", "n", ("n",), low=0, open_low=True),
    "ridge": Param(
        "ridge, added to the kernel matrix", "", low=0, advice="Use 0 for the minimum-norm solution.", required=False
    ),
    "coefficients": Param("the target's coefficients ⟨e_k|f*⟩", "v", ("mode",), required=False),
    "noise": Param("standard deviation of the labels' noise", "σ", low=0, required=False),
    "multiplicities": Param("multiplicities of the eigenvalues", "m", ("mode",), low=0, required=False),
}
SAYS = {
    "kappa": "implicit ridge κ",
    "learnability": "mean learned fraction of each mode, ρ/(ρ + κ)",
    "overfitting": "overfitting coefficient E₀ = n/(n − ΣL²)",
    "train_error": "mean square error on the noisy training labels",
    "test_error": "mean square error on noisy test labels",
    "clean_error": "mean square error on the target itself: test_error − σ²",
}


def learnability(
    eigenvalues: Given,
    n: Given,
    ridge: Given = 0.0,
    coefficients: Given = None,
    noise: Given = 0.0,
    multiplicities: Given = 1.0,
) -> xr.Dataset:
    r"""The eigenlearning prediction for kernel regression: what is learned of each mode, and the errors.

    $L_k=\rho_k/(\rho_k+\kappa)$ with $\sum_km_kL_k+\mathrm{ridge}/\kappa=n$, and with $E_0=n/(n-\sum_km_kL_k^2)$
    the mean square error $E_0\,[\sum_k(1-L_k)^2v_k^2+\sigma^2]$ on *noisy* test labels. Errors carry no ½. Without
    ridge and with n ≥ p examples κ = 0 and every L is 1; at n = p the errors of noisy labels are infinite.
    Without coefficients the errors are NaN.

    Args:
        eigenvalues: ρ ≥ 0 (…, mode); batch dimensions come first in the result.
        n: number of training examples, or a list of them: a learning curve along the dimension `n`.
        ridge: added to the kernel matrix, K + ridge·I; 0 is the minimum-norm interpolation.
        coefficients: v (…, mode) of the target in the orthonormal eigenfunctions; for an eigenvalue with a
            multiplicity the root of the sum of squares.
        noise: standard deviation σ of the labels' noise.
        multiplicities: how often each eigenvalue counts (…, mode).

    >>> ds = learnability([1.0, 1.0, 0.1, 0.1], n=2, coefficients=[1, 0, 0, 0], noise=0.5)
    >>> ds.learnability.values.round(3).tolist(), round(float(ds.test_error), 3)
    ([0.76, 0.76, 0.24, 0.24], 0.843)
    >>> dict(learnability([1.0, 0.5, 0.1], n=[1, 2, 3]).learnability.sizes)
    {'n': 3, 'mode': 3}
    """
    given = {"eigenvalues": eigenvalues, "n": n, "ridge": ridge, "noise": noise, "multiplicities": multiplicities}
    if coefficients is not None:
        given["coefficients"] = coefficients
    if np.ndim(n) > 1:
        raise ParameterError(message("`n` of learnability", "be a number or a list", f"shape {np.shape(n)}"))
    resolved = resolve("learnability", {name: p for name, p in PARAMS.items() if name in given}, given)
    v = resolved.values
    rho, m = v["eigenvalues"][..., None, :], v["multiplicities"][..., None, :]
    made = eigenlearning(
        np.broadcast_to(rho, np.broadcast_shapes(rho.shape, m.shape)), v["n"], v["ridge"][..., None], m
    )
    target = v["coefficients"][..., None, :] if coefficients is not None else None
    return _dataset(made, rho, target, v["noise"][..., None], resolved.batch, v["n"], np.ndim(n) == 0)


def power_law_learnability(
    alpha: float, n: Given, ridge: Given = 0.0, coefficients: Given = None, noise: Given = 0.0, modes: int = 100
) -> xr.Dataset:
    r"""The same for the infinite spectrum $\rho_k=k^{-(1+\alpha)}$, whose modes never end.

    Args:
        alpha: decay α between 1e-3 and 100.
        n: number of training examples, or a list of them, each at most 1e6.
        ridge: ridge, a number.
        coefficients: v (mode,) of the first modes; the target has none of the others.
        noise: standard deviation σ of the labels' noise.
        modes: modes listed in the result where no coefficients are given.

    >>> ds = power_law_learnability(1.0, n=[10, 100], coefficients=[1.0], noise=0.1)
    >>> ds.clean_error.values.round(5).tolist()
    [0.00996, 0.0099]
    """
    shown = numbers("`coefficients` of power_law_learnability", coefficients) if coefficients is not None else None
    values = {"alpha": alpha, "n": n, "ridge": ridge, "noise": noise}
    read = {name: numbers(f"`{name}` of power_law_learnability", value) for name, value in values.items()}
    for name, low, high in (("alpha", 1e-3, 100.0), ("n", 1e-3, 1e6), ("ridge", 0.0, np.inf), ("noise", 0.0, np.inf)):
        x = read[name]
        if x.ndim > (name == "n"):
            shape = "be a number or a list" if name == "n" else "be one number"
            raise ParameterError(message(f"`{name}` of power_law_learnability", shape, f"shape {x.shape}"))
        if (x < low).any() or (x > high).any():
            must = f"be between {low:g} and {high:g}" if np.isfinite(high) else f"be ≥ {low:g}"
            bad = float(x[(x < low) | (x > high)].flat[0])
            raise ParameterError(message(f"`{name}` of power_law_learnability", must, bad))
    peak = float(read["n"].max())
    if (1 + float(read["alpha"])) * np.log10(4 * max(peak, 1.0)) > DECADES:
        must = f"keep (4n)^(1 + alpha) below 1e{DECADES:g}, as κ falls that low"
        raise ParameterError(message("`n` of power_law_learnability", must, f"n = {peak:g}, alpha = {alpha:g}"))
    if shown is not None and shown.ndim != 1:
        raise ParameterError(message("`coefficients` of power_law_learnability", "be a list", f"shape {shown.shape}"))
    count = modes if shown is None else shown.size
    rho = np.arange(1.0, count + 1) ** -(1 + read["alpha"])
    samples = np.atleast_1d(read["n"])
    made = power_law_eigenlearning(float(read["alpha"]), samples, read["ridge"])
    return _dataset(made, rho, shown, read["noise"], (), samples, np.ndim(n) == 0)


def _dataset(
    made: Eigenlearning,
    rho: Floats,
    target: Floats | None,
    noise: Floats,
    batch: tuple[int, ...],
    samples: Floats,
    single: bool,
) -> xr.Dataset:
    import xarray as xr

    shape = (*batch, samples.size)
    learned = learned_fraction(rho, made.kappa)
    if target is None:
        errors = tuple(np.full(shape, np.nan) for _ in range(3))
    else:
        bias = ((unlearned_fraction(rho, made.kappa) * target) ** 2).sum(axis=-1)
        errors = made.errors(bias, noise**2)
    train, test, clean = errors
    arrays = {
        "kappa": made.kappa, "learnability": learned, "overfitting": made.overfitting,
        "train_error": train, "test_error": test, "clean_error": clean,
    }  # fmt: skip
    names = ("start",) if len(batch) == 1 else tuple(f"start_{i + 1}" for i in range(len(batch)))
    variables = {}
    for name, value in arrays.items():
        own = ("mode",) if name == "learnability" else ()
        attrs = {"long_name": SAYS[name], "units": "1"}
        if name.endswith("error"):
            attrs["undefined_when"] = "no coefficients are given"
        full = np.broadcast_to(value, (*shape, *value.shape[-1:]) if own else shape)
        variables[name] = ((*names, "n", *own), np.array(full), attrs)
    attrs = {"model": "learnability", "loss_convention": CONVENTION, "valid": VALID, "place": "NAM24 Eq. 1.35"}
    ds = xr.Dataset(variables, {"n": ("n", samples, {"long_name": "number of training examples"})}, attrs)
    return ds.isel(n=0) if single else ds
