"""Small experiments that workers can import, one of which cannot run and one of which kills its worker."""

from __future__ import annotations

import os
import signal
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import xarray as xr

from richter.experiments import AbstractExperiment, Verdict, claim, setting
from richter.experiments.base import Progress, silent
from richter.figure import Figure, Panel
from richter.figure.data import mark
from richter.refs import KUN24, XU24
from richter.sweep import sweep

EVIL = '<b>δ & "x"</b> | a*b'


def square(x: float, folder: str = "") -> dict[str, float]:
    if folder:
        with open(Path(folder) / "calls", "a") as file:
            file.write(f"{x}\n")
        if x == 2.0 and not (Path(folder) / "mended").exists():
            raise ArithmeticError("not yet")
    return {"y": x * x}


class Toy(AbstractExperiment):
    """What the toys share."""

    title = "A toy"
    statement = f"Squares are squares: {EVIL}."
    places = (KUN24["Sec. 3"],)
    presets = {"smoke": {"n": 3}, "laptop": {}, "paper": {"n": 50}}


@dataclass(frozen=True, kw_only=True)
class Squares(Toy):
    """Three claims, one of each kind."""

    name = "kun24-squares"
    known_failures = {"sums": "the sum is larger"}
    n: int = setting(5, "numbers", symbol="n", low=2)
    words: tuple[str, ...] = setting(("a", "b"), "words")

    def run(self, progress: Progress = silent) -> xr.Dataset:
        progress("squaring", 0.5)
        x = np.arange(float(self.n))
        return xr.Dataset({"y": ("x", x**2)}, {"x": x})

    @claim(f"squares are never negative {EVIL}", KUN24["Sec. 3"])
    def positive(self, ds: xr.Dataset) -> Verdict:
        low = float(ds.y.min())
        return Verdict.of(low >= 0, f"smallest {low:g}", "≥ 0", f"{ds.sizes['x']} numbers", "none")

    @claim("they sum to one", KUN24["Sec. 3"], XU24["Sec. 4"])
    def sums(self, ds: xr.Dataset) -> Verdict:
        return Verdict.of(float(ds.y.sum()) == 1, f"{float(ds.y.sum()):g}", "1", f"{ds.sizes['x']} numbers")

    @claim("they go on", KUN24["Sec. 3"])
    def endless(self, ds: xr.Dataset) -> Verdict:
        return Verdict.undecided("too few were seen", "no end", f"{ds.sizes['x']} numbers")

    def figure(self, ds: xr.Dataset) -> Figure:
        return Figure((Panel((mark("line", ds.x, ds.y),), x="x", y="x²"),), self.title, f"A parabola. {EVIL}")


@dataclass(frozen=True, kw_only=True)
class Negative(Squares):
    """A claim fails that nobody expects to."""

    name = "kun24-negative"

    def run(self, progress: Progress = silent) -> xr.Dataset:
        x = np.arange(float(self.n))
        return xr.Dataset({"y": ("x", -(x**2))}, {"x": x})


@dataclass(frozen=True, kw_only=True)
class Broken(Squares):
    """It cannot run."""

    name = "kun24-broken"

    def run(self, progress: Progress = silent) -> xr.Dataset:
        raise ArithmeticError("it broke")


@dataclass(frozen=True, kw_only=True)
class Killer(Squares):
    """It kills its worker."""

    name = "kun24-killer"

    def run(self, progress: Progress = silent) -> xr.Dataset:
        os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError


@dataclass(frozen=True, kw_only=True)
class Resumable(Squares):
    """Its run is a sweep that keeps its cells."""

    name = "kun24-resumable"
    folder: str = setting("", "where calls are counted")

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        grid = {"x": [float(x) for x in range(self.n)]}
        return sweep(square, grid, fixed={"folder": self.folder}, store=store, engine="here", progress=progress)
