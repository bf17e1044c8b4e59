"""Fetching an image set from its canonical address: downloaded aside, checked, then put in its place at once."""

from __future__ import annotations

import logging
import os
import tarfile
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from richter.errors import DataError, MissingExtraError, ParameterError, message
from richter.tasks.sets import ImageSet, contents, data_folder, image_set

Progress = Callable[[str, int, int], None]
"""Called with the archive's name, the bytes so far and in all (0 while unknown)."""


def fetch(
    name: str | ImageSet,
    folder: str | os.PathLike[str] | None = None,
    *,
    address: str | None = None,
    attempts: int = 3,
    progress: Progress | None = None,
) -> Path:
    """Fetch what is missing or damaged of a set; return the folder that then holds it whole.

    Args:
        name: mnist, fashion-mnist or cifar10.
        folder: where data sets lie; see `richter.tasks.sets.data_folder`.
        address: a mirror that holds the same archives; the canonical address by default.
        attempts: how often a download is tried.
        progress: is told how far each download is.
    """
    which = image_set(name) if isinstance(name, str) else name
    root = data_folder(folder)
    place = root / which.folder
    needed = {*which.missing(root), *(path.removesuffix(".gz") for path in which.damaged(root))}
    if not needed:
        return place
    source = which.address if address is None else address
    if not source.startswith(("http://", "https://")):
        raise ParameterError(message("the address of a data set", "begin with http:// or https://", source))
    try:
        place.mkdir(parents=True, exist_ok=True)
        # Aside but on the same disk, so that a finished file moves into place in one step.
        with tempfile.TemporaryDirectory(dir=place, prefix=".part-") as aside:
            archives = [a for a in which.archives if a.endswith(".tar.gz") or a.removesuffix(".gz") in needed]
            for archive in archives:
                path = _download(which, archive, source, Path(aside), attempts, progress)
                for file, data in _unpack(which, path):
                    which.check(path, file, data)
                    (Path(aside) / f"{file}.part").write_bytes(data)
            for file in which.files:
                part = Path(aside) / f"{file}.part"
                if file in needed and not part.exists():
                    raise DataError(message(f"the archive of {which.title} from {source}", f"hold {file}", "none"))
            for file in needed:
                os.replace(Path(aside) / f"{file}.part", place / file)
    except DataError:
        raise
    except OSError as problem:
        raise DataError(f"{which.title} cannot be written to {place}: {problem.strerror or problem}.") from None
    return place


def _download(
    which: ImageSet, archive: str, address: str, aside: Path, attempts: int, progress: Progress | None
) -> Path:
    try:
        import pooch
    except ImportError:
        by_hand = f"or put its files into a folder {which.folder}/ by hand"
        raise MissingExtraError(f'Fetching data needs pooch. Type: pip install "richter[data]", {by_hand}.') from None
    base = address if address.endswith("/") else f"{address}/"
    registry = {archive: f"md5:{which.archives[archive]}"}
    keeper = pooch.create(path=aside, base_url=base, registry=registry, retry_if_failed=attempts - 1)
    bar = _Bar(archive, progress) if progress else False
    try:
        with _quiet(pooch.get_logger()):
            downloader = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=30)
            return Path(keeper.fetch(archive, downloader=downloader))
    except OSError as problem:
        what = f"{which.title} could not be fetched from {base}{archive}: {_cause(problem)}."
        do = f"Check the network, pass another address, or put the files into {aside.parent} by hand."
        raise DataError(f"{what} {do}") from None
    except ValueError:
        got = "something else (a damaged or altered download)"
        do = "Nothing of it was kept. Try again, or pass another address."
        raise DataError(message(f"{base}{archive}", f"have the md5 sum {which.archives[archive]}", got, do)) from None


def _unpack(which: ImageSet, path: Path) -> Iterator[tuple[str, bytes]]:
    """The set's files in an archive. Members are read by their expected names; no path in it is ever followed."""
    if not path.name.endswith(".tar.gz"):
        yield path.name.removesuffix(".gz"), contents(path)
        return
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                folder, _, file = member.name.removeprefix("./").rpartition("/")
                if folder == which.folder and file in which.files and member.isfile():
                    stream = tar.extractfile(member)
                    assert stream is not None  # a regular file has content
                    yield file, stream.read()
    except (tarfile.TarError, EOFError) as problem:
        raise DataError(f"{path.name} is not a whole archive: {problem}.") from None


def _cause(problem: BaseException) -> str:
    """The kind of the failure in words: the library's own text runs over many lines."""
    response = getattr(problem, "response", None)
    if response is not None:
        return f"the server answered {response.status_code}"
    return {
        "ConnectionError": "no connection",
        "ConnectTimeout": "no answer in time",
        "ReadTimeout": "no answer in time",
        "ChunkedEncodingError": "the connection was interrupted",
    }.get(type(problem).__name__, type(problem).__name__)


@contextmanager
def _quiet(logger: logging.Logger) -> Iterator[None]:
    """No lines about each download; the level is put back afterwards."""
    before = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(before)


class _Bar:
    """What pooch expects of a progress bar, passed on to a function."""

    def __init__(self, name: str, tell: Progress) -> None:
        self.name, self.tell, self.total, self.done = name, tell, 0, 0

    def update(self, more: int) -> None:
        """So many more bytes."""
        self.done += more
        self.tell(self.name, min(self.done, self.total) if self.total else self.done, self.total)

    def reset(self) -> None:
        """Back to the beginning."""
        self.done = 0

    def close(self) -> None:
        """Nothing to close."""
