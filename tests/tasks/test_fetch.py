"""The fetcher against a server on this machine: whole, damaged, interrupted, absent."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from richter.errors import DataError, MissingExtraError, ParameterError
from richter.tasks.fetch import fetch
from richter.tasks.images import load
from richter.tasks.sets import ImageSet
from tests.tasks.made_sets import Files, small_cifar, small_mnist, write


@dataclass
class Server:
    """What is served, and what was asked for; `wrong` says what to do with a file: cut it or change it."""

    address: str = ""
    files: Files = field(default_factory=dict)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    asked: list[str] = field(default_factory=list)


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    pytest.importorskip("pooch")
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # no waiting between attempts
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    made = Server()

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            name = self.path.rpartition("/")[2]
            made.asked.append(name)
            if name not in made.files:
                self.send_error(404)
                return
            data = made.files[name]
            todo = made.wrong.get(name, [])
            fault = todo.pop(0) if todo else ""
            self.send_response(200)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            if fault == "change":
                data = data[:-20] + bytes([data[-20] ^ 1]) + data[-19:]
            self.wfile.write(data[: len(data) // 2] if fault == "cut" else data)

        def log_message(self, *words: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        made.address = f"http://127.0.0.1:{http.server_address[1]}/files/"
        yield made
        http.shutdown()
        thread.join()


def at(server: Server, made: tuple[ImageSet, Files]) -> ImageSet:
    which, server.files = made
    return replace(which, address=server.address)


def left(root: Path, which: ImageSet) -> list[str]:
    """Everything in the set's folder, hidden files included."""
    return sorted(path.name for path in (root / which.folder).iterdir()) if (root / which.folder).exists() else []


@pytest.mark.parametrize("make", [small_mnist, small_cifar])
def test_a_set_is_fetched_whole_and_only_once(server: Server, tmp_path: Path, seed: int, make: Any) -> None:
    which = at(server, make(seed))
    seen: list[tuple[str, int, int]] = []
    place = fetch(which, tmp_path, progress=lambda *told: seen.append(told))
    assert place == tmp_path / which.folder and left(tmp_path, which) == sorted(which.files)
    assert which.state(tmp_path) == "present" and which.damaged(tmp_path) == []
    assert len(load(which, tmp_path, train=None, test=None)) in (12, 30)
    assert {name for name, _, _ in seen} == set(which.archives) and all(done <= total for _, done, total in seen)
    for name in which.archives:
        assert [t for t in seen if t[0] == name][-1][1:] == (len(server.files[name]),) * 2
    before = len(server.asked)
    fetch(which, tmp_path)
    assert len(server.asked) == before == len(which.archives)


def test_only_what_is_missing_or_damaged_is_fetched(server: Server, tmp_path: Path) -> None:
    which = at(server, small_mnist(0))
    write(which, server.files, tmp_path)
    (tmp_path / which.folder / "t10k-labels-idx1-ubyte").unlink()
    (tmp_path / which.folder / "train-labels-idx1-ubyte").write_bytes(b"damaged")
    fetch(which, tmp_path)
    assert sorted(server.asked) == ["t10k-labels-idx1-ubyte.gz", "train-labels-idx1-ubyte.gz"]
    assert which.damaged(tmp_path) == [] and which.state(tmp_path) == "present"


@pytest.mark.parametrize("make", [small_mnist, small_cifar])
@pytest.mark.parametrize(
    ("fault", "text"),
    [
        (
            "change",
            r"must have the md5 sum .* Got something else \(a damaged or altered download\)\. Nothing of it was",
        ),
        ("cut", r"could not be fetched from http://127.0.0.1:\d+/files/.*: the connection was interrupted\. Check the"),
    ],
)
def test_nothing_of_a_bad_download_is_kept(server: Server, tmp_path: Path, make: Any, fault: str, text: str) -> None:
    which = at(server, make(0))
    last = list(which.archives)[-1]
    server.wrong = {last: [fault] * 3}
    with pytest.raises(DataError, match=text) as caught:
        fetch(which, tmp_path)
    assert "\n" not in str(caught.value) and caught.value.exit_code == 3
    assert server.asked.count(last) == 3
    assert left(tmp_path, which) == [] and which.state(tmp_path) == "absent"


@pytest.mark.parametrize("fault", ["change", "cut"])
def test_a_second_attempt_saves_the_download(server: Server, tmp_path: Path, fault: str) -> None:
    which = at(server, small_cifar(0))
    server.wrong = {"cifar-10-binary.tar.gz": [fault]}
    fetch(which, tmp_path)
    assert len(server.asked) == 2 and which.damaged(tmp_path) == [] and which.state(tmp_path) == "present"


def test_a_good_old_file_survives_a_bad_download(server: Server, tmp_path: Path) -> None:
    which = at(server, small_mnist(0))
    write(which, server.files, tmp_path)
    (tmp_path / which.folder / "t10k-labels-idx1-ubyte").unlink()
    server.wrong = {"t10k-labels-idx1-ubyte.gz": ["change"] * 3}
    with pytest.raises(DataError):
        fetch(which, tmp_path)
    assert left(tmp_path, which) == sorted(set(which.files) - {"t10k-labels-idx1-ubyte"})


def test_an_archive_writes_only_the_expected_names(server: Server, tmp_path: Path) -> None:
    outside = {
        "../escaped": b"x",
        "/a/../escaped": b"x",
        "cifar-10-batches-bin/../../escaped": b"x",
        "other/test_batch.bin": b"x",
    }
    which = at(server, small_cifar(0, extra=outside))
    fetch(which, tmp_path / "inner")
    assert sorted(p.name for p in tmp_path.rglob("*") if p.is_file()) == sorted(which.files)
    assert which.damaged(tmp_path / "inner") == []


def test_an_archive_without_an_expected_file_is_refused(server: Server, tmp_path: Path) -> None:
    which = at(server, small_cifar(0))
    more = replace(which, files={**which.files, "data_batch_9.bin": "0"})
    with pytest.raises(DataError, match=r"the archive of CIFAR-10 from .* must hold data_batch_9.bin. Got none."):
        fetch(more, tmp_path)
    assert left(tmp_path, which) == []


def test_no_server_no_file_and_no_permission_are_one_line(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    which, _ = small_mnist(0)
    with pytest.raises(
        DataError, match="could not be fetched from http.*train-images-idx3-ubyte.gz: the server answered 404"
    ):
        fetch(which, tmp_path, address=server.address)
    with pytest.raises(
        DataError, match="could not be fetched from http://127.0.0.1:1/.*: no connection. Check the network"
    ):
        fetch(which, tmp_path, address="http://127.0.0.1:1")
    assert left(tmp_path, which) == []
    with pytest.raises(ParameterError, match="the address of a data set must begin with http:// or https://. Got file"):
        fetch(which, tmp_path, address="file:///x")

    def refuse(*words: object, **more: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(DataError, match="MNIST cannot be written to .*: Permission denied."):
        fetch(which, tmp_path / "locked", address=server.address)


def test_without_pooch_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any) -> Any:
        if name == "pooch":
            raise ImportError(name=name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    which, _ = small_mnist(0)
    with pytest.raises(
        MissingExtraError, match=r'Fetching data needs pooch. Type: pip install "richter\[data\]", or put'
    ):
        fetch(which, tmp_path)
    assert left(tmp_path, which) == []
