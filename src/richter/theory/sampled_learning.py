r"""Kernel regression on drawn data sets: the witness of the eigenlearning predictions."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.params import Given, numbers, resolve
from richter.theory.eigenlearning import CONVENTION, PARAMS, SAYS
from richter.theory.starts import draw, mean_and_spread

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
BLOCK = 1 << 22  # feature values drawn at once
ORTHONORMAL = 1e-6  # by which the mean of e_k e_l over the pool may differ from δ_kl


def sample_learnability(
    eigenvalues: Given,
    n: int,
    ridge: float = 0.0,
    coefficients: Given = 0.0,
    noise: float = 0.0,
    *,
    eigenfunctions: Given = None,
    draws: int = 100,
    rng: np.random.Generator | int = 0,
) -> xr.Dataset:
    r"""Fit `draws` data sets of n examples by kernel (ridge) regression; mean and standard error of what is learned.

    Features are $\sqrt{\rho_k}e_k(x)$; ridge 0 is the minimum-norm least-squares fit, exact for any rank. Variables
    as in `learnability`, for comparison: `learnability` is $\partial\langle e_k|\hat f\rangle/\partial v_k$,
    `coefficient` the learned $\langle e_k|\hat f\rangle$ itself, whose mean is $L_kv_k$. Errors are exact means over
    the input distribution, without ½; `test_error` is against noisy labels.

    Args:
        eigenvalues: ρ ≥ 0 (mode,).
        n: number of training examples.
        ridge: added to the kernel matrix, K + ridge·I.
        coefficients: v (mode,) of the target.
        noise: standard deviation σ of the labels' noise.
        eigenfunctions: their values (mode, example) on a finite pool with $\mathbf E[e_ke_l]=\delta_{kl}$, from which
            the examples are drawn with replacement; independent unit Gaussians if not given.
        draws: number of data sets, at least 2.
        rng: generator or seed.

    >>> ds = sample_learnability([1.0] * 10, n=5, draws=200)  # without preference n/p of everything is learned
    >>> ds.learnability.sel(statistic="mean").mean().round(12).item()
    0.5
    """
    import xarray as xr

    who = "sample_learnability"
    given = {"eigenvalues": eigenvalues, "n": n, "ridge": ridge, "coefficients": coefficients, "noise": noise}
    read = resolve(who, {name: PARAMS[name] for name in given}, given)
    v = read.values
    if read.batch or v["n"].size > 1:
        got = ", ".join(f"{name} {value.shape}" for name, value in v.items())
        raise ParameterError(message(f"the parameters of {who}", "have no batch dimensions", got))
    samples = int(v["n"][0])
    if samples != v["n"][0]:
        raise ParameterError(message(f"`n` of {who}", "be a whole number ≥ 1", n))
    if isinstance(draws, bool) or not isinstance(draws, (int, np.integer)) or draws < 2:
        raise ParameterError(message("`draws`", "be a whole number ≥ 2", draws, "A standard error needs two."))
    rho, target, sigma = v["eigenvalues"], v["coefficients"], float(v["noise"])
    pool = None if eigenfunctions is None else _pool(eigenfunctions, rho.size)
    generator = np.random.default_rng(rng)
    block = max(1, BLOCK // (rho.size * samples))
    rows: dict[str, list[Floats]] = {
        name: [] for name in ("learnability", "coefficient", "train_error", "test_error", "clean_error")
    }
    for first in range(0, draws, block):
        count = min(block, draws - first)
        if pool is None:
            (e,) = draw(generator, count, (1.0, (rho.size, samples)))
        else:
            e = pool[:, generator.integers(pool.shape[1], size=(count, samples))].transpose(1, 0, 2)
        (epsilon,) = draw(generator, count, (sigma, (samples,)))
        fit = _fit(rho, e, np.einsum("k,bki->bi", target, e) + epsilon, float(v["ridge"]))
        clean = ((fit["coefficient"] - target) ** 2).sum(axis=-1)
        for name, value in {**fit, "test_error": clean + sigma**2, "clean_error": clean}.items():
            rows[name].append(value)
    says = {**SAYS, "coefficient": "learned coefficient of each mode, ⟨e_k|f⟩", "learnability": "∂⟨e_k|f⟩/∂v_k"}
    variables = {}
    for name, parts in rows.items():
        whole = np.concatenate(parts)
        variables[name] = (("draw", "mode")[: whole.ndim], whole, {"long_name": says[name], "units": "1"})
    attrs = {"model": who, "loss_convention": CONVENTION, "n": samples}
    return mean_and_spread(xr.Dataset(variables, attrs=attrs), "draw")


def _fit(rho: Floats, e: Floats, y: Floats, ridge: float) -> dict[str, Floats]:
    r"""Weights $\hat w=U\,s/(s^2+\mathrm{ridge})\,Vy$ of the features $USV=\sqrt\rho\,e$ (draw, mode, example)."""
    U, s, V = np.linalg.svd(np.sqrt(rho)[:, None] * e, full_matrices=False)
    square = s * s
    alive = s > s.max(axis=-1, keepdims=True) * max(e.shape[-2:]) * np.finfo(float).eps
    kept = np.where(alive, square / np.where(alive, square + ridge, 1.0), 0.0)
    seen = np.einsum("bji,bi->bj", V, y)
    learned = np.sqrt(rho) * np.einsum("bkj,bj->bk", U, kept / np.where(alive, s, 1.0) * seen)
    left = y - np.einsum("bji,bj->bi", V, kept * seen)
    share = np.einsum("bkj,bj->bk", U * U, kept)
    return {"learnability": share, "coefficient": learned, "train_error": (left**2).mean(axis=-1)}


def _pool(eigenfunctions: Given, modes: int) -> Floats:
    what = "`eigenfunctions` of sample_learnability"
    e = numbers(what, eigenfunctions)
    if e.ndim != 2 or e.shape[0] != modes:
        raise ParameterError(message(what, f"have the shape ({modes} modes, examples)", f"shape {e.shape}"))
    off = float(np.abs(e @ e.T / e.shape[1] - np.eye(modes)).max())
    if off > ORTHONORMAL:
        raise ParameterError(
            message(
                what,
                "be orthonormal over their examples, E[e_k e_l] = δ_kl",
                f"a mean that is {off:.3g} off",
                "Diagonalise the features first.",
            )
        )
    return e
