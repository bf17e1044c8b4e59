"""What `richter run`, `check` and `figure` share: an experiment at a preset or from a saved run, and its verdicts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import xarray as xr

    from richter.experiments import AbstractExperiment, Claim, Verdict

COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def obtain(
    name: str, preset: str, pairs: list[str] | None, saved: Path | None
) -> tuple[AbstractExperiment, xr.Dataset]:
    """The experiment and its Dataset: read from `saved`, else run, with progress on a terminal."""
    from richter import catalog
    from richter.errors import ParameterError, message
    from richter.experiments.settings import declared, parse

    kind = catalog.experiment(name)
    if saved is not None:
        from richter.schema import load

        if pairs:
            raise ParameterError(message("`--set`", "be left out with --from", pairs[0], "A saved run has its own."))
        ds = load(saved)
        return kind.restore(ds), ds
    texts = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(message("`--set`", "be name=value", pair, f"See richter show {name}."))
        texts[key.strip().replace("-", "_")] = value
    experiment = kind.preset(preset, **parse(name, declared(kind), texts))
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns = (TextColumn("{task.description:40}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(experiment.title[:40], total=1.0)
        return experiment, experiment.execute(lambda what, share: bar.update(task, description=what, completed=share))


def verdict_rows(checked: list[tuple[Claim, Verdict]]) -> list[dict[str, Any]]:
    """The verdicts as plain rows."""
    return [{"claim": c.name, "says": c.says, "places": [str(p) for p in c.places], **v.plain()} for c, v in checked]


def print_verdicts(experiment: AbstractExperiment, checked: list[tuple[Claim, Verdict]]) -> None:
    """Each claim in the paper's words with what was measured, expected, and at what scale."""
    from rich.console import Console
    from rich.markup import escape

    console = Console(highlight=False)
    console.print(f"[bold]{escape(experiment.title)}[/]  ({experiment.name})")
    if not checked:
        console.print("No claims.")
    for item, verdict in checked:
        colour = COLOURS[verdict.finding]
        where = ", ".join(str(place) for place in item.places)
        console.print(f"\n[{colour} bold]{verdict.finding:9}[/] {escape(item.says)}  [dim]{escape(where)}[/]")
        spread = f" ({verdict.uncertainty})" if verdict.uncertainty else ""
        console.print(f"          measured  {escape(verdict.measured + spread)}")
        console.print(f"          expected  {escape(verdict.expected)}")
        console.print(f"          scale     {escape(verdict.scale)}")
