"""The real image sets: which files each has, their checksums, where they lie and whether they are whole."""

from __future__ import annotations

import gzip
import hashlib
import os
import sys
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from richter.errors import DataError, UnknownNameError, message, nearest


@dataclass(frozen=True)
class ImageSet:
    """A published set of images: its files with their md5 sums, and where it is fetched from."""

    name: str
    title: str
    folder: str
    shape: tuple[int, int, int]
    classes: tuple[str, ...]
    address: str
    files: Mapping[str, str] = field(repr=False)
    archives: Mapping[str, str] = field(repr=False)

    def missing(self, root: Path) -> list[str]:
        """The files that are not there, neither plain nor gzipped."""
        return [name for name in self.files if self.path(root, name) is None]

    def path(self, root: Path, name: str) -> Path | None:
        """Where a file lies: itself, or its .gz."""
        plain = root / self.folder / name
        return next((path for path in (plain, plain.with_name(f"{name}.gz")) if path.is_file()), None)

    def state(self, root: Path) -> str:
        """present, incomplete or absent; says nothing about the files' content."""
        missing = len(self.missing(root))
        return "present" if not missing else "absent" if missing == len(self.files) else "incomplete"

    def damaged(self, root: Path) -> list[str]:
        """The files that are there and do not have their published checksum."""
        wrong = []
        for name in self.files:
            if (path := self.path(root, name)) is not None:
                try:
                    self.check(path, name, contents(path))
                except DataError:
                    wrong.append(path.name)
        return wrong

    def check(self, path: Path, name: str, data: bytes) -> None:
        """Raise unless the content is the published one."""
        if md5(data) != self.files[name]:
            must, got = f"have the md5 sum {self.files[name]}", f"{md5(data)} ({len(data)} bytes)"
            do = f"It is truncated or damaged: remove it and type: richter data fetch {self.name}"
            raise DataError(message(f"{path}", must, got, do))

    def read(self, root: Path, name: str, check: bool = True) -> bytes:
        """The content of a file, unpacked and checked."""
        path = self.path(root, name)
        if path is None:
            raise self.absent(root)
        data = contents(path)
        if check:
            self.check(path, name, data)
        return data

    def absent(self, root: Path) -> DataError:
        """One line: what is missing and the three ways to get it."""
        missing = self.missing(root)
        got = "nothing there" if len(missing) == len(self.files) else f"no {', '.join(missing)}"
        do = (
            f"Pass the folder that holds {self.folder}/, set RICHTER_DATA to it, "
            f"or type: richter data fetch {self.name}"
        )
        return DataError(message(f"{self.title}", f"be in {root / self.folder} ({len(self.files)} files)", got, do))


def md5(data: bytes) -> str:
    """The md5 sum in hexadecimal: a check against damage, not against malice."""
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def contents(path: Path) -> bytes:
    """The bytes of a file, unpacked if it is gzipped."""
    try:
        data = path.read_bytes()
        return gzip.decompress(data) if path.suffix == ".gz" else data
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise DataError(
            message(f"{path}", "be a whole gzip file", "a truncated or damaged one", "Remove it.")
        ) from None
    except OSError as problem:
        raise DataError(f"{path} cannot be read: {problem.strerror or problem}.") from None


def data_folder(folder: str | os.PathLike[str] | None = None) -> Path:
    """Where data sets are looked for: `folder`, else `$RICHTER_DATA`, else the platform's cache folder.

    >>> data_folder("here").name
    'here'
    """
    given = folder if folder is not None else os.environ.get("RICHTER_DATA")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "richter" / "datasets"


def image_set(name: str) -> ImageSet:
    """A set by its name.

    >>> image_set("MNIST").folder
    'mnist'
    """
    if name.lower() not in SETS:
        raise UnknownNameError(f"No data set named `{name}`. {nearest(name, list(SETS))}")
    return SETS[name.lower()]


def _idx(images: str, labels: str, test_images: str, test_labels: str, suffix: str = "") -> dict[str, str]:
    return {
        f"train-images-idx3-ubyte{suffix}": images,
        f"train-labels-idx1-ubyte{suffix}": labels,
        f"t10k-images-idx3-ubyte{suffix}": test_images,
        f"t10k-labels-idx1-ubyte{suffix}": test_labels,
    }


MNIST = ImageSet(
    "mnist", "MNIST", "mnist", (1, 28, 28), tuple("0123456789"),
    "https://ossci-datasets.s3.amazonaws.com/mnist/",
    _idx("6bbc9ace898e44ae57da46a324031adb", "a25bea736e30d166cdddb491f175f624",
         "2646ac647ad5339dbf082846283269ea", "27ae3e4e09519cfbb04c329615203637"),
    _idx("f68b3c2dcbeaaa9fbdd348bbdeb94873", "d53e105ee54ea40749a09fcbcd1e9432",
         "9fb629c4189551a2d022fa330f9573f3", "ec29112dd5afa0611ce80d1b7f02629c", ".gz"),
)  # fmt: skip
FASHION_MNIST = ImageSet(
    "fashion-mnist", "Fashion-MNIST", "fashion-mnist", (1, 28, 28),
    ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot"),
    "http://fashion-mnist.s3-website.eu-central-1.amazonaws.com/",
    _idx("f4a8712d7a061bf5bd6d2ca38dc4d50a", "9018921c3c673c538a1fc5bad174d6f9",
         "8181f5470baa50b63fa0f6fddb340f0a", "15d484375f8d13e6eb1aabb0c3f46965"),
    _idx("8d4fb7e6c68d591d4c3dfef9ec88bf0d", "25c81989df183df01b3e8a0aad5dffbe",
         "bef4ecab320f06d8554ea6380940ec79", "bb300cfdad3c16e7a12a480ee83cd310", ".gz"),
)  # fmt: skip
CIFAR10 = ImageSet(
    "cifar10", "CIFAR-10", "cifar-10-batches-bin", (3, 32, 32),
    ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    "https://www.cs.toronto.edu/~kriz/",
    {
        "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
        "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
        "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
        "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
        "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
    },
    {"cifar-10-binary.tar.gz": "c32a1d4ab5d03f1284b67883e8d87530"},
)  # fmt: skip
SETS = {each.name: each for each in (MNIST, FASHION_MNIST, CIFAR10)}
