"""`richter measure`."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from richter.measurement.measured import Measured


def measure(
    runs: Annotated[
        list[Path] | None, typer.Argument(help="Recorded runs (.nc) of one network; several are seeds.")
    ] = None,
    model: Annotated[
        str | None, typer.Option("--model", "-m", help="module:factory, a function without arguments that builds it.")
    ] = None,
    checkpoints: Annotated[
        list[str] | None,
        typer.Option("--checkpoints", "-c", help="Files or a quoted pattern, tensors only. Repeat it for other seeds."),
    ] = None,
    probe: Annotated[
        Path | None, typer.Option("--probe", "-p", help=".npz with x (inputs) and y (targets or class numbers).")
    ] = None,
    rate: Annotated[
        float | None, typer.Option("--rate", help="Learning rate of plain gradient descent: makes steps a time.")
    ] = None,
    loss: Annotated[str | None, typer.Option("--loss", help="mse, half-sum, square or cross-entropy.")] = None,
    optimiser: Annotated[str, typer.Option("--optimiser", help="sgd, momentum, or another.")] = "sgd",
    momentum: Annotated[float, typer.Option("--momentum", help="Of the optimiser momentum.")] = 0.0,
    kernel: Annotated[str, typer.Option("--kernel", help="full, trace, or auto: full where it is small.")] = "auto",
    layer: Annotated[str | None, typer.Option("--layer", help="Whose output the features are.")] = None,
    points: Annotated[int, typer.Option("--points", help="Probe points used at most.")] = 128,
    draws: Annotated[int, typer.Option("--draws", help="Resamples of the probe points.")] = 200,
    seed: Annotated[int, typer.Option("--seed", help="Of the draws.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the report, one .html page.")] = None,
    save: Annotated[Path | None, typer.Option("--save", help="Write what was measured (.nc).")] = None,
    fail_if: Annotated[
        str | None, typer.Option("--fail-if", help="Labels, separated by commas, for which the exit code is 1.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the verdict as JSON.")] = False,
) -> None:
    """Name the regime of a network from its checkpoints or of recorded runs, with the numbers behind it.

    Examples:

      richter measure --model nets:build --checkpoints 'runs/*.safetensors' --probe probe.npz --out report.html

      richter measure run.nc --json --fail-if lazy
    """
    from richter.errors import ParameterError, message
    from richter.measurement.measured import measure as call
    from richter.regime import LABELS
    from richter.report.run import check_page

    unwanted = [word.strip() for word in (fail_if or "").split(",") if word.strip()]
    for word in unwanted:
        if word not in LABELS:
            raise ParameterError(message("`--fail-if`", f"name labels: {', '.join(LABELS)}", word))
    if out is not None:
        check_page(out)
    if bool(runs) == (model is not None):
        do = "Type: richter measure run.nc, or richter measure --model module:factory --checkpoints … --probe …"
        raise ParameterError(
            message("`richter measure`", "be given runs or a model", "both" if runs else "neither", do)
        )
    made: Any
    if model is None:
        if checkpoints or probe:
            got = "checkpoints" if checkpoints else "a probe"
            raise ParameterError(message("recorded runs", "come alone", got, "Give --model to measure checkpoints."))
        made = call([str(path) for path in runs or []])
    else:
        options: dict[str, Any] = {
            "rate": rate, "loss": loss, "optimiser": optimiser, "momentum": momentum, "kernel": kernel, "layer": layer,
            "points": points, "draws": draws, "seed": seed,
        }  # fmt: skip
        build = factory(model)
        given: list[Any] = list(checkpoints or [None])
        each = [call(build, one, None if probe is None else str(probe), **options) for one in given]
        made = each[0] if len(each) == 1 else call([m.dataset for m in each])
    _write(made, out, save)
    if as_json:
        typer.echo(json.dumps({**made.regime.plain(), "schema": 1}, ensure_ascii=False))
    else:
        typer.echo(str(made.regime))
    if made.regime.label in unwanted:
        raise typer.Exit(1)


def factory(words: str) -> Any:
    """The function that `module:name` names, the current folder's modules among them."""
    from richter.errors import ParameterError, message

    where, colon, name = words.partition(":")
    if not (where and colon and name):
        raise ParameterError(message("`--model`", "be module:factory", words, "For instance nets:build for nets.py."))
    sys.path.insert(0, str(Path.cwd()))
    try:
        module = importlib.import_module(where)
    except ImportError as problem:
        what = f"the module {where} of --model"
        raise ParameterError(message(what, "be importable from here", str(problem))) from None
    finally:
        sys.path.remove(str(Path.cwd()))
    found: Any = module
    for part in name.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        must = "be a function that builds the model"
        raise ParameterError(message(f"`{name}` in {where}", must, "no such name" if found is None else found))
    return found


def _write(made: Measured, out: Path | None, save: Path | None) -> None:
    if save is not None:
        from richter.schema import save as store

        print(f"wrote {store(made.dataset, save)}", file=sys.stderr)
    if out is not None:
        from richter.report.run import run_report

        print(f"wrote {run_report(made, out)}", file=sys.stderr)
