"""What can be done for a goal: ladders of moves from mild to strong, each with the theory that speaks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from richter.errors import UnknownNameError, nearest

if TYPE_CHECKING:
    from torch import Tensor, nn

    from richter.moves import AbstractMove, Record

GOALS = {
    "richer": "the kernel moves more on the way to the same loss",
    "lazier": "the kernel moves less on the way to the same loss",
    "faster-features": "the kernel moves more in the same number of steps, at the same speed of the start's kernel",
    "less-grokking-delay": "features are there when the training loss is: the kernel moves more on the way to it",
    "transfer-across-width": "learning rates and what is learned stay the same as the network gets wider",
}
ALPHAS = (2.0, 4.0, 8.0, 16.0)
SMALLER = (0.5, 0.25, 0.125, 0.0625)
LARGER = (2.0, 4.0, 8.0, 16.0)
FREE, RESCALED, CHANGED, DEARER = range(4)  # costs: none, units or rates, another function, memory or features


@dataclass(frozen=True)
class Candidate:
    """One or more moves in a row.

    `cost`: 0 the function is kept, 1 outputs, inputs or targets are in other units, 2 it starts from another function,
    3 it costs memory, time or the features themselves. `fixed`: lazy by construction, with nothing to forecast.
    """

    lever: str
    moves: tuple[AbstractMove, ...]
    says: str
    place: str
    cost: int
    fixed: bool = False

    def apply(self, model: nn.Module, x: Tensor) -> list[Record]:
        """Every move in turn; the last record's model is the network to go on with."""
        made: list[Record] = []
        for move in self.moves:
            made.append(move.apply(made[-1].model if made else model, x))
        return made

    @property
    def code(self) -> str:
        """The moves as they are typed."""
        return ", then ".join(code_of(move) for move in self.moves)


@dataclass(frozen=True)
class Situation:
    """What the choice of levers depends on."""

    model: nn.Module
    x: Tensor
    regression: bool
    optimiser: str
    pairs: tuple[tuple[str, str], ...] = ()  # parameters of layers with nothing but homogeneous functions between
    ends: tuple[str, str] | None = None  # weights of the first and the last layer
    width: int = 0
    notes: list[str] = field(default_factory=list)


def check_goal(goal: str) -> str:
    """The goal as it is written here, or the nearest ones."""
    key = goal.strip().lower().replace(" ", "-").replace("_", "-") if isinstance(goal, str) else str(goal)
    key = {"transfer": "transfer-across-width", "faster": "faster-features"}.get(key, key)
    if key not in GOALS:
        raise UnknownNameError(f"No goal named `{goal}`. {nearest(key, list(GOALS))}")
    return key


def situation(model: nn.Module, x: Tensor, regression: bool, optimiser: str) -> Situation:
    """Look at a model once: its ends and its homogeneous pairs."""
    from richter.probes.pairs import structure
    from richter.probes.trace import HOMOGENEOUS, LINEAR, MOVED, SCALED

    notes: list[str] = []
    seen = structure(model, x)
    weights = list(seen.record.weights.values())
    plain = [w for w in weights if w.parameter and seen.record.uses.get(w.parameter, 1) == 1]
    known = HOMOGENEOUS | LINEAR | SCALED | MOVED
    pairs: list[tuple[str, str]] = []
    taken: set[str] = set()
    for pair in seen.pairs:
        names = (pair.first.parameter, pair.second.parameter)
        alone = len(seen.record.readers.get(pair.names[0], [])) == 1
        if all(names) and not taken & set(names) and alone and set(pair.between) <= known:
            pairs.append(names)
            taken |= set(names)
    ends = None
    if len(plain) >= 2 and len(seen.record.ends) == 1:
        last = seen.record.weights[seen.record.ends[0]]
        first = plain[0]
        if last.parameter and last is not first:
            ends = (first.parameter, last.parameter)
    width = int(weights[-1].value.shape[1]) if weights and weights[-1].value.ndim > 1 else 0
    if len(weights) < 2:
        notes.append("One weight layer: it has fixed features, and nothing but the units of its output can be changed.")
    return Situation(model, x, regression, optimiser, tuple(pairs), ends, width, notes)


def ladders(goal: str, seen: Situation) -> Iterator[list[Candidate]]:
    """For each lever its candidates from mild to strong; whether they apply is found out by applying them."""
    make: dict[str, Callable[[Situation], Iterator[list[Candidate]]]] = {
        "richer": _rich, "faster-features": _rich, "less-grokking-delay": _rich, "lazier": _lazy,
        "transfer-across-width": _wide,
    }  # fmt: skip
    return make[goal](seen)


def _rich(seen: Situation) -> Iterator[list[Candidate]]:
    from richter import moves as m

    up = "small early and large late layers: the early ones move first and by more"
    yield [_one(m.Upstream(alpha=a), up, "KUN24 Sec. 5", FREE) for a in ALPHAS]
    if _inner_pairs(seen):
        yield [_one(_paired(seen, a), f"{up}; pair by pair", "KUN24 Sec. 5", FREE) for a in ALPHAS]
    if seen.ends and seen.optimiser == "sgd":
        says = "a faster first layer is an upstream start in other variables"
        rates = [{seen.ends[0]: r} for r in (4.0, 16.0, 64.0)]
        yield [_one(m.LayerRates(rates=r), says, "KUN24 Sec. 3", FREE) for r in rates]
    says = "a small output has to grow: the parameters move by more for the same fit"
    yield [_one(m.OutputScale(tau=t), says, "NAM24 Sec. 6.3, XU24 Sec. 4", RESCALED) for t in SMALLER]
    says = "small weights have to grow in the direction of the task"
    yield [_one(m.OverallScale(tau=t), says, "KUN24 Sec. 3, Fig. 1b", CHANGED) for t in (0.7, *SMALLER)]
    if seen.x.is_floating_point():
        says = "with small inputs the weights have to grow by more"
        yield [_one(m.InputScale(kappa=k), says, "NAM24 Table 6.1", RESCALED) for k in SMALLER]
    if seen.regression:
        says = "large targets are far from the start: the parameters move by more"
        yield [_one(m.TargetScale(factor=c), says, "NAM24 Sec. 6.3", RESCALED) for c in LARGER]
    if _embeddings(seen.model):
        says = "features of the tokens are learned earlier; another function, which no later layer makes up for"
        yield [_one(m.SmallEmbeddings(alpha=a), says, "KUN24 Fig. 6d", CHANGED) for a in ALPHAS]
    says = "output scale and rates of the feature-learning phase"
    optimiser: Any = seen.optimiser if seen.optimiser in ("adam", "adamw") else "sgd"
    yield [_one(m.Parametrise(rule="feature-learning", optimiser=optimiser), says, "XU24 Sec. 4", RESCALED)]


def _lazy(seen: Situation) -> Iterator[list[Candidate]]:
    from richter import moves as m

    says = "a large output from a start of zero: the parameters hardly have to move"
    yield [
        Candidate("output-scale", (m.ZeroOutput(how="frozen"), m.OutputScale(tau=t)), says, "NAM24 Sec. 6.3", DEARER)
        for t in LARGER
    ]
    yield [
        _one(m.OutputScale(tau=t), "a large output: the parameters hardly have to move", "NAM24 Sec. 6.3", RESCALED)
        for t in LARGER
    ]
    down = "large early and small late layers: the last layer fits what the early ones give it"
    yield [_one(m.Upstream(alpha=1 / a), down, "KUN24 Sec. 5", FREE) for a in ALPHAS]
    if _inner_pairs(seen):
        yield [_one(_paired(seen, 1 / a), f"{down}; pair by pair", "KUN24 Sec. 5", FREE) for a in ALPHAS]
    if seen.ends and seen.optimiser == "sgd":
        says = "a slower first layer is a downstream start in other variables"
        rates = [{seen.ends[0]: r} for r in (1 / 4, 1 / 16, 1 / 64)]
        yield [_one(m.LayerRates(rates=r), says, "KUN24 Sec. 3", FREE) for r in rates]
    says = "large weights hardly have to move"
    yield [_one(m.OverallScale(tau=t), says, "KUN24 Sec. 3, Fig. 1b", CHANGED) for t in (1.4, *LARGER)]
    if seen.x.is_floating_point():
        says = "with large inputs small changes of the weights do"
        yield [_one(m.InputScale(kappa=k), says, "NAM24 Table 6.1", RESCALED) for k in LARGER]
    if seen.regression:
        says = "small targets are near the start"
        yield [_one(m.TargetScale(factor=c), says, "NAM24 Sec. 6.3", RESCALED) for c in SMALLER]
    says = "the tangent of the network at its start: its kernel never moves"
    yield [Candidate("linearise", (m.Linearise(),), says, "NTK, by construction", DEARER, fixed=True)]
    says = "fixed features: all layers but the last are frozen"
    yield [Candidate("last-layer-only", (m.LastLayerOnly(),), says, "NAM24 Fig. 6.3", DEARER, fixed=True)]


def _wide(seen: Situation) -> Iterator[list[Candidate]]:
    from richter import moves as m
    from richter.moves.parametrise import rule

    optimiser: Any = seen.optimiser if seen.optimiser in ("adam", "adamw") else "sgd"
    names = ("feature-learning", "mean-field+", "kaiming+", "xavier+", "ntk+", "kernel")
    for name in names:
        phase = rule(name).phase
        if optimiser != "sgd" and phase != "feature-learning":
            continue
        keeps = name in ("feature-learning", "kernel")
        says = f"two layers under this rule are in the {phase} phase at any width"
        says += "; the weights stay as they are" if keeps else "; the weights' variances are set by the rule"
        yield [
            Candidate(
                f"parametrise {name}", (m.Parametrise(rule=name, optimiser=optimiser),), says, "XU24 Theorem 2",
                RESCALED if keeps else CHANGED,
            )
        ]  # fmt: skip


def _one(move: AbstractMove, says: str, place: str, cost: int) -> Candidate:
    return Candidate(move.name, (move,), says, place, cost)


def _paired(seen: Situation, alpha: float) -> AbstractMove:
    """Upstream within every homogeneous pair."""
    from richter.moves import ScaleLayers

    factors: dict[str | int, float] = {}
    for first, second in seen.pairs:
        factors |= {first: 1 / alpha, second: alpha}
    return ScaleLayers(factors=factors)


def _inner_pairs(seen: Situation) -> bool:
    """Whether there are pairs other than that of the two ends, which has a lever of its own."""
    return bool(seen.pairs) and seen.pairs != (seen.ends,)


def _embeddings(model: nn.Module) -> bool:
    from torch import nn

    return any(isinstance(m, nn.Embedding) for m in model.modules())


def code_of(move: AbstractMove) -> str:
    """The call that makes a move, without what is as by default.

    >>> from richter.moves import Upstream
    >>> code_of(Upstream(alpha=2.0))
    'Upstream(alpha=2.0)'
    """
    given = [f for f in fields(move) if getattr(move, f.name) != f.default]
    return f"{type(move).__name__}({', '.join(f'{f.name}={getattr(move, f.name)!r}' for f in given)})"
