"""The tour: the first results, solved, simulated, trained, judged and drawn on one page."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from pathlib import Path

from richter import __version__, draw
from richter.errors import FileError, MissingExtraError, message
from richter.figure.build import number
from richter.report import page
from richter.report.chapters import CHAPTERS, MEASURED, Chapter
from richter.report.sources import errata_at, references

TITLE = "Richter: a tour in four exact solutions and a network"
LEAD = (
    "How richly does a network learn? For some networks gradient flow can be solved in closed form, so the answer is "
    "exact. The first four figures lay the exact solution, dashed, over a numerical simulation, in colour, that knows "
    "nothing of it. For all others it is measured: the last figure shows one network trained in two regimes. Each "
    "verdict gives the regime with its numbers and the threshold it was compared with."
)
ALONE = 'The rest of the tour trains a network, which needs PyTorch. Type: pip install "richter[torch]"'
NEXT = """
richter list
richter show single-neuron
richter solve single-neuron --set a0=1 --set 'w0=[-1,0]' --set 'beta_star=[0,1]' --times 0,1,inf
richter solve diagonal-network --set a0=0.001 --set b0=0.001 --set 'target=[1,1]' --set 'input_variance=[1,0.5]' \
--times 0,5,10,20,inf
richter solve linear-model --set 'eigenvalues=[1,0.5]' --set 'coefficients=[1,1]' --times 0,5,10,20,inf
richter solve scalar-network --set 'a0=[0.1,0.1]' --set 'b0=[0.1,-0.1]' --set target=1 --times 0,1,10,inf
richter solve wide-scalar --set 'u0=[1,-1]' --set 'w0=[[0.5],[0.2]]' --set 'x=[1]' --set y=2 --times 0,1,inf
"""


def run_tour(folder: Path, progress: Callable[[str, float], None] | None = None) -> Path:
    """Write `index.html` into the folder, which is made if need be, and return its path.

    The page needs nothing else; `figures/` holds its figures as SVG for other uses. `progress` is told what is
    being done and the share that is done.
    """
    folder = Path(folder)
    figures = folder / "figures"
    try:
        figures.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        what = message("the folder of the tour", "be a folder that can be made", str(folder))
        raise FileError(f"{what} {problem.strerror or problem}.") from None
    say = progress or (lambda what, share: None)
    steps = 2 * (len(CHAPTERS) + len(MEASURED)) + 1
    made: list[Chapter] = []
    sections: list[page.Html] = []
    for i, (words, build) in enumerate({**CHAPTERS, **MEASURED}.items()):
        say(f"{words}: {'training' if words in MEASURED else 'solving'}", 2 * i / steps)
        try:
            chapter = build()
        except MissingExtraError:
            if words in MEASURED:
                continue
            raise
        say(f"{words}: drawing", (2 * i + 1) / steps)
        draw.save(chapter.figure, figures / f"{chapter.ident}.svg")
        made.append(chapter)
        sections.append(_section(chapter))
    say("Writing the page", (steps - 1) / steps)
    written = draw.write(folder / "index.html", _page(made, sections).encode())
    say("Done", 1.0)
    return written


def lacks() -> str:
    """One line on what to install for the whole tour; empty if it is there."""
    return "" if importlib.util.find_spec("torch") else ALONE


def _page(chapters: list[Chapter], sections: list[page.Html]) -> str:
    links = [(chapter.ident, chapter.title) for chapter in chapters]
    places = [place for chapter in chapters for place in chapter.places]
    return page.page(
        TITLE,
        page.text(LEAD, "lead"),
        page.contents([*links, ("next", "What to try next"), ("references", "References")]),
        *sections,
        *([page.text(ALONE, "note")] if len(chapters) < len(CHAPTERS) + len(MEASURED) else []),
        page.section(
            "next",
            "What to try next",
            page.text("In a terminal, the theories and exact numbers, t = ∞ included:"),
            page.code(NEXT, "commands"),
            page.text("The figures on this page are in the folder figures/ beside it, as SVG."),
        ),
        page.section("references", "References", references(places)),
        page.text(
            f"Made by Richter {__version__}, with no network access. All numbers were computed when the page was made.",
            "note",
        ),
    )


def _section(chapter: Chapter) -> page.Html:
    misprints = errata_at(chapter.places)
    where = ", ".join(dict.fromkeys(str(place) for place in chapter.places))
    return page.section(
        chapter.ident,
        chapter.title,
        page.text(chapter.seen),
        page.picture(chapter.figure, chapter.alt),
        page.heading("Verdict"),
        page.text(chapter.verdict, "verdict"),
        page.table(*chapter.table),
        *([page.terms(chapter.said)] if chapter.said else []),
        *(_agreement(chapter) if chapter.agreement else []),
        page.heading("The lines that reproduce it"),
        page.code(chapter.python, f"Python lines for: {chapter.title}"),
        page.text(f"Sources: {where}.", "note"),
        *([page.heading("Misprints on the way"), page.terms(misprints)] if misprints else []),
    )


def _agreement(chapter: Chapter) -> list[page.Html]:
    worst = max(item.error for item in chapter.agreement)
    points = sum(item.points for item in chapter.agreement)
    return [
        page.heading("Does the exact solution hold?"),
        page.text(
            f"Over {points} points exact and simulated differ by at most {number(worst, 2)}, relative to the largest "
            "value of each curve. The integrator is asked for 10⁻¹¹ at every step."
        ),
        page.table(
            "Largest |exact − simulated| over all points, in units of the largest value of the same curve.",
            ("quantity", "largest difference", "points"),
            [(item.what, number(item.error, 2), str(item.points)) for item in chapter.agreement],
        ),
    ]
