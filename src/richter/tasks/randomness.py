"""Seeds that do not meet: the same number given for two purposes makes two independent streams."""

from __future__ import annotations

from typing import TypeAlias
from zlib import crc32

import numpy as np

from richter.errors import ParameterError, message
from richter.params import count as count

Rng: TypeAlias = np.random.Generator | int


def stream(rng: Rng, purpose: str) -> np.random.Generator:
    """A generator for one purpose: a seed is mixed with the purpose, a generator is used as it is.

    Without the purpose a teacher and a student drawn from the same seed would be the same network.

    >>> float(stream(0, "teacher").random()) == float(stream(0, "student").random())
    False
    """
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, bool) or not isinstance(rng, (int, np.integer)) or rng < 0:
        raise ParameterError(message("`rng`", "be a whole number ≥ 0 or a numpy Generator", rng, "Use rng=0."))
    return np.random.default_rng([int(rng), crc32(purpose.encode())])
