"""Predictions: every number says which theory it comes from and whether that theory's assumptions hold here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Number:
    """A predicted number: its value, what it is, the theory behind it, and whether that theory holds here."""

    name: str
    value: float | str
    says: str
    theory: str
    holds: bool | None  # None: it is a reading, with nothing to assume
    assumes: str = ""

    def plain(self) -> dict[str, object]:
        """As plain data."""
        value = self.value
        if isinstance(value, float) and not np.isfinite(value):
            value = None if np.isnan(value) else ("inf" if value > 0 else "-inf")  # type: ignore[assignment]
        return {
            "name": self.name, "value": value, "says": self.says, "theory": self.theory, "holds": self.holds,
            "assumes": self.assumes,
        }  # fmt: skip

    def __str__(self) -> str:
        shown = self.value if isinstance(self.value, str) else f"{self.value:.4g}"
        holds = {True: "holds", False: f"does not hold: {self.assumes}", None: "read off"}[self.holds]
        return f"{self.name} = {shown}: {self.says} [{self.theory}; {holds}]"


@dataclass(frozen=True)
class Prediction:
    """What theory says about a start, before any training."""

    numbers: tuple[Number, ...]
    notes: tuple[str, ...] = field(default_factory=tuple)

    def __getitem__(self, name: str) -> Number:
        for number in self.numbers:
            if number.name == name:
                return number
        raise KeyError(name)

    def __contains__(self, name: str) -> bool:
        return any(number.name == name for number in self.numbers)

    def value(self, name: str) -> float:
        """A number by its name; NaN if it was not predicted."""
        found = self[name].value if name in self else float("nan")
        return float(found) if not isinstance(found, str) else float("nan")

    def plain(self) -> dict[str, object]:
        """As plain data, for JSON."""
        return {"numbers": [n.plain() for n in self.numbers], "notes": list(self.notes)}

    def __str__(self) -> str:
        return "\n".join([*map(str, self.numbers), *self.notes])


def as_rates(rates: Mapping[str, float] | None) -> Any:
    """Layer rates for the probes, which take 1 for all of them."""
    return 1.0 if not rates else dict(rates)
