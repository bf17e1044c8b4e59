"""How a role and a colour look: one table for both renderers, light and dark."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from richter.figure.data import Mark, Role
from richter.figure.scale import Colour, ColourScale

# Okabe and Ito's colour-blind-safe set without black and yellow, then grey and brown.
_CATEGORIES = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#8a5a2b")
_CATEGORIES_DARK = ("#4aa8e0", "#f0803c", "#2fc095", "#e09cc4", "#8fd0f5", "#f0b84a", "#a6a6a6", "#c08c58")


@dataclass(frozen=True)
class Theme:
    """Ink and paper, and the colours of marks on it."""

    ink: str
    muted: str
    grid: str
    paper: str
    categories: tuple[str, ...]
    sequential: tuple[str, ...]
    diverging: tuple[str, ...]  # odd number, the middle one is 0


LIGHT = Theme(
    ink="#111418",
    muted="#565d66",
    grid="#e3e6ea",
    paper="#ffffff",
    categories=_CATEGORIES,
    sequential=("#7a4fd0", "#b048b0", "#d8527f", "#ea7656", "#efa040"),
    diverging=("#0b4f9c", "#2f7fd0", "#6ea3d3", "#979797", "#dc9a62", "#d96f1c", "#9c3a05"),
)
DARK = Theme(
    ink="#f2f4f6",
    muted="#a9b1bb",
    grid="#30363d",
    paper="#14171b",
    categories=_CATEGORIES_DARK,
    sequential=("#8a5ff0", "#c455c0", "#e9608f", "#f58a5e", "#f5bd52"),
    diverging=("#3f8fea", "#5b9bdc", "#6f93b8", "#8a8a8a", "#b88d68", "#dd8440", "#f07a24"),
)


@dataclass(frozen=True)
class Stroke:
    """Width in points, dashes in points, and what lies on top of what."""

    width: float
    dash: tuple[float, ...]
    order: int
    opacity: float = 1.0


STROKES: dict[Role, Stroke] = {
    "guide": Stroke(1.0, (1.2, 2.4), 1),
    "target": Stroke(1.2, (8.0, 2.5, 1.5, 2.5), 2),
    "simulated": Stroke(2.8, (), 3),
    "measured": Stroke(2.0, (), 4),
    "exact": Stroke(1.4, (4.5, 2.5), 5),
}
BAND_OPACITY = 0.2
EDGE = 0.5  # width of an area's edge, in points
SEAM = 0.7  # an area without edge is drawn a little larger: else the paper shines through between neighbours
_STEPS = 96


def theme(dark: bool) -> Theme:
    """The theme of a light or dark page."""
    return DARK if dark else LIGHT


def colour_of(mark: Mark, scale: ColourScale | None, look: Theme) -> str:
    """The colour of a mark: its own on the panel's scale, else that of its role."""
    if mark.colour is None or scale is None:
        return role_colour(mark.role, look)
    return value_colour(mark.colour, scale, look)


def fill_colour(mark: Mark, scale: ColourScale | None, look: Theme) -> str:
    """The colour of an area: its own on the panel's scale or that of its role, lighter by its shade.

    Colours and shades come in steps, so that areas of one colour can be drawn together.
    """
    if isinstance(mark.colour, float) and scale is not None:
        plain = value_colour_at(round(scale.position(mark.colour) * _STEPS) / _STEPS, scale, look)
    else:
        plain = colour_of(mark, scale, look)
    return plain if mark.shade is None else shaded(plain, mark.shade, look)


def edge_colour(fill: str, look: Theme) -> str:
    """The edge of an area: its own colour, darker, so that even the thinnest areas can be seen."""
    return blend((fill, look.ink if _is_light(look) else look.paper), 0.35)


def shaded(colour: str, shade: float, look: Theme) -> str:
    """A colour in more (1) or less (0) light, on light and dark paper alike.

    >>> shaded("#000000", 1.0, LIGHT), shaded("#ffffff", 1.0, DARK)
    ('#d1d1d1', '#d9dadb')
    """
    light = _is_light(look)
    share = round((shade if light else 1 - shade) * 24) / 24
    return blend((colour, look.paper), (0.3 if light else 0.16) + 0.52 * share)


def role_colour(role: Role, look: Theme) -> str:
    """The colour of a role that has no colour of its own: theory is ink."""
    return {"exact": look.ink, "simulated": look.categories[0], "measured": look.categories[1]}.get(role, look.muted)


def entry_colour(role: Role, value: Colour, plain: bool, scale: ColourScale | None, look: Theme) -> str:
    """The colour of a legend's entry; a plain one stands for a role in any colour."""
    if plain:
        return look.muted
    return role_colour(role, look) if value is None or scale is None else value_colour(value, scale, look)


def value_colour(value: Colour, scale: ColourScale, look: Theme) -> str:
    """The colour of a number or a category on a scale.

    >>> value_colour("b", ColourScale(categories=("a", "b")), LIGHT)
    '#d55e00'
    >>> value_colour(0.0, ColourScale(kind="diverging", low=-1, high=1), LIGHT)
    '#979797'
    """
    if isinstance(value, str):
        return look.categories[scale.categories.index(value)]
    if value is None:
        return look.muted
    return value_colour_at(scale.position(value), scale, look)


def value_colour_at(place: float, scale: ColourScale, look: Theme) -> str:
    """The colour at a place from 0 to 1 on a scale of numbers."""
    return blend(look.diverging if scale.kind == "diverging" else look.sequential, place)


def palette(mark: Mark, scale: ColourScale, look: Theme) -> tuple[NDArray[np.float64], tuple[str, ...]]:
    """Cells as numbers from 0 to 1, NaN where they stay empty, and evenly spaced colours from 0 to 1."""
    if mark.values is None:
        return np.full((mark.y.size, mark.x.size), np.nan), (look.muted,) * 2
    if not mark.words:
        return scale.positions(mark.values), tuple(value_colour_at(i / 255, scale, look) for i in range(256))
    colours = tuple(value_colour(word, scale, look) for word in mark.words)
    return mark.values / max(len(colours) - 1, 1), colours if len(colours) > 1 else colours * 2


def edges(centres: NDArray[np.float64], log: bool) -> NDArray[np.float64]:
    """Where cells end: half way between their centres, on a log axis at the geometric mean.

    >>> edges(np.array([1.0, 10.0, 100.0]), log=True).round(3).tolist()
    [0.316, 3.162, 31.623, 316.228]
    """
    at = np.log(centres) if log else centres
    middles = (at[1:] + at[:-1]) / 2
    half = (at[1] - at[0]) / 2 if at.size > 1 else 0.5
    last = (at[-1] - at[-2]) / 2 if at.size > 1 else 0.5
    made = np.concatenate([[at[0] - half], middles, [at[-1] + last]])
    ends: NDArray[np.float64] = np.exp(made) if log else made
    return ends


def blend(anchors: tuple[str, ...], share: float) -> str:
    """The colour at `share` of the way along evenly spaced anchors.

    >>> blend(("#000000", "#ffffff"), 0.5)
    '#808080'
    """
    place = share * (len(anchors) - 1)
    first = min(int(place), len(anchors) - 2)
    part = place - first
    mixed = (
        round((1 - part) * int(anchors[first][i : i + 2], 16) + part * int(anchors[first + 1][i : i + 2], 16) + 1e-9)
        for i in (1, 3, 5)
    )
    return "#" + "".join(f"{channel:02x}" for channel in mixed)


def _is_light(look: Theme) -> bool:
    return int(look.paper[1:3], 16) > 127
