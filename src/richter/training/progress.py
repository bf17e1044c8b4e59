"""A progress bar with the time left; silent when standard error is not a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def bar(title: str, steps: int, start: int = 0, show: bool | None = None) -> Iterator[Callable[[int], None]]:
    """A function that takes the step reached; `show` None means: if standard error is a terminal."""
    if not (sys.stderr.isatty() if show is None else show):
        yield lambda step: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as shown:
        row = shown.add_task(title, total=steps, completed=start)
        last = 0.0

        def tell(step: int) -> None:
            nonlocal last
            now = time.monotonic()
            if step >= steps or now - last > 0.1:  # drawing must not cost what it shows
                last = now
                shown.update(row, completed=step)

        yield tell
