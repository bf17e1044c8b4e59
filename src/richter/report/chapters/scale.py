"""A scalar network across the scale of its start: from rich to lazy."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from richter.figure import Figure, Panel, axis_label, mark, overlay
from richter.figure.build import number
from richter.refs import NAM24
from richter.regime import LAZY_BELOW
from richter.report.chapters.chapter import Chapter, Floats, compare, evidence, percent, short
from richter.theory import ScalarNetwork

PYTHON = """
import numpy as np
from richter.draw import save
from richter.figure import overlay
from richter.theory import ScalarNetwork

scale = np.array([0.01, 0.03, 0.1, 0.3, 1])[:, None]
signs = np.repeat([1, -1], 50)
flips = np.random.default_rng(0).permutation(signs)
theory = ScalarNetwork(a0=scale * signs, b0=scale * signs * flips, target=1, normalisation=10)
t = np.geomspace(0.01, 100, 121)
exact, simulated = theory.solve(t), theory.simulate(t)
print(theory.regime())
print(theory.limit().growth.values)
save(overlay(exact, simulated, ["output"], by="start", x_log=True), "scale.png")
"""


def scale() -> Chapter:
    """NAM24 ch. 6: the scale of the start moves a network from rich to lazy."""
    sizes = np.array([0.01, 0.03, 0.1, 0.3, 1.0])
    signs = np.repeat([1.0, -1.0], 50)
    flips = np.random.default_rng(0).permutation(signs)

    def network(sizes: Floats) -> ScalarNetwork:
        g = sizes[:, None]
        return ScalarNetwork(a0=g * signs, b0=g * signs * flips, target=1.0, normalisation=10.0)

    theory, t = network(sizes), np.geomspace(0.01, 100.0, 121)
    names = ("output", "growth", "kernel_change")
    named = {"scale": ("start", sizes, {"symbol": "scale", "long_name": "scale of the start"})}
    exact = theory.solve(t, names).assign_coords(named)
    simulated = theory.simulate(t, names).assign_coords(named)
    fine = np.geomspace(sizes[0], sizes[-1], 101)
    curve = network(fine)
    ends, regime = curve.limit(("growth", "kernel_change")), theory.regime()
    first = overlay(exact, simulated, ["output"], by="scale", x_log=True).panels[0]
    shown = [replace(first, title="(a) output against time")]
    for name, title in (
        ("growth", "(b) growth factor at the end"),
        ("kernel_change", "(c) kernel change at the end"),
    ):
        dots = tuple(
            mark("points", [g], [float(simulated[name][i, -1])], colour=float(g), group=f"scale = {number(float(g))}")
            for i, g in enumerate(sizes)
        )
        line = mark("line", fine, ends[name].values, role="exact", label="exact solution", group="exact solution")
        limit = () if name == "growth" else (mark("hline", y=LAZY_BELOW, role="guide", label="lazy below this"),)
        shown.append(
            Panel(
                (*dots, line, *limit),
                x="scale of the start",
                y=axis_label(exact[name]),
                title=title,
                x_log=True,
                y_log=True,
                colours=first.colours,
            )  # fmt: skip
        )
    labels, change, grown = np.asarray(regime.label), evidence(regime, "kernel_change"), evidence(regime, "growth_end")
    border = _crossing(fine, evidence(curve.regime(), "kernel_change"))
    return Chapter(
        ident="scale",
        title="A larger start is a lazier network",
        seen="A network of width 100 with one input and one output learns the slope 1. Its weights start at ± the same "
        "scale with random signs, as many pairs agreeing as not, so the output starts at 0. Small starts wait and then "
        "rise steeply, growing their weights many times; large starts fit at once and hardly move.",
        figure=Figure(
            tuple(shown),
            "Scalar network across the scale of its start",
            "Left: output against time, coloured by the scale of the start. Middle and right: growth factor and "
            "relative change of the kernel when training ends, against the scale. Colours: simulated. Dashed: the "
            "exact solution. The dotted line is the threshold below which the network counts as lazy. After NAM24 "
            "ch. 6.",
        ),
        alt="Three panels. Output curves rise as steep steps for small scales and early for large ones. Growth factor "
        "and kernel change fall as the scale grows; the kernel change crosses the lazy threshold near scale 1.",
        verdict=f"Scale {number(sizes[0])}: {labels[0]}. γ₊ = {short(grown[0])}, and the kernel changes by "
        f"{short(change[0])} times its start (lazy below {LAZY_BELOW:g}). Scale {number(sizes[-1])}: {labels[-1]}. "
        f"γ₊ = {short(grown[-1])} (1 is linear learning), and the kernel changes by {percent(change[-1])}. "
        f"The label turns at scale {short(border)}.",
        table=(
            f"Regime of every scale, from theory.regime(). γ₊: growth factor at the end. |ΔK|/K₀: largest relative "
            f"change of the kernel, lazy below {LAZY_BELOW:g}.",
            ("scale", "regime", "γ₊", "|ΔK|/K₀"),
            [(number(g), str(labels[i]), short(grown[i]), short(change[i])) for i, g in enumerate(sizes)],
        ),
        agreement=compare(exact, simulated, names),
        python=PYTHON,
        places=(NAM24["Sec. 6.3.1"], NAM24["Eq. 6.12"], *ScalarNetwork.places),
    )


def _crossing(sizes: Floats, change: Floats) -> float:
    """The scale at which the kernel's change crosses the threshold for lazy, between two points of the curve."""
    above = int(np.flatnonzero(change >= LAZY_BELOW)[-1])
    pair = slice(above, above + 2)
    return float(np.exp(np.interp(-np.log(LAZY_BELOW), -np.log(change[pair]), np.log(sizes[pair]))))
