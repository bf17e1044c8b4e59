"""The report of a recorded run: its regime first, then its curves, on one page that needs nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from richter import __version__, draw
from richter.errors import FileError, message
from richter.figure.build import number
from richter.figure.data import Figure
from richter.figure.run import Curve, run_figures
from richter.measurement.measured import Measured
from richter.regime import LABELS, Evidence, Regime
from richter.report import page
from richter.report.numbers import to_csv, to_json

if TYPE_CHECKING:
    import xarray as xr


def run_report(measured: Measured, path: str | Path, title: str = "Regime report") -> Path:
    """Write the page of what was measured. `path` ends in .html; the file appears whole or not at all."""
    target = check_page(path)
    single = len(measured.runs) == 1
    runs = [("run" if single else f"run {i + 1}", ds) for i, ds in enumerate(measured.runs)]
    regime, curves = measured.regime, run_figures(runs)
    return draw.write(
        target,
        page.page(
            title,
            *verdict_blocks(regime),
            *curve_sections(curves),
            page.section("record", "How it was recorded", *facts_blocks([("", ds) for _, ds in runs[:1]])),
            numbers_section(runs, [regime] * len(runs)),
            page.text(f"Made by Richter {__version__}, with no network access.", "note"),
        ).encode(),
    )


def check_page(path: str | Path) -> Path:
    """The path of a page, if it can be written there."""
    target = Path(path)
    if target.suffix.lower() not in (".html", ".htm"):
        raise FileError(message("the file of a report", "end in .html", str(target)))
    if not target.parent.is_dir():
        raise FileError(message("the folder of the report", "exist", str(target.parent), "Make it first."))
    return target


def verdict_blocks(regime: Regime, name: str = "") -> list[page.Html]:
    """The label, what it means, its numbers, and what it leaves open."""
    label = str(regime.label)
    head = f"{name}: {label}" if name else f"Regime: {label}"
    rows = [_row(key, item) for key, item in regime.evidence.items()]
    lists = [("Reasons", regime.reasons), ("What would change the label", regime.changes),
             ("What it does not say", regime.silent)]  # fmt: skip
    return [
        page.heading(head, 2),
        page.text(f"{label}: {LABELS.get(label, 'no rule is recorded for this label')}.", "verdict"),
        page.findings(
            "The numbers of the verdict, with their 95 % interval over resampled probe points and seeds.",
            ("number", "value", "interval", "threshold", "what it is"),
            [("", row) for row in rows],
        ),
        *([page.terms([(words, list(said)) for words, said in lists if said])] if any(s for _, s in lists) else []),
    ]


def facts_blocks(runs: Sequence[tuple[str, xr.Dataset]]) -> list[page.Html]:
    """How the runs were made, from the attributes of their Datasets."""
    rows = []
    for name, ds in runs:
        for key, value in ds.attrs.items():
            text = str(value)
            if key != "schema" and text and len(text) <= 300:
                rows.append((f"{name}: {key}" if name else str(key), text))
    return [page.terms([(k, [v]) for k, v in rows])] if rows else []


def curve_sections(curves: Sequence[tuple[Curve, Figure]]) -> list[page.Html]:
    """Each picture with its sentence on how to read it."""
    made = []
    for curve, figure in curves:
        untitled = Figure(figure.panels)
        names = "; ".join(panel.y for panel in figure.panels)
        made.append(
            page.section(
                curve.ident,
                curve.title,
                page.text(curve.read),
                page.picture(untitled, f"Curves over the moments of training: {names}. How to read it: {curve.read}"),
            )
        )
    return made


def numbers_section(runs: Sequence[tuple[str, xr.Dataset]], regimes: Sequence[Regime]) -> page.Html:
    """Links that save the numbers."""
    links = []
    for (name, ds), regime in zip(runs, regimes, strict=True):
        safe = "".join(c if c.isalnum() or c in "-_" else "-" for c in name) or "run"
        links.append(page.download(f"{name}: curves as CSV", f"{safe}.csv", to_csv(ds), "text/csv"))
        whole = to_json(ds, regime=regime.plain())
        links.append(page.download(f"{name}: everything as JSON", f"{safe}.json", whole, "application/json"))
    return page.section("numbers", "The numbers", page.text("They are part of this page; nothing is fetched."), *links)


def _row(name: str, item: Evidence) -> tuple[str, ...]:
    shown = item.value if isinstance(item.value, str) else number(float(item.value), 3)
    ends = None if item.interval is None else [number(float(x), 3) for x in item.interval]
    within = "" if ends is None else " to ".join(ends)
    against = "" if item.threshold is None else number(item.threshold, 3)
    return (name, shown, within, against, item.says)
