"""Students that are moved, by advice or at random, and trained to see what it did."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import RichterError
from richter.tasks import teacher_student

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
GOALS = ("richer", "lazier", "faster-features")
ARMS = ("advised", "advised after a pilot", "at random")
LEVEL = 0.05  # of the unmoved start's loss: where movements are compared
PATIENCE = 5  # times the unmoved start's steps to that loss, after which a move has failed
MOMENTS = 30


@dataclass(frozen=True)
class Case:
    """The function of one case: a start with τ and δ at random, every goal, and every arm."""

    draws: int
    pilot_steps: int
    examples: int
    inputs: int
    width: int

    def __call__(self, case: int) -> xr.Dataset:
        """One start with all its goals."""
        import xarray as xr

        world, tau, delta = self._world(case)
        ratio = np.full((len(GOALS), len(ARMS), self.draws), np.nan)
        moves = np.full(ratio.shape, "", dtype=object)
        movement = np.empty(len(GOALS))
        for g, goal in enumerate(GOALS):
            bench = _Bench(world, goal, tau, delta, case)
            movement[g] = bench.before
            for a, steps in enumerate((None, self.pilot_steps)):
                option = bench.advised(steps)
                ratio[g, a, 0], moves[g, a, 0] = bench.measured(option), option.code
            for k in range(self.draws):
                drawn = bench.drawn(k)
                ratio[g, 2, k], moves[g, 2, k] = bench.measured(drawn), drawn.code
        dims = ("goal", "arm", "draw")
        return xr.Dataset(
            {"ratio": (dims, ratio), "move": (dims, moves.astype(str)), "before": (("goal",), movement),
             "tau": ((), tau), "delta": ((), delta)},
            {"goal": list(GOALS), "arm": list(ARMS)},
        )  # fmt: skip

    def _world(self, case: int) -> tuple[Any, float, float]:
        rng = np.random.default_rng([case, 25])
        tau, delta = float(np.exp(rng.uniform(np.log(0.1), np.log(1.5)))), float(rng.uniform(-0.5, 0.5))
        world = teacher_student(self.examples, d=self.inputs, width=self.width, n_test=0, rng=case)
        return world, tau, delta


@dataclass(frozen=True)
class _Drawn:
    """A move of the control, as an option has it."""

    code: str
    moves: tuple[Any, ...]
    rate: float
    rates: dict[str, float]
    targets: float


class _Bench:
    """One start and goal: advice, random moves, and training to see what they did."""

    def __init__(self, world: Any, goal: str, tau: float, delta: float, seed: int) -> None:
        from richter.advice.forecast import examples

        self.goal, self.seed, self.task = goal, seed, world.task
        self.student = world.student(tau, delta)
        self.x, self.y = examples(self.net(), (world.task.inputs, world.task.targets), "square", None)
        self.rate, self.fit = self._clock()
        self.steps, self.before, self.level = 0, 0.0, 0.0
        self._measure_the_unmoved()

    def net(self) -> Any:
        from richter.training import two_layer

        return two_layer(self.student.a.tolist(), self.student.w.tolist()).double()

    def advised(self, steps: int | None) -> Any:
        from richter.advice import advise

        return advise(
            self.net(), (self.x, self.y), self.goal, loss="square", rate=self.rate, steps=steps, seed=self.seed,
            progress=False,
        ).best  # fmt: skip

    def drawn(self, k: int) -> _Drawn:
        """A lever and a strength from all that the goals know, with the same rule for the rate."""
        from richter.advice.levers import ladders, situation
        from richter.advice.trial import attempt, start_of

        net = self.net()
        start = start_of(net, self.x, self.y, "square", "sgd", self.goal)
        seen = situation(net, self.x[:2], True, "sgd")
        known = [*ladders("richer", seen), *ladders("lazier", seen)]
        rng = np.random.default_rng([self.seed, k, GOALS.index(self.goal)])
        while True:
            rungs = known[rng.integers(len(known))]
            try:
                made = attempt(rungs[rng.integers(len(rungs))], start)
            except RichterError:
                continue
            c = made.candidate
            return _Drawn(c.code, c.moves, made.rate, dict(made.rates), made.targets)

    def measured(self, option: Any) -> float:
        """The factor on the kernel's movement; NaN if it does not learn."""
        net = self.net()
        for move in option.moves:
            net = move.apply(net, self.x).model
        task = replace(self.task, targets=option.targets * self.task.targets)
        steps, losses, moved = self._train(net, task, self.rate * option.rate, option.rates, PATIENCE * self.steps)
        losses = losses / option.targets**2
        if self.goal == "faster-features":
            after = float(np.interp(self.fit, steps, moved))
            return after / self.before if np.isfinite(losses).all() else np.nan
        return _at(losses, moved, self.level) / self.before

    def _clock(self) -> tuple[float, float]:
        """A quarter of the largest stable rate, and the steps in which the start's kernel fits at it."""
        from richter.advice.forecast import forecast

        seen = forecast(self.net(), (self.x, self.y), loss="square")
        rate = 0.5 / seen.fastest
        return rate, max(1.0, seen.time / rate)

    def _measure_the_unmoved(self) -> None:
        steps = 300
        for _ in range(5):
            at, losses, moved = self._train(self.net(), self.task, self.rate, {}, steps)
            self.level = LEVEL * float(losses[0])
            below = np.flatnonzero(losses <= self.level)
            if below.size:
                break
            steps *= 4
        last = below[0] if below.size else len(at) - 1
        self.level = max(self.level, float(losses[last]))
        self.steps = max(int(at[last]), int(np.ceil(self.fit)), 10)
        faster = self.goal == "faster-features"
        self.before = float(np.interp(self.fit, at, moved)) if faster else _at(losses, moved, self.level)

    def _train(self, net: Any, task: Any, rate: float, rates: Any, steps: int) -> tuple[Floats, Floats, Floats]:
        """Steps looked at, the loss there, and the kernel's movement."""
        from richter.advice.forecast import trace_kernel
        from richter.moves.linearised import LinearisedNetwork
        from richter.training import log_moments, train

        fixed = isinstance(net, LinearisedNetwork)
        kernels: list[Floats] = []
        looks = log_moments(steps, MOMENTS)

        def see(step: int, model: Any) -> None:
            try:
                kernels.append(np.zeros(1) if fixed else trace_kernel(model, self.x, rates or None).values)
            except RichterError:  # it has diverged
                kernels.append(np.full_like(kernels[0], np.nan))

        run = train(
            net, task, steps=steps, rate=rate, loss="square", layer_rates=rates or None, moments=looks, on_moment=see,
            progress=False, go_on=True, rng=self.seed,
        )  # fmt: skip
        at = np.array([step for step in looks if step < steps])
        with np.errstate(over="ignore", invalid="ignore"):  # on the way to a divergence
            size = np.linalg.norm(kernels[0])
            moved = np.array([np.linalg.norm(K - kernels[0]) / size if size else 0.0 for K in kernels[: len(at)]])
        return at.astype(float), run.losses[at], moved


def _at(losses: Floats, moved: Floats, level: float) -> float:
    """The movement where the loss first is at a level; NaN if it never is."""
    below = np.flatnonzero(losses <= level)
    if not below.size:
        return float("nan")
    k = int(below[0])
    if k == 0:
        return float(moved[0])
    share = (losses[k - 1] - level) / (losses[k - 1] - losses[k])
    return float(moved[k - 1] + share * (moved[k] - moved[k - 1]))
