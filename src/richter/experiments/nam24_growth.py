"""NAM24 §6.2 and 6.3: the growth factor γ₊ says how greedy or linear a scalar linear network learns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.maths.scalar_limits import greedy_limit, growth_bound, linear_limit
from richter.refs import NAM24
from richter.theory import ScalarNetwork

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CASES = {"small start": "start", "target downscaling": "target", "NTK start": "width"}


@dataclass(frozen=True, kw_only=True)
class Growth(AbstractExperiment):
    """Exact paths of scalar networks along three ways between the linear and the greedy limit."""

    name = "nam24-growth"
    title = "From linear to greedy dynamics"
    statement = (
        "The constant γ₊ of a scalar linear network decides its dynamics: linear when γ₊ ≈ 1, as for small targets or "
        "wide "
        "networks in the NTK normalisation, and greedy when γ₊ is large, as for small starts."
    )
    places = (NAM24["Sec. 6.2"], NAM24["Sec. 6.3"], NAM24["Theorem 1"])
    presets = {"smoke": {"draws": 6, "points": 7, "moments": 200}, "laptop": {}, "paper": {"draws": 400, "points": 25}}
    width: int = setting(100, "neurons, where the width is fixed; even", symbol="p", low=2, high=10_000)
    points: int = setting(13, "members of each case", low=5)
    draws: int = setting(40, "Gaussian starts of each member of the NTK case", low=3)
    moments: int = setting(800, "times looked at", low=100)
    seed: int = setting(0, "seed of the starts", low=0)

    def _members(self, case: str) -> tuple[Floats, list[ScalarNetwork]]:
        """The changed number, and networks: starts of ±1 with equal probabilities (§6.2), Gaussian for the NTK case."""
        rng = np.random.default_rng(self.seed)
        p = 2 * (self.width // 2)
        a = np.ones(p)
        b = np.repeat([1.0, -1.0], p // 2)  # as many aligned as anti-aligned neurons: the first output is 0
        if case == "small start":
            values = np.geomspace(1e-4, 1e-1, self.points)
            return values, [ScalarNetwork(a0=s * a, b0=s * b, target=1.0) for s in values]
        if case == "target downscaling":
            values = np.geomspace(1e-3, 1e2, self.points) * p
            return values, [ScalarNetwork(a0=a, b0=b, target=s) for s in values]
        widths = np.unique(np.geomspace(4, 4096, self.points).round().astype(int))
        made = []
        for n in widths:
            a0, b0 = rng.standard_normal((2, self.draws, n))
            made.append(ScalarNetwork(a0=a0, b0=b0, target=1.0, normalisation=np.sqrt(n)))
        return widths.astype(float), made

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """γ₊, its bound, the distance of θ(t) from the linear and from the greedy limit, and how far weights move."""
        import xarray as xr

        parts = []
        for i, case in enumerate(CASES):
            progress(case, i / len(CASES))
            values, nets = self._members(case)
            rows = np.array([self._measure(net) for net in nets])
            names = ("growth", "over_bound", "linear_gap", "greedy_gap", "aligned", "anti_aligned", "kernel_change")
            data = {name: ("member", row) for name, row in zip(names, rows.T, strict=True)}
            parts.append(xr.Dataset({**data, "value": ("member", values)}))
        ds = xr.concat(parts, "case", join="outer").assign_coords(case=list(CASES))
        says = {
            "growth": "γ₊ (median of the starts)", "over_bound": "γ₊ over its bound S/Σ₀, the smallest of the starts",
                "linear_gap": "largest |θ(t) − linear limit| over S",
            "greedy_gap": "largest |θ(t) − greedy limit| over S", "aligned": "γ₊ − 1: growth of the aligned weights' "
                "square",
            "anti_aligned": "1 − 1/γ₊: decay of the anti-aligned ones", "kernel_change": "change of the kernel at the "
                "end",
        }  # fmt: skip
        for name, words in says.items():
            ds[name].attrs = {"long_name": words}
        return ds

    def _measure(self, net: ScalarNetwork) -> Floats:
        a, b, S, Z = (np.asarray(net.params[name]) for name in ("a0", "b0", "target", "normalisation"))
        sigma = (a * a + b * b).sum(axis=-1) / (2 * Z)
        theta = (a * b).sum(axis=-1) / Z
        rate = 2 * np.sqrt(np.maximum(sigma**2 - theta**2 + S**2, 0)) / Z
        lead = (a + b) ** 2
        delay = np.log1p(S * Z * 4 / lead.sum(axis=-1))
        t = np.concatenate([[0.0], np.geomspace(1e-4, 40.0, self.moments)]) * float(np.max((1 + delay) / rate))
        ds = net.solve(np.append(t, np.inf), only=("output", "growth", "kernel_change"))
        grow = np.atleast_2d(ds.growth.values)[:, -1]
        out = np.atleast_2d(ds.output.values)[:, :-1]
        shape = lambda x: np.atleast_1d(x)[:, None]
        line = linear_limit(t, shape(theta), shape(sigma), S, Z)
        greedy = greedy_limit(t, shape(lead.sum(axis=-1) / (4 * Z)), S, Z)
        first = np.abs(S - theta)
        bound = growth_bound(np.moveaxis(a, -1, 0), np.moveaxis(b, -1, 0), S, Z)
        gaps = [np.median(np.abs(out - row).max(axis=1) / first) for row in (line, greedy)]
        change = np.atleast_2d(ds.kernel_change.values)[:, -1]
        slack = np.min(grow / np.atleast_1d(bound))
        far = np.median(np.abs(grow - 1))
        return np.array([np.median(grow), slack, *gaps, far, np.median(np.abs(1 - 1 / grow)), np.median(change)])

    @claim("γ₊ ≈ 1 implies negligible changes in a and b, resulting in lazy dynamics", NAM24["Sec. 6.3"])
    def linear(self, ds: xr.Dataset) -> Verdict:
        """N18: distance from the linear limit against |γ₊ − 1| over target downscaling and NTK starts,
        where |γ₊ − 1| < 0.3."""
        both = ds.sel(case=["target downscaling", "NTK start"])
        x, y = both.aligned.values.ravel(), both.linear_gap.values.ravel()
        near = np.isfinite(x) & (x < 0.3)
        if near.sum() < 4:
            return Verdict.undecided(f"{near.sum()} members with |γ₊ − 1| < 0.3", "at least 4", self._scale(ds))
        power = float(np.polyfit(np.log(x[near]), np.log(y[near]), 1)[0])
        ratio = y[near] / x[near]
        return Verdict.of(
            power > 0.8 and float(ratio.max()) < 1.0,
            f"the distance from linear dynamics is at most {ratio.max():.2f} |γ₊ − 1| and falls with the power "
            f"{power:.2f} of it "
            f"({near.sum()} members, |γ₊ − 1| from {x[near].min():.1e})", "below |γ₊ − 1|, a power of about 1 or more",
                self._scale(ds),
        )  # fmt: skip

    @claim("the target downscaling with S → 0 leads to γ₊ ≈ 1", NAM24["Sec. 6.2.2"])
    def downscaling(self, ds: xr.Dataset) -> Verdict:
        """N18: |γ₊ − 1| against S/p, where it is small."""
        return self._falls(ds, "target downscaling", 1.0, "S", lambda value: value < 0.1 * self.width)

    @claim("the NTK initialisation with p → ∞, Z = √p leads to γ₊ ≈ 1", NAM24["Sec. 6.2.3"])
    def ntk(self, ds: xr.Dataset) -> Verdict:
        """N18: |γ₊ − 1| against the width."""
        return self._falls(ds, "NTK start", -0.5, "p", lambda value: value >= 32)

    def _falls(self, ds: xr.Dataset, case: str, power: float, symbol: str, where: Callable[[Floats], Any]) -> Verdict:
        here = ds.sel(case=case).dropna("member", subset=["value"])
        kept = where(here.value.values)
        x, y = here.value.values[kept], here.aligned.values[kept]
        fit = np.polyfit(np.log(x), np.log(y), 1)[0]
        last = y.min()
        return Verdict.of(
            abs(fit - power) < 0.12 and last < 0.05,
            f"|γ₊ − 1| ∝ {symbol}^{fit:.3f}, down to {last:.1e}; the kernel changes by "
            f"{float(here.kernel_change.values[kept].min()):.0e} there",
            f"power {power:g} ± 0.12; below 0.05", self._scale(ds),
        )  # fmt: skip

    @claim(
        "the small initialisation leads to larger γ₊, resulting in greedy dynamics",
        NAM24["Sec. 6.2.1"],
        NAM24["Sec. 6.3.1"],
    )
    def greedy(self, ds: xr.Dataset) -> Verdict:
        """N18: γ₊ against the start's size, and the distance from the aligned mode alone."""
        here = ds.sel(case="small start").dropna("member", subset=["value"])
        fit = float(
            np.polyfit(
                np.log(here.value[: max(3, self.points // 2)]), np.log(here.growth[: max(3, self.points // 2)]), 1
            )[0]
        )
        gap, lin = float(here.greedy_gap[0]), float(here.linear_gap[0])
        return Verdict.of(
            abs(fit + 2) < 0.05 and gap < 1e-3 and lin > 0.5,
            f"γ₊ ∝ start^{fit:.3f}, up to {float(here.growth.max()):.1e}; there θ(t) is {gap:.0e} S from the greedy "
            f"limit and {lin:.2f} S "
            "from the linear one", "power −2 ± 0.05; below 1e-3; above 0.5", self._scale(ds),
        )  # fmt: skip

    @claim("γ₊ ≥ S/Σ₀: the ratio of the target and the weights", NAM24["Sec. 6.3.1"])
    def bounded(self, ds: xr.Dataset) -> Verdict:
        """γ₊ over its bound, the smallest over all members and starts."""
        least = float(ds.over_bound.min())
        return Verdict.of(
            least >= 1 - 1e-12, f"γ₊ is at least {least:.3f} times its bound", "at least 1", self._scale(ds)
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """γ₊ of every case, and the distances from the two limits against γ₊ − 1."""
        first: list[Mark] = []
        second: list[Mark] = []
        third: list[Mark] = []
        names = {"small start": "a(0)", "target downscaling": "S/p", "NTK start": "1/√p"}
        for case, words in names.items():
            here = ds.sel(case=case).dropna("member", subset=["value"])
            x = here.value.values
            x = x / self.width if case == "target downscaling" else 1 / np.sqrt(x) if case == "NTK start" else x
            label = f"{case}: {words}"
            first.append(mark("line", x, here.aligned, role="simulated", colour=label, label=label, group=label))
            order = np.argsort(here.aligned.values)
            along = here.aligned.values[order]
            for marks, name in ((second, "linear_gap"), (third, "greedy_gap")):
                marks.append(
                    mark(
                        "line",
                        along,
                        here[name].values[order],
                        role="simulated",
                        colour=label,
                        label=label,
                        group=label,
                    )
                )
                marks.append(
                    mark("points", along, here[name].values[order], role="simulated", colour=label, group=label)
                )
        axis = "|γ₊ − 1|"
        return Figure(
            (
                Panel(tuple(first), x="size that is changed", y=axis, x_log=True, y_log=True, title="(a) Growth"),
                Panel(tuple(second), x=axis, y="distance from linear dynamics", x_log=True, y_log=True,
                    title="(b) Linear limit"),
                Panel(tuple(third), x=axis, y="distance from greedy dynamics", x_log=True, y_log=True,
                    title="(c) Greedy limit"),
            ),
            self.title,
            "Exact solutions of scalar linear networks: largest distance of θ(t) from the linear and the greedy "
            "limit, over |S − θ(0)|. "
            f"Small starts: S = 1, weights ±a(0); target downscaling: weights ±1; both with {self.width} neurons. "
            "NTK: Gaussian weights, "
            f"Z = √p, medians of {self.draws}. After NAM24 Sections 6.2 and 6.3.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"p = {self.width} (NTK: 4 to 4096, {self.draws} starts each), {self.points} members of each case, exact"
