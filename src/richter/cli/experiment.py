"""What the verbs of experiments share: an experiment at a preset or from a saved run, progress, and its verdicts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import xarray as xr

    from richter.experiments import AbstractExperiment, Claim, Verdict

COLOURS = {"holds": "green", "fails": "red", "undecided": "yellow"}


def obtain(
    name: str, preset: str, pairs: list[str] | None, saved: Path | None, store: Path | None = None
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
    experiment = kind.preset(preset, **parse(name, declared(kind), settings_of(name, pairs)))
    if store is not None and not kind.resumable():
        raise ParameterError(message("`--store`", f"be left out with {name}, which keeps no finished parts", store))
    with progress_bar(experiment.title[:40]) as tell:
        return experiment, experiment.execute(tell, store)


@contextmanager
def progress_bar(title: str, width: int = 40, remaining: bool = True) -> Iterator[Callable[[str, float], None]]:
    """A function that is told what is done and the share of it; a bar on standard error if that is a terminal.

    `remaining` adds the bar's own estimate of the time left, for work that does not measure it.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    console = Console(stderr=True)
    columns: list[ProgressColumn] = [TextColumn(f"{{task.description:{width}}}"), BarColumn(), TimeElapsedColumn()]
    if remaining:
        columns.append(TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=1.0)
        yield lambda what, share: bar.update(task, description=what, completed=share)


def settings_of(name: str, pairs: list[str] | None) -> dict[str, str]:
    """The texts of `--set name=value`."""
    from richter.errors import ParameterError, message

    texts = {}
    for pair in pairs or []:
        key, equals, value = pair.partition("=")
        if not equals:
            raise ParameterError(message("`--set`", "be name=value", pair, f"See richter show {name}."))
        texts[key.strip().replace("-", "_")] = value
    return texts


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
        if verdict.finding == "fails" and item.name in experiment.known_failures:
            console.print(f"          known     {escape(experiment.known_failures[item.name])}")
