"""How a theory's parameters and times are laid out for computing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message, show

Floats = NDArray[np.float64]
State = dict[str, Floats]
BLOCK = 1 << 14  # numbers per variable worked on at once, so that temporaries stay in the cache
WIDE_BLOCK = 1 << 18  # the same for variables with many entries each


class Layout(dict[str, Floats]):
    """The parameters as arrays (*own dimensions, starts or 1, 1)."""

    def __getattr__(self, name: str) -> Floats:
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    def rows(self, part: slice) -> Layout:
        """The same for some of the starts."""
        return Layout({k: v if v.shape[-2] == 1 else v[..., part, :] for k, v in self.items()})


def check_times(t: object) -> Floats:
    """Times as a 1-d array: at least one, none negative, none NaN.

    >>> check_times([0, 1]).tolist()
    [0.0, 1.0]
    """
    try:
        times = np.atleast_1d(np.asarray(t, dtype=np.float64))
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(message("the times", "be numbers", show(t), "Use 0,0.5,1,inf.")) from None
    if times.ndim != 1:
        raise ParameterError(message("the times", "be a list", f"shape {times.shape}"))
    if times.size == 0:
        raise ParameterError(message("the times", "hold at least one number", "none", "Use t=[0, 1, inf]."))
    if np.isnan(times).any() or (times < 0).any():
        bad = times[np.isnan(times) | (times < 0)][0]
        raise ParameterError(message("the times", "be ≥ 0", float(bad), "inf is allowed, NaN is not."))
    return times


class Packing:
    """A state as one flat vector, as integrators want it, and back."""

    def __init__(self, start: State, starts: int) -> None:
        """Remember the shapes of `start`, spread over all starts."""
        self.start = {
            name: np.ascontiguousarray(np.broadcast_to(x, (*x.shape[:-2], starts, 1))) for name, x in start.items()
        }

    def pack(self, state: State) -> Floats:
        """One vector of the state at one time."""
        return np.concatenate([np.broadcast_to(state[name], x.shape).ravel() for name, x in self.start.items()])

    def unpack(self, flat: Floats) -> State:
        """The state of a vector (variable,) or of a path (variable, time)."""
        made, at = {}, 0
        for name, x in self.start.items():
            part = flat[at : at + x.size]
            made[name] = part.reshape(*x.shape[:-1], -1)
            at += x.size
        return made
