"""What the legend says: the same entries for both renderers."""

from __future__ import annotations

import math
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
    shade: float | None = None  # of an area
    empty: bool = False  # cells where nothing is defined


def drawable(m: Mark, panel: Panel) -> NDArray[np.bool_]:
    """Which points of a mark can be drawn: finite, and positive on a log axis; of an area all or none."""
    if m.kind == "cells" and m.values is not None:
        return ~np.isnan(m.values)
    shown = np.ones(max(m.x.size, m.y.size), bool)
    for row, log in ((m.x, panel.x_log), (m.y, panel.y_log), (m.high, panel.y_log)):
        if row is not None and row.size:
            shown &= np.isfinite(row) & ((row > 0) | (not log))
    return shown & shown.all() if m.kind == "area" else shown


def defined(panel: Panel) -> bool:
    """Whether anything can be drawn; if not, the renderers say so."""
    return any(drawable(m, panel).any() for m in panel.marks)


def has_bar(panel: Panel) -> bool:
    """More numbers than a legend can list get a colour bar, and areas or cells coloured by a number."""
    if panel.colours is None or panel.colours.kind == "category":
        return False
    return _continuous(panel.marks) or len(_numbers(panel.marks)) > MANY


def entries(panel: Panel) -> tuple[Entry, ...]:
    """The legend of a panel: colours, then what has no colour, then roles that would stay unnamed."""
    if not panel.legend:
        return ()
    made: dict[tuple[object, ...], Entry] = {}
    bar = has_bar(panel)
    coloured = sorted((m for m in panel.marks if m.colour is not None), key=_by_number)
    for m in coloured:
        if m.kind == "area" and isinstance(m.colour, str):  # its label names one area, not all of this colour
            made.setdefault((m.colour,), Entry(m.colour, m.kind, m.role, m.colour))
        elif m.label and not (bar and not isinstance(m.colour, str)) and (m.kind != "band" or not _lines(coloured, m)):
            made.setdefault((m.colour,), Entry(m.label, m.kind, m.role, m.colour))
    for m in panel.marks:
        for word in m.words:
            made.setdefault((word,), Entry(word, m.kind, m.role, word))
    for m in panel.marks:
        if m.kind == "cells":
            if not drawable(m, panel).all():
                made[("empty",)] = Entry("not defined", m.kind, "guide", empty=True)
        elif m.kind == "area":
            if m.colour is None and m.label:
                shade = None if m.shade is None else 0.5
                made.setdefault((m.label, m.role, m.kind), Entry(m.label, m.kind, m.role, shade=shade))
        elif m.colour is None and m.label and m.kind != "text":
            below = sum(e.kind == "band" and m.kind == "band" and e.role == m.role for e in made.values())
            made.setdefault((m.label, m.role, m.kind), Entry(m.label, m.kind, m.role, depth=1 + below))
    strokes = [m for m in panel.marks if m.kind not in ("text", "area", "cells")]
    roles = dict.fromkeys(m.role for m in strokes if m.role not in ("guide", "target"))
    if len(roles) > 1:
        for role in roles:
            if not any(m.role == role and m.colour is None and m.label for m in strokes):
                kind = next(m.kind for m in strokes if m.role == role)
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
    """Up to seven numbers spread over a scale, which a colour bar names: the lines' own, else round ones."""
    given = tuple(marks)
    values = round_numbers(scale) if _continuous(given) else sorted(_numbers(given))
    spread: list[float] = []
    for value in values:
        if not spread or scale.position(value) - scale.position(spread[-1]) >= 1 / 7:
            spread.append(value)
    return spread


def round_numbers(scale: ColourScale) -> list[float]:
    """Round numbers from one end of a scale to the other.

    >>> round_numbers(ColourScale(kind="sequential", low=0.0, high=1.0))
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    >>> round_numbers(ColourScale(kind="sequential", low=0.02, high=300.0, spacing="log"))
    [0.1, 1.0, 10.0, 100.0]
    """
    low, high = scale.low, scale.high
    if scale.kind == "diverging":
        low, high = -scale.reach(), scale.reach()
        if scale.spacing == "log":
            low, high = math.exp(low), math.exp(high)
    if low == high:
        return [low]
    if scale.spacing == "symlog":
        top = math.floor(math.log10(high) + 1e-9)
        sizes = sorted(x for k in (0, 1, 2) for f in (1, 2, 5) if (x := float(f"{f}e{top - k}")) <= high)
        found = [0.0]
        for size in reversed(sizes):  # from the ends to the middle
            apart = [scale.position(size) - scale.position(x) for x in (0.0, *found[-1:])]
            if min(abs(gap) for gap in apart) >= 1 / 7:
                found.append(size)
        return sorted({*found, *(-x if x else x for x in found)})
    if scale.spacing == "log":
        decades = math.log10(high / low)
        factors = (1, 2, 5) if decades < 2 else (1,)
        stride = max(1, math.ceil(decades / 7))
        exponents = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
        powers = [k for k in exponents if k % stride == 0]
        found = [float(f"{f}e{k}") for k in powers for f in factors]
        kept = [x for x in found if low * (1 - 1e-9) <= x <= high * (1 + 1e-9)]
        return kept if len(kept) > 1 else [low, high]
    step = min(f * 10.0**k for k in _near(high - low) for f in (1, 2, 5) if (high - low) / (f * 10.0**k) <= 6.9)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [float(f"{k * step:.12g}") for k in range(first, last + 1)]


def _near(size: float) -> range:
    exponent = math.floor(math.log10(size))
    return range(exponent - 2, exponent + 1)


def broken(text: str, characters: int) -> list[str]:
    """Lines of at most `characters`, broken after a comma or colon if that makes two that fit.

    >>> broken("S: distance of the kernel from its start, 1 − cosine", 42)
    ['S: distance of the kernel from its start,', '1 − cosine']
    """
    if len(text) <= characters:
        return [text] if text else []
    joined = re.sub(r" ([−+=·×/<>≤≥]) ", "\u00a0\\1\u00a0", text)
    places = [m.end() for m in re.finditer(r"[,:;] ", joined) if 5 * m.end() >= len(text)]  # no symbol on its own
    fitting = [end for end in places if max(end - 1, len(text) - end) <= characters]
    if fitting:
        place = min(fitting, key=lambda end: abs(2 * end - len(text)))
        lines = [joined[:place], joined[place:]]
    else:
        lines = textwrap.wrap(joined, characters)
    return [line.replace("\u00a0", " ").strip() for line in lines]


def _continuous(marks: Iterable[Mark]) -> bool:
    """Whether areas or cells are coloured by a number."""
    return any((m.kind == "cells" and not m.words) or (m.kind == "area" and _has_number(m)) for m in marks)


def _has_number(m: Mark) -> bool:
    return isinstance(m.colour, float)


def _numbers(marks: Iterable[Mark]) -> set[float]:
    return {m.colour for m in marks if isinstance(m.colour, float)}


def _by_number(m: Mark) -> float:
    return m.colour if isinstance(m.colour, float) else 0.0


def _lines(marks: Iterable[Mark], band: Mark) -> bool:
    return any(m.kind != "band" and m.colour == band.colour for m in marks)
