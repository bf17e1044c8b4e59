"""Experiments that train networks: they go on after a stop, and every claim holds and fails on made-up runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from richter import catalog
from richter.errors import ParameterError
from richter.experiments import AbstractExperiment
from richter.experiments.kun24_direction_speed import DirectionSpeed
from richter.experiments.kun24_hyperboloid import Hyperboloid
from richter.experiments.kun24_late_training import LateTraining
from richter.experiments.kun24_phase_portrait import PhasePortrait
from richter.experiments.kun24_second_phase import SecondPhase
from richter.experiments.kun24_teacher_plane import TeacherPlane
from richter.experiments.kun24_test_loss import SmallestTestLoss
from richter.experiments.xu24_activations import CASES, Activations

TINY = PhasePortrait(taus=3, deltas=3, seeds=2, steps=1000, width=4, inputs=3, examples=5, tests=10)
TRAINED = (
    "kun24-direction-speed", "kun24-late-training", "kun24-phase-portrait", "kun24-second-phase",
    "kun24-teacher-plane", "kun24-test-loss", "xu24-activations",
)  # fmt: skip


def findings(experiment: AbstractExperiment, ds: xr.Dataset) -> dict[str, str]:
    return {item.name: verdict.finding for item, verdict in experiment.check(ds)}


@pytest.mark.parametrize("name", TRAINED)
def test_what_trains_for_minutes_can_be_continued(name: str) -> None:
    assert catalog.experiment(name).resumable()


def test_a_stopped_run_goes_on_where_it_was_and_ends_the_same(tmp_path: Path) -> None:
    class Stop(Exception):
        pass

    def stop(what: str, share: float) -> None:
        if share > 0.7:
            raise Stop

    whole, shares = TINY.execute(), []
    with pytest.raises(Stop):
        TINY.execute(stop, store=tmp_path / "parts")
    again = TINY.execute(lambda what, share: shares.append(share), store=tmp_path / "parts")
    assert again.identical(whole.assign_attrs(again.attrs)) and again.attrs["resumed"] == 1
    assert min(shares) > 0.5  # nothing of the first seed is trained again
    with pytest.raises(ParameterError, match="must be of the same run"):
        PhasePortrait(**{**TINY.settings, "rate": 1e-2}).execute(store=tmp_path / "parts")


def portrait() -> xr.Dataset:
    """Kernel distances that are large and early at small τ and δ > 0, and small at large τ."""
    tau, delta, step = np.array([0.1, 0.5, 2.0]), np.array([-1.0, 0.0, 1.0]), np.array([0, 10, 100, 1000, 10_000])
    start = np.array([3000.0, 1000.0, 10.0])[None, :, None, None]  # by δ
    grown = np.clip(step / start, 0, 1) * np.array([0.5, 0.2, 0.01])[:, None]
    distance = xr.DataArray(np.broadcast_to(grown, (1, 3, 3, 5)), dims=("seed", "delta", "tau", "step"))
    made = {
        "kernel_distance": distance, "hamming": distance, "parameter_distance": 0 * distance + 1.0,
        "test_loss": 0 * distance + 1.0, "train_loss": 0 * distance + 1.0,
    }  # fmt: skip
    return xr.Dataset(made, {"seed": [0], "tau": tau, "delta": delta, "step": step})


def plane() -> xr.Dataset:
    """Four students: small turns, large stays, upstream aligns, downstream stays."""
    kind, step, seed = ["small", "large", "upstream", "downstream"], [0, 1000], [0, 1, 2, 3]
    rows = lambda last: xr.DataArray(
        np.stack(
            [np.zeros((4, 4)) + (1.0 if last is ANGLES else 0.0), np.broadcast_to(last, (4, 4))], axis=-1
        ),  # fmt: skip
        dims=("seed", "kind", "step"),
    )
    return xr.Dataset(
        {"turned": rows([0.5, 0.01, 0.6, 0.01]), "kernel_distance": rows([0.5, 0.01, 0.6, 0.01]),
         "angle": rows(ANGLES)},
        {"kind": kind, "step": step, "seed": seed},
    )  # fmt: skip


ANGLES = [0.3, 0.9, 0.1, 0.9]


def losses(own: float, others: float) -> xr.Dataset:
    """Test losses of five starts over sixteen seeds."""
    noise = 1 + 0.05 * np.sin(np.arange(16.0))
    last = np.stack([own * noise, *(others * noise[::-1] for _ in range(4))], axis=1)
    return xr.Dataset({"test_loss": (("seed", "cell", "step"), last[..., None])})


def late() -> xr.Dataset:
    """The training loss falls from a tenth of the steps to the last, the rest stays."""
    row = lambda ratio: (("seed", "cell", "step"), np.array([[[1.0, ratio]]]))
    same = dict.fromkeys(("test_loss", "kernel_distance", "hamming", "parameter_distance"), row(1.1))
    return xr.Dataset({"train_loss": row(0.1), **same}, {"step": [100_000, 1_000_000]})


def speeds() -> xr.Dataset:
    """Upstream directions turn by τ², balanced sizes grow like log 1/τ; all ten seeds are alike but for a little."""
    scales, t = np.array(DirectionSpeed().scales), np.geomspace(1e-4, 1e2, 400)
    seeds = 1 + 0.01 * np.cos(np.arange(10.0))
    there = lambda half: 1.0 * (t >= (seeds[:, None] * half)[..., None])
    half = {"upstream": (scales**2, 1 + 0 * scales), "balanced": (1 + 0 * scales, np.log(1 / scales))}
    rows = [np.stack([there(times[i]) for times in half.values()]) for i in (0, 1)]
    dims = ("kind", "seed", "tau", "moment")
    return xr.Dataset(
        {"direction": (dims, rows[0]), "radius": (dims, rows[1]), "t": ("moment", t)},
        {"kind": list(half), "tau": scales},
    )


def phases() -> xr.Dataset:
    """The narrow student's kernel moves late, in proportion to |δ|, the wide one's hardly at all."""
    sizes, seeds = np.array(SecondPhase().sizes), 1 + 0.01 * np.cos(np.arange(12.0))
    t = np.broadcast_to(np.geomspace(1e-3, 1e4, 300), (2, sizes.size, 300))
    when = lambda half: np.stack([1.0 * (t[0] >= (s * half)[:, None]) for s in seeds])
    kernel = np.stack([0.1 * when(10 * sizes), 0.001 * when(10 * sizes)])
    loss = 1 - np.stack([when(1 / sizes)] * 2)
    dims = ("width", "seed", "size", "moment")
    return xr.Dataset(
        {"kernel_distance": (dims, kernel), "train_loss": (dims, loss), "first_loss": (dims[:3], np.ones((2, 12, 4))),
         "t": (("width", "size", "moment"), t)},
        {"width": ["narrow", "wide"], "size": sizes},
    )  # fmt: skip


def layers() -> xr.Dataset:
    """ζ that rises under γ = 1/d, ever less under 1/√d, stays at 1, and falls; the loss converges before ζ."""
    width, step = np.array([100, 1000, 10_000]), np.linspace(0, 100, 51)
    rise = {"kernel": 1 / np.sqrt(width), "feature": 0.8 + 0 * width, "orthogonal": 0.0 * width,
            "near orthogonal": -0.3 + 0 * width}  # fmt: skip
    first = {"orthogonal": 1.0, "near orthogonal": 0.99}
    zeta = np.stack([first.get(case, 0.0) + rise[case][:, None] * step / 100 for case in CASES], axis=1)
    zeta = np.broadcast_to(zeta[None, None, :, :, None], (2, 1, 3, 4, 1, 51))
    loss = np.broadcast_to(np.exp(-step), zeta.shape)
    dims = ("task", "activation", "width", "case", "draw", "step")
    coords = {"task": ["regression", "classification"], "activation": ["linear"], "width": width,
              "case": list(CASES), "step": step}  # fmt: skip
    return xr.Dataset({"alignment": (dims, zeta), "loss": (dims, loss), "exact": (dims[3:], zeta[0, 0, -1])}, coords)


def surfaces() -> xr.Dataset:
    return Hyperboloid.preset("smoke").execute()


def one(ds: xr.Dataset, name: str, where: dict[str, object], value: object) -> xr.Dataset:
    """The same with some values of a variable replaced."""
    made = ds.copy(deep=True)
    made[name].loc[where] = value
    return made


Bend = Callable[[xr.Dataset], xr.Dataset]
MADE: dict[str, tuple[AbstractExperiment, Callable[[], xr.Dataset]]] = {
    "portrait": (PhasePortrait(), portrait), "plane": (TeacherPlane(), plane),
    "loss": (SmallestTestLoss(), lambda: losses(1.0, 2.0)), "late": (LateTraining(), late),
    "speed": (DirectionSpeed(), speeds), "second": (SecondPhase(), phases),
    "layers": (Activations(activations=("linear",)), layers), "surfaces": (Hyperboloid.preset("smoke"), surfaces),
}  # fmt: skip
BENT: list[tuple[str, str, Bend]] = [
    ("portrait", "scale_decides", lambda ds: one(ds, "kernel_distance", {"tau": 2.0}, 0.2)),
    ("portrait", "upstream_is_rapid", lambda ds: one(ds, "kernel_distance", {"delta": 0.0, "tau": 0.1}, 0.2)),
    ("portrait", "upstream_is_rapid", lambda ds: one(ds, "kernel_distance", {"delta": 1.0}, 0.0)),
    ("portrait", "activations", lambda ds: one(ds, "hamming", {"delta": -1.0}, 0.4)),
    ("portrait", "activations", lambda ds: one(ds, "parameter_distance", {"delta": 1.0}, 5.0)),
    ("plane", "scale_decides", lambda ds: one(ds, "turned", {"kind": "large", "step": 1000}, 0.4)),
    ("plane", "scale_decides", lambda ds: one(ds, "kernel_distance", {"kind": "large", "step": 1000}, 0.4)),
    ("plane", "upstream_aligns", lambda ds: one(ds, "angle", {"kind": "upstream", "step": 1000}, 0.5)),
    ("plane", "upstream_aligns", lambda ds: one(ds, "angle", {"kind": "downstream", "step": 1000}, 0.05)),
    ("plane", "downstream_stays", lambda ds: one(ds, "turned", {"kind": "downstream", "step": 1000}, 0.5)),
    ("loss", "smallest", lambda ds: losses(2.0, 1.0)),
    ("late", "settled", lambda ds: one(ds, "train_loss", {"step": 1_000_000}, 0.9)),
    ("late", "settled", lambda ds: one(ds, "test_loss", {"step": 1_000_000}, 0.5)),
    ("speed", "upstream", lambda ds: ds.assign(direction=ds.radius)),
    ("speed", "upstream", lambda ds: ds.assign(radius=ds.direction)),
    ("speed", "balanced", lambda ds: ds.assign(radius=ds.direction)),
    ("second", "second", lambda ds: one(ds, "kernel_distance", {"width": "wide"}, ds.kernel_distance[0])),
    ("second", "second", lambda ds: one(ds, "train_loss", {"width": "narrow"}, 1 - 10 * ds.kernel_distance[0])),
    ("second", "delayed", lambda ds: ds.assign(t=ds.t / ds["size"] ** 2)),
    ("layers", "upper", lambda ds: one(ds, "alignment", {"case": "kernel", "step": 100.0}, 0.7)),
    ("layers", "orthogonal", lambda ds: one(ds, "alignment", {"case": "orthogonal", "step": 100.0}, 0.8)),
    ("layers", "near_orthogonal", lambda ds: one(ds, "alignment", {"case": "near orthogonal", "step": 50.0}, 0.99)),
    ("layers", "classes", lambda ds: one(ds, "alignment", {"task": "classification", "case": "feature"}, 0.0)),
    ("layers", "keeps_moving", lambda ds: ds.assign(alignment=ds.alignment.isel(step=0) + (ds.alignment.isel(step=-1)
     - ds.alignment.isel(step=0)) * (ds.step > 0))),
    ("layers", "exact_line", lambda ds: ds.assign(exact=ds.exact + 0.1)),
    ("surfaces", "stays", lambda ds: ds.assign(a=1.001 * ds.a)),
    ("surfaces", "stays", lambda ds: ds.assign(simulated_delta=ds.simulated_delta + 1e-6)),
    ("surfaces", "signs", lambda ds: ds.assign(a=-ds.a.where(ds.t > 0, -ds.a))),
    ("surfaces", "signs", lambda ds: ds.assign(a=abs(ds.a))),
    ("surfaces", "ends", lambda ds: ds.assign(loss=0 * ds.loss + 1)),
    ("surfaces", "ends", lambda ds: ds.assign(a=abs(ds.a))),
]  # fmt: skip


@pytest.mark.parametrize("name", MADE)
def test_all_claims_hold_on_a_run_made_so(name: str) -> None:
    experiment, make = MADE[name]
    found = findings(experiment, make())
    assert set(found.values()) == {"holds"}, found


@pytest.mark.parametrize(("name", "claim", "bend"), BENT, ids=[f"{n}-{c}-{i}" for i, (n, c, _) in enumerate(BENT)])
def test_each_claim_fails_on_a_run_that_is_bent(name: str, claim: str, bend: Bend) -> None:
    experiment, make = MADE[name]
    assert findings(experiment, bend(make()))[claim] == "fails"


def test_runs_that_are_too_short_or_few_are_undecided() -> None:
    few = losses(1.0, 2.0).isel(seed=slice(0, 4))
    assert findings(SmallestTestLoss(seeds=4), few)["smallest"] == "undecided"
    assert findings(SmallestTestLoss(), losses(1.0, 1.0))["smallest"] == "undecided"
    assert findings(LateTraining(steps=1000), late().assign_coords(step=[100, 1000]))["settled"] == "undecided"
    slow = layers()
    slow["loss"] = slow.loss * 0 + np.linspace(1, 0, 51)
    assert findings(Activations(activations=("linear",)), slow)["keeps_moving"] == "undecided"
