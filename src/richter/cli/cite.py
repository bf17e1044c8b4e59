"""`richter cite`."""

from __future__ import annotations

import json
from typing import Annotated

import typer


def cite(
    names: Annotated[list[str], typer.Argument(help="Theories or papers (KUN24, XU24, NAM24).")],
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of bibtex.")] = False,
) -> None:
    """Print bibtex for theories or papers, with the places used.

    Example:  richter cite single-neuron
    """
    from richter import catalog
    from richter.refs import PAPERS, Paper

    places: dict[Paper, list[str]] = {}
    for name in names:
        if name.upper() in PAPERS:
            places.setdefault(PAPERS[name.upper()], [])
            continue
        for place in catalog.theory(name).places:
            places.setdefault(place.paper, []).append(place.where)
    if as_json:
        rows = [{"key": p.key, "title": p.title, "places": w, "bibtex": p.bibtex(tuple(w))} for p, w in places.items()]
        typer.echo(json.dumps({"papers": rows, "schema": 1}, ensure_ascii=False))
        return
    typer.echo("\n\n".join(paper.bibtex(tuple(dict.fromkeys(where))) for paper, where in places.items()))
