"""Two runs, or a run and a theory, on one page."""

from __future__ import annotations

from pathlib import Path

from richter import __version__, draw
from richter.figure.build import number
from richter.figure.run import run_figures
from richter.measurement.compare import Comparison
from richter.regime import Regime
from richter.report import page
from richter.report.run import check_page, curve_sections, facts_blocks, numbers_section, verdict_blocks


def comparison_report(comparison: Comparison, path: str | Path) -> Path:
    """Write the page of a comparison. `path` ends in .html; the file appears whole or not at all."""
    target = check_page(path)
    names, regimes = comparison.names, comparison.regimes
    shown = [ds.rename(t="step") if comparison.over == "step" else ds for ds in comparison.datasets]
    runs = list(zip(names, shown, strict=True))
    blocks: list[page.Html] = []
    for name, regime in zip(names, regimes, strict=True):
        blocks += verdict_blocks(regime, name) if regime is not None else [
            page.heading(name, 2), page.text("Its kernel was not recorded: no regime.", "verdict")
        ]  # fmt: skip
    title = f"{names[0]} and {names[1]}"
    return draw.write(
        target,
        page.page(
            title,
            page.text(summary(comparison), "lead"),
            *blocks,
            page.section("differences", "How far they differ", differences_table(comparison)),
            *curve_sections(run_figures(runs)),
            page.section("record", "How they were recorded", *facts_blocks(runs)),
            numbers_section(runs, [regime or Regime("undefined") for regime in regimes]),
            page.text(f"Made by Richter {__version__}, with no network access.", "note"),
        ).encode(),
    )


def summary(comparison: Comparison) -> str:
    """One sentence: the labels, and what differs most.

    >>> from richter.measurement.compare import compare
    >>> from richter.theory import SingleNeuron
    >>> one = SingleNeuron(a0=5.0, w0=[1.0], beta_star=[2.0])
    >>> summary(compare(one.solve([0.0, 1.0]), one.with_(a0=0.1))).split(";")[0]
    'single-neuron (a) is lazy, single-neuron (b) is rich'
    """
    labels = ["without a regime" if regime is None else str(regime.label) for regime in comparison.regimes]
    compared = [d for d in comparison.differences if d.name != "batch_loss"] or list(comparison.differences)
    worst = max(compared, key=lambda d: d.relative if d.relative == d.relative else -1.0)
    return (
        f"{comparison.names[0]} is {labels[0]}, {comparison.names[1]} is {labels[1]}; of {len(comparison.differences)} "
        f"shared variables {worst.name} differs most, by {number(100 * worst.relative, 3)}\N{NO-BREAK SPACE}% of its "
        "largest size."
    )


def differences_table(comparison: Comparison) -> page.Html:
    """Every shared variable with its largest difference and both ends."""
    short = lambda x: number(float(x), 3) if x == x else "–"
    a, b = comparison.names
    return page.table(
        f"Largest |{a} − {b}| over the {'steps' if comparison.over == 'step' else 'times'} that both have, and in "
        f"units of the largest size of {b}.",
        ("variable", "difference", "relative", f"at {comparison.over}", f"{a}, end", f"{b}, end"),
        [
            (d.name, short(d.absolute), short(d.relative), number(d.at), short(d.ends[0]), short(d.ends[1]))
            for d in comparison.differences
        ],
    )
