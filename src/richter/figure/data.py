"""The parts of a figure: marks with a role, in panels with named axes."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, TypeVar, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message, show
from richter.figure.scale import Colour, ColourScale, derive_scale

Floats = NDArray[np.float64]
Kind = Literal["line", "points", "band", "vline", "hline", "text"]
Role = Literal["exact", "simulated", "measured", "target", "guide"]
Range = tuple[float, float]
T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Mark:
    """One thing drawn: a line, points, a band from `y` to `high`, lines across the panel, or a text.

    The role says what it is, and by that how it looks: theory ("exact") is dashed and on top, a simulation is
    solid, a measurement points. `colour` is a number or a category of the panel's scale; without one the role
    decides. `label` is its entry in the legend, or the text itself; `group` ties marks that belong together.
    """

    kind: Kind
    x: Floats = field(default_factory=lambda: np.empty(0))
    y: Floats = field(default_factory=lambda: np.empty(0))
    high: Floats | None = None
    role: Role = "simulated"
    label: str = ""
    colour: Colour = None
    group: str = ""

    def __post_init__(self) -> None:
        """Check and store the numbers."""
        for name, value, known in (("kind", self.kind, Kind), ("role", self.role, Role)):
            if value not in get_args(known):
                raise ParameterError(message(f"`{name}` of a mark", f"be one of {', '.join(get_args(known))}", value))
        for name in ("x", "y", "high"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _row(f"`{name}` of a {self.kind}", value))
        for name in ("label", "group"):
            if not isinstance(getattr(self, name), str):
                raise ParameterError(message(f"`{name}` of a mark", "be a text", getattr(self, name)))
        if self.colour is not None and not isinstance(self.colour, str):
            if not math.isfinite(self.colour):
                raise ParameterError(message("`colour` of a mark", "be a finite number or a word", self.colour))
            object.__setattr__(self, "colour", float(self.colour))
        self._check_shape()

    def _check_shape(self) -> None:
        needs = {"vline": (True, False), "hline": (False, True)}.get(self.kind, (True, True))
        for name, needed, value in zip("xy", needs, (self.x, self.y), strict=True):
            if not needed and value.size:
                raise ParameterError(message(f"`{name}` of a {self.kind}", "be left out", f"{value.size} numbers"))
            if needed and not value.size:
                raise ParameterError(message(f"`{name}` of a {self.kind}", "hold at least one number", "none"))
        if all(needs) and self.x.size != self.y.size:
            got = f"{self.x.size} and {self.y.size}"
            raise ParameterError(message(f"`x` and `y` of a {self.kind}", "have the same length", got))
        if (self.high is not None) != (self.kind == "band"):
            got = "none" if self.high is None else f"a {self.kind} with `high`"
            raise ParameterError(message("`high`, the upper edge,", "be given for a band and only there", got))
        if self.high is not None and self.high.size != self.y.size:
            got = f"{self.y.size} and {self.high.size}"
            raise ParameterError(message("`y` and `high` of a band", "have the same length", got))
        if self.kind == "text" and not self.label:
            raise ParameterError(message("`label` of a text", "be its words", show(self.label)))


@dataclass(frozen=True, eq=False)
class Panel:
    """Marks on one pair of axes; `x` and `y` are the axes' names, with symbol, words and unit."""

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

    def __post_init__(self) -> None:
        """Check the marks against the axes and derive the colour scale."""
        object.__setattr__(self, "marks", _all("the marks of a panel", self.marks, Mark))
        for name, words in (("x", self.x), ("y", self.y)):
            if not isinstance(words, str) or not words.strip():
                raise ParameterError(message(f"`{name}` of a panel", "be the name of the axis", show(words)))
        for name in ("x_log", "y_log", "legend"):
            object.__setattr__(self, name, bool(getattr(self, name)))
        for name in ("x_range", "y_range"):
            object.__setattr__(self, name, _range(name, getattr(self, name), getattr(self, f"{name[0]}_log")))
        if self.colours is None:
            object.__setattr__(self, "colours", derive_scale(m.colour for m in self.marks))
        scale = self.colours
        for m in self.marks:
            if m.colour is None or scale is None:
                continue
            if isinstance(m.colour, str) != (scale.kind == "category") or (
                isinstance(m.colour, str) and m.colour not in scale.categories
            ):
                known = ", ".join(scale.categories) or f"a number, the scale is {scale.kind}"
                raise ParameterError(message("`colour` of a mark", f"be on the panel's scale: {known}", m.colour))


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
) -> Mark:
    """A mark from anything like an array.

    >>> mark("hline", y=1.0, role="target", label="β*").y.tolist()
    [1.0]
    """
    top = None if high is None else _row(f"`high` of a {kind}", high)
    across, up = _row(f"`x` of a {kind}", x), _row(f"`y` of a {kind}", y)
    return Mark(kind, across, up, top, role, label, colour, group)


def _row(what: str, value: ArrayLike) -> Floats:
    try:
        array = np.array(value, dtype=np.float64, ndmin=1)
    except (TypeError, ValueError):
        raise ParameterError(message(what, "be a number or a list of numbers", value)) from None
    if array.ndim != 1:
        raise ParameterError(message(what, "be a list of numbers", f"shape {array.shape}"))
    array.flags.writeable = False
    return array


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
