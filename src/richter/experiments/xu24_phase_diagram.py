"""XU24 Theorem 2: the phase diagram over any two exponents, and cells of it measured at growing widths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import mark
from richter.refs import XU24
from richter.theory.finite_size import expected_exponents, finite_size, fitted_exponents
from richter.theory.phases import EXPONENTS, PHASES, phase_diagram

if TYPE_CHECKING:
    import xarray as xr

AXES = (*EXPONENTS, "c_eta")
SAYS = {
    "c_d": "width", "c_gamma": "output scale", "c_u": "variance of u", "c_w": "variance of w",
    "c_eta_u": "rate of u", "c_eta_w": "rate of w", "c_eta": "both rates",
}  # fmt: skip
SYMBOLS = {"c_gamma": "c_γ", "c_eta_u": "c_ηu", "c_eta_w": "c_ηw", "c_eta": "c_η"}
KAPPA = (1e4, 1e6, 1e8, 1e10)
WIDE = 0.5  # below this exponent a growing width is still one of a few neurons
STABLE = 0.02  # an exponent within this is 0
CROSSING = 0.05  # by which two nearly equal powers can shift a fit


@dataclass(frozen=True, kw_only=True)
class PhaseDiagram(AbstractExperiment):
    """Phases over two chosen exponents, the others fixed; some cells of every phase measured at finite widths."""

    name = "xu24-phase-diagram"
    title = "The phase diagram over two exponents"
    statement = (
        "A model is stable where Eq. 15 holds; it is then in the kernel phase if and only if P/Q → 1 and the kernel "
        "part of the learning speed dominates, else it learns features."
    )
    places = (XU24["Theorem 2"], XU24["Eq. 15"], XU24["Eq. 16"])
    presets = {
        "smoke": {"cells": 21, "checks": 3, "draws": 1000},
        "laptop": {},
        "paper": {"cells": 121, "checks": 60, "draws": 20_000},
    }
    x: str = setting("c_eta", "exponent along the first axis", choices=AXES)
    y: str = setting("c_gamma", "exponent along the second axis", choices=AXES)
    reach: float = setting(2.0, "the axes go from minus to plus this (a width's from 0)", low=0.5, high=10)
    cells: int = setting(61, "cells along each axis", low=5, high=400)
    c_d: float = setting(1.0, "exponent of the width, where it is no axis", low=0, high=4)
    c_gamma: float = setting(-0.5, "exponent of the output scale", symbol="c_γ", low=-10, high=10)
    c_u: float = setting(0.0, "exponent of the variance of u", low=-10, high=10)
    c_w: float = setting(0.0, "exponent of the variance of w", low=-10, high=10)
    c_eta_u: float = setting(0.0, "exponent of u's rate", symbol="c_ηu", low=-10, high=10)
    c_eta_w: float = setting(0.0, "exponent of w's rate", symbol="c_ηw", low=-10, high=10)
    checks: int = setting(10, "cells of each phase that are measured", low=1, high=1000)
    draws: int = setting(4000, "networks drawn at each width", low=100)
    seed: int = setting(0, "seed of the cells and draws", low=0)

    def base(self) -> dict[str, float]:
        """The exponents that stay."""
        varied = {self.x, self.y} | ({"c_eta_u", "c_eta_w"} if "c_eta" in (self.x, self.y) else set())
        return {name: float(getattr(self, name)) for name in EXPONENTS if name not in varied}

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """The diagram, and fitted exponents of t_c and α₊ − 1 in some of its cells."""
        axis = {name: np.linspace(0.0 if name == "c_d" else -self.reach, self.reach, self.cells) for name in AXES}
        ds = phase_diagram(self.x, self.y, self.base(), axis[self.x], axis[self.y])
        rng = np.random.default_rng(self.seed)
        codes, rows = ds.phase.values, []
        width = np.broadcast_to(
            ds.x.values if self.x == "c_d" else ds.y.values[:, None] if self.y == "c_d" else self.c_d, codes.shape
        )
        clear = (width == 0) | (width >= WIDE)
        chosen = np.concatenate(
            [rng.permutation(np.argwhere((codes == code) & clear))[: self.checks] for code in range(len(PHASES))]
        )
        for n, (i, j) in enumerate(chosen):
            progress(f"cell {n + 1}", n / len(chosen))
            given = {**self.base(), self.x: float(ds.x[j]), self.y: float(ds.y[i])}
            both = given.pop("c_eta", None)
            if both is not None:
                given = {"c_eta_u": both, "c_eta_w": both, **given}
            made = fitted_exponents(finite_size(given, KAPPA, self.draws, rng=rng), rng)
            fitted = [float(made.exponent.sel(quantity=name)) for name in ("t_c", "growth_end")]
            theory = expected_exponents(given)
            rows.append([codes[i, j], float(ds.x[j]), float(ds.y[i]), *fitted, theory["t_c"], theory["growth_end"]])
        names = ("cell_phase", "cell_x", "cell_y", "t_c", "growth_end", "t_c_theory", "growth_end_theory")
        for name, row in zip(names, np.array(rows).T, strict=True):
            ds[name] = ("cell", row)
        return ds

    @claim("when Eq. 15 holds, a model is in the kernel phase if and only if P/Q → 1 and (16)", XU24["Theorem 2"])
    def theorem(self, ds: xr.Dataset) -> Verdict:
        """X9: the phase that finite widths show, cell by cell."""
        said, seen = np.array(PHASES)[ds.cell_phase.values.astype(int)], self.seen(ds)
        wrong = int((seen != said).sum())
        counts = ", ".join(f"{int((said == word).sum())} {word}" for word in PHASES if (said == word).any())
        return Verdict.of(wrong == 0, f"{wrong} of {said.size} measured cells are in another phase ({counts})", "none",
                          self._scale(ds))  # fmt: skip

    @claim("the condition for t_c to be of order 1 is max{2c_γ + c_ηu + c_ηw, 2c_γ + c_d + max{…}} = 0",
           XU24["Eq. 14"], XU24["Eq. 15"])  # fmt: skip
    def times(self, ds: xr.Dataset) -> Verdict:
        """X9: fitted against theoretical exponents of the learning time, which is 0 only where Eq. 15 holds."""
        worst = float(abs(ds.t_c - ds.t_c_theory).max())
        return Verdict.of(worst <= CROSSING, f"exponents of t_c differ by at most {worst:.4f}", f"0 ± {CROSSING:g}",
                          self._scale(ds))  # fmt: skip

    def seen(self, ds: xr.Dataset) -> NDArray[np.str_]:
        """The phase that each measured cell shows; where α₊ is 1 to rounding nothing but the kernel phase is left."""
        kernel = ~(ds.growth_end.values >= -STABLE)
        return np.where(ds.t_c.values < -STABLE, "unstable", np.where(ds.t_c.values > STABLE, "frozen",
                        np.where(kernel, "kernel", "feature-learning")))  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """The diagram with the measured cells."""
        marks = [mark("cells", ds.x, ds.y, values=ds.phase.values, words=PHASES)]
        seen = self.seen(ds)
        for word in dict.fromkeys(seen.tolist()):
            x, y = ds.cell_x.values[seen == word], ds.cell_y.values[seen == word]
            marks.append(mark("points", x, y, role="measured", colour=word, group=word))
        sign = lambda key: SYMBOLS.get(key, key)
        rest = ", ".join(f"{sign(name)} = {value:g}" for name, value in self.base().items()).replace("-", "−")
        name = lambda key: f"{sign(key)}: exponent of {SAYS[key]}"
        return Figure(
            (Panel(tuple(marks), x=name(self.x), y=name(self.y), title="phase by the exponents", equal=True),),
            "Phases over two exponents",
            f"Phases of the wide network as the hyper-parameters go with powers of κ; {rest}. Learning takes a time of "
            "order 1 only between the frozen and the unstable. Points: what networks with κ up to 10¹⁰ show. On XU24 "
            "Theorem 2.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['cell']} cells over {self.x} and {self.y}, κ from 1e4 to 1e10, {self.draws} draws"
