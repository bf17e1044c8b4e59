"""Advice: you are here; do this; expect that."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from richter.advice import pilot as trying
from richter.advice.forecast import EXAMPLES, copied, examples
from richter.advice.given import built, check_model, given
from richter.advice.levers import CHANGED, DEARER, GOALS, Candidate, Situation, check_goal, ladders, situation
from richter.advice.objective import default_loss
from richter.advice.option import COSTS, Advice, Expected, Option
from richter.advice.predict import predict
from richter.advice.snippet import round_to, snippet, source_of
from richter.advice.transfer import across
from richter.advice.trial import Start, Trial, better, goal_movement, mildest, start_of
from richter.errors import OutsideTheoryError, ParameterError, RichterError, UnknownNameError, message, nearest
from richter.probes.observe import torch_library
from richter.training.progress import bar

if TYPE_CHECKING:
    from torch import nn

OPTIMISERS = ("sgd", "adam", "adamw")
ADAM_RATE = 1e-3
STABLE = 0.5  # over the fastest mode: a quarter of the largest rate that is stable
TRIED = 8  # options in a pilot
BATCH = 64
KEPT = 1e-5  # of the largest output: a change that is none, such as of a start whose output is 0
ENOUGH = 4.0  # a factor on the movement beyond which more is not better
SLOWER = {"linearise": 3.0, "output-scale": 1.5}  # steps of a tangent, and of a network with a frozen copy


def advise(
    model: Any,
    data: Any,
    goal: str = "richer",
    *,
    loss: str | None = None,
    optimiser: str = "sgd",
    rate: float | None = None,
    batch: int | None = None,
    pilot: float | None = None,
    steps: int | None = None,
    wide: Callable[[int, int], nn.Module] | None = None,
    seed: int = 0,
    progress: bool | None = None,
) -> Advice:
    """Ranked moves for a goal, with what each is expected to do, what it costs, and code to paste.

    Without a pilot the order follows the start's own kernel: how far it moves on its linearised stride, now and under
    each move. With a pilot, candidates are trained on copies for a few steps, and the order follows what was measured.
    The model, its modes and the global random state stay as they are.

    Args:
        model: a torch model in the state in which training would begin, or a function without arguments that builds it.
        data: (inputs, targets), an .npz file with `x` and `y`, or a task.
        goal: richer, lazier, faster-features, less-grokking-delay or transfer-across-width; see `GOALS`.
        loss: mse (½ mean), half-sum, square or cross-entropy; by default cross-entropy for whole numbers, else mse.
        optimiser: sgd, adam or adamw.
        rate: your learning rate; by default half of one over the start's fastest mode, 1e-3 for adam.
        batch: examples per step in the pilot, 64 by default.
        pilot: seconds that may be spent on trying; None for no pilot.
        steps: of every run of the pilot; by default as many as fit into the time.
        wide: (width, seed) → a network; the pilot of transfer-across-width trains it at widths from 32 to 256.
        seed: of the order of the examples in the pilot.
        progress: show a bar; by default if standard error is a terminal.

    >>> import torch
    >>> from richter.training import mlp
    >>> x = torch.linspace(-1, 1, 24)[:, None]
    >>> made = advise(mlp(1, [64]), (x, torch.sin(3 * x)), goal="richer")
    >>> made.best.rank, made.options[0].expected.theory
    (1, 'NTK, linearised at the start')
    """
    torch_library("advise")
    goal = check_goal(goal)
    if optimiser not in OPTIMISERS:
        raise UnknownNameError(f"No optimiser named `{optimiser}`. {nearest(str(optimiser), list(OPTIMISERS))}")
    for name, value in (("rate", rate), ("pilot", pilot), ("steps", steps), ("batch", batch)):
        if value is not None and not (math.isfinite(value) and value > 0):
            raise ParameterError(message(f"`{name}`", "be finite and > 0", value))
    source = source_of(model, data)
    net = built(model)
    x, y = given(net, data)
    loss = loss or default_loss(y)
    check_model(net, x, y, loss)
    start = start_of(net, x, y, loss, optimiser, goal)
    if rate is None:
        rate = ADAM_RATE if optimiser != "sgd" else round_to(STABLE / max(start.seen.fastest, 1e-12), 2)
    trials, refused, notes = choose(start, situation(net, x[:2], y.is_floating_point(), optimiser), progress)
    if not trials:
        reasons = "; ".join(f"{name}: {why}" for name, why in refused.items()) or "the model has one weight layer"
        raise OutsideTheoryError(message(f"the model, for the goal {goal},", "take at least one move", reasons))
    outcomes: dict[str, trying.Outcome] = {}
    facts: dict[str, object] | None = None
    if goal == "transfer-across-width" and wide is not None:
        with bar("pilot: widths", len(trials) + 1, show=progress) as tell:
            found = across(
                wide, [t.candidate for t in trials], examples(net, (x, y), loss, BATCH), loss=loss, steps=steps,
                optimiser=optimiser, rate=rate, factors=[t.rate for t in trials], tell=tell,
            )  # fmt: skip
        outcomes = {t.candidate.code: outcome for t, outcome in zip(trials, found, strict=True)}
        trials = sorted(trials, key=lambda trial: _measured_order("lazier", trial, outcomes[trial.candidate.code]))
    elif goal == "transfer-across-width" and (pilot is not None or steps is not None):
        notes.append("No pilot: one width cannot show what carries over to others. Give wide=(width, seed) → network.")
    elif pilot is not None or steps is not None:
        outcomes, facts = _pilot(start, trials[:TRIED], rate, batch or BATCH, pilot or math.inf, steps, seed, progress)
        notes.append(_pilot_says(facts, goal))
        trials = sorted(trials, key=lambda trial: _measured_order(goal, trial, outcomes.get(trial.candidate.code)))
    options = tuple(
        _option(k, trial, start, outcomes.get(trial.candidate.code), snippet(trial, source, optimiser, rate))
        for k, trial in enumerate(trials, 1)
    )
    here = predict(net, (x, y), loss=loss)
    now = f"the kernel would move by {start.seen.movement:.3g} ({here['expected'].value}); {_aim(start)}"
    return Advice(goal, GOALS[goal], here, rate, options, refused, facts, (f"here: {now}", *notes))


def choose(
    start: Start, seen: Situation, progress: bool | None = None
) -> tuple[list[Trial], dict[str, str], list[str]]:
    """The mildest candidate of every lever that reaches the goal on paper, in order; what is refused and why."""
    refused: dict[str, str] = {}
    trials: list[Trial] = []
    known = list(ladders(start.goal, seen))
    with bar("forecasting moves", len(known), show=progress) as tell:
        for done, rungs in enumerate(known, 1):
            try:
                trials.append(mildest(rungs, start))
            except RichterError as problem:
                refused.setdefault(_lever(rungs), " ".join(str(problem).split()))
            tell(done)
    if start.goal != "transfer-across-width":
        for trial in [t for t in trials if not better(start.goal, t.movement, start.seen.movement)]:
            trials.remove(trial)
            refused[trial.candidate.code] = f"it would not help: predicted × {trial.ratio:.3g}"
        trials.sort(key=lambda t: (not t.reaches, t.candidate.fixed, *_predicted_order(start.goal, t)))
    notes = list(seen.notes)
    if start.number < EXAMPLES:
        notes.append(f"A large network: kernels are taken on {start.number} examples.")
    if start.optimiser != "sgd":
        notes.append(f"The forecast is about gradient flow; the optimiser is {start.optimiser}.")
    return trials, refused, notes


def _lever(rungs: list[Candidate]) -> str:
    return f"{rungs[0].lever}, pair by pair" if rungs[0].lever == "scale-layers" else rungs[0].lever


def _predicted_order(goal: str, trial: Trial) -> tuple[float, float]:
    """Among those that reach the goal the cheapest first; among the others the one that comes nearest."""
    effect = trial.movement if goal == "lazier" else -trial.movement
    return (trial.candidate.cost, effect) if trial.reaches else (effect, trial.candidate.cost)


def _measured_order(goal: str, trial: Trial, outcome: trying.Outcome | None) -> tuple[float, ...]:
    """Those that reach the goal first; of those that do so with room to spare, the one that has learned most."""
    if outcome is None:
        return (3.0, trial.candidate.cost, 0.0, 0.0)
    tier = 0.0 if outcome.reached else 1.0 if outcome.learned else 2.0
    size = math.log(max(outcome.ratio, 1e-300)) if math.isfinite(outcome.ratio) else 0.0
    ahead = min(-size if goal == "lazier" else size, math.log(ENOUGH))
    return (tier, float(trial.candidate.fixed), -ahead, outcome.loss if math.isfinite(outcome.loss) else math.inf)


def _pilot(
    start: Start, trials: list[Trial], rate: float, batch: int, seconds: float, steps: int | None, seed: int,
    progress: bool | None,
) -> tuple[dict[str, trying.Outcome], dict[str, object]]:  # fmt: skip
    begun = time.monotonic()
    slower = lambda t: SLOWER.get(t.candidate.lever, 1.0) if t.candidate.cost == DEARER else 1.0
    jobs = [trying.Job(copied(start.model), rate, {}), *(
        trying.Job(t.model, rate * t.rate, t.rates, t.targets, t.candidate.fixed, slower(t)) for t in trials
    )]  # fmt: skip
    shared, many = trying.plan(jobs, start.x, start.y, start.loss, start.optimiser, seconds=seconds, batch=batch,
                               seed=seed, steps=steps, number=start.number)  # fmt: skip
    length = shared.looks[-1]
    made: dict[str, trying.Outcome] = {}
    with bar(f"pilot: {many} starts", many * length, show=progress) as tell:
        base = trying.run(jobs[0], shared, tell)
        for k, (trial, job) in enumerate(zip(trials[: many - 1], jobs[1:many], strict=True), 1):
            done: Callable[[int], None] = lambda step, k=k: tell(k * length + step)  # type: ignore[misc]
            try:
                made[trial.candidate.code] = trying.judge(start.goal, trying.run(job, shared, done), base)
            except RuntimeError as problem:  # of a model that can be looked at, but not trained under this move
                made[trial.candidate.code] = trying.failed(problem)
            tell((k + 1) * length)
    facts: dict[str, object] = {
        "steps": length, "batch": min(batch, len(start.x)), "rate": rate, "seconds": time.monotonic() - begun,
        "tried": many - 1, "compared": "at the same step" if start.goal == "faster-features" else "at the same loss",
        "start": {name: _clean(getattr(base, name)) for name in ("step", "loss", "movement", "turn", "alignment")},
    }  # fmt: skip
    return made, facts


def _clean(values: Any) -> list[Any]:
    return [None if isinstance(v, float) and not math.isfinite(v) else v for v in values.tolist()]


def _pilot_says(facts: dict[str, Any], goal: str) -> str:
    why = {
        "faster-features": "it is about speed", "lazier": "a move that only learns less is not taken for lazier",
    }.get(goal, "a move that only learns faster is not taken for richer")  # fmt: skip
    return (
        f"pilot: {facts['tried']} candidates and the present start, {facts['steps']} steps each on the same batches of "
        f"{facts['batch']}, compared {facts['compared']} ({why}); {facts['seconds']:.1f} s"
    )


def _option(rank: int, t: Trial, start: Start, outcome: trying.Outcome | None, code: str) -> Option:
    c = t.candidate
    return Option(
        rank, c.lever, c.moves, c.code, c.says, c.place, t.keeps, t.exact, t.change, t.rate, dict(t.rates), t.targets,
        c.cost, _pays(t, start.optimiser), _expected(t, start), outcome, code, t.notes,
    )  # fmt: skip


def _expected(t: Trial, start: Start) -> Expected:
    if start.goal == "transfer-across-width":
        label = phase_of(t.candidate)
        deep = "" if seen_layers(start) == 2 else f"it has {seen_layers(start)} weight layers, not two"
        missing = [
            why for why in (deep, "" if start.optimiser == "sgd" else f"the optimiser is {start.optimiser}") if why
        ]
        return Expected(
            math.nan, start.seen.movement, math.nan, math.nan, label, label == "feature-learning", "XU24 Theorem 2",
            not missing, "; ".join(missing),
        )  # fmt: skip
    if t.candidate.fixed:
        return Expected(0.0, start.seen.movement, 0.0, 0.0, "lazy", t.reaches, t.candidate.place, True, "")
    assumes = []
    if not t.lazy:
        assumes.append(f"the kernel moves by {t.movement:.2g} on the way: an order of magnitude, good for ranking")
    if start.optimiser != "sgd":
        assumes.append(f"the optimiser is {start.optimiser}")
    return Expected(
        t.movement, start.seen.movement, t.ratio, t.turn, "lazy" if t.lazy else "rich", t.reaches,
        "NTK, linearised at the start", not assumes, "; ".join(assumes),
    )  # fmt: skip


def phase_of(candidate: Candidate) -> str:
    """The phase of two layers under a candidate's rule."""
    from richter.moves import Parametrise
    from richter.moves.parametrise import rule

    move = candidate.moves[0]
    return rule(move.rule).phase if isinstance(move, Parametrise) else "unknown"


def seen_layers(start: Start) -> int:
    """How many weight layers the network has."""
    from richter.probes.trace import watch

    return len(watch(start.model, start.x[:2]).weights)


def _pays(t: Trial, optimiser: str) -> str:
    said = []
    if t.exact or t.change <= KEPT:
        said.append(COSTS[0] if t.exact else f"{COSTS[0]} here (it changes by {t.change:.2g} of its largest output)")
    else:
        kind = COSTS[t.candidate.cost] if t.candidate.cost else COSTS[2]
        size = "" if math.isnan(t.change) else f" (it changes by {t.change:.2g} of its largest output, measured)"
        told = kind if t.candidate.cost == CHANGED else f"{kind}; the function at the start is not kept"
        said.append(f"{told}{size}")
    if t.parameters > 1.001:
        said.append(f"{t.parameters:.2g} × the parameters in memory")
    if not math.isclose(t.rate, 1.0, rel_tol=1e-3):
        how = "" if optimiser == "sgd" else f", of {optimiser}"
        said.append(f"learning rate × {t.rate:.3g}{how}, so that the start's kernel is as fast as before")
    if t.targets != 1:
        said.append(f"targets × {t.targets:g}")
    return "; ".join(said)


def _aim(start: Start) -> str:
    if start.goal == "transfer-across-width":
        return "the order is that of the phases"
    word = "at most" if start.goal == "lazier" else "at least"
    return f"wanted: {word} {goal_movement(start):.3g}"
