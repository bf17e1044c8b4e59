"""KUN24 Fig. 3: size, angle and kernel distance of the single neuron, exact and simulated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, overlay
from richter.figure.build import number
from richter.refs import KUN24
from richter.theory import SingleNeuron
from richter.theory.discrete import descend, drift_per_step

if TYPE_CHECKING:
    import xarray as xr

SHOWN = ("mu", "phi", "kernel_distance")
CLOSE = 1e-8  # exact against an integrator run at 1e-11
FLAT = 0.1  # a metric below this is near zero, a change above half is a change
RATES = 3  # steps of gradient descent: h, h/2, h/4
FAR = 8.0  # an imbalance much larger than ‖β*‖ = 1


@dataclass(frozen=True, kw_only=True)
class NeuronDynamics(AbstractExperiment):
    """One start in function space, β₀ ⊥ β* of the same length, at many imbalances; exact, integrated and by descent."""

    name = "kun24-neuron-dynamics"
    title = "Exact solutions of the single neuron"
    statement = (
        "The same function at the start learns in different regimes as δ goes from far below to far above 0: delayed "
        "rich, rich, and lazy; the closed forms for μ, φ and S(0, t) are those of the simulation."
    )
    places = (KUN24["Fig. 3"], KUN24["Sec. 3"], KUN24["App. A.2"])
    presets = {
        "smoke": {"deltas": (-16.0, -1.0, 0.0, 1.0, 16.0), "moments": 60, "descent": 200},
        "laptop": {},
        "paper": {"deltas": (-64.0, -32.0, -16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0, 32.0, 64.0), "moments": 600},
    }
    deltas: tuple[float, ...] = setting(
        (-16.0, -8.0, -4.0, -1.0, 0.0, 1.0, 4.0, 8.0, 16.0), "imbalances", symbol="δ", low=-1000, high=1000
    )
    moments: int = setting(300, "times looked at", low=20)
    span: float = setting(300.0, "last time", symbol="t", low=10)
    step: float = setting(4e-3, "largest step of gradient descent", symbol="h", low=1e-5, high=0.02)
    descent: int = setting(1000, "steps of gradient descent of the largest size", low=50)

    def theory(self) -> SingleNeuron:
        """β₀ = (1, 0), β* = (0, 1)."""
        return SingleNeuron.from_imbalance(
            beta0=np.array([1.0, 0.0]), delta=np.array(self.deltas), beta_star=[0.0, 1.0], batch=("imbalance",)
        )

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact and integrated paths; drift of δ under gradient descent at three steps, and per step by formula."""
        theory = self.theory()
        t = np.concatenate([[0.0], np.geomspace(1e-3, self.span, self.moments - 1)])
        progress("exact paths", 0.1)
        ds = theory.solve(t, only=(*SHOWN, "a", "w", "delta"))
        progress("simulated paths", 0.2)
        simulated = theory.simulate(t, only=(*SHOWN, "delta"))
        for name in (*SHOWN, "delta"):
            ds[f"simulated_{name}"] = simulated[name]
        progress("gradient descent", 0.8)
        halves = [2**k for k in range(RATES)]
        runs = [descend(theory, self.step / k, [0, 1, self.descent * k]).delta for k in halves]
        first = drift_per_step(theory, [0.0], self.step).delta.isel(t=0)
        ds["descent_drift"] = (("step_size", "imbalance"), np.array([r.isel(t=2) - r.isel(t=0) for r in runs]))
        ds["first_step_drift"] = runs[0].isel(t=1, drop=True) - runs[0].isel(t=0, drop=True)
        ds["first_step_formula"] = ("imbalance", first.values)
        return ds.assign_coords(
            imbalance=("imbalance", np.array(self.deltas), {"symbol": "δ"}), step_size=self.step / np.array(halves)
        )

    @claim("our theoretical predictions agree with gradient flow simulations for μ, φ and S(0, t)", KUN24["Fig. 3"])
    def agrees(self, ds: xr.Dataset) -> Verdict:
        """K2: largest differences; and what S would be with a₀ for a(t), as in the authors' code."""
        gap = {name: float(abs(ds[name] - ds[f"simulated_{name}"]).max()) for name in SHOWN}
        wrong = _distance_with_first_a(ds)
        true = ds.kernel_distance
        off = float((wrong / true.where(true > 1e-9)).max())
        return Verdict.of(
            max(gap.values()) < CLOSE,
            f"largest gaps: μ {gap['mu']:.1e}, φ {gap['phi']:.1e}, S {gap['kernel_distance']:.1e} "
            f"(S with a₀ in the place of a(t) would be up to {off:.2g} times too large)",
            f"below {CLOSE:g}: the integrator's tolerance",
            self._scale(ds),
        )

    @claim("δ is conserved throughout gradient flow", KUN24["App. A.1"], KUN24["Sec. 3"])
    def conserved(self, ds: xr.Dataset) -> Verdict:
        """K1: drift of the flows; one step of descent against its formula; order of the total in the step."""
        size = np.hypot(np.array(self.deltas), 2.0)  # a² + ‖w‖² at the start
        flow = float((abs(ds.delta - ds.imbalance).max("t") / size).max())
        simulated = float((abs(ds.simulated_delta - ds.imbalance).max("t") / size).max())
        formula = float((abs(ds.first_step_drift - ds.first_step_formula) / size).max())
        total = np.abs(ds.descent_drift.transpose("step_size", "imbalance").values).max(axis=1)
        order = float(np.polyfit(np.log(ds.step_size), np.log(total), 1)[0])
        return Verdict.of(
            flow < 1e-12 and simulated < 1e-8 and formula < 1e-13 and abs(order - 1) < 0.1,
            f"relative drift: exact {flow:.1e}, simulated {simulated:.1e}; a step of descent differs from "
            f"h²η_aη_w(η_a g_a² − η_w‖g_w‖²) by {formula:.1e}; the total is of order {order:.3f} in the step",
            "0 to rounding and to the integrator's tolerance; equal; order 1 ± 0.1",
            f"{self._scale(ds)}; steps {', '.join(f'{h:g}' for h in ds.step_size.values)} to t = "
            f"{self.descent * self.step:g}",
        )

    @claim("upstream, μ changes only slightly, φ exponentially aligns and S remains near zero", KUN24["Fig. 3"])
    def upstream(self, ds: xr.Dataset) -> Verdict:
        """The largest δ: β goes straight from β₀ to β*, so that μ dips to 1/√2 of its value and no further."""
        if max(self.deltas) < FAR:
            return Verdict.undecided(f"δ goes to {max(self.deltas):g} only", f"δ ≥ {FAR:g}", self._scale(ds))
        here = ds.sel(imbalance=max(self.deltas))
        dip, far = 1 - float(here.mu.min()), float(here.kernel_distance.max())
        late = here.where((here.phi > 0.9) & (1 - here.phi > 1e-9), drop=True)
        slope = np.polyfit(late.t, np.log(1 - late.phi), 1)[0] / -float(here.imbalance)
        straight = 1 - 1 / np.sqrt(2)
        return Verdict.of(
            dip < straight + 0.02 and far < FLAT and abs(slope / 2 - 1) < 0.15,
            f"μ dips by {dip:.2f}, S stays below {far:.1e}, 1 − φ falls with rate {slope:.2f} δ",
            f"μ by at most {straight:.2f}, as on the straight way; S below {FLAT:g}; rate 2δ ± 15 % (1 − φ goes like "
            "the square of the angle)",
            f"δ = {number(max(self.deltas))}",
        )

    @claim("at balance both μ and φ change significantly and S quickly moves away from zero", KUN24["Fig. 3"])
    def balanced(self, ds: xr.Dataset) -> Verdict:
        """δ = 0: changes, and when S is half of its largest value."""
        if 0.0 not in self.deltas:
            return Verdict.undecided("δ = 0 is not among the imbalances", "δ = 0", self._scale(ds))
        here = ds.sel(imbalance=0.0)
        dip, far = 1 - float(here.mu.min()), float(here.kernel_distance.max())
        when = float(here.t[np.argmax(here.kernel_distance.values >= far / 2)])
        return Verdict.of(
            dip > FLAT and far > FLAT and when < 2,
            f"μ dips by {dip:.2f}, φ goes from 0 to 1, S reaches {far:.2f}, half of it by t = {when:.2f}",
            f"changes above {FLAT:g}, within a time of order 1/‖β*‖",
            "δ = 0",
        )

    @claim("downstream, μ quickly drops to zero, then μ and φ slowly climb to one; S remains small before a sudden "
           "transition towards one", KUN24["Fig. 3"])  # fmt: skip
    def downstream(self, ds: xr.Dataset) -> Verdict:
        """The smallest δ: the drop, the climb, and S at the drop and at the end."""
        if min(self.deltas) > -FAR:
            return Verdict.undecided(f"δ goes down to {min(self.deltas):g} only", f"δ ≤ −{FAR:g}", self._scale(ds))
        here = ds.sel(imbalance=min(self.deltas))
        low = int(np.argmin(here.mu.values))
        drop, least = float(here.t[low]), float(here.mu[low])
        climbed = float(here.t[np.argmax(here.mu.values[low:] > 0.5) + low])
        early, late = float(here.kernel_distance[low]), float(here.kernel_distance[-1])
        return Verdict.of(
            least < FLAT and climbed > 20 * drop and early < FLAT and late > 0.8 and float(here.mu[-1]) > 0.99,
            f"μ is down to {least:.3f} at t = {drop:.2f} (S there {early:.1e}) and back at ½ at t = {climbed:.1f}; S "
            f"ends at {late:.3f}",
            f"μ and S below {FLAT:g} at the drop, a climb at least 20 times later, S above 0.8 in the end",
            f"δ = {number(min(self.deltas))}, t to {self.span:g}",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """μ, φ and S over time."""
        late = ds.isel(t=slice(1, None))
        simulated = late[[f"simulated_{name}" for name in SHOWN]].rename({f"simulated_{n}": n for n in SHOWN})
        for name in SHOWN:
            simulated[name].attrs.update(ds[name].attrs)
        return overlay(
            late, simulated, SHOWN, by="imbalance", x_log=True,
            title="Exact solutions of the single neuron",
            caption="Single neuron a w·x on whitened inputs, β₀ = (1, 0), β* = (0, 1), by its imbalance δ: integrated "
            "(colour) and exact (dashed). After KUN24 Fig. 3; time is logarithmic.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        low, high = number(min(self.deltas)), number(max(self.deltas))
        return f"{ds.sizes['imbalance']} imbalances from {low} to {high}, {ds.sizes['t']} times to {self.span:g}"


def _distance_with_first_a(ds: xr.Dataset) -> xr.DataArray:
    """S(0, t) if the kernel at t had a₀² for a(t)²: K = a₀²I + w wᵀ."""
    a0, w0 = ds.a.isel(t=0), ds.w.isel(t=0)
    inputs = ds.sizes["input"]
    m, first, size = a0**2, (w0**2).sum("input"), (ds.w**2).sum("input")
    inner = inputs * m * m + m * size + m * first + (ds.w * w0).sum("input") ** 2
    norm = lambda s: np.sqrt(inputs * m * m + 2 * m * s + s * s)
    return 1 - inner / (norm(size) * norm(first))
