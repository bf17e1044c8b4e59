"""`richter emergence`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def emergence(
    over: Annotated[str, typer.Option("--over", help="The resource: time, data or parameters.")] = "time",
    number: Annotated[
        float | None, typer.Option("--number", help="ℬ, D_c or N_c; default: the thesis' 1/22, 800, 4.")
    ] = None,
    measured: Annotated[
        str | None,
        typer.Option(
            "--measured",
            "-m",
            help="JSON file with x and strength (and error) of one skill: calibrate on it; - reads standard input.",
        ),
    ] = None,
    frequency: Annotated[float, typer.Option("--frequency", help="The measured skill's frequency in its run.")] = 1.0,
    skills: Annotated[int, typer.Option("--skills", min=1, help="Number of skills to predict.")] = 5,
    alpha: Annotated[float, typer.Option("--alpha", "-a", help="Exponent of the frequencies less one.")] = 0.6,
    target: Annotated[float, typer.Option("--target", help="Target scale S.")] = 5.0,
    initial: Annotated[float, typer.Option("--initial", help="Skill strength at the start, R(0).")] = 1e-3,
    eta: Annotated[float, typer.Option("--eta", help="Learning rate.")] = 0.05,
    strength: Annotated[
        str, typer.Option("--strength", help="Over data: by definition, or the thesis' effective one.")
    ] = "definition",
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON at full precision.")] = False,
    plot: Annotated[Path | None, typer.Option("--plot", help="Draw to .png, .svg, .pdf or .html.")] = None,
) -> None:
    """Say when skills emerge in time, data or parameters, calibrated on one of them.

    Examples:

      richter emergence --over time

      richter emergence --over data --measured first_skill.json --plot emergence.png
    """  # fmt: skip
    from richter.theory.emergence import calibrate_emergence
    from richter.theory.emergence import emergence as solve

    shared = {"target": target, "initial": initial, "eta": eta}
    calibration = None
    if measured is not None:
        from richter.cli.parameter_file import read
        from richter.errors import ParameterError, message

        if number is not None:
            raise ParameterError(message("`--number` and `--measured`", "not come together", "both", "Give one."))
        from richter.params import Param, check_names

        known = {name: Param("", required=name != "error") for name in ("x", "strength", "error")}
        given: dict[str, Any] = read(measured, "x")
        check_names("emergence", known, given)
        calibration = calibrate_emergence(
            over, given["x"], given["strength"], error=given.get("error"), frequency=frequency, strength=strength,
            **shared,
        )  # fmt: skip
    ds = solve(
        over, calibration=number if calibration is None else calibration, n_skills=skills, alpha=alpha,
        strength=strength, **shared,
    )  # fmt: skip
    if as_json:
        from richter.cli.scaling import plain

        typer.echo(json.dumps(plain("emergence", ds)))
    if plot is not None:
        from richter.draw import save
        from richter.figure import emergence_figure

        print(f"wrote {save(emergence_figure(ds), plot)}", file=sys.stderr)
    if not as_json and plot is None:
        low, high = ds.attrs["interval"]
        band = f" ({low:.4g} to {high:.4g})" if high > low else ""
        fit = f"; misfit {ds.attrs['misfit'] / target:.2g} S, root mean square" if calibration else ""
        typer.echo(f"{ds.attrs['calibrated']} = {ds.attrs['value']:.4g}{band}{fit}")
        for k, half, first, last in zip(
            ds.skill.values, ds.half.values, ds.half_low.values, ds.half_high.values, strict=True
        ):
            band = f"  ({first:.4g} to {last:.4g})" if last > first else ""
            stage = ""
            if over == "time":
                here = ds.sel(skill=k)
                stage = f"; emerges at {float(here.emerges):.4g} and takes {float(here.saturates):.4g}"
                stage += {1.0: ", done before the next one", 0.0: ", overlapping the next one"}.get(
                    float(here.staged), ""
                )
            typer.echo(f"  skill {k} is half learned at {ds[over].attrs['symbol']} = {half:.5g}{band}{stage}")
