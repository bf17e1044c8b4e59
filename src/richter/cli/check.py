"""`richter check`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from richter.cli.run import PRESET, SETTINGS


def check(
    name: Annotated[str, typer.Argument(help="An experiment (see richter list).")],
    preset: Annotated[str, PRESET] = "smoke",
    set_: Annotated[list[str] | None, SETTINGS] = None,
    saved: Annotated[Path | None, typer.Option("--from", help="Judge a saved run (.nc) instead of running.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Judge the claims of an experiment; exit code 1 if one fails.

    Example:  richter check kun24-basins --preset smoke
    """
    from richter.cli.experiment import obtain, print_verdicts
    from richter.report.summary import verdict_rows

    experiment, ds = obtain(name, preset, set_, saved)
    checked = experiment.check(ds)
    if as_json:
        typer.echo(json.dumps({"experiment": name, "claims": verdict_rows(checked), "schema": 1}, ensure_ascii=False))
    else:
        print_verdicts(experiment, checked)
    if any(verdict.finding == "fails" for _, verdict in checked):
        raise typer.Exit(1)
