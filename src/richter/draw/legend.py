"""What the legend says: the same entries for both renderers."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from richter.figure.data import Figure, Kind, Mark, Panel, Role
from richter.figure.scale import MANY, Colour, ColourScale

ROLE_WORDS: dict[Role, str] = {
    "exact": "exact solution",
    "simulated": "simulated",
    "measured": "measured",
    "target": "target",
    "guide": "guide",
}


@dataclass(frozen=True)
class Entry:
    """One line of a legend."""

    text: str
    kind: Kind
    role: Role
    colour: Colour = None
    plain: bool = False  # stands for a role alone: drawn in a neutral colour
    depth: int = 1  # of a band: how many bands of this colour lie on each other there


def drawable(m: Mark, panel: Panel) -> NDArray[np.bool_]:
    """Which points of a mark can be drawn: finite, and positive on a log axis."""
    shown = np.ones(max(m.x.size, m.y.size), bool)
    for row, log in ((m.x, panel.x_log), (m.y, panel.y_log), (m.high, panel.y_log)):
        if row is not None and row.size:
            shown &= np.isfinite(row) & ((row > 0) | (not log))
    return shown


def defined(panel: Panel) -> bool:
    """Whether anything can be drawn; if not, the renderers say so."""
    return any(drawable(m, panel).any() for m in panel.marks)


def has_bar(panel: Panel) -> bool:
    """More numbers than a legend can list get a colour bar."""
    return panel.colours is not None and len(_numbers(panel.marks)) > MANY


def entries(panel: Panel) -> tuple[Entry, ...]:
    """The legend of a panel: colours, then what has no colour, then roles that would stay unnamed."""
    if not panel.legend:
        return ()
    made: dict[tuple[object, ...], Entry] = {}
    bar = has_bar(panel)
    coloured = sorted((m for m in panel.marks if m.colour is not None), key=_by_number)
    for m in coloured:
        if m.label and not (bar and not isinstance(m.colour, str)) and (m.kind != "band" or not _lines(coloured, m)):
            made.setdefault((m.colour,), Entry(m.label, m.kind, m.role, m.colour))
    for m in panel.marks:
        if m.colour is None and m.label and m.kind != "text":
            below = sum(e.kind == "band" and m.kind == "band" and e.role == m.role for e in made.values())
            made.setdefault((m.label, m.role, m.kind), Entry(m.label, m.kind, m.role, depth=1 + below))
    roles = dict.fromkeys(m.role for m in panel.marks if m.kind != "text" and m.role not in ("guide", "target"))
    if len(roles) > 1:
        for role in roles:
            if not any(m.role == role and m.colour is None and m.label for m in panel.marks):
                kind = next(m.kind for m in panel.marks if m.role == role)
                made[("role", role)] = Entry(ROLE_WORDS[role], kind, role, plain=True)
    return tuple(made.values())


def shared(figure: Figure) -> tuple[Entry, ...] | None:
    """One legend for all panels, if their colours mean the same; None if each needs its own."""
    lists = [(panel.colours, entries(panel)) for panel in figure.panels]
    filled = [(scale, rows) for scale, rows in lists if rows]
    if len({scale for scale, rows in filled if any(row.colour is not None for row in rows)}) > 1:
        return None
    coloured = {tuple(row for row in rows if row.colour is not None) for _, rows in filled} - {()}
    if len(coloured) > 1:
        return None
    rows = list(dict.fromkeys(row for _, rows in filled for row in rows))
    unnamed = {row.role: row for row in reversed(rows) if row.plain}  # one sample of each role will do
    return tuple(row for row in rows if not row.plain or row is unnamed[row.role])


def shared_bar(figure: Figure) -> ColourScale | None:
    """The one colour bar of the figure, if every panel that needs one has the same."""
    scales = {panel.colours for panel in figure.panels if has_bar(panel)}
    return scales.pop() if len(scales) == 1 else None


def ticks(scale: ColourScale, marks: Iterable[Mark]) -> list[float]:
    """Up to seven of the values on a scale, spread over it: what a colour bar names."""
    values = sorted(_numbers(marks))
    spread: list[float] = []
    for value in values:
        if not spread or scale.position(value) - scale.position(spread[-1]) >= 1 / 7:
            spread.append(value)
    return spread


def broken(text: str, characters: int) -> list[str]:
    """Lines of at most `characters`, broken after a comma or colon if that makes two that fit.

    >>> broken("S: distance of the kernel from its start, 1 − cosine", 42)
    ['S: distance of the kernel from its start,', '1 − cosine']
    """
    if len(text) <= characters:
        return [text] if text else []
    joined = re.sub(r" ([−+=·×/<>≤≥]) ", "\u00a0\\1\u00a0", text)
    fitting = [m.end() for m in re.finditer(r"[,:;] ", joined) if max(m.end() - 1, len(text) - m.end()) <= characters]
    if fitting:
        place = min(fitting, key=lambda end: abs(2 * end - len(text)))
        lines = [joined[:place], joined[place:]]
    else:
        lines = textwrap.wrap(joined, characters)
    return [line.replace("\u00a0", " ").strip() for line in lines]


def _numbers(marks: Iterable[Mark]) -> set[float]:
    return {m.colour for m in marks if isinstance(m.colour, float)}


def _by_number(m: Mark) -> float:
    return m.colour if isinstance(m.colour, float) else 0.0


def _lines(marks: Iterable[Mark], band: Mark) -> bool:
    return any(m.kind != "band" and m.colour == band.colour for m in marks)
