"""`richter new`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def new(
    name: Annotated[str, typer.Argument(help="The new experiment, such as kun24-my-figure.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder for the two files.")] = Path(),
) -> None:
    """Write a new experiment that runs, and its test, and say how to run and register it.

    Example:  richter new kun24-my-figure
    """
    from richter import catalog
    from richter.errors import ParameterError, message
    from richter.experiments.scaffold import write_experiment

    if name in catalog.experiments():
        raise ParameterError(message("the name of a new experiment", "be free", name, f"See richter show {name}."))
    made = write_experiment(name, out)
    inside = "" if out == Path() else f"cd {out} && "
    typer.echo(
        f"wrote {made.experiment} and {made.test}\n\n"
        f"run it:   {inside}richter run {made.address} --preset smoke\n"
        f"test it:  {inside}python -m pytest {made.test.name}\n"
        "register it, so that list, run --all and report find it, in the pyproject.toml of its package:\n\n"
        '[project.entry-points."richter.experiments"]\n'
        f'{name} = "{made.address}"'
    )
