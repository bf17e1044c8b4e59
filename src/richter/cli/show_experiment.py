"""`richter show` for an experiment."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from richter.experiments import AbstractExperiment


def show_experiment(kind: type[AbstractExperiment], as_json: bool) -> None:
    """Statement, places, claims, settings and presets."""
    from richter.experiments.settings import declared

    known = declared(kind)
    if as_json:
        plain = {
            "name": kind.name, "title": kind.title, "statement": kind.statement,
            "places": [str(place) for place in kind.places],
            "claims": [{"name": c.name, "says": c.says, "places": [str(p) for p in c.places]} for c in kind.claims()],
            "settings": {
                key: {"default": s.default, "says": s.says, "symbol": s.symbol, "condition": s.condition}
                for key, s in known.items()
            },
            "presets": {key: dict(value) for key, value in kind.presets.items()},
            "schema": 1,
        }  # fmt: skip
        typer.echo(json.dumps(plain, ensure_ascii=False))
        return
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console(highlight=False)
    console.print(f"[bold]{kind.title}[/]  ({kind.name})")
    console.print(escape(kind.statement))
    console.print(f"[bold]Where[/]  {', '.join(str(place) for place in kind.places)}")
    for item in kind.claims():
        console.print(f"[bold]Claim[/]  {escape(item.says)}  [dim]{', '.join(str(p) for p in item.places)}[/]")
    table = Table("setting", "symbol", "default", *kind.presets, "meaning", box=box.SIMPLE_HEAD)
    for key, s in known.items():
        changed = [str(preset.get(key, "")) for preset in kind.presets.values()]
        meaning = escape(s.says + (f" ({s.condition})" if s.condition else ""))
        table.add_row(key, escape(s.symbol), str(s.default), *changed, meaning)
    console.print(table)
    console.print(f"Draw it:  richter figure {kind.name}\nJudge it: richter check {kind.name}")
