"""`richter run`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

PRESET = typer.Option("--preset", help="smoke (seconds), laptop (minutes, 2 cores) or paper (the published setting).")
SETTINGS = typer.Option("--set", "-s", help="One setting, name=value; lists as JSON. Repeatable.")


def run(
    name: Annotated[str, typer.Argument(help="An experiment (see richter list), or module:Class.")] = "",
    everything: Annotated[bool, typer.Option("--all", help="Run every experiment, past failures.")] = False,
    preset: Annotated[str, PRESET] = "laptop",
    set_: Annotated[list[str] | None, SETTINGS] = None,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Where to write: default NAME.nc; with --all a folder, runs.")
    ] = None,
    store: Annotated[
        Path | None, typer.Option("--store", help="Folder that keeps finished parts: run again to continue.")
    ] = None,
    summary: Annotated[
        Path | None, typer.Option("--summary", help="Folder for a small JSON file of what was found.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="With --all: keep runs that are already there.")] = False,
    workers: Annotated[int | None, typer.Option("--workers", help="With --all: processes; default: cores.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdicts as JSON.")] = False,
) -> None:
    """Run an experiment, save its numbers and judge its claims; or run all of them.

    Examples:

      richter run kun24-hyperboloid --preset smoke --out hyperboloid.nc

      richter run --all --preset smoke --out runs
    """
    from richter.errors import ParameterError, message

    if everything == bool(name):
        got = f"{name} and --all" if name else "neither"
        raise ParameterError(message("`richter run`", "name one experiment or say --all", got))
    if everything:
        if set_ or store:
            got = f"--set {set_[0]}" if set_ else "--store"
            raise ParameterError(message("`richter run --all`", "take every experiment as its preset says", got))
        from richter.cli.run_all import run_everything

        run_everything(preset, out or Path("runs"), summary, resume, workers, as_json)
        return
    from richter import catalog
    from richter.cli.experiment import obtain, print_verdicts
    from richter.report.summary import summarise, verdict_rows, write_summary
    from richter.schema import save, target_of

    target = target_of(out or Path(f"{catalog.experiment(name).name}.nc"))
    experiment, ds = obtain(name, preset, set_, None, store)
    path = save(ds, target)
    checked = experiment.check(ds)
    if summary is not None:
        write_summary(summarise(experiment, ds, checked), summary)
    if as_json:
        rows = verdict_rows(checked)
        typer.echo(json.dumps({"experiment": name, "file": str(path), "claims": rows, "schema": 1}, ensure_ascii=False))
    else:
        print_verdicts(experiment, checked)
        typer.echo(f"\nwrote {path}   judge it again: richter check {name} --from {path}")
    if any(verdict.finding == "fails" for _, verdict in checked):
        raise typer.Exit(1)
