"""XU24 Fig. 1 and 7: the layers of wide two-layer networks align, disalign, or stay as they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.experiments.teacher_student_runs import kept, part
from richter.figure import Figure, Panel
from richter.figure.data import mark
from richter.refs import XU24
from richter.tasks import Task
from richter.theory import WideScalar
from richter.training import Networks, train_many

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CASES = ("kernel", "feature", "orthogonal", "near orthogonal")
ACTIVATIONS = ("linear", "relu", "leaky-relu", "sigmoid", "swish")
STEP = {"regression": 0.08, "classification": 3.0}  # rate × kernel at the start, well below what is stable
FASTER = {"sigmoid": 8.0}  # its kernel is so much smaller than that of the others
FINE = 20  # the linear network on one example takes so many steps for one of the others


@dataclass(frozen=True, kw_only=True)
class Activations(AbstractExperiment):
    """The alignment angle ζ = cos(u, w) while networks of one input learn, for several activations."""

    name = "xu24-activations"
    title = "Layers align, disalign or stay"
    statement = (
        "Under feature scaling the layers of a wide network align, under kernel scaling they do not; aligned layers "
        "with too large an output disalign. It is so for all activations, and for classification."
    )
    places = (XU24["Fig. 1"], XU24["Fig. 7"], XU24["Sec. 3.2"], XU24["App. B.1"])
    presets = {
        "smoke": {"widths": (100, 300), "steps": 1000, "activations": ("linear", "relu", "sigmoid"), "examples": 40},
        "laptop": {},
        "paper": {"draws": 8, "steps": 10_000},
    }
    widths: tuple[int, ...] = setting(
        (100, 300, 1000, 3000, 10_000), "widths; the figure shows the last", symbol="d", low=10
    )
    activations: tuple[str, ...] = setting(ACTIVATIONS, "activations", choices=ACTIVATIONS)
    draws: int = setting(2, "networks of each case", low=1, high=100)
    examples: int = setting(100, "training examples of the nonlinear networks", symbol="n", low=10)
    steps: int = setting(2000, "steps of gradient descent", low=100, high=10**6)
    moments: int = setting(40, "steps looked at", low=10, high=1000)
    seed: int = setting(0, "seed", low=0)

    def run(self, progress: Progress = silent, store: Path | None = None) -> xr.Dataset:
        """ζ and the loss over (task, activation, width, case, draw, step); classification at the last width only."""
        import xarray as xr

        jobs = [(t, a, d) for t in STEP for a in self.activations for d in self.widths
                if t == "regression" or d == self.widths[-1]]  # fmt: skip
        cost = np.cumsum([0.0] + [float(d) + 500 for _, _, d in jobs])
        shape = (len(STEP), len(self.activations), len(self.widths), len(CASES), self.draws, self.moments)
        made = {name: np.full(shape, np.nan) for name in ("alignment", "loss")}
        exact = np.full(shape[3:], np.nan)
        share = np.geomspace(1, self.steps, self.moments - 1) / self.steps
        looks = np.concatenate([[0.0], share])
        for k, (task, activation, width) in enumerate(jobs):
            networks = self.networks(task, activation, width)
            data = self.task(task, activation)
            fine = FINE if activation == "linear" and task == "regression" else 1
            size = np.array(
                [np.sum(u**2) + np.sum(w**2) for u, w in zip(networks.weights[1], networks.weights[0], strict=True)]
            )
            gamma = np.asarray(networks.output_scale)
            rate = STEP[task] * FASTER.get(activation, 1.0) / fine / (gamma**2 * size * np.mean(data.inputs**2))
            steps = self.steps * fine
            at = np.unique((looks * steps).round().astype(int))
            ds = train_many(
                networks, data, steps=steps, rate=rate, moments=at, functions={"alignment": _alignment},
                loss="square" if task == "regression" else "binary-cross-entropy", see=("train_loss",),
                progress=part(progress, f"{activation}, d = {width}", cost[k] / cost[-1], cost[k + 1] / cost[-1]),
                checkpoints=kept(store, f"{task}-{activation}-{width}"),
            ).dataset  # fmt: skip
            place = (list(STEP).index(task), self.activations.index(activation), self.widths.index(width))
            for name, values in (("alignment", ds["alignment"].values), ("loss", ds.train_loss.values)):
                rows = [np.interp(looks * steps, at, row) for row in values]
                made[name][place] = np.reshape(rows, shape[3:])
            if fine > 1 and width == self.widths[-1]:
                exact = self.exact(networks, rate, looks * steps).reshape(shape[3:])
        dims = ("task", "activation", "width", "case", "draw", "step")
        return xr.Dataset(
            {**{name: (dims, values) for name, values in made.items()}, "exact": (dims[3:], exact)},
            {"task": list(STEP), "activation": list(self.activations), "width": list(self.widths),
             "case": list(CASES), "step": looks * self.steps},
        )  # fmt: skip

    def networks(self, task: str, activation: str, width: int) -> Networks:
        """The four starts, `draws` of each, the same for every activation.

        Aligned layers give a large output at γ = 1/√d; for a cross-entropy that at γ = 1/d is large enough.
        """
        rng = np.random.default_rng([self.seed, width])
        u, w, gamma = [], [], []
        for case in CASES:
            for _ in range(self.draws):
                second = rng.standard_normal(width) * (np.sqrt(10) if case == "near orthogonal" else 1.0)
                other = rng.standard_normal(width)
                first = {"orthogonal": second, "near orthogonal": second + np.sqrt(0.1) * other}.get(case, other)
                u.append(second)
                w.append(first[:, None])
                large = case == "kernel" or (case != "feature" and task == "regression")
                gamma.append(width**-0.5 if large else 1 / width)
        return Networks.two_layer(u, w, activation=activation, output_scale=np.array(gamma))

    def task(self, name: str, activation: str) -> Task:
        """One example for the linear network, noisy ones on a line for the others; or two Gaussian classes."""
        rng = np.random.default_rng([self.seed, 1])
        n = self.examples
        if name == "classification":
            labels = np.arange(n) % 2
            x = rng.standard_normal(n) + 4.0 * labels
            return Task(inputs=x[:, None], targets=labels, test_inputs=x[:1, None], test_targets=labels[:1],
                        name="two classes", kind="classification", classes=("0", "1"))  # fmt: skip
        x = np.ones(1) if activation == "linear" else rng.standard_normal(n)
        y = np.array([2.0]) if activation == "linear" else 2 * x + rng.standard_normal(n) / 10
        return Task(inputs=x[:, None], targets=y, test_inputs=x[:1, None], test_targets=y[:1], name="line")

    def exact(self, networks: Networks, rate: Floats, steps: Floats) -> Floats:
        """ζ of the exact solution at the times of these steps, (start, step)."""
        rows = []
        for k in range(len(networks)):
            theory = WideScalar(
                u0=networks.weights[1][k, 0], w0=networks.weights[0][k], x=[1.0], y=2.0,
                gamma=float(np.asarray(networks.output_scale)[k]),
            )  # fmt: skip
            rows.append(theory.solve(rate[k] * steps, ("alignment",)).alignment.values)
        return np.array(rows)

    @claim("ζ monotonically increases under feature learning, but the increase is negligible in the kernel phase; "
           "qualitatively similar for nonlinear networks", XU24["Fig. 1"], XU24["Sec. 3.2"])  # fmt: skip
    def upper(self, ds: xr.Dataset) -> Verdict:
        """X4: ζ(∞) − ζ(0) against the width."""
        if ds.sizes["width"] < 2:
            return Verdict.undecided("one width only", "a power of the width", self._scale(ds))
        rise = self._change(ds.sel(task="regression")).mean("draw")
        widths = ds.width.values.astype(float)
        power = {}
        for case in ("kernel", "feature"):
            rows = np.log(np.abs(rise.sel(case=case).transpose("width", "activation").values))
            power[case] = np.polyfit(np.log(widths), rows, 1)[0]
        last = rise.isel(width=-1)
        kept, gone = last.sel(case="feature"), last.sel(case="kernel")
        holds = float(kept.min()) > 0.1 and bool((np.abs(power["feature"]) < 0.15).all())
        holds &= bool((power["kernel"] < -0.3).all()) and float((gone / kept).max()) < 0.25
        measured = (
            f"at d = {widths[-1]:,.0f} ζ rises by {_by(kept)} under γ = 1/d, powers of d {_two(power['feature'])}; by "
            f"{_by(gone)} under γ = 1/√d, powers {_two(power['kernel'])}"
        )
        expected = "γ = 1/d: above 0.1, power within ±0.15; γ = 1/√d: below a quarter of that, power below −0.3"
        if not holds and widths[-1] < 1000:
            return Verdict.undecided(f"the widths are too small: {measured}", expected, self._scale(ds))
        return Verdict.of(holds, measured, expected, self._scale(ds), f"mean of {ds.sizes['draw']} draws")

    @claim("orthogonal initialization: ζ is initialized to be 1, so it remains 1 as predicted", XU24["Fig. 1"],
           XU24["Sec. 3.2"])  # fmt: skip
    def orthogonal(self, ds: xr.Dataset) -> Verdict:
        """X5: u = w at the largest width; exact for positively homogeneous activations, others are judged here."""
        here = ds.alignment.sel(task="regression", case="orthogonal").isel(width=-1).mean("draw")
        falls = 1 - here.min("step")
        return Verdict.of(float(falls.max()) < 0.05, f"ζ falls by {_by(falls)}", "by less than 0.05", self._scale(ds),
                          f"mean of {ds.sizes['draw']} draws")  # fmt: skip

    @claim("in the near orthogonal case, with the initial model output large, ζ monotonically decreases; this "
           "phenomenon holds for all non-linear activation functions", XU24["Fig. 1"], XU24["Sec. 3.2"])  # fmt: skip
    def near_orthogonal(self, ds: xr.Dataset) -> Verdict:
        """X5: the fall of ζ, and the largest rise on the way, at the largest width."""
        near = ds.alignment.sel(task="regression", case="near orthogonal").isel(width=-1).mean("draw")
        fall = near.isel(step=0) - near.isel(step=-1)
        up = near.diff("step").max("step")
        return Verdict.of(
            float(fall.min()) > 0.1 and float((up / fall).max()) < 0.02,
            f"ζ falls by {_by(fall)}, with rises of at most {max(float(up.max()), 0.0):.1g}",
            "by more than 0.1, rises below 2 % of the fall", self._scale(ds), f"mean of {ds.sizes['draw']} draws",
        )  # fmt: skip

    @claim("classification: layers align in the feature learning regime when they are initialized to be disaligned, "
           "and vice versa", XU24["Fig. 7"], XU24["App. B.1"])  # fmt: skip
    def classes(self, ds: xr.Dataset) -> Verdict:
        """X13: the change of ζ with the binary cross-entropy."""
        change = self._change(ds.sel(task="classification").isel(width=-1)).mean("draw")
        rise, fall = change.sel(case="feature"), change.sel(case="near orthogonal")
        return Verdict.of(
            float(rise.min()) > 0.05 and float(fall.max()) < -0.01,
            f"from 0 (γ = 1/d) ζ changes by {_by(rise)}; from nearly 1 by {_by(fall)}", "above 0.05; below −0.01",
            self._scale(ds), f"mean of {ds.sizes['draw']} draws",
        )  # fmt: skip

    @claim("because of the binary cross-entropy loss, ζ keeps decreasing even after the loss converges",
           XU24["Fig. 7"], XU24["App. B.1"])  # fmt: skip
    def keeps_moving(self, ds: xr.Dataset) -> Verdict:
        """X13: what ζ still moves in the near orthogonal case once 99 % of the loss's fall is done."""
        here = ds.sel(task="classification", case="near orthogonal").isel(width=-1).mean("draw")
        fallen = (here.loss.isel(step=0) - here.loss) / (here.loss.isel(step=0) - here.loss.isel(step=-1))
        moved = here.alignment.isel(step=0) - here.alignment
        left = 1 - moved.isel(step=(fallen >= 0.99).argmax("step")) / moved.isel(step=-1)
        measured = f"after 99 % of the loss's fall ζ still does {_by(left)} of its own"
        expected = "more than 0.02 of it, for every activation"
        half = float((1 - fallen.sel(step=ds.step[-1] / 2, method="nearest")).max())
        if half > 0.02:
            words = f"the loss has not converged: its last half of the steps does {half:.0%} of its fall; {measured}"
            return Verdict.undecided(words, expected, self._scale(ds))
        return Verdict.of(float(left.min()) > 0.02, measured, expected, self._scale(ds),
                          f"mean of {ds.sizes['draw']} draws")  # fmt: skip

    @claim("for the linear network the theoretical prediction passes through the points", XU24["Fig. 1"])
    def exact_line(self, ds: xr.Dataset) -> Verdict:
        """X1: the largest gap between gradient descent and the exact ζ."""
        if "linear" not in ds.activation:
            return Verdict.undecided("no linear network", "0", self._scale(ds))
        here = ds.alignment.sel(task="regression", activation="linear").isel(width=-1)
        gap = float(abs(here - ds.exact).max())
        return Verdict.of(
            gap < 0.01, f"largest |Δζ| {gap:.2g}", "below 0.01, of first order in the step", self._scale(ds)
        )

    def _change(self, ds: xr.Dataset) -> xr.DataArray:
        return ds.alignment.isel(step=-1) - ds.alignment.isel(step=0)

    def figure(self, ds: xr.Dataset) -> Figure:
        """ζ over the steps: alignment and disalignment, regression and classification."""
        panels = []
        letters = iter("abcdefgh")
        for task in STEP:
            for case, words in zip(
                CASES, ("γ = 1/√d", "γ = 1/d", "orthogonal start", "near orthogonal start"), strict=True
            ):
                here = ds.sel(task=task, case=case).isel(width=-1, step=slice(1, None)).alignment.mean("draw")
                marks = []
                for name in self.activations:
                    row = here.sel(activation=name)
                    kind: Any = "points" if name == "linear" else "line"
                    marks.append(mark(kind, row.step, row, role="simulated", colour=name, label=name, group=name))
                if task == "regression" and "linear" in self.activations:
                    row = ds.exact.sel(case=case).isel(step=slice(1, None)).mean("draw")
                    marks.append(mark("line", row.step, row, role="exact", label="exact solution"))
                panels.append(
                    Panel(tuple(marks), x="steps", y="ζ: alignment of the layers", x_log=True, y_range=(-0.1, 1.05),
                          title=f"({next(letters)}) {task}: {words}")
                )  # fmt: skip
        return Figure(
            tuple(panels),
            "Layers align, disalign or stay",
            f"ζ = cos(u, w) of two-layer networks of width {self.widths[-1]:,}, mean of {ds.sizes['draw']} draws. "
            f"(a–d) y = 2x; the linear network learns one example (dots, exact solution dashed; {FINE} finer steps for "
            f"each), the others {self.examples} noisy ones. (e–h) Two Gaussian classes with the binary cross-entropy. "
            "After XU24 Figs. 1 and 7.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        widths = ", ".join(f"{int(width):,}" for width in ds.width.values)
        return f"d = {widths}; {ds.sizes['activation']} activations, {ds.sizes['draw']} draws, {self.steps:,} steps"


def _alignment(layers: Any) -> Any:
    """ζ of one network of one input (XU24 Eq. 11)."""
    w, u = layers[0][0][:, 0], layers[1][0][0]
    return (u * w).sum() / ((u * u).sum() * (w * w).sum()) ** 0.5


def _by(values: xr.DataArray) -> str:
    return ", ".join(
        f"{float(value):.2g} ({name})" for name, value in zip(values.activation.values, values, strict=True)
    )


def _two(values: Floats) -> str:
    return f"{values.min():.2f} to {values.max():.2f}"
