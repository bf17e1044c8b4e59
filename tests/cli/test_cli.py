"""The command as a user types it: output, errors in one line, exit codes."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter import catalog
from richter.cli import app, main
from richter.schema import load

NEURON = ["--set", "a0=1", "--set", "w0=[-1, 0]", "--set", "beta_star=[0, 1]"]


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_solve_prints_the_stable_json(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_text(json.dumps({"a0": [1.0, 0.5], "w0": [-1.0, 0.0], "beta_star": [0.0, 1.0]}))
    code, out, err = run(capsys, "solve", "single-neuron", "--params", str(file), "--times", "0,0.5,1,inf", "--json")
    assert code == 0 and not err
    made: dict[str, Any] = json.loads(out)
    assert set(made) == {"model", "params", "dims", "variables", "schema"}
    assert made["model"] == "single-neuron" and made["schema"] == 1
    assert made["dims"] == {"t": 4, "start": 2, "input": 2, "input_2": 2}
    assert made["params"]["a0"] == [1.0, 0.5] and made["params"]["eta_a"] == 1.0
    assert made["variables"]["t"] == {"dims": ["t"], "data": [0.0, 0.5, 1.0, "inf"]}
    exact = catalog.theory("single-neuron").of(**json.loads(file.read_text())).solve([0, 0.5, 1, np.inf])
    for name in ("a", "w", "beta", "loss", "kernel_distance"):
        assert made["variables"][name]["dims"] == list(exact[name].dims)
        np.testing.assert_array_equal(np.array(made["variables"][name]["data"]), exact[name].values)


def test_both_spellings_and_all_ways_to_give_parameters_agree(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO('{"a0": 1, "w0": [-1, 0], "beta_star": [0, 1]}'))
    calls = [
        ["SingleNeuron", *NEURON],
        ["single-neuron", "--a0", "1", "--w0", "[-1, 0]", "--beta-star", "[0, 1]"],
        ["single-neuron", "--a0=1", "--w0=[-1, 0]", "--beta_star=[0, 1]"],
        ["single-neuron", "--params", "-"],
    ]
    outputs = {run(capsys, "solve", *call, "--times", "0,1", "--json")[1] for call in calls}
    assert len(outputs) == 1


def test_negative_numbers_are_values(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(
        capsys, "solve", "single-neuron", "--a0", "-1", "--w0", "-0.5", "--beta-star", "2", "--times", "0", "--json"
    )
    assert code == 0 and json.loads(out)["variables"]["a"]["data"] == [-1.0]


def test_solve_writes_files_and_tables(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    target = tmp_path / "run.nc"
    code, out, err = run(capsys, "solve", "single-neuron", *NEURON, "--times", "0:2:5", "--out", str(target))
    assert code == 0 and not out and f"wrote {target}" in err
    assert load(target).t.values.tolist() == [0.0, 0.5, 1.0, 1.5, 2.0]
    code, out, _ = run(capsys, "solve", "single-neuron", *NEURON)
    assert code == 0 and "rich" in out and "kernel_change = 0.6325" in out and "inf" in out
    code, out, _ = run(capsys, "solve", "single-neuron", *NEURON, "--times", "1", "--simulate", "--only", "a", "--json")
    exact = json.loads(run(capsys, "solve", "single-neuron", *NEURON, "--times", "1", "--only", "a", "--json")[1])
    simulated = json.loads(out)
    assert simulated["variables"].keys() == exact["variables"].keys() == {"t", "a"}
    assert simulated["variables"]["a"]["data"] == pytest.approx(exact["variables"]["a"]["data"], rel=1e-8)


def test_solve_draws(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for suffix in ("png", "svg"):
        target = tmp_path / f"x.{suffix}"
        code, _, err = run(capsys, "solve", "single-neuron", *NEURON, "--plot", str(target))
        assert code == 0 and "wrote" in err and target.stat().st_size > 1000


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["solve", "single-neuro", *NEURON], "No theory named `single-neuro`. Did you mean single-neuron?"),
        (["show", "nothing"], "No theory named `nothing`. Known: aligned-network"),
        (["cite", "KUN25"], "No theory named `KUN25`."),
        (["solve", "single-neuron", "--set", "a0=nan", *NEURON[2:]], "must be a number, such as 0.5. Got 'nan'."),
        (["solve", "single-neuron", *NEURON, "--set", "eta_a=-1"], "`eta_a` of SingleNeuron must be ≥ 0. Got -1"),
        (["solve", "single-neuron", *NEURON, "--set", "beta_star=[0, 0]"], "must have a direction (not all 0)"),
        (["solve", "single-neuron", *NEURON, "--set", "w0=[1, 2, 3]"], "must have 3 entries along input"),
        (["solve", "single-neuron", *NEURON, "--set", "w0=[1, 2"], "must be a JSON array, such as [1, 0]. Got"),
        (["solve", "single-neuron", *NEURON, "--set", "eta=1"], "no parameter `eta`. Did you mean eta_"),
        (["solve", "single-neuron", *NEURON, "--etaa", "1"], "no parameter `etaa`. Did you mean eta_a?"),
        (["solve", "single-neuron", *NEURON, "--set", "a0"], "`--set` must be name=value. Got a0. Use --set a0=1."),
        (["solve", "single-neuron", *NEURON, "stray"], "an argument must be --name value. Got stray."),
        (["solve", "single-neuron", *NEURON, "--eta-a"], "`--eta-a` must have a value. Got nothing."),
        (["solve", "single-neuron", *NEURON, "--times", ""], "`--times` must hold at least one number. Got nothing."),
        (
            ["solve", "single-neuron", *NEURON, "--times", "0,x"],
            "`--times` must be like 0,0.5,1,inf or 0:10:101 (1000000 at most). Got 0,x.",
        ),
        (["solve", "single-neuron", *NEURON, "--times", "-1"], "the times must be ≥ 0. Got -1.0."),
        (["solve", "single-neuron", *NEURON, "--times", "nan"], "the times must be ≥ 0. Got nan."),
        (["solve", "single-neuron", *NEURON, "--only", "bta"], "no variable `bta`. Did you mean beta?"),
        (["solve", "single-neuron", *NEURON, "--times", "inf", "--simulate"], "must be finite. Got inf. Use limit()"),
        (["solve", "single-neuron", "--set", "a0=1"], "must be given `w0` (input), `beta_star` (input). Got a0."),
        (["solve", "single-neuron", *NEURON, "--out", "x.txt"], "must end in .nc. Got x.txt."),
        (
            ["solve", "single-neuron", "--params", "absent.json"],
            "The parameter file absent.json cannot be read: No such",
        ),
        (["solve"], "Missing argument"),
        (["slove"], "See: richter --help"),
        (["list", "--jsn"], "See: richter list --help"),
    ],
)
def test_wrong_input_is_one_line_and_exit_2(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2
    assert not out
    assert text in err, err
    assert err.startswith("richter: ") and err.count("\n") == 1 and "Traceback" not in err


@pytest.mark.parametrize(
    ("content", "text"),
    [
        ("{", "are not JSON: Expecting property name enclosed in double quotes at line 1, column 2."),
        ("[1, 2]", "must be an object of parameters. Got [1, 2]."),
        ('{"a0": 1, "what": 2}', "SingleNeuron has no parameter `what`."),
        ('{"a0": null, "w0": [1], "beta_star": [1]}', "`a0` of SingleNeuron must be a number"),
        ('{"a0": NaN, "w0": [1], "beta_star": [1]}', "`a0` of SingleNeuron must be finite. Got nan."),
        (
            '{"a0": 1' + 400 * "0" + ', "w0": [1], "beta_star": [1]}',
            "`a0` of SingleNeuron must be at most 1e+30 in magnitude. Got an integer beyond every float.",
        ),
    ],
)
def test_broken_parameter_files(capsys: pytest.CaptureFixture[str], tmp_path: Path, content: str, text: str) -> None:
    file = tmp_path / "p.json"
    file.write_text(content)
    code, _, err = run(capsys, "solve", "single-neuron", "--params", str(file))
    assert code == 2 and text in err and err.count("\n") == 1


def test_a_binary_parameter_file_is_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "p.json"
    file.write_bytes(b"\xff\xfe\x00\x80")
    code, _, err = run(capsys, "solve", "single-neuron", "--params", str(file))
    assert code == 2 and "cannot be read: it is not text." in err


def test_debug_shows_the_traceback() -> None:
    with pytest.raises(Exception, match="No theory named"):
        main(["--debug", "show", "nothing"])


def test_list_show_cite_doctor(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = run(capsys, "list")
    assert code == 0 and all(name in out for name in catalog.theories())
    assert {row["name"] for row in json.loads(run(capsys, "list", "--json")[1])["theories"]} == set(catalog.theories())
    for name in catalog.theories():
        code, out, _ = run(capsys, "show", name)
        assert code == 0 and "Parameters" in out and "Variables" in out
        plain = json.loads(run(capsys, "show", name, "--json")[1])
        assert plain["variables"] and plain["params"]["properties"]
        assert json.loads(run(capsys, "show", name, "--schema")[1])["type"] == "object"
    code, out, _ = run(capsys, "show", "wide-scalar")
    assert "Errata" in out and "√E[a²]" in out
    code, out, _ = run(capsys, "cite", "single-neuron", "XU24")
    assert code == 0 and "@misc{KUN24," in out and "@misc{XU24," in out and "Sec. 3" in out
    assert json.loads(run(capsys, "cite", "kun24", "--json")[1])["papers"][0]["key"] == "KUN24"
    code, out, _ = run(capsys, "doctor")
    assert code == 0 and "numpy" in out and "MNIST" in out
    assert json.loads(run(capsys, "doctor", "--json")[1])["libraries"]["numpy"] == np.__version__


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    from richter import __version__

    assert run(capsys, "--version")[:2] == (0, f"richter {__version__}\n")


@pytest.mark.parametrize("verb", [command.name for command in app.registered_commands])
def test_every_verb_has_help_with_an_example(capsys: pytest.CaptureFixture[str], verb: str) -> None:
    code, out, _ = run(capsys, verb, "--help")
    words = " ".join(out.replace("│", " ").split())
    assert code == 0 and "Example" in words and f"richter {verb}" in words


def test_the_module_runs_and_fails_with_the_right_code() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "richter", "show", "nothing"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2 and done.stderr.startswith("richter: No theory named")


def test_phase_and_interpolant(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "phase", "--c-gamma", "-0.5", "--json")
    made = json.loads(out)
    assert code == 0 and made["label"] == "kernel" and made["moves"]["to_feature_learning"] == [1.0, -1.0]
    assert "unstable" in run(capsys, "phase", "--c-gamma", "1")[1]
    assert [row["phase"] for row in json.loads(run(capsys, "phase", "--table", "--json")[1])["table"]][:2] == [
        "kernel",
        "frozen",
    ]
    assert "mean field" in run(capsys, "phase", "--table")[1]
    file = tmp_path / "p.json"
    file.write_text('{"X": [[1, 2]], "y": [1], "a0": 1, "w0": [1, 0]}')
    code, out, _ = run(capsys, "interpolant", "--params", str(file), "--json")
    made = json.loads(out)
    assert code == 0 and made["variables"]["sign_source"]["data"] == "conserved"
    beta = np.array(made["variables"]["beta"]["data"])
    assert beta @ [1, 2] == pytest.approx(1, rel=1e-12)
    assert "certifies" in run(capsys, "interpolant", "--params", str(file))[1]


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["phase", "--c-d", "-1"], "`c_d` must be ≥ 0 (a width cannot shrink). Got -1.0."),
        (["phase", "--c-d", "one"], "See: richter phase --help"),
        (["interpolant"], "Missing option '--params'"),
        (["interpolant", "--params", "absent.json"], "The parameter file absent.json cannot be read"),
    ],
)
def test_wrong_phases_and_interpolants(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


def test_simulating_without_times_and_beyond_the_closed_form(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(capsys, "solve", "single-neuron", *NEURON, "--simulate")[0] == 0
    wide = ["isotropic-network", "--A0", "[[1,2],[0,1]]", "--W0", "[[1,0],[0,2]]", "--beta-star", "[[1,0],[0,1]]"]
    code, _, err = run(capsys, "solve", *wide, "--times", "1")
    assert code == 2 and "use simulate(t)" in err
    code, out, _ = run(capsys, "solve", *wide, "--times", "1", "--simulate")
    assert code == 0 and "No regime" in out


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["solve", "single-neuron", *NEURON, "--times", "0:inf:3"], "`--times` must be like"),
        (["solve", "single-neuron", *NEURON, "--times", "0:1:1000000000"], "`--times` must be like"),
        (["solve", "single-neuron", *NEURON, "--only", ","], "`--only` must name variables. Got ,."),
        (["solve", "isotropic-network", "--a0", "1"], "no parameter `a0`. Did you mean A0?"),
    ],
)
def test_more_wrong_input(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


def test_a_parameter_file_nested_too_deeply(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "deep.json"
    file.write_text("[" * 100_000)
    code, _, err = run(capsys, "solve", "single-neuron", "--params", str(file))
    assert code == 2 and "nested too deeply" in err and err.count("\n") == 1
