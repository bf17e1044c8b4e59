"""`richter phase`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    import xarray as xr

    from richter.figure import Figure

REACH, CELLS = 2.0, 161  # of a diagram: exponents from −2 to 2


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
    finite: Annotated[
        bool, typer.Option("--finite-size", help="Draw networks at growing widths and fit the exponents too.")
    ] = False,
    diagram: Annotated[
        str | None, typer.Option("--diagram", help="Two exponents, such as c_eta,c_gamma: their phase diagram.")
    ] = None,
    plot: Annotated[Path | None, typer.Option("--plot", help="With --diagram: .png, .svg, .pdf or .html.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Name the phase of a scaling limit: kernel, feature-learning, frozen or unstable.

    Examples:

      richter phase --c-d 1 --c-gamma -0.5 --finite-size

      richter phase --table

      richter phase --diagram c_eta,c_gamma --plot diagram.png
    """
    from richter.errors import ParameterError, message
    from richter.maths.scaling_limits import stable_rate, to_feature_learning, to_kernel
    from richter.theory import phases

    given = {"c_d": c_d, "c_gamma": c_gamma, "c_u": c_u, "c_w": c_w, "c_eta_u": c_eta_u, "c_eta_w": c_eta_w}
    if diagram is not None:
        _draw(diagram, plot, given, balanced_output)
        return
    if plot is not None:
        raise ParameterError(message("`--plot`", "come with --diagram", str(plot), "Use --diagram c_eta,c_gamma."))
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
    measured = _measure(given, bool(balanced_output)) if finite else {}
    rate = float(stable_rate(c_d, c_gamma, c_u, c_w))
    feature = [float(c) for c in to_feature_learning(c_d, c_u, c_w)]
    kernel = [float(c) for c in to_kernel(c_d, c_u, c_w)]
    if as_json:
        moves = {"stable_rate": rate, "to_feature_learning": feature, "to_kernel": kernel}
        plain = {**regime.plain(), "moves": moves, **({"finite_size": measured} if finite else {}), "schema": 1}
        typer.echo(json.dumps(plain, ensure_ascii=False))
        return
    typer.echo(str(regime))
    typer.echo(f"  stable: one rate exponent c_η = {rate + 0.0:g} for both layers")
    typer.echo(f"  to feature learning: c_η = {feature[0]:g}, c_γ = {feature[1] + 0.0:g}")
    typer.echo(f"  to the kernel phase: c_η = {kernel[0]:g}, c_γ = {kernel[1] + 0.0:g}")
    for row in measured.values():
        said = (
            "identically 0" if row["fitted"] is None else f"{row['fitted']:.3f} ({row['low']:.3f} … {row['high']:.3f})"
        )
        typer.echo(f"  finite widths: {row['says']} goes with κ to the power {said}; theory {row['theory']}")


def _measure(given: dict[str, float], zero_output: bool) -> dict[str, dict[str, float | str | None]]:
    """Fitted exponents at growing widths beside those of theory."""
    import math

    from richter.theory.finite_size import expected_exponents, finite_size, fitted_exponents

    ds = fitted_exponents(finite_size(given, zero_output=zero_output))
    says = {"t_c": "the learning time", "ratio": "|P/Q − 1|", "growth_end": "|α₊ − 1|"}
    made: dict[str, dict[str, float | str | None]] = {}
    for name, theory in expected_exponents(given, zero_output).items():
        fitted, low, high = (float(ds[key].sel(quantity=name)) for key in ("exponent", "low", "high"))
        numbers = (None, None, None) if math.isnan(fitted) else (fitted, low, high)
        made[name] = {**dict(zip(("fitted", "low", "high"), numbers, strict=True)), "says": says[name],
                      "theory": "−∞" if math.isinf(theory) else f"{theory:g}"}  # fmt: skip
    return made


def _draw(names: str, plot: Path | None, given: dict[str, float], balanced_output: bool | None) -> None:
    """The phase diagram over two exponents, the others as given, to a file."""
    import numpy as np

    from richter.draw import save
    from richter.errors import ParameterError, message
    from richter.theory.phases import phase_diagram

    x, comma, y = (part.strip().replace("-", "_") for part in names.partition(","))
    if not comma or not y:
        raise ParameterError(message("`--diagram`", "name two exponents", names, "Use --diagram c_eta,c_gamma."))
    varied = {x, y, *(("c_eta_u", "c_eta_w") if "c_eta" in (x, y) else ())}
    base = {name: value for name, value in given.items() if name not in varied}
    axis = np.linspace(-REACH, REACH, CELLS)
    wide = lambda name: axis[axis >= 0] if name == "c_d" else axis
    ds = phase_diagram(x, y, base, wide(x), wide(y), balanced_output)
    print(f"wrote {save(_figure(ds, x, y), plot or Path('phases.png'))}")


def _figure(ds: xr.Dataset, x: str, y: str) -> Figure:
    from richter.figure import Figure, Panel, mark
    from richter.theory.phases import PHASES

    cells = mark("cells", ds.x, ds.y, values=ds.phase.values, words=PHASES)
    caption = (
        f"Phase of the scaling limit with {ds.attrs['base']}. Learning takes a time of order 1 on the border only."
    )
    return Figure((Panel((cells,), x=f"{x}: exponent", y=f"{y}: exponent", equal=True),), "Phase diagram", caption)
