"""The loaders of the image sets: on small sets in the same formats, and on the real ones where they are."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from richter.errors import DataError, ParameterError, UnknownNameError
from richter.tasks import Task, cifar10, fashion_mnist, mnist
from richter.tasks.images import load
from richter.tasks.sets import CIFAR10, FASHION_MNIST, MNIST, SETS, ImageSet, data_folder, image_set
from tests.tasks.made_sets import Files, idx_bytes, small_cifar, small_mnist, write


def real(which: ImageSet) -> pytest.MarkDecorator:
    root = os.environ.get("RICHTER_DATA")
    absent = root is None or which.state(Path(root)) != "present"
    reason = "RICHTER_DATA is not set" if root is None else f"{which.title} is not in RICHTER_DATA"
    return pytest.mark.skipif(absent, reason=reason)


@pytest.mark.parametrize("packed", [False, True])
def test_idx_files_become_images_and_labels(seed: int, tmp_path: Path, packed: bool) -> None:
    which, files = small_mnist(seed)
    write(which, files, tmp_path, packed)
    task = load(which, tmp_path, train=None, test=None)
    assert task.inputs.shape == (12, 1, 4, 3) and task.inputs.dtype == np.float32
    assert task.targets.dtype == np.int64 and task.outputs == 10 and task.name == "mnist"
    raw = files["train-images-idx3-ubyte"][16:]
    np.testing.assert_array_equal(np.rint(task.inputs * 255).astype(np.uint8).tobytes(), raw)
    assert bytes(task.targets.astype(np.uint8)) == files["train-labels-idx1-ubyte"][8:]
    assert bytes(task.test_targets.astype(np.uint8)) == files["t10k-labels-idx1-ubyte"][8:]


def test_records_become_images_channel_by_channel(seed: int, tmp_path: Path) -> None:
    which, files = small_cifar(seed)
    write(which, files, tmp_path)
    task = load(which, tmp_path, train=None, test=None)
    assert task.inputs.shape == (30, 3, 2, 2) and task.test_inputs.shape == (6, 3, 2, 2)
    record = files["data_batch_2.bin"][13:26]  # the second record of the second file: label, red, green, blue
    assert task.targets[7] == record[0]
    np.testing.assert_array_equal(np.rint(task.inputs[7] * 255).ravel(), list(record[1:]))
    assert task.test_targets[0] == files["test_batch.bin"][0]


def test_some_images_are_drawn_without_repetition(seed: int, tmp_path: Path) -> None:
    which, files = small_mnist(seed)
    write(which, files, tmp_path)
    whole = load(which, tmp_path, train=None, test=None)
    some = load(which, tmp_path, train=7, test=2, rng=seed)
    rows = {(x.tobytes(), int(y)) for x, y in zip(whole.inputs, whole.targets, strict=True)}
    drawn = [(x.tobytes(), int(y)) for x, y in zip(some.inputs, some.targets, strict=True)]
    assert len(set(drawn)) == 7 and set(drawn) <= rows and len(some.test_inputs) == 2
    again = load(which, tmp_path, train=7, test=2, rng=seed)
    np.testing.assert_array_equal(again.inputs, some.inputs)
    with pytest.raises(ParameterError, match="`train` must be a whole number from 1 to 12. Got 13."):
        load(which, tmp_path, train=13, test=None)


def test_a_missing_set_is_one_line_with_three_ways_out(tmp_path: Path) -> None:
    for call in (mnist, fashion_mnist, cifar10):
        with pytest.raises(DataError) as caught:
            call(tmp_path)
        text = str(caught.value)
        assert "\n" not in text and "Got nothing there. Pass the folder that holds" in text
        assert "set RICHTER_DATA" in text and "or type: richter data fetch" in text and caught.value.exit_code == 3


def break_labels(files: Files) -> str:
    labels = np.array([11] * 12, np.uint8)
    files["train-labels-idx1-ubyte"] = idx_bytes(labels)
    return "train-labels-idx1-ubyte must hold labels from 0 to 9. Got 11: it is damaged."


def break_count(files: Files) -> str:
    files["train-labels-idx1-ubyte"] = idx_bytes(np.zeros(11, np.uint8))
    return "train-labels-idx1-ubyte must hold 12 labels. Got shape (11,)."


def break_size(files: Files) -> str:
    files["t10k-images-idx3-ubyte"] = idx_bytes(np.zeros((5, 3, 4), np.uint8))
    return "t10k-images-idx3-ubyte must hold images of 4 × 3 pixels. Got shape (5, 3, 4)."


def cut(files: Files) -> str:
    files["train-images-idx3-ubyte"] = files["train-images-idx3-ubyte"][:-5]
    return (
        "train-images-idx3-ubyte must hold 144 values after its header of 16 bytes (shape (12, 4, 3)). Got 139: it is"
    )


def cut_in_the_header(files: Files) -> str:
    files["train-images-idx3-ubyte"] = files["train-images-idx3-ubyte"][:9]
    return "train-images-idx3-ubyte must hold 0 values after its header of 16 bytes"


def empty(files: Files) -> str:
    files["t10k-images-idx3-ubyte"] = b""
    return "t10k-images-idx3-ubyte must be an IDX file of unsigned bytes (begin with 0, 0, 8). Got b''."


@pytest.mark.parametrize("damage", [break_labels, break_count, break_size, cut, cut_in_the_header, empty])
def test_damaged_files_are_named_with_and_without_checksums(tmp_path: Path, damage: object) -> None:
    which, files = small_mnist(0)
    text = damage(files)  # type: ignore[operator]
    write(which, files, tmp_path)
    for check in (True, False):
        with pytest.raises(DataError) as caught:
            load(which, tmp_path, train=None, test=None, check=check)
        said = str(caught.value)
        name = text.split()[0]
        assert "\n" not in said and str(tmp_path / which.folder / name) in said
        wanted = f"must have the md5 sum {which.files[name]}" if check else text
        assert wanted in said
    assert which.damaged(tmp_path) == [text.split()[0]]


def test_one_changed_pixel_is_found(tmp_path: Path) -> None:
    which, files = small_cifar(0)
    write(which, files, tmp_path)
    path = tmp_path / which.folder / "data_batch_3.bin"
    path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1]))
    with pytest.raises(DataError, match=r"data_batch_3.bin must have the md5 sum .* richter data fetch cifar10"):
        load(which, tmp_path, train=None, test=None)
    assert load(which, tmp_path, train=None, test=None, check=False).inputs.shape == (30, 3, 2, 2)
    path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(
        DataError, match="must hold whole records of 13 bytes. Got 77 bytes: it is truncated or damaged"
    ):
        load(which, tmp_path, train=None, test=None, check=False)


def test_a_truncated_gzip_file_is_named(tmp_path: Path) -> None:
    which, files = small_mnist(0)
    write(which, files, tmp_path, packed=True)
    path = tmp_path / which.folder / "train-images-idx3-ubyte.gz"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(
        DataError, match="train-images-idx3-ubyte.gz must be a whole gzip file. Got a truncated or damaged"
    ):
        load(which, tmp_path, train=None, test=None)
    assert which.damaged(tmp_path) == [path.name]
    path.unlink()
    with pytest.raises(DataError, match="Got no train-images-idx3-ubyte."):
        load(which, tmp_path, train=None, test=None)
    assert which.state(tmp_path) == "incomplete"


def test_the_folder_is_the_argument_then_the_variable_then_the_cache(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RICHTER_DATA", str(tmp_path / "variable"))
    assert data_folder("given") == Path("given") and data_folder() == tmp_path / "variable"
    monkeypatch.delenv("RICHTER_DATA")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("sys.platform", "linux")
    assert data_folder() == tmp_path / "cache" / "richter" / "datasets"
    monkeypatch.setattr("sys.platform", "darwin")
    assert data_folder() == Path.home() / "Library" / "Caches" / "richter" / "datasets"
    monkeypatch.setattr("sys.platform", "win32")
    monkeypatch.setenv("LOCALAPPDATA", str(tmp_path / "local"))
    assert data_folder() == tmp_path / "local" / "richter" / "datasets"


def test_an_unknown_set_is_answered_with_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="No data set named `minst`. Did you mean mnist?"):
        image_set("minst")
    assert set(SETS) == {"mnist", "fashion-mnist", "cifar10"}


def check_real(task: Task, counts: list[int], test_counts: list[int], labels: list[int], means: list[float]) -> None:
    assert np.bincount(task.targets).tolist() == counts and np.bincount(task.test_targets).tolist() == test_counts
    assert task.targets[: len(labels)].tolist() == labels
    assert task.inputs.min() == 0 and task.inputs.max() == 1
    # The per-channel means that everybody normalises with, printed to four digits.
    assert task.inputs.mean((0, 2, 3), dtype=np.float64).round(4).tolist() == means


@real(MNIST)
def test_real_mnist() -> None:
    train = [5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949]
    test = [980, 1135, 1032, 1010, 982, 892, 958, 1028, 974, 1009]
    check_real(mnist(), train, test, [5, 0, 4, 1, 9, 2, 1, 3], [0.1307])


@real(FASHION_MNIST)
def test_real_fashion_mnist() -> None:
    check_real(fashion_mnist(), [6000] * 10, [1000] * 10, [9, 0, 0, 3, 0, 2, 7, 2], [0.2860])


@real(CIFAR10)
def test_real_cifar10() -> None:
    task = cifar10()
    check_real(task, [5000] * 10, [1000] * 10, [6, 9, 9, 4, 1, 1, 2, 7], [0.4914, 0.4822, 0.4465])
    assert task.inputs.shape == (50_000, 3, 32, 32) and task.classes[task.targets[0]] == "frog"
