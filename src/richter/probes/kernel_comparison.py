"""Two kernels of one architecture, now and before, compared tile by tile, so that neither is ever held."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from richter.errors import ParameterError, message
from richter.maths.kernel_sums import LEAST_SKETCHES, Estimate, Places, Sums
from richter.probes.blocks import Combinations, Gradients
from richter.probes.contract import Kind
from richter.probes.kernels import KernelNumber, centred_targets, target_kernel
from richter.probes.memory import Split, bytes_of
from richter.probes.ntk import SKETCHES, Outputs, Precision, check_kind, contraction, prepared, whole_kernel, with_plan
from richter.probes.tangent import Plan, Positions, Rates, examine
from richter.probes.tiles import Tile, shared_split, tiles

if TYPE_CHECKING:
    import xarray as xr
    from torch import Tensor, nn

Floats = NDArray[np.float64]
HELD = 0.05  # kernels that are less than this share of the budget may as well be held


@dataclass(frozen=True)
class KernelState:
    """One kernel in numbers; `target_alignment` is NaN without targets."""

    norm: KernelNumber
    trace: KernelNumber
    participation_ratio: KernelNumber
    target_alignment: KernelNumber


@dataclass(frozen=True)
class KernelComparison:
    """How far the kernel has moved; every number carries its kind, and a sketched one its standard error."""

    kind: str
    examples: int
    distance: KernelNumber
    change: KernelNumber  # ‖K − K₀‖/‖K₀‖
    alignment: KernelNumber
    alignment_debiased: KernelNumber  # NaN for fewer than 4 examples, or a full kernel whose outputs do not fit at once
    now: KernelState
    before: KernelState
    fallback: str  # parameters that had to go through torch.func, and why

    def velocity(self, elapsed: float) -> KernelNumber:
        """How fast the kernel has turned, if `elapsed` of time lies between the two."""
        return self.distance.over(elapsed)

    def dataset(self) -> xr.Dataset:
        """The same, labelled: names end in the kind; those of the start in `_before`; errors are attributes."""
        import xarray as xr

        of = lambda given: [x for x in (getattr(given, f.name) for f in fields(given)) if isinstance(x, KernelNumber)]
        made = {x.name: x.array() for x in [*of(self), *of(self.now)]}
        made |= {f"{x.name}_before": x.array() for x in of(self.before)}
        return xr.Dataset(made, attrs={"kind": self.kind, "examples": self.examples, "fallback": self.fallback})


def compare_kernels(
    model: nn.Module,
    before: nn.Module | Mapping[str, Tensor],
    x: Tensor,
    outputs: Outputs = "trace",
    rates: Rates = None,
    *,
    targets: Any = None,
    memory: int | float | str = "1 GiB",
    precision: Precision = "model",
    positions: Positions = None,
    sketches: int = SKETCHES,
    seed: int = 0,
) -> KernelComparison:
    r"""Kernel distance, change, alignments and ranks without a kernel: sums over tiles, in float64.

    Args:
        model: a torch model in the mode it is to be measured in; it is left as it was.
        before: the same model at another moment, or its `state_dict`.
        x: inputs, the examples on the first axis.
        outputs: "full", "trace", "diagonal" or "sketch", as `ntk`'s. "sketch" estimates the numbers of the trace
            kernel from `sketches` random combinations of the outputs, each number with its standard error.
        rates: as `ntk`'s.
        targets: whole-number labels or numbers (example, component), for the alignment with the target.
        memory: bytes, or a text such as "2 GiB", for all of it.
        precision: as `ntk`'s.
        positions: as `ntk`'s.
        sketches: how many; at least 3. The cost is one backward pass each.
        seed: of the sketches' signs.
    """
    check_kind(outputs)
    if outputs == "sketch" and sketches < LEAST_SKETCHES:
        must = f"be at least {LEAST_SKETCHES}, for an error bar"
        raise ParameterError(message("`sketches`", must, sketches))
    model, x, _ = prepared(model, x, None, precision)
    first = prepared(_at(model, before), x, None, precision)[0]
    budget, kind = bytes_of(memory), contraction(outputs)

    def work(plan: Plan) -> Sums:
        combinations = Combinations(sketches, seed) if outputs == "sketch" else Combinations(plan.outputs)
        named = {id(p): name for name, p in first.named_parameters()}
        same = replace(plan, followed={key: name for key, name in named.items() if name in plan.rates})
        sides = [Gradients(m, x, p, kind, positions, combinations) for m, p in ((model, plan), (first, same))]
        return _summed(sides, outputs, budget, targets)

    sums, plan = with_plan(examine(model, x, rates, positions), work)
    return _numbers(sums, outputs, plan, targets is not None)


def _at(model: nn.Module, before: nn.Module | Mapping[str, Tensor]) -> nn.Module:
    """The model at the other moment, if it is of the same architecture."""
    if isinstance(before, Mapping):
        first = copy.deepcopy(model)
        try:
            first.load_state_dict(before)
        except RuntimeError as error:
            advice = " ".join(str(error).split())[:200]
            raise ParameterError(message("`before`", "be a state_dict of the model", "another one", advice)) from None
        return first
    shapes = [{name: tuple(p.shape) for name, p in m.named_parameters()} for m in (model, before)]
    if shapes[0] != shapes[1]:
        odd = sorted(shapes[0].keys() ^ shapes[1].keys()) or [n for n in shapes[0] if shapes[0][n] != shapes[1][n]]
        got = f"a difference in {odd[0]}"
        raise ParameterError(message("the two models of a comparison", "have the same parameters", got))
    return before


def _summed(sides: list[Gradients], outputs: str, budget: int, targets: Any) -> Sums:
    kind, n, C = sides[0].kind, len(sides[0].x), sides[0].combinations.count
    sketched = outputs == "sketch"
    sums = Sums(C if sketched else 1, n, {"full": C * C, "trace": 1, "diagonal": 1 if sketched else C}[kind])
    y = None if targets is None else centred_targets(targets, n, 0 if outputs in ("trace", "sketch") else C)
    size = n * n * {"full": C * C, "trace": 1, "diagonal": C}[kind]
    streams = _held(sides, budget) if 3 * 8 * size <= HELD * budget else _streams(sides, budget)
    for now, before in streams:
        both = np.stack([_canonical(tile.values, kind, sketched) for tile in (now, before)])
        T = None
        if y is not None:
            T = target_kernel(y, now.rows, now.columns, outputs)
            T = T[..., now.outputs, now.outputs_2] if kind == "full" else T
            T = T.reshape(*both.shape[2:])
        sums.add(both, now.rows, now.columns, _places(now, kind, C, sketched), now.mirrored, T)
    return sums


def _held(sides: list[Gradients], budget: int) -> Iterator[tuple[Tile, Tile]]:
    """Kernels of a size that does not count, one after the other, so that each has the whole budget."""
    n, C = len(sides[0].x), sides[0].combinations.count
    every, all_outputs = slice(0, n), slice(0, C)
    made = []
    for side in sides:
        K = whole_kernel(side, None, int((1 - HELD) * budget))
        made.append(Tile(every, every, all_outputs, all_outputs, K, mirrored=False))
    yield made[0], made[1]


def _streams(sides: list[Gradients], budget: int) -> Iterator[tuple[Tile, Tile]]:
    """Both kernels tile by tile, side by side."""
    kind, n, C = sides[0].kind, len(sides[0].x), sides[0].combinations.count
    how = shared_split(sides, budget)
    if how.outputs < C and kind != "full":  # tiles wait for their other outputs
        block = max(1, min(how.block, int(0.1 * budget / (16 * n * (C if kind == "diagonal" else 1)))))
        how = replace(how, block=block, chunk=min(how.chunk, block), batch=min(how.batch, block))
    yield from zip(*(_complete(tiles(side, None, budget // 2, how), kind, how, C) for side in sides), strict=True)


def _complete(found: Iterator[Tile], kind: Kind, how: Split, C: int) -> Iterator[Tile]:
    """Tiles with all their outputs; those of a full kernel may stay as they are, since sums over pairs are its own."""
    if kind == "full" or how.outputs >= C:
        yield from found
        return
    waiting: dict[tuple[int, int], list[Tile]] = {}
    for tile in found:
        key = (tile.rows.start, tile.columns.start)
        held = waiting.setdefault(key, [])
        held.append(tile)
        if kind == "trace" and len(held) == 2:
            held[:] = [replace(held[0], values=held[0].values + tile.values)]
        if tile.outputs.stop >= C:
            parts = waiting.pop(key)
            values = parts[0].values if kind == "trace" else np.concatenate([part.values for part in parts])
            yield replace(tile, outputs=slice(0, C), outputs_2=slice(0, C), values=values)


def _canonical(values: Floats, kind: Kind, sketched: bool) -> Floats:
    """A tile as (sketch, row, column, output pair)."""
    if kind == "full":
        n, C, m, D = values.shape
        return values.transpose(0, 2, 1, 3).reshape(1, n, m, C * D)
    if kind == "trace":
        return values[None, :, :, None]
    return values[..., None] if sketched else values.transpose(1, 2, 0)[None]


def _places(tile: Tile, kind: Kind, C: int, sketched: bool) -> Places:
    if kind == "full":
        i, j = (np.arange(s.start, s.stop) for s in (tile.outputs, tile.outputs_2))
        return Places((i[:, None] * C + j).ravel(), (j * C + i[:, None]).ravel())
    every = np.arange(1 if kind == "trace" or sketched else tile.outputs.stop - tile.outputs.start)
    at = every if sketched else every + (tile.outputs.start if kind == "diagonal" else 0)
    return Places(at, at)


def _numbers(sums: Sums, kind: str, plan: Plan, aimed: bool) -> KernelComparison:
    number = lambda name, found: KernelNumber(found.value, f"kernel_{name}", kind, found.error)
    C = plan.outputs
    equal = np.eye(C, dtype=bool).ravel() if kind == "full" else np.ones(sums.pairs, dtype=bool)
    unknown = Estimate(float("nan"))

    def state(k: int) -> KernelState:
        return KernelState(
            number("norm", sums.norm(k)), number("trace", sums.trace(k, equal)),
            number("participation_ratio", sums.rank(k, equal)),
            number("target_alignment", sums.target_alignment(k) if aimed else unknown),
        )  # fmt: skip

    return KernelComparison(
        kind, sums.examples, number("distance", sums.distance()), number("change", sums.change()),
        number("alignment", sums.alignment()),
        number("alignment_debiased", sums.alignment(debiased=True) if sums.examples > 3 else unknown),
        state(0), state(1), "; ".join(f"{name}: {why}" for name, why in plan.fallback.items()),
    )  # fmt: skip
