"""`richter list`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the theories that Richter can solve exactly, and the published figures it recomputes.

    Example:  richter list
    """
    from richter import catalog

    known = catalog.theories()
    if as_json:
        rows = [
            {"name": name, "class": t.__name__, "title": t.title, "valid": t.valid, "formula": t.formula}
            for name, t in known.items()
        ]
        shown = [
            {"name": name, "title": e.title, "places": [str(p) for p in e.places], "claims": len(e.claims())}
            for name, e in catalog.experiments().items()
        ]
        typer.echo(json.dumps({"theories": rows, "experiments": shown, "schema": 1}, ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    table = Table(title="Exactly solved settings", title_justify="left", show_lines=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("setting")
    table.add_column("where")
    for name, t in known.items():
        table.add_row(name, t.valid, ", ".join(str(place) for place in t.places))
    console = Console()
    console.print(table)
    console.print("One in full: richter show NAME.  Solve it: richter solve NAME --help", highlight=False)
    table = Table(title="\nExperiments", title_justify="left", show_lines=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it shows")
    table.add_column("where")
    table.add_column("claims", justify="right")
    for name, e in catalog.experiments().items():
        table.add_row(name, e.title, ", ".join(str(place) for place in e.places), str(len(e.claims())))
    console.print(table)
    console.print("Draw one: richter figure NAME.  Judge its claims: richter check NAME", highlight=False)
