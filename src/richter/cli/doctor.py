"""`richter doctor`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def doctor(as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False) -> None:
    """Say what is installed and present: versions, extras, threads, data.

    Example:  richter doctor
    """
    from richter.doctor import examine

    found = examine()
    if as_json:
        typer.echo(json.dumps(found, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    for title, rows in found.items():
        if isinstance(rows, dict):
            table = Table(title=title, title_justify="left", show_header=False, box=None, padding=(0, 2))
            for key, value in rows.items():
                table.add_row(escape(str(key)), escape(str(value)))
            console.print(table)
