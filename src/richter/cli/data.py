"""`richter data`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from richter.errors import ParameterError, message

if TYPE_CHECKING:
    from richter.tasks.fetch import Progress


def data(
    action: Annotated[str, typer.Argument(help="list, or fetch.")] = "list",
    names: Annotated[
        list[str] | None, typer.Argument(help="Sets: mnist, fashion-mnist, cifar10; all when listing.")
    ] = None,
    folder: Annotated[
        Path | None, typer.Option("--data-dir", help="Folder of the sets; default: $RICHTER_DATA, else a cache folder.")
    ] = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare every file with its published checksum.")] = False,
    address: Annotated[str | None, typer.Option("--from", help="A mirror that holds the same archives.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """List the data sets, check their files, or fetch a missing one.

    Examples:

      richter data --verify

      richter data fetch mnist
    """
    from richter.tasks.sets import SETS, data_folder, image_set

    if action not in ("list", "fetch"):
        raise ParameterError(message("the action of `richter data`", "be list or fetch", action))
    chosen = [image_set(name) for name in names or ([] if action == "fetch" else SETS)]
    root = data_folder(folder)
    if action == "fetch":
        from richter.tasks.fetch import fetch

        if not chosen:
            must = f"name sets ({', '.join(SETS)})"
            raise ParameterError(message("`richter data fetch`", must, "none", "Type: richter data fetch mnist"))
        for each in chosen:
            with download_bar(sys.stderr.isatty()) as tell:
                place = fetch(each, root, address=address, progress=tell)
            if not as_json:
                typer.echo(f"{each.title}: whole in {place}")
        if not as_json:
            return
    rows = [_row(each, root, verify or action == "fetch") for each in chosen]
    if as_json:
        typer.echo(json.dumps({"folder": str(root), "sets": rows, "schema": 1}, ensure_ascii=False))
    else:
        _show(rows, root, bool(names))
    if any(row["damaged"] for row in rows):
        raise typer.Exit(1)


def _row(each: Any, root: Path, verify: bool) -> dict[str, Any]:
    return {
        "name": each.name,
        "title": each.title,
        "folder": str(root / each.folder),
        "state": each.state(root),
        "missing": each.missing(root),
        "damaged": each.damaged(root) if verify else None,
    }


def _show(rows: list[dict[str, Any]], root: Path, named: bool) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    table = Table(title="Data sets", title_justify="left")
    for column in ("name", "state", "checksums", "where"):
        table.add_column(column, overflow="fold")
    if not named:
        table.add_row("digits", "present", "", "in the package")
    for row in rows:
        damaged = row["damaged"]
        whole = row["state"] == "present"
        sums = "not checked" if damaged is None else f"damaged: {', '.join(damaged)}" if damaged else "right"
        table.add_row(row["name"], row["state"], sums if whole or damaged else "", row["folder"])
    console.print(table)
    if any(row["state"] != "present" or row["damaged"] for row in rows):
        console.print(f"Get one: richter data fetch NAME, or --data-dir, or RICHTER_DATA (now {root}).", soft_wrap=True)


@contextmanager
def download_bar(show: bool) -> Iterator[Progress | None]:
    """A bar with the time left for each download on standard error; nothing unless it is to be shown."""
    if not show:
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Bars

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Bars(*columns, console=Console(stderr=True)) as bars:
        rows: dict[str, Any] = {}

        def tell(name: str, done: int, total: int) -> None:
            if name not in rows:
                rows[name] = bars.add_task(name)
            bars.update(rows[name], completed=done, total=total or None)

        yield tell
