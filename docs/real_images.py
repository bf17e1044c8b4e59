"""Watch LeNet-5 on MNIST and a small CNN on CIFAR-10, each lazy and rich, as a user would; write reports and a table.

    python docs/real_images.py FOLDER [--sets mnist,cifar10] [--steps 3000]

Needs the files of `richter data`. The numbers are those of docs/measuring.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import richter
from richter.measurement.compare import compare
from richter.moves import OutputScale, ZeroOutput
from richter.report.comparison import comparison_report
from richter.report.run import run_report
from richter.tasks import cifar10, mnist
from richter.training import lenet5

TAUS = {"mnist": {"lazy": 50.0, "rich": 0.3}, "cifar10": {"lazy": 500.0, "rich": 0.3}}
RATES = {"mnist": 0.01, "cifar10": 0.04}
BATCH, PROBE, POINTS = 64, 256, 32


def small_cnn() -> nn.Module:
    """Two convolutions and two full layers, 103,000 parameters."""
    return nn.Sequential(
        nn.Conv2d(3, 12, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(12, 24, 3, stride=2, padding=1), nn.ReLU(),
        nn.Flatten(), nn.Linear(1536, 64), nn.ReLU(), nn.Linear(64, 10),
    )  # fmt: skip


def run(name: str, tau: float, steps: int, file: Path) -> dict[str, Any]:
    """One network trained by a plain loop and watched: three lines of it are Richter's."""
    x, y, x_test, y_test = _data(name)
    torch.manual_seed(0)
    net = ZeroOutput(how="mirror").apply(lenet5() if name == "mnist" else small_cnn(), x[:4]).model
    move = OutputScale(tau=tau).apply(net)
    net = move.model
    optimiser = torch.optim.SGD(net.parameters(), lr=RATES[name] * move.rate)
    begun = time.perf_counter()
    with richter.watch(
        net, (x[:PROBE], y[:PROBE]), optimiser=optimiser, steps=steps, moments=12, budget=0.3, kernel_points=POINTS,
        file=file, resume=False,
    ) as see:  # fmt: skip
        for step in range(steps):
            rows = torch.randint(0, len(x), (BATCH,))
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(net(x[rows]), y[rows])
            loss.backward()
            optimiser.step()
            see(step + 1, loss)
    seconds = time.perf_counter() - begun
    with torch.no_grad():
        right = float((net.eval()(x_test).argmax(1) == y_test).float().mean())
    made = richter.measure(see.dataset())
    run_report(made, file.with_suffix(".html"), f"{name}, outputs × {tau:g}")
    return {"set": name, "tau": tau, "right": right, "seconds": round(seconds, 1),
            "overhead": see.dataset().attrs["overhead"], "regime": made.regime.plain()}  # fmt: skip


def _data(name: str) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    task = {"mnist": mnist, "cifar10": cifar10}[name](train=20000, test=2000).standardise().torch()
    return task.inputs, task.targets, task.test_inputs, task.test_targets


def main() -> None:
    """Every set, lazy and rich, and both on one page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sets", default="mnist,cifar10")
    parser.add_argument("--steps", type=int, default=3000)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.sets.split(","):
        files = {words: options.folder / f"{name}-{words}.nc" for words in TAUS[name]}
        for words, tau in TAUS[name].items():
            print(json.dumps(run(name, tau, options.steps, files[words]), default=float), flush=True)
        both = compare(*map(str, files.values()))
        comparison_report(both, options.folder / f"{name}.html")


if __name__ == "__main__":
    main()
