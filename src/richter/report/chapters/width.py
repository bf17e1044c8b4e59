"""Alignment of the layers across widths, under two scalings of the output."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from richter.figure import Figure, Panel, overlay
from richter.figure.build import number
from richter.refs import XU24
from richter.report.chapters.chapter import Agreement, Chapter, Floats, compare, evidence, short
from richter.theory import WideScalar

if TYPE_CHECKING:
    import xarray as xr

WIDTHS = np.array([10, 100, 1000, 10000])
DRAWS = 100
NAMES = ("output", "alignment")
PYTHON = """
import numpy as np
from richter.theory import WideScalar

t = np.linspace(0, 4, 81)
for d in (10, 100, 1000, 10000):
    kernel = WideScalar.random(width=d, gamma=d**-0.5, draws=100, rng=d)
    feature = WideScalar.random(width=d, gamma=1 / d, eta_u=d, eta_w=d, draws=100, rng=d)
    for theory in (kernel, feature):
        print(d, theory.regime())
        one = theory.with_(u0=theory.u0[0], w0=theory.w0[0])
        exact, simulated = one.solve(t, ["alignment"]), one.simulate(t, ["alignment"])
        print(float(abs(exact - simulated).alignment.max()))
"""


def width() -> Chapter:
    """XU24 Fig. 1: layers align under γ = 1/d and do not under γ = 1/√d."""
    t = np.linspace(0.0, 4.0, 81)
    scalings = {
        "γ = 1/√d": [_network(d, d**-0.5, 1.0) for d in WIDTHS.tolist()],
        "γ = 1/d": [_network(d, 1 / d, float(d)) for d in WIDTHS.tolist()],
    }
    panels: list[Panel] = []
    agreement: list[Agreement] = []
    rows: list[tuple[str, ...]] = []
    rise: dict[str, Floats] = {}
    for letter, (words, theories) in zip("ab", scalings.items(), strict=True):
        first = [theory.with_(u0=theory.u0[0], w0=theory.w0[0]) for theory in theories]
        exact = _stack([theory.solve(t, NAMES) for theory in first])
        simulated = _stack([theory.simulate(t, NAMES) for theory in first])
        drawn = overlay(exact, simulated, ["alignment"], by="width").panels[0]
        panels.append(replace(drawn, title=f"({letter}) {words}", y_range=(-0.4, 1.0)))
        agreement += list(compare(exact, simulated, NAMES, f", {words}"))
        moved = []
        for d, theory in zip(WIDTHS.tolist(), theories, strict=True):
            regime = theory.regime()
            start, end, share = (
                evidence(regime, name) for name in ("alignment_start", "alignment_end", "feature_share")
            )
            moved.append(float(np.median(end - start)))
            labels, counts = np.unique(np.asarray(regime.label), return_counts=True)
            says = ", ".join(f"{label} {count}" for label, count in zip(labels, counts, strict=True))
            rows.append((f"{words}, {d}", says, short(np.median(end)), short(moved[-1]), short(np.median(share))))
        rise[words] = np.array(moved)
    kernel, feature = rise["γ = 1/√d"], rise["γ = 1/d"]
    return Chapter(
        ident="width",
        title="Do the layers align as the network widens?",
        seen="Two-layer networks of growing width d learn the same number from Gaussian weights; ζ is the cosine "
        "between their layers. With output scale γ = 1/√d (kernel scaling) the layers stay unaligned, the more so the "
        "wider the network. With γ = 1/d and learning rates d (feature scaling) wide networks all align alike.",
        figure=Figure(
            tuple(panels),
            "Alignment of the layers across widths",
            "Alignment ζ of the two layers against time, coloured by the width d. Left: γ = 1/√d with rates 1. Right: "
            "γ = 1/d with rates d, so that both learn equally fast. Solid: simulated, one draw per width. Dashed: the "
            "exact solution. After XU24 Fig. 1.",
        ),
        alt="Two panels of alignment against time for widths 10, 100, 1000 and 10000. Left: the wider the network, the "
        "closer ζ stays to 0. Right: the wide networks all rise to about 0.7.",
        verdict=f"Of {DRAWS} draws at d = {number(float(WIDTHS[-1]))}: {rows[WIDTHS.size - 1][1]} under γ = 1/√d, "
        f"{rows[-1][1]} under γ = 1/d. In the median ζ rises by {short(kernel[-1])} under γ = 1/√d and by "
        f"{short(feature[-1])} under γ = 1/d, {short(feature[-1] / kernel[-1])} times as much. From d = 100 to "
        f"d = 10000 the rise falls by a factor of {short(kernel[1] / kernel[-1])} under γ = 1/√d (a fall with 1/√d is "
        f"10) and of {short(feature[1] / feature[-1])} under γ = 1/d.",
        table=(
            f"Mechanisms of {DRAWS} draws, from theory.regime(): alignment, if the target exceeds the start's output; "
            "else disalignment. Then medians: ζ at the end, its rise, and the share of the learning speed, t_c⁻², that "
            "is due to feature learning.",
            ("γ, d", "mechanism", "ζ(∞)", "rise", "features"),
            rows,
        ),
        agreement=tuple(agreement),
        python=PYTHON,
        places=(XU24["Fig. 1"], XU24["Eq. 5"], XU24["Eq. 8"], XU24["Eq. 10"], *WideScalar.places),
    )


def _network(d: int, gamma: float, rate: float) -> WideScalar:
    return WideScalar.random(width=d, gamma=gamma, eta_u=rate, eta_w=rate, draws=DRAWS, rng=d)


def _stack(runs: list[xr.Dataset]) -> xr.Dataset:
    import xarray as xr

    named = {"width": ("width", WIDTHS.astype(float), {"symbol": "d", "long_name": "width"})}
    return xr.concat(runs, "width").assign_coords(named)
