"""`richter move`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from richter.moves import AbstractMove


def move(
    file: Annotated[str, typer.Argument(help="Weights: .safetensors, or .pt/.pth/.bin/.ckpt read without pickle.")],
    out: Annotated[
        str | None, typer.Option("--out", "-o", help="The new file; beside it OUT.json, the record.")
    ] = None,
    overall: Annotated[float | None, typer.Option("--overall", help="All weight layers × τ.")] = None,
    scale: Annotated[
        list[str] | None, typer.Option("--scale", help="layer=factor; repeat it. The factors have to cancel.")
    ] = None,
    upstream: Annotated[float | None, typer.Option("--upstream", help="First layer ÷ α, last × α.")] = None,
    first: Annotated[str | None, typer.Option("--first", help="The first layer, for --upstream or --balance.")] = None,
    last: Annotated[str | None, typer.Option("--last", help="The last layer, for --upstream or --balance.")] = None,
    embeddings: Annotated[float | None, typer.Option("--embeddings", help="Embeddings ÷ α; another function.")] = None,
    balance: Annotated[
        float | None, typer.Option("--balance", help="δ for every hidden neuron, or those between --first and --last.")
    ] = None,
    approximate: Annotated[
        bool, typer.Option("--approximate", help="Go on where the function is not kept exactly.")
    ] = False,
    model: Annotated[
        str | None, typer.Option("--model", help="module:function that makes the network; default: matrices in a row.")
    ] = None,
    activation: Annotated[str, typer.Option("--activation", help="Between matrices in a row.")] = "relu",
    probe: Annotated[str | None, typer.Option("--probe", help="Inputs: .npy or tensors; default: random ones.")] = None,
    check: Annotated[
        bool, typer.Option("--check", help="Show the function's change; exit with 1 if it is not kept.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the record as JSON.")] = False,
) -> None:
    """Change the regime of saved weights: layer scales, overall scale, balance.

    Examples:

      richter move net.safetensors --upstream 4 --out upstream.safetensors --check

      richter move net.pt --balance 0 --model my_networks:make --out balanced.pt

      richter move net.safetensors --balance 2 --first layer1 --last layer2
    """
    from richter.moves.files import move_file

    target = out or str(Path(file).with_stem(f"{Path(file).stem}-moved"))
    moves = _moves(overall, scale or [], upstream, (first, last), embeddings, balance, approximate)
    record = move_file(file, target, moves, model=model, activation=activation, probe=probe)
    if as_json:
        typer.echo(json.dumps(record, ensure_ascii=False))
    else:
        for item in record["moves"]:
            typer.echo(f"{item['move']}: keeps {item['preserves']}")
            for note in item["notes"]:
                typer.echo(f"  {note}")
        typer.echo(f"network: {record['model']}")
        typer.echo(f"wrote {target} and {target}.json")
    if check:
        if not as_json:
            kept = "kept" if record["exact"] else "changed"
            typer.echo(f"check: the function is {kept}; largest change {record['change']:.3g} of the largest output")
            typer.echo(f"  on {record['probe']}")
        if not record["exact"]:
            raise typer.Exit(1)


def _moves(
    overall: float | None,
    scales: list[str],
    alpha: float | None,
    ends: tuple[str | None, str | None],
    embeddings: float | None,
    delta: float | None,
    approximate: bool,
) -> list[AbstractMove]:
    """The moves in the order in which they are applied."""
    from richter.errors import ParameterError, message
    from richter.moves import NeuronBalance, OverallScale, ScaleLayers, SmallEmbeddings, Upstream

    made: list[AbstractMove] = []
    if overall is not None:
        made.append(OverallScale(tau=overall))
    factors: dict[str | int, float] = {}
    for pair in scales:
        layer, equals, value = pair.rpartition("=")
        try:
            factors[layer] = float(value)
        except ValueError:
            equals = ""
        if not (equals and layer):
            raise ParameterError(message("`--scale`", "be layer=factor", pair, "Use --scale layer1=0.5."))
    if factors:
        made.append(ScaleLayers(factors=factors, approximate=approximate))
    if alpha is not None:
        first, last = ends
        made.append(Upstream(alpha=alpha, first=first or 0, last=last or -1, approximate=approximate))
    elif any(ends) and delta is None:
        given = ", ".join(filter(None, ends))
        raise ParameterError(message("`--first` and `--last`", "come with --upstream or --balance", given))
    if embeddings is not None:
        made.append(SmallEmbeddings(alpha=embeddings))
    if delta is not None:
        first, last = ends
        if alpha is None and (first is None) != (last is None):
            do = "Use --balance 0 --first layer1 --last layer2."
            raise ParameterError(
                message("the layers of --balance", "be two neighbours, or not named", first or last, do)
            )
        between = None if alpha is not None or first is None or last is None else ((first, last),)
        made.append(NeuronBalance(delta=delta, pairs=between))
    return made
