"""NAM24 §1.6.1: gradient flow fits the signal first and the noise much later."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import Mark, mark
from richter.refs import NAM24
from richter.theory import two_block
from richter.theory.overfitting import Basis

if TYPE_CHECKING:
    import xarray as xr

BASES: tuple[Basis, ...] = ("gaussian", "sine")
SIGNAL = 0.5  # the target's variance


@dataclass(frozen=True, kw_only=True)
class SignalFirst(AbstractExperiment):
    """Error of the signal and what is left of the noise over time, for a light tail and the printed one."""

    name = "nam24-signal-first"
    title = "The signal is fitted first, the noise later"
    statement = (
        "Gradient flow of a model with a few strong features fits the signal in 1 ≪ ηt ≪ n/T, T the summed intensity "
        "of the weak features, and the noise at a significantly later stage."
    )
    places = (NAM24["Sec. 1.6.1"],)
    presets = {"smoke": {"draws": 3, "features": 800, "moments": 41}, "laptop": {}, "paper": {"draws": 200}}
    known_failures = {
        "printed": "the printed window ends at (p − d)/n, the time of one weak feature on endless data; on n examples "
        "the weak features fit noise together at the rate T/n, and the printed tail has T = n: the noise is gone when "
        "the "
        "signal is fitted.",
    }
    examples: int = setting(100, "examples", symbol="n", low=20)
    features: int = setting(2000, "features", symbol="p", low=200)
    strong: int = setting(5, "features of intensity 1", symbol="d", low=1, high=9)
    tails: tuple[float, ...] = setting((0.1, 1.0, 10.0), "light tails: their summed intensities", symbol="T", low=1e-4)
    noise: float = setting(0.3, "standard deviation of the labels' noise", symbol="σ", low=0.01, high=2)
    draws: int = setting(16, "data sets", low=2)
    moments: int = setting(101, "times looked at", low=21)
    seed: int = setting(0, "seed of the data sets", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact flow of every data set, signal and noise apart."""
        import xarray as xr

        tails = (*self.tails, float(self.examples))
        t = np.geomspace(1e-2, 1e3 * self.examples / min(tails), self.moments)
        rows = []
        for i, tail in enumerate(tails):
            both = []
            for j, basis in enumerate(BASES):
                progress(f"T = {tail:g}, {basis} features", (2 * i + j) / (2 * len(tails)))
                made = two_block(self.examples, self.features, self.strong, tail, noise=self.noise, times=t,
                    basis=basis,
                                 draws=self.draws, rng=np.random.default_rng([self.seed, j]))  # fmt: skip
                both.append(
                    xr.Dataset({"signal": made.signal_error / SIGNAL, "noise": made.noise_left / self.noise**2})
                )
            rows.append(xr.concat(both, "basis"))
        ds = xr.concat(rows, "weight").assign_coords(weight=("weight", list(tails), {"symbol": "T"}), basis=list(BASES))
        ds.signal.attrs = {"long_name": "error of what is learned of the signal, of its variance"}
        ds.noise.attrs = {"long_name": "what is left of the noise on the examples, of its variance"}
        return ds

    def _half(self, ds: xr.Dataset) -> xr.DataArray:
        """ηt at which half of the amplitude that the weak features must fit is fitted: a quarter of its square."""
        import xarray as xr

        rows = ds.noise.sel(basis="gaussian").mean("draw")
        times = [np.exp(np.interp(-np.log(0.25), -np.log(row.values + 1e-300), np.log(ds.t))) for row in rows]
        return xr.DataArray(times, {"weight": ds.weight}, ["weight"])

    @claim("gradient flow will initially learn only the first d features; at a significantly later stage, all p − d "
           "fit the noise", NAM24["Sec. 1.6.1"])  # fmt: skip
    def window(self, ds: xr.Dataset) -> Verdict:
        """N28: both in the middle of 1 ≪ ηt ≪ n/T and after it, where the window spans two decades or more."""
        said, holds, seen = [], True, 0
        for tail in self.tails:
            end = self.examples / tail
            if end < 99:
                continue
            seen += 1
            here = ds.sel(weight=tail).median("draw")
            middle, late = here.sel(t=np.sqrt(end), method="nearest"), here.sel(t=20 * end, method="nearest")
            signal, noise = float(middle.signal.max()), float(middle.noise.min())
            left = float(late.noise.sel(basis="gaussian"))
            holds &= signal < 0.06 and noise > 0.6 and left < 0.05
            said.append(f"T = {tail:g}: in its middle {signal:.1%} of the signal and {noise:.0%} of the noise are "
                        "left, "
                        f"{left:.1%} of the noise at 20 n/T")  # fmt: skip
        if not seen:
            return Verdict.undecided("no tail with n/T ≥ 100", "one at least", self._scale(ds))
        return Verdict.of(
            holds, "; ".join(said), "signal below 6 %, noise above 60 %, later below 5 %; medians, both kinds of "
                                    "features",
            self._scale(ds),
        )  # fmt: skip

    @claim("the noise is fitted at ηt ~ n/T", NAM24["Sec. 1.6.1"])
    def rate(self, ds: xr.Dataset) -> Verdict:
        """The time of half the amplitude against T: ln 2 · n/T."""
        light = ds.sel(weight=[tail for tail in self.tails if self.examples / tail >= 10])
        if light.sizes["weight"] < 2:
            return Verdict.undecided("fewer than two tails with n/T ≥ 10", "two", self._scale(ds))
        half = self._half(light)
        ratio = (half * half.weight / self.examples / np.log(2)).values
        power = float(np.polyfit(np.log(half.weight), np.log(half), 1)[0])
        return Verdict.of(
            bool((abs(ratio - 1) < 0.15).all()) and abs(power + 1) < 0.05,
            f"half of the amplitude is fitted at {np.round(ratio, 3).tolist()} · ln 2 · n/T; power {power:.3f} of T",
            "1 ± 0.15 (the d strong features fit d/n of it before); −1 ± 0.05", self._scale(ds),
        )  # fmt: skip

    @claim("in 1 ≪ ηt ≪ (p − d)/n gradient flow learns only the first d features", NAM24["Sec. 1.6.1"])
    def printed(self, ds: xr.Dataset) -> Verdict:
        """The printed spectrum and window, at the window's end and middle."""
        here = ds.sel(weight=float(self.examples), basis="gaussian").mean("draw")
        end = (self.features - self.strong) / self.examples
        middle = here.sel(t=np.sqrt(end), method="nearest")
        signal, noise = float(middle.signal), float(middle.noise)
        return Verdict.of(
            signal < 0.06 and noise > 0.6,
            f"at ηt = {np.sqrt(end):.2g}, in the middle of 1 to {end:.3g}, {signal:.0%} of the signal and {noise:.1%} "
            "of the "
            "noise are left",
            "signal below 6 %, noise above 60 %", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """What is left of signal and noise over time, a panel for each tail."""
        panels = []
        letters = iter("abcdefgh")
        for tail in ds.weight.values:
            here = ds.sel(weight=tail, basis="gaussian")
            marks: list[Mark] = []
            for name, words in (("signal", "signal"), ("noise", "noise")):
                row = here[name]
                low, high = row.min("draw"), row.max("draw")
                marks.append(mark("band", ds.t, low, high=high, colour=words, group=words))
                marks.append(
                    mark("line", ds.t, row.median("draw"), role="simulated", colour=words, label=words, group=words)
                )
            marks.append(mark("vline", x=[1.0, self.examples / tail], role="guide", label="1 and n/T"))
            printed = tail == self.examples
            title = f"({next(letters)}) T = {number(float(tail))}" + (" = n, as printed" if printed else "")
            if printed:
                end = (self.features - self.strong) / self.examples
                marks.append(mark("vline", x=[end], role="target", label="(p − d)/n"))
            panels.append(
                Panel(tuple(marks), x="ηt: time", y="share left", x_log=True, y_range=(-0.03, 1.1), title=title)
            )
        return Figure(
            tuple(panels), self.title,
            f"Exact gradient flow on {self.examples} examples with {self.features} Gaussian features, {self.strong} of "
            "intensity 1 and the others of T together: error of the function learned from the signal alone, and noise "
            "not "
            f"yet fitted on the examples; median and range of {self.draws} data sets. After NAM24 Section 1.6.1.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return (f"d = {self.strong}, n = {self.examples}, p = {self.features}, T = "
                f"{', '.join(f'{x:g}' for x in ds.weight.values)}, "
                f"{ds.sizes['draw']} data sets, Gaussian features and sines, exact flow")  # fmt: skip
