"""`richter solve`."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

MOST_TIMES = 1_000_000

if TYPE_CHECKING:
    from richter.params import Param
    from richter.theory.base import AbstractTheory


def solve(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="A theory: single-neuron or SingleNeuron (see richter list).")],
    params: Annotated[
        str | None, typer.Option("--params", "-p", help="JSON file with the parameters; - reads standard input.")
    ] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", "-s", help="One parameter, name=value; arrays as JSON. Repeatable.")
    ] = None,
    times: Annotated[
        str | None,
        typer.Option("--times", "-t", help="0,0.5,1,inf or first:last:count; default: until the loss is gone."),
    ] = None,
    only: Annotated[str | None, typer.Option("--only", help="Variables wanted, separated by commas.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at full precision.")] = False,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write a netCDF file (.nc).")] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw to .png, .svg, .pdf or .html.")] = None,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Integrate numerically instead: the witness of the exact solution.")
    ] = False,
) -> None:
    """Solve a theory exactly; every parameter is an option too (--beta-star '[0, 1]').

    Examples:

      richter solve single-neuron --a0 1 --w0 '[-1, 0]' --beta-star '[0, 1]' --times 0,1,inf

      richter solve diagonal-network --params modes.json --times 0:20:201 --plot modes.png

      richter solve wide-scalar --params net.json --times 0,1,inf --json
    """
    from richter import catalog
    from richter.errors import ParameterError, message

    kind = catalog.theory(name)
    given = read_parameters(kind, params, set_ or [], context.args)
    theory = kind.of(**given)
    moments = read_times(times, theory)
    if simulate and times is None:
        moments = moments[:-1]
    wanted = None if only is None else [word.strip() for word in only.split(",") if word.strip()]
    if wanted == []:
        raise ParameterError(message("`--only`", "name variables", only or "nothing", f"See richter show {kind.name}."))
    if as_json and not (out or plot or simulate):
        from richter.schema import to_plain

        typer.echo(json.dumps(to_plain(theory.name, theory.params, theory.arrays(moments, wanted))))
        return
    ds = theory.simulate(moments, wanted) if simulate else theory.solve(moments, wanted)
    if out is not None:
        from richter.schema import save

        print(f"wrote {save(ds, out)}", file=sys.stderr)
    if plot is not None:
        from richter.draw import save as draw
        from richter.figure import solution_figure

        print(f"wrote {draw(solution_figure(ds), plot)}", file=sys.stderr)
    if as_json:
        from richter.schema import to_plain

        arrays = {str(k): (tuple(map(str, v.dims)), v.values) for k, v in ds.variables.items()}
        typer.echo(json.dumps(to_plain(theory.name, theory.params, arrays)))
    elif out is None and plot is None:
        _print(theory, ds)


def read_parameters(
    kind: type[AbstractTheory], file: str | None, pairs: list[str], rest: list[str]
) -> dict[str, object]:
    """Parameters from a JSON file, `--set name=value` and `--name value`; later ones win."""
    from richter.cli.parameter_file import read
    from richter.errors import ParameterError, message
    from richter.params import check_names, declared, parse

    known: dict[str, Param] = declared(kind)
    made: dict[str, object] = {}
    if file is not None:
        loaded = read(file, next(iter(known)))
        check_names(kind.__name__, known, {**dict.fromkeys(known), **loaded})
        made.update(loaded)
    texts: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(message("`--set`", "be name=value", pair, "Use --set a0=1."))
        texts[key.strip().replace("-", "_")] = value
    words = list(rest)
    while words:
        word = words.pop(0)
        key, equals, value = word.partition("=")
        if not key.startswith("--"):
            raise ParameterError(message("an argument", "be --name value", word, f"See richter show {kind.name}."))
        if not equals and not words:
            raise ParameterError(message(f"`{key}`", "have a value", "nothing"))
        texts[key[2:].replace("-", "_")] = value if equals else words.pop(0)
    made.update(parse(kind.__name__, known, texts))
    return made


def read_times(text: str | None, theory: AbstractTheory) -> list[float]:
    """Times from `0,0.5,1,inf`, `first:last:count`, or the theory's own span."""
    import numpy as np

    from richter.errors import ParameterError, message

    if text is None:
        from richter.theory.horizon import horizon

        return [*np.linspace(0, horizon(theory), 11).tolist(), np.inf]
    made: list[float] = []
    try:
        for word in text.split(","):
            if ":" in word:
                first, last, count = word.split(":")
                if not (np.isfinite(float(first)) and np.isfinite(float(last)) and 0 < int(count) <= MOST_TIMES):
                    raise ValueError
                made += np.linspace(float(first), float(last), int(count)).tolist()
            elif word.strip():
                made.append(float(word))
    except ValueError:
        raise ParameterError(
            message("`--times`", f"be like 0,0.5,1,inf or 0:10:101 ({MOST_TIMES} at most)", text)
        ) from None
    if not made:
        raise ParameterError(message("`--times`", "hold at least one number", text or "nothing", "Use 0,1,inf."))
    return made


def _print(theory: AbstractTheory, ds: Any) -> None:
    import numpy as np
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from richter.errors import OutsideTheoryError

    console = Console(highlight=False)
    first = ds
    for dim in theory.batch_names:
        first = first.isel({dim: 0})
    columns: list[tuple[str, Any]] = []
    for name, value in first.data_vars.items():
        own = value.values.reshape(value.shape[0], -1)
        if value.ndim <= 2 and own.shape[1] <= 4:
            labels = [f"{name}[{i}]" if value.ndim == 2 else name for i in range(own.shape[1])]
            columns += zip(labels, own.T, strict=True)
    console.print(f"[bold]{theory.title}[/]: {ds.attrs['how']}")
    fit = max(1, (console.width - 9) // 15)
    for part in range(0, len(columns), fit):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        table.add_column("t", justify="right", min_width=6)
        for label, _ in columns[part : part + fit]:
            table.add_column(escape(label), justify="right", no_wrap=True)
        for row, t in enumerate(first.t.values):
            cells = ("–" if np.isnan(c[row]) else f"{c[row]:.6g}" for _, c in columns[part : part + fit])
            table.add_row(f"{t:g}", *cells)
        console.print(table)
    starts = math.prod(theory.batch_shape)
    if starts > 1:
        console.print(f"The first of {starts} starts. All of them: --json, --out FILE.nc or --plot FILE.png")
    try:
        console.print(str(theory.regime()), markup=False)
    except OutsideTheoryError:  # simulated from a start that has no closed form
        console.print("No regime: it is read off the exact solution, which this start has not.")
