"""What watching a training run costs: two copies of one network trained in turns, one watched, one not.

Both see the same machine, step by step; the watch's clock stands still while the other copy trains. Loading what
the watch needs, its start, its end and its file are counted. Each network in a process of its own, so that nothing is
loaded before.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

BATCH, TURN = 128, 0.25  # examples per step; seconds of a turn
PROBE = 256  # examples of the probe


class Clock:
    """Seconds, but for those in which it stood still."""

    def __init__(self) -> None:
        self.lost, self.stopped = 0.0, 0.0

    def __call__(self) -> float:
        return time.perf_counter() - self.lost

    def stop(self) -> None:
        self.stopped = time.perf_counter()

    def go(self) -> None:
        self.lost += time.perf_counter() - self.stopped


def network(name: str) -> tuple[Callable[[], Any], Any, Any]:
    """A function that makes the network, inputs, classes."""
    import torch

    from richter.tasks import digits
    from richter.training import lenet5, mlp, resnet8

    task = digits().torch(torch.float32)
    x, y = task.inputs, task.targets
    square = x.reshape(-1, 1, 8, 8)
    if name == "mlp":
        return lambda: mlp(64, [512, 512, 512], 10), x, y
    if name == "lenet5":
        return lambda: lenet5(), torch.nn.functional.interpolate(square, (28, 28)), y
    return lambda: resnet8(width=16), torch.nn.functional.interpolate(square, (32, 32)).expand(-1, 3, -1, -1), y


def measure(name: str, seconds: float) -> dict[str, Any]:
    """Both copies trained until the bare one has had so many seconds."""
    import torch

    make, x, y = network(name)
    generator = torch.Generator().manual_seed(0)

    def step(net: Any, optimiser: Any) -> Any:
        rows = torch.randint(0, len(x), (BATCH,), generator=generator)
        optimiser.zero_grad()
        loss = torch.nn.functional.cross_entropy(net(x[rows]), y[rows])
        loss.backward()
        optimiser.step()
        return loss

    nets = [make() for _ in range(2)]
    optimisers = [torch.optim.SGD(net.parameters(), lr=0.01) for net in nets]
    start = time.perf_counter()
    for net, optimiser in zip(nets, optimisers, strict=True):  # the first steps of all load and allocate
        for _ in range(3):
            step(net, optimiser)
    turn = max(1, round(TURN * 6 / (time.perf_counter() - start)))
    spent = {"watched": 0.0, "bare": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        clock, begun = Clock(), time.perf_counter()
        import richter

        see = richter.watch(
            nets[0], probe=(x[:PROBE], y[:PROBE]), optimiser=optimisers[0], file=Path(folder) / "run.nc"
        )  # fmt: skip
        spent["watched"] += time.perf_counter() - begun
        budget = see.recorder.budget
        budget.clock, steps = clock, 0
        order = ["watched", "bare"]
        while spent["bare"] < seconds:
            order.reverse()  # who goes first finds other things in the cache
            for who in order:
                if who == "bare":
                    clock.stop()
                begun = time.perf_counter()
                for _ in range(turn):
                    if who == "bare":
                        step(nets[1], optimisers[1])
                    else:
                        steps += 1
                        see(steps, step(nets[0], optimisers[0]))
                spent[who] += time.perf_counter() - begun
                if who == "bare":
                    clock.go()
        begun = time.perf_counter()
        see.close()
        spent["watched"] += time.perf_counter() - begun
    ds = see.dataset()
    return {
        "slowdown": spent["watched"] / spent["bare"], "reported": 1 + ds.attrs["overhead"], "steps": steps,
        "seconds": spent["bare"], "looks": ds.sizes["step"], "left_out": ds.attrs["left_out"],
        "kernels": int(ds.kernel_distance_full.notnull().sum()), "gradients": ds.attrs.get("gradients_seen", 0),
        "seconds_of_looks": budget.totals,
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=40)
    parser.add_argument("--nets", default="mlp,lenet5,resnet8")
    parser.add_argument("--one", action="store_true", help="in this process")
    options = parser.parse_args()
    names = options.nets.split(",")
    if options.one:
        print(json.dumps(measure(names[0], options.seconds)))
        return
    made = {}
    for name in names:
        command = [sys.executable, __file__, "--one", "--nets", name, "--seconds", str(options.seconds)]
        made[name] = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    print(json.dumps(made))


if __name__ == "__main__":
    main()
