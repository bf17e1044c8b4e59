"""KUN24 Fig. 8: every coordinate of the single neuron over time, by the paper's case-by-case solutions and exactly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.build import number
from richter.figure.data import mark, scale_of
from richter.maths import neuron_cases as cases
from richter.maths.neuron import neuron_modes
from richter.maths.neuron_crossing import crossing_times
from richter.refs import KUN24
from richter.theory import SingleNeuron

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
TARGET = np.array([1.0, 1.0]) / np.sqrt(2)  # β* points towards π/4
STARTS = {"3π/2": np.array([0.0, -1.0]), "−π/4": np.array([1.0, -1.0]) / np.sqrt(2), "π/4": TARGET}
SHOWN = {"a": "a", "w1": "w₁", "w2": "w₂", "nu": "ν = w·β*/a", "phi": "φ", "omega": "ω = w·β*"}
SPAN = 8.0


@dataclass(frozen=True, kw_only=True)
class Coordinates(AbstractExperiment):
    """a, w, ν, φ and ω from three directions of β₀ at many imbalances: exact, integrated, and as the paper has them."""

    name = "kun24-coordinates"
    title = "All coordinates of the single neuron"
    statement = (
        "The theory recovers the time evolution of every coordinate of the single neuron, whichever way β₀ points; a "
        "or w·β* crosses 0 at most once."
    )
    places = (KUN24["Fig. 8"], KUN24["App. A.2"], KUN24["Lemma A.1"])
    presets = {
        "smoke": {"moments": 40, "starts": 1000, "deltas": (-2.0, 0.0, 2.0)},
        "laptop": {},
        "paper": {"moments": 500, "starts": 50_000},
    }
    deltas: tuple[float, ...] = setting(
        (-4.0, -2.0, -1.0, 0.0, 1.0, 2.0, 4.0), "imbalances", symbol="δ", low=-20, high=20
    )
    moments: int = setting(200, "times looked at", low=20)
    starts: int = setting(20_000, "random starts for the crossings", low=100)
    seed: int = setting(0, "seed of the random starts", low=0)

    def theory(self) -> SingleNeuron:
        """‖β₀‖ = 1 in each direction, at each δ, a₀ > 0."""
        beta0 = np.stack(list(STARTS.values()))[:, None]
        return SingleNeuron.from_imbalance(
            beta0=beta0, delta=np.array(self.deltas)[None], beta_star=TARGET, batch=("direction", "imbalance")
        )

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Exact and integrated coordinates, gaps of the paper's forms, and counted crossings of random starts."""
        import xarray as xr

        theory, t = self.theory(), np.linspace(0.0, SPAN, self.moments)
        progress("exact", 0.0)
        exact = _coordinates(theory.solve(t, only=("a", "w", "phi")))
        progress("integrated", 0.2)
        simulated = _coordinates(theory.simulate(t, only=("a", "w", "phi")))
        progress("the paper's forms", 0.4)
        gaps = np.array([[self._printed_gap(exact.isel(direction=i, imbalance=j), float(delta), t)
                          for j, delta in enumerate(self.deltas)] for i in range(len(STARTS))])  # fmt: skip
        progress("crossings", 0.8)
        rng = np.random.default_rng(self.seed)
        a0, w0, target = (rng.standard_normal(shape) for shape in ((self.starts,), (3, self.starts), (3, self.starts)))
        of_a, of_w = crossing_times(neuron_modes(a0, w0, target))
        crossed = np.isfinite(of_a).astype(float) + np.isfinite(of_w)
        long = np.concatenate([[0.0], np.geomspace(1e-3, 1e3, 200)])
        path = SingleNeuron(a0=a0, w0=w0.T, beta_star=target.T).solve(long, only=("a", "phi"))
        changes = lambda x: (np.diff(np.sign(x.transpose("start", "t").values), axis=1) != 0).sum(axis=1)
        ds = xr.merge([exact, simulated.rename({name: f"simulated_{name}" for name in SHOWN})], combine_attrs="drop")
        ds["printed_gap"] = (("direction", "imbalance"), gaps)
        ds["crossings"], ds["seen"] = ("start", crossed), ("start", changes(path.a) + changes(path.phi))
        return ds.assign_coords(direction=list(STARTS), imbalance=("imbalance", np.array(self.deltas), {"symbol": "δ"}))

    def _printed_gap(self, here: xr.Dataset, delta: float, t: Floats) -> float:
        """Largest difference of the paper's own forms, where they are defined; NaN where they are not."""
        a, omega, phi = here.a.values, here.omega.values, here.phi.values
        if delta == 0:
            if abs(phi[0]) > 1 - 1e-9:
                return np.nan  # c_φ is infinite
            mu = a * np.hypot(here.w1.values, here.w2.values)
            printed = (cases.balanced_phi(t, mu[0], phi[0], 1.0), cases.balanced_mu(t, mu[0], phi[0], 1.0))
            return float(max(np.abs(printed[0] - phi).max(), np.abs(printed[1] - mu).max()))
        if (a > 0).all():
            nu = cases.upstream_nu(t, omega[0] / a[0], delta, 1.0)
            made = cases.upstream_a(t, a[0], omega[0] / a[0], delta, 1.0)
            return float(max(np.abs(nu - omega / a).max(), np.abs(made - a).max()))
        v = cases.downstream_v(t, a[0] / omega[0], delta, 1.0)
        made = cases.downstream_omega(t, omega[0], a[0] / omega[0], delta, 1.0)
        return float(max(np.abs(v - a / omega).max(), np.abs(made - omega).max()))

    @claim("our theory recovers the time evolution under gradient flow of the quantities considered", KUN24["Fig. 8"])
    def recovers(self, ds: xr.Dataset) -> Verdict:
        """Exact against integrated a, w, φ, ω, relative to their size."""
        gap = {
            name: float(abs(ds[name] - ds[f"simulated_{name}"]).max() / max(1.0, float(abs(ds[name]).max())))
            for name in ("a", "w1", "w2", "phi", "omega")
        }
        worst = max(gap, key=lambda name: gap[name])
        return Verdict.of(gap[worst] < 1e-8, f"largest relative gap {gap[worst]:.1e} ({SHOWN[worst]})",
                          "the integrator's tolerance, 1e-8", self._scale(ds))  # fmt: skip

    @claim("the dynamics are solved for δ = 0, δ > 0 and δ < 0 separately, through φ, ν or its inverse v",
           KUN24["App. A.2"])  # fmt: skip
    def by_cases(self, ds: xr.Dataset) -> Verdict:
        """The paper's forms (the ones it omits completed) against the single form for every δ."""
        defined = np.isfinite(ds.printed_gap)
        worst = float(ds.printed_gap.max())
        return Verdict.of(
            worst < 1e-8,
            f"largest gap {worst:.1e}; not defined for {int((~defined).sum())} of {defined.size} starts "
            "(aligned at δ = 0, where c_φ = ±∞)",
            "equal to 1e-8, where they are defined",
            self._scale(ds),
        )

    @claim("a(t)w(t)·β* = 0 has at most one solution for t ≥ 0", KUN24["Lemma A.1"])
    def once(self, ds: xr.Dataset) -> Verdict:
        """K6: crossings by their closed form, and sign changes seen along the exact paths."""
        most, seen = int(ds.crossings.max()), int(ds.seen.max())
        agree = float((ds.seen == ds.crossings).mean())
        return Verdict.of(
            most == 1 and seen == 1 and agree > 0.98,
            f"at most {most} by the closed form, {seen} seen; the two agree for {agree:.1%} of the starts",
            "one; nearly all (a crossing after the last time is not seen)",
            f"{ds.sizes['start']} Gaussian starts and targets, three inputs, to t = 1000",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """One row of panels per direction of β₀, one column per coordinate."""
        panels = []
        for direction in STARTS:
            here = ds.sel(direction=direction)
            for name, words in SHOWN.items():
                marks = []
                for delta in self.deltas:
                    row, label = here.sel(imbalance=delta), f"δ = {number(delta)}"
                    seen = row[f"simulated_{name}"].values
                    exact = row[name].values
                    if name == "nu":  # a pole where a crosses 0
                        seen, exact = (np.where(np.abs(x) < 8, x, np.nan) for x in (seen, exact))
                    marks.append(mark("line", ds.t, seen, role="simulated", colour=delta, label=label, group=label))
                    marks.append(mark("line", ds.t, exact, role="exact", label="exact solution"))
                panels.append(
                    Panel(tuple(marks), x="t: time", y=words, title=f"β₀ towards {direction}",
                          colours=scale_of(marks, "δ"))
                )  # fmt: skip
        return Figure(
            tuple(panels),
            "All coordinates of the single neuron",
            "a, w, ν, φ and ω of a w·x on whitened inputs, β* a unit vector towards π/4, β₀ one towards 3π/2, −π/4 and "
            "π/4 (β* itself: nothing moves), a₀ > 0: integrated (colour) and exact (dashed). ν has a "
            "pole where a crosses 0. After KUN24 Fig. 8, whose text and caption name the last coordinate ω and ζ.",
        )

    def _scale(self, ds: xr.Dataset) -> str:
        return f"3 directions × {ds.sizes['imbalance']} imbalances × {ds.sizes['t']} times to {SPAN:g}"


def _coordinates(ds: xr.Dataset) -> xr.Dataset:
    """a, w₁, w₂, φ, ν and ω of paths of a and w."""
    omega = (ds.w * TARGET).sum("input")
    made = ds[["a", "phi"]].assign(
        w1=ds.w.isel(input=0), w2=ds.w.isel(input=1), omega=omega, nu=omega / ds.a.where(ds.a != 0)
    )
    return made.drop_vars("input", errors="ignore")
