"""`richter learnability` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from richter.cli import main
from richter.theory import learnability
from richter.theory.eigenlearning import power_law_learnability


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["learnability", *args])
    out, err = capsys.readouterr()
    return code, out, err


def test_files_and_options_give_the_same_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    given = {"eigenvalues": [1, 0.5, 0.1], "n": [1, 2, 3], "coefficients": [1, 0, 2], "noise": 0.1, "ridge": 0}
    file.write_text(json.dumps(given))
    code, out, err = run(capsys, "--params", str(file), "--json")
    assert code == 0 and not err
    made = json.loads(out)
    assert set(made) == {"model", "params", "dims", "variables", "schema"} and made["model"] == "learnability"
    assert made["dims"] == {"n": 3, "mode": 3} and made["variables"]["n"]["data"] == [1.0, 2.0, 3.0]
    exact = learnability(**given)
    assert made["variables"]["overfitting"]["data"][2] == made["variables"]["test_error"]["data"][2] == "inf"
    for name in ("kappa", "learnability", "train_error"):
        assert made["variables"][name]["dims"] == list(exact[name].dims)
        np.testing.assert_array_equal(np.array(made["variables"][name]["data"]), exact[name].values)
    options = ["--eigenvalues", "1,0.5,0.1", "--n", "1,2,3", "--coefficients", "[1, 0, 2]", "--noise", "0.1"]
    assert json.loads(run(capsys, *options, "--ridge", "0", "--json")[1])["variables"] == made["variables"]
    # An option wins over the file.
    code, out, _ = run(capsys, "--params", str(file), "--n", "2", "--json")
    assert json.loads(out)["dims"] == {"mode": 3} and json.loads(out)["variables"]["n"] == {"dims": [], "data": 2.0}
    assert json.loads(run(capsys, "-e", "[1, 1]", "-n", "1", "--json")[1])["variables"]["test_error"]["data"] is None


def test_the_table_shows_every_row_and_says_what_it_leaves_out(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "-e", "[1, 1, 1, 1, 1, 1]", "-n", "2,3", "-c", "[1, 0, 0, 0, 0, 0]", "--noise", "0.5")
    assert code == 0 and not err
    assert "0.3333" in out and "0.5" in out and "clean" in out and "6 modes, the first 4 shown" in out
    batch = run(capsys, "-e", "[[1, 1], [1, 0.5]]", "-n", "1")[1]
    assert "start" in batch and "clean" not in batch and "shown" not in batch


def test_the_endless_spectrum_is_asked_by_its_power(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "--power-law", "1", "-n", "5,20", "-c", "[1, 0.5]", "--noise", "0.1", "--json")
    made, exact = json.loads(out), power_law_learnability(1.0, [5, 20], coefficients=[1, 0.5], noise=0.1)
    assert code == 0 and not err and made["params"]["alpha"] == 1.0
    for name in ("kappa", "learnability", "test_error"):
        np.testing.assert_array_equal(np.array(made["variables"][name]["data"]), exact[name].values)
    assert "Endlessly many modes, the first 4 shown" in run(capsys, "--power-law", "1", "-n", "5")[1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["-n", "1"], "learnability must be given `eigenvalues` (mode). Got n."),
        (
            ["-e", "[1, 2", "-n", "1"],
            "`eigenvalues` of learnability must be a JSON array, such as [1, 0]. Got '[1, 2'.",
        ),
        (["-e", "[1, -2]", "-n", "1"], "`eigenvalues` of learnability must be ≥ 0. Got -2.0."),
        (["--power-law", "1", "-e", "[1]", "-n", "1"], "`eigenvalues` must not be given with `--power-law`"),
        (["--power-law", "1"], "learnability must be given `n` (n). Got nothing."),
        (["--power-law", "-1", "-n", "1"], "`alpha` of power_law_learnability must be between 0.001 and 100."),
        (["--params", "absent.json"], "The parameter file absent.json cannot be read"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1
