"""The contract of experiments, on a small one, and what every experiment of the catalog must have."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from richter import catalog, draw
from richter.errors import FileError, ParameterError, UnknownNameError
from richter.experiments import AbstractExperiment, Verdict, claim, setting
from richter.experiments.base import PRESETS, Progress, silent
from richter.experiments.settings import declared
from richter.figure import Figure, lines, panel
from richter.refs import KUN24
from richter.schema import load, save
from richter.theory import SingleNeuron


@dataclass(frozen=True, kw_only=True)
class Decay(AbstractExperiment):
    """A toy: how fast the loss of a neuron falls."""

    name = "kun24-decay"
    title = "The loss falls"
    statement = "The loss of a single neuron never rises."
    places = (KUN24["Sec. 3"],)
    presets = {"smoke": {"moments": 5}, "laptop": {}, "paper": {"moments": 50}}
    moments: int = setting(11, "times looked at", low=2)
    deltas: tuple[float, ...] = setting((0.0, 1.0), "imbalances", symbol="δ")
    word: str = setting("plain", "a word", choices=("plain", "fancy"))
    loud: bool = setting(False, "a truth value")

    def run(self, progress: Progress = silent) -> xr.Dataset:
        progress("solving", 0.5)
        theory = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=list(self.deltas), beta_star=[0.0, 1.0])
        return theory.solve(np.linspace(0, 5, self.moments))

    @claim("the loss falls", KUN24["Sec. 3"])
    def falls(self, ds: xr.Dataset) -> Verdict:
        rise = float(ds.loss.diff("t").max())
        return Verdict.of(rise <= 0, f"largest rise {rise:.2g}", "≤ 0", f"{ds.sizes['t']} times")

    @claim("the loss is negative", KUN24["Sec. 3"])
    def negative(self, ds: xr.Dataset) -> Verdict:
        return Verdict.of(float(ds.loss.min()) < 0, f"{float(ds.loss.min()):.2g}", "< 0", f"{ds.sizes['t']} times")

    @claim("it learns words", KUN24["Sec. 3"])
    def words(self, ds: xr.Dataset) -> Verdict:
        return Verdict.undecided("no words were shown", "words", f"{ds.sizes['t']} times")

    def figure(self, ds: xr.Dataset) -> Figure:
        return Figure((panel(ds, "loss", lines(ds, "loss", by="start")),), self.title)


def test_a_run_carries_what_is_needed_to_judge_and_draw_it_again(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    ds = Decay.preset("smoke", deltas=[0.0, 2.0]).execute(lambda what, share: told.append((what, share)))
    assert told == [("solving", 0.5)] and ds.attrs["seconds"] >= 0 and ds.attrs["version"]
    read = load(save(ds, tmp_path / "run.nc"))
    again = Decay.restore(read)
    assert again.settings == {"moments": 5, "deltas": (0.0, 2.0), "word": "plain", "loud": False}
    assert [(c.name, v.finding) for c, v in again.check(read)] == [
        ("falls", "holds"), ("negative", "fails"), ("words", "undecided"),
    ]  # fmt: skip
    assert draw.save(again.figure(read), tmp_path / "decay.png").stat().st_size > 1000


def test_presets_and_settings_are_checked() -> None:
    assert Decay.preset("paper").moments == 50 and Decay.preset().moments == 11
    for make, kind, text in (
        (lambda: Decay.preset("huge"), ParameterError, "the preset must be one of smoke, laptop, paper. Got 'huge'"),
        (lambda: Decay.preset("smoke", moment=3), UnknownNameError, "has no setting `moment`. Did you mean moments?"),
        (lambda: Decay(moments=1), ParameterError, "`moments` of kun24-decay must be ≥ 2. Got 1."),
        (lambda: Decay(moments=2.5), ParameterError, "must be a whole number. Got 2.5."),  # type: ignore[arg-type]
        (lambda: Decay(deltas=()), ParameterError, "`deltas` of kun24-decay must be a list with at least one entry"),
        (lambda: Decay(deltas=("a",)), ParameterError, "must be a finite number. Got 'a'."),  # type: ignore[arg-type]
        (lambda: Decay(word="loud"), ParameterError, "`word` of kun24-decay must be one of plain, fancy. Got 'loud'."),
        (lambda: Decay(loud=1), ParameterError, "must be true or false. Got 1."),  # type: ignore[arg-type]
        (lambda: catalog.experiment("kun24-basin"), UnknownNameError, "No experiment named `kun24-basin`."),
        (lambda: Decay.restore(xr.Dataset()), FileError, "must be a run of kun24-decay. Got no experiment's."),
    ):  # fmt: skip
        with pytest.raises(kind) as caught:
            make()
        assert text in str(caught.value)


def test_a_claim_needs_its_place() -> None:
    with pytest.raises(TypeError, match="takes what is claimed and its places"):
        claim("nothing")


@pytest.mark.parametrize("kind", catalog.experiments().values(), ids=catalog.experiments())
def test_every_experiment_says_what_it_is(kind: type[AbstractExperiment]) -> None:
    assert kind.title and kind.statement.endswith(".") and kind.places and set(kind.presets) == set(PRESETS)
    assert kind.name.split("-")[0].upper() in {place.paper.key for place in kind.places}
    for preset in PRESETS:
        kind.preset(preset)
    assert all(known.says for known in declared(kind).values())


@pytest.mark.parametrize("kind", catalog.experiments().values(), ids=catalog.experiments())
def test_every_experiment_runs_is_judged_and_drawn_at_smoke(kind: type[AbstractExperiment], tmp_path: Path) -> None:
    experiment = kind.preset("smoke")
    ds = load(save(experiment.execute(), tmp_path / "run.nc"))
    checked = kind.restore(ds).check(ds)
    failed = {item.name: verdict.plain() for item, verdict in checked if verdict.finding == "fails"}
    assert failed == {name: failed[name] for name in failed if name in kind.known_failures}
    picture = experiment.figure(ds)
    assert picture.title and picture.caption
    for suffix in ("png", "html"):
        assert draw.save(picture, tmp_path / f"figure.{suffix}").stat().st_size > 1000
