"""A run that was killed and taken up again gives the numbers of an uninterrupted one, bit by bit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")
pytest.importorskip("safetensors")

import torch  # noqa: E402

from richter.errors import FileError, ParameterError  # noqa: E402
from richter.tasks import Task, gaussian_classes  # noqa: E402
from richter.training import mlp, modular_transformer, resnet8, train  # noqa: E402
from richter.training.checkpoints import fingerprint  # noqa: E402
from tests.training.test_loop import Dropping  # noqa: E402

STEPS = 24


def go(folder: Path | None, seed: int = 0, **more: Any) -> tuple[Any, Any]:
    model = more.pop("model", None) or Dropping()
    given = {"steps": STEPS, "rate": 0.05, "batch": 8, "loss": "cross-entropy", "every": 5, "rng": seed, **more}
    return model, train(model, gaussian_classes(40, rng=seed), checkpoints=folder, **given)


def same(one: Any, other: Any) -> None:
    for name, value in one.state_dict().items():
        assert torch.equal(value, other.state_dict()[name]), name


class Stop(Exception):
    pass


def stop_at(step: int) -> Any:
    def look(at: int, model: Any) -> None:
        if at == step:
            raise Stop

    return {"moments": [step], "on_moment": look}


@pytest.mark.parametrize("optimiser", ["sgd", "momentum", "adam", "adamw"])
@pytest.mark.parametrize("at", [3, 5, 17, STEPS])
def test_an_interrupted_run_ends_like_an_uninterrupted_one(tmp_path: Path, seed: int, optimiser: str, at: int) -> None:
    whole, run = go(None, seed, optimiser=optimiser)
    with pytest.raises(Stop):
        go(tmp_path, seed, optimiser=optimiser, **stop_at(at))
    model, resumed = go(tmp_path, seed, optimiser=optimiser)
    assert resumed.resumed_from == (24 if at == 24 else at - at % 5)
    same(whole, model)
    np.testing.assert_array_equal(run.losses, resumed.losses)


CHILD = """
import os, signal, sys
from pathlib import Path
from tests.training.test_checkpoints import go
from richter.training import checkpoints

folder, moment, number = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
kill = lambda: os.kill(os.getpid(), signal.SIGKILL)
calls = 0
replace = os.replace

def replace_or_die(*names):
    global calls
    calls += 1
    if calls == number:
        kill()
    replace(*names)

checkpoints.os.replace = replace_or_die
go(folder, optimiser="adam", moments=[moment], on_moment=lambda at, model: kill() if number == 0 else None)
"""


@pytest.mark.skipif(os.name == "nt", reason="there is no SIGKILL")
@pytest.mark.parametrize(
    ("moment", "number", "step"),
    [(13, 0, 10), (24, 5, 10), (24, 6, 10)],
    ids=["between steps", "writing the tensors", "writing the index"],
)
def test_a_killed_process_is_taken_up_where_its_last_whole_checkpoint_is(
    tmp_path: Path, moment: int, number: int, step: int
) -> None:
    root = Path(__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root / "src"), str(root)])}
    words = [sys.executable, "-c", CHILD, str(tmp_path), str(moment), str(number)]
    done = subprocess.run(words, env=env, capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    if number:
        assert list(tmp_path.glob("*.part"))  # it was killed while writing
    whole, run = go(None, optimiser="adam")
    model, resumed = go(tmp_path, optimiser="adam")
    assert resumed.resumed_from == step
    same(whole, model)
    np.testing.assert_array_equal(run.losses, resumed.losses)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["checkpoint.json", "step-000000024.safetensors"]


def test_a_finished_run_is_read_back_and_can_be_made_longer(tmp_path: Path, seed: int) -> None:
    go(tmp_path, seed, optimiser="momentum")
    model, again = go(tmp_path, seed, optimiser="momentum")
    assert again.resumed_from == STEPS
    longer, run = go(tmp_path, seed, optimiser="momentum", steps=40)
    whole, expected = go(None, seed, optimiser="momentum", steps=40)
    assert run.resumed_from == STEPS
    same(whole, longer)
    np.testing.assert_array_equal(run.losses, expected.losses)
    np.testing.assert_array_equal(again.losses, expected.losses[:STEPS])
    with pytest.raises(
        ParameterError, match=r"`steps` must be at least 40, where the run in .* is. Got 24. Pass steps=40"
    ):
        go(tmp_path, seed, optimiser="momentum")


def test_moments_from_the_checkpoint_on_are_seen_after_an_interruption(tmp_path: Path) -> None:
    with pytest.raises(Stop):
        go(tmp_path, **stop_at(13))
    seen: list[int] = []
    go(tmp_path, moments=[0, 9, 10, 12, 24], on_moment=lambda at, model: seen.append(at))
    assert seen == [10, 12, 24]


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({"rate": 0.1}, r"differs in rate \(0.05, now 0.1\)\. Use another folder, or pass resume=False"),
        ({"rate": lambda step: 0.05}, "differs in rate"),
        ({"optimiser": "adam"}, r"differs in optimiser \(sgd, now adam\)"),
        ({"seed": 1}, "differs in seed, examples"),
        ({"batch": 4}, r"differs in batch \(8, now 4\)"),
        ({"loss": "mse"}, "differs in loss, examples"),
        ({"model": mlp(10, [4], 3)}, "differs in start, parameters"),
        ({"layer_rates": {"layer": 0.5}}, "differs in layer_rates"),
    ],
)
def test_another_runs_checkpoint_is_refused(tmp_path: Path, more: dict[str, Any], text: str) -> None:
    go(tmp_path)
    with pytest.raises(ParameterError, match=text) as caught:
        go(tmp_path, **more)
    assert "\n" not in str(caught.value)
    go(tmp_path, resume=False, **{**more, "model": mlp(10, [4], 3)} if "model" in more else {**more, "steps": 3})


def test_a_trained_model_is_not_taken_for_the_start(tmp_path: Path) -> None:
    model, _ = go(tmp_path)
    with pytest.raises(ParameterError, match="differs in start"):
        go(tmp_path, model=model)


@pytest.mark.parametrize("damage", ["tensors", "index", "no tensors", "pickle", "elsewhere"])
def test_a_damaged_checkpoint_is_one_line(tmp_path: Path, damage: str) -> None:
    folder = tmp_path / "run"
    go(folder)
    index, tensors = folder / "checkpoint.json", folder / "step-000000024.safetensors"
    stored = json.loads(index.read_text())
    if damage == "tensors":
        tensors.write_bytes(tensors.read_bytes()[:-1] + b"\x01")
    elif damage == "index":
        index.write_text(index.read_text()[:-20])
    elif damage == "no tensors":
        tensors.unlink()
    elif damage == "pickle":
        import zlib

        torch.save(Dropping().state_dict(), tensors)
        index.write_text(json.dumps({**stored, "crc32": zlib.crc32(tensors.read_bytes())}))
    else:  # a name that leads out of the folder is not followed
        os.replace(tensors, tmp_path / "outside.safetensors")
        index.write_text(json.dumps({**stored, "file": "../outside.safetensors"}))
    with pytest.raises(
        FileError, match=r"checkpoint.json must be whole. Got a damaged one. Remove the folder"
    ) as caught:
        go(folder)
    assert "\n" not in str(caught.value)


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match=r"The checkpoint .*safetensors could not be written: "):
        go(tmp_path / "file" / "run")


NETWORKS = {
    "resnet8": lambda: resnet8(width=2, channels=1, outputs=3),
    "modular": lambda: modular_transformer(3, d=8, heads=2, hidden=8),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_with_buffers_and_embeddings_resume(tmp_path: Path, name: str) -> None:
    make = NETWORKS[name]
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((12, 1, 8, 8)) if name == "resnet8" else rng.integers(3, size=(12, 3))
    labels = rng.integers(3, size=12)
    task = Task(
        inputs=inputs, targets=labels, test_inputs=inputs, test_targets=labels, name="some",
        kind="classification", classes=("0", "1", "2"),
    )  # fmt: skip
    given: dict[str, Any] = {"rate": 0.01, "optimiser": "adamw", "batch": 4, "loss": "cross-entropy"}
    whole, half = make(), make()
    train(whole, task, steps=8, **given)
    train(half, task, steps=4, checkpoints=tmp_path, **given)
    rest = make()
    assert train(rest, task, steps=8, checkpoints=tmp_path, **given).resumed_from == 4
    same(whole, rest)


def test_the_fingerprint_sees_every_byte(seed: int) -> None:
    x = torch.arange(10, dtype=torch.float64) + seed
    y = x.clone()
    assert fingerprint([x]) == fingerprint([y])
    y[7] = torch.nextafter(y[7], torch.tensor(torch.inf, dtype=torch.float64))
    assert fingerprint([x]) != fingerprint([y])
    assert fingerprint([torch.ones(3, dtype=torch.bfloat16), torch.tensor(1)]) > 0
