"""`richter phase`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def phase(
    c_d: Annotated[float, typer.Option("--c-d", help="Exponent of the width.")] = 1.0,
    c_gamma: Annotated[float, typer.Option("--c-gamma", help="Exponent of the output scale γ.")] = 0.0,
    c_u: Annotated[float, typer.Option("--c-u", help="Exponent of the variance of the output weights.")] = 0.0,
    c_w: Annotated[float, typer.Option("--c-w", help="Exponent of the variance of the input weights.")] = 0.0,
    c_eta_u: Annotated[float, typer.Option("--c-eta-u", help="Exponent of the output weights' rate.")] = 0.0,
    c_eta_w: Annotated[float, typer.Option("--c-eta-w", help="Exponent of the input weights' rate.")] = 0.0,
    balanced_output: Annotated[
        bool | None,
        typer.Option(
            "--balanced-output/--no-balanced-output",
            help="Whether P/Q → 1 at any width (zero output at the start); default: as independent layers have it.",
        ),
    ] = None,
    table: Annotated[bool, typer.Option("--table", help="Print XU24 Table 1, recomputed.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Name the phase of a scaling limit: kernel, feature-learning, frozen or unstable.

    Examples:

      richter phase --c-d 1 --c-gamma -0.5

      richter phase --table
    """
    from richter.maths.scaling_limits import stable_rate, to_feature_learning, to_kernel
    from richter.theory import phases

    if table:
        rows = phases.table_1()
        if as_json:
            typer.echo(json.dumps({"table": rows, "schema": 1}, ensure_ascii=False))
            return
        from rich.console import Console
        from rich.table import Table

        shown = Table(title="Phases of scaling limits (XU24 Table 1, recomputed)", title_justify="left")
        for key in ("", *(str(row["scaling"]) for row in rows)):
            shown.add_column(key, justify="right", overflow="fold")
        for key in list(rows[0])[1:]:
            cells = [row[key] for row in rows]
            shown.add_row(key, *(f"{c + 0.0:g}" if isinstance(c, float) else str(c) for c in cells))
        Console(highlight=False).print(shown)
        return
    regime = phases.phase(c_d, c_gamma, c_u, c_w, c_eta_u, c_eta_w, balanced_output)
    rate = float(stable_rate(c_d, c_gamma, c_u, c_w))
    feature = [float(c) for c in to_feature_learning(c_d, c_u, c_w)]
    kernel = [float(c) for c in to_kernel(c_d, c_u, c_w)]
    if as_json:
        moves = {"stable_rate": rate, "to_feature_learning": feature, "to_kernel": kernel}
        typer.echo(json.dumps({**regime.plain(), "moves": moves, "schema": 1}, ensure_ascii=False))
        return
    typer.echo(str(regime))
    typer.echo(f"  stable: one rate exponent c_η = {rate + 0.0:g} for both layers")
    typer.echo(f"  to feature learning: c_η = {feature[0]:g}, c_γ = {feature[1] + 0.0:g}")
    typer.echo(f"  to the kernel phase: c_η = {kernel[0]:g}, c_γ = {kernel[1] + 0.0:g}")
