"""Speed as ratios measured in one process: `make bench`.

Every line is a ratio with its direction in its name and the bar it must pass. Exit code 1 if a bar is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import subprocess
import sys
import time
import tracemalloc
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

from richter.maths.eigenlearning import eigenlearning
from richter.theory import MultilinearSkills, SingleNeuron, WideScalar


@dataclass(frozen=True)
class Line:
    name: str
    value: float
    unit: str
    bar: str
    passes: bool


def best(work: Callable[[], object], repeats: int) -> float:
    """The shortest of several runs, in seconds."""
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return min(times)


def at_least(name: str, value: float, bar: float, unit: str = "×") -> Line:
    return Line(name, value, unit, f"≥ {bar:g}", value >= bar)


def at_most(name: str, value: float, bar: float, unit: str = "×") -> Line:
    return Line(name, value, unit, f"≤ {bar:g}", value <= bar)


def neuron_integration(theory: SingleNeuron, times: np.ndarray, starts: int, method: str, rtol: float) -> float:
    """Seconds per start of solve_ivp, one start at a time as it is used."""
    target = theory.beta_star

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        error = target - x[0] * x[1:]
        return np.concatenate(([x[1:] @ error], x[0] * error))

    def work() -> None:
        for i in range(starts):
            solve_ivp(flow, (0, times[-1]), np.r_[theory.a0[i], theory.w0[i]], method=method, t_eval=times, rtol=rtol,
                      atol=rtol * 1e-2)  # fmt: skip

    return best(work, 3) / starts


def wide_integration(theory: WideScalar, times: np.ndarray, starts: int, method: str, rtol: float) -> float:
    d = theory.sizes["neuron"]
    gamma, y = float(theory.gamma), float(theory.y)

    def flow(_: float, x: np.ndarray) -> np.ndarray:
        u, w = x[:d], x[d:]
        error = -2 * gamma * (gamma * u @ w - y)
        return np.concatenate((error * w, error * u))

    def work() -> None:
        for i in range(starts):
            x0 = np.r_[theory.u0[i], theory.w0[i, :, 0]]
            solve_ivp(flow, (0, times[-1]), x0, method=method, t_eval=times, rtol=rtol, atol=rtol * 1e-2)

    return best(work, 3) / starts


def exact(theory: SingleNeuron | WideScalar, times: np.ndarray, only: Collection[str] | None, repeats: int) -> float:
    """Seconds per start of `solve`, labels included."""
    return best(lambda: theory.solve(times, only), repeats) / theory.batch_shape[0]


def closed_forms(small: bool) -> list[Line]:
    starts, few, repeats = (200, 3, 3) if small else (1000, 20, 7)
    times = np.linspace(0, 20, 1000)
    neuron = SingleNeuron.random(beta_star=[0.0, 1.0], draws=starts, rng=0)
    wide = WideScalar.random(width=100, gamma=0.1, draws=starts, rng=0)
    state, everything = exact(neuron, times, ("a", "w", "beta"), repeats), exact(neuron, times, None, repeats)
    precise = neuron_integration(neuron, times, few, "DOP853", 1e-10)
    output = exact(wide, times, ("output",), repeats)
    observed = exact(wide, times, ("output", "loss", "alignment", "kernel", "kernel_change", "growth"), repeats)
    wide_precise = wide_integration(wide, times, few, "DOP853", 1e-10)
    return [
        at_least("single neuron, a w β: DOP853 1e-10 / exact", precise / state, 100),
        at_least("single neuron, every variable: DOP853 1e-10 / exact", precise / everything, 30),
        at_least("single neuron, a w β: RK45 1e-6 / exact",
                 neuron_integration(neuron, times, few, "RK45", 1e-6) / state, 10),
        at_least("wide network d = 100, output: DOP853 1e-10 / exact", wide_precise / output, 100),
        at_least("wide network d = 100, scalar variables: DOP853 1e-10 / exact", wide_precise / observed, 30),
        at_least("wide network d = 100, output: RK45 1e-6 / exact",
                 wide_integration(wide, times, few, "RK45", 1e-6) / output, 10),
    ]  # fmt: skip


def scaling(small: bool) -> list[Line]:
    base = 250 if small else 1000
    only = ("a", "w", "beta")

    def seconds(starts: int, moments: int) -> float:
        theory = SingleNeuron.random(beta_star=[0.0, 1.0], draws=starts, rng=0)
        times = np.linspace(0, 20, moments)
        return best(lambda: theory.arrays(times, only), 5)

    one = seconds(base, 1000)
    theory = SingleNeuron.random(beta_star=[0.0, 1.0], draws=base, rng=0)
    times = np.linspace(0, 20, 1000)
    # Interleaved, so that both see the same machine.
    pairs = [
        (best(lambda: theory.arrays(times, only), 1), best(lambda: theory.solve(times, only), 1)) for _ in range(9)
    ]
    bare, labelled = (min(column) for column in zip(*pairs, strict=True))
    return [
        at_most("4 × the starts: time / (4 × time)", seconds(4 * base, 1000) / (4 * one), 1.5),
        at_most("4 × the times: time / (4 × time)", seconds(base, 4000) / (4 * one), 1.5),
        at_most("labels on ≥ 10⁵ values: with / without", labelled / bare, 1.2),
    ]


def skills(small: bool) -> list[Line]:
    """A million eigenvalues, a million skills: what a plain sum over them would cost, and what it would hold."""
    rng = np.random.default_rng(0)
    rho = 10 ** rng.uniform(-12, 2, 10**6)
    times = np.geomspace(1, 1e8, 100 if small else 1000)
    model: dict[str, Any] = {"alpha": 0.6, "n_skills": 10**6, "target": 5.0, "eta": 0.05}
    alike = MultilinearSkills(**model, initial=1e-2)
    each = MultilinearSkills(**model, initial=rng.uniform(1e-3, 1, 10**6))
    loss = ("loss",)
    kappa = max(best(lambda n=n: eigenlearning(rho, n, 1e-3), 3) for n in (1e2, 1e4, 9e5))  # type: ignore[misc]
    together = best(lambda: alike.solve(times, loss), 3)
    apart = best(lambda: each.solve(times[-10:], loss), 3) / 10 * times.size
    tracemalloc.start()
    alike.solve(times, loss)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return [
        at_most("κ of 10⁶ eigenvalues", kappa, 1, "s"),
        at_most(f"loss of 10⁶ skills × {times.size} times", together, 2, "s"),
        at_most("the same: memory it takes", peak / 2**20, 64, "MiB"),
        at_least("10⁶ skills: a term for each / together", apart / together, 10),
    ]


def start_up() -> list[Line]:
    def command(*args: str) -> float:
        return best(lambda: subprocess.run([sys.executable, *args], check=True, capture_output=True), 5)

    theory = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0])
    times = np.linspace(0, 5, 50)
    theory.solve(times)
    small = best(lambda: SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).solve(times), 20)
    return [
        at_most("a small solve with labels", 1e3 * small, 3, "ms"),
        at_most("richter --help", command("-m", "richter", "--help"), 0.4, "s"),
        at_most("import richter", command("-c", "import richter"), 0.25, "s"),
    ]


def all_cores() -> dict[str, str]:
    """An environment in which every library uses every core, whatever this process was told."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return {**os.environ, **dict.fromkeys(names, str(os.cpu_count()))}


def engine(small: bool) -> list[Line]:
    """In a process of its own, because all its libraries get every core."""
    script = [sys.executable, str(Path(__file__).with_name("engine.py")), "--repeats", "5" if small else "25"]
    done = subprocess.run(script, check=True, capture_output=True, env=all_cores())
    micro = json.loads(done.stdout)
    made = []
    for dtype, spent in micro.items():
        what = f"16 networks d 100, h 50, n 1000, {dtype}"
        products = min(spent["blas"], spent["xla"])
        made.append(at_least(f"{what}: numpy loop / engine", spent["numpy"] / spent["engine"], 3))
        made.append(at_least(f"{what}: share of the rate of bare matrix products", products / spent["engine"], 0.6))
    return made


TIMES = {"lenet5": 10.0, "mlp": 10.0, "resnet18": 3.0, "transformer": 1.0}  # faster than torch.func
# A trace of few examples is little more than its backward passes, which torch.func has to make too.
OF_FEW = {"lenet5 trace 200": 5.0, "resnet18 trace 20": 2.0}
LESS = ("lenet5", "mlp")  # at least 3 times less memory


def probes(small: bool) -> list[Line]:
    """The kernel against the better of torch.func's two methods, and the large cases by the clock."""
    script = [sys.executable, str(Path(__file__).with_name("probes.py")), *(["--small"] if small else [])]
    found = json.loads(subprocess.run(script, check=True, capture_output=True, text=True).stdout)
    made, times = [], {}
    for what, by in found["against"].items():
        net = what.split()[0]
        own, others = by["richter"], [by["jacobian"], by["products"]]
        times[what] = min(o["seconds"] for o in others) / own["seconds"]
        made.append(at_least(f"kernel of {what}: torch.func / probe", times[what], OF_FEW.get(what, TIMES[net])))
        if net in LESS:
            less = min(others, key=lambda o: float(o["seconds"]))["bytes"] / own["bytes"]
            made.append(at_least(f"kernel of {what}: memory, torch.func / probe", less, 3))
    if not small:
        grown = times["resnet18 full 60"] / times["resnet18 full 20"]
        made.append(at_least("kernel of resnet18: the ratio at 60 examples / at 20", grown, 1))
    gib = 2**30
    for what, name, seconds, size in (
        ("distance", "trace distance of LeNet-5 on 6000 examples", 30, 2),
        ("language", "sketched distance of 124 million parameters, 32 × 64 tokens", 180, 8),
    ):
        seen = found[what]
        made.append(at_most(name, seen["seconds"], seconds, "s"))
        made.append(at_most(f"{name}: memory of the whole process", seen["whole"] / gib, size, "GiB"))
    share = found["spectrum"]["bytes"] / found["spectrum"]["held"]
    made.append(at_most("4096 features of 50 000 examples: memory / that of the features", share, 0.5))
    return made


def watching(small: bool) -> list[Line]:
    """What three lines around a training loop cost, of runs of 40 s."""
    script = [sys.executable, str(Path(__file__).with_name("watching.py")), *(["--nets", "mlp"] if small else [])]
    found = json.loads(subprocess.run(script, check=True, capture_output=True, text=True, env=all_cores()).stdout)
    return [
        at_most(f"watching {net} for {seen['seconds']:.0f} s: with / without", seen["slowdown"], 1.05)
        for net, seen in found.items()
    ]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer starts and repeats")
    parser.add_argument("--out", type=Path, default=Path(__file__).with_name("results.json"))
    options = parser.parse_args()
    lines = [
        *closed_forms(options.small),
        *scaling(options.small),
        *skills(options.small),
        *start_up(),
        *engine(options.small),
        *probes(options.small),
        *watching(options.small),
    ]
    for line in lines:
        print(f"{'ok  ' if line.passes else 'MISS'} {line.value:9.3g} {line.unit:2} (bar {line.bar})  {line.name}")
    record = {
        "machine": {"python": platform.python_version(), "numpy": np.__version__, "system": platform.machine()},
        "lines": [asdict(line) for line in lines],
    }
    options.out.write_text(json.dumps(record, indent=1, ensure_ascii=False, default=bool) + "\n")
    print(f"wrote {options.out}")
    return int(not all(line.passes for line in lines))


if __name__ == "__main__":
    raise SystemExit(main())
