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

    from richter.sweep.machine import single_threads

    console = Console(highlight=False)
    columns = (TextColumn("{task.description:32}"), BarColumn(), TimeRemainingColumn())
    hide = not console.is_terminal
    # Everything here is small: more threads would only wait for each other, for minutes on a busy machine.
    with single_threads(), Progress(*columns, console=console, disable=hide, transient=True) as bar:
        from richter.report.tour import lacks, run_tour

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
