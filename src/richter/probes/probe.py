"""The contract of everything that is recorded along a training run."""

from __future__ import annotations

import abc
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from richter.schema import Variable

if TYPE_CHECKING:
    from torch import nn

Arrays: TypeAlias = Mapping[str, NDArray[Any]]
Reading: TypeAlias = float | Mapping[str, float] | NDArray[np.float64]
LABELLED = ("layer", "pair", "activation")  # dimensions whose entries have names: a reading maps name → number


@dataclass(frozen=True)
class Snapshot:
    """What a probe keeps of the start: plain arrays, so that a file can hold them and nothing in it is executed.

    `notes` go into the attributes of the probe's variables; `coords` name the entries of a dimension:
    coordinate → (dimension, names).
    """

    arrays: Arrays = field(default_factory=dict)
    notes: Mapping[str, str] = field(default_factory=dict)
    coords: Mapping[str, tuple[str, NDArray[Any]]] = field(default_factory=dict)


class AbstractProbe(abc.ABC):
    """A measurement of a torch model on one batch of examples, stateless.

    `start` gives a snapshot, `measure` compares the model with it. Both see the model in evaluation mode and leave
    it as it was. The batch is an (inputs, targets) pair; targets are None if there are none.
    """

    name: ClassVar[str]
    variables: ClassVar[tuple[Variable, ...]]  # without `step`, which the recorder puts in front of their dimensions

    @abc.abstractmethod
    def start(self, model: nn.Module, batch: Any) -> Snapshot:
        """What later measurements are compared with."""

    @abc.abstractmethod
    def measure(self, model: nn.Module, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """The variables now: a number, a number per named entry, or an array."""

    def lacks(self, model: nn.Module, batch: Any) -> str:
        """What the model or the batch would have to have for this probe to say something; empty if nothing."""
        return ""
