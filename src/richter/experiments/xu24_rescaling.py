"""XU24 §3.3: the four ways in which the norms of the layers change while the network learns."""

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
from richter.maths.wide_law import NORMS, norm_case
from richter.refs import XU24
from richter.theory import WideScalar

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
CASES = NORMS[1:]  # the four of §3.3
TIMES = np.geomspace(1e-6, 1e4, 500)
STILL = 1e-9  # relative changes of a norm below this are none
SHALLOW = 1e-6  # where the norms turn within this of their start the path cannot show it
BLOCK = 500


@dataclass(frozen=True, kw_only=True)
class Rescaling(AbstractExperiment):
    """Random members of every case: what the conditions on P, Q and α₊ say, and what ‖u‖ and ‖v‖ do."""

    name = "xu24-rescaling"
    title = "Learning by rescaling: four cases"
    statement = (
        "Which of four things the norms of the layers do (grow, shrink, shrink and then grow, stay) is decided by P, Q "
        "and α₊; they grow while the layers are being aligned and shrink while they are being disaligned."
    )
    places = (XU24["Sec. 3.3"],)
    presets = {"smoke": {"members": 400, "widths": (100, 300, 1000)}, "laptop": {}, "paper": {"members": 100_000}}
    members: int = setting(6000, "random networks", low=100)
    neurons: int = setting(4, "their neurons", low=1, high=100)
    widths: tuple[int, ...] = setting((100, 300, 1000, 3000, 10_000, 30_000), "widths in the kernel scaling", low=10)
    seed: int = setting(0, "seed of the draws", low=0)

    def network(self) -> WideScalar:
        """Members with correlated layers of either sign, all rates and targets; the last fiftieth at α₊ = 1."""
        rng = np.random.default_rng(self.seed)
        n, h = self.members, self.neurons
        u = 10 ** rng.uniform(-1, 1, (n, 1)) * rng.standard_normal((n, h))
        v = 10 ** rng.uniform(-1, 1, (n, 1)) * rng.standard_normal((n, h)) + rng.uniform(-1, 1, (n, 1)) * u
        y = 10 ** rng.uniform(-1, 1, n) * rng.choice([-1.0, 1.0], n)
        still = n - n // 50
        y[still:] = (u * v).sum(axis=1)[still:]
        rates = 10 ** rng.uniform(-0.7, 0.7, (2, n))
        return WideScalar(u0=u, w0=v[..., None], x=[1.0], y=y, eta_u=rates[0], eta_w=rates[1])

    def run(self, progress: Progress = silent) -> xr.Dataset:
        """The case of every member by its numbers and by its path; norms of wide networks and of aligned starts."""
        import xarray as xr

        net = self.network()
        said, seen, agree, shallow = [], [], [], []
        params = {name: np.asarray(value) for name, value in net.params.items()}
        for first in range(0, self.members, BLOCK):
            progress(f"member {first}", 0.8 * first / self.members)
            cut = {
                k: v[first : first + BLOCK] if v.ndim and v.shape[0] == self.members else v for k, v in params.items()
            }
            part = net.with_(**cut)
            path = part.solve([0.0, *TIMES, np.inf], only=("u", "w", "p", "q", "growth", "alignment"))
            p, q = (np.asarray((path[name].isel(t=0) ** 2).sum("neuron")) for name in "pq")
            end = path.growth.values[:, -1]
            said.append(norm_case(p, q, np.where(np.abs(end - 1) < STILL, 1.0, end)))
            shallow.append((np.sqrt(p) - np.sqrt(q)) ** 2 < SHALLOW * (p + q))
            norms = (path.u**2).sum("neuron").values
            both = _observed(norms), _observed((path.w**2).sum(("neuron", "input")).values)
            seen.append(np.where(both[0] == both[1], both[0], 0.0))
            size = np.sqrt(norms)
            up, turn = np.diff(size, axis=1), np.diff(np.abs(path.alignment.values), axis=1)
            clear = (np.abs(up) > STILL * size[:, 1:]) & (np.abs(turn) > STILL)
            agree.append(((np.sign(up) == np.sign(turn)) | ~clear).all(axis=1))
        progress("wide networks", 0.9)
        kernel: list[float] = []
        aligned: list[float] = []
        for width in self.widths:
            rng = np.random.default_rng([self.seed, width])
            u, w = rng.standard_normal((2, 20, width))
            ends = [
                WideScalar(u0=first, w0=second[..., None], x=[1.0], y=2.0, gamma=gamma)
                .solve([0.0, np.inf], only=("u",))
                .u
                for first, second, gamma in ((u, w, width**-0.5), (u, u, 1 / width))
            ]
            for row, made in zip((kernel, aligned), ends, strict=True):
                size = np.sqrt((made**2).sum("neuron"))
                row.append(float(np.median(np.abs(size.isel(t=1) / size.isel(t=0) - 1))))
        says = {"said": "case by P, Q and α₊", "seen": "case by the paths of both norms, 0 if they differ"}
        data = {name: ("member", np.concatenate(row), {"long_name": says[name]})
                for name, row in (("said", said), ("seen", seen))}  # fmt: skip
        data["agree"] = ("member", np.concatenate(agree))  # type: ignore[assignment]
        data["shallow"] = ("member", np.concatenate(shallow))  # type: ignore[assignment]
        data["kernel_change"], data["aligned_change"] = ("width", kernel), ("width", aligned)  # type: ignore[assignment]
        return xr.Dataset(data, {"width": list(self.widths)})

    @claim("(1) the norms monotonically increase, (2) decrease, (3) first decrease and then increase, (4) stay, by the "
           "order of P, Q, α₊, 1 and √(Q/P)", XU24["Sec. 3.3"])  # fmt: skip
    def cases(self, ds: xr.Dataset) -> Verdict:
        """X6: members counted by case, and the exceptions."""
        shallow = ds.shallow & (ds.said == 3)
        wrong = int(((ds.said != ds.seen) & ~shallow).sum())
        counts = [int((ds.said == k).sum()) for k in range(1, 5)]
        return Verdict.of(
            wrong == 0 and min(counts) > 0,
            f"{wrong} exceptions; "
            + ", ".join(f"{n} {words}" for n, words in zip(counts, CASES, strict=True))
            + f" ({int(shallow.sum())} that turn too near their start to be seen are not asked)",
            "none, with members in every case",
            self._scale(ds),
        )

    @claim("the norms become larger when the layers are being aligned (|ζ| gets larger), and smaller when they are "
           "being disaligned", XU24["Sec. 3.3"])  # fmt: skip
    def coincide(self, ds: xr.Dataset) -> Verdict:
        """X6: along every path, the signs of the changes of ‖u‖ and |ζ|."""
        wrong = int((~ds.agree).sum())
        return Verdict.of(wrong == 0, f"{wrong} paths with a step in which the two disagree", "none", self._scale(ds))

    @claim("in the kernel phase the scale change of the model vanishes; in the orthogonal initialization it changes by "
           "an O(1) amount", XU24["Sec. 3.3"])  # fmt: skip
    def wide(self, ds: xr.Dataset) -> Verdict:
        """X6: relative changes of ‖u‖ against the width."""
        power = float(np.polyfit(np.log(ds.width), np.log(ds.kernel_change), 1)[0])
        last, least = float(ds.kernel_change[-1]), float(ds.aligned_change.min())
        return Verdict.of(
            power < -0.4 and least > 0.2,
            f"kernel scaling {last:.1e} at d = {self.widths[-1]}, power {power:.2f}; aligned start {least:.2f} or more",
            "a negative power; above 0.2 at every width",
            f"widths {', '.join(str(d) for d in self.widths)}, medians of 20 draws, y = 2",
        )

    def figure(self, ds: xr.Dataset) -> Figure:
        """One path per case, and the changes against width."""
        t = np.geomspace(1e-2, 30, 200)
        marks: list[Mark] = []
        for words, share in zip(CASES, (3.0, 0.3, -2.0, 1.0), strict=True):  # f(0) = 0.68
            path = WideScalar(u0=[1.0, -0.3], w0=[[0.8], [0.4]], x=[1.0], y=0.68 * share).solve([0.0, *t], only=("u",))
            size = np.sqrt((path.u**2).sum("neuron"))
            row = (size / size.isel(t=0)).values[1:]
            marks.append(mark("line", t, row, role="exact", colour=words, label=words, group=words))
        lines: list[Mark] = []
        for name, words in (
            ("kernel_change", "kernel scaling, γ = 1/√d"),
            ("aligned_change", "aligned start, γ = 1/d"),
        ):
            lines.append(mark("line", ds.width, ds[name], role="exact", colour=words, label=words, group=words))
        return Figure(
            (
                Panel(tuple(marks), x="t: time", y="‖u‖ in units of its start", x_log=True, title="(a) four cases"),
                Panel(tuple(lines), x="d: width", y="relative change of ‖u‖ in training", x_log=True, y_log=True,
                      title="(b) by the width"),
            ),
            "Learning by rescaling: four cases",
            "(a) The norm of the output layer from one start of two neurons, for targets of 3, 0.3, −2 and 1 times the "
            "first output. (b) In the kernel scaling the change vanishes with the width; aligned layers learn by it. "
            "On XU24 Section 3.3.",
        )  # fmt: skip

    def _scale(self, ds: xr.Dataset) -> str:
        return f"{ds.sizes['member']} random networks of {self.neurons} neurons, {TIMES.size} times each, exact"


def _observed(norms: Floats) -> Floats:
    """The case that squared norms (member, time) show: 1 grow, 2 shrink, 3 shrink then grow, 4 stay, 0 none of them."""
    least = norms.min(axis=1)
    down = (norms[:, 0] - least) > STILL * norms[:, 0]
    up = (norms[:, -1] - least) > STILL * norms[:, -1]
    lowest = np.argmin(norms, axis=1)
    steps = np.diff(norms, axis=1)
    place = np.arange(steps.shape[1])
    falls, rises = steps <= STILL * norms[:, 1:], steps >= -STILL * norms[:, 1:]
    shaped = ((falls | (place >= lowest[:, None])) & (rises | (place < lowest[:, None]))).all(axis=1)
    case = np.where(down & up, 3, np.where(down, 2, np.where(up, 1, 4)))
    return np.where(shaped, case, 0).astype(float)
