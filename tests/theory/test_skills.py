"""What the theories of skills offer beyond the laws: finite data, few basis functions, regimes, errors."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from richter.errors import OutsideTheoryError, ParameterError
from richter.maths.multilinear import counted_loss, linear_strength
from richter.refs import NAM24
from richter.tasks.sparse_parity import SparseParity
from richter.testing.tolerances import IDENTITY, SOLVED, assert_close, assert_within_errors
from richter.theory import ExtendedSkills, MultilinearSkills

USUAL = {"alpha": 0.6, "target": 1.3, "initial": 1e-3, "eta": 0.8}


def skills(**more: object) -> MultilinearSkills:
    return MultilinearSkills.of(**{**USUAL, "n_skills": 40, **more})


def test_the_loss_alone_is_that_of_all_skills() -> None:
    t = [0.0, 3.0, 1e3, 1e5, np.inf]
    for more in ({}, {"n_basis": 12}, {"rate": 0.2}, {"initial": np.geomspace(1e-6, 1.2, 40)}, {"n_skills": 5000}):
        model = skills(**more)
        ds = model.solve(t)
        share = model.frequencies()
        assert_close((share * ds.skill_loss.values).sum(axis=-1), ds.loss.values, IDENTITY, times=10, scale=1e-2)
        assert_close(model.solve(t, only=("loss",)).loss, ds.loss, IDENTITY)
    assert skills(n_basis=12).limit().skill_strength.values.tolist() == pytest.approx([1.3] * 12 + [0.0] * 28)


def test_rarer_skills_rise_later_and_sigmoidally() -> None:
    # N30, Fig. 4.1b.
    model = skills(n_skills=6)
    t = np.linspace(0, 300, 3001)
    strength = model.solve(t, only=("skill_strength",)).skill_strength.values / 1.3
    half = t[np.argmax(strength >= 0.5, axis=0)]
    assert (np.diff(half) > 0).all()
    assert np.abs(half / half[0] / np.arange(1.0, 7.0) ** 1.6 - 1).max() < 0.02  # the grid of times
    speed = np.diff(strength[:, 0])
    assert 20 * speed[0] < speed.max()
    # The linear model with the same skills starts at full speed: no emergence in time.
    linear = model.linear_model().solve(t).output.values / np.sqrt(model.frequencies()) / 1.3
    assert_close(linear, linear_strength(t[:, None], model.frequencies(), 1.0, 0.8), IDENTITY, scale=1e-2)
    assert (np.diff(linear[:100, 0]) > 0).all() and np.diff(linear[:, 0]).argmax() == 0
    for x in (linear, strength):  # both are one-shot learners in the end
        assert (np.diff(x[-1]) < 1e-12).all()


def test_stages_of_skills_are_read_off_their_curves() -> None:
    model = skills(n_skills=6, n_basis=5)
    first, wait = model.stages(0.1)
    strength = model.with_(n_basis=5).solve(np.concatenate([first[:5], (first + wait)[:5]])).skill_strength.values
    assert_close(np.diagonal(strength[:5]), np.full(5, 0.13), IDENTITY, times=10)
    assert_close(np.diagonal(strength[5:]), np.full(5, 1.17), IDENTITY, times=10)
    assert first[5] == wait[5] == np.inf
    assert skills(n_skills=2, initial=[0.5, 0.0]).stages()[0].tolist() == [0.0, np.inf]
    assert np.isinf(skills(eta=0.0).stages()[0]).all()


@pytest.mark.parametrize("t", [np.inf, 60.0])
def test_training_on_drawn_data_agrees_with_its_expectation(seed: int, t: float) -> None:
    model = skills(n_skills=200, n_basis=150)
    counts = model.draw_counts(300, draws=1500, rng=np.random.default_rng([seed, 80]))
    ds = model.from_counts([t], counts)
    assert ds.skill_strength.dims == ("draw", "t", "skill") and not ds.skill_strength[..., 150:].values.any()
    expected = model.expected_loss(300, t)
    assert_within_errors(ds.loss.values[:, 0], float(expected))
    assert_close(ds.train_loss.values[:, 0], counted_loss(counts, ds.skill_strength.values[:, 0], 1.3), IDENTITY,
                 scale=1.0)  # fmt: skip
    untouched = counts[0] == 0
    assert_close(ds.skill_strength.values[0, 0, :150][untouched[:150]], 1e-3, IDENTITY)


def test_drawn_counts_are_those_of_the_task(seed: int) -> None:
    task = SparseParity.draw(n_tasks=6, n_bits=18, rng=seed)
    model = skills(n_skills=6)
    data = task.sample(5000, rng=np.random.default_rng([seed, 81]))
    counts = np.bincount(data.skill, minlength=6)
    many = model.draw_counts(5000, draws=2000, rng=np.random.default_rng([seed, 82]))
    assert (np.abs(counts - many.mean(axis=0)) < 6 * many.std(axis=0)).all()
    assert (many.sum(axis=1) == 5000).all()


def test_one_number_follows_another() -> None:
    model = skills()
    assert model.n_basis.item() == 40 and model.with_(n_skills=50).n_basis.item() == 50
    assert skills(n_basis=7).with_(n_skills=50).n_basis.item() == 7
    assert model.with_(n_basis=3).limit().loss.item() > 0


def test_regimes_of_skills() -> None:
    assert skills().regime().label == "rich"
    assert skills(initial=1.29).regime().label == "lazy"
    assert skills(eta=0.0).regime().label == "undefined"
    assert skills(initial=[[1e-3], [1.29]]).regime().label.tolist() == ["rich", "lazy"]
    assert extended(0.01).regime().label == "rich"
    assert extended(2.0).regime().label == "lazy"


def extended(a0: float, **more: object) -> ExtendedSkills:
    given = {"alpha": 0.6, "n_skills": 3, "needed": 5, "target": 1.3, "a0": a0, "samples": 9, "rng": 3, **more}
    return ExtendedSkills.from_draw(**given)  # type: ignore[arg-type]


@pytest.mark.place(NAM24["Sec. B.1.5"], NAM24["Eq. B.39"])
def test_extended_skills_end_alike_whether_the_data_is_whitened_or_not(seed: int) -> None:
    # N31: conserved quantity and end state; a theory for whitened data, the end for any.
    for a0 in (1e-3, 0.4):
        white, raw = extended(a0, rng=seed), extended(a0, rng=seed, whitened=False)
        limit, end = white.limit(), raw.end_state()
        assert_close(limit.skill_strength, white.end_state().skill_strength, IDENTITY, scale=1.0)
        counts = np.round(np.trace(white.gram, axis1=1, axis2=2) * 9 / np.linalg.matrix_rank(white.gram).clip(1))
        assert counts.max() <= 9
        assert_close(end.a, limit.a, SOLVED, scale=1.0)  # the same directions are shown
        assert_close(end.coefficient, limit.coefficient, SOLVED, scale=1.0)
        assert_close(end.imbalance, np.full(3, a0**2), IDENTITY, scale=1.0)
        assert_close(end.effective_strength, 1.3 - np.sqrt(2 * end.skill_loss), IDENTITY)
        assert (end.loss.values < 1e-16).all()


def test_skill_strength_by_definition_and_by_the_loss_are_two_things(seed: int) -> None:
    draws = 60
    found = [
        ExtendedSkills.from_draw(
            alpha=0.6, n_skills=1, needed=40, target=1.0, a0=1e-4, samples=10, rng=np.random.default_rng([seed, 90, i])
        ).end_state()
        for i in range(draws)
    ]
    strength, effective = (
        np.array([float(ds[name].values[0]) for ds in found]) for name in ("skill_strength", "effective_strength")
    )
    assert_within_errors(strength, 10 / 40)
    assert np.abs(effective - (1 - np.sqrt(1 - strength))).max() < 1e-3  # a small start
    assert abs(effective.mean() - (1 - np.sqrt(0.75))) < 0.02 < strength.mean() - effective.mean()


def test_basis_functions_are_filled_skill_by_skill() -> None:
    model = ExtendedSkills.endless(alpha=0.6, n_skills=3, needed=4, target=2.0, a0=1e-3, n_basis=6)
    assert_close(model.limit().skill_strength, [2.0, 1.0, 0.0], SOLVED, times=100, scale=1.0)
    assert_close(model.limit().skill_loss, [0.0, 1.0, 2.0], SOLVED, times=100, scale=1.0)
    t = np.geomspace(1e-1, 1e3, 400)
    rise = model.solve(t).skill_strength.values
    assert t[np.argmax(rise[:, 0] > 1.0)] < t[np.argmax(rise[:, 1] > 0.5)]


@pytest.mark.parametrize(
    ("make", "kind", "text"),
    [
        (lambda: skills(n_skills=2.5), ParameterError, "`n_skills` of MultilinearSkills must be one whole number"),
        (lambda: skills(n_skills=[3, 4]), ParameterError, "`n_skills` of MultilinearSkills must be one whole number"),
        (lambda: skills(n_basis=41), ParameterError, "`n_basis` of MultilinearSkills must be at most n_skills = 40"),
        (lambda: skills(initial=[0.1, 0.2]), ParameterError, "must be one number or one for each of the 40 skills"),
        (lambda: skills(initial=-0.1), ParameterError, "`initial` of MultilinearSkills must be ≥ 0. Got -0.1."),
        (
            lambda: skills(n_skills=3, initial=[1e-310, 0.0, 0.1]),
            ParameterError, "`initial` of MultilinearSkills must be 0 or at least 1e-30 for every skill. Got 1e-310.",
        ),
        (lambda: skills(alpha=0.0), ParameterError, "`alpha` of MultilinearSkills must be > 0"),
        (lambda: skills(initial=[[0.1], [0.2]]).expected_loss(3), ParameterError, "must be asked of one start"),
        (lambda: skills().expected_loss(0), ParameterError, "`samples` must be whole numbers ≥ 1"),
        (lambda: skills().from_counts([1.0], [1, 2]), ParameterError, "`counts` must be (skill,) or (draw, skill)"),
        (lambda: skills().stages(0.7), ParameterError, "`epsilon` must lie between 0 and ½. Got 0.7."),
        (lambda: skills(n_basis=3).linear_model(), ParameterError, "must be asked with n_basis = n_skills. Got 3."),
        (lambda: extended(0.1, whitened=False).solve([1.0]), OutsideTheoryError, "Use end_state() for the exact end"),
        (lambda: extended(0.1, counts=[9, 1, 1]), ParameterError, "`counts` must be 3 whole numbers ≥ 0 of sum 9"),
        (
            lambda: extended(0.1).with_(gram=np.ones((3, 5, 4))),
            ParameterError, "`gram` of ExtendedSkills must be (skill, basis, basis)",
        ),
        (
            lambda: extended(0.1).with_(gram=np.triu(np.ones((3, 5, 5)))),
            ParameterError, "`gram` of ExtendedSkills must be symmetric",
        ),
        (
            lambda: extended(0.1).with_(gram=-np.tile(np.eye(5), (3, 1, 1))),
            ParameterError, "must have no negative eigenvalue",
        ),
        (
            lambda: extended(0.1).with_(gram=np.tile(np.diag([1.0, 1, 0, 0, 0]) - np.eye(5)[[1, 0, 2, 3, 4]] * [1, 1, 0, 0, 0], (3, 1, 1))).solve([1.0]),
            OutsideTheoryError, "shows nothing of its target",
        ),
        (
            lambda: extended(0.1).with_(a0=[1e-200, 0.1, 0.2]),
            ParameterError, "`a0` of ExtendedSkills must be 0 or at least 1e-30 in magnitude for every skill. Got 1e-200.",
        ),
        (
            lambda: ExtendedSkills.endless(alpha=1, n_skills=2, needed=3, target=1, a0=1, n_basis=7),
            ParameterError, "`n_basis` must be a whole number from 0 to 6. Got 7.",
        ),
    ],
)  # fmt: skip
def test_what_lies_outside_is_refused(make: Callable[[], object], kind: type[Exception], text: str) -> None:
    with pytest.raises(kind) as caught:
        make()
    assert text in str(caught.value)
