"""The single neuron across its imbalance: rich, lazy and delayed rich."""

from __future__ import annotations

import numpy as np

from richter.figure import overlay
from richter.figure.build import number
from richter.refs import KUN24
from richter.regime import DELAYED_BELOW, LAZY_BELOW
from richter.report.chapters.chapter import Chapter, compare, evidence, percent, short, side
from richter.theory import SingleNeuron

PYTHON = """
import numpy as np
from richter.draw import save
from richter.figure import overlay
from richter.theory import SingleNeuron

delta = [-16, -4, -1, 0, 1, 4, 16]
theory = SingleNeuron.from_imbalance(beta0=[-1, 0], delta=delta, beta_star=[0, 1])
t = np.geomspace(0.01, 200, 141)
exact, simulated = theory.solve(t), theory.simulate(t)
print(theory.regime())
print(float(abs(exact.mu - simulated.mu).max()))
save(overlay(exact, simulated, ["mu", "phi", "kernel_distance"], by="start", x_log=True), "neuron.png")
"""


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
    change, share = (evidence(regime, name) for name in ("kernel_change", "early_share"))
    turned = evidence(regime, "kernel_distance")
    words = np.asarray(regime.label)
    say = lambda i: (
        f"δ = {number(float(imbalance[i]))}: {words[i]}. The kernel changes by {percent(change[i])} at most "
        f"({side(change[i], LAZY_BELOW)} the threshold of {percent(LAZY_BELOW)} for lazy)"
    )
    late = lambda i: (
        f", and {percent(share[i])} of that happens while the start's own kernel would fit "
        f"({side(share[i], DELAYED_BELOW)} the threshold of {percent(DELAYED_BELOW)} for delayed)"
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
                (number(d), str(words[i]), short(change[i]), short(share[i]), short(turned[i]))
                for i, d in enumerate(imbalance)
            ],
        ),
        agreement=compare(exact, simulated, names),
        python=PYTHON,
        places=(KUN24["Fig. 3"], KUN24["Eq. 25"], *SingleNeuron.places),
    )  # fmt: skip
