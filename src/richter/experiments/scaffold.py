"""The start of a new experiment: a file that runs, with its test, to be changed line by line."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import NamedTuple

from richter.errors import FileError, ParameterError, message, show
from richter.sweep.store import write

FILE = '''"""TODO: the paper, the place, and what is shown there, in one line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from richter.experiments import AbstractExperiment, Verdict, claim, setting
from richter.experiments.base import Progress, silent
from richter.figure import Figure, lines, panel
from richter.refs import KUN24
from richter.theory import SingleNeuron

if TYPE_CHECKING:
    import xarray as xr


@dataclass(frozen=True, kw_only=True)
class @CLASS@(AbstractExperiment):
    """TODO: what is computed. As it stands: one neuron from several imbalances, solved and simulated."""

    name = "@NAME@"
    title = "@TITLE@"
    statement = "The imbalance of a neuron is conserved while its loss falls."
    places = (KUN24["Sec. 3"],)
    presets = {"smoke": {"moments": 11}, "laptop": {}, "paper": {"moments": 1001}}
    deltas: tuple[float, ...] = setting((-4.0, 0.0, 4.0), "imbalances of the start", symbol="δ", low=-100, high=100)
    moments: int = setting(101, "times looked at", low=5)
    span: float = setting(30.0, "the last of them", symbol="t", low=0.1)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """The exact solution, with the simulated imbalance beside it."""
        t = np.linspace(0.0, self.span, self.moments)
        theory = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=list(self.deltas), beta_star=[0.0, 1.0])
        progress("solving", 0.0)
        ds = theory.solve(t, only=("loss", "delta"))
        progress("simulating", 0.5)
        return ds.assign(simulated_delta=theory.simulate(t, only=("delta",)).delta)

    @claim("the imbalance δ is conserved", KUN24["Sec. 3"])
    def conserved(self, ds: xr.Dataset) -> Verdict:
        """Its largest drift in the simulation, which does not know that it is conserved."""
        drift = float(abs(ds.simulated_delta - ds.simulated_delta.isel(t=0)).max())
        return Verdict.of(drift < 1e-8, f"largest drift {drift:.1e}", "0 ± 1e-8, the integrator's", self._scale(ds))

    @claim("the loss falls until it is zero", KUN24["Sec. 3"])
    def falls(self, ds: xr.Dataset) -> Verdict:
        """Never rising, and small at the end: a span that is too short leaves it undecided."""
        rise, left = float(ds.loss.diff("t").max()), float((ds.loss.isel(t=-1) / ds.loss.isel(t=0)).max())
        if rise <= 0 and left > 0.01:
            return Verdict.undecided(f"{left:.0%} of the loss is left at the end", "below 1 %", self._scale(ds))
        return Verdict.of(rise <= 0, f"largest rise {rise:.1e}, left {left:.1e}", "no rise, below 1 %", self._scale(ds))

    def figure(self, ds: xr.Dataset) -> Figure:
        """The loss over time."""
        curves = panel(ds, "loss", lines(ds, "loss", by="start"))
        return Figure((curves,), self.title, f"Exact solutions from δ = {list(self.deltas)}.")

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{len(self.deltas)} imbalances, {ds.sizes['t']} times to t = {self.span:g}"
'''

TEST = '''"""The experiment runs, its claims are judged on what it found, and each of them can fail."""

from __future__ import annotations

from pathlib import Path

import xarray as xr
from richter import draw
from richter.schema import load, save

from @MODULE@ import @CLASS@


def findings(ds: xr.Dataset) -> dict[str, str]:
    """What was found of each claim."""
    return {item.name: verdict.finding for item, verdict in @CLASS@.restore(ds).check(ds)}


def test_it_runs_is_judged_and_drawn(tmp_path: Path) -> None:
    """Also from a saved run."""
    experiment = @CLASS@.preset("smoke")
    ds = load(save(experiment.execute(), tmp_path / "run.nc"))
    assert findings(ds) == {"conserved": "holds", "falls": "holds"}
    assert draw.save(experiment.figure(ds), tmp_path / "figure.png").stat().st_size > 1000


def test_every_claim_can_fail_control() -> None:
    """A judge that says yes to everything proves nothing."""
    ds = @CLASS@.preset("smoke").execute()
    assert findings(ds.assign(simulated_delta=ds.simulated_delta + 0.1 * ds.t))["conserved"] == "fails"
    assert findings(ds.assign(loss=-ds.loss))["falls"] == "fails"
    short = @CLASS@.preset("smoke", span=0.2).execute()
    assert findings(short)["falls"] == "undecided"
'''


class Written(NamedTuple):
    """The two files, and the address of the class in the first."""

    experiment: Path
    test: Path
    address: str


def write_experiment(name: str, folder: str | os.PathLike[str] = ".") -> Written:
    """Write a runnable experiment and its test into a folder; no file that is there is touched."""
    if not re.fullmatch(r"[a-z][a-z0-9]*(-[a-z0-9]+)+", name):
        must = "be lower-case words with hyphens, the paper first"
        raise ParameterError(message("the name of an experiment", must, show(name), "For example kun24-my-figure."))
    place, module = Path(folder), name.replace("-", "_")
    if not place.is_dir():
        raise FileError(message("the folder of the experiment", "exist", str(place)))
    words = name.split("-")[1:]
    made = Written(place / f"{module}.py", place / f"test_{module}.py", "")
    kind = "".join(word.capitalize() for word in words)
    kind = kind if kind[0].isalpha() else f"Figure{kind}"
    for path in made[:2]:
        if path.exists():
            raise FileError(message(f"{path}", "not exist yet", "a file that is there", "Give another name or --out."))
    fill = {"@CLASS@": kind, "@NAME@": name, "@TITLE@": " ".join(words).capitalize(), "@MODULE@": module}
    for path, text in zip(made[:2], (FILE, TEST), strict=True):
        for mark, value in fill.items():
            text = text.replace(mark, value)
        try:
            write(path, text.encode())
        except OSError as problem:
            raise FileError(f"{path} could not be written: {problem.strerror or problem}") from None
    return made._replace(address=f"{module}:{kind}")
