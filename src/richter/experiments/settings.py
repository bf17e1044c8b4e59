"""One declaration per setting of an experiment: default, meaning, bounds; read from text and checked in one place."""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from richter.errors import ParameterError, UnknownNameError, message, nearest, show


@dataclass(frozen=True)
class Setting:
    """What is known about a setting: its kind is that of its default."""

    default: Any
    says: str
    symbol: str = ""
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()

    @property
    def condition(self) -> str:
        """The bounds as a formula, for messages and tables."""
        if self.choices:
            return f"one of {', '.join(self.choices)}"
        ends = [f"≥ {self.low:g}" if self.low is not None else "", f"≤ {self.high:g}" if self.high is not None else ""]
        return " and ".join(end for end in ends if end)

    def checked(self, what: str, value: Any) -> Any:
        """`value` as this setting's kind, within its bounds, or one clear line."""
        if isinstance(self.default, tuple):
            if not isinstance(value, (list, tuple)) or not value:
                raise ParameterError(message(what, "be a list with at least one entry", show(value)))
            return tuple(self._one(what, self.default[0], item) for item in value)
        return self._one(what, self.default, value)

    def _one(self, what: str, like: Any, value: Any) -> Any:
        if isinstance(like, bool):
            if not isinstance(value, bool):
                raise ParameterError(message(what, "be true or false", show(value)))
            return value
        if isinstance(like, str):
            if not isinstance(value, str) or (self.choices and value not in self.choices):
                must = f"be {self.condition}" if self.choices else "be a word"
                raise ParameterError(message(what, must, show(value)))
            return value
        if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
            raise ParameterError(message(what, "be a finite number", show(value)))
        if isinstance(like, int) and value != int(value):
            raise ParameterError(message(what, "be a whole number", show(value)))
        if (self.low is not None and value < self.low) or (self.high is not None and value > self.high):
            raise ParameterError(message(what, f"be {self.condition}", show(value)))
        return int(value) if isinstance(like, int) else float(value)


def setting(
    default: Any,
    says: str,
    *,
    symbol: str = "",
    low: float | None = None,
    high: float | None = None,
    choices: tuple[str, ...] = (),
) -> Any:
    """Declare a setting of an experiment: a number, a word, a truth value, or a tuple of numbers or words."""
    metadata = {"setting": Setting(default, says, symbol, low, high, choices)}
    return dataclasses.field(default=default, metadata=metadata)


def declared(owner: Any) -> dict[str, Setting]:
    """The declared settings of a class or instance, in order."""
    return {f.name: f.metadata["setting"] for f in dataclasses.fields(owner) if "setting" in f.metadata}


def check_names(owner: str, known: Mapping[str, Setting], given: Mapping[str, object]) -> None:
    """Every given name is declared."""
    for name in given:
        if name not in known:
            raise UnknownNameError(f"{owner} has no setting `{name}`. {nearest(name, list(known))}")


def parse(owner: str, known: Mapping[str, Setting], texts: Mapping[str, str]) -> dict[str, Any]:
    """Settings from command-line texts; what is no JSON is a word.

    >>> parse("T", {"seeds": Setting(4, "number of seeds")}, {"seeds": "8"})
    {'seeds': 8}
    """
    check_names(owner, known, texts)
    made: dict[str, Any] = {}
    for name, text in texts.items():
        try:
            value = json.loads(text)
        except json.JSONDecodeError:
            value = text
        made[name] = known[name].checked(f"`{name}` of {owner}", value)
    return made
