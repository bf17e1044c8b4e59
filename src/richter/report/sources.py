"""Where statements come from: the works with the places used, and what is misprinted there."""

from __future__ import annotations

from collections.abc import Iterable

from richter import catalog
from richter.refs import Place
from richter.report import page


def errata_at(places: Iterable[Place]) -> list[tuple[str, list[str]]]:
    """What is misprinted at these places, from the marks on the formulas."""
    wanted = set(places)
    found = {}
    for formula in catalog.formulas():
        wrong = formula.place.erratum
        if formula.place in wanted and wrong is not None:
            found[str(formula.place)] = [f"Printed: {wrong.printed}", f"Right: {wrong.right}", f"Checked: {wrong.how}"]
    return list(found.items())


def references(places: Iterable[Place]) -> page.Html:
    """The works, each with the places that are used."""
    papers: dict[str, tuple[Place, list[str]]] = {}
    for place in places:
        papers.setdefault(place.paper.key, (place, []))[1].append(place.where)
    entries = []
    for key, (place, where) in sorted(papers.items()):
        paper = place.paper
        used = ", ".join(sorted(dict.fromkeys(where), key=catalog.natural))
        authors = "; ".join(paper.authors.split(" and "))
        entries.append((f"{key}: {authors} ({paper.year}). {paper.title}. {paper.venue}. Used: {used}.", paper.url))
    return page.references(entries)
