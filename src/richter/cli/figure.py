"""`richter figure`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from richter.cli.run import PRESET, SETTINGS


def figure(
    name: Annotated[str, typer.Argument(help="An experiment (see richter list).")],
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Draw to .png, .svg, .pdf or .html; default NAME.png.")
    ] = None,
    preset: Annotated[str, PRESET] = "laptop",
    set_: Annotated[list[str] | None, SETTINGS] = None,
    saved: Annotated[Path | None, typer.Option("--from", help="Draw a saved run (.nc) instead of running.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the figure's data as JSON instead.")] = False,
) -> None:
    """Draw a published figure from its own computation.

    Example:  richter figure kun24-hyperboloid --out hyperboloid.png
    """
    from richter import catalog, draw
    from richter.cli.experiment import obtain
    from richter.figure import to_plain

    target = draw.target_of(out or Path(f"{catalog.experiment(name).name}.png"))
    experiment, ds = obtain(name, preset, set_, saved)
    picture = experiment.figure(ds)
    if as_json:
        typer.echo(json.dumps(to_plain(picture), ensure_ascii=False))
        return
    typer.echo(f"wrote {draw.save(picture, target)}")
