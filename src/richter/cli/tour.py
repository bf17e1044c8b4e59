"""`richter tour`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def tour(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the page.")] = Path("richter-tour"),
) -> None:
    """Solve, simulate, train and draw the first results on one page; needs no data and no download.

    Example:  richter tour --out my-tour
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from richter.report.tour import lacks, run_tour

    console = Console(highlight=False)
    columns = (TextColumn("{task.description:32}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task("Starting", total=1.0)
        page = run_tour(out, lambda what, share: bar.update(task, description=what, completed=share))
    console.print(f"The page is at [bold]{page.resolve()}[/]", soft_wrap=True)
    for line in (
        *([lacks()] if lacks() else []),
        "Open it in a browser. Then try:",
        "  richter list",
        "  richter show single-neuron",
        "  richter solve single-neuron --a0 1 --w0 '[-1, 0]' --beta-star '[0, 1]' --times 0,1,inf",
    ):
        console.print(line, soft_wrap=True, markup=False)
