"""XU24 §3.1 and 3.2: the alignment is monotone, the end depends on the rates, and what has no data never moves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from richter.experiments.base import AbstractExperiment, Progress, silent
from richter.experiments.claims import Verdict, claim
from richter.experiments.settings import setting
from richter.figure import Figure, Panel
from richter.figure.data import Mark, mark
from richter.refs import XU24
from richter.theory import WideScalar
from richter.theory.discrete import descend

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
NEURONS, INPUTS = 6, 3
TIMES = np.geomspace(1e-3, 1e3, 200)
SHIFTS = np.array([0.1, 0.5, 2.0, 10.0])  # factors on the rates
TAIL = 5  # the smallest rates are fitted


@dataclass(frozen=True, kw_only=True)
class RatesAndAlignment(AbstractExperiment):
    """Random members: ζ along their exact paths, and ends under other common and unequal rates."""

    name = "xu24-rates-and-alignment"
    title = "Alignment is monotone and knows no learning rates"
    statement = (
        "ζ is a monotone function of time: it rises if and only if α₊ > 1, whatever the start; the weights at the end "
        "depend on the layers' rates, and directions without data stay as they are."
    )
    places = (XU24["Sec. 3.1"], XU24["Sec. 3.2"], XU24["Eq. 12"], XU24["Eq. 13"])
    presets = {
        "smoke": {"members": 300, "points": 13},
        "laptop": {},
        "paper": {"members": 50_000, "points": 61},
    }
    members: int = setting(5000, "random networks", low=50)
    points: int = setting(31, "ratios of the rates", low=11, high=500)
    width: int = setting(2000, "neurons of the Gaussian network whose rates are varied", low=20, high=100_000)
    seed: int = setting(0, "seed of the draws", low=0)

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """Members, their ends at other rates, and one wide Gaussian network over the ratio of its rates."""
        import xarray as xr

        rng = np.random.default_rng(self.seed)
        n = self.members
        scales = 10 ** rng.uniform(-1.5, 1, (2, n, 1))
        u0, w0 = scales[0] * rng.standard_normal((n, NEURONS)), rng.standard_normal((n, NEURONS, INPUTS))
        w0 *= scales[1][..., None]
        x, y = rng.standard_normal((n, INPUTS)), rng.standard_normal(n)
        eta_u, eta_w = 10 ** rng.uniform(-1, 1, (2, n))
        gamma = 10 ** rng.uniform(-1, 0.5, n)

        def network(rate_u: Floats, rate_w: Floats) -> WideScalar:
            return WideScalar(u0=u0, w0=w0, x=x, y=y, gamma=gamma, eta_u=rate_u, eta_w=rate_w)

        progress("paths", 0.1)
        net = network(eta_u, eta_w)
        zeta = np.concatenate([
            part.solve([0.0, *TIMES, np.inf], only=("alignment",)).alignment.values
            for part in _parts(net, n)
        ])  # fmt: skip
        first, last = (
            made(only=("u", "w", "growth")) for made in (lambda only: net.solve([0.0], only).isel(t=0), net.limit)
        )
        v0 = np.einsum("nhi,ni->nh", w0, x)
        output = gamma * np.einsum("nh,nh->n", u0, v0)
        direction = x / np.linalg.norm(x, axis=1)[:, None]
        moved = last.w.values - w0
        off = moved - np.einsum("nhi,ni->nh", moved, direction)[..., None] * direction[:, None]
        size = np.abs(w0).max(axis=(1, 2)) + np.abs(last.w.values).max(axis=(1, 2))
        ds = xr.Dataset(
            {
                "steps_up": ("member", np.diff(zeta, axis=1).max(axis=1)),
                "steps_down": ("member", np.diff(zeta, axis=1).min(axis=1)),
                "rise": ("member", zeta[:, -1] - zeta[:, 0]), "growth_end": ("member", last.growth.values),
                "first_output": ("member", output), "target": ("member", y),
                "off_data": ("member", np.abs(off).max(axis=(1, 2)) / size),
            }
        )  # fmt: skip
        progress("descent across the data", 0.4)
        few = WideScalar(
            u0=u0[:50], w0=w0[:50], x=x[:50] / 3, y=y[:50], gamma=1.0, eta_u=1.0, eta_w=1.0
        )  # fmt: skip
        after = descend(few, 1e-4, [0, 500])
        change = after.w.isel(t=1).values - after.w.isel(t=0).values
        across = change - np.einsum("nhi,ni->nh", change, direction[:50])[..., None] * direction[:50, None]
        ds["off_data_descent"] = ("walker", np.abs(across).max(axis=(1, 2)) / np.abs(w0[:50]).max(axis=(1, 2)))
        progress("other rates", 0.5)
        end = np.concatenate([last.u.values[..., None], last.w.values], axis=-1).reshape(n, -1)
        norm = np.linalg.norm(end, axis=1)
        kinds = {"both": (1, 1), "u": (1, 0), "w": (0, 1)}
        shift, turned = (np.empty((len(kinds), SHIFTS.size, n)) for _ in range(2))
        for j, factor in enumerate(SHIFTS):
            for i, (on_u, on_w) in enumerate(kinds.values()):
                other = network(eta_u * factor**on_u, eta_w * factor**on_w).limit(only=("u", "w", "alignment"))
                there = np.concatenate([other.u.values[..., None], other.w.values], axis=-1).reshape(n, -1)
                shift[i, j] = np.linalg.norm(there - end, axis=1) / norm
                turned[i, j] = np.abs(other.alignment.values - zeta[:, -1])
        ds["end_shift"], ds["turn"] = ((("rates", "factor", "member"), made) for made in (shift, turned))
        v = v0 / np.linalg.norm(x, axis=1)[:, None]
        inner = lambda a, b: np.einsum("nh,nh->n", a, b)
        area = np.sqrt(inner(u0, u0) * inner(v, v) - inner(u0, v) ** 2)
        needed = y / (gamma * np.linalg.norm(x, axis=1))
        ds["area_gap"] = ("member", np.abs(needed / np.hypot(needed, area) - zeta[:, -1]))
        progress("a wide network", 0.9)
        ratio = np.geomspace(1e-6, 1e6, self.points)
        u, w = rng.standard_normal((2, self.width))
        wide = WideScalar(
            u0=u, w0=w[:, None], x=[1.0], y=1.0, gamma=1 / self.width, eta_u=np.ones(self.points), eta_w=ratio
        ).solve([0.0, np.inf], only=("alignment",))  # fmt: skip
        rise = wide.alignment.isel(t=1) - wide.alignment.isel(t=0)
        P = ((w + np.sqrt(ratio)[:, None] * u) ** 2).mean(axis=1) / 4  # of p = (√η_u w + √η_w u)/2
        ds["wide_rise"], ds["condition"] = ("ratio", rise.values), ("ratio", np.sqrt(ratio) / (2 * P))
        return ds.assign_coords(rates=list(kinds), factor=SHIFTS, ratio=ratio)

    @claim("ζ is always a monotonic function of t", XU24["Sec. 3.2"])
    def monotone(self, ds: xr.Dataset) -> Verdict:
        """X3: the largest step against the direction of the whole change."""
        against = np.where(ds.rise > 0, -ds.steps_down, ds.steps_up)
        worst = float(np.nanmax(against))
        return Verdict.of(worst < 1e-12, f"largest step the other way {worst:.1e}", "0 to rounding (1e-12)",
                          self._scale(ds))  # fmt: skip

    @claim("ζ(t) monotonically increases if α₊ > 1 and monotonically decreases if α₊ < 1", XU24["Eq. 13"])
    def rises(self, ds: xr.Dataset) -> Verdict:
        """X3: sign of the change against α₊ − 1 and against the target's side of the first output."""
        clear = abs(ds.rise) > 1e-9
        by_growth = int(((np.sign(ds.rise) != np.sign(ds.growth_end - 1)) & clear).sum())
        by_target = int(((np.sign(ds.rise) != np.sign(ds.target - ds.first_output)) & clear).sum())
        return Verdict.of(
            by_growth == by_target == 0,
            f"{by_growth} exceptions; as y > f(0): {by_target} exceptions ({int(clear.sum())} members; ζ rises in "
            f"{float((ds.rise > 0).mean()):.0%})",
            "none",
            self._scale(ds),
        )

    @claim("the converged solution depends directly on the magnitudes of the learning rates", XU24["Sec. 3.1"])
    def ends(self, ds: xr.Dataset) -> Verdict:
        """X2: how far the end moves when one rate is changed, or both by one factor."""
        one = ds.end_shift.sel(rates=["u", "w"]).max(("rates", "factor"))
        both = float(ds.end_shift.sel(rates="both").max())
        moved = float((one > 0.01).mean())
        return Verdict.of(
            moved > 0.5,
            f"changing one rate by 0.1 to 10 moves the end by {float(one.median()):.0%} in the median, by over 1 % "
            f"for {moved:.0%} of the members; changing both by one factor by {both:.1e}: only their ratio matters",
            "an end that moves with the rates, by more than 1 % for most",
            self._scale(ds),
        )

    @claim("for any direction orthogonal to x the model will remain unchanged during training", XU24["Sec. 3.1"])
    def no_data(self, ds: xr.Dataset) -> Verdict:
        """X2: the part of w across the data, at t = ∞ and after 500 steps of descent."""
        exact, descent = float(ds.off_data.max()), float(ds.off_data_descent.max())
        return Verdict.of(max(exact, descent) < 1e-12, f"relative change at most {exact:.1e} (exact, t = ∞), "
                          f"{descent:.1e} (descent)", "0 to rounding", self._scale(ds))  # fmt: skip

    @claim("when the learning rates for the two layers are the same, the change in ζ is independent of the rate",
           XU24["Sec. 3.2"])  # fmt: skip
    def equal_rates(self, ds: xr.Dataset) -> Verdict:
        """X14: ends of ζ when both rates are changed by one factor."""
        worst = float(ds.turn.sel(rates="both").max())
        return Verdict.of(worst < 1e-10, f"ζ(∞) moves by at most {worst:.1e}", "0 to rounding", self._scale(ds))

    @claim("the dependence on the learning rate becomes significant once we use different rates on the two layers",
           XU24["Sec. 3.2"])  # fmt: skip
    def unequal_rates(self, ds: xr.Dataset) -> Verdict:
        """X14: ends of ζ when one rate alone is changed, and the closed form that holds no rate."""
        worst, gap = float(ds.turn.sel(rates=["u", "w"]).max()), float(ds.area_gap.max())
        return Verdict.of(
            worst > 0.01,
            f"ζ(∞) moves by at most {worst:.1e} under factors of 0.1 to 10 on either rate; it is y′/√(y′² + A²) with "
            f"y′ = y/γρ and A² = ‖u₀‖²‖v₀‖² − (u₀·v₀)² to {gap:.1e}",
            "a change that can be seen: above 0.01",
            self._scale(ds),
        )

    @claim("when η_u ≫ η_w this condition depends monotonically and (essentially) linearly on η_w", XU24["Sec. 3.2"])
    def linear(self, ds: xr.Dataset) -> Verdict:
        """X14: the power of η_w/η_u in s = √(η_uη_w) y/2γdρP."""
        power = float(np.polyfit(np.log(ds.ratio[:TAIL]), np.log(ds.condition[:TAIL]), 1)[0])
        return Verdict.of(abs(power - 1) < 0.1, f"the condition's first term goes with power {power:.3f} of η_w/η_u",
                          "1 ± 0.1", self._wide(ds))  # fmt: skip

    @claim("making η_w close to η_u has the effect of making the two layers more aligned", XU24["Sec. 3.2"])
    def close_rates(self, ds: xr.Dataset) -> Verdict:
        """X14: the change of ζ over the ratio of the rates."""
        gain = float(ds.wide_rise.max() - ds.wide_rise.min())
        return Verdict.of(gain > 0.01, f"over all ratios the change of ζ, {float(ds.wide_rise.mean()):.3f}, varies by "
                          f"{gain:.1e}", "more by at least 0.01 at equal rates", self._wide(ds))  # fmt: skip

    known_failures = {
        "unequal_rates": "The flow keeps the area A that u and v = Wx/ρ span, A² = ‖u‖²‖v‖² − (u·v)², whatever the "
        "rates. ζ = f′/√(f′² + A²) with f′ = f/γρ is a function of the output alone, so that no learning rate enters "
        "ζ(∞). Rates move the end only along a family of the same ζ.",
        "linear": "At fixed layers s + √(s² + Q/P) depends on η_w through s ∝ √(η_w/η_u): the power is ½. It decides "
        "no more than y > f(0) does, which holds no rate.",
        "close_rates": "ζ(∞) does not depend on the rates at all (see unequal_rates).",
    }

    def figure(self, ds: xr.Dataset) -> Figure:
        """Change of ζ against y − f(0), and against the ratio of the rates."""
        few = ds.isel(member=slice(0, 2000))
        marks: list[Mark] = []
        for words, up in (("α₊ > 1", True), ("α₊ < 1", False)):
            part = few.isel(member=np.flatnonzero((few.growth_end > 1).values == up))
            x = np.arcsinh(part.target - part.first_output)
            marks.append(mark("points", x, part.rise, role="measured", colour=words, label=words, group=words))
        marks += [mark("hline", y=0.0, role="guide"), mark("vline", x=0.0, role="guide")]
        lines = [
            mark("line", ds.ratio, ds[name], role="exact", colour=words, label=words, group=words)
            for name, words in (("wide_rise", "ζ(∞) − ζ(0)"), ("condition", "s of Eq. 13"))
        ]
        return Figure(
            (
                Panel(tuple(marks), x="sinh⁻¹(y − f(0)): side of the target", y="ζ(∞) − ζ(0)",
                      title="(a) random networks"),
                Panel(tuple(lines), x="η_w/η_u: ratio of the rates", y="change of ζ, and s", x_log=True, y_log=True,
                      title=f"(b) {self.width} Gaussian neurons"),
            ),
            "Alignment is monotone and knows no learning rates",
            "(a) The alignment of the layers rises if and only if the target exceeds the first output. (b) Its change "
            "does not depend on the rates, though s of Eq. 13 goes with the root of their ratio. On XU24 Section 3.2.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['member']} random networks of {NEURONS} neurons and {INPUTS} inputs, exact"

    def _wide(self, ds: xr.Dataset) -> str:
        return f"one Gaussian network of {self.width} neurons, γ = 1/d, η_w/η_u from 1e-6 to 1e6, exact"


def _parts(net: WideScalar, count: int) -> list[WideScalar]:
    """The members in blocks whose paths fit into memory."""
    rows = np.array_split(np.arange(count), max(1, count // 2000))
    pick = lambda value, part: value[part]
    return [net.with_(**{name: pick(np.asarray(value), part) for name, value in net.params.items()}) for part in rows]
