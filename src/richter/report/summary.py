"""A run in a few lines of JSON: what was found of each claim at which settings, small enough for a repository."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from richter.errors import FileError, message
from richter.experiments import AbstractExperiment, Claim, Verdict
from richter.sweep.store import write

if TYPE_CHECKING:
    import xarray as xr

SCHEMA = 1
NEEDED = ("experiment", "preset", "settings", "seconds", "version", "claims")


def summarise(
    experiment: AbstractExperiment, ds: xr.Dataset, checked: Sequence[tuple[Claim, Verdict]]
) -> dict[str, Any]:
    """Settings, duration, version, and every verdict."""
    return {
        "experiment": experiment.name, "title": experiment.title, "preset": experiment.preset_name,
        "settings": experiment.settings, "seconds": float(ds.attrs["seconds"]), "version": str(ds.attrs["version"]),
        "resumed": bool(ds.attrs.get("resumed", 0)), "claims": verdict_rows(checked), "schema": SCHEMA,
    }  # fmt: skip


def verdict_rows(checked: Sequence[tuple[Claim, Verdict]]) -> list[dict[str, Any]]:
    """The verdicts as plain rows."""
    return [{"claim": c.name, "says": c.says, "places": [str(p) for p in c.places], **v.plain()} for c, v in checked]


def write_summary(summary: dict[str, Any], folder: str | os.PathLike[str]) -> Path:
    """Write `NAME.json` into the folder, which is made if need be."""
    place = Path(folder)
    path = place / f"{summary['experiment']}.json"
    try:
        place.mkdir(parents=True, exist_ok=True)
        write(path, json.dumps(summary, ensure_ascii=False, indent=1).encode() + b"\n")
    except OSError as problem:
        raise FileError(f"{path} could not be written: {problem.strerror or problem}") from None
    return path


def read_summaries(folder: str | os.PathLike[str]) -> dict[str, dict[str, Any]]:
    """The summaries in a folder by the names of their experiments; none if there is no such folder."""
    found: dict[str, dict[str, Any]] = {}
    for path in sorted(Path(folder).glob("*.json")):
        try:
            made = json.loads(path.read_text())
        except (OSError, ValueError) as problem:
            raise FileError(f"{path} is not a summary that Richter can read: {problem}") from None
        missing = [name for name in NEEDED if not isinstance(made, dict) or name not in made]
        if missing or made["experiment"] != path.stem:
            got = f"without {missing[0]}" if missing else f"of {made['experiment']}"
            raise FileError(message(str(path), f"be a summary of {path.stem}", got))
        found[path.stem] = made
    return found
