"""`richter interpolant`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def interpolant(
    params: Annotated[str, typer.Option("--params", "-p", help="JSON file with X, y, a0, w0; - reads standard input.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at full precision.")] = False,
) -> None:
    """Say where gradient flow of the single neuron ends on data of any rank.

    Example:  echo '{"X": [[1, 2]], "y": [1], "a0": 1, "w0": [1, 0]}' | richter interpolant --params -
    """
    from richter.cli.parameter_file import read
    from richter.params import Param, check_names
    from richter.theory.interpolants import interpolant as solve

    required = ("X", "y", "a0", "w0")
    known = {name: Param("", required=name in required) for name in (*required, "eta_a", "eta_w")}
    given = read(params, "X")
    check_names("interpolant", known, given)
    ds = solve(**given)
    if as_json:
        variables = {
            str(name): {"dims": list(map(str, value.dims)), "data": value.values.tolist()}
            for name, value in ds.fillna(float("nan")).data_vars.items()
        }
        plain = {"model": "interpolant", "params": given, "dims": dict(ds.sizes), "variables": variables, "schema": 1}
        typer.echo(json.dumps(plain, ensure_ascii=False).replace("NaN", "null"))
        return
    for name, value in ds.data_vars.items():
        typer.echo(f"{name:13} {value.values.tolist()}    {value.attrs['long_name']}")
