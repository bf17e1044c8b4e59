"""run, check, figure, show and list for experiments, and the phase diagram from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from richter.cli import main

NAME = "kun24-hyperboloid"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_run_is_saved_judged_again_and_drawn(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = str(tmp_path / "run.nc")
    code, out, err = run(capsys, "run", NAME, "--preset", "smoke", "--set", "starts=3", "--out", file, "--json")
    made = json.loads(out)
    assert code == 0 and not err and made["file"] == file
    assert {row["finding"] for row in made["claims"]} == {"holds"} and "3 surfaces × 6 starts" in made["claims"][0][
        "scale"
    ]
    code, out, _ = run(capsys, "check", NAME, "--from", file)
    assert code == 0 and "δ is conserved" in out and "measured" in out and "scale" in out
    picture = tmp_path / "figure.svg"
    code, out, _ = run(capsys, "figure", NAME, "--from", file, "--out", str(picture))
    assert code == 0 and str(picture) in out and picture.read_text().startswith("<?xml")
    panels = json.loads(run(capsys, "figure", NAME, "--from", file, "--json")[1])["panels"]
    assert len(panels) == 3


def test_a_failing_claim_is_exit_code_1(capsys: pytest.CaptureFixture[str]) -> None:
    # So short a time that nothing has ended anywhere.
    code, out, _ = run(capsys, "check", NAME, "--preset", "smoke", "--set", "span=1", "--json")
    findings = {row["claim"]: row["finding"] for row in json.loads(out)["claims"]}
    assert code == 1 and findings["ends"] == "fails" and findings["stays"] == "holds"


def test_experiments_are_listed_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    listed = json.loads(run(capsys, "list", "--json")[1])
    assert NAME in {row["name"] for row in listed["experiments"]}
    assert NAME in run(capsys, "list")[1]
    shown = json.loads(run(capsys, "show", NAME, "--json")[1])
    assert shown["settings"]["starts"]["default"] == 10 and shown["presets"]["smoke"] == {"starts": 4, "moments": 60}
    assert len(shown["claims"]) == 3 and "richter check kun24-hyperboloid" in run(capsys, "show", NAME)[1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["run", "kun24-hyperbolid"], "No experiment named `kun24-hyperbolid`. Did you mean kun24-hyperboloid?"),
        (["check", NAME, "--preset", "tiny"], "the preset must be one of smoke, laptop, paper. Got 'tiny'."),
        (["check", NAME, "--set", "starts"], "`--set` must be name=value. Got starts."),
        (["check", NAME, "--set", "start=3"], "has no setting `start`. Did you mean starts?"),
        (["check", NAME, "--set", "starts=many"], "`starts` of kun24-hyperboloid must be a finite number. Got 'many'."),
        (["figure", NAME, "--from", "absent.nc"], "There is no file absent.nc."),
        (["figure", NAME, "--from", "x.nc", "--set", "starts=3"], "`--set` must be left out with --from"),
        (["phase", "--plot", "x.png"], "`--plot` must come with --diagram"),
        (["phase", "--diagram", "c_eta"], "`--diagram` must name two exponents. Got c_eta."),
        (["phase", "--diagram", "c_eta,c_gama"], "There is no exponent `c_gama`. Did you mean c_gamma"),
    ],
)
def test_wrong_use_is_one_clear_line(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


def test_phase_diagrams_and_finite_sizes(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "diagram.svg"
    code, out, _ = run(capsys, "phase", "--diagram", "c-d,c_gamma", "--plot", str(target))
    assert code == 0 and str(target) in out and target.stat().st_size > 1000
    made = json.loads(run(capsys, "phase", "--c-gamma", "-0.5", "--finite-size", "--json")[1])["finite_size"]
    assert abs(made["t_c"]["fitted"]) < 0.02 and made["ratio"]["theory"] == "-0.5"
    assert "finite widths: |P/Q − 1|" in run(capsys, "phase", "--c-gamma", "-0.5", "--finite-size")[1]
    zero = json.loads(run(capsys, "phase", "--c-gamma", "-0.5", "--balanced-output", "--finite-size", "--json")[1])
    assert zero["finite_size"]["ratio"] == {
        "fitted": None, "low": None, "high": None, "says": "|P/Q − 1|", "theory": "−∞",
    }  # fmt: skip
