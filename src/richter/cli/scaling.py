"""`richter scaling`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import xarray as xr


def scaling(
    over: Annotated[str, typer.Option("--over", help="The bottleneck: time, data, parameters or compute.")] = "time",
    alpha: Annotated[
        list[float] | None, typer.Option("--alpha", "-a", help="Exponent of the frequencies less one. Repeatable.")
    ] = None,
    values: Annotated[
        str | None, typer.Option("--values", help="The resource: 1e3,1e4,1e5 or first:last:count (log-spaced).")
    ] = None,
    target: Annotated[float, typer.Option("--target", help="Target scale S.")] = 5.0,
    initial: Annotated[float, typer.Option("--initial", help="Skill strength at the start, R(0).")] = 1e-2,
    eta: Annotated[float, typer.Option("--eta", help="Learning rate.")] = 0.05,
    skills: Annotated[float, typer.Option("--skills", help="Number of skills; inf for endlessly many.")] = float("inf"),
    table: Annotated[bool, typer.Option("--table", help="Print NAM24 Table 4.1, with fitted exponents.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at full precision.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw to .png, .svg, .pdf or .html.")] = None,
) -> None:
    """Tabulate or draw a scaling law of the multilinear model beside the exact sum over skills.

    Examples:

      richter scaling --over time --alpha 0.3 --alpha 0.6 --plot time.png

      richter scaling --over compute --values 1e6:1e12:13

      richter scaling --table
    """
    from richter.theory.scaling import BOTTLENECKS, learning_curves
    from richter.theory.scaling import scaling as solve

    alphas = alpha or [0.6]
    settings = {"target": target, "initial": initial, "eta": eta, "n_skills": skills}
    if table:
        rows = [(name, solve(name, alpha=alphas, **settings)) for name in BOTTLENECKS]
        _table(rows, as_json)
        return
    ds = solve(over, None if values is None else read_values(values), alpha=alphas, **settings)
    if as_json:
        typer.echo(json.dumps(plain("scaling", ds)))
    if plot is not None:
        import numpy as np

        from richter.draw import save
        from richter.figure import scaling_figure

        curves = None
        if over == "compute":
            best = ds.best_parameters.values[0]
            sizes = np.unique(np.round(np.geomspace(max(1, best.min() / 3), best.max() * 3, 8)))
            fine = np.geomspace(ds["compute"].values[0], ds["compute"].values[-1], 100)
            curves = learning_curves(fine, sizes, alpha=alphas[0], **settings)
        print(f"wrote {save(scaling_figure(ds, curves), plot)}", file=sys.stderr)
    if not as_json and plot is None:
        _print(ds)


def read_values(text: str) -> list[float]:
    """Numbers from `1e3,1e4` or `first:last:count`, spaced by a constant factor."""
    import numpy as np

    from richter.errors import ParameterError, message

    try:
        if ":" in text:
            first, last, count = text.split(":")
            if not (0 < float(first) < float(last) < np.inf and 3 <= int(count) <= 100_000):
                raise ValueError
            return [float(x) for x in np.geomspace(float(first), float(last), int(count))]
        return [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        must = "be like 1e3,1e4,1e5 or 1e3:1e8:11 (both > 0, 3 to 100000 points)"
        raise ParameterError(message("`--values`", must, text)) from None


def plain(model: str, ds: xr.Dataset) -> dict[str, object]:
    """A Dataset as the stable JSON form: undefined is null, infinite is "inf"."""
    import numpy as np

    from richter.schema import to_plain

    arrays = {str(k): (tuple(map(str, v.dims)), np.asarray(v.values, dtype=float)) for k, v in ds.variables.items()}
    made = to_plain(model, {}, arrays)
    made["params"] = {str(k): v if not isinstance(v, float) or np.isfinite(v) else "inf" for k, v in ds.attrs.items()}
    return made


def _print(ds: xr.Dataset) -> None:
    import numpy as np
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console, over = Console(highlight=False), str(ds.attrs["over"])
    console.width = max(console.width, 100)  # a cut number is worse than a long line
    heads = {"loss": "loss", "law": "law", "relative_error": "law/loss−1", "exponent": "slope", "corrected": "C.2",
             "best_time": "best T", "best_parameters": "best N", "whole_parameters": "whole N",
             "valid": "law holds"}  # fmt: skip
    shown = [name for name in heads if name in ds]
    for i, a in enumerate(ds.alpha.values):
        table = Table(box=box.SIMPLE_HEAD, padding=(0, 1))
        fit = f"{float(ds.fitted_exponent[i]):.6g} ± {_half_width(ds, i):.1g}"
        fit = f"fitted to the exact loss {fit}" if np.isfinite(ds.fitted_exponent[i]) else "nothing to fit"
        console.print(f"α = {a:g}: exponent {float(ds.law_exponent[i]):.6g}, {fit}")
        for head in (str(ds[over].attrs["symbol"]), *(heads[name] for name in shown)):
            table.add_column(head, justify="right", no_wrap=True)
        for j, x in enumerate(ds[over].values):
            cell = lambda name, i=i, j=j: (
                ("yes" if ds[name][i, j] else "no") if name == "valid" else _number(float(ds[name][i, j]))
            )
            table.add_row(f"{x:.4g}", *map(cell, shown))
        console.print(table)
    to = f"within {ds.attrs['valid_to']:g} of the exact loss"
    when = str(ds.attrs["valid_when"])
    when = when if when == "always" else f"when {when}"
    console.print(f"The law holds {when}; “yes”: {to}.", markup=False)


def _number(x: float) -> str:
    return "—" if x != x else f"{x:.4g}"


def _half_width(ds: xr.Dataset, row: int) -> float:
    """Half of the 95 % interval of a fitted exponent."""
    return float(ds.fitted_high[row] - ds.fitted_low[row]) / 2


def _table(rows: list[tuple[str, xr.Dataset]], as_json: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    made = []
    for name, ds in rows:
        for i, a in enumerate(ds.alpha.values):
            made.append({
                "bottleneck": name, "alpha": float(a), "exponent": float(ds.law_exponent[i]),
                "fitted": float(ds.fitted_exponent[i]), "plus_minus": _half_width(ds, i),
                "largest_error": float(abs(ds.relative_error[i]).max()),
            })  # fmt: skip
    if as_json:
        typer.echo(json.dumps({"table": made, "schema": 1}))
        return
    table = Table(title="Scaling laws (NAM24 Table 4.1), and exponents fitted to the exact sums", title_justify="left")
    for column in made[0]:
        table.add_column({"plus_minus": "±"}.get(column, column.replace("_", " ")), justify="right")
    for row in made:
        table.add_row(*(f"{v:.4g}" if isinstance(v, float) else str(v) for v in row.values()))
    Console(highlight=False).print(table)
