"""What the probes cost: the kernel against torch.func's two methods, the large kernels, the spectra of wide features.

Every measurement is a process of its own, so that its peak of memory is its own; the methods take turns, and of each
the shortest time counts. Memory is what a call adds to what the process holds before it, the result included.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

MIB = 2**20
# network → (kind of kernel, examples); torch.func's Jacobian needs 16 s and 2.4 GB for LeNet-5 at 500
CASES: dict[str, tuple[tuple[str, int], ...]] = {
    "lenet5": (("full", 100), ("full", 200), ("trace", 200), ("trace", 500)),
    "mlp": (("full", 100), ("trace", 200)),
    "resnet18": (("full", 20), ("full", 60), ("trace", 20), ("trace", 60)),
    "transformer": (("full", 32), ("trace", 32)),
}
SMALL: dict[str, tuple[tuple[str, int], ...]] = {
    "lenet5": (("full", 100), ("trace", 200)),
    "mlp": (("full", 100),),
    "resnet18": (("full", 20),),
    "transformer": (("full", 32),),
}
METHODS = ("richter", "jacobian", "products")
ROOM = 1e9  # bytes of gradients that a block of kernel-vector products may hold


def network(name: str, examples: int) -> tuple[Any, Any]:
    """A network in evaluation mode and inputs."""
    import torch

    from richter.training import lenet5, mlp, resnet18
    from richter.training.transformers import gpt2

    torch.manual_seed(0)
    if name == "transformer":  # one position, as a classifier reads it
        model = gpt2(layers=2, d=64, heads=4, context=32, vocabulary=32)
        return Last(model).eval(), torch.randint(0, 32, (examples, 32))
    makers: dict[str, tuple[Callable[[], Any], tuple[int, ...]]] = {
        "lenet5": (lenet5, (1, 28, 28)), "mlp": (lambda: mlp(784, [512, 512], 10), (784,)),
        "resnet18": (lambda: resnet18(width=16), (3, 32, 32)),
    }  # fmt: skip
    make, shape = makers[name]
    return make().eval(), torch.randn(examples, *shape)


def Last(model: Any) -> Any:
    """The outputs at a sequence's last position."""
    from torch import nn

    class Reader(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, x: Any) -> Any:
            return self.model(x)[:, -1]

    return Reader()


def by_richter(model: Any, x: Any, kind: str) -> Any:
    """The probe, with its defaults."""
    from richter.probes import ntk

    return ntk(model, x, outputs=kind).values  # type: ignore[arg-type]


def by_jacobian(model: Any, x: Any, kind: str) -> Any:
    """torch.func: all Jacobians, contracted parameter by parameter."""
    import torch

    values = {name: p.detach() for name, p in model.named_parameters()}
    kept = dict(model.named_buffers())
    one = lambda values, x: torch.func.functional_call(model, (values, kept), (x[None],))[0]
    jacobians = torch.func.vmap(torch.func.jacrev(one), (None, 0))(values, x)
    product = "nip,mjp->nmij" if kind == "full" else "nip,mip->nm"
    return sum(torch.einsum(product, j.flatten(2), j.flatten(2)) for j in jacobians.values())


def by_products(model: Any, x: Any, kind: str) -> Any:
    """torch.func: the kernel times unit vectors, a vjp and a jvp per pair of examples, some examples at a time."""
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    values = {name: p.detach() for name, p in model.named_parameters()}
    kept = dict(model.named_buffers())

    def pair(a: Any, b: Any) -> Any:
        at: Any = lambda x: lambda values: torch.func.functional_call(model, (values, kept), (x[None],))[0]
        both: Any = torch.func.vjp(at(a), values)
        out, back = both
        forward = lambda v: torch.func.jvp(at(b), (values,), back(v))[1]
        K = torch.func.vmap(forward)(torch.eye(out.numel(), dtype=out.dtype))
        return K if kind == "full" else K.diagonal().sum()

    block = torch.func.vmap(torch.func.vmap(pair, (None, 0)), (0, None))
    size = 4 * sum(p.numel() for p in values.values()) * model(x[:1]).numel()
    side = max(1, int((ROOM / size) ** 0.5))
    with sdpa_kernel(SDPBackend.MATH):  # the fused attention has no forward derivative
        return torch.cat([torch.cat([block(a, b) for b in x.split(side)], 1) for a in x.split(side)])


class Peak:
    """The largest memory of this process while something runs, above what it held before, in bytes."""

    def __enter__(self) -> Peak:
        self.before, self.top, self.over, self.mark = held(), 0, threading.Event(), high_water()
        self.looking = threading.Thread(target=self._look)
        self.looking.start()
        return self

    def _look(self) -> None:
        while not self.over.wait(0.002):
            self.top = max(self.top, held())

    def __exit__(self, *_: object) -> None:
        self.over.set()
        self.looking.join()
        high = high_water()
        # The high-water mark is exact, where it is this call's.
        self.top = max(self.top, high if high > self.mark else 0) - self.before


def high_water() -> int:
    """The most bytes that this process has held."""
    return 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def held() -> int:
    """Bytes that this process holds now."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def one(name: str, kind: str, examples: int, method: str, seconds: float) -> dict[str, float]:
    """Memory of the first call, and the shortest of the calls that fit into so many seconds."""
    warnings.simplefilter("ignore")
    work: Callable[..., Any] = {"richter": by_richter, "jacobian": by_jacobian, "products": by_products}[method]
    model, x = network(name, examples)
    work(model, x[:2], kind)  # what is loaded on first use is not the kernel's
    with Peak() as peak:
        begun = time.perf_counter()
        work(model, x, kind)
        times = [time.perf_counter() - begun]
    while sum(times) + min(times) < seconds:
        begun = time.perf_counter()
        work(model, x, kind)
        times.append(time.perf_counter() - begun)
    return {"seconds": min(times), "bytes": peak.top}


def against(cases: dict[str, tuple[tuple[str, int], ...]], rounds: int, seconds: float) -> dict[str, Any]:
    """Every case by every method, in turns."""
    made: dict[str, Any] = {}
    for name, wanted in cases.items():
        for kind, examples in wanted:
            found: dict[str, dict[str, float]] = {}
            for _ in range(rounds):
                for method in METHODS:
                    if method == "products" and "products" in found:
                        continue  # it is never the faster one by a little; once is enough
                    seen = apart("one", name, kind, str(examples), method, str(seconds))
                    best = found.setdefault(method, seen)
                    best |= {key: min(best[key], seen[key]) for key in seen}
            made[f"{name} {kind} {examples}"] = found
    return made


def apart(*args: str) -> dict[str, Any]:
    """A measurement in a process of its own."""
    done = subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True)
    if done.returncode:
        return {"seconds": float("inf"), "bytes": float("inf"), "failed": done.stderr.strip().splitlines()[-1][:200]}
    return dict(json.loads(done.stdout))


if __name__ == "__main__":
    if sys.argv[1:2] == ["one"]:
        name, kind, n, method, seconds = sys.argv[2:]
        print(json.dumps(one(name, kind, int(n), method, float(seconds))))
    else:
        print(json.dumps(against(SMALL, 1, 2), indent=1))
