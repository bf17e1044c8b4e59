"""Every law on every member of the zoo, and the mutants that judge the laws."""

from __future__ import annotations

import pytest

from richter import catalog
from richter.refs import KUN24, NAM24, XU24
from richter.testing import mutants
from richter.testing.laws import Law, laws
from richter.testing.zoo import Member, members


@pytest.mark.place(
    KUN24["Eq. 1"], KUN24["Eq. 10"], KUN24["Eq. 13"], KUN24["Eq. 14"], KUN24["Eq. 15"],
    XU24["Eq. 2"], XU24["Eq. 10"], XU24["Eq. 18"], XU24["Eq. 22"], XU24["Eq. 23"], XU24["Sec. 3.1"],
    NAM24["Eq. 1.25"], NAM24["Eq. 3.6"], NAM24["Eq. 3.8"], NAM24["Eq. A.16"],
)  # fmt: skip
@pytest.mark.parametrize("law", laws().values(), ids=laws())
@pytest.mark.parametrize("member", members(), ids=lambda member: member.name)
def test_law(law: Law, member: Member) -> None:
    reason = member.why_not(law.__name__.removeprefix("check_"))
    if reason:
        pytest.skip(reason)
    law(member)


def test_every_theory_is_in_the_zoo() -> None:
    assert {member.make().name for member in members()} == set(catalog.theories())


def test_the_zoo_has_the_hard_members() -> None:
    made = {member.name: member.make() for member in members()}
    assert float(made["neuron-balanced"].solve(0.0).delta.item()) == 0.0
    assert made["neuron-far-upstream"].solve(0.0).delta.item() > 9e5
    assert made["neuron-far-downstream"].solve(0.0).delta.item() < -3e5
    assert made["wide-no-p"].limit().growth.item() == float("inf")


def test_every_mutant_dies_and_every_law_kills() -> None:
    verdicts = mutants.judge()
    survivors = [f"{mutant.file}: {mutant.says}" for mutant, broken in verdicts if not broken]
    assert not survivors
    killers = {law for _, broken in verdicts for law in broken}
    assert killers == set(laws())


def test_a_mutant_that_changes_nothing_survives_control() -> None:
    nothing = mutants.Mutant(
        "nothing changes", "maths/neuron.py", "mass = weight + big + tail", "mass = tail + big + weight"
    )
    assert mutants.kills(nothing) == {}
