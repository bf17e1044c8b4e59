"""A figure as JSON and back, and the comparison of two figures with a tolerance."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from typing import Any

import numpy as np

from richter.errors import ParameterError, message, show
from richter.figure.data import Figure, Floats, Mark, Panel
from richter.figure.scale import ColourScale

SCHEMA = 1
_SPECIAL = {None: math.nan, "inf": math.inf, "-inf": -math.inf}


def to_plain(figure: Figure) -> dict[str, Any]:
    """The figure as plain data for JSON; undefined is null, infinite is "inf".

    >>> m = Mark("line", np.array([0.0, 1.0]), np.array([1.0, np.nan]))
    >>> to_plain(Figure((Panel((m,), x="t", y="φ"),)))["panels"][0]["marks"][0]["y"]
    [1.0, None]
    """
    return {
        "schema": SCHEMA,
        "title": figure.title,
        "caption": figure.caption,
        "panels": [
            {
                "title": panel.title,
                "x": panel.x,
                "y": panel.y,
                "x_log": panel.x_log,
                "y_log": panel.y_log,
                "x_range": None if panel.x_range is None else list(panel.x_range),
                "y_range": None if panel.y_range is None else list(panel.y_range),
                "legend": panel.legend,
                "colours": None if panel.colours is None else _scale(panel.colours),
                **_unusual(panel, "equal", "frame"),
                "marks": [_mark(m) for m in panel.marks],
            }
            for panel in figure.panels
        ],
    }


def from_plain(plain: Mapping[str, Any]) -> Figure:
    """The figure from its plain form; checked as a new one is."""
    if plain.get("schema") != SCHEMA:
        raise ParameterError(message("the schema of a figure", f"be {SCHEMA}", plain.get("schema", "none")))
    try:
        panels = tuple(_panel(entry) for entry in plain["panels"])
        return Figure(panels, plain["title"], plain["caption"])
    except (KeyError, TypeError) as problem:
        raise ParameterError(
            message("the plain form of a figure", "be as to_plain() writes it", f"{problem}")
        ) from None


def differences(first: Figure, second: Figure, rtol: float = 1e-9) -> list[str]:
    """Where two figures differ, one line each; empty if they are the same.

    Numbers of one list may differ by `rtol` times its largest entry: so a stored figure can be compared with
    a new one on any machine.
    """
    found: list[str] = []
    _compare("figure", to_plain(first), to_plain(second), rtol, found)
    return found


def _scale(scale: ColourScale) -> dict[str, Any]:
    return {**asdict(scale), "categories": list(scale.categories)}


def _mark(m: Mark) -> dict[str, Any]:
    return {
        "kind": m.kind,
        "role": m.role,
        "label": m.label,
        "group": m.group,
        "colour": m.colour,
        "x": _numbers(m.x),
        "y": _numbers(m.y),
        "high": None if m.high is None else _numbers(m.high),
        **({} if m.values is None else {"values": [_numbers(row) for row in m.values]}),
        **({"words": list(m.words)} if m.words else {}),
        **_unusual(m, "order", "edge", "shade"),
    }


def _unusual(part: Panel | Mark, *names: str) -> dict[str, Any]:
    """Only what differs from the default is written: most marks have nothing of it."""
    usual = {f.name: f.default for f in fields(part)}
    return {name: getattr(part, name) for name in names if getattr(part, name) != usual[name]}


def _numbers(row: Floats) -> list[float | str | None]:
    return [x if math.isfinite(x) else (None if math.isnan(x) else "inf" if x > 0 else "-inf") for x in row.tolist()]


def _row(values: Iterable[Any]) -> Floats:
    return np.array([_SPECIAL[x] if x is None or isinstance(x, str) else x for x in values], dtype=np.float64)


def _panel(entry: Mapping[str, Any]) -> Panel:
    rest = {k: v for k, v in entry.items() if k not in ("marks", "colours")}
    colours = entry["colours"]
    scale = None if colours is None else ColourScale(**{**colours, "categories": tuple(colours["categories"])})
    marks = []
    for m in entry["marks"]:
        high = None if m["high"] is None else _row(m["high"])
        fill: dict[str, Any] = {"words": tuple(m.get("words", ()))}
        if "values" in m:
            fill["values"] = np.array([_row(row) for row in m["values"]])
        marks.append(Mark(**{**m, **fill, "x": _row(m["x"]), "y": _row(m["y"]), "high": high}))
    return Panel(marks=tuple(marks), colours=scale, **rest)


def _compare(where: str, first: Any, second: Any, rtol: float, found: list[str]) -> None:
    if isinstance(first, dict) and isinstance(second, dict):
        for key in dict.fromkeys([*first, *second]):
            _compare(f"{where}.{key}", first.get(key), second.get(key), rtol, found)
    elif isinstance(first, list) and isinstance(second, list):
        if len(first) != len(second):
            found.append(f"{where}: {len(first)} entries, {len(second)} entries")
        elif all(_is_number(x) for x in [*first, *second]):
            _compare_numbers(where, first, second, rtol, found)
        else:
            for i, (x, y) in enumerate(zip(first, second, strict=True)):
                _compare(f"{where}[{i}]", x, y, rtol, found)
    elif _is_number(first) and _is_number(second) and first is not None and second is not None:
        _compare_numbers(where, [first], [second], rtol, found)
    elif first != second:
        found.append(f"{where}: {show(first)}, {show(second)}")


def _is_number(x: Any) -> bool:
    return x is None or x in ("inf", "-inf") or (isinstance(x, (int, float)) and not isinstance(x, bool))


def _compare_numbers(where: str, first: list[Any], second: list[Any], rtol: float, found: list[str]) -> None:
    a, b = _row(first), _row(second)
    finite = np.isfinite(a)
    same_gaps = np.array_equal(finite, np.isfinite(b)) and np.array_equal(a[~finite], b[~finite], equal_nan=True)
    if not same_gaps:
        found.append(f"{where}: undefined or infinite at different places")
    elif finite.any():
        size = max(np.abs(a[finite]).max(), np.abs(b[finite]).max())
        worst = np.abs(a[finite] - b[finite]).max()
        if worst > rtol * size:
            found.append(f"{where}: numbers differ by {worst:g}, allowed {rtol * size:g}")
