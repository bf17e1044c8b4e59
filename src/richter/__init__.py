"""Richter: a scale for how richly a neural network learns.

The rooms are imported on first use: `richter.theory` (exact), `richter.probes` (measured), `richter.experiments`
(published figures), `richter.tasks`, `richter.training`, `richter.maths`, `richter.figure`, `richter.draw`, ….
"""

from importlib import import_module
from typing import Any

__version__ = "0.1.0"
__all__ = [
    "catalog", "draw", "errors", "experiments", "figure", "maths", "probes", "refs", "schema", "tasks", "theory",
    "training",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    """Import a room when it is first named."""
    if name in __all__:
        return import_module(f"richter.{name}")
    raise AttributeError(f"module 'richter' has no attribute {name!r}; it has {', '.join(__all__)}")


def __dir__() -> list[str]:
    """The rooms."""
    return [*__all__, "__version__"]
