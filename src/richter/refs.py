"""Papers, places in papers, and the mark that ties a function to a place.

A published formula is a function marked with its place, `@implements(KUN24["Eq. 25"])`. Where the print is
wrong the place carries an `Erratum`; `docs/errata.md` and `docs/equations.md` are generated from these marks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

Role = Literal["formula", "witness"]
F = TypeVar("F", bound=Callable[..., object])


@dataclass(frozen=True)
class Paper:
    """A published work; `paper["Eq. 4"]` is a place in it."""

    key: str
    title: str
    authors: str
    year: int
    venue: str
    url: str = ""

    def __getitem__(self, where: str) -> Place:
        return Place(self, where)

    def bibtex(self, places: tuple[str, ...] = ()) -> str:
        """The bibtex entry; `places` go into its note.

        >>> print(KUN24.bibtex(("Eq. 4",)).splitlines()[0])
        @misc{KUN24,
        """
        fields = {
            "title": f"{{{self.title}}}",
            "author": self.authors,
            "year": str(self.year),
            "howpublished": self.venue,
            "url": self.url,
            "note": "; ".join(places),
        }
        lines = [f"  {name} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@misc{{{self.key},", *lines, "}"])


@dataclass(frozen=True)
class Erratum:
    """What is printed, what is right, and how that was checked."""

    printed: str
    right: str
    how: str


@dataclass(frozen=True)
class Place:
    """A place in a paper; two places are equal when paper and position are, whatever the erratum."""

    paper: Paper
    where: str
    erratum: Erratum | None = field(default=None, compare=False)

    def misprint(self, *, printed: str, right: str, how: str) -> Place:
        """The same place, with what is wrong in the print."""
        return replace(self, erratum=Erratum(printed, right, how))

    def __str__(self) -> str:
        return f"{self.paper.key} {self.where}"


@dataclass(frozen=True)
class Implementation:
    """The mark that `implements` leaves on a function."""

    places: tuple[Place, ...]
    role: Role


def implements(*places: Place, role: Role = "formula") -> Callable[[F], F]:
    """Mark a function as the published formula at `places`.

    At most one function per place has the role "formula"; a "witness" is a second, independent form of the
    same place that exists for tests and documentation only.
    """
    if not places or not all(isinstance(place, Place) for place in places):
        raise TypeError('implements() takes places, such as KUN24["Eq. 4"]')

    def mark(function: F) -> F:
        function.__richter_implements__ = Implementation(places, role)  # type: ignore[attr-defined]
        return function

    return mark


KUN24 = Paper(
    "KUN24",
    "Get rich quick: exact solutions reveal how unbalanced initializations promote rapid feature learning",
    "Kunin, Daniel and Raventós, Allan and Dominé, Clémentine and Chen, Feng and Klindt, David"
    " and Saxe, Andrew and Ganguli, Surya",
    2024,
    "Advances in Neural Information Processing Systems 37, arXiv:2406.06158",
    "https://arxiv.org/abs/2406.06158",
)
XU24 = Paper(
    "XU24",
    "Three mechanisms of feature learning in the exact solution of a latent variable model",
    "Xu, Yizhou and Ziyin, Liu",
    2024,
    "arXiv:2401.07085",
    "https://arxiv.org/abs/2401.07085",
)
NAM24 = Paper(
    "NAM24",
    "Inductive bias from layerwise structure and backpropagation in neural networks",
    "Nam, Yoonsoo",
    2024,
    "DPhil thesis, University of Oxford",
)
PAPERS = {paper.key: paper for paper in (KUN24, XU24, NAM24)}
