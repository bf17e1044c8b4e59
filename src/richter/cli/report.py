"""`richter report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from richter.cli.run import PRESET


def report(
    names: Annotated[list[str] | None, typer.Argument(help="Experiments (see richter list); default: all.")] = None,
    preset: Annotated[str, PRESET] = "smoke",
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the pages.")] = Path("richter-report"),
    runs: Annotated[
        Path | None, typer.Option("--from", help="Folder of saved runs NAME.nc; nothing is run then.")
    ] = None,
    summaries: Annotated[
        Path | None, typer.Option("--summaries", help="Folder for small JSON files of what was found.")
    ] = None,
    workers: Annotated[int | None, typer.Option("--workers", help="Processes; default: one for each core.")] = None,
) -> None:
    """Write a page for each experiment and the ledger of all claims, from saved runs or by running them.

    Examples:

      richter report --preset smoke --out report

      richter report kun24-hyperboloid --from runs --out report
    """
    from richter.cli.experiment import progress_bar
    from richter.report.build import build_report

    with progress_bar("Starting", 70, remaining=False) as tell:
        page = build_report(
            names, out, preset=preset, runs=runs, summaries=summaries, workers=workers, progress=tell
        )  # fmt: skip
    typer.echo(f"The ledger is at {page.resolve()}")
