"""`richter learnability`."""

from __future__ import annotations

import json
from typing import Annotated

import typer

SHOWN = 4  # modes in the table
COLUMN = 14  # characters of the widest column


def learnability(
    eigenvalues: Annotated[str, typer.Option("--eigenvalues", "-e", help="Eigenvalues ρ, as a JSON array.")] = "",
    n: Annotated[str, typer.Option("--n", "-n", help="Numbers of training examples, such as 10,100.")] = "",
    ridge: Annotated[str, typer.Option("--ridge", help="Ridge, added to the kernel matrix [default: 0].")] = "",
    coefficients: Annotated[
        str, typer.Option("--coefficients", "-c", help="The target's coefficients, as a JSON array; for the errors.")
    ] = "",
    noise: Annotated[str, typer.Option("--noise", help="Standard deviation of the labels' noise [default: 0].")] = "",
    power_law: Annotated[
        float | None, typer.Option("--power-law", help="Instead of eigenvalues: α of the endless spectrum k^−(1+α).")
    ] = None,
    params: Annotated[
        str, typer.Option("--params", "-p", help="JSON file with these and multiplicities; - reads standard input.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at full precision.")] = False,
) -> None:
    """Say what a model of fixed features learns of each mode from n examples, and how well it generalises.

    Examples:

      richter learnability --eigenvalues '[1, 0.5, 0.1]' --n 1,2 --coefficients '[1, 0, 0]' --noise 0.1

      richter learnability --power-law 0.6 --n 10,100,1000 --coefficients '[1, 1, 1]'
    """
    from typing import Any

    import numpy as np

    from richter.cli.parameter_file import read
    from richter.errors import ParameterError, message
    from richter.params import check_names, parse
    from richter.schema import to_plain
    from richter.theory.eigenlearning import PARAMS, power_law_learnability
    from richter.theory.eigenlearning import learnability as solve

    listed = lambda text: f"[{text}]" if "," in text and not text.lstrip().startswith("[") else text
    options = {
        "eigenvalues": eigenvalues, "n": n, "ridge": ridge, "coefficients": coefficients, "noise": noise,
    }  # fmt: skip
    given: dict[str, Any] = read(params, "eigenvalues") if params else {}
    given |= parse("learnability", PARAMS, {name: listed(text) for name, text in options.items() if text})
    if power_law is None:
        check_names("learnability", PARAMS, given)
        ds = solve(**given)
    else:
        for name in {"eigenvalues", "multiplicities"} & set(given):
            raise ParameterError(message(f"`{name}`", "not be given with `--power-law`", "both", "Give one."))
        check_names("learnability", {name: p for name, p in PARAMS.items() if name != "eigenvalues"}, given)
        ds = power_law_learnability(power_law, **given)
        given = {"alpha": power_law, **given}
    if as_json:
        names = ("n", *map(str, ds.data_vars))
        arrays = {name: (tuple(map(str, ds[name].dims)), ds[name].values) for name in names}
        typer.echo(json.dumps(to_plain("learnability", given, arrays), ensure_ascii=False))
        return
    from rich.console import Console
    from rich.table import Table

    rows = (ds.expand_dims("n") if ds["n"].ndim == 0 else ds).transpose(..., "n", "mode")
    modes = min(SHOWN, rows.sizes["mode"])
    batch = [str(dim) for dim in rows["kappa"].dims if dim != "n"]
    titles = {"kappa": "κ", "overfitting": "E₀"}
    if "coefficients" in given:
        titles |= {"train_error": "train", "test_error": "test", "clean_error": "clean"}
    shown = Table(title="Learnability (NAM24 Eq. 1.35)", title_justify="left")
    for title in (*batch, "n", *titles.values(), *(f"L_{k + 1}" for k in range(modes))):
        shown.add_column(title, justify="right", no_wrap=True)
    for index in np.ndindex(rows["kappa"].shape):
        cells = [float(rows[name].values[index]) for name in titles]
        learned = rows["learnability"].values[index][:modes].tolist()
        shown.add_row(
            *map(str, index[:-1]), f"{float(rows['n'].values[index[-1]]):g}", *(f"{x:.4g}" for x in [*cells, *learned])
        )
    screen = Console(highlight=False)
    screen.width = max(screen.width, COLUMN * len(shown.columns))  # a cut number is worse than a long line
    screen.print(shown)
    if rows.sizes["mode"] > modes:
        many = f"{rows.sizes['mode']} modes" if power_law is None else "Endlessly many modes"
        typer.echo(f"{many}, the first {modes} shown; {'all' if power_law is None else 'more'} with --json.")
    if "coefficients" in given:
        typer.echo("Mean square errors without ½: test on noisy labels, clean on the target itself.")
