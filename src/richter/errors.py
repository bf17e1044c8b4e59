"""The few error types, all with one message shape.

Every message is one line: *what* is wrong, what it *must* be, what was *got*, and what to type instead.
"""

from __future__ import annotations

import numpy as np


class RichterError(Exception):
    """Base of every error that Richter raises on purpose; `exit_code` is what the command returns."""

    exit_code = 2


class ParameterError(RichterError, ValueError):
    """A parameter, a time or an option is not what it must be."""


class OutsideTheoryError(RichterError, ValueError):
    """The question lies outside the theory's assumptions; the message says what to use instead."""


class UnknownNameError(RichterError, LookupError):
    """A name that is not in the catalog, with the nearest ones that are."""


class FileError(RichterError, OSError):
    """A file that cannot be read or written."""


class DivergenceError(RichterError, ArithmeticError):
    """A training run left the finite numbers or grew beyond measure."""


class DataError(RichterError, OSError):
    """A data set is missing, damaged or cannot be fetched."""

    exit_code = 3


class UnfinishedError(RichterError, RuntimeError):
    """A computation that stopped before it was whole; what was finished is kept, and the message says where."""

    exit_code = 3


class MissingExtraError(RichterError, ImportError):
    """An optional library is not installed; the message says which extra brings it."""

    exit_code = 3


def show(value: object, width: int = 60) -> str:
    """One line for any value, cut to `width` characters.

    >>> show([1.0, 2.0])
    '[1.0, 2.0]'
    """
    if isinstance(value, np.ndarray):
        text = f"{value.tolist()!r}" if value.size <= 6 else f"array of shape {value.shape}"
    else:
        text = " ".join(repr(value).split())
    return text if len(text) <= width else text[: width - 1] + "…"


def message(what: str, must: str, got: object = None, do: str = "") -> str:
    """The one message shape: what, must, got, do.

    >>> message("`eta_a` of SingleNeuron", "be ≥ 0", -1.0, "Use eta_a=0 for a frozen layer.")
    '`eta_a` of SingleNeuron must be ≥ 0. Got -1.0. Use eta_a=0 for a frozen layer.'
    """
    got_text = "" if got is None else f" Got {got if isinstance(got, str) and got else show(got)}."
    return f"{what} must {must}.{got_text}" + (f" {do}" if do else "")


def nearest(name: str, known: list[str]) -> str:
    """A "did you mean" clause for a name that is not known."""
    import difflib

    spelled = {word.lower(): word for word in known}
    close = [spelled[word] for word in difflib.get_close_matches(name.lower(), spelled, n=1, cutoff=0.5)]
    hint = f"Did you mean {close[0]}? " if close else ""
    return f"{hint}Known: {', '.join(sorted(known))}."
