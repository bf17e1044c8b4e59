"""The page of one experiment: statement, verdicts, figure, settings, duration, how to run it again, sources."""

from __future__ import annotations

from typing import TYPE_CHECKING

from richter import __version__
from richter.experiments import AbstractExperiment
from richter.experiments.settings import declared
from richter.figure import Figure
from richter.report import page
from richter.report.ledger import Entry, Row
from richter.report.sources import errata_at, references

if TYPE_CHECKING:
    import xarray as xr

HEAD = ("finding", "claim", "measured", "expected", "scale")


def experiment_page(experiment: AbstractExperiment, ds: xr.Dataset, entry: Entry) -> str:
    """The whole page, which needs nothing else; `index.html` beside it is the ledger."""
    figure = experiment.figure(ds)
    places = [*experiment.places, *(place for item in experiment.claims() for place in item.places)]
    known = declared(experiment)
    settings = [
        (f"{name} ({s.symbol})" if s.symbol else name, _words(experiment.settings[name]), s.says)
        for name, s in known.items()
    ]
    misprints = errata_at(places)
    return page.page(
        experiment.title,
        page.text(experiment.statement, "lead"),
        page.text(f"{experiment.name}, run at {entry.preset} in {entry.took}, Richter {ds.attrs['version']}.", "note"),
        page.section("figure", "Figure", page.picture(figure, alt_text(figure))),
        page.section("claims", "Claims", findings(entry, f"Judged on this run, at {entry.preset}.")),
        page.section(
            "settings", "Settings",
            page.table("What the run was made with.", ("setting", "value", "meaning"), settings),
        ),
        page.section(
            "again", "Run it again",
            page.code(commands(experiment), "commands"),
            page.text("In Python:"),
            page.code(python(experiment), "Python lines"),
        ),
        page.section(
            "sources", "Sources", references(places),
            *([page.heading("Misprints on the way"), page.terms(misprints)] if misprints else []),
        ),
        page.links([("index.html", "All claims")]),
        page.text(f"Made by Richter {__version__}, with no network access.", "note"),
    )  # fmt: skip


def findings(entry: Entry, caption: str) -> page.Html:
    """The table of verdicts."""
    return page.findings(caption, HEAD, [(_tone(row), _cells(row)) for row in entry.rows])


def commands(experiment: AbstractExperiment) -> str:
    """What to type to get the same run, its verdicts and its figure."""
    import json
    import shlex

    name, file = experiment.name, f"{experiment.name}.nc"
    preset = experiment.preset_name or "laptop"
    base = experiment.preset(preset).settings
    changed = [
        f"--set {shlex.quote(f'{key}={json.dumps(value)}')}"
        for key, value in experiment.settings.items()
        if value != base[key]
    ]
    run = " ".join([f"richter run {name} --preset {preset}", *changed, f"--out {file}"])
    return f"{run}\nrichter check {name} --from {file}\nrichter figure {name} --from {file} --out {name}.png"


def python(experiment: AbstractExperiment) -> str:
    """The same in Python."""
    given = experiment.settings
    preset = experiment.preset_name
    if preset:
        make = f'.preset("{preset}")'
    else:
        make = f"({', '.join(f'{key}={value!r}' for key, value in given.items())})"
    return (
        "from richter import catalog\n\n"
        f'experiment = catalog.experiment("{experiment.name}"){make}\n'
        "ds = experiment.execute()\n"
        "for claim, verdict in experiment.check(ds):\n"
        "    print(verdict.finding, claim.says, verdict.measured)"
    )


def alt_text(figure: Figure) -> str:
    """What is drawn, for someone who does not see it."""
    panels = [f"{each.title + ': ' if each.title else ''}{each.y} against {each.x}" for each in figure.panels]
    return f"{figure.title or 'Figure'}. {len(panels)} panel{'s' * (len(panels) != 1)}. {'; '.join(panels)}."


def _tone(row: Row) -> str:
    return row.finding if row.finding in ("holds", "fails", "undecided") else ""


def _cells(row: Row) -> tuple[str, ...]:
    measured = row.measured + (f" ({row.uncertainty})" if row.uncertainty else "")
    known = f" Known: {row.known}" if row.known else ""
    return (row.finding, f"{row.says} ({row.places}){known}", measured, row.expected, row.scale)


def _words(value: object) -> str:
    return ", ".join(f"{each}" for each in value) if isinstance(value, tuple) else str(value)
