"""`richter data` as a user types it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from richter.cli import main
from richter.cli.data import download_bar
from richter.tasks import sets
from richter.tasks.sets import SETS
from tests.tasks.made_sets import small_cifar, small_mnist, write


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(["data", *args])
    out, err = capsys.readouterr()
    return code, out, err


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a small whole MNIST, a CIFAR-10 without a file, and no Fashion-MNIST."""
    (mnist, files), (cifar, more) = small_mnist(0), small_cifar(0)
    write(mnist, files, tmp_path)
    write(cifar, more, tmp_path)
    (tmp_path / cifar.folder / "test_batch.bin").unlink()
    monkeypatch.setattr(sets, "SETS", {**SETS, "mnist": mnist, "cifar10": cifar})
    monkeypatch.setenv("RICHTER_DATA", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_the_sets_are_listed_with_their_state(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, err = run(capsys)
    assert code == 0 and not err
    assert "digits" in out and "in the package" in out and "richter data fetch NAME" in out
    states = {line.split()[1]: line.split()[3] for line in out.splitlines() if line.startswith("│")}
    assert states == {
        "digits": "present", "mnist": "present", "fashion-mnist": "absent", "cifar10": "incomplete"
    }  # fmt: skip
    assert "not checked" in out and str(folder / "mnist") in out
    code, out, _ = run(capsys, "list", "mnist", "--data-dir", str(folder / "elsewhere"))
    assert code == 0 and "absent" in out and "digits" not in out and "cifar10" not in out


def test_the_json_says_what_is_missing_and_damaged(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = run(capsys, "--json")
    made = json.loads(out)
    assert code == 0 and made["schema"] == 1 and made["folder"] == str(folder)
    rows = {row["name"]: row for row in made["sets"]}
    assert rows["cifar10"]["missing"] == ["test_batch.bin"] and rows["mnist"]["damaged"] is None
    assert len(rows["fashion-mnist"]["missing"]) == 4 and rows["mnist"]["title"] == "MNIST"
    code, out, _ = run(capsys, "--json", "--verify")
    assert code == 0 and json.loads(out)["sets"][0]["damaged"] == []


def test_a_damaged_file_fails_the_check(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    assert "right" in run(capsys, "--verify", "list", "mnist")[1]
    (folder / "mnist" / "train-labels-idx1-ubyte").write_bytes(b"\0")
    code, out, _ = run(capsys, "--verify")
    assert code == 1 and "damaged: train-labels-idx1-ubyte" in out
    code, out, _ = run(capsys, "--verify", "--json")
    assert code == 1 and json.loads(out)["sets"][0]["damaged"] == ["train-labels-idx1-ubyte"]


def test_fetching_what_is_there_says_where(capsys: pytest.CaptureFixture[str], folder: Path) -> None:
    code, out, _ = run(capsys, "fetch", "mnist")
    assert code == 0 and out == f"MNIST: whole in {folder / 'mnist'}\n"
    code, out, _ = run(capsys, "fetch", "mnist", "--json")
    assert code == 0 and json.loads(out)["sets"][0]["state"] == "present"


def test_fetching_without_a_server_is_one_line_and_exit_3(
    capsys: pytest.CaptureFixture[str], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pooch")
    monkeypatch.setattr("time.sleep", lambda seconds: None)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    code, out, err = run(capsys, "fetch", "fashion-mnist", "--from", "http://127.0.0.1:1/")
    assert code == 3 and not out and err.count("\n") == 1
    assert err.startswith(
        "richter: Fashion-MNIST could not be fetched from http://127.0.0.1:1/train-images-idx3-ubyte.gz"
    )
    assert "no connection" in err and f"put the files into {folder / 'fashion-mnist'} by hand" in err


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["clean"], "the action of `richter data` must be list or fetch. Got clean."),
        (
            ["fetch"],
            "`richter data fetch` must name sets (mnist, fashion-mnist, cifar10). Got none. Type: richter data",
        ),
        (["fetch", "minst"], "No data set named `minst`. Did you mean mnist?"),
        (["fetch", "fashion-mnist", "--from", "here"], "must begin with http:// or https://. Got here."),
    ],
)
def test_wrong_usage_is_one_line_and_exit_2(
    capsys: pytest.CaptureFixture[str], folder: Path, args: list[str], text: str
) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


def test_the_bar_names_the_file_and_is_silent_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with download_bar(False) as tell:
        assert tell is None
    with download_bar(True) as tell:
        assert tell is not None
        tell("images.gz", 500, 2000)
        tell("images.gz", 2000, 2000)
    out, err = capsys.readouterr()
    assert not out and err.count("images.gz") == 1 and "2.0/2.0 kB" in err
