"""The claims ledger: every claim of every experiment with what a run found, or that no run has checked it.

A verdict counts for the claim it was made for: if the claim's words or places have changed since, it is not checked.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from richter.experiments import AbstractExperiment, Claim
from richter.sweep import duration

UNCHECKED = "not checked"
FINDINGS = ("holds", "fails", "undecided", UNCHECKED)


@dataclass(frozen=True)
class Row:
    """A claim and what was found; `known` says what is known to be found instead of it."""

    claim: str
    says: str
    places: str
    finding: str
    measured: str = ""
    expected: str = ""
    scale: str = ""
    uncertainty: str = ""
    known: str = ""


@dataclass(frozen=True)
class Entry:
    """An experiment with its claims, and the run they were judged on, if there is one."""

    name: str
    title: str
    statement: str
    rows: tuple[Row, ...]
    preset: str = ""
    took: str = ""
    problem: str = ""

    def count(self, finding: str) -> int:
        """How many claims were found so."""
        return sum(row.finding == finding for row in self.rows)


def entry(kind: type[AbstractExperiment], summary: Mapping[str, Any] | None, problem: str = "") -> Entry:
    """One experiment; without a summary nothing of it is checked."""
    if summary is None:
        rows = tuple(_row(kind, item, None) for item in kind.claims())
        return Entry(kind.name, kind.title, kind.statement, rows, problem=problem)
    found = {(row["claim"], row["says"], tuple(row["places"])): row for row in summary["claims"]}
    rows = tuple(
        _row(kind, item, found.get((item.name, item.says, tuple(map(str, item.places))))) for item in kind.claims()
    )
    took = duration(float(summary["seconds"])) + (", continued" if summary.get("resumed") else "")
    settings, presets = summary["settings"], ("paper", "laptop", "smoke")
    # The name that was written may be that of a preset which has changed since.
    preset = next((name for name in presets if _same(kind.preset(name).settings, settings)), "other settings")
    return Entry(kind.name, kind.title, kind.statement, rows, preset, took)


def ledger(
    kinds: Iterable[type[AbstractExperiment]], summaries: Mapping[str, Mapping[str, Any]]
) -> list[Entry]:  # fmt: skip
    """All entries, in the order of the names."""
    return [entry(kind, summaries.get(kind.name)) for kind in sorted(kinds, key=lambda kind: kind.name)]


def total(entries: Iterable[Entry]) -> str:
    """How many claims were found how.

    >>> total([Entry("a", "A", "", (Row("x", "X", "", "holds"), Row("y", "Y", "", "not checked")))])
    '2 claims: 1 holds, 0 fail, 0 undecided, 1 not checked'
    """
    found = Counter(row.finding for each in entries for row in each.rows)
    verbs = ("holds" if found["holds"] == 1 else "hold", "fails" if found["fails"] == 1 else "fail")
    words = zip(FINDINGS, (*verbs, *FINDINGS[2:]), strict=True)
    return f"{sum(found.values())} claims: " + ", ".join(f"{found[key]} {word}" for key, word in words)


def markdown(entries: Iterable[Entry]) -> str:
    """The ledger as a page of documentation."""
    entries = list(entries)
    lines = [
        "# Claims ledger", "",
        "What the papers claim, judged by runs of the experiments here. A claim is judged at the scale its row names",
        "and at no other; what no run has judged is not checked. Write your own: `richter report`.", "",
        f"{total(entries)}.", "",
        "| experiment | run at | took | " + " | ".join(FINDINGS) + " |",
        "| --- | --- | --- |" + " ---: |" * len(FINDINGS),
    ]  # fmt: skip
    for each in entries:
        counts = " | ".join(str(each.count(finding) or "") for finding in FINDINGS)
        lines.append(f"| [{_cell(each.title)}](#{each.name}) | {each.preset} | {each.took} | {counts} |")
    for each in entries:
        run = f"Run at {each.preset}, {each.took}." if each.preset else "Not run."
        lines += ["", f'<a id="{each.name}"></a>', "", f"## {each.title}", "",
                  f"`{each.name}`. {_cell(each.statement)}", "", run, "",
                  "| finding | claim | measured | expected | scale |",
                  "| --- | --- | --- | --- | --- |"]  # fmt: skip
        for row in each.rows:
            measured = row.measured + (f" ({row.uncertainty})" if row.uncertainty else "")
            known = f" *Known: {_cell(row.known)}*" if row.known else ""
            claim = f"{_cell(row.says)} ({_cell(row.places)}){known}"
            cells = [f"**{row.finding}**", claim, _cell(measured), _cell(row.expected), _cell(row.scale)]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join([*lines, ""])


def _row(kind: type[AbstractExperiment], item: Claim, found: Mapping[str, str] | None) -> Row:
    places, known = ", ".join(map(str, item.places)), kind.known_failures.get(item.name, "")
    if found is None:
        return Row(item.name, item.says, places, UNCHECKED, known=known)
    return Row(
        item.name, item.says, places, found["finding"], found["measured"], found["expected"], found["scale"],
        found["uncertainty"], known,
    )  # fmt: skip


def _same(ours: Mapping[str, Any], written: Mapping[str, Any]) -> bool:
    plain = lambda value: list(value) if isinstance(value, tuple) else value
    return {name: plain(value) for name, value in ours.items()} == {k: plain(v) for k, v in written.items()}


def _cell(text: str) -> str:
    return " ".join(text.replace("](", "]\\(").replace("*", "\\*").replace("|", "\\|").split())
