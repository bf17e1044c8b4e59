"""NAM24 §3.4.3: the loss of a linear network falls in drops between plateaus, from saddle to saddle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, mark
from richter.maths.linear_network import descend, linear_network
from richter.refs import NAM24
from richter.theory import DiagonalNetwork

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
LEAST = 5e-3  # share of the loss at the start that a drop takes away at least
VALLEY = 0.3  # speed at a plateau over that of the slower drop beside it, against ln t


@dataclass(frozen=True, kw_only=True)
class Saddles(AbstractExperiment):
    """Gradient descent of linear networks from random starts of several sizes, beside the decoupled modes."""

    name = "nam24-saddles"
    title = "From saddle to saddle"
    statement = (
        "From a small start the loss of a layerwise linear network falls in sudden drops between plateaus: a drop is "
        "the "
        "saturation of one mode, a plateau the delay before the next."
    )
    places = (NAM24["Sec. 3.4.3"], NAM24["Eq. 3.15"])
    presets = {
        "smoke": {"seeds": 3, "scales": (0.5, 1e-3, 1e-5), "step": 1e-2},
        "laptop": {},
        "paper": {"seeds": 100, "step": 1e-3},
    }
    strengths: tuple[float, ...] = setting(
        (4.0, 2.0, 1.0, 0.5), "singular values of E[xyᵀ], falling", symbol="ρ", low=0.05
    )
    inputs: int = setting(8, "inputs, whitened", symbol="d", low=2, high=100)
    neurons: int = setting(12, "hidden neurons", symbol="p", low=2, high=200)
    scales: tuple[float, ...] = setting(
        (1.0, 0.1, 1e-2, 1e-3, 1e-4, 1e-6), "standard deviations of the weights at the start, falling", low=1e-8, high=3
    )
    seeds: int = setting(12, "random starts of each size", low=2)
    step: float = setting(5e-3, "step of gradient descent", symbol="η", low=1e-5, high=0.05)
    seed: int = setting(0, "first seed", low=0)

    def _span(self, scale: float) -> float:
        """Until the slowest mode has long been learned."""
        return (2 * np.log(1 / min(scale, 0.5)) + 8) / min(self.strengths)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Losses over the share of the run, the drops in them, and the decoupled modes' loss from the same size."""
        import xarray as xr

        n, share = len(self.strengths), np.concatenate([[0.0], np.geomspace(2e-3, 1.0, 800)])
        shape = (len(self.scales), self.seeds)
        loss, exact = np.empty((*shape, share.size)), np.empty((len(self.scales), share.size))
        drops, levels, times = np.full(shape, np.nan), np.full((*shape, n + 1), np.nan), np.full((*shape, n), np.nan)
        for i, scale in enumerate(self.scales):
            span = self._span(scale)
            steps = int(np.ceil(span / self.step))
            looks = np.unique(np.round(share * steps)).astype(int)
            for j in range(self.seeds):
                progress(f"starts of size {scale:g}", (i * self.seeds + j) / (len(self.scales) * self.seeds))
                rng = np.random.default_rng([self.seed, j])
                U, V = (np.linalg.qr(rng.standard_normal((size, size)))[0][:, :n] for size in (self.inputs, n))
                cross = U * np.array(self.strengths) @ V.T
                start = rng.standard_normal((self.inputs, self.neurons)), rng.standard_normal((self.neurons, n))
                path, *_ = descend(
                    scale * start[0], scale * start[1], np.eye(self.inputs), cross, self.step, steps, looks
                )
                rows = [((linear_network(np.eye(self.inputs), *weights) - cross) ** 2).sum() / 2 for weights in path]
                row = loss[i, j] = np.interp(share * steps, looks, rows)
                drops[i, j], found, levels[i, j] = _stairs(share, row, n)
                times[i, j] = found * span
            net = DiagonalNetwork(a0=scale, b0=scale, target=list(self.strengths))
            exact[i] = net.solve(share * span, only=("loss",)).loss.values
        left = np.append(np.cumsum(np.array(self.strengths[::-1]) ** 2)[::-1], 0.0) / 2
        return xr.Dataset(
            {
                "loss": (("scale", "seed", "share"), loss, {"long_name": "loss", "symbol": "L"}),
                "exact": (("scale", "share"), exact, {"long_name": "loss of decoupled, balanced modes"}),
                "drops": (("scale", "seed"), drops, {"long_name": "drops between plateaus"}),
                "level": (("scale", "seed", "plateau"), levels, {"long_name": "height of each plateau",
                          "undefined_when": "there are fewer or more drops than modes"}),
                "drop_time": (("scale", "seed", "mode"), times, {"long_name": "time of each drop",
                              "undefined_when": "there are fewer or more drops than modes"}),
                "told": ("plateau", left, {"long_name": "½ Σ ρ² of the modes not yet learned"}),
                "span": ("scale", [self._span(scale) for scale in self.scales], {"long_name": "length of the run"}),
            },
            {"scale": ("scale", list(self.scales)), "share": share, "mode": ("mode", list(self.strengths),
                {"symbol": "ρ"})},
        )  # fmt: skip

    @claim("saddle-to-saddle learning: sudden drops and plateaus of the loss; a drop maps to the abrupt saturation of "
           "a "
           "feature", NAM24["Sec. 3.4.3"])  # fmt: skip
    def drop_count(self, ds: xr.Dataset) -> Verdict:
        """N10: as many drops as modes from the smallest start, fewer from the largest."""
        n, got = len(self.strengths), ds.drops
        small, large = got.isel(scale=-1), got.isel(scale=0)
        means = ", ".join(f"{s:g}: {m:.1f}" for s, m in zip(self.scales, got.mean("seed").values, strict=True))
        share = float((small == n).mean())
        return Verdict.of(
            share == 1.0 and float(large.max()) < n, f"drops in the mean by size of the start: {means}; {n} in "
                                                     f"{share:.0%} of "
            "the smallest starts", f"{n}, one for each mode, in all of the smallest starts; fewer from the largest",
                self._scale(ds),
        )  # fmt: skip

    @claim("a drop is the saturation of one mode: the plateaus lie where the modes learned so far leave them",
           NAM24["Sec. 3.4.3"])  # fmt: skip
    def heights(self, ds: xr.Dataset) -> Verdict:
        """N10: every plateau against ½ Σ ρ² of the modes to come, over the next drop; the smallest start."""
        here, told = ds.level.isel(scale=-1), ds.told
        size = np.append(-np.diff(told.values), told.values[-2])
        off = abs(here - told) / size
        worst = float(off.max()) if bool(here.notnull().all()) else np.inf
        middle = here.mean("seed").values
        return Verdict.of(
            worst < 0.1, f"plateaus {np.round(middle, 3).tolist()}, predicted {np.round(told.values, 3).tolist()}; "
                         "off by at most "
            f"{worst:.1%} of the next drop", "within 10 % of the next drop", f"{self._scale(ds)}; the smallest start",
        )  # fmt: skip

    @claim(
        "a plateau maps to the delay before the saturation of the next feature", NAM24["Sec. 3.4.3"], NAM24["Eq. 3.15"]
    )
    def delays(self, ds: xr.Dataset) -> Verdict:
        """N10: the time of a mode's drop is ln(1/scale)/ρ + const: its slope against ln(1/scale), times ρ."""
        complete = ds.drop_time.where(ds.drops == len(self.strengths)).mean("seed")
        good = complete.notnull().all("mode") & (ds.scale <= 1e-3)
        rows = complete.values[good.values]
        if len(rows) < 2:
            return Verdict.undecided("fewer than two sizes of start show every drop", "two", self._scale(ds))
        x = np.log(1 / np.array(self.scales)[good.values])
        slopes = np.polyfit(x, rows, 1)[0] * np.array(self.strengths)
        return Verdict.of(
            bool((np.abs(slopes - 1) < 0.05).all()),
            f"ρ · d(time)/d ln(1/scale) of the modes: {np.round(slopes, 3).tolist()}", "1 ± 0.05: the logistic's "
                "delay, αᵢ² ∝ scale²",
            self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Loss over time for the largest, a middle and the smallest start, with the predicted plateaus."""
        panels = []
        picked = sorted({0, len(self.scales) // 2, len(self.scales) - 1})
        for letter, i in zip("abc", picked, strict=False):
            here = ds.isel(scale=i)
            here = here.isel(share=slice(1, None))
            t = here.share * here.span
            marks: list[Mark] = [
                mark("hline", y=ds.told.values[:-1], role="guide", label="½ Σ ρ² of the modes to come")
            ]
            for j in range(min(4, self.seeds)):
                marks.append(
                    mark("line", t, here.loss.isel(seed=j), role="simulated", label="random starts", group=f"seed {j}")
                )
            marks.append(mark("line", t, here.exact, role="exact", label="decoupled modes"))
            title = f"({letter}) weights of size {number(float(here.scale))}"
            top = 1.15 * float(ds.told[0])
            panels.append(
                Panel(tuple(marks), x="t: time", y="L: loss", title=title, x_log=True, y_range=(-0.02 * top, top))
            )
        return Figure(
            tuple(panels), self.title,
            f"Linear networks {self.inputs} → {self.neurons} → {len(self.strengths)}, whitened inputs, singular values "
            f"{', '.join(number(s) for s in self.strengths)}: gradient descent from Gaussian weights, and the exact "
            "solution for "
            "balanced, aligned layers of the same size. After NAM24 Section 3.4.3.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        sizes = ", ".join(f"{s:g}" for s in self.scales)
        return (
            f"{len(self.strengths)} modes, starts of size {sizes}, {ds.sizes['seed']} seeds each, steps of "
            f"{self.step:g}"
        )


def _stairs(share: Floats, loss: Floats, modes: int) -> tuple[int, Floats, Floats]:
    """Drops of a falling loss, the place of each, and the plateaus around them; places and plateaus for `modes` drops.

    Drops are peaks of the speed against the logarithm of time, apart from each other by a valley.
    """
    from scipy.signal import find_peaks

    t = share[1:]
    speed = -np.diff(loss[1:]) / np.diff(np.log(t))
    peaks: list[int] = []
    for at in find_peaks(np.concatenate([[0.0], speed, [0.0]]))[0] - 1:
        if peaks and speed[peaks[-1] : at].min() >= VALLEY * min(speed[peaks[-1]], speed[at]):
            peaks[-1] = max(peaks[-1], int(at), key=lambda i: speed[i])  # no plateau between them
        else:
            peaks.append(int(at))
    valleys = [int(a + np.argmin(speed[a:b])) for a, b in zip(peaks[:-1], peaks[1:], strict=True)]
    levels = np.array([loss[0], *((loss[v + 1] + loss[v + 2]) / 2 for v in valleys), loss[-1]])
    real = -np.diff(levels) > LEAST * loss[0]
    if real.sum() != modes:
        return int(real.sum()), np.full(modes, np.nan), np.full(modes + 1, np.nan)
    places = np.sqrt(t[:-1] * t[1:])[peaks]
    return modes, places[real], np.append(levels[:-1][real], levels[-1])
