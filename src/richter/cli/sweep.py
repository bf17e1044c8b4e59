"""`richter sweep`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from richter.cli.run import PRESET, SETTINGS

if TYPE_CHECKING:
    import xarray as xr


def sweep(
    name: Annotated[str, typer.Argument(help="An experiment (see richter list), or a function module:function.")],
    grid: Annotated[
        list[str],
        typer.Option(
            "--grid",
            "-g",
            help="A dimension: tau=0.1,1,10 or tau=1e-2:1e2:9 (by a factor) "
            "or seed=0..15 or words=[…] (JSON). Repeatable.",
        ),
    ],
    preset: Annotated[str, PRESET] = "laptop",
    set_: Annotated[list[str] | None, SETTINGS] = None,
    engine: Annotated[
        str, typer.Option("--engine", help="process (a pool here), here, dask (a local cluster) or dask://host:port.")
    ] = "process",
    workers: Annotated[
        int | None, typer.Option("--workers", help="Processes; default: one for each core, as memory allows.")
    ] = None,
    batch: Annotated[
        int | None, typer.Option("--batch", help="For a function that takes a list of up to so many cells.")
    ] = None,
    seed: Annotated[int | None, typer.Option("--seed", help="Give a function a seed of its own in each cell.")] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Folder that keeps it; default NAME-sweep.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Continue the sweep that is in the folder.")] = False,
    mixed: Annotated[
        bool, typer.Option("--mixed", help="Continue it also with other code or library versions.")
    ] = False,
    attempts: Annotated[int, typer.Option("--attempts", help="How often a cell is tried.")] = 3,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say cells, time (measured) and disk.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run an experiment, or a function, at every point of a grid; a stopped sweep is continued with --resume.

    Examples:

      richter sweep kun24-hyperboloid --preset smoke --grid starts=4,8 --grid seed=0..3 --dry-run

      richter sweep my_module:my_function --grid x=1e-3:1e3:7 --out my-sweep
    """  # fmt: skip
    from richter import sweep as room
    from richter.cli.experiment import progress_bar
    from richter.errors import ParameterError, message
    from richter.sweep.store import MANIFEST

    dims = room.Grid.parse(grid)
    function, fixed = _function(name, dims, preset, set_, batch, seed)
    store = out or Path(f"{name.replace(':', '.')}-sweep")
    given: dict[str, Any] = {
        "store": store, "fixed": fixed, "batch": batch, "seed": seed, "engine": engine, "workers": workers,
        "mixed": mixed,
    }  # fmt: skip
    if dry_run:
        made = room.plan(function, dims, **given)
        if as_json:
            typer.echo(json.dumps({"sweep": name, **made.plain(), "schema": 1}))
        else:
            typer.echo("\n".join(made.words()))
        return
    if (store / MANIFEST).exists() and not resume:
        do = "Say --resume to continue it."
        raise ParameterError(message("`--out`", "be a folder without a sweep", str(store), do))
    with progress_bar(name, 44, remaining=False) as tell:
        ds = room.sweep(function, dims, attempts=attempts, progress=tell, **given)
    _say(name, ds, store, as_json)


def _function(
    name: str, dims: Any, preset: str, pairs: list[str] | None, batch: int | None, seed: int | None
) -> tuple[Any, dict[str, Any]]:
    """What is computed in a cell, and what stays fixed: an experiment's settings are part of the function."""
    from richter import catalog
    from richter.cli.experiment import settings_of
    from richter.errors import ParameterError, message
    from richter.experiments import AbstractExperiment
    from richter.experiments.settings import declared, parse
    from richter.experiments.sweeping import settings_cell

    found = catalog.experiment(name) if ":" not in name else catalog.named(name)
    texts = settings_of(name, pairs)
    if isinstance(found, type) and issubclass(found, AbstractExperiment):
        if batch is not None or seed is not None:
            got = "--batch" if batch is not None else "--seed"
            raise ParameterError(message("the sweep of an experiment", "have neither --batch nor --seed", got))
        return settings_cell(found, dims, preset, parse(found.name, declared(found), texts)), {}
    fixed = {}
    for key, text in texts.items():
        try:
            fixed[key] = json.loads(text)
        except json.JSONDecodeError:
            fixed[key] = text
    return found, fixed


def _say(name: str, ds: xr.Dataset, store: Path, as_json: bool) -> None:
    from richter.experiments.sweeping import FINDING, MEASURED, findings
    from richter.sweep import duration
    from richter.sweep.store import WHOLE

    found = findings(ds)
    names = [str(v) for v in ds.data_vars if not str(v).startswith((FINDING, MEASURED))]
    if as_json:
        plain = {
            "sweep": name, "file": str(store / WHOLE), "cells": ds.attrs["cells"], "digest": ds.attrs["digest"],
            "dims": {str(k): int(v) for k, v in ds.sizes.items()}, "variables": names, "findings": found,
            "compute_seconds": ds.attrs["compute_seconds"], "schema": 1,
        }  # fmt: skip
        typer.echo(json.dumps(plain, ensure_ascii=False))
        return
    typer.echo(f"{ds.attrs['cells']} cells, {duration(ds.attrs['compute_seconds'])} of computing: {store / WHOLE}")
    typer.echo(f"variables: {', '.join(names)}")
    for claim, counts in found.items():
        typer.echo(f"{claim}: " + ", ".join(f"{finding} in {count}" for finding, count in counts.items()))
