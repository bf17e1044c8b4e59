"""Everything there is, found when asked for: theories, experiments and published formulas, own and of plug-ins.

A plug-in announces a theory by an entry point in the group `richter.theories`, an experiment in `richter.experiments`.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib.metadata import entry_points
from types import ModuleType
from typing import Any, TypeVar

from richter.errors import UnknownNameError, nearest
from richter.experiments.base import AbstractExperiment
from richter.refs import Implementation, Place, Role
from richter.theory.base import AbstractTheory

THEORIES, EXPERIMENTS = "richter.theories", "richter.experiments"
T = TypeVar("T")


@dataclass(frozen=True)
class Formula:
    """A published formula and the function that is it."""

    place: Place
    function: Callable[..., object]
    role: Role

    @property
    def where(self) -> str:
        """The function's full name."""
        return f"{self.function.__module__}.{self.function.__qualname__}"


def theories() -> dict[str, type[AbstractTheory]]:
    """The theories by name.

    >>> sorted(theories())[0]
    'aligned-network'
    """
    return _with_plugins(_own("richter.theory", AbstractTheory), THEORIES, AbstractTheory, "a theory")


def experiments() -> dict[str, type[AbstractExperiment]]:
    """The experiments by name.

    >>> all(name.startswith(("kun24-", "xu24-", "nam24-")) for name in experiments())
    True
    """
    own = _own("richter.experiments", AbstractExperiment)
    return _with_plugins(own, EXPERIMENTS, AbstractExperiment, "an experiment")


def experiment(name: str) -> type[AbstractExperiment]:
    """An experiment by its name, or one that is not registered by its address `module:Class`."""
    known = experiments()
    if name in known:
        return known[name]
    if ":" in name:
        found = named(name)
        if isinstance(found, type) and issubclass(found, AbstractExperiment) and not inspect.isabstract(found):
            return found
        raise UnknownNameError(f"`{name}` is not an experiment: a final class of richter.experiments' kind.")
    raise UnknownNameError(f"No experiment named `{name}`. {nearest(name, list(known))}")


def named(address: str) -> Any:
    """What stands at `module:name`, the folder one is in included.

    >>> named("math:pi")
    3.141592653589793
    """
    module, _, name = address.partition(":")
    here = os.getcwd()
    if here not in sys.path:
        sys.path.insert(0, here)  # where the command is given, as python -m has it
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except ModuleNotFoundError as problem:
        if problem.name is None or not f"{module}.".startswith(f"{problem.name}."):
            raise  # it is there, but what it needs is not
        raise UnknownNameError(f"No module `{module}` for `{address}`: neither installed nor in this folder.") from None
    except AttributeError:
        raise UnknownNameError(f"The module `{module}` has no `{name}`.") from None
    return found


def _with_plugins(own: tuple[type[T], ...], group: str, kind: type[T], what: str) -> dict[str, type[T]]:
    made: dict[str, Any] = {item.name: item for item in own}  # type: ignore[attr-defined]
    for point in entry_points(group=group):
        found = point.load()
        if not (isinstance(found, type) and issubclass(found, kind)):
            raise UnknownNameError(f"The entry point {point.name} ({point.value}) is not {what}.")
        made[found.name] = found  # type: ignore[attr-defined]
    return made


@cache
def _own(package: str, kind: type[T]) -> tuple[type[T], ...]:
    found: list[Any] = []
    for module in _modules(importlib.import_module(package)):
        for _, item in inspect.getmembers(module, inspect.isclass):
            if issubclass(item, kind) and not inspect.isabstract(item) and item.__module__ == module.__name__:
                found.append(item)
    return tuple(sorted(found, key=lambda item: str(item.name)))


def theory(name: str) -> type[AbstractTheory]:
    """A theory by its name in either spelling, or by its first word alone where that is enough.

    >>> theory("SingleNeuron") is theory("single-neuron"), theory("isotropic").__name__
    (True, 'IsotropicNetwork')
    """
    known = theories()
    for key, found in known.items():
        if name in (key, found.__name__) or name.lower() == found.__name__.lower():
            return found
    started = [found for key, found in known.items() if key.split("-")[0] == name.lower()]
    if len(started) == 1:
        return started[0]
    raise UnknownNameError(f"No theory named `{name}`. {nearest(name, list(known))}")


def formulas() -> list[Formula]:
    """Every function that is marked with a published place, in the order of the papers.

    >>> len(formulas()) > 20
    True
    """
    import richter.maths

    found: dict[tuple[str, str], Formula] = {}
    for module in _modules(richter.maths):
        for function in vars(module).values():
            mark = getattr(function, "__richter_implements__", None)
            if isinstance(mark, Implementation) and function.__module__ == module.__name__:
                for place in mark.places:
                    key = (str(place), f"{module.__name__}.{function.__qualname__}")
                    found[key] = Formula(place, function, mark.role)
    return sorted(found.values(), key=lambda f: (f.place.paper.key, natural(f.place.where), f.where))


def natural(where: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts Eq. 9 before Eq. 10.

    >>> natural("Eq. 9") < natural("Eq. 10")
    True
    """
    import re

    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", where) if part)


def _modules(package: ModuleType) -> Iterator[ModuleType]:
    for info in pkgutil.iter_modules(package.__path__, package.__name__ + "."):
        yield importlib.import_module(info.name)
