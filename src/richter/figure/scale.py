"""Which colour a value has, as a position between 0 and 1 or as one of a few categories."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from richter.errors import ParameterError, message

Colour = float | str | None
ScaleKind = Literal["sequential", "diverging", "category"]
Spacing = Literal["linear", "log", "symlog"]
MANY = 8  # categories that can be told apart; more values than this get a colour bar instead of a legend
_DECADES = 64.0  # a symlog scale is linear below (largest value)/64


@dataclass(frozen=True)
class ColourScale:
    """From values to colours: numbers on a sequential or diverging scale, or up to eight categories.

    >>> ColourScale(label="δ", kind="diverging", low=-2, high=2).position(0.0)
    0.5
    """

    label: str = ""
    kind: ScaleKind = "category"
    low: float = 0.0
    high: float = 1.0
    spacing: Spacing = "linear"
    categories: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Refuse what cannot be drawn."""
        for what, value, known in (("kind", self.kind, ScaleKind), ("spacing", self.spacing, Spacing)):
            if value not in get_args(known):
                raise ParameterError(
                    message(f"the {what} of a colour scale", f"be one of {', '.join(get_args(known))}", value)
                )
        object.__setattr__(self, "categories", tuple(self.categories))
        object.__setattr__(self, "low", float(self.low))
        object.__setattr__(self, "high", float(self.high))
        if len(self.categories) > MANY:
            raise ParameterError(
                message(
                    "the categories of a colour scale", f"be at most {MANY}", f"{len(self.categories)}",
                    "Colour by a number instead, or draw fewer marks.",
                )
            )  # fmt: skip
        if self.kind != "category" and not (
            math.isfinite(self.low) and math.isfinite(self.high) and self.low <= self.high
        ):
            raise ParameterError(
                message("the ends of a colour scale", "be finite, low ≤ high", f"{self.low:g}, {self.high:g}")
            )
        if self.spacing == "log" and self.low <= 0 and self.kind != "category":
            raise ParameterError(message("the low end of a log colour scale", "be > 0", self.low))

    def position(self, value: float) -> float:
        """Where a number lies on the scale, 0 to 1; the middle of a diverging scale is 0, of a logarithmic one 1."""
        return float(self.positions(value))

    def positions(self, values: ArrayLike) -> NDArray[np.float64]:
        """Where numbers lie on the scale; undefined ones stay so, those beyond its ends lie at the ends.

        >>> ColourScale(kind="diverging", low=0.01, high=10, spacing="log").positions([0.01, 1.0, 100.0]).tolist()
        [0.0, 0.5, 1.0]
        """
        given = np.asarray(values, dtype=np.float64)
        if self.kind == "diverging":
            half = self.reach()
            if self.spacing == "log":
                share = np.log(np.maximum(given, self.low)) / half
            elif self.spacing == "symlog":
                share = np.copysign(np.log1p(np.abs(given) / half * _DECADES) / math.log1p(_DECADES), given)
            else:
                share = given / half
            return 0.5 + np.clip(share, -1.0, 1.0) / 2
        if self.low == self.high:
            return np.where(np.isnan(given), np.nan, 0.5)
        if self.spacing == "log":
            share = np.log(np.maximum(given, self.low) / self.low) / math.log(self.high / self.low)
        else:
            share = (given - self.low) / (self.high - self.low)
        return np.clip(share, 0.0, 1.0)

    def reach(self) -> float:
        """From the middle of a diverging scale to its ends; on a logarithmic one in powers of e."""
        ends = (math.log(self.low), math.log(self.high)) if self.spacing == "log" else (self.low, self.high)
        return max(abs(end) for end in ends) or 1.0


def extremes(values: NDArray[np.float64]) -> tuple[float, ...]:
    """The smallest and the largest of many numbers; none if nothing is finite."""
    finite = values[np.isfinite(values)]
    return (float(finite.min()), float(finite.max())) if finite.size else ()


def derive_scale(colours: Iterable[Colour], label: str = "") -> ColourScale | None:
    """The scale that suits the colours of some marks; None if they have none.

    Numbers of both signs get a diverging scale around 0, positive ones over more than 1.5 decades a
    logarithmic one; words are categories.

    >>> derive_scale([-1.0, 2.0]).kind, derive_scale([1.0, 100.0]).spacing, derive_scale(["a", "b"]).categories
    ('diverging', 'log', ('a', 'b'))
    """
    given = list(dict.fromkeys(colour for colour in colours if colour is not None))
    if not given:
        return None
    words = [colour for colour in given if isinstance(colour, str)]
    if len(words) == len(given):
        return ColourScale(label=label, kind="category", categories=tuple(words))
    if words:
        raise ParameterError(
            message("the colours of a panel", "be all numbers or all words", f"{given[0]!r} and others of {given!r}")
        )
    numbers = [float(colour) for colour in given]
    low, high = min(numbers), max(numbers)
    if low < 0 < high:
        sizes = [abs(x) for x in numbers if x]
        spacing: Spacing = "symlog" if max(sizes) >= 8 * min(sizes) else "linear"
        return ColourScale(label, "diverging", low, high, spacing)
    return ColourScale(label, "sequential", low, high, "log" if low > 0 and high >= 30 * low else "linear")
