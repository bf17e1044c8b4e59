"""`richter measure` and `richter compare`: what they print, write and return."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra torch")

import torch  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

from richter import schema  # noqa: E402
from richter.cli import main  # noqa: E402
from richter.tasks import digits  # noqa: E402
from richter.theory import SingleNeuron  # noqa: E402
from richter.training import mlp, train  # noqa: E402

NETS = """
from richter.training import mlp
def build():
    return mlp(64, [256], 10)
def nothing():
    return 3
value = 5
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Checkpoints of a lazy and a rich network on digits, a probe, and the module that builds them."""
    made = tmp_path_factory.mktemp("runs")
    (made / "made_nets.py").write_text(NETS)
    task = digits().flat().subset(200)
    np.savez(made / "probe.npz", x=task.inputs[:40], y=task.targets[:40])
    for name, scale in (("lazy", 4.0), ("rich", 0.1)):
        for seed in (0, 1):
            model = mlp(64, [256], 10, scale=scale, rng=seed)
            rate, steps = (0.002, 200) if name == "lazy" else (1.0, 300)

            def keep(step: int, seen: torch.nn.Module, name: str = name, seed: int = seed) -> None:
                save_file(dict(seen.state_dict()), made / f"{name}{seed}-step{step}.safetensors")

            train(model, task, steps=steps, rate=rate, moments=5, on_moment=keep, progress=False)
    return made


def _run(words: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(words.split())
    out = capsys.readouterr()
    return code, out.out, out.err


@pytest.fixture
def here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(folder)
    monkeypatch.delitem(sys.modules, "made_nets", raising=False)
    return folder


MEASURE = "measure --model made_nets:build --probe probe.npz --loss mse"


def test_checkpoints_give_a_verdict_a_report_and_an_exit_code(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = (
        f"{MEASURE} --checkpoints rich0-*.safetensors --rate 1.0 --out page.html --save run.nc --json --fail-if lazy"
    )
    code, out, err = _run(words, capsys)
    plain = json.loads(out)
    assert code == 0 and plain["label"] in ("rich", "delayed-rich") and plain["schema"] == 1
    assert plain["evidence"]["kernel_change"]["value"] > 0.3
    low, high = plain["evidence"]["kernel_change"]["interval"]
    assert low < plain["evidence"]["kernel_change"]["value"] < high
    assert "wrote page.html" in err and "wrote run.nc" in err
    assert (here / "page.html").read_text().startswith("<!doctype html>")
    ds = schema.load(here / "run.nc")
    assert ds.sizes["step"] == 5 and ds.attrs["kernel"] == "full" and int(ds.step[-1]) == 300

    code, out, _ = _run("measure run.nc --json --fail-if rich,delayed-rich", capsys)
    again = json.loads(out)
    assert code == 1 and again["label"] == plain["label"] and again["evidence"] == plain["evidence"]


def test_a_lazy_run_fails_where_it_is_asked_to(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lazy = f"{MEASURE} --checkpoints lazy0-*.safetensors --fail-if lazy"
    code, out, _ = _run(lazy, capsys)
    assert code == 1 and out.startswith("lazy\n") and "What it does not say:" in out
    code, _, _ = _run(lazy.replace("--fail-if lazy", "--fail-if rich"), capsys)
    assert code == 0


def test_several_checkpoint_patterns_are_seeds(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    both = f"{MEASURE} --checkpoints lazy0-*.safetensors --checkpoints lazy1-*.safetensors --draws 20 --json"
    code, out, _ = _run(both, capsys)
    plain = json.loads(out)
    assert code == 0 and plain["label"] == "lazy"
    assert plain["evidence"]["parameter_distance_relative"]["interval"][0] > 0
    assert not any("One run" in reason for reason in plain["reasons"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("measure", r"must be given runs or a model\. Got neither\. Type: richter measure run\.nc"),
        ("measure run.nc --model made_nets:build", "must be given runs or a model. Got both"),
        ("measure run.nc --probe probe.npz", "recorded runs must come alone. Got a probe"),
        ("measure --model made_nets", r"`--model` must be module:factory\. Got made_nets"),
        ("measure --model made_netz:build", "the module made_netz of --model must be importable from here"),
        (
            "measure --model made_nets:bild",
            "`bild` in made_nets must be a function that builds the model. Got no such name",
        ),
        ("measure --model made_nets:value", "must be a function that builds the model. Got 5"),
        ("measure --model made_nets:build", "a model must come with checkpoints and a probe. Got no checkpoints"),
        (
            "measure --model made_nets:nothing -c rich0-*.safetensors -p probe.npz",
            "must be a Dataset, a .nc file, a torch model",
        ),
        (
            "measure --model made_nets:build -c none*.pt -p probe.npz",
            "the checkpoints must be files that exist. Got nothing for none",
        ),
        ("measure --model made_nets:build -c rich0-*.safetensors -p none.npz", "The probe none.npz is refused: "),
        ("measure run.nc --fail-if lasy", "`--fail-if` must name labels: lazy, rich"),
        ("measure run.nc --out page.txt", "the file of a report must end in .html"),
        (f"{MEASURE} -c rich0-*.safetensors --kernel half", "`kernel` must be auto, full or trace. Got half"),
        ("compare run.nc", "Missing argument 'b'"),
        ("compare single-neuron single-neuron", "have no|must|Set|missing|needs"),
        ("compare run.nc run.nc --set a0=1", "two runs must be compared without parameters"),
    ],
)
def test_wrong_input_is_one_line_that_says_what_to_type(
    words: str, said: str, here: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    import re

    code, out, err = _run(words, capsys)
    assert code == 2 and not out
    assert err.count("\n") == 1 and (said in err or re.search(said, err)), err


def test_a_refused_checkpoint_says_why(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    torch.save(mlp(64, [256], 10), here / "whole-1.pt")
    code, _, err = _run(f"{MEASURE} -c whole-1.pt", capsys)
    assert code == 2 and "whole-1.pt is refused: it asks to run `torch.nn.modules.container.Sequential`" in err


def test_two_runs_and_a_run_and_a_theory_on_one_page(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    theory = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0])
    schema.save(theory.simulate(np.linspace(0, 3, 21)), here / "a.nc")
    schema.save(theory.with_(a0=5.0).simulate(np.linspace(0, 3, 21)), here / "b.nc")
    code, out, err = _run("compare a.nc b.nc --out both.html", capsys)
    assert code == 0 and out.startswith("a.nc: rich\nb.nc: lazy\n") and "wrote both.html" in err
    assert "a.nc is rich, b.nc is lazy" in (here / "both.html").read_text()
    code, out, _ = _run("compare a.nc single-neuron --set a0=1 --set w0=[-1,0] --beta-star [0,1] --json", capsys)
    plain = json.loads(out)
    assert code == 0 and [side["regime"]["label"] for side in plain["sides"]] == ["rich", "rich"]
    assert all(d["absolute"] < 1e-8 for d in plain["differences"])
