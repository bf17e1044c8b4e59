"""Verdicts about a network: a label is never given without its numbers and reasons.

Every threshold of the package is in this file. A label's rule is the comment beside its threshold.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# lazy: over all of training the kernel's relative change ‖K − K₀‖/‖K₀‖ stays below this. A turn of the
# kernel by 17° or a growth by 30 % reaches it; the cosine distance S alone would miss mere growth.
LAZY_BELOW = 0.3
# delayed-rich: not lazy, but when the start's own kernel has had time to fit (three e-folds of its fastest
# mode) less than this share of the whole movement has happened.
DELAYED_BELOW = 0.3
FIT_TIME = 3.0  # e-folds of the fastest mode of the kernel at the start
# rescaling: the cosine between the layers changes by less than this while the norms change.
ALIGNMENT_CHANGES = 1e-6
# stage-like: modes overlap by at most this share of their rise.
STAGE_LIKE_BELOW = 0.05
# width check: what goes with the width by a power nearer to 0 than this stays, what falls faster vanishes; kernel
# limits have −1/2.
WIDTH_POWER = 0.25

# Measured runs: the same rules, read off a network on probe points (docs/calibration.md says how well).
# The mode that sets the fit time is the slowest of the fastest modes that together hold this share of the loss:
# real inputs have one huge mode, their mean, which says little about the rest.
FAST_SHARE = 0.3
# undecided: fewer resamples of probe points and seeds than this share agree on one label,
AGREEMENT = 0.95
# or the kernel has not moved but the run did not test it: it ended before the fit time, or, where steps are no time
# (Adam, unknown rate), before the loss had fallen by this share.
LOSS_FELL = 0.1
# A run that still learns: over the last half of the recorded time the loss falls by more than this share of its start.
STILL_FALLS = 0.05
# Delayed-rich cannot be told from rich where more than this share of the movement lies between the two looks around
# the fit time, which do not agree.
MISSED = 0.5
# frozen: neither the kernel nor the loss moves by more than this share.
FROZEN_BELOW = 1e-6
# minimum-features: κ_CKA to the minimum-projection operator stays below this (NAM24 ch. 2).
MINIMUM_FEATURES_BELOW = 0.1
RESAMPLES = 200  # resamples of the probe points
COVERED = 0.95  # share of resamples within an interval

LABELS = {
    "lazy": f"the kernel's relative change ‖K − K₀‖/‖K₀‖ stays below {LAZY_BELOW:g} in all of training",
    "rich": "the kernel moves, and from early on",
    "delayed-rich": f"the kernel moves, but less than {DELAYED_BELOW:.0%} of it while the start's kernel fits",
    "alignment": "the cosine between the layers, in the data's direction, moves towards the sign the target asks for",
    "disalignment": "that cosine moves the other way",
    "rescaling": f"that cosine changes by less than {ALIGNMENT_CHANGES:g}: only lengths change",
    "kernel": "scaling limits: the learning time is of order 1, its kernel part dominates (0 = K > F), and P/Q → 1",
    "feature-learning": "scaling limits: the learning time is of order 1, max(F, K) = 0, and it is no kernel limit",
    "unstable": "scaling limits: the learning time vanishes, max(F, K) > 0",
    "frozen": "nothing moves; scaling limits: the learning time diverges, max(F, K) < 0",
    "undefined": "the kernel is 0 at the start: its relative change does not exist",
    "undecided": f"measured: fewer than {AGREEMENT:.0%} of the resamples of probe points and seeds agree on one label, "
    "or the run was too short for the start's kernel to fit",
    "minimum-features": f"the features are as few as the target's: κ_CKA stays below {MINIMUM_FEATURES_BELOW:g}",
    "extended-features": f"more features than that: κ_CKA is {MINIMUM_FEATURES_BELOW:g} or more",
}

Value: TypeAlias = Any  # a number or a word; for a batch, an array of them


@dataclass(frozen=True)
class Evidence:
    """A number behind a verdict: what it is, what it was compared with."""

    value: Value
    says: str
    threshold: float | None = None
    interval: tuple[float, float] | None = None  # of a measured number, over probe points and seeds

    def __str__(self) -> str:
        within = "" if self.interval is None else f" ({_short(self.interval[0])} to {_short(self.interval[1])})"
        against = "" if self.threshold is None else f" (threshold {self.threshold:g})"
        return f"{_short(self.value)}{within}: {self.says}{against}"


@dataclass(frozen=True)
class Regime:
    """A label with its evidence; for a batch, arrays of both.

    `changes`: what would change the label. `silent`: what it does not say.
    """

    label: Value
    evidence: dict[str, Evidence] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()
    silent: tuple[str, ...] = ()

    def __str__(self) -> str:
        label = self.label
        if isinstance(label, np.ndarray):
            names, counts = np.unique(label, return_counts=True)
            head = ", ".join(f"{name}: {count}" for name, count in zip(names, counts, strict=True))
        else:
            head = str(label)
        lines = [head]
        lines += [f"  {name} = {item}" for name, item in self.evidence.items()]
        lines += [f"  {reason}" for reason in self.reasons]
        for title, said in (("What would change it", self.changes), ("What it does not say", self.silent)):
            lines += [f"{title}:", *(f"  {words}" for words in said)] if said else []
        return "\n".join(lines)

    def plain(self) -> dict[str, object]:
        """The verdict as plain data, for JSON."""
        return {
            "label": self.label.tolist() if isinstance(self.label, np.ndarray) else self.label,
            "evidence": {
                name: {
                    "value": _jsonable(item.value),
                    "says": item.says,
                    **({} if item.threshold is None else {"threshold": item.threshold}),
                    **({} if item.interval is None else {"interval": [_jsonable(x) for x in item.interval]}),
                }
                for name, item in self.evidence.items()
            },
            "reasons": list(self.reasons),
            **({"changes": list(self.changes)} if self.changes else {}),
            **({"silent": list(self.silent)} if self.silent else {}),
        }


def _short(value: Value) -> str:
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return f"{np.nanmin(value):.3g} … {np.nanmax(value):.3g}" if value.size > 1 else f"{value.item():.4g}"
    if isinstance(value, np.ndarray):
        return ", ".join(sorted(set(value.astype(str).ravel())))
    return value if isinstance(value, str) else f"{value:.4g}"


def _jsonable(value: Value) -> object:
    plain = value.tolist() if isinstance(value, np.ndarray) else value
    if isinstance(plain, float):
        return None if np.isnan(plain) else ("inf" if plain == np.inf else plain)
    return [_jsonable(x) for x in plain] if isinstance(plain, list) else plain


def by_movement(moved: NDArray[np.float64], early_share: NDArray[np.float64] | None = None) -> NDArray[np.str_]:
    """Lazy, rich or delayed-rich from the kernel's largest relative change and the early share of it.

    >>> by_movement(np.array([0.01, 0.5, 0.5]), np.array([1.0, 0.9, 0.01])).tolist()
    ['lazy', 'rich', 'delayed-rich']
    """
    late = np.zeros(np.shape(moved), bool) if early_share is None else early_share < DELAYED_BELOW
    # NaN: the kernel is 0 at the start and for ever, or its movement is not defined; nothing is claimed.
    undefined = np.isnan(moved)
    label = np.where(moved < LAZY_BELOW, "lazy", np.where(late, "delayed-rich", "rich"))
    return np.where(undefined, "undefined", label)


def by_run(
    moved: NDArray[np.float64],
    early_share: NDArray[np.float64],
    tested: NDArray[np.bool_],
    learned: NDArray[np.bool_],
) -> NDArray[np.str_]:
    """The same for a recorded run, which may have ended too early to say that nothing moves.

    `tested`: the start's kernel had time to fit; `learned`: the loss has moved.

    >>> yes, no = np.array([True]), np.array([False])
    >>> by_run(np.array([0.01]), np.ones(1), yes, yes).item(), by_run(np.array([0.01]), np.ones(1), no, yes).item()
    ('lazy', 'undecided')
    """
    label = by_movement(moved, early_share)
    still = (moved <= FROZEN_BELOW) & ~learned
    return np.where(still, "frozen", np.where((label == "lazy") & ~tested, "undecided", label))


def by_alignment(start: Value, end: Value, toward: Value) -> NDArray[np.str_]:
    """Alignment, disalignment or rescaling, from the cosine at both ends and the sign of the way to the target.

    >>> by_alignment(np.array([0.1, 0.1, 0.1]), np.array([0.5, 0.05, 0.1]), np.array([1, -1, 1])).tolist()
    ['alignment', 'disalignment', 'rescaling']
    """
    # NaN, where a layer is 0, is not "no change".
    straight = np.abs(np.asarray(end) - start) < ALIGNMENT_CHANGES
    return np.where(straight, "rescaling", np.where(np.asarray(toward) > 0, "alignment", "disalignment"))


def agreed(labels: NDArray[np.str_]) -> tuple[str, float]:
    """The label that most resamples carry, or "undecided", and the share of them that do.

    >>> agreed(np.array(["lazy"] * 60 + ["rich"] * 40))
    ('undecided', 0.6)
    """
    names, counts = np.unique(labels, return_counts=True)
    best = int(counts.argmax())
    share = float(counts[best] / counts.sum())
    return (str(names[best]) if share >= AGREEMENT else "undecided"), share


def scalar_if_single(values: NDArray[Any], batch: tuple[int, ...]) -> Any:
    """One number or word without a batch, else an array of the batch's shape."""
    shaped = np.asarray(values).reshape(batch)
    return shaped if batch else shaped.item()
