"""A linear model and a diagonal network on the same modes: at once, or one after another."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from richter.figure import Figure, overlay
from richter.figure.build import number
from richter.refs import NAM24
from richter.regime import LAZY_BELOW, STAGE_LIKE_BELOW
from richter.report.chapters.chapter import Chapter, compare, evidence, percent, short, side
from richter.theory import DiagonalNetwork, LinearModel

PYTHON = """
import numpy as np
from richter.draw import save
from richter.figure import overlay
from richter.theory import DiagonalNetwork, LinearModel

variance = np.array([1, 0.5, 0.25, 0.125])
linear = LinearModel(eigenvalues=variance, coefficients=np.sqrt(variance))
layered = DiagonalNetwork(a0=0.001, b0=0.001, target=[1, 1, 1, 1], input_variance=variance)
t = np.linspace(0, 80, 201)
exact, simulated = layered.solve(t), layered.simulate(t)
share = linear.solve(t).output / np.sqrt(variance)  # coefficients are in orthonormal functions x/√E[x²]
print(linear.regime())
print(layered.regime())
print(layered.emergence_time(0.05), layered.saturation_time(0.05))
save(overlay(exact, simulated, ["output"], by="mode"), "modes.png")
"""


def modes() -> Chapter:
    """NAM24 Fig. 3.3: the linear model learns all at once, the layered one in sequence."""
    variance = np.array([1.0, 0.5, 0.25, 0.125])
    linear = LinearModel(eigenvalues=variance, coefficients=np.sqrt(variance))
    layered = DiagonalNetwork(a0=1e-3, b0=1e-3, target=np.ones(4), input_variance=variance)
    t = np.linspace(0.0, 80.0, 201)
    named = {"variance": ("mode", variance, {"symbol": "E[x²]"})}
    share = lambda ds, whole: ds.assign(share=(ds.output.dims, ds.output.values / whole)).assign_coords(named)
    says = {"long_name": "share of the target learned"}
    runs = []
    for theory, whole in ((linear, np.sqrt(variance)), (layered, np.ones(4))):
        pair = [share(run, whole) for run in (theory.solve(t, ("output",)), theory.simulate(t, ("output",)))]
        for ds in pair:
            ds.share.attrs.update(says)
        runs.append((pair[0], pair[1]))
    titles = ("(a) linear model: θ/S", "(b) two layers: ab/S")
    panels = tuple(
        replace(overlay(exact, simulated, ["share"], by="variance").panels[0], title=title)
        for (exact, simulated), title in zip(runs, titles, strict=True)
    )
    emerge, saturate = layered.emergence_time(), layered.saturation_time()
    slow = lambda epsilon: -np.log1p(-epsilon) / variance
    flat, deep = linear.regime(), layered.regime()
    change, overlap = (float(evidence(deep, name)) for name in ("kernel_change", "stage_overlap"))
    return Chapter(
        ident="modes",
        title="All at once, or one after another",
        seen="Both models learn the same four directions of the data, all with target S = 1. With fixed features every "
        "direction starts at once and differs only in speed. With two layers and a small start each waits, then "
        "jumps: the strongest direction is done before the next begins.",
        figure=Figure(
            panels,
            "Linear model and diagonal network",
            "Share of the target learned in each direction, coloured by the variance E[x²] of its input. Left: fixed "
            "features. Right: two layers, a(0) = b(0) = 0.001. Solid: simulated. Dashed: the exact solution. After "
            "NAM24 Fig. 3.3.",
        ),
        alt="Two panels. Left: four curves that all rise from time 0 and flatten. Right: four S-shaped curves that "
        "rise one after another, near times 7, 14, 28 and 55.",
        verdict=f"Linear model: {flat.label}. Its kernel changes by {percent(evidence(flat, 'kernel_change'))} "
        f"(threshold {percent(LAZY_BELOW)}). Two layers: {deep.label}. Its kernel grows to {short(1 + change)} times "
        f"its first size, and neighbouring modes overlap by {percent(overlap)} "
        f"({side(overlap, STAGE_LIKE_BELOW)} the threshold of {percent(STAGE_LIKE_BELOW)} for learning in stages).",
        table=(
            "When 5 % and 95 % of each direction are learned, from the closed forms: the strongest has finished in "
            "two layers before the second has begun; in the linear model all have begun at once.",
            ("E[x²]", *(f"{words}: {percent(e)}" for words in ("linear", "two layers") for e in (0.05, 0.95))),
            [
                (number(v), short(slow(0.05)[i]), short(slow(0.95)[i]), short(emerge[i]),
                 short(emerge[i] + saturate[i]))
                for i, v in enumerate(variance)
            ],
        ),
        agreement=(
            *compare(*runs[0], ("output",), ", linear model"),
            *compare(*runs[1], ("output",), ", two layers"),
        ),
        python=PYTHON,
        places=(NAM24["Fig. 3.3"], NAM24["Eq. 3.9"], NAM24["Eq. 3.10"], NAM24["Eq. 3.12"], NAM24["Eq. 3.13"]),
    )  # fmt: skip
