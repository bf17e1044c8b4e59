"""Probes and regimes judged where the truth is known: solved theories built as torch modules and trained.

`WideScalar`, `SingleNeuron` and `IsotropicNetwork` become two-layer linear networks and a task of many examples.
Plain gradient descent with small steps trains them, `richter.measure` names their regime from what it sees, and the
theory says what it is. `python docs/calibrate.py` writes the table.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from richter.measurement.measured import Kind
from richter.probes.observe import torch_library
from richter.probes.probe import AbstractProbe, Reading, Snapshot
from richter.probes.verdict import verdict
from richter.regime import FIT_TIME, Regime, by_movement
from richter.schema import Variable
from richter.tasks.task import Task
from richter.theory import IsotropicNetwork, SingleNeuron, WideScalar
from richter.theory.base import AbstractTheory
from richter.theory.discrete import largest_stable_step

Floats = NDArray[np.float64]
EXAMPLES = 40  # of a task; as many as are resampled
STEP_SHARE = 0.02  # of the largest stable step
FITTED = 1e-4  # of the loss that can be learned is left at the end
MOMENTS = 30
DENSE = np.concatenate([[0.0], np.geomspace(1e-8, 1e8, 1600)])


@dataclass(frozen=True, eq=False)
class Built:
    """A theory as a network and its task: the same function, kernel and flow in the same time."""

    model: Any
    task: Task
    layer_rates: Mapping[str, float]
    loss: str


@dataclass(frozen=True, eq=False)
class Case:
    """A network whose regime is known: lazy, rich or delayed-rich, and for data on a line the mechanism too."""

    name: str
    theory: AbstractTheory
    label: str
    mechanism: str = ""


@dataclass(frozen=True, eq=False)
class Row:
    """A case, what was named, and the numbers behind both."""

    case: Case
    named: Regime
    exact: Floats  # largest relative change of the kernel, its early share
    steps: int

    @property
    def mechanism(self) -> str:
        """The mechanism that was named, for data on a line."""
        found = self.named.evidence.get("mechanism")
        return "" if found is None else str(found.value)


@dataclass(frozen=True)
class LineAlignment(AbstractProbe):
    """XU24's signed cosine ζ between the output weights u and Wx, read off a network built from `WideScalar`."""

    name: ClassVar[str] = "alignment"
    variables: ClassVar[tuple[Variable, ...]] = (
        Variable("alignment", (), "cosine between u and Wx", symbol="ζ", undefined_when="u = 0 or Wx = 0"),
    )

    def start(self, model: Any, batch: Any) -> Snapshot:
        """Nothing."""
        return Snapshot()

    def measure(self, model: Any, batch: Any, origin: Snapshot) -> Mapping[str, Reading]:
        """ζ now; the sign of an example's multiple of x does not matter, so that the first principal axis serves."""
        u, w, x = (
            np.asarray(v.detach(), dtype=np.float64)
            for v in (model.get_parameter("layer2.weight")[0], model.get_parameter("layer1.weight"), batch[0])
        )
        v = w @ _direction(x)
        return {"alignment": float(u @ v / (np.linalg.norm(u) * np.linalg.norm(v)))}


def build(theory: AbstractTheory, rng: np.random.Generator | int = 0) -> Built:
    r"""The theory as a torch module with a task of `EXAMPLES` examples.

    Whitened inputs, $X^TX=I$, are random orthonormal columns. Data on a line are multiples of x whose reduction
    (XU24 Prop. 1) is the theory's x and y. An output scale γ is put into the inputs, which changes neither the
    gradients nor the kernel.
    """
    from richter.training import two_layer

    generator = np.random.default_rng(rng)
    p = {name: np.array(value) for name, value in theory.params.items()}  # torch wants arrays it may write to
    if isinstance(theory, WideScalar):
        along = generator.normal(size=EXAMPLES)
        along /= np.sqrt((along**2).mean())
        # E[along · targets] = y, with a part that no network on the line can fit left out.
        inputs = float(p["gamma"]) * along[:, None] * p["x"]
        targets = along[:, None] * float(p["y"])
        model = two_layer(p["u0"], p["w0"], activation="linear", dtype=_double())
        rates = {"layer1": float(p["eta_w"]), "layer2": float(p["eta_u"])}
        return Built(model, _task(theory.name, inputs, targets), rates, "square")
    if isinstance(theory, SingleNeuron):
        second, first, aim = p["a0"].reshape(1, 1), p["w0"][None], p["beta_star"][:, None]
    elif isinstance(theory, IsotropicNetwork):
        second, first, aim = p["A0"].T, p["W0"], p["beta_star"]
    else:
        raise TypeError(type(theory))
    inputs = np.linalg.qr(generator.normal(size=(EXAMPLES, len(aim))))[0]
    model = two_layer(second, first, activation="linear", dtype=_double())
    rates = {"layer1": float(p["eta_w"]), "layer2": float(p["eta_a"])}
    return Built(model, _task(theory.name, inputs, inputs @ aim), rates, "half-sum")


def plan(theory: AbstractTheory, share: float = STEP_SHARE) -> tuple[float, int]:
    """(step size, steps): a share of the largest stable step, until the loss is fitted."""
    step = share * float(np.min(largest_stable_step(theory)))
    loss = theory.solve(DENSE, only=("loss",)).loss.values
    rest = float(theory.limit(("loss",)).loss)
    end = float(DENSE[int(np.argmax(loss - rest <= FITTED * (loss[0] - rest)))])
    return step, max(1, math.ceil(end / step))


def movement(theory: AbstractTheory) -> tuple[str, Floats]:
    """(lazy, rich or delayed-rich; largest change and early share) by the rule, from the exact kernel's change.

    For a theory whose own `regime()` says it, that label; for `WideScalar`, whose label is the mechanism, the rule
    on its exact path.
    """
    regime = theory.regime()
    if "early_share" in regime.evidence:
        numbers = [float(regime.evidence[name].value) for name in ("kernel_change", "early_share")]
        return str(regime.label), np.array(numbers)
    times = np.append(DENSE, np.inf)
    made = theory.solve(times, only=("kernel_change", "kernel"))
    fit = FIT_TIME / (theory.loss_factor * float(made.kernel[0]))
    most = float(made.kernel_change.max())
    early = float(theory.solve([fit], only=("kernel_change",)).kernel_change[0])
    share = early / most if most > 0 else 1.0
    return str(by_movement(np.array(most), np.array(share))), np.array([most, share])


def name_regime(case: Case, rng: int = 0, share: float = STEP_SHARE, kernel: Kind = "full") -> Row:
    """Train the case's network and name its regime from measurements alone."""
    from richter.measurement.record import record

    built = build(case.theory, rng)
    step, steps = plan(case.theory, share)
    line = isinstance(case.theory, WideScalar)
    measured = record(
        built.model, built.task, steps=steps, rate=step, loss=built.loss, layer_rates=built.layer_rates,
        moments=min(MOMENTS, steps + 1), kernel=kernel, only=["loss", "output"],
        more=[LineAlignment()] if line else [], progress=False, rng=rng,
    )  # fmt: skip
    ds = measured.dataset
    if line:
        ds = ds.assign_attrs(toward=_toward(built.task, ds["output"].values[0]))
    return Row(case, verdict(ds), movement(case.theory)[1], steps)


def cases(rng: np.random.Generator | int = 0) -> list[Case]:
    """Networks over the whole range of each theory, borders of the regimes included; none is chosen by its outcome."""
    generator = np.random.default_rng(rng)
    made: list[tuple[str, AbstractTheory]] = []
    for delta in (-10, -5, -3, -2, -1, 0, 1, 2, 4, 10):
        start = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0, 0.0], delta=float(delta), beta_star=[0.0, 1.0, 0.0])
        made.append((f"imbalance δ = {delta}", start))
    for scale in (1e-3, 0.1, 1.0, 3.0):
        start = SingleNeuron(a0=scale, w0=[0.0, 0.3 * scale, scale], beta_star=[0.0, 1.0, 0.0])
        made.append((f"scale {scale:g}", start))
    for eta_a, eta_w in ((4.0, 0.25), (0.1, 2.0)):
        start = SingleNeuron(a0=1.0, w0=[0.3, -1.0, 0.5], beta_star=[0.0, 1.0, 0.0], eta_a=eta_a, eta_w=eta_w)
        made.append((f"rates η_a = {eta_a:g}, η_w = {eta_w:g}", start))
    aim = generator.normal(size=(3, 2))
    for delta in (-6, -3, -1, 1, 3, 6, 10):
        net = IsotropicNetwork.random(
            inputs=3, neurons=2, outputs=2, beta_star=aim, delta=float(delta), scale=0.5, rng=generator
        )
        made.append((f"imbalance δ = {delta}", net))
    for scale in (0.01, 0.1, 1.0, 5.0):
        net = IsotropicNetwork.random(inputs=3, neurons=2, outputs=2, beta_star=aim, scale=scale, rng=generator)
        made.append((f"balanced, scale {scale:g}", net))
    for eta_a, eta_w, imbalance in ((4.0, 0.5, 2.0), (0.5, 2.0, -2.0)):
        net = IsotropicNetwork.random(
            inputs=3, neurons=2, outputs=2, beta_star=aim, delta=imbalance, scale=0.5, rng=generator,
            eta_a=eta_a, eta_w=eta_w,
        )  # fmt: skip
        made.append((f"δ = {imbalance:g}, rates η_a = {eta_a:g}, η_w = {eta_w:g}", net))
    for width in (10, 100, 1000):
        for words, gamma in (("1/√d", width**-0.5), ("1/d", 1 / width)):
            u0, w0 = generator.normal(size=width), generator.normal(size=(width, 1))
            made.append((f"width {width}, γ = {words}", WideScalar(u0=u0, w0=w0, x=[1.0], y=2.0, gamma=gamma)))
    u0 = generator.normal(size=30)
    lines = {
        "small": (0.05 * u0, 0.05 * generator.normal(size=30), 1.0),
        "aligned, target below": (u0, u0 + 0.3 * generator.normal(size=30), 0.2),
        "parallel layers": (u0, u0.copy(), 3.0),
        "negative target": (u0, generator.normal(size=30), -3.0),
    }
    for words, (u, v, y) in lines.items():
        made.append((f"{words}, y = {y:g}", WideScalar(u0=u, w0=v[:, None], x=[1.0], y=y, gamma=1 / 30)))
    uneven = WideScalar(u0=u0, w0=generator.normal(size=(30, 2)), x=[1.0, -2.0], y=1.5, gamma=0.1, eta_u=3.0, eta_w=0.2)
    made.append(("rates η_u = 3, η_w = 0.2", uneven))
    return [_case(words, theory) for words, theory in made]


def confusion(rows: Iterable[Row]) -> dict[tuple[str, str], int]:
    """How often (true regime, named regime) occurred."""
    made: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row.case.label, str(row.named.label))
        made[key] = made.get(key, 0) + 1
    return made


def _case(name: str, theory: AbstractTheory) -> Case:
    mechanism = str(theory.regime().label) if isinstance(theory, WideScalar) else ""
    return Case(name, theory, movement(theory)[0], mechanism)


def _direction(x: Floats) -> Floats:
    """The line that the inputs lie on, in the direction in which the largest entry is positive."""
    axis = np.linalg.svd(x, full_matrices=False)[2][0]
    return axis * np.sign(axis[np.abs(axis).argmax()])


def _toward(task: Task, outputs: Floats) -> float:
    """The sign of the way from the outputs to the target, seen from 0 towards the target."""
    along = task.inputs @ _direction(task.inputs)
    now, aim = (float(along @ np.asarray(f).reshape(-1)) for f in (outputs, task.targets))
    side = np.sign(aim if aim != 0 else now)
    return float(np.sign(side * (aim - now)))


def _task(name: str, inputs: Floats, targets: Floats) -> Task:
    return Task(inputs=inputs, targets=targets, test_inputs=inputs[:0], test_targets=targets[:0], name=name)


def _double() -> Any:
    return torch_library("Calibration").float64
