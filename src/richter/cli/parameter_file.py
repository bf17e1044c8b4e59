"""Parameters from a JSON file or standard input."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from richter.errors import FileError, ParameterError, message, show


def read(file: str, example: str) -> dict[str, object]:
    """The object in a JSON file; `-` is standard input. `example` is a parameter's name for the message."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        why = getattr(problem, "strerror", None) or "it is not text"
        raise FileError(f"The parameter file {file} cannot be read: {why}.") from None
    try:
        loaded = json.loads(text)
    except json.JSONDecodeError as problem:
        raise ParameterError(
            f"The parameters in {file} are not JSON: {problem.msg} at line {problem.lineno}, "
            f'column {problem.colno}. Write {{"{example}": 1.0, …}}.'
        ) from None
    except RecursionError:
        raise ParameterError(f"The parameters in {file} are nested too deeply to be arrays of numbers.") from None
    if not isinstance(loaded, dict):
        raise ParameterError(message(f"the JSON in {file}", "be an object of parameters", show(loaded)))
    return loaded
