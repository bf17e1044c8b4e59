"""What a sweep computes and with what, as plain data: the manifest that a store is checked against."""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import json
import platform
from collections.abc import Mapping
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from richter.errors import ParameterError, message, show

LIBRARIES = ("numpy", "scipy", "xarray", "jax", "torch")


def describe(function: Any) -> Any:
    """A function, partial or dataclass instance by name and fields, so that two of them can be compared.

    >>> describe(partial(divmod, 7))
    {'of': 'builtins:divmod', 'args': [7], 'keywords': {}}
    """
    if isinstance(function, partial):
        return {
            "of": describe(function.func),
            "args": [describe_value(a) for a in function.args],
            "keywords": {k: describe_value(v) for k, v in sorted(function.keywords.items())},
        }
    if dataclasses.is_dataclass(function) and not isinstance(function, type):
        fields = {f.name: describe_value(getattr(function, f.name)) for f in dataclasses.fields(function)}
        return {"of": describe(type(function)), "fields": fields}
    if hasattr(function, "__qualname__"):
        return f"{function.__module__}:{function.__qualname__}"
    return describe(type(function))


def describe_value(value: Any) -> Any:
    """A parameter as JSON, or what stands for it."""
    if isinstance(value, type) or callable(value) or (dataclasses.is_dataclass(value)):
        return describe(value)
    if isinstance(value, Mapping):
        return {str(k): describe_value(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [describe_value(v) for v in value]
    if hasattr(value, "tobytes") and hasattr(value, "shape"):  # an array
        kind = f"{value.dtype}{list(value.shape)}"
        return f"array {kind} {hashlib.sha256(kind.encode() + value.tobytes()).hexdigest()[:16]}"
    try:
        return json.loads(json.dumps(value))
    except (TypeError, ValueError):
        must = "be numbers, words, arrays, lists or named functions"
        raise ParameterError(message("the parameters of a sweep", must, show(value))) from None


def made_with(function: Any) -> dict[str, str]:
    """Versions, and a checksum of the file in which the function (or its `source`) is written."""
    from richter import __version__

    found = {"richter": __version__, "python": ".".join(platform.python_version_tuple()[:2])}
    for name in LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    found["code"] = _code(getattr(function, "source", function))
    return found


def _code(function: Any) -> str:
    while isinstance(function, partial):
        function = function.func
    if not (inspect.isfunction(function) or inspect.isclass(function) or inspect.ismethod(function)):
        function = type(function)
    try:
        file = inspect.getsourcefile(function)
        with open(file or "", "rb") as source:
            return hashlib.sha256(source.read()).hexdigest()[:16]
    except (OSError, TypeError):
        return "unknown"
