"""What the probes cost: the kernel against torch.func's two methods, the large kernels, the spectra of wide features.

Every measurement is a process of its own, so that its peak of memory is its own; the methods take turns, and of each
the shortest time counts: against torch.func the processor's time on one core, which others' work does not change,
else time by the clock with all cores. Memory is what a call adds to what the process held, the result included.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

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
FEW = 10  # examples on which kernel-vector products are timed
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
    """Memory of the first call, and the least time on one core of the calls that fit into so many seconds."""
    work: Callable[..., Any] = {"richter": by_richter, "jacobian": by_jacobian, "products": by_products}[method]
    model, x = network(name, examples)
    work(model, x[:2], kind)  # what is loaded on first use is not the kernel's
    with Peak() as peak:
        begun = time.process_time()
        work(model, x, kind)
        times = [time.process_time() - begun]
    while len(times) < 2 or sum(times) + min(times) < seconds:  # the first call finds everything cold
        begun = time.process_time()
        work(model, x, kind)
        times.append(time.process_time() - begun)
    return {"seconds": min(times), "bytes": peak.top}


def against(cases: dict[str, tuple[tuple[str, int], ...]], rounds: int, seconds: float) -> dict[str, Any]:
    """Every case by every method, in turns.

    Kernel-vector products cost the same for every pair of examples: they are timed on few and scaled to all.
    """
    made: dict[str, Any] = {}
    for name, wanted in cases.items():
        for kind, examples in wanted:
            found: dict[str, dict[str, Any]] = {}
            for turn in range(rounds):
                for method in METHODS if turn == 0 else METHODS[:2]:
                    n = min(examples, FEW) if method == "products" else examples
                    seen = apart("one", name, kind, str(n), method, str(seconds))
                    seen["seconds"] *= (examples / n) ** 2
                    best = found.setdefault(method, seen)
                    best |= {key: min(best[key], seen[key]) for key in ("seconds", "bytes")}
            made[f"{name} {kind} {examples}"] = found
    return made


def moved(model: Any, by: float) -> Any:
    """Another moment of the network's life: every parameter a little off."""
    import torch

    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(by * p.std() * torch.randn(p.shape, generator=generator))
    return model


def distance(examples: int) -> dict[str, float]:
    """The trace kernel's distance of LeNet-5 on many examples."""
    from richter.probes import compare_kernels

    model, x = network("lenet5", examples)
    now = moved(network("lenet5", 1)[0], 0.1)
    compare_kernels(now, model, x[:4])
    with Peak() as peak:
        begun, core = time.perf_counter(), time.process_time()
        found = compare_kernels(now, model, x, "trace", memory="1.25 GiB")
        seconds, core = time.perf_counter() - begun, time.process_time() - core
    return {
        "seconds": seconds,
        "core": core,
        "bytes": peak.top,
        "whole": high_water(),
        "distance": float(found.distance),
    }


def language(sequences: int, sketches: int) -> dict[str, float]:
    """The sketched kernel's distance of a transformer of GPT-2's shape, 124 million parameters, 64 tokens each."""
    import torch

    from richter.probes import compare_kernels
    from richter.training.transformers import gpt2

    model, now = gpt2(), moved(gpt2(), 0.1)
    x = torch.randint(0, 50257, (sequences, 64), generator=torch.Generator().manual_seed(2))
    begun, core = time.perf_counter(), time.process_time()
    found = compare_kernels(now, model, x, "sketch", sketches=sketches, memory="4.5 GiB")
    seconds, core = time.perf_counter() - begun, time.process_time() - core
    return {
        "seconds": seconds, "core": core, "whole": high_water(), "distance": float(found.distance),
        "error": found.distance.error or 0.0, "sketches": sketches, "sequences": sequences,
        "parameters": sum(p.numel() for p in model.parameters()),
    }  # fmt: skip


def spectrum(width: int, examples: int) -> dict[str, float]:
    """Eigenfunctions of wide features, streamed."""
    import torch

    from richter.probes import features

    torch.manual_seed(0)
    net = torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.ReLU(), torch.nn.Linear(width, 10)).eval()
    x, y = torch.randn(examples, 64), torch.arange(examples) % 10
    features(net, x[:64], y[:64])
    with Peak() as peak:
        begun, core = time.perf_counter(), time.process_time()
        features(net, x, y)
        seconds, core = time.perf_counter() - begun, time.process_time() - core
    return {"seconds": seconds, "core": core, "bytes": peak.top, "held": 8.0 * width * examples}


def apart(*args: str) -> dict[str, Any]:
    """A measurement in a process of its own."""
    threads = "1" if args[0] == "one" else str(os.cpu_count())
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    env = {**os.environ, **dict.fromkeys(names, threads)}
    done = subprocess.run([sys.executable, __file__, *args], capture_output=True, text=True, env=env)
    if done.returncode:
        return {
            **dict.fromkeys(("seconds", "bytes", "whole"), float("inf")),
            "held": 1.0,
            "failed": done.stderr.strip().splitlines()[-1][:200],
        }
    return dict(json.loads(done.stdout))


def main() -> None:
    warnings.simplefilter("ignore")
    single: dict[str, Callable[..., dict[str, float]]] = {
        "one": lambda *a: one(a[0], a[1], int(a[2]), a[3], float(a[4])),
        "distance": lambda *a: distance(int(a[0])), "language": lambda *a: language(int(a[0]), int(a[1])),
        "spectrum": lambda *a: spectrum(int(a[0]), int(a[1])),
    }  # fmt: skip
    if sys.argv[1:2] and sys.argv[1] in single:
        print(json.dumps(single[sys.argv[1]](*sys.argv[2:])))
        return
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="fewer examples, one round")
    parser.add_argument("--nets", default=",".join(CASES), help="which networks")
    options = parser.parse_args()
    cases = {name: (SMALL if options.small else CASES)[name] for name in options.nets.split(",")}
    print(json.dumps({
        "against": against(cases, 1 if options.small else 3, 1 if options.small else 3),
        "distance": apart("distance", "1000" if options.small else "6000"),
        "language": apart("language", *(("4", "3") if options.small else ("32", "4"))),
        "spectrum": apart("spectrum", *(("512", "10000") if options.small else ("4096", "50000"))),
    }))  # fmt: skip


if __name__ == "__main__":
    main()
