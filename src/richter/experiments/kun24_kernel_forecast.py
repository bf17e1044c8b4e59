"""KUN24 Fig. 1b from the start alone: how far the kernel moves, foretold by one linearised stride."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Finding, Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import kept, students
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark
from richter.figure.scale import ColourScale
from richter.refs import KUN24
from richter.regime import LAZY_BELOW
from richter.tasks import teacher_student

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
LOOKS = (1 / 3, 1.0, 3.0, 10.0)  # in units of the time in which the start's kernel fits
EARLY = 1.0
LEAST = 0.9  # rank correlation
DRAWS = 2000
POINTS = 100  # examples whose kernel is measured


@dataclass(frozen=True, kw_only=True)
class KernelForecast(AbstractExperiment):
    """Students over scale and imbalance: the forecast of each start against what gradient descent does."""

    name = "kun24-kernel-forecast"
    title = "The movement of the kernel, foretold"
    statement = (
        "How far the kernel of a ReLU student moves early in training follows from its start: one linearised stride "
        "orders the starts by scale and imbalance as training does."
    )
    places = (KUN24["Fig. 1"], KUN24["App. D.1"])
    presets = {
        "smoke": {"taus": 4, "deltas": 3, "seeds": 2, "steps": 100},
        "laptop": {},
        "paper": {"taus": 17, "deltas": 17, "seeds": 16, "examples": 1000, "inputs": 100, "steps": 1000},
    }
    taus: int = setting(8, "scales from 0.05 to 2", low=3)
    deltas: int = setting(9, "imbalances from −1 to 1", low=3)
    seeds: int = setting(20, "draws of teacher, student and data", low=2)
    steps: int = setting(400, "steps in which the start's kernel fits", low=50)
    examples: int = setting(20, "training examples", symbol="n", low=4)
    inputs: int = setting(2, "inputs", symbol="d", low=2)
    width: int = setting(50, "neurons of the student", symbol="h", low=2)
    seed: int = setting(0, "first seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """Predicted and measured movements over (seed, delta, tau[, moment])."""
        import xarray as xr

        taus, deltas = np.geomspace(0.05, 2, self.taus), np.linspace(-1, 1, self.deltas)
        cells = [(float(tau), float(delta)) for delta in deltas for tau in taus]
        shape = (len(deltas), len(taus))
        said, seen = [], []
        for k in range(self.seeds):
            progress(f"seed {self.seed + k}", k / self.seeds)
            predicted, measured = self._one(self.seed + k, cells, kept(store, f"seed-{self.seed + k}"))
            said.append(predicted.reshape(3, *shape))
            seen.append(measured.reshape(3, *shape, len(LOOKS)))
        names = ("movement", "turn")
        made = {
            f"predicted_{name}": (("seed", "delta", "tau"), np.stack([s[i] for s in said]))
            for i, name in enumerate(names)
        } | {
            f"measured_{name}": (("seed", "delta", "tau", "moment"), np.stack([s[i] for s in seen]))
            for i, name in enumerate((*names, "loss_left"))
        }  # fmt: skip
        made["stiffness"] = (("seed", "delta", "tau"), np.stack([s[2] for s in said]))
        seeds = np.arange(self.seed, self.seed + self.seeds)
        ds = xr.Dataset(made, {"seed": seeds, "delta": deltas, "tau": taus, "moment": list(LOOKS)})
        ds.moment.attrs["long_name"] = "time in units of that in which the start's kernel fits"
        return ds

    def _one(self, seed: int, cells: list[tuple[float, float]], store: Path | None) -> tuple[Floats, Floats]:
        """Of one seed: (movement, 1 − cosine, fit time × fastest rate) foretold, (movement, 1 − cosine, loss left)."""
        from richter.advice.forecast import forecast
        from richter.training import train_many, two_layer

        world = teacher_student(self.examples, d=self.inputs, width=2 * (self.width // 2), n_test=0, rng=seed)
        x, y = world.task.inputs, world.task.targets
        starts = [world.student(tau, delta) for tau, delta in cells]
        told = [
            forecast(two_layer(s.a.tolist(), s.w.tolist()).double(), (x, y), loss="square", whole=len(x))
            for s in starts
        ]
        looks = [0, *(round(part * self.steps) for part in LOOKS)]
        run = train_many(
            students(world, cells), world.task, steps=looks[-1], rate=[f.time / self.steps for f in told],
            loss="square", moments=looks, see=("train_loss", "parameters"), dtype="float64", checkpoints=store,
        ).dataset  # fmt: skip
        measured = np.empty((3, len(cells), len(LOOKS)))
        points = x[:POINTS]
        for c in range(len(cells)):
            K0 = _kernel(run, c, 0, points)
            for j in range(len(LOOKS)):
                K = _kernel(run, c, j + 1, points)
                measured[0, c, j] = np.linalg.norm(K - K0) / np.linalg.norm(K0)
                measured[1, c, j] = ((K0 / np.linalg.norm(K0) - K / np.linalg.norm(K)) ** 2).sum() / 2
        losses = run.train_loss.values
        measured[2] = losses[:, 1:] / losses[:, :1]
        return np.array([[f.movement, f.turn, f.time * f.fastest] for f in told]).T, measured

    @claim("how far the kernel moves early in training is set by the scale and the imbalance of the start, and "
           "follows from one linearised stride", KUN24["Fig. 1"])  # fmt: skip
    def ranks(self, ds: xr.Dataset) -> Verdict:
        """Rank correlation within each seed over all (τ, δ), at the time in which the start's kernel fits."""
        pairs = _pairs(ds, EARLY)
        point, (low, high) = _rank(pairs), _interval(pairs, _rank)
        later = ", ".join(f"{_rank(_pairs(ds, m)):.3f} at {number(m, 3)} ×" for m in ds.moment.values if m != EARLY)
        turned = _rank(_pairs(ds, EARLY, "turn"))
        return _against(
            point, low, high, f"{point:.3f}; of 1 − cosine {turned:.3f}; at other times {later}",
            f"rank correlation at least {LEAST:g}", self._scale(ds), f"95 %: {low:.3f} to {high:.3f}",
        )  # fmt: skip

    @claim("the scale alone does not set the regime: δ matters as much when τ is small", KUN24["Fig. 1"])
    def more_than_scale(self, ds: xr.Dataset) -> Verdict:
        """The control: rank correlation of the measured movement with −τ, and by how much the forecast beats it."""
        pairs = _pairs(ds, EARLY)
        alone = np.stack([np.broadcast_to(-np.tile(ds.tau.values, ds.sizes["delta"]), pairs[0].shape), pairs[1]])
        both = np.concatenate([pairs, alone])
        gap = lambda four: _rank(four[:2]) - _rank(four[2:])
        low, high = _interval(both, gap)
        found: Finding = "holds" if low > 0 else "fails" if high < 0 else "undecided"
        return Verdict(
            found, f"forecast {_rank(pairs):.3f}, τ alone {_rank(alone):.3f}", "the forecast is ahead",
            self._scale(ds), f"lead, 95 %: {low:.3f} to {high:.3f}",
        )  # fmt: skip

    @claim("the kernel hardly moves where it is said to be lazy, and the number itself is right there",
           KUN24["Sec. 3"])  # fmt: skip
    def numbers(self, ds: xr.Dataset) -> Verdict:
        """Where the forecast's own assumption holds: share of cells within a factor of two of it, by seeds."""
        told, seen = _pairs(ds, EARLY)
        lazy, near = told < LAZY_BELOW, np.abs(np.log2(seen / told)) < 1
        share = lambda pair: float((pair[0] & pair[1]).sum() / max(pair[0].sum(), 1))
        both = np.stack([lazy, near])
        point, (low, high) = share(both), _interval(both, share)
        false = float(((seen >= LAZY_BELOW) & lazy).sum() / lazy.sum())
        rich = np.median(np.log2(seen / told)[~lazy]) if (~lazy).any() else np.nan
        count = f"{int(lazy.sum())} cells that are foretold to be lazy"
        return _against(
            point, low, high, f"{point:.1%} of {count} are within a factor of two, {false:.1%} of them were not lazy; "
            f"where it is foretold to be rich, measured over foretold is {2.0**rich:.2g} in the median",
            f"{LEAST:.0%} within a factor of two", self._scale(ds), f"95 %: {low:.1%} to {high:.1%}",
        )  # fmt: skip

    def figure(self, ds: xr.Dataset) -> Figure:
        """Both maps over τ and δ, and one against the other."""
        told = ds.predicted_movement.median("seed")
        seen = ds.measured_movement.sel(moment=EARLY).median("seed")
        low = float(min(told.min(), seen.min()))
        high = float(max(told.max(), seen.max()))
        scale = ColourScale("movement of the kernel", "sequential", low, high, "log")
        maps = [
            Panel((mark("cells", ds.tau, ds.delta, values=values.transpose("delta", "tau"), label=words),),
                  x="τ: scale", y="δ: imbalance", x_log=True, colours=scale, title=f"({letter}) {words}")
            for letter, words, values in (("a", "foretold from the start", told), ("b", "measured", seen))
        ]  # fmt: skip
        x, y = (values.ravel() for values in _pairs(ds, EARLY))
        ends = np.array([min(x.min(), y.min()), max(x.max(), y.max())])
        against = Panel(
            (mark("points", x, y, role="measured", label="a start"),
             mark("line", ends, ends, role="guide", label="equal"),
             mark("vline", [LAZY_BELOW], role="guide", label="lazy to its left")),
            x="‖K − K₀‖/‖K₀‖ foretold", y="‖K − K₀‖/‖K₀‖ measured", x_log=True, y_log=True,
            title=f"(c) all starts, rank correlation {_rank(_pairs(ds, EARLY)):.2f}",
        )  # fmt: skip
        return Figure(
            (*maps, against),
            "The movement of the kernel, foretold",
            f"ReLU students of {2 * (self.width // 2)} neurons, {self.inputs} inputs, {self.examples} examples; "
            f"medians over {ds.sizes['seed']} seeds, measured when the start's kernel has had the time to fit. "
            "Foretold by one linearised stride from the start. Setting of KUN24 Fig. 1b and App. D.1.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        size = f"{ds.sizes['tau']} × {ds.sizes['delta']} starts, {ds.sizes['seed']} seeds"
        return f"d = {self.inputs}, h = {2 * (self.width // 2)}, n = {self.examples}, {size}, {self.steps} steps"


def _kernel(run: xr.Dataset, cell: int, moment: int, x: Floats) -> Floats:
    """The tangent kernel of Σ a σ(w·x), written out."""
    w, a = run.weight1.values[cell, moment], run.weight2.values[cell, moment, 0]
    z = x @ w.T
    hidden, slopes = np.maximum(z, 0.0), (z > 0) * a
    return np.asarray(hidden @ hidden.T + (slopes @ slopes.T) * (x @ x.T))


def _pairs(ds: xr.Dataset, moment: float, name: str = "movement") -> Floats:
    """(foretold or measured, seed, cell)."""
    told = ds[f"predicted_{name}"]
    seen = ds[f"measured_{name}"].sel(moment=moment)
    return np.stack([v.transpose("seed", "delta", "tau").values.reshape(ds.sizes["seed"], -1) for v in (told, seen)])


def _rank(pairs: Floats) -> float:
    """Spearman's correlation within each seed, its mean."""
    from scipy.stats import rankdata

    ranks = rankdata(pairs, axis=-1)
    ranks = ranks - ranks.mean(-1, keepdims=True)
    top = (ranks[0] * ranks[1]).sum(-1)
    return float((top / np.sqrt((ranks[0] ** 2).sum(-1) * (ranks[1] ** 2).sum(-1))).mean())


def _interval(values: NDArray[Any], statistic: Callable[[Any], float]) -> tuple[float, float]:
    """The 95 % bootstrap interval over seeds, and over the cells within."""
    rng = np.random.default_rng(0)
    seeds, cells = values.shape[1:]
    made = []
    for _ in range(DRAWS):
        rows, columns = rng.integers(seeds, size=seeds), rng.integers(cells, size=cells)
        made.append(statistic(values[:, rows][:, :, columns]))
    low, high = np.quantile(made, [0.025, 0.975])
    return float(low), float(high)


def _against(point: float, low: float, high: float, measured: str, expected: str, scale: str, interval: str) -> Verdict:
    """Holds if the whole interval does; what an interval cannot tell is undecided."""
    if low < LEAST <= high:
        return Verdict("undecided", measured, expected, scale, interval)
    return Verdict.of(point >= LEAST, measured, expected, scale, interval)
