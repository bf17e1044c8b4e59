"""`richter run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

PRESET = typer.Option("--preset", help="smoke (seconds), laptop (minutes, 2 cores) or paper (the published setting).")
SETTINGS = typer.Option("--set", "-s", help="One setting, name=value; lists as JSON. Repeatable.")


def run(
    name: Annotated[str, typer.Argument(help="An experiment (see richter list).")],
    preset: Annotated[str, PRESET] = "laptop",
    set_: Annotated[list[str] | None, SETTINGS] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Where to write the run; default NAME.nc.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Run an experiment, save its numbers and judge its claims.

    Example:  richter run kun24-hyperboloid --preset smoke --out hyperboloid.nc
    """
    from richter.cli.experiment import obtain, print_verdicts, verdict_rows
    from richter.schema import save

    experiment, ds = obtain(name, preset, set_, None)
    path = save(ds, out or Path(f"{experiment.name}.nc"))
    checked = experiment.check(ds)
    if as_json:
        rows = verdict_rows(checked)
        typer.echo(json.dumps({"experiment": name, "file": str(path), "claims": rows, "schema": 1}, ensure_ascii=False))
    else:
        print_verdicts(experiment, checked)
        typer.echo(f"\nwrote {path}   judge it again: richter check {name} --from {path}")
    if any(verdict.finding == "fails" for _, verdict in checked):
        raise typer.Exit(1)
