"""`richter advise`: what it prints and writes, and that what it writes runs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="needs the extra torch")

import torch  # noqa: E402

from richter.cli import main  # noqa: E402
from tests.advice import models  # noqa: E402


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int) -> Path:
    """A folder with two networks that nobody has seen, and their data."""
    torch.manual_seed(seed)
    text = Path(models.__file__).read_text()
    (tmp_path / "unseen_nets.py").write_text(f"{text}\n\ndef reader() -> Reader:\n    return Reader().eval()\n")
    for name, (_, (x, y)) in (("images", models.images()), ("tokens", models.tokens())):
        np.savez(tmp_path / f"{name}.npz", x=x.numpy(), y=y.numpy())
    monkeypatch.chdir(tmp_path)
    monkeypatch.delitem(sys.modules, "unseen_nets", raising=False)
    return tmp_path


def test_the_code_that_is_printed_runs_as_it_is(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A CNN with batch norms after a pilot, a transformer without: each in a process of its own."""
    asked = {
        "cnn": "--model unseen_nets:NormedCnn --data images.npz --goal richer --steps 10 --batch 16",
        "reader": "--model unseen_nets:reader --data tokens.npz --goal lazier --optimiser adamw",
    }
    for name, words in asked.items():
        assert main(["advise", *words.split(), "--out", f"{name}.py"]) == 0
        printed = capsys.readouterr().out
        assert printed.endswith((here / f"{name}.py").read_text() + "\n") and "Traceback" not in printed
    both = "import runpy; print(*(type(runpy.run_path(f'{n}.py')['optimiser']).__name__ for n in ('cnn', 'reader')))"
    done = subprocess.run([sys.executable, "-W", "error", "-c", both], capture_output=True, text=True, cwd=here)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["SGD", "AdamW"]


def test_json_is_strict_and_complete(here: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main("advise --model unseen_nets:reader --data tokens.npz --goal richer --json".split()) == 0
    made = json.loads(capsys.readouterr().out)
    assert made["schema"] == 1 and made["goal"] == "richer" and made["pilot"] is None
    for option in made["options"]:
        assert {"rank", "code", "keeps", "change", "rate", "cost", "expected", "measured", "snippet"} <= set(option)
    assert {number["name"] for number in made["start"]["numbers"]} >= {"kernel_movement", "expected", "fastest_rate"}


@pytest.mark.parametrize(
    ("words", "says"),
    [("--goal richest", "Did you mean richer?"), ("--data gone.npz", "gone.npz is refused"),
     ("--model nowhere:build", "be importable"), ("--data tokens.npz", "the inputs must be what the model takes")],
)  # fmt: skip
def test_errors_are_one_line(here: Path, capsys: pytest.CaptureFixture[str], words: str, says: str) -> None:
    given = {"--model": "unseen_nets:NormedCnn", "--data": "images.npz"} | dict([words.split()])
    assert main(["advise", *(part for pair in given.items() for part in pair)]) == 2
    error = capsys.readouterr().err
    assert says in error and error.count("\n") == 1
