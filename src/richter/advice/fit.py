r"""The inverse fit: which solved theory a recorded run is like, with what imbalance, scale and rates."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, UnknownNameError, message, nearest
from richter.theory import SingleNeuron, WideScalar

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
STEP = 1e-5  # of the central differences of the fit
REFINED = 5  # starts of the fit that are followed to their end
SOLVED = 1e-16  # sum of squares at which nothing is left to find
KERNEL_WEIGHT = 1.0  # of the kernel's distance beside the root of the relative loss, both of order 1


@dataclass(frozen=True)
class Fit:
    """A theory fitted to a run.

    `parameters` with `intervals` (95 %, from the curvature of the fit; infinite where the run says nothing);
    `misfit`: root mean square of √(L/L₀), and of the kernel's distance if it was given; `explained`: share of its
    variance; `criterion`: Akaike's, by which fits are ordered.
    """

    theory: str
    place: str
    parameters: dict[str, float]
    intervals: dict[str, tuple[float, float]]
    misfit: float
    explained: float
    criterion: float
    assumes: str
    curve: Floats

    def plain(self) -> dict[str, object]:
        """As plain data."""
        finite = lambda pair: [x if np.isfinite(x) else None for x in pair]
        return {
            "theory": self.theory, "place": self.place, "parameters": self.parameters,
            "intervals": {name: finite(pair) for name, pair in self.intervals.items()}, "misfit": self.misfit,
            "explained": self.explained, "criterion": self.criterion, "assumes": self.assumes,
        }  # fmt: skip

    def __str__(self) -> str:
        values = ", ".join(f"{name} = {value:.4g}" for name, value in self.parameters.items())
        return f"{self.theory} ({self.place}): {values}; misfit {self.misfit:.2g}, explains {self.explained:.1%}"


@dataclass(frozen=True)
class _Candidate:
    """A theory as a curve: (θ, t, inputs) → (√(L/L₀), 1 − cosine of the kernel or NaN), and its parameters' meaning."""

    name: str
    place: str
    assumes: str
    names: tuple[str, ...]
    starts: tuple[tuple[float, ...], ...]
    curve: Callable[[Floats, Floats, int], tuple[Floats, Floats]]
    meaning: Callable[[Floats], dict[str, float]]


def _exponential(theta: Floats, t: Floats, inputs: int) -> tuple[Floats, Floats]:
    left = np.exp(-np.exp(theta[..., :1]) * t)
    return left, np.zeros(left.shape)


def _neuron_of(theta: Floats, inputs: int = 2) -> SingleNeuron:
    """(log B, log ‖β₀‖/B, asinh δ/2‖β₀‖, angle): β* = (B, 0, …); μ₀ = a‖w‖ is ‖β₀‖ whatever δ is."""
    log_B, log_size, imbalance, angle = np.moveaxis(theta, -1, 0)
    B = np.exp(np.clip(log_B, -20, 20))
    size = B * np.exp(np.clip(log_size, -25, 5))
    half = np.clip(imbalance, -8, 8) / 2
    a, w = np.sqrt(size) * np.exp(half), np.sqrt(size) * np.exp(-half)  # a² − w² = 2 size sinh(2 half)
    rest = [0.0] * (inputs - 2)  # the motion stays in the plane of β* and w; the kernel has as many rows as inputs
    both = lambda first, second: np.stack(np.broadcast_arrays(first, second, *rest), axis=-1)
    return SingleNeuron(a0=a, w0=both(w * np.cos(angle), w * np.sin(angle)), beta_star=both(B, 0.0))


def _neuron(theta: Floats, t: Floats, inputs: int) -> tuple[Floats, Floats]:
    ds = _neuron_of(theta, inputs).arrays(t, ["loss", "kernel_distance"])
    loss = ds["loss"][1]
    return np.sqrt(loss / loss[..., :1]), ds["kernel_distance"][1]


def _neuron_means(theta: Floats) -> dict[str, float]:
    made = _neuron_of(theta)
    a, w = float(made.a0), np.asarray(made.w0)
    delta = (a - np.linalg.norm(w)) * (a + np.linalg.norm(w))
    B = float(made.beta_star[0])
    return {
        "rate": B, "scale": float(a * np.linalg.norm(w)) / B, "delta": float(delta) / B,
        "alignment": float(w[0] / np.linalg.norm(w)),
    }  # fmt: skip


def _wide_of(theta: Floats) -> WideScalar:
    """(log y, log P/y, log Q/y): two neurons, one aligned and one anti-aligned half each, on x = 1."""
    log_y, log_p, log_q = np.moveaxis(theta, -1, 0)
    y = np.exp(np.clip(log_y, -20, 20))
    P, Q = y * np.exp(np.clip(log_p, -25, 8)), y * np.exp(np.clip(log_q, -25, 8))
    p, q = np.sqrt(2 * P), np.sqrt(2 * Q)
    return WideScalar(u0=np.stack([p, -q], -1), w0=np.stack([p, q], -1)[..., None], x=[1.0], y=y)


def _wide(theta: Floats, t: Floats, inputs: int) -> tuple[Floats, Floats]:
    ds = _wide_of(theta).arrays(t, ["loss"])
    loss = ds["loss"][1]
    return np.sqrt(loss / loss[..., :1]), np.full(loss.shape, np.nan)  # a kernel of one number has no direction


def _wide_means(theta: Floats) -> dict[str, float]:
    made = _wide_of(theta)
    y = float(made.y)
    p, q = float(made.u0[0]), -float(made.u0[1])
    P, Q = p * p / 2, q * q / 2
    split = y**2 / (y**2 + 16 * P * Q)  # 4 (γ²d)² PQ with d = 2 and ρ = 1
    return {"rate": y, "P": P / y, "Q": Q / y, "feature_share": split, "growth_end": float(made.limit().growth)}


CANDIDATES = {
    c.name: c
    for c in (
        _Candidate("linear-model", "NAM24 Eq. 1.26", "one mode of a kernel that does not move: lazy", ("log λ",),
                   ((0.0,), (-2.0,), (2.0,)), _exponential, lambda v: {"rate": float(np.exp(v[0]))}),
        _Candidate("single-neuron", "KUN24 Sec. 3", "one linear neuron on whitened inputs, gradient flow",
                   ("log B", "log scale", "imbalance", "angle"),
                   tuple((0.0, s, d, a) for s in (-4.0, -0.5) for d in (-2.0, 0.0, 2.0) for a in (0.4, 1.3, 2.6)),
                   _neuron, _neuron_means),
        _Candidate("wide-scalar", "XU24 Theorem 1", "two linear layers on data on a line, gradient flow",
                   ("log y", "log P", "log Q"),
                   tuple((0.0, p, q) for p in (-6.0, -2.0, 1.0) for q in (-6.0, -2.0, 1.0)), _wide, _wide_means),
    )
}  # fmt: skip


def fit_run(
    times: ArrayLike,
    loss: ArrayLike,
    kernel_distance: ArrayLike | None = None,
    *,
    theories: tuple[str, ...] | None = None,
    floor: float = 0.0,
    inputs: int = 2,
) -> list[Fit]:
    """Fit every solved theory of few parameters to a run, the nearest first.

    What is compared is √((L − floor)/(L₀ − floor)), which has no scale, and the kernel's distance 1 − cosine if the
    theory has one. Times of theory run with the rate that is fitted: B or y for the run's own time, so that the fit
    says nothing about the learning rate by itself; δ and the scale are in units of the target.

    Args:
        times: steps × learning rate, from 0 on.
        loss: a squared loss at these times.
        kernel_distance: 1 − cosine of the kernel to its start.
        theories: linear-model, single-neuron, wide-scalar; all by default.
        floor: the loss that is left at the end.
        inputs: the dimension of the data, at least 2; only the neuron's kernel distance depends on it.

    >>> ds = SingleNeuron(a0=0.1, w0=[0.1, 0.0], beta_star=[2.0, 0.0]).solve(np.linspace(0, 4, 40))
    >>> best = fit_run(ds.t, ds.loss)[0]
    >>> best.misfit < 1e-4
    True
    """
    t, L = np.asarray(times, dtype=float).ravel(), np.asarray(loss, dtype=float).ravel()
    K = None if kernel_distance is None else np.asarray(kernel_distance, dtype=float).ravel()
    if t.shape != L.shape or t.size < 8 or (K is not None and K.shape != t.shape):
        raise ParameterError(message("times and loss", "be at least 8 numbers each, as many of one as of the other",
                                     f"{t.size} and {L.size}"))  # fmt: skip
    if not (np.isfinite(t).all() and np.isfinite(L).all() and t[0] >= 0 and (np.diff(t) > 0).all()):
        raise ParameterError(message("times", "rise from 0 on, and the loss be finite", t))
    if not L[0] > floor:
        raise ParameterError(message("the first loss", f"be above the floor {floor:g}", float(L[0])))
    if not (isinstance(inputs, int) and inputs >= 2):
        raise ParameterError(message("`inputs`", "be a whole number ≥ 2", inputs))
    chosen = tuple(CANDIDATES) if theories is None else theories
    for name in chosen:
        if name not in CANDIDATES:
            raise UnknownNameError(f"No theory to fit named `{name}`. {nearest(name, list(CANDIDATES))}")
    seen = np.sqrt(np.maximum(L - floor, 0) / (L[0] - floor))
    fits = [_fit(CANDIDATES[name], t, seen, K, inputs) for name in chosen]
    return sorted(fits, key=lambda fit: fit.criterion)


def _fit(c: _Candidate, t: Floats, seen: Floats, K: Floats | None, inputs: int) -> Fit:
    from scipy.optimize import least_squares
    from scipy.stats import t as student

    # time in units in which the run has lost half of √L at 1
    below = np.flatnonzero(seen <= 0.5)
    unit = float(t[below[0]] if below.size and t[below[0]] > 0 else t[-1])
    clock = t / unit
    starts = np.asarray(c.starts)
    use_kernel = K is not None and bool(np.isfinite(c.curve(starts, clock, inputs)[1]).all())

    def misses(theta: Floats) -> Floats:
        """For one θ, or many at once on the first axis."""
        with np.errstate(over="ignore", under="ignore", invalid="ignore"):
            made, turned = c.curve(theta, clock, inputs)
        parts = [made - seen]
        if use_kernel and K is not None:
            parts.append(KERNEL_WEIGHT * (turned - K))
        return np.nan_to_num(np.concatenate(parts, axis=-1), nan=10.0, posinf=10.0, neginf=-10.0)

    def slopes(theta: Floats) -> Floats:
        """The Jacobian by central differences, all of them in one call of the exact solution."""
        steps = STEP * np.eye(theta.size)
        both = misses(np.concatenate([theta + steps, theta - steps]))
        return (both[: theta.size] - both[theta.size :]).T / (2 * STEP)

    best: Any = None
    costs = (misses(starts) ** 2).sum(-1)
    for start in starts[np.argsort(costs)[:REFINED]]:
        made = least_squares(misses, start, jac=slopes, method="trf", max_nfev=200, x_scale="jac")
        if best is None or made.cost < best.cost:
            best = made
        if best.cost < SOLVED:
            break
    n, k = best.fun.size, len(c.names)
    rms = float(np.sqrt((best.fun**2).mean()))
    spread = best.fun.std() if n > k else 0.0
    truth = np.concatenate([seen, K]) if use_kernel and K is not None else seen
    explained = 1 - float((best.fun**2).sum()) / max(float(((truth - truth.mean()) ** 2).sum()), 1e-300)
    criterion = n * np.log(max(rms**2, 1e-24)) + 2 * k + 2 * k * (k + 1) / max(n - k - 1, 1)
    if K is not None and not use_kernel:
        # a theory that says nothing of the kernel is charged for leaving it unexplained
        criterion += n * np.log(1 + float(np.mean(K**2)) / max(rms**2, 1e-24))
    value = c.meaning(best.x)
    lows, highs = _intervals(c, best, spread, n, k, float(student.ppf(0.975, max(n - k, 1))))
    value["rate"] /= unit
    intervals = {name: (min(lows[name], highs[name]), max(lows[name], highs[name])) for name in value}
    intervals["rate"] = (intervals["rate"][0] / unit, intervals["rate"][1] / unit)
    with np.errstate(over="ignore", under="ignore"):
        curve = c.curve(best.x, clock, inputs)[0]
    return Fit(c.name, c.place, value, intervals, rms, explained, float(criterion), c.assumes, curve)


def _intervals(
    c: _Candidate, best: Any, spread: float, n: int, k: int, quantile: float
) -> tuple[Mapping[str, float], Mapping[str, float]]:
    """The named parameters at both ends of the interval of each fitted one, the widest of them."""
    u, s, vt = np.linalg.svd(best.jac, full_matrices=False)
    weak = s <= 1e-10 * max(float(s[0]), 1e-300)
    inverse = np.where(weak, np.inf, 1 / np.where(weak, 1.0, s**2))
    base = c.meaning(best.x)
    # delta method on the named values, along the right singular vectors
    low, high = dict(base), dict(base)
    with np.errstate(all="ignore"):
        variance = dict.fromkeys(base, 0.0)
        for j in range(k):
            h = 1e-5
            up, down = c.meaning(best.x + h * vt[j]), c.meaning(best.x - h * vt[j])
            for name in base:
                slope = (up[name] - down[name]) / (2 * h)
                share = slope**2 * inverse[j] if slope else 0.0
                variance[name] += share
        scale = spread * np.sqrt(n / max(n - k, 1)) * quantile
        for name in base:
            reach = float(scale * np.sqrt(variance[name])) if variance[name] < np.inf else np.inf
            low[name], high[name] = base[name] - reach, base[name] + reach
    return low, high


def fit_recorded(ds: xr.Dataset, rate: float | None = None, **options: Any) -> list[Fit]:
    """`fit_run` of what a recorder kept: its `t` or step × rate, `loss`, and `kernel_distance` if it is there."""
    clock = ds["t"] if "t" in ds else ds["step"] * (1.0 if rate is None else rate)
    loss = ds["loss"]
    turned = next((ds[name] for name in ds.data_vars if str(name).startswith("kernel_distance")), None)
    kept = np.isfinite(np.asarray(loss, dtype=float)) & np.isfinite(np.asarray(clock, dtype=float))
    pick = lambda v: np.asarray(v, dtype=float)[kept]
    return fit_run(pick(clock), pick(loss), None if turned is None else pick(turned), **options)
