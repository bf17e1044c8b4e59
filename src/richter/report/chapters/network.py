"""A network trained on real digits twice, lazily and richly, and measured: where no theory is exact."""

from __future__ import annotations

from functools import cache

import numpy as np

from richter.figure import Figure, Mark, Panel
from richter.figure.data import mark, scale_of
from richter.maths.resampling import interval
from richter.measurement.measured import Measured, measure
from richter.refs import KUN24, NAM24
from richter.regime import COVERED, LAZY_BELOW
from richter.report.chapters.chapter import Chapter, evidence, percent, short, side

TAUS = {"τ = 5": 5.0, "τ = 0.03": 0.03}  # output scales, the lazy one first
SEEDS = (0, 1)
STEPS, RATE, WIDTH = 400, 0.01, 128
MOMENTS, POINTS = 20, 48  # looks at each run; probe points
PYTHON = f"""
import richter
from richter.measurement.record import record
from richter.moves import OutputScale, ZeroOutput
from richter.tasks import digits
from richter.training import mlp

task = digits().flat().standardise()
for tau in (5.0, 0.03):
    runs = []
    for seed in (0, 1):
        net = ZeroOutput().apply(mlp(64, [{WIDTH}], 10, rng=seed)).model
        move = OutputScale(tau=tau).apply(net)
        runs.append(record(move.model, task, steps={STEPS}, rate={RATE} * move.rate, moments={MOMENTS},
                           points={POINTS}, scores=True, only=["loss", "hamming_distance"], rng=seed).dataset)
    print(tau, richter.measure(runs))
"""


def network() -> Chapter:
    """The same networks on the same digits, under two output scales."""
    made = train()
    lazy, rich = made.values()
    calm, moved = (float(evidence(found.regime, "kernel_change")) for found in made.values())
    right = [float(np.mean([ds["test_accuracy"].values[-1] for ds in found.runs])) for found in made.values()]
    first, second = TAUS
    return Chapter(
        ident="digits",
        title="And a network that no theory solves?",
        seen=f"A network of {WIDTH} ReLUs learns the digits that come with the package by plain gradient descent, from "
        f"{len(SEEDS)} drawn starts. Once its output is multiplied by {first}, once by {second}, and the learning rate "
        "is divided by τ², so that both begin to learn equally fast; a copy of the start is subtracted, so that both "
        "begin at output 0. Nothing here is exact: every number is measured on the networks.",
        figure=Figure(
            (
                _panel(made, "train_loss", "L: loss on the training digits", "(a) learning"),
                _panel(made, "kernel_change_full", "‖K − K₀‖/‖K₀‖", "(b) movement of the kernel"),
                _panel(made, "hamming_distance", "share of ReLUs that switched", "(c) activation patterns"),
            ),
            "A network on digits, lazy and rich",
            f"Over the steps of training, on a log axis whose left end is step 0; one line for each of {len(SEEDS)} "
            "starts, coloured by the output scale τ. Left: loss. Middle: how far the tangent kernel has moved from its "
            f"start, with {percent(COVERED)} of the resamples of {POINTS} digits; below the dotted line it is lazy. "
            "Right: ReLUs that have switched on or off since the start.",
        ),
        alt="Three panels over the steps of training for τ = 5 and τ = 0.03. The loss of both falls alike. The kernel "
        "and the activation patterns of τ = 5 stay where they began; those of τ = 0.03 move early and far.",
        verdict=f"{first}: {lazy.regime.label}. In the median of the starts the kernel moves by {percent(calm)} of its "
        f"size, {side(calm, LAZY_BELOW)} {percent(LAZY_BELOW)}. {second}: {rich.regime.label}. It moves by "
        f"{percent(moved)}, {side(moved, LAZY_BELOW)} {percent(LAZY_BELOW)}. Of the test digits {percent(right[0])} "
        f"and {percent(right[1])} are named right: the label says how a network learned, not how well.",
        table=(
            f"Measured on {POINTS} training digits for each start by richter.measure(). Kernel: largest ‖K − K₀‖/‖K₀‖, "
            f"lazy below {LAZY_BELOW:g}. Early: share of it while the start's kernel would fit. ReLUs: share that has "
            f"switched at the end. Medians of the starts; {percent(COVERED)} of the kernel's resamples are in the "
            "interval.",
            ("scale", "regime", "kernel", "interval", "early", "ReLUs"),
            [_row(words, found) for words, found in made.items()],
        ),
        agreement=(),
        python=PYTHON,
        places=(KUN24["Sec. 1"], NAM24["Sec. 6.3"]),
        said=(
            *((f"{words}: what would change the label", found.regime.changes) for words, found in made.items()),
            ("What the labels do not say", lazy.regime.silent),
        ),
    )


@cache
def train() -> dict[str, Measured]:
    """Every network trained and measured: some ten seconds."""
    from richter.measurement.record import record
    from richter.moves import OutputScale, ZeroOutput
    from richter.tasks import digits
    from richter.training import mlp

    task = digits().flat().standardise()
    made = {}
    for words, tau in TAUS.items():
        runs = []
        for seed in SEEDS:
            net = ZeroOutput().apply(mlp(64, [WIDTH], 10, rng=seed)).model
            move = OutputScale(tau=tau).apply(net)
            found = record(
                move.model, task, steps=STEPS, rate=RATE * move.rate, moments=MOMENTS, points=POINTS, scores=True,
                only=["loss", "hamming_distance"], progress=False, rng=seed,
            )  # fmt: skip
            runs.append(found.dataset)
        made[words] = measure(runs)
    return made


def _row(words: str, found: Measured) -> tuple[str, ...]:
    kernel, early, switched = (
        found.regime.evidence[name] for name in ("kernel_change", "early_share", "hamming_distance")
    )
    low, high = kernel.interval or (float("nan"), float("nan"))
    values = (short(kernel.value), f"{short(low)} to {short(high)}", short(early.value), percent(switched.value))
    return (words.replace(" ", "\N{NO-BREAK SPACE}"), str(found.regime.label), *values)


def _panel(made: dict[str, Measured], name: str, y: str, title: str) -> Panel:
    marks: list[Mark] = []
    for words, found in made.items():
        for ds in found.runs:
            step = np.maximum(ds["step"].values.astype(float), 0.5)  # step 0 has no place on a log axis
            values = ds[name].values.astype(float)
            marks.append(mark("line", step, values, role="measured", label=words, colour=words, group=words))
            if f"{name}_resampled" in ds:
                rows = ds[f"{name}_resampled"].transpose("draw", "step").values
                low, high = np.array([interval(column, COVERED) for column in rows.T]).T
                marks.append(mark("band", step, low, high=high, role="measured", colour=words, group=words))
    if name.startswith("kernel_change"):
        marks.append(mark("hline", y=LAZY_BELOW, role="guide", label="lazy below"))
    return Panel(tuple(marks), x="step", y=y, title=title, x_log=True, colours=scale_of(marks, "output scale"))
