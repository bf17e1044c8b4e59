"""`richter advise`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def advise(
    model: Annotated[
        str, typer.Option("--model", "-m", help="module:factory, a function without arguments that builds the network.")
    ],
    data: Annotated[Path, typer.Option("--data", "-d", help=".npz with x (inputs) and y (targets or class numbers).")],
    goal: Annotated[
        str,
        typer.Option(
            "--goal", "-g", help="richer, lazier, faster-features, less-grokking-delay or transfer-across-width."
        ),
    ] = "richer",
    pilot: Annotated[
        float | None, typer.Option("--pilot", help="Seconds for trying the candidates on copies of the network.")
    ] = None,
    steps: Annotated[int | None, typer.Option("--steps", help="Of every run of the pilot; default: as fits.")] = None,
    loss: Annotated[str | None, typer.Option("--loss", help="mse, half-sum, square or cross-entropy.")] = None,
    optimiser: Annotated[str, typer.Option("--optimiser", help="sgd, adam or adamw.")] = "sgd",
    rate: Annotated[float | None, typer.Option("--rate", help="Your learning rate; default: a stable one.")] = None,
    batch: Annotated[int | None, typer.Option("--batch", help="Examples per step of the pilot.")] = None,
    wide: Annotated[
        str | None,
        typer.Option("--wide", help="module:function of (width, seed), for the pilot of transfer-across-width."),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", help="Of the order of the examples in the pilot.")] = 0,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="Write the code of the first option (.py).")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the advice as JSON.")] = False,
) -> None:
    """Say what to change to make a network richer, lazier, faster at features, and what that will do.

    Examples:

      richter advise --model nets:build --data data.npz --goal richer

      richter advise --model nets:build --data data.npz --goal lazier --pilot 20 --out moved.py
    """
    from richter.advice.advise import advise as call
    from richter.cli.measure import factory

    made = call(
        factory(model), str(data), goal, loss=loss, optimiser=optimiser, rate=rate, batch=batch, pilot=pilot,
        steps=steps, wide=None if wide is None else factory(wide), seed=seed,
    )  # fmt: skip
    if out is not None:
        from richter.training.checkpoints import write

        write(out, made.snippet.encode())
        typer.echo(f"wrote {out}", err=True)
    typer.echo(made.to_json() if as_json else str(made))
