"""The contract of an experiment: declared settings, three presets, a run, claims and a figure.

The author writes `run`, the claims and `figure`; the settings, versions and duration are attached to the Dataset here,
so that a saved one can be judged and drawn again without running. A long run that can be continued after a stop takes
a folder, `def run(self, progress=silent, store: Path | None = None)`, and hands it to `richter.sweep.sweep`.
"""

from __future__ import annotations

import abc
import inspect
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from richter.errors import FileError, ParameterError, message, show
from richter.experiments import settings
from richter.experiments.claims import Claim, Verdict, claims_of
from richter.figure import Figure
from richter.refs import Place
from richter.schema import SCHEMA

if TYPE_CHECKING:
    import xarray as xr

PRESETS = ("smoke", "laptop", "paper")
Progress = Callable[[str, float], None]


def silent(what: str, share: float) -> None:
    """Progress that nobody watches."""


@dataclass(frozen=True, kw_only=True)
class AbstractExperiment(abc.ABC):
    """A published figure, table or theorem as a computation whose statements are decided by its own numbers.

    `presets` maps each of smoke (seconds), laptop (minutes) and paper (the published setting) to the settings that
    differ from the defaults; `known_failures` the claims that do not hold here to what was found instead.
    """

    name: ClassVar[str]
    title: ClassVar[str]
    statement: ClassVar[str]
    places: ClassVar[tuple[Place, ...]]
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    known_failures: ClassVar[Mapping[str, str]] = {}

    @abc.abstractmethod
    def run(self, progress: Progress = silent) -> xr.Dataset:
        """The numbers; `progress` is told what is being done and the share that is done."""

    @abc.abstractmethod
    def figure(self, ds: xr.Dataset) -> Figure:
        """The picture of a run."""

    def __post_init__(self) -> None:
        """Check and store the settings."""
        for name, known in settings.declared(self).items():
            value = known.checked(f"`{name}` of {self.name}", getattr(self, name))
            object.__setattr__(self, name, value)

    @classmethod
    def preset(cls, preset: str = "laptop", **changes: Any) -> Self:
        """The experiment at a preset, with some settings changed."""
        if preset not in PRESETS:
            must = f"be one of {', '.join(PRESETS)}"
            raise ParameterError(message("the preset", must, show(preset)))
        settings.check_names(cls.name, settings.declared(cls), changes)
        return cls(**{**cls.presets.get(preset, {}), **changes})

    @property
    def settings(self) -> dict[str, Any]:
        """The settings by name."""
        return {name: getattr(self, name) for name in settings.declared(self)}

    @property
    def preset_name(self) -> str:
        """The preset whose settings these are, the largest if several are equal, or "" if they are of none."""
        return next((name for name in reversed(PRESETS) if self.preset(name).settings == self.settings), "")

    @classmethod
    def claims(cls) -> tuple[Claim, ...]:
        """The statements that a run decides."""
        return claims_of(cls)

    @classmethod
    def resumable(cls) -> bool:
        """Whether `run` takes a folder that keeps its finished parts."""
        return "store" in inspect.signature(cls.run).parameters

    def execute(self, progress: Progress = silent, store: str | os.PathLike[str] | None = None) -> xr.Dataset:
        """Run, and attach what makes the result self-contained.

        `store` is a folder in which a resumable run keeps its finished parts: the same call after a stop continues.
        """
        from richter import __version__

        begin = time.perf_counter()
        run: Callable[..., xr.Dataset] = self.run
        folder = Path(store) if store is not None and self.resumable() else None
        resumed = folder is not None and folder.is_dir() and any(folder.iterdir())
        ds = run(progress) if folder is None else run(progress, store=folder)
        ds.attrs.update(
            experiment=self.name, settings=json.dumps(self.settings), version=__version__, schema=SCHEMA,
            seconds=round(time.perf_counter() - begin, 3),
        )  # fmt: skip
        if resumed:
            ds.attrs["resumed"] = 1  # the seconds are those of the last part
        return ds

    def check(self, ds: xr.Dataset) -> list[tuple[Claim, Verdict]]:
        """Every claim with its verdict on a run."""
        return [(item, item.decide(self, ds)) for item in self.claims()]

    @classmethod
    def restore(cls, ds: xr.Dataset) -> Self:
        """The experiment with the settings that a saved run was made with."""
        if ds.attrs.get("experiment") != cls.name:
            got = str(ds.attrs.get("experiment", "no experiment's"))
            raise FileError(message("the Dataset", f"be a run of {cls.name}", got, f"Use richter run {cls.name}."))
        given = json.loads(ds.attrs["settings"])
        settings.check_names(cls.name, settings.declared(cls), given)
        return cls(**given)
