r"""Fits of noisy labels by more features than examples: benign and malignant overfitting (NAM24 §1.6)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.overfitting import (
    effective_ranks,
    fitted_coefficients,
    signal_window,
    sine_basis,
    two_block_spectrum,
)
from richter.params import Given, numbers
from richter.theory.eigenlearning import CONVENTION, learnability

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Basis = Literal["sine", "gaussian"]


def sine_fits(
    inputs: Given,
    signal: Given,
    intensities: Given,
    noise: Given = 0.0,
    *,
    first: int | None = None,
    grid: int = 401,
) -> xr.Dataset:
    r"""Minimum-norm fits of labels by models $\sum_kw_k\sqrt{\rho_k}\sqrt2\sin(2\pi kx)$, split into parts.

    The fit is linear in the labels: `fit` has a `part` for the signal and one for the noise, and, if `first` is
    given, the share of the first features and that of the rest. Summed over both it is the learned function.

    Args:
        inputs: x (example,), in [0, 1].
        signal: labels without noise (example,).
        intensities: ρ (mode,), or one row for each model (model, mode).
        noise: what is added to the labels (example,).
        first: number of features shown apart from the rest.
        grid: points of x at which the functions are given.

    >>> k = np.arange(1.0, 11)
    >>> ds = sine_fits([0.1, 0.3, 0.6, 0.8], [1.0, -0.5, 0.2, 0.7], [k**-8, k**8])  # NAM24 Fig. 1.2
    >>> (ds.utilisation * ds.mode).sum("mode").values.round(1).tolist()  # mean frequency of the fits
    [2.7, 7.3]
    """
    import xarray as xr

    x, labels, rho = (
        numbers(f"`{name}` of sine_fits", value)
        for name, value in (("inputs", inputs), ("signal", signal), ("intensities", intensities))
    )
    added = (
        np.broadcast_to(numbers("`noise` of sine_fits", noise), labels.shape)
        if np.ndim(noise) == 0
        else (numbers("`noise` of sine_fits", noise))
    )
    if x.ndim != 1 or labels.shape != x.shape or added.shape != x.shape:
        shapes = f"{x.shape}, {labels.shape} and {added.shape}"
        raise ParameterError(message("`inputs`, `signal` and `noise` of sine_fits", "be lists of one length", shapes))
    if (x < 0).any() or (x > 1).any():
        raise ParameterError(message("`inputs` of sine_fits", "lie in [0, 1]", float(x[(x < 0) | (x > 1)][0])))
    models = np.atleast_2d(rho)
    if rho.ndim > 2 or (models < 0).any() or not (models > 0).any(axis=-1).all():
        must = "be (mode,) or (model, mode), each ≥ 0 and some of each model > 0"
        raise ParameterError(message("`intensities` of sine_fits", must, rho))
    p = models.shape[-1]
    cut = p if first is None else _whole("`first` of sine_fits", first, 1, p)
    points = np.linspace(0.0, 1.0, _whole("`grid` of sine_fits", grid, 2))
    basis, shown = sine_basis(x, p), sine_basis(points, p)
    made = np.array([[fitted_coefficients(r, basis, part) for part in (labels, added)] for r in models])
    blocks = [made[..., :cut] @ shown[:cut], made[..., cut:] @ shown[cut:]][: 1 if first is None else 2]
    whole = made.sum(axis=1)
    square = (whole**2).sum(axis=-1, keepdims=True)
    say = lambda words: {"long_name": words}
    ds = xr.Dataset(
        {
            "fit": (("model", "features", "part", "x"), np.stack(blocks, axis=1), say("learned function")),
            "coefficient": (("model", "part", "mode"), made, say("coefficient of √2 sin 2πkx")),
            "utilisation": (
                ("model", "mode"), whole**2 / np.where(square > 0, square, np.nan),
                {**say("share of the learned function's variance"), "undefined_when": "the function is 0"},
            ),
            "intensity": (("model", "mode"), models, say("ρ")),
            "input": ("example", x, say("x of the examples")),
            "label": ("example", labels + added, say("noisy label")),
        },
        {
            "x": points, "mode": np.arange(1, p + 1), "part": ["signal", "noise"],
            "features": ["all"] if first is None else ["first", "rest"],
        },
        {"model": "sine-fits"},
    )  # fmt: skip
    return ds if rho.ndim == 2 else ds.isel(model=0)


def two_block(
    n: int = 100,
    p: int = 2000,
    d: int = 5,
    tail_weight: float = 1.0,
    *,
    target_mode: int = 1,
    noise: float = 0.3,
    times: Given = None,
    basis: Basis = "sine",
    draws: int = 1,
    rng: np.random.Generator | int = 0,
) -> xr.Dataset:
    r"""Gradient flow of d strong and p − d weak features on noisy labels: error of signal and of noise over time.

    $\rho_k=1$ for k ≤ d and T/(p − d) above; the target is $\sin(2\pi kx)$ with k = `target_mode`: benign for k ≤ d
    and T ≪ n (NAM24 Fig. 1.3), malignant for k > d (Fig. 1.5). Times are ηt of the flow on the mean loss; the
    signal is fitted from `window_start` on, the noise from `window_end` = n/T on. The printed tail is T = n.

    `signal_error` is $\|f_{signal}-f^*\|^2$, `noise_error` $\|f_{noise}\|^2$, over the input distribution; their sum
    is `clean_error` up to a cross term of mean 0. Errors carry no ½; `expected_clean_error` is the eigenlearning
    prediction for t = ∞.

    Sine features of uniform x are not Gaussian: between two examples nearer than 1/p, of which there are about n²/p,
    their noise is overshot by the inverse of the distance. The median over data sets is near the prediction for
    small n²/p; the mean is not, and grows without bound with the number of draws.

    Args:
        n: examples, with x uniform on [0, 1].
        p: features, more than n.
        d: strong features, fewer than n.
        tail_weight: T.
        target_mode: frequency of the target.
        noise: standard deviation of the labels' noise.
        times: ηt; 61 times around the window and ∞ if not given.
        basis: "sine", or "gaussian" for independent Gaussian features, to which the predictions apply exactly.
        draws: data sets.
        rng: generator or seed.

    >>> benign, malignant = (
    ...     two_block(p=4000, target_mode=k, basis="gaussian", times=[np.inf]).clean_error.item() for k in (1, 10)
    ... )
    >>> benign < 0.03 < 0.4 < malignant  # the target's variance is 0.5
    True
    """
    import xarray as xr

    sizes = {"d": d, "n": n, "p": p, "target_mode": target_mode, "draws": draws}
    d, n, p, target_mode, draws = (_whole(f"`{name}` of two_block", value, 1) for name, value in sizes.items())
    if not d < n < p:
        raise ParameterError(message("`d`, `n` and `p` of two_block", "satisfy d < n < p", f"{d}, {n} and {p}"))
    if target_mode > p:
        raise ParameterError(message("`target_mode` of two_block", f"be one of the p = {p} features", target_mode))
    for name, value, low in (("tail_weight", tail_weight, 1e-12), ("noise", noise, 0.0)):
        if numbers(f"`{name}` of two_block", value).ndim or value < low:
            raise ParameterError(message(f"`{name}` of two_block", f"be a number ≥ {low:g}", value))
    if basis not in ("sine", "gaussian"):
        raise ParameterError(message("`basis` of two_block", 'be "sine" or "gaussian"', basis))
    start, end = (float(edge) for edge in signal_window(n, tail_weight))
    if times is None:
        t = np.append(np.geomspace(0.01 * start, 100 * max(start, end), 61), np.inf)
    else:
        from richter.theory.layout import check_times

        t = check_times(times)
    generator = np.random.default_rng(rng)
    rho = two_block_spectrum(p, d, tail_weight)
    target = np.zeros(p)
    target[target_mode - 1] = np.sqrt(0.5)
    rows: dict[str, list[Floats]] = {name: [] for name in (*_SAYS, "input", "label")}
    for _ in range(draws):
        x = generator.uniform(size=n)
        e = sine_basis(x, p) if basis == "sine" else generator.standard_normal((p, n))
        parts = target @ e, noise * generator.standard_normal(n)
        fitted = [fitted_coefficients(rho, e, part, t) for part in parts]
        left = [((part - c @ e) ** 2).mean(axis=-1) for part, c in zip(parts, fitted, strict=True)]
        both = fitted[0] + fitted[1]
        made = {
            "signal_error": ((fitted[0] - target) ** 2).sum(axis=-1),
            "noise_error": (fitted[1] ** 2).sum(axis=-1),
            "clean_error": ((both - target) ** 2).sum(axis=-1),
            "signal_left": left[0], "noise_left": left[1],
            "train_error": ((parts[0] + parts[1] - both @ e) ** 2).mean(axis=-1),
            "input": x, "label": parts[0] + parts[1],
        }  # fmt: skip
        for name, value in made.items():
            rows[name].append(value)
    expected = learnability(rho, n, coefficients=target, noise=noise)
    rank, spread = effective_ranks(rho, d)
    variables = {name: (("draw", "t"), np.array(rows[name]), {"long_name": says}) for name, says in _SAYS.items()}
    data = {name: (("draw", "example"), np.array(rows[name])) for name in ("input", "label")}
    single = {
        "window_start": start, "window_end": end, "effective_rank": float(rank), "effective_rank_of_squares":
        float(spread), "learnability_first": float(expected.learnability[0]),
        "learnability_rest": float(expected.learnability[-1]),
        "expected_clean_error": float(expected.clean_error), "overfitting": float(expected.overfitting),
    }  # fmt: skip
    attrs = {"model": "two-block", "loss_convention": CONVENTION, "basis": basis}
    return xr.Dataset({**variables, **data, **{k: ((), v) for k, v in single.items()}}, {"t": t}, attrs)


_SAYS = {
    "signal_error": "error of what is learned from the signal alone",
    "noise_error": "variance of what is learned from the noise alone",
    "clean_error": "mean square error on the target",
    "signal_left": "mean square of the signal not fitted on the examples",
    "noise_left": "mean square of the noise not fitted on the examples",
    "train_error": "mean square error on the noisy training labels",
}


def _whole(what: str, value: object, low: int, high: int | None = None) -> int:
    good = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not good or int(value) < low or (high is not None and int(value) > high):  # type: ignore[call-overload]
        must = f"be a whole number ≥ {low}" if high is None else f"be a whole number from {low} to {high}"
        raise ParameterError(message(what, must, value))
    return int(value)  # type: ignore[call-overload]
