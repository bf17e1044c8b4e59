"""An experiment over a grid of its settings, and the start of a new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from richter import catalog
from richter.errors import FileError, ParameterError, UnknownNameError
from richter.experiments.scaffold import write_experiment
from richter.experiments.sweeping import findings, settings_cell
from richter.sweep import Grid, sweep
from tests.report.toys import Negative, Squares


def test_every_cell_is_a_run_with_its_verdicts() -> None:
    grid = Grid(n=[2, 3, 4])
    ds = sweep(settings_cell(Squares, grid, "smoke", {"words": ("z",)}), grid, engine="here")
    assert findings(ds) == {
        "positive": {"holds": 3}, "sums": {"holds": 1, "fails": 2}, "endless": {"undecided": 3},
    }  # fmt: skip
    assert ds.finding_sums.sel(n=2).item() == "holds" and ds.measured_sums.sel(n=4).item() == "14"
    np.testing.assert_array_equal(ds.y.sel(n=3), [0, 1, 4, np.nan])
    assert ds.finding_positive.attrs["long_name"].startswith("squares are never negative")


def test_other_code_is_another_sweep() -> None:
    from richter.sweep.identity import describe, made_with

    cell = settings_cell(Squares, Grid(n=[2]), "smoke", {})
    assert describe(cell) != describe(settings_cell(Negative, Grid(n=[2]), "smoke", {}))
    assert describe(cell) != describe(settings_cell(Squares, Grid(n=[2]), "laptop", {}))
    assert made_with(cell)["code"] == made_with(Squares)["code"] != made_with(Grid)["code"] != "unknown"


def test_settings_are_checked_before_anything_runs() -> None:
    with pytest.raises(UnknownNameError, match="kun24-squares has no setting `m`"):
        settings_cell(Squares, Grid(m=[1]))
    with pytest.raises(ParameterError, match="`n` of kun24-squares must be ≥ 2. Got 1."):
        settings_cell(Squares, Grid(n=[3, 1]))
    with pytest.raises(ParameterError, match="`n` must be set or swept. Got both."):
        settings_cell(Squares, Grid(n=[3]), "smoke", {"n": 4})


def test_an_address_is_an_experiment_too() -> None:
    assert catalog.experiment("tests.report.toys:Squares") is Squares
    for address, text in (
        ("tests.report.toys:Circles", "The module `tests.report.toys` has no `Circles`."),
        ("tests.report.absent:Squares", "No module `tests.report.absent`"),
        ("tests.report.toys:Toy", "is not an experiment: a final class"),
        ("tests.report.toys:square", "is not an experiment"),
    ):
        with pytest.raises(UnknownNameError, match=text):
            catalog.experiment(address)


def test_a_module_that_needs_what_is_missing_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "needs_something.py").write_text("import surely_absent\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    with pytest.raises(ModuleNotFoundError, match="surely_absent"):
        catalog.named("needs_something:f")


def test_a_new_experiment_runs_is_tested_typed_and_clean(tmp_path: Path) -> None:
    made = write_experiment("xu24-1b-my-idea", tmp_path)
    assert made.address == "xu24_1b_my_idea:Figure1bMyIdea" and made.experiment.name == "xu24_1b_my_idea.py"
    ruff = [sys.executable, "-m", "ruff"]
    rules = ["--isolated", "--line-length", "120"]
    for command in (
        [*ruff, "check", *rules, "--select", "E,F,I,UP,B,W,D1", "."],
        [*ruff, "format", *rules, "--check", "."],
        [sys.executable, "-m", "pytest", "-q", "-W", "error", "-p", "no:cacheprovider", made.test.name],
    ):
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
    with pytest.raises(FileError, match="must not exist yet"):
        write_experiment("xu24-1b-my-idea", tmp_path)
    for name in ("idea", "My-idea", "xu24_idea", "xu24--idea", "../xu24-idea", "xu24-idea\n"):
        with pytest.raises(ParameterError, match="must be lower-case words with hyphens"):
            write_experiment(name, tmp_path)
    with pytest.raises(FileError, match="the folder of the experiment must exist"):
        write_experiment("xu24-idea", tmp_path / "absent")
