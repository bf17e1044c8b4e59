"""Code to paste: the network, the moves, the optimiser with its rates."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from richter.advice.levers import code_of

if TYPE_CHECKING:
    from richter.advice.trial import Trial

NAMES = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW"}


@dataclass(frozen=True)
class Source:
    """How a reader of the snippet gets the network and its data; empty lines if they have them as `model`, `x`, `y`."""

    imports: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    builds: bool = False  # the network, which is then in training mode unless its function says otherwise


def source_of(model: Any, data: Any) -> Source:
    """What can be written down: a function that builds the network, a file that holds the data."""
    imports: list[str] = []
    lines: list[str] = []
    where = _place(model)
    if where is not None:
        module, name = where
        imports += [] if module == "__main__" else [f"from {module} import {name.partition('.')[0]}"]
        lines += [f"model = {name}().eval()"]
    if isinstance(data, str):
        imports += ["from richter.measurement.points import as_batch"]
        lines += [f"x, y = as_batch(model, {data!r}, None)"]
    missing = [name for name, known in (("model", where), ("x, y", isinstance(data, str))) if not known]
    if missing:
        lines.insert(0, f"# {' and '.join(missing)}: as you gave them to advise")
    return Source(tuple(imports), tuple(lines), where is not None)


def snippet(trial: Trial, source: Source, optimiser: str, rate: float) -> str:
    """The code for one candidate."""
    moves = trial.candidate.moves
    classes = sorted({type(move).__name__ for move in moves} | ({"groups"} if trial.rates else set()), key=str.lower)
    lines = ["import torch", *source.imports, f"from richter.moves import {', '.join(classes)}", "", *source.lines]
    for move in moves:
        lines += [f"record = {code_of(move)}.apply(model, x)", "model = record.model"]
    if trial.targets != 1:
        lines += [f"y = {trial.targets:g} * y  # and divide what the network gives by {trial.targets:g}"]
    lr = f"{round_to(rate * trial.rate, 3):g}"
    grouped = f'groups(model, "{optimiser}", {lr}, record.rates)' if trial.rates else "model.parameters()"
    comment = "" if math.isclose(trial.rate, 1.0, rel_tol=1e-3) else f"  # {rate:g} × {trial.rate:.3g}"
    lines += [f"optimiser = torch.optim.{NAMES[optimiser]}({grouped}, lr={lr}){comment}"]
    lines += ["model.train()"] if source.builds else []
    return "\n".join(_sorted_imports(lines)) + "\n"


def round_to(value: float, digits: int) -> float:
    """To so many significant digits.

    >>> round_to(0.0123456, 2)
    0.012
    """
    return float(f"{value:.{digits}g}")


def _place(model: Any) -> tuple[str, str] | None:
    """(module, name) of a function or class that can be imported, or called as it is named in a session."""
    from torch import nn

    if isinstance(model, nn.Module) or not isinstance(model, (Callable, type)):  # type: ignore[arg-type]
        return None
    module, name = getattr(model, "__module__", None), getattr(model, "__qualname__", "")
    return (module, name) if module and name and "<" not in name else None


def _sorted_imports(lines: list[str]) -> list[str]:
    """`import …` first, then `from …` by name."""
    cut = lines.index("")
    return [*sorted(lines[:cut], key=lambda line: (line.startswith("from"), line)), *lines[cut:]]
