"""Write docs/calibration.md: true regime × named regime. `python docs/calibrate.py [SEEDS]` takes some minutes."""

from __future__ import annotations

import sys
from pathlib import Path

from richter.regime import AGREEMENT, DELAYED_BELOW, LAZY_BELOW
from richter.testing.calibration import EXAMPLES, FITTED, STEP_SHARE, Row, cases, confusion, name_regime
from richter.theory import IsotropicNetwork

PAGE = Path(__file__).with_name("calibration.md")
LABELS = ("lazy", "rich", "delayed-rich", "undecided", "frozen")
INTRO = f"""# Calibration

<!-- Written by docs/calibrate.py. -->

Can a named regime be trusted? Solved theories are built as torch modules, trained by plain gradient descent with
{STEP_SHARE:.0%} of the largest stable step until {FITTED:g} of the loss is left, and their regime is named from
measurements alone: the full kernel on {EXAMPLES} probe points, resampled. The theory's exact path says which regime
it is. The rules are those of [regimes](regimes.md): lazy below a relative change of {LAZY_BELOW:g}, delayed-rich below
an early share of {DELAYED_BELOW:g}, undecided where fewer than {AGREEMENT:.0%} of the resamples agree. Each seed draws
other starts, targets and examples; the single neuron's starts stay.

`richter.testing.calibration` holds the cases; a test trains and names a part of them.
"""


def table(rows: list[Row], title: str) -> list[str]:
    """How often each true regime got each name."""
    counts = confusion(rows)
    named = [label for label in LABELS if any(key[1] == label for key in counts)]
    true = [label for label in LABELS if any(key[0] == label for key in counts)]
    lines = [f"## {title}", "", "| true regime | " + " | ".join(f"named {n}" for n in named) + " |"]
    lines.append("| --- |" + " ---: |" * len(named))
    lines += [f"| {t} | " + " | ".join(str(counts.get((t, n), 0)) for n in named) + " |" for t in true]
    right = sum(n for (t, name), n in counts.items() if t == name)
    open_ = sum(n for (_, name), n in counts.items() if name == "undecided")
    wrong = len(rows) - right - open_
    return [*lines, "", f"{len(rows)} networks: {right} named right, {open_} undecided, {wrong} named wrong.", ""]


def every(rows: list[Row]) -> list[str]:
    """Every network of one seed with its numbers."""
    head = (
        "| theory | network | true | named | change, exact | change, measured (95 %) | early share, exact | measured |"
    )
    lines = ["## The networks of seed 0", "", head, "| --- | --- | --- | --- | ---: | ---: | ---: | ---: |"]
    for row in rows:
        seen = row.named.evidence
        low, high = seen["kernel_change"].interval or (float("nan"), float("nan"))
        early = f"{seen['early_share'].value:.3g}" if "early_share" in seen else "–"
        words = (
            row.case.theory.name, row.case.name, row.case.label, str(row.named.label), f"{row.exact[0]:.3g}",
            f"{seen['kernel_change'].value:.3g} ({low:.3g} to {high:.3g})", f"{row.exact[1]:.3g}", early,
        )  # fmt: skip
        lines.append("| " + " | ".join(words) + " |")
    return [*lines, ""]


def mechanisms(rows: list[Row]) -> list[str]:
    """True and named mechanism of the networks on a line."""
    counts: dict[tuple[str, str], int] = {}
    for row in rows:
        if row.case.mechanism:
            key = (row.case.mechanism, row.mechanism)
            counts[key] = counts.get(key, 0) + 1
    lines = ["## Mechanism, on data on a line", "", "| true mechanism | named | networks |", "| --- | --- | ---: |"]
    return [*lines, *(f"| {true} | {named} | {n} |" for (true, named), n in sorted(counts.items())), ""]


def page(seeds: int) -> str:
    """The page, from `seeds` draws of all cases."""
    rows: list[list[Row]] = []
    traces: list[Row] = []
    for seed in range(seeds):
        rows.append([])
        for case in cases(seed):
            rows[-1].append(name_regime(case, seed))
            if isinstance(case.theory, IsotropicNetwork):
                traces.append(name_regime(case, seed, kernel="trace"))
            print(seed, case.theory.name, case.name, case.label, rows[-1][-1].named.label, flush=True)
    whole = [row for part in rows for row in part]
    wrong = [row for row in whole if row.named.label not in (row.case.label, "undecided")]
    said = [
        f"- {row.case.theory.name}, {row.case.name}: true {row.case.label} (change {row.exact[0]:.3g}, early share "
        f"{row.exact[1]:.3g}), named {row.named.label}"
        for row in wrong
    ]
    return "\n".join(
        [
            INTRO,
            *table(whole, "Regime"),
            *(["Named wrong:", "", *said, ""] if said else []),
            *mechanisms(whole),
            *table(traces, "The same by the trace kernel, networks of two outputs"),
            "The thresholds are about the full kernel; this table says what becomes of them where only the kernel",
            "summed over outputs is measured.",
            "",
            *every(rows[0]),
        ]
    )


if __name__ == "__main__":
    PAGE.write_text(page(int(sys.argv[1]) if len(sys.argv) > 1 else 5), encoding="utf-8")
