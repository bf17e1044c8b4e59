"""The chapters of the tour: each solves, simulates and judges one setting."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.figure import Figure, Panel, axis_label, mark, overlay
from richter.figure.build import number
from richter.refs import KUN24, NAM24, XU24, Place
from richter.regime import DELAYED_BELOW, LAZY_BELOW, STAGE_LIKE_BELOW
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Table = tuple[str, tuple[str, ...], list[tuple[str, ...]]]


@dataclass(frozen=True)
class Agreement:
    """How far the exact solution is from the simulation."""

    what: str
    error: float
    points: int


@dataclass(frozen=True)
class Chapter:
    """What the page shows of one setting."""

    ident: str
    title: str
    seen: str
    figure: Figure
    alt: str
    verdict: str
    table: Table
    agreement: tuple[Agreement, ...]
    python: str
    places: tuple[Place, ...]


def compare(exact: xr.Dataset, simulated: xr.Dataset, names: Sequence[str], what: str = "") -> tuple[Agreement, ...]:
    """For each variable the largest |exact − simulated| over all points, in units of its curve's largest value."""
    made = []
    for name in names:
        a, b = exact[name], simulated[name]
        size = abs(b).max("t")
        error = float((abs(a - b).max("t") / size.where(size > 0)).max())
        symbol = str(a.attrs.get("symbol", "")) or str(a.attrs.get("long_name", name))
        made.append(Agreement(f"{symbol}{what}", error, int(a.size)))
    return tuple(made)


def neuron() -> Chapter:
    """KUN24 Fig. 3: the single neuron across the imbalance δ."""
    imbalance = np.array([-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0])
    theory = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=imbalance, beta_star=[0.0, 1.0])
    t = np.geomspace(0.01, 200.0, 141)
    names = ("mu", "phi", "kernel_distance")
    named = {"imbalance": ("start", imbalance, {"symbol": "δ"})}
    exact = theory.solve(t, names).assign_coords(named)
    simulated = theory.simulate(t, names).assign_coords(named)
    regime = theory.regime()
    change, share = (_array(regime, name) for name in ("kernel_change", "early_share"))
    turned = _array(regime, "kernel_distance")
    words = np.asarray(regime.label)
    say = lambda i: (
        f"δ = {number(imbalance[i])}: {words[i]}. The kernel changes by {_percent(change[i])} at most "
        f"({_side(change[i], LAZY_BELOW)} the threshold of {_percent(LAZY_BELOW)} for lazy)"
    )
    late = lambda i: (
        f", and {_percent(share[i])} of that happens while the start's own kernel would fit "
        f"({_side(share[i], DELAYED_BELOW)} the threshold of {_percent(DELAYED_BELOW)} for delayed)"
    )
    first, balanced, last = 0, int(np.flatnonzero(imbalance == 0)[0]), imbalance.size - 1
    return Chapter(
        ident="single-neuron",
        title="One neuron, three ways to learn",
        seen="A single linear neuron f = a w·x learns β* = (0, 1) from the same function β₀ = (−1, 0), split "
        "differently between the layers: the imbalance δ = a² − ‖w‖² is conserved and decides how it learns. With "
        "δ ≫ 0 the direction φ turns at once and the kernel stays; with δ ≪ 0 the size μ first falls to almost "
        "nothing, waits, and only then the kernel turns.",
        figure=overlay(
            exact, simulated, names, by="imbalance", x_log=True,
            title="Single linear neuron across the imbalance δ",
            caption="From left to right the size of the function, its alignment with β*, and the kernel's distance "
            "from its start, against time on a logarithmic axis. Colours: simulated, by δ. Dashed: the exact "
            "solution. After KUN24 Fig. 3.",
        ),
        alt="Three panels against time: size μ, alignment φ and kernel distance S for seven imbalances δ from −16 to "
        "16. Every dashed exact curve lies on its simulated curve. For δ = −16 all movement comes last.",
        verdict=f"{say(first)}{late(first)}. {say(balanced)}{late(balanced)}. {say(last)}.",
        table=(
            "Regime of every start, from theory.regime(). ‖ΔK‖/‖K₀‖: largest relative change of the kernel, lazy "
            f"below {LAZY_BELOW:g}. Early: share of it while the start's kernel would fit, delayed below "
            f"{DELAYED_BELOW:g}. S: largest distance of the kernel, 1 − cosine.",
            ("δ", "regime", "‖ΔK‖/‖K₀‖", "early", "S"),
            [
                (number(d), str(words[i]), _short(change[i]), _short(share[i]), _short(turned[i]))
                for i, d in enumerate(imbalance)
            ],
        ),
        agreement=compare(exact, simulated, names),
        python=_NEURON,
        places=(KUN24["Fig. 3"], KUN24["Eq. 25"], *SingleNeuron.places),
    )  # fmt: skip


def modes() -> Chapter:
    """NAM24 Fig. 3.3: the linear model learns all at once, the layered one in sequence."""
    variance = np.array([1.0, 0.5, 0.25, 0.125])
    linear = LinearModel(eigenvalues=variance, coefficients=np.sqrt(variance))  # type: ignore[arg-type]
    layered = DiagonalNetwork(a0=1e-3, b0=1e-3, target=np.ones(4), input_variance=variance)  # type: ignore[arg-type]
    t = np.linspace(0.0, 80.0, 201)
    named = {"variance": ("mode", variance, {"symbol": "E[x²]"})}
    share = lambda ds, whole: ds.assign(share=(ds.output.dims, ds.output.values / whole)).assign_coords(named)
    says = {"long_name": "share of the target learned"}
    runs = []
    for theory, whole in ((linear, np.sqrt(variance)), (layered, np.ones(4))):
        pair = [share(run, whole) for run in (theory.solve(t, ("output",)), theory.simulate(t, ("output",)))]
        for ds in pair:
            ds.share.attrs.update(says)
        runs.append(pair)
    titles = ("(a) linear model: θ/S", "(b) two layers: ab/S")
    panels = tuple(
        replace(overlay(exact, simulated, ["share"], by="variance").panels[0], title=title)
        for (exact, simulated), title in zip(runs, titles, strict=True)
    )
    emerge, saturate = layered.emergence_time(), layered.saturation_time()
    slow = lambda epsilon: -np.log1p(-epsilon) / variance
    flat, deep = linear.regime(), layered.regime()
    change, overlap = (float(_array(deep, name)) for name in ("kernel_change", "stage_overlap"))
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
        verdict=f"Linear model: {flat.label}. Its kernel cannot change ({_percent(float(_array(flat, 'kernel_change')))}"
        f", threshold {_percent(LAZY_BELOW)}). Two layers: {deep.label}. Its kernel grows to {_short(1 + change)} times "
        f"its first size, and neighbouring modes overlap by {_percent(overlap)} "
        f"({_side(overlap, STAGE_LIKE_BELOW)} the threshold of {_percent(STAGE_LIKE_BELOW)} for learning in stages).",
        table=(
            "When 5 % and 95 % of each direction are learned, from the closed forms: the strongest has finished in "
            "two layers before the second has begun; in the linear model all have begun at once.",
            ("E[x²]", "linear: 5 %", "linear: 95 %", "two layers: 5 %", "two layers: 95 %"),
            [
                (number(v), _short(slow(0.05)[i]), _short(slow(0.95)[i]), _short(emerge[i]),
                 _short(emerge[i] + saturate[i]))
                for i, v in enumerate(variance)
            ],
        ),
        agreement=(
            *compare(*runs[0], ("output",), ", linear model"),
            *compare(*runs[1], ("output",), ", two layers"),
        ),
        python=_MODES,
        places=(NAM24["Fig. 3.3"], NAM24["Eq. 3.9"], NAM24["Eq. 3.10"], NAM24["Eq. 3.12"], NAM24["Eq. 3.13"]),
    )  # fmt: skip


def scales() -> Chapter:
    """NAM24 ch. 6: the scale of the start moves a network from rich to lazy."""
    scale = np.array([0.01, 0.03, 0.1, 0.3, 1.0, 3.0])
    signs = np.repeat([1.0, -1.0], 50)
    flips = np.random.default_rng(0).permutation(signs)

    def network(scale: Floats) -> ScalarNetwork:
        g = scale[:, None]
        return ScalarNetwork(a0=g * signs, b0=g * signs * flips, target=1.0, normalisation=10.0)  # type: ignore[arg-type]

    theory, t = network(scale), np.geomspace(1e-3, 1e3, 161)
    names = ("output", "growth", "kernel_change")
    named = {"scale": ("start", scale, {"symbol": "scale", "long_name": "scale of the start"})}
    exact = theory.solve(t, names).assign_coords(named)
    simulated = theory.simulate(t, names).assign_coords(named)
    fine = np.geomspace(scale[0], scale[-1], 101)
    curve = network(fine)
    ends, regime = curve.limit(("growth", "kernel_change")), theory.regime()
    first = overlay(exact, simulated, ["output"], by="scale", x_log=True, title="(a) output against time").panels[0]
    shown = [replace(first, title="(a) output against time")]
    for name, title in (
        ("growth", "(b) growth factor at the end"),
        ("kernel_change", "(c) kernel change at the end"),
    ):
        dots = tuple(
            mark("points", [g], [float(simulated[name][i, -1])], colour=float(g), group=f"scale = {number(float(g))}")
            for i, g in enumerate(scale)
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
    labels, change, grown = np.asarray(regime.label), _array(regime, "kernel_change"), _array(regime, "growth_end")
    border = _crossing(fine, curve)
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
        verdict=f"Scale {number(scale[0])}: {labels[0]}. γ₊ = {_short(grown[0])} and the kernel changes by a factor of "
        f"{_short(change[0])} of its start (threshold {LAZY_BELOW:g}). Scale {number(scale[-1])}: {labels[-1]}. γ₊ = "
        f"{_short(grown[-1])} (1 is linear learning) and the kernel changes by {_percent(change[-1])}. The label "
        f"turns at scale {_short(border)}.",
        table=(
            f"Regime of every scale, from theory.regime(). γ₊: growth factor at the end. |ΔK|/K₀: largest relative "
            f"change of the kernel, lazy below {LAZY_BELOW:g}.",
            ("scale", "regime", "γ₊", "|ΔK|/K₀"),
            [(number(g), str(labels[i]), _short(grown[i]), _short(change[i])) for i, g in enumerate(scale)],
        ),
        agreement=compare(exact, simulated, names),
        python=_SCALES,
        places=(NAM24["Sec. 6.3.1"], NAM24["Eq. 6.12"], *ScalarNetwork.places),
    )


def widths() -> Chapter:
    """XU24 Fig. 1: layers align under γ = 1/d and do not under γ = 1/√d."""
    import xarray as xr

    width = np.array([10, 100, 1000, 10000])
    t = np.linspace(0.0, 4.0, 81)
    names = ("output", "alignment")
    panels, agreement, rows = [], [], []
    ends: dict[str, Floats] = {}
    for words, gamma, eta in (
        ("γ = 1/√d", lambda d: d**-0.5, lambda d: 1.0),
        ("γ = 1/d", lambda d: 1.0 / d, lambda d: float(d)),
    ):
        theories = [
            WideScalar.random(width=int(d), gamma=gamma(d), eta_u=eta(d), eta_w=eta(d), draws=1, rng=int(d))
            for d in width
        ]
        named = {"width": ("width", width.astype(float), {"symbol": "d", "long_name": "width"})}
        stack = lambda runs: xr.concat([run.isel(start=0) for run in runs], "width").assign_coords(named)  # noqa: B023
        exact = stack([theory.solve(t, names) for theory in theories])
        simulated = stack([theory.simulate(t, names) for theory in theories])
        drawn = overlay(exact, simulated, ["alignment"], by="width").panels[0]
        panels.append(replace(drawn, title=f"{'(b)' if panels else '(a)'} {words}", y_range=(-0.3, 1.0)))
        agreement += list(compare(exact, simulated, names, f", {words}"))
        moved = []
        for d, theory in zip(width, theories, strict=True):
            regime = theory.regime()
            start, end, share = (
                float(_array(regime, name)[0]) for name in ("alignment_start", "alignment_end", "feature_share")
            )
            moved.append(end - start)
            rows.append((f"{words}, d = {number(float(d))}", str(np.asarray(regime.label)[0]), _short(start),
                         _short(end), _short(share)))  # fmt: skip
        ends[words] = np.array(moved)
    kernel, feature = ends["γ = 1/√d"][-1], ends["γ = 1/d"][-1]
    return Chapter(
        ident="width",
        title="Do the layers align as the network widens?",
        seen="Two-layer networks of growing width d learn the same number from Gaussian weights; ζ is the cosine between "
        "their layers. With output scale γ = 1/√d (kernel scaling) the layers stay unaligned, the more so the wider the "
        "network. With γ = 1/d and learning rates d (feature scaling) the alignment does not depend on the width.",
        figure=Figure(
            tuple(panels),
            "Alignment of the layers across widths",
            "Alignment ζ of the two layers against time, coloured by the width d. Left: γ = 1/√d with rates 1. Right: "
            "γ = 1/d with rates d, so that both learn equally fast. Solid: simulated, one draw per width. Dashed: the "
            "exact solution. After XU24 Fig. 1.",
        ),
        alt="Two panels of alignment against time for widths 10, 100, 1000 and 10000. Left: the wider the network, the "
        "closer ζ stays to 0. Right: the wide networks all rise to about 0.7.",
        verdict=f"At d = {number(float(width[-1]))} both are labelled by the mechanism “alignment”, but ζ rises by "
        f"{_short(kernel)} under γ = 1/√d and by {_short(feature)} under γ = 1/d: "
        f"{_short(feature / kernel)} times as much. Under γ = 1/√d the rise falls by a factor of "
        f"{_short(ends['γ = 1/√d'][1] / kernel)} from d = 100 to d = 10000 (10 is 1/√d).",
        table=(
            "Mechanism from theory.regime(): alignment, if the target exceeds the start's output. ζ at the start and "
            "at the end. Feature share: the part of the learning speed t_c⁻² that comes from feature learning.",
            ("network", "mechanism", "ζ(0)", "ζ(∞)", "feature share"),
            rows,
        ),
        agreement=tuple(agreement),
        python=_WIDTHS,
        places=(XU24["Fig. 1"], XU24["Eq. 5"], XU24["Eq. 10"], XU24["Eq. 11"], *WideScalar.places),
    )


CHAPTERS: dict[str, Callable[[], Chapter]] = {
    "One neuron": neuron,
    "Modes": modes,
    "Scale of the start": scales,
    "Width": widths,
}
