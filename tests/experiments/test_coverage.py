"""Every statement that needs no image data is judged by an experiment; a judge's first words name it, as in "K3: …"."""

from __future__ import annotations

import re
from collections import defaultdict

from richter import catalog

# The statements of the papers by number, as the judges name them. Those on trained image networks are not here.
NEEDED = {
    "kun24": {f"K{n}" for n in (*range(1, 17), 21, 22, 23, 24, 26)},
    "xu24": {f"X{n}" for n in (*range(1, 7), 9, 10, 13, 14, 15, 16)},
}


def judged() -> dict[str, set[str]]:
    """Number → names of the experiments that judge it."""
    found = defaultdict(set)
    for name, kind in catalog.experiments().items():
        for item in kind.claims():
            first = (item.decide.__doc__ or "").split(":")[0]
            for number in re.findall(r"\b[KX]\d+\b", first):
                found[number].add(name)
    return found


def test_every_needed_statement_has_a_judge_in_its_family() -> None:
    found = judged()
    for family, numbers in NEEDED.items():
        missing = {n for n in numbers if not any(name.startswith(family) for name in found[n])}
        assert not missing, f"no claim of a {family} experiment is the judge of {sorted(missing)}"
