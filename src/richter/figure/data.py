"""The parts of a figure: marks with a role, in panels with named axes."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message, show
from richter.figure.scale import Colour, ColourScale, derive_scale, extremes

Floats = NDArray[np.float64]
Kind = Literal["line", "points", "band", "vline", "hline", "text", "area", "cells"]
Role = Literal["exact", "simulated", "measured", "target", "guide"]
Range = tuple[float, float]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Mark:
    """One thing drawn: a line, points, a band from `y` to `high`, lines across the panel, a text, an area or cells.

    The role says what it is, and by that how it looks: theory ("exact") is dashed and on top, a simulation is
    solid, a measurement points; areas and cells lie below every line. `colour` is a number or a category of the
    panel's scale; without one the role decides. `label` is its entry in the legend, or the text itself; `group`
    ties marks that belong together.

    An area is a closed polygon, with a thin `edge` if wanted and a `shade` from 0 (dark) to 1 (light). Cells are
    a grid with centres `x` (n) and `y` (m) and `values` (m, n): numbers on the scale, or places in the list
    `words`; undefined ones stay empty. Of marks in one layer, the one with the smaller `order` is drawn first.
    """

    kind: Kind
    x: Floats = field(default_factory=lambda: np.empty(0))
    y: Floats = field(default_factory=lambda: np.empty(0))
    high: Floats | None = None
    role: Role = "simulated"
    label: str = ""
    colour: Colour = None
    group: str = ""
    values: Floats | None = None
    words: tuple[str, ...] = ()
    order: float = 0.0
    edge: bool = False
    shade: float | None = None

    def __post_init__(self) -> None:
        """Check and store the numbers."""
        for name, value, known in (("kind", self.kind, Kind), ("role", self.role, Role)):
            if value not in get_args(known):
                raise ParameterError(message(f"`{name}` of a mark", f"be one of {', '.join(get_args(known))}", value))
        for name in ("x", "y", "high"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _row(f"`{name}` of {_a(self.kind)}", value))
        for name in ("label", "group"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(message(f"`{name}` of a mark", "be a text", getattr(self, name)))
        if self.colour is not None and not isinstance(self.colour, str):
            if not math.isfinite(self.colour):
                raise ParameterError(message("`colour` of a mark", "be a finite number or a word", self.colour))
            object.__setattr__(self, "colour", float(self.colour))
        object.__setattr__(self, "edge", bool(self.edge))
        object.__setattr__(self, "order", _inside("order", self.order, -math.inf, math.inf, "be a finite number"))
        if self.shade is not None:
            object.__setattr__(self, "shade", _inside("shade", self.shade, 0, 1, "be from 0 (dark) to 1 (light)"))
        self._check_shape()
        self._check_fill()

    def shows(self) -> tuple[Colour, ...]:
        """What of the mark must be on the colour scale."""
        if self.kind == "cells" and self.values is not None:
            return self.words or extremes(self.values)
        return () if self.colour is None else (self.colour,)

    def _check_shape(self) -> None:
        needs = {"vline": (True, False), "hline": (False, True)}.get(self.kind, (True, True))
        for name, needed, value in zip("xy", needs, (self.x, self.y), strict=True):
            if not needed and value.size:
                raise ParameterError(message(f"`{name}` of {_a(self.kind)}", "be left out", f"{value.size} numbers"))
            if needed and not value.size:
                raise ParameterError(message(f"`{name}` of {_a(self.kind)}", "hold at least one number", "none"))
        if all(needs) and self.kind != "cells" and self.x.size != self.y.size:
            got = f"{self.x.size} and {self.y.size}"
            raise ParameterError(message(f"`x` and `y` of {_a(self.kind)}", "have the same length", got))
        if (self.high is not None) != (self.kind == "band"):
            got = "none" if self.high is None else f"{_a(self.kind)} with `high`"
            raise ParameterError(message("`high`, the upper edge,", "be given for a band and only there", got))
        if self.high is not None and self.high.size != self.y.size:
            got = f"{self.y.size} and {self.high.size}"
            raise ParameterError(message("`y` and `high` of a band", "have the same length", got))
        if self.kind == "text" and not self.label:
            raise ParameterError(message("`label` of a text", "be its words", show(self.label)))

    def _check_fill(self) -> None:
        if self.kind == "area" and self.x.size < 3:
            raise ParameterError(message("an area", "have at least three corners", f"{self.x.size}"))
        for name, given, kind in (
            ("values", self.values is not None, "cells"),
            ("words", bool(self.words), "cells"),
            ("edge", self.edge, "area"),
            ("shade", self.shade is not None, "area"),
        ):
            if given and self.kind != kind:
                what = "cells" if kind == "cells" else "an area"
                raise ParameterError(message(f"`{name}` of a mark", f"be given for {what} only", f"{_a(self.kind)}"))
        if self.kind != "cells":
            return
        if self.colour is not None:
            raise ParameterError(message("`colour` of cells", "be left out", self.colour, "Their values say it."))
        for name, row in (("x", self.x), ("y", self.y)):
            if not np.isfinite(row).all() or (np.diff(row) <= 0).any():
                raise ParameterError(message(f"`{name}` of cells", "be finite and increasing", row))
        shape = (self.y.size, self.x.size)
        values = np.array(np.nan if self.values is None else self.values, dtype=np.float64)
        if values.shape != shape:
            got = "none" if self.values is None else f"shape {values.shape}"
            must = f"have shape {shape}: one row per entry of `y`, one column per entry of `x`"
            raise ParameterError(message("`values` of cells", must, got))
        if isinstance(self.words, str) or not all(isinstance(word, str) and word for word in self.words):
            raise ParameterError(message("`words` of cells", "be a list of words", self.words))
        object.__setattr__(self, "words", tuple(self.words))
        if len(set(self.words)) < len(self.words):
            raise ParameterError(message("`words` of cells", "be all different", list(self.words)))
        known = values[~np.isnan(values)]
        if self.words and not (np.isin(known, np.arange(len(self.words)))).all():
            wrong = known[~np.isin(known, np.arange(len(self.words)))][0]
            must = f"be places in `words`, 0 to {len(self.words) - 1}, or NaN"
            raise ParameterError(message("`values` of cells", must, float(wrong)))
        values.flags.writeable = False
        object.__setattr__(self, "values", values)


@dataclass(frozen=True, eq=False)
class Panel:
    """Marks on one pair of axes; `x` and `y` are the axes' names, with symbol, words and unit.

    `equal` gives both axes the same unit of length; without `frame` no axes are drawn.
    """

    marks: tuple[Mark, ...]
    x: str
    y: str
    title: str = ""
    x_log: bool = False
    y_log: bool = False
    x_range: Range | None = None
    y_range: Range | None = None
    legend: bool = True
    colours: ColourScale | None = None
    equal: bool = False
    frame: bool = True

    def __post_init__(self) -> None:
        """Check the marks against the axes and derive the colour scale."""
        object.__setattr__(self, "marks", _all("the marks of a panel", self.marks, Mark))
        for name, words in (("x", self.x), ("y", self.y)):
            if not isinstance(words, str) or not words.strip():
                raise ParameterError(message(f"`{name}` of a panel", "be the name of the axis", show(words)))
        for name in ("x_log", "y_log", "legend", "equal", "frame"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        for name in ("x_range", "y_range"):
            object.__setattr__(self, name, _range(name, getattr(self, name), getattr(self, f"{name[0]}_log")))
        if self.equal and self.x_log != self.y_log:
            got = f"x {'logarithmic' if self.x_log else 'linear'}, y {'logarithmic' if self.y_log else 'linear'}"
            raise ParameterError(message("the axes of an `equal` panel", "be both linear or both logarithmic", got))
        for m in self.marks:
            for name, row, log in (("x", m.x, self.x_log), ("y", m.y, self.y_log)):
                if m.kind == "cells" and log and row[0] <= 0:
                    raise ParameterError(message(f"`{name}` of cells", "be > 0 on a log axis", float(row[0])))
        if self.colours is None:
            object.__setattr__(self, "colours", scale_of(self.marks))
        self._check_colours()

    def _check_colours(self) -> None:
        scale = self.colours
        if scale is None:
            return
        for m in self.marks:
            for colour in m.shows():
                if isinstance(colour, str) != (scale.kind == "category") or (
                    isinstance(colour, str) and colour not in scale.categories
                ):
                    known = ", ".join(scale.categories) or f"a number, the scale is {scale.kind}"
                    raise ParameterError(message("`colour` of a mark", f"be on the panel's scale: {known}", colour))


@dataclass(frozen=True, eq=False)
class Figure:
    """Panels with a title and a caption.

    >>> curve = mark("line", [0.0, 1.0], [1.0, 0.5], role="exact")
    >>> Figure((Panel((curve,), x="t: time", y="L: loss"),), title="A loss").panels[0].marks[0].y.tolist()
    [1.0, 0.5]
    """

    panels: tuple[Panel, ...]
    title: str = ""
    caption: str = ""

    def __post_init__(self) -> None:
        """Check the panels."""
        object.__setattr__(self, "panels", _all("the panels of a figure", self.panels, Panel))


def mark(
    kind: Kind,
    x: ArrayLike = (),
    y: ArrayLike = (),
    *,
    high: ArrayLike | None = None,
    role: Role = "simulated",
    label: str = "",
    colour: Colour = None,
    group: str = "",
    values: ArrayLike | None = None,
    words: Iterable[str] = (),
    order: float = 0.0,
    edge: bool = False,
    shade: float | None = None,
) -> Mark:
    """A mark from anything like an array.

    >>> mark("hline", y=1.0, role="target", label="β*").y.tolist()
    [1.0]
    >>> mark("cells", [1, 2], [0], values=[[0, 1]], words=["lazy", "rich"]).shows()
    ('lazy', 'rich')
    """
    top = None if high is None else _row(f"`high` of {_a(kind)}", high)
    across, up = _row(f"`x` of {_a(kind)}", x), _row(f"`y` of {_a(kind)}", y)
    grid = None if values is None else _row("`values` of cells", values, dimensions=2)
    said = words if isinstance(words, str) else tuple(words)
    return Mark(kind, across, up, top, role, label, colour, group, grid, said, order, edge, shade)  # type: ignore[arg-type]


def scale_of(marks: Iterable[Mark], label: str = "") -> ColourScale | None:
    """The colour scale that suits some marks; without a `label` it is named after cells of numbers.

    Around 0 it is linear where areas or cells fill the plane: near their zero line there is always a tiny number.
    """
    given = tuple(marks)
    name = next((m.label for m in given if m.kind == "cells" and not m.words and m.label), "")
    scale = derive_scale((colour for m in given for colour in m.shows()), label or name)
    filled = any(m.kind in ("area", "cells") for m in given)
    return replace(scale, spacing="linear") if filled and scale and scale.spacing == "symlog" else scale


def _a(kind: str) -> str:
    return kind if kind == "cells" else f"an {kind}" if kind == "area" else f"a {kind}"


def _row(what: str, value: ArrayLike, dimensions: int = 1) -> Floats:
    kind = "a number or a list of numbers" if dimensions == 1 else "a table of numbers"
    try:
        array = np.array(value, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise ParameterError(message(what, f"be {kind}", value)) from None
    if array.ndim != dimensions:
        raise ParameterError(message(what, f"be {kind.removeprefix('a number or ')}", f"shape {array.shape}"))
    array.flags.writeable = False
    return array


def _inside(name: str, value: float, low: float, high: float, must: str) -> float:
    if not math.isfinite(value) or not low <= value <= high:
        raise ParameterError(message(f"`{name}` of a mark", must, value))
    return float(value)


def _all(what: str, value: object, kind: type[T]) -> tuple[T, ...]:
    items = tuple(value) if isinstance(value, (tuple, list)) else (value,)
    for item in items:
        if not isinstance(item, kind):
            raise ParameterError(message(what, f"be a list of {kind.__name__}", item))
    if not items:
        raise ParameterError(message(what, f"hold at least one {kind.__name__}", "none"))
    return items


def _range(name: str, value: Range | None, log: bool) -> Range | None:
    if value is None:
        return None
    low, high = (float(end) for end in value)
    if not (math.isfinite(low) and math.isfinite(high) and low < high and (low > 0 or not log)):
        must = "be two finite numbers, the lower one first" + (" and > 0 on a log axis" if log else "")
        raise ParameterError(message(f"`{name}` of a panel", must, f"({low:g}, {high:g})"))
    return low, high
