"""XU24 §4: the phase diagram of scaling limits, Table 1, and networks of finite width."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.maths.scaling_limits import stable_rate
from richter.refs import XU24
from richter.theory.finite_size import expected_exponents, finite_size, fitted_exponents
from richter.theory.phases import PHASES, SCALINGS, phase, phase_diagram, table_1

if TYPE_CHECKING:
    import xarray as xr

# Cell by cell as printed: phase, c_η*, phase*, (c_η⁺, c_γ⁺), phase⁺, (c_η⁻, c_γ⁻), phase⁻.
PRINTED = {
    "NTK": ("kernel", 0.0, "kernel", 1.0, -1.0, "feature-learning", 0.0, -0.5, "kernel"),
    "mean field": ("frozen", 1.0, "feature-learning", 1.0, -1.0, "feature-learning", 0.0, -0.5, "kernel"),
    "Xavier": ("feature-learning", 0.0, "feature-learning", 0.0, 0.0, "feature-learning", -2.0, 1.0, "kernel"),
    "Kaiming": ("unstable", -1.0, "kernel", 1.0, -1.0, "feature-learning", -1.0, 0.0, "kernel"),
    "lazy": ("unstable", -2.0, "kernel", 0.0, 0.0, "feature-learning", -2.0, 1.0, "kernel"),
}
WIDE = [s for s in SCALINGS if s.c_d]
VARIANTS = ("+", "−")  # Corollary 2: feature learning; Corollary 3: kernel
DIAGRAMS = {"σ_u² ∝ 1, σ_w² ∝ 1 (NTK, mean field)": (0.0, 0.0), "σ_u², σ_w² ∝ 1/d (Xavier)": (-1.0, -1.0)}
SPACE = 2.4  # between the columns of Table 1
NAMES = {"NTK": (0.05, 0.05), "mean field": (-1.75, -0.2), "Xavier": (0.05, 0.05)}  # beside their dots


@dataclass(frozen=True, kw_only=True)
class Phases(AbstractExperiment):
    """Which scaling of rates and output with the width learns features, and what finite widths do."""

    name = "xu24-phases"
    title = "Phases of scaling limits"
    statement = (
        "Any initialisation can be made to learn features or to stay a kernel by the right output scale and learning "
        "rate; in the feature-learning phase the layers align, in the kernel phase they do not."
    )
    places = (XU24["Theorem 2"], XU24["Table 1"], XU24["Sec. 4"])
    presets = {
        "smoke": {"kappa": (100.0, 1000.0, 1e4), "draws": 4000, "cells": 21},
        "laptop": {},
        "paper": {"kappa": (1e2, 1e3, 1e4, 1e5, 1e6), "draws": 100_000},
    }  # fmt: skip
    kappa: tuple[float, ...] = setting((1e2, 1e3, 1e4, 1e5), "widths", symbol="κ", low=16, high=1e12)
    draws: int = setting(10_000, "networks drawn at each width", low=20)
    cells: int = setting(81, "cells along each axis of the diagrams", low=5, high=400)
    seed: int = setting(0, "seed of the draws", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Diagrams, and finite widths of every wide column of Table 1 in its two variants."""
        import xarray as xr

        axis = np.linspace(-2, 2, self.cells)
        diagrams = [
            phase_diagram("c_eta", "c_gamma", {"c_d": 1, "c_u": c_u, "c_w": c_w}, axis, axis).phase
            for c_u, c_w in DIAGRAMS.values()
        ]
        rows = {str(row["scaling"]): row for row in table_1()}
        sizes, fits, truth = [], [], []
        for i, column in enumerate(WIDE):
            for j, sign in enumerate("+-"):
                progress(f"{column.name}{VARIANTS[j]}: finite widths", (2 * i + j) / (2 * len(WIDE)))
                row = rows[column.name]
                exponents = {
                    "c_d": column.c_d, "c_u": column.c_u, "c_w": column.c_w,
                    "c_gamma": float(str(row[f"c_gamma{sign}"])),
                    "c_eta_u": float(str(row[f"c_eta{sign}"])), "c_eta_w": float(str(row[f"c_eta{sign}"])),
                }  # fmt: skip
                ds = finite_size(exponents, self.kappa, self.draws, rng=self.seed)
                fits.append(fitted_exponents(ds, self.seed))
                expected = expected_exponents(exponents)
                truth.append([expected[str(name)] for name in fits[-1].quantity.values])
                sizes.append(ds[["t_c", "alignment_end", "norm_end", "growth_end"]])
        grid = {"column": [c.name for c in WIDE], "variant": list(VARIANTS)}
        fold = lambda parts: xr.concat(
            [xr.concat(parts[2 * i : 2 * i + 2], "variant") for i in range(len(WIDE))], "column"
        ).assign_coords(grid)  # fmt: skip
        made = xr.merge([fold(fits), fold(sizes)], combine_attrs="drop")
        made["theory"] = (("column", "variant", "quantity"), np.reshape(truth, (len(WIDE), 2, -1)))
        made["phase"] = xr.concat(diagrams, "diagram").assign_coords(diagram=list(DIAGRAMS))
        made.attrs = {}
        return made

    @claim("Table 1: which scaling is in which phase, and the exponents that stabilise or change it", XU24["Table 1"])
    def table(self, ds: xr.Dataset) -> Verdict:
        """X9, every cell; the lazy column with a start of zero output."""
        wrong = [str(row["scaling"]) for row in table_1() if tuple(row.values())[1:] != PRINTED[str(row["scaling"])]]
        return Verdict.of(not wrong, f"{45 - 9 * len(wrong)} of 45 cells agree" + (f", not {wrong}" if wrong else ""),
                          "every cell as printed", "theory, from exponents")  # fmt: skip

    @claim(
        "the learning time is of order 1 in the variants of Corollaries 2 and 3", XU24["Corollary 2"], XU24["Eq. 15"]
    )
    def stable(self, ds: xr.Dataset) -> Verdict:
        """Fitted exponents of t_c."""
        got = ds.sel(quantity="t_c")
        worst = float(abs(got.exponent - got.theory).max())
        spread = f"widest 95 % interval ±{float((got.high - got.low).max()) / 2:.3f}"
        return Verdict.of(worst <= 0.02, f"largest |exponent| of t_c: {worst:.4f}", "0 ± 0.02", self._scale(ds), spread)

    @claim("the growth factor stays away from 1 under feature learning and tends to 1 under a kernel", XU24["Eq. 16"])
    def growth(self, ds: xr.Dataset) -> Verdict:
        """Fitted exponents of |P/Q − 1| and |α₊ − 1|: −c_d/2, and 0 or max(F/2 − K, −1/2)."""
        got = ds.sel(quantity=["ratio", "growth_end"])
        gap = abs(got.exponent - got.theory)
        worst = {name: float(gap.sel(quantity=name).max()) for name in ("ratio", "growth_end")}
        return Verdict.of(
            max(worst.values()) <= 0.02,
            f"largest gap to theory: |α₊ − 1| {worst['growth_end']:.4f}, |P/Q − 1| {worst['ratio']:.4f}",
            "0 ± 0.02: powers 0 for + and max(F/2 − K, −1/2) for − of |α₊ − 1|; −1/2 of |P/Q − 1|",
            self._scale(ds),
            f"widest 95 % interval ±{float((got.high - got.low).max()) / 2:.3f}",
        )

    @claim("layers align in the feature-learning phase; in the kernel phase the alignment vanishes", XU24["Sec. 4"])
    def alignment(self, ds: xr.Dataset) -> Verdict:
        """X10, X15: median ζ(∞) at the smallest and largest width."""
        middle = ds.alignment_end.median("draw")
        plus, minus = middle.sel(variant="+"), middle.sel(variant="−")
        change = abs(plus.isel(kappa=-1) / plus.isel(kappa=0) - 1).max()
        rate = np.polyfit(np.log(ds.kappa), np.log(np.abs(minus.transpose("kappa", "column"))), 1)[0]
        kept, gone = float(plus.min()), float(abs(minus.isel(kappa=-1)).max())
        return Verdict.of(
            kept > 0.3 and float(change) < 0.1 and bool((rate < -0.3).all()),
            f"ζ(∞) under +: at least {kept:.2f}, changing by {float(change):.1%} over the widths; under −: at most "
            f"{gone:.3f} at the largest width, falling with powers {np.round(np.sort(rate), 2).tolist()}",
            "a bound above 0 that does not depend on the width; a negative power", self._scale(ds),
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Two phase diagrams with their borders, and the alignment of finite networks."""
        panels = []
        for letter, (name, (c_u, c_w)) in zip("ab", DIAGRAMS.items(), strict=True):
            marks = [mark("cells", ds.x, ds.y, values=ds.phase.sel(diagram=name).values, words=PHASES)]
            marks += _borders(c_u, c_w)
            for column in WIDE:
                if (column.c_u, column.c_w) == (c_u, c_w):
                    right, up = NAMES[column.name]
                    marks.append(mark("points", [column.c_eta], [column.c_gamma], role="target"))
                    name_at = ([column.c_eta + right], [column.c_gamma + up])
                    marks.append(mark("text", *name_at, role="target", label=column.name))
            panels.append(
                Panel(tuple(marks), x="c_η: exponent of both rates", y="c_γ: exponent of the output scale",
                      title=f"({letter}) {name}", equal=True)
            )  # fmt: skip
        panels.append(_table())
        middle = abs(ds.alignment_end.median("draw"))
        marks = []
        for variant, says in zip(VARIANTS, ("feature learning (Corollary 2)", "kernel (Corollary 3)"), strict=True):
            for column_name, words in {"NTK": "NTK, mean field", "Xavier": "Xavier", "Kaiming": "Kaiming"}.items():
                row = middle.sel(column=column_name, variant=variant)
                marks.append(mark("line", ds.kappa, row, role="measured", colour=words, label=words, group=words))
                marks.append(mark("points", ds.kappa, row, role="measured", colour=words, group=words))
            height = 0.2 if variant == "+" else 1.5 * float(middle.min())
            marks.append(mark("text", [float(ds.kappa[0])], [height], role="guide", label=says))
        panels.append(
            Panel(tuple(marks), x="κ: width", y="|ζ(∞)|: final alignment of the layers", x_log=True, y_log=True,
                  title="(d) Finite widths")
        )  # fmt: skip
        return Figure(
            tuple(panels),
            "Phases of scaling limits",
            "(a, b) The phase as output scale γ ∝ κ^c_γ and learning rates η ∝ κ^c_η go with the width d = κ, for two "
            "scalings of the start; learning takes a time of order 1 only on the border of frozen and unstable. "
            "Dots: as in XU24 Table 1. (c) Table 1 recomputed: the phase, and the exponents of rate and scale "
            "chosen for it. "
            f"(d) Median over {ds.sizes['draw']} draws of the final alignment. NTK and mean "
            "field start alike and coincide; NTK lies under Xavier above and under Kaiming below.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        widths = ", ".join(f"{k:g}" for k in ds.kappa.values)
        return f"widths {widths}, {ds.sizes['draw']} draws each, {len(WIDE)} columns × 2 variants, exact end points"


def _table() -> Panel:
    """Table 1: the phase of each scaling as it stands, with η*, and with the pairs of Corollaries 2 and 3."""
    rows = table_1()
    kinds = {"": "as it is", "*": "with η*", "+": "with η⁺, γ⁺", "-": "with η⁻, γ⁻"}
    marks: list[Mark] = []
    for j, row in enumerate(rows):
        marks.append(
            mark(
                "text", [SPACE * j - 0.1], [len(kinds) - 0.5 + 0.35 * (j % 2)], role="guide", label=str(row["scaling"])
            )
        )
        for i, kind in enumerate(kinds):
            up, word = len(kinds) - 1.0 - i, str(row[f"phase{kind}"])
            marks.append(mark("points", [SPACE * j], [up], role="measured", colour=word, label=word, group=word))
            pair = [f"{float(str(row[key])) + 0.0:g}" for key in (f"c_eta{kind}", f"c_gamma{kind}") if key in row]
            if pair:
                says = ", ".join(pair).replace("-", "−")
                marks.append(mark("text", [SPACE * j - 0.1], [up - 0.6], role="guide", label=says))
    for i, words in enumerate(kinds.values()):
        marks.append(mark("text", [-3.4], [len(kinds) - 1.22 - i], role="guide", label=words))
    return Panel(tuple(marks), x="scaling", y="choice", title="(c) Table 1: phase, and c_η, c_γ", frame=False,
                 x_range=(-3.5, SPACE * len(rows) - 0.2), y_range=(-0.8, len(kinds) + 0.4))  # fmt: skip


def _borders(c_u: float, c_w: float) -> list[Mark]:
    """Where learning takes a time of order 1: along it the rate is that of Corollary 1."""
    scales = np.linspace(-2, 2, 401)
    rates = stable_rate(1, scales, c_u, c_w)
    labels = np.asarray(phase(1, scales, c_u, c_w, rates, rates).label)
    made = []
    for word in ("kernel", "feature-learning"):
        here = (labels == word) & (np.abs(rates) <= 2)
        if here.any():
            made.append(mark("line", rates[here], scales[here], role="simulated", colour=word, label=word, group=word))
    return made
