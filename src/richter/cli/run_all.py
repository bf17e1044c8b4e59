"""`richter run --all`."""

from __future__ import annotations

import json
from pathlib import Path

import typer


def run_everything(
    preset: str, folder: Path, summaries: Path | None, resume: bool, workers: int | None, as_json: bool
) -> None:
    """Run and judge the whole catalog; the exit code is 3 if one could not run, 1 if a claim fails unexpectedly."""
    import time

    from richter import catalog
    from richter.cli.experiment import progress_bar
    from richter.report.runs import run_all
    from richter.report.summary import write_summary
    from richter.sweep import duration

    begin = time.perf_counter()
    with progress_bar("Starting", 70, remaining=False) as tell:
        made = run_all(list(catalog.experiments()), preset, folder, again=not resume, workers=workers, progress=tell)
    took = time.perf_counter() - begin
    for each in made:
        if summaries is not None and each.summary is not None:
            write_summary(each.summary, summaries)
    rows = [
        {"experiment": each.name, "file": str(each.file) if each.file else None, "problem": each.problem,
         "claims": each.summary["claims"] if each.summary else [], "seconds": (each.summary or {}).get("seconds"),
         "unexpected": each.failed}
        for each in made
    ]  # fmt: skip
    if as_json:
        plain = {"preset": preset, "seconds": round(took, 3), "experiments": rows, "schema": 1}
        typer.echo(json.dumps(plain, ensure_ascii=False))
    else:
        from rich import box
        from rich.console import Console
        from rich.markup import escape
        from rich.table import Table

        table = Table(box=box.SIMPLE_HEAD)
        for head in ("experiment", "holds", "fails", "undecided", "took", ""):
            table.add_column(head, justify="left" if head in ("experiment", "") else "right")
        for each in made:
            claims = each.summary["claims"] if each.summary else []
            counts = [sum(row["finding"] == finding for row in claims) for finding in ("holds", "fails", "undecided")]
            note = f"could not run: {each.problem}" if each.problem else ", ".join(each.failed)
            colour = "red" if note else "green"
            took_each = duration(each.summary["seconds"]) if each.summary else ""
            table.add_row(f"[{colour}]{each.name}[/]", *(str(n or "") for n in counts), took_each, escape(note))
        console = Console(highlight=False)
        console.print(table)
        console.print(f"{len(made)} experiments at {preset} in {duration(took)}, saved in {folder}.", soft_wrap=True)
        console.print(f"Their pages: richter report --from {folder}", soft_wrap=True)
    if any(each.problem for each in made):
        raise typer.Exit(3)
    if any(each.failed for each in made):
        raise typer.Exit(1)
