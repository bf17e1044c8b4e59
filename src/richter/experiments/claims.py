"""Published statements and what a run says about them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

import numpy as np

from richter.refs import Place

Finding = Literal["holds", "fails", "undecided"]
F = TypeVar("F", bound=Callable[..., "Verdict"])


@dataclass(frozen=True)
class Verdict:
    """What was found: the numbers behind it, their uncertainty, and the scale at which it was checked."""

    finding: Finding
    measured: str
    expected: str
    scale: str
    uncertainty: str = ""

    @classmethod
    def of(cls, holds: bool | np.bool_, measured: str, expected: str, scale: str, uncertainty: str = "") -> Verdict:
        """Holds or fails.

        >>> Verdict.of(1 < 2, "1", "below 2", "one number").finding
        'holds'
        """
        return cls("holds" if holds else "fails", measured, expected, scale, uncertainty)

    @classmethod
    def undecided(cls, why: str, expected: str, scale: str) -> Verdict:
        """This run cannot decide the claim, and why."""
        return cls("undecided", why, expected, scale)

    def plain(self) -> dict[str, str]:
        """The verdict as plain data."""
        return {
            "finding": self.finding, "measured": self.measured, "expected": self.expected, "scale": self.scale,
            "uncertainty": self.uncertainty,
        }  # fmt: skip


@dataclass(frozen=True)
class Claim:
    """A statement in the paper's words, where it stands, and the method that decides it."""

    name: str
    says: str
    places: tuple[Place, ...]
    decide: Callable[[Any, Any], Verdict]


def claim(says: str, *places: Place) -> Callable[[F], F]:
    """Mark a method `(self, ds) -> Verdict` of an experiment as the judge of a published statement."""
    if not places or not all(isinstance(place, Place) for place in places):
        raise TypeError('claim() takes what is claimed and its places, such as KUN24["Fig. 3"]')

    def mark(method: F) -> F:
        method.__richter_claim__ = (says, places)  # type: ignore[attr-defined]
        return method

    return mark


def claims_of(experiment: Any) -> tuple[Claim, ...]:
    """The claims of an experiment, in the order in which they are written."""
    found = []
    for owner in reversed(type(experiment).__mro__ if not isinstance(experiment, type) else experiment.__mro__):
        for name, method in vars(owner).items():
            mark = getattr(method, "__richter_claim__", None)
            if mark is not None:
                found.append(Claim(name, mark[0], mark[1], method))
    return tuple(found)
