"""Richter: a scale for how richly a neural network learns.

Everything is imported on first use: the verbs, such as `richter.watch`, and the rooms: `richter.theory` (exact),
`richter.probes` (measured), `richter.moves`, `richter.advice`, `richter.experiments` (published figures), ….
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
VERBS = {  # name → where it is, and what it is called there
    "advise": ("richter.advice.advise", "advise"),
    "compare": ("richter.measurement.compare", "compare"),
    "measure": ("richter.measurement.measured", "measure"),
    "move": ("richter.moves.files", "move_file"),
    "predict": ("richter.advice.predict", "predict"),
    "watch": ("richter.probes.watching", "watch"),
}
ROOMS = (
    "advice", "catalog", "draw", "errors", "experiments", "figure", "maths", "measurement", "moves", "probes", "refs",
    "report", "schema", "sweep", "tasks", "theory", "training",
)  # fmt: skip
# The public names, at most 12; every room can be imported and named all the same.
__all__ = [
    "advise", "compare", "draw", "experiments", "measure", "move", "predict", "probes", "tasks", "theory", "training",
    "watch",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a verb or a room when it is first named."""
    if name in VERBS:
        place, called = VERBS[name]
        return getattr(import_module(place), called)
    if name in ROOMS:
        return import_module(f"richter.{name}")
    raise AttributeError(f"module 'richter' has no attribute {name!r}; it has {', '.join([*VERBS, *ROOMS])}")


def __dir__() -> list[str]:
    """The verbs and the rooms."""
    return [*VERBS, *ROOMS, "__version__"]
