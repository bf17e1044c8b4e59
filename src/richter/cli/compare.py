"""`richter compare`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def compare(
    context: typer.Context,
    a: Annotated[str, typer.Argument(help="A recorded run (.nc).")],
    b: Annotated[str, typer.Argument(help="Another run (.nc), or a theory such as single-neuron.")],
    params: Annotated[
        str | None,
        typer.Option("--params", "-p", help="JSON file with the theory's parameters; - reads standard input."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", "-s", help="One of its parameters, name=value; arrays as JSON. Repeatable."),
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write both on one .html page.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Lay two runs, or a run and a theory, over each other: both regimes, and how far every number differs.

    Examples:

      richter compare lazy.nc rich.nc --out both.html

      richter compare run.nc single-neuron --set a0=1 --set 'w0=[-1,0]' --set 'beta_star=[0,1]'
    """
    from richter.errors import ParameterError, message
    from richter.measurement.compare import compare as call
    from richter.report.run import check_page

    if out is not None:
        check_page(out)
    sides: list[Any] = []
    for name in (a, b):
        if name.endswith(".nc"):
            sides.append(name)
            continue
        from richter import catalog
        from richter.cli.solve import read_parameters

        kind = catalog.theory(name)
        sides.append(kind.of(**read_parameters(kind, params, set_ or [], context.args)))
    if all(isinstance(side, str) for side in sides) and (params or set_ or context.args):
        raise ParameterError(
            message("two runs", "be compared without parameters", (set_ or context.args or [str(params)])[0])
        )
    made = call(*sides)
    if out is not None:
        from richter.report.comparison import comparison_report

        print(f"wrote {comparison_report(made, out)}", file=sys.stderr)
    if as_json:
        typer.echo(json.dumps({**made.plain(), "schema": 1}, ensure_ascii=False))
    else:
        typer.echo(str(made))
