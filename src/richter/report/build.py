"""The report: one page for each experiment that was run, and the ledger of all claims as its index."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

from richter import __version__, catalog, draw
from richter.errors import FileError, ParameterError, UnfinishedError, message
from richter.report import page
from richter.report.experiment import experiment_page, findings
from richter.report.ledger import FINDINGS, Entry, entry, total
from richter.report.runs import run_all
from richter.report.summary import summarise, write_summary
from richter.schema import load
from richter.sweep.task import Problem

Progress = Callable[[str, float], None]
TITLE = "Claims ledger"
LEAD = (
    "What the papers claim, judged by running their figures, tables and theorems again. A claim is judged at the scale "
    "that its row names and at no other: it holds, fails, or is undecided there; what no run has judged is not checked."
)


def build_report(
    names: Sequence[str] | None,
    folder: str | os.PathLike[str],
    *,
    preset: str = "smoke",
    runs: str | os.PathLike[str] | None = None,
    summaries: str | os.PathLike[str] | None = None,
    workers: int | None = None,
    progress: Progress | None = None,
) -> Path:
    """Write the pages into a folder and return its `index.html`.

    The experiments (`names`, or all) are read from `runs` if that is given; else they are run at the preset into
    `folder/runs`. With `summaries` what was found is also written there as small JSON files. An experiment that has
    a problem stands in the ledger with it; it is raised when all others are written.
    """
    target = Path(folder)
    tell = progress or (lambda what, share: None)
    kinds = [catalog.experiment(name) for name in names] if names else list(catalog.experiments().values())
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        what = message("the folder of the report", "be a folder that can be made", str(folder))
        raise FileError(f"{what} {problem.strerror or problem}.") from None
    problems: dict[str, str] = {}
    if runs is None:
        source = target / "runs"
        asked = names or [kind.name for kind in kinds]
        ran = run_all(asked, preset, source, workers=workers, progress=lambda what, share: tell(what, 0.8 * share))
        problems = {catalog.experiment(each.name).name: each.problem for each in ran if each.problem}
    else:
        source = Path(runs)
        if not source.is_dir():
            raise ParameterError(message("`--from`", "be a folder of runs NAME.nc", str(source)))
    entries: list[Entry] = []
    for i, kind in enumerate(kinds):
        tell(f"Drawing {kind.name}", 0.8 + 0.2 * i / len(kinds))
        file = source / f"{kind.name}.nc"
        if kind.name in problems or not file.exists():
            entries.append(entry(kind, None, problems.get(kind.name, "")))
            continue
        try:  # one run that cannot be read, judged or drawn stops no other
            ds = load(file)
            experiment = kind.restore(ds)
            summary = summarise(experiment, ds, experiment.check(ds))
            made = entry(kind, summary)
            whole = experiment_page(experiment, ds, made).encode()
        except Exception as problem:
            problems[kind.name] = Problem.of(problem).why
            entries.append(entry(kind, None, problems[kind.name]))
            continue
        entries.append(made)
        if summaries is not None:
            write_summary(summary, summaries)
        draw.write(target / f"{kind.name}.html", whole)
    index = draw.write(target / "index.html", index_page(entries).encode())
    tell("Done", 1.0)
    if problems:
        name, why = next(iter(problems.items()))
        more = f" So it is with {len(problems)} of {len(kinds)}; the ledger says why." if len(problems) > 1 else ""
        raise UnfinishedError(f"{name} has no page: {why.rstrip('.')}.{more} The rest is at {index.resolve()}")
    return index


def index_page(entries: Sequence[Entry]) -> str:
    """The ledger."""
    head = ("experiment", "run at", "took", *FINDINGS)
    rows: list[tuple[str, list[str | tuple[str, str]]]] = []
    for each in entries:
        name = (each.title, f"{each.name}.html" if each.preset else f"#{each.name}")
        counts = [str(each.count(finding) or "") for finding in FINDINGS]
        rows.append(("", [name, each.preset or "not run", each.took, *counts]))
    sections = []
    for each in entries:
        page_link = [page.links([(f"{each.name}.html", "Figure, settings and sources")])] if each.preset else []
        why = f"There is no run to judge: {each.problem}" if each.problem else "It was not run."
        said = f"Judged on a run at {each.preset} ({each.took})." if each.preset else why
        sections.append(
            page.section(each.name, each.title, page.text(each.statement), findings(each, said), *page_link)
        )  # fmt: skip
    return page.page(
        TITLE,
        page.text(LEAD, "lead"),
        page.text(f"{total(entries)}.", "verdict"),
        page.findings("Experiments, and how many of their claims were found how.", head, rows),
        *sections,
        page.text(f"Made by Richter {__version__}, with no network access.", "note"),
    )
