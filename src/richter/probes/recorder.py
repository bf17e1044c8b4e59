"""The recorder: probes at chosen moments of a training run, within a budget of time, on disk as they come."""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Iterable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from richter.errors import ParameterError, RichterError, message
from richter.params import count
from richter.probes.activations import passes_shared
from richter.probes.balance import PREDICTED, Balance, Ledger
from richter.probes.budget import SAVING, Budget
from richter.probes.conserved import conserved
from richter.probes.moments import AbstractMoments, Past, rule
from richter.probes.observe import evaluated, torch_library, unwrapped
from richter.probes.probe import AbstractProbe, Reading
from richter.probes.record import LONGEST, Record, facts_of
from richter.probes.record_file import check_place, write_table
from richter.probes.rows import Row, Table, scalars
from richter.schema import Variable

if TYPE_CHECKING:
    import xarray as xr
    from torch import nn

Logger: TypeAlias = Callable[[int, Mapping[str, float]], object]
Rate: TypeAlias = float | Callable[[int], float] | None
BATCH_LOSS = Variable("batch_loss", (), "loss that the training loop reported at this step", "loss")
LOOK = 50  # steps between two readings of a loss that is on another device, which would wait for it
CLOCKED = 0.7  # of the share is spent by the clock; caches and threads that are disturbed cost the rest


class Recorder:
    """Sees a model along its training and keeps what the probes read.

    `see` decides by the moments and the budget whether it looks at all; it may be called at every step. A probe that
    fails in the middle of a run is noted in the attribute `problems` and warned of once: training goes on.

    Args:
        probes: what to measure; their names must differ.
        batch: the (inputs, targets) pair on which everything is measured; targets may be None.
        rate: the learning rate h, or a function of the step: `t` = Σ h, and with plain gradient descent the drift of
            δ that finite steps explain. None: t is NaN.
        explain: whether the loop is plain gradient descent with that rate, or why not.
        moments: when to look: a rule, steps, or how many of `steps`; by default log-spaced and at loss levels.
        steps: how many steps the run will have, if that is known.
        budget: the largest share of training time that watching may take; None is no limit.
        file: where the record goes, ending in .nc; the origin is kept beside it.
        resume: take up the record in `file`; False starts over.
        loggers: functions of (step, scalars), called after every look.
        optional: leave out probes that the model or the batch gives nothing for, instead of raising.
        strict: raise when a probe fails.
    """

    def __init__(
        self,
        probes: Iterable[AbstractProbe],
        batch: Any,
        *,
        rate: Rate = None,
        explain: str = "",
        moments: AbstractMoments | Iterable[int] | int | None = None,
        steps: int | None = None,
        budget: float | None = 0.05,
        file: str | os.PathLike[str] | None = None,
        resume: bool = True,
        loggers: Iterable[Logger] = (),
        optional: bool = False,
        strict: bool = False,
    ) -> None:
        """Check what was given; nothing is measured yet."""
        self.probes = list(probes)
        names = [probe.name for probe in self.probes]
        if len(set(names)) < len(names):
            raise ParameterError(message("the names of the probes", "differ", ", ".join(names)))
        if budget is not None and not 0 < budget <= 1:
            raise ParameterError(message("`budget`", "be a share of the time, above 0 and at most 1, or None", budget))
        if isinstance(rate, (int, float)) and not (math.isfinite(rate) and rate > 0):
            raise ParameterError(message("`rate`", "be finite and > 0, a function of the step, or None", rate))
        self.batch, self.explain = batch, explain
        self.rate = float(rate) if isinstance(rate, int) else rate
        self.moments, self.share = rule(moments, steps), budget
        self.budget = Budget(None if budget is None else CLOCKED * budget)
        self.resume, self.loggers, self.optional, self.strict = resume, list(loggers), optional, strict
        self.record = Record(None if file is None else Path(file))
        if self.record.path is not None:
            check_place(self.record.path)
        self.problems: dict[str, str] = {}
        self.past, self.now, self.t, self.begun_at = Past(), 0, 0.0, 0
        self.loss: float | None = None  # of the step that led to `now`, if it is known
        self.ledger: Ledger | None = None
        self.stride = 1  # steps between two entries of the ledger
        self.unsaved, self.look_at, self.save_at = False, 0, 0  # the steps before which not to try again

    def start(self, model: nn.Module, step: int = 0) -> None:
        """Take the origin and look for the first time, or take up the record in the file."""
        model = unwrapped(model)
        self.budget.begin()
        with self._looking(model):
            facts = facts_of(model, self.batch, self.probes)
            path = self.record.path
            if path is not None and self.resume and path.exists():
                self._take_up(facts, step)
            else:
                self._begin(model, facts, step)
            self._open_ledger(model)
            self.begun_at = self.now
            self.save()
        self.budget.first = self.budget.spent

    def see(self, step: int, model: nn.Module, loss: Any = None) -> bool:
        """Tell that `step` steps have been taken; whether it was looked at.

        Call it after the step and before the gradients are cleared. `loss` is that of the step's batch.
        """
        step = step if type(step) is int else count("`step`", step, 0)
        if not self.record.origin:
            self.start(model, step)
            return True
        with self.budget.spending():
            return self._see(step, model, loss)

    def _see(self, step: int, model: nn.Module, loss: Any) -> bool:
        if self.record.open_end:
            self._go_on(step)
        if step <= self.now:
            if step < self.now:
                raise ParameterError(message("`step`", f"not go back; it was {self.now}", step))
            return False
        h = self._advance(step)
        self.loss = self._number(loss, step)
        if self.ledger is not None and h is not None and step - self.ledger.step >= self.stride:
            with self.budget.cost_of("gradients"):
                self.ledger.add(step, unwrapped(model), h)
            self.stride = self.budget.stride(step - self.begun_at, "gradients")
        due = self.moments.due(step, math.nan if self.loss is None else self.loss, self.past)
        if self.loss is not None:
            if not math.isfinite(self.loss) and "diverged_at" not in self.record.attrs:
                self.record.attrs["diverged_at"], due = step, True
            elif math.isnan(self.past.first_loss):
                self.past = Past(self.past.step, self.loss, self.past.lowest_loss)
        looked = False
        if due and step >= self.look_at:
            looked = self._look(unwrapped(model))
            # A look that there was no time for is made up for soon, without asking at every step.
            self.look_at = step + 1 + (0 if looked else (step - self.begun_at) // 50)
        if self.unsaved and step >= self.save_at:
            self.save_at = step + 1 + (step - self.begun_at) // 50
            if self.budget.affords("save", self._held_back(), SAVING):
                self.save()
        return looked

    def close(self, model: nn.Module | None = None, problem: BaseException | None = None) -> None:
        """Look for the last time, unless something went wrong, and write the file."""
        text = "done" if problem is None else f"{type(problem).__name__}: {problem}".splitlines()[0][:200]
        self.record.attrs["ended"] = text
        if problem is None and model is not None and self.record.rows and not self.record.open_end:
            self._look(unwrapped(model), last=True)
        self.save()

    def save(self) -> None:
        """Write the record."""
        if self.record.path is None or not self.record.rows:
            return
        with self.budget.spending(), self.budget.cost_of("save"):
            write_table(self.table(), self.record.path)
        self.unsaved = False

    @property
    def attrs(self) -> dict[str, Any]:
        """What is said of the run beside the numbers; the caller may add to it."""
        return self.record.attrs

    @attrs.setter
    def attrs(self, said: dict[str, Any]) -> None:
        self.record.attrs = said

    def dataset(self) -> xr.Dataset:
        """What has been seen so far: `step`, `t` = step × rate, and the probes' variables."""
        return self.table().dataset()

    def table(self) -> Table:
        """The same in plain arrays."""
        spent, trained = self.record.earlier
        spent, trained = spent + self.budget.spent, trained + self.budget.trained
        attrs: dict[str, Any] = {
            "rate": self._rate_says(), "budget": math.inf if self.share is None else self.share,
            "overhead": spent / trained if trained > 0 else math.nan, "seconds_watching": spent,
            "seconds_training": trained, "seen_up_to": self.now,
            "problems": "; ".join(self.problems.values())[:LONGEST],
        }  # fmt: skip
        if self.ledger is not None:
            attrs["gradients_seen"] = self.ledger.seen
        return self.record.table(self.probes, [BATCH_LOSS, *PREDICTED], attrs)

    # What happens inside.

    def _looking(self, model: nn.Module) -> ExitStack:
        """Evaluation mode, one pass for all probes, the clock running, once a GPU has done what it was asked."""
        device = next((p.device for p in model.parameters()), None)
        if device is not None and device.type == "cuda":
            torch_library("A probe").cuda.synchronize(device)
        stack = ExitStack()
        for context in (self.budget.spending(), evaluated(model), passes_shared()):
            stack.enter_context(context)
        return stack

    def _begin(self, model: nn.Module, facts: dict[str, Any], step: int) -> None:
        origin = {}
        for probe in list(self.probes):
            why = probe.lacks(model, self.batch)
            if why and not self.optional:
                raise ParameterError(message(f"the model or the batch of the probe {probe.name}", f"have {why}"))
            if why:
                self.record.left_out[probe.name] = f"needs {why}"
                self.probes.remove(probe)
            else:
                origin[probe.name] = probe.start(model, self.batch)
        if not self.probes:
            raise ParameterError(message("the probes", "measure something", "none that this model allows"))
        self.record.begin(facts, origin)
        self.now = step
        self._advance(step)
        self._look(model, last=True)

    def _take_up(self, facts: dict[str, Any], step: int) -> None:
        self.record.take_up(facts)
        self.probes = [probe for probe in self.probes if probe.name in self.record.origin]
        if step or self.record.fresh:
            self._go_on(step + 1)
        # Else the first step that is seen will tell where the loop goes on.

    def _go_on(self, step: int) -> None:
        """Continue the record at `step`, the first one that is taken again."""
        self.record.trim(step)
        rows = self.record.rows
        losses = [x for row in rows if isinstance(x := row.readings.get("batch_loss"), float) and math.isfinite(x)]
        self.now = self.begun_at = rows[-1].step
        self.t = rows[-1].t
        self.past = Past(self.now, losses[0] if losses else math.nan, min(losses, default=math.inf))
        self._restore_ledger()

    def _open_ledger(self, model: nn.Module) -> None:
        balance = next((probe for probe in self.probes if isinstance(probe, Balance)), None)
        if balance is None or self.rate is None or self.explain:
            why = self.explain or ("no rate was given" if self.rate is None else "nothing is conserved")
            self.record.left_out["predicted_drift"] = why
            return
        self.ledger = Ledger(conserved(model, balance.rates, self.batch), self.record.origin[balance.name], self.now)
        if not self.record.open_end:
            self._restore_ledger()

    def _restore_ledger(self) -> None:
        """Take up the sum at the last row that has it; at the very first row it is 0."""
        if self.ledger is None:
            return
        last = self.record.last("delta_predicted")
        if last is not None:
            self.ledger.restore(last.step, last.readings["delta_predicted"])
        else:
            first = self.record.rows[0]
            first.readings |= self.ledger.readings(first.readings.get("delta"))

    def _rate_says(self) -> float | str:
        if isinstance(self.rate, float):
            return self.rate
        return "none given" if self.rate is None else getattr(self.rate, "__name__", "a schedule")

    def _rate(self, step: int) -> float | None:
        return self.rate(step) if callable(self.rate) else self.rate

    def _advance(self, step: int) -> float | None:
        """Move the clock to `step`; the rate of the step that led there."""
        h = self._rate(max(step - 1, 0))
        if isinstance(self.rate, float):
            self.t = self.rate * step
        else:
            self.t = math.nan if h is None else self.t + h * (step - self.now)
        self.now = step
        return h

    def _number(self, loss: Any, step: int) -> float | None:
        """The loss as a number; one on another device is only read now and then, because that waits for it."""
        elsewhere = getattr(getattr(loss, "device", None), "type", "cpu") != "cpu"
        if loss is None or (elsewhere and step % LOOK and not self.moments.due(step, math.nan, self.past)):
            return None
        try:
            return float(loss.item() if hasattr(loss, "item") else loss)  # a tensor may ask for gradients
        except (TypeError, ValueError, RuntimeError):
            raise ParameterError(message("`loss`", "be one number", type(loss).__name__)) from None

    def _look(self, model: nn.Module, last: bool = False) -> bool:
        """Measure what the budget allows, or at the first and the last moment everything that is not there yet."""
        rows = self.record.rows
        again = bool(rows) and rows[-1].step == self.now
        row = rows[-1] if again else Row(self.now, self.t)
        wanted = [p for p in self.probes if not any(v.name in row.readings for v in p.variables)]
        wanted = sorted((p for p in wanted if last or self._affords(p)), key=self._urgency)
        if not wanted:
            return False
        with self._looking(model):
            for probe in wanted:
                if last or probe is wanted[0] or self._affords(probe):
                    row.readings |= self._measure(probe, model)
            if self.loss is not None:
                row.readings["batch_loss"] = self.loss
            if self.ledger is not None:
                self.ledger.add(self.now, model, self._rate(max(self.now - 1, 0)) or 0.0)
                row.readings |= self.ledger.readings(row.readings.get("delta"), self.now)
            if not again:
                rows.append(row)
            lowest = self.loss if self.loss is not None and self.loss < self.past.lowest_loss else self.past.lowest_loss
            self.past = Past(self.now, self.past.first_loss, lowest)
            self._tell(row)
            self.unsaved = self.record.path is not None
        return True

    def _affords(self, probe: AbstractProbe) -> bool:
        """Whether there is time for a probe; writing the file and the probe that has waited longest are left theirs."""
        kept = self._held_back()
        if self.record.path is not None:
            kept += self.budget.unused("save", kept, SAVING)
        stalest = min(self.probes, key=self._urgency).name
        return self.budget.affords(probe.name, kept, waiting="" if self.budget.affords(stalest, kept) else stalest)

    def _held_back(self) -> float:
        """Seconds that the end will take."""
        return sum(self.budget.costs.get(name, 0.0) for name in [*self.record.origin, "save"])

    def _urgency(self, probe: AbstractProbe) -> tuple[int, float]:
        """First what has not been read for longest, then what is cheapest."""
        seen = [row.step for v in probe.variables if (row := self.record.last(v.name)) is not None]
        return max(seen, default=-1), self.budget.costs.get(probe.name, 0.0)

    def _measure(self, probe: AbstractProbe, model: nn.Module) -> Mapping[str, Reading]:
        try:
            with self.budget.cost_of(probe.name):
                return probe.measure(model, self.batch, self.record.origin[probe.name])
        except Exception as problem:
            if self.strict or not self.record.rows:
                raise
            self._note(probe.name, problem)
            return {}

    def _tell(self, row: Row) -> None:
        for logger in self.loggers:
            try:
                logger(row.step, scalars(row))
            except Exception as problem:
                if self.strict:
                    raise
                self._note(getattr(logger, "__name__", type(logger).__name__), problem)

    def _note(self, name: str, problem: Exception) -> None:
        """Remember what went wrong and warn of it once."""
        kind = "" if isinstance(problem, RichterError) else f"{type(problem).__name__}: "
        text = f"{name} at step {self.now}: {kind}{str(problem).splitlines()[0] if str(problem) else ''}"
        if name not in self.problems:
            self.problems[name] = text
            warnings.warn(f"not recorded: {text}", RuntimeWarning, stacklevel=2)
