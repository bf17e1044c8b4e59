"""Richter: a scale for how richly a neural network learns.

Everything is imported on first use: the verbs, such as `richter.watch`, and the rooms: `richter.theory` (exact),
`richter.probes` (measured), `richter.moves`, `richter.experiments` (published figures), `richter.tasks`, ….
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
VERBS = {  # name → where it is
    "compare": "richter.measurement.compare",
    "measure": "richter.measurement.measured",
    "watch": "richter.probes.watching",
}
ROOMS = (
    "catalog", "draw", "errors", "experiments", "figure", "maths", "measurement", "probes", "refs", "report", "schema",
    "tasks", "theory", "training",
)  # fmt: skip
# The public names, at most 12; every room can be imported and named all the same.
__all__ = ["compare", "draw", "experiments", "measure", "probes", "tasks", "theory", "training", "watch"]


def __getattr__(name: str) -> Any:
    """Import a verb or a room when it is first named."""
    if name in VERBS:
        return getattr(import_module(VERBS[name]), name)
    if name in ROOMS:
        return import_module(f"richter.{name}")
    raise AttributeError(f"module 'richter' has no attribute {name!r}; it has {', '.join([*VERBS, *ROOMS])}")


def __dir__() -> list[str]:
    """The verbs and the rooms."""
    return [*VERBS, *ROOMS, "__version__"]
