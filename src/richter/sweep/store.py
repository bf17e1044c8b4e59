"""The folder of a sweep: a manifest, and one file for each finished batch, whole or absent.

A file is written beside its place, flushed to the disk and renamed, so that a kill at any instant leaves either the
whole file or none. A damaged file is found by its checksum and its batch computed again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from richter.errors import FileError, UnfinishedError, message, show
from richter.sweep.part import Part, decode

MANIFEST, FAILED, LOCK, CELLS, WHOLE = "manifest.json", "failed.json", ".lock", "cells", "sweep.nc"


class Store:
    """The folder; whoever writes into it holds its lock."""

    def __init__(self, folder: str | os.PathLike[str], lasting: bool = True) -> None:
        """Nothing is read or written yet; a folder that is not `lasting` goes with the sweep."""
        self.folder = Path(folder)
        self.cells = self.folder / CELLS
        self.lasting = lasting

    @contextlib.contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder if need be and hold its lock; the system frees it even if this process is killed."""
        try:
            import fcntl
        except ImportError:
            raise UnfinishedError("A sweep needs file locks (fcntl), which this system does not have.") from None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            handle = os.open(self.folder / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
        except OSError as problem:
            raise FileError(f"{self.folder} cannot hold a sweep: {problem.strerror or problem}.") from None
        try:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                owner = os.read(handle, 200).decode(errors="replace").strip() or "another process"
                raise UnfinishedError(
                    f"Another sweep is writing into {self.folder} ({owner}). Wait for it, or give another folder."
                ) from None
            with contextlib.suppress(OSError):  # a full disk must not keep anyone from locking
                os.ftruncate(handle, 0)
                os.pwrite(handle, f"process {os.getpid()} on {os.uname().nodename}".encode(), 0)
            for part in [*self.folder.glob("*.part"), *self.cells.glob("*.part")]:
                part.unlink(missing_ok=True)
            yield
        finally:
            os.close(handle)

    def begin(self, identity: Mapping[str, Any], made: Mapping[str, Any], mixed: bool) -> str:
        """Write the manifest, or check that the one that is there is of the same sweep; returns its identifier.

        `identity` says what is computed; `made` with what (code and versions), which must be the same too unless
        `mixed`.
        """
        path = self.folder / MANIFEST
        if not path.exists():
            strange = [each.name for each in self.folder.iterdir() if each.name not in (LOCK, CELLS)]
            if strange or (self.cells.exists() and any(self.cells.iterdir())):
                got = show(strange[0] if strange else CELLS)
                raise FileError(message(f"{self.folder}", "be empty or the folder of a sweep", f"it holds {got}"))
            self.cells.mkdir(exist_ok=True)
            write(path, _manifest(identity, made))
            return identifier(identity)
        return self.check(identity, made, mixed)

    def check(self, identity: Mapping[str, Any], made: Mapping[str, Any], mixed: bool) -> str:
        """The identifier of the sweep that is there, if it is the one that is meant."""
        old = self.manifest()
        for name in identity:
            if old["identity"].get(name) != json.loads(json.dumps(identity[name])):
                raise FileError(
                    f"{self.folder} holds another sweep: its {name} is {show(old['identity'].get(name))}, not "
                    f"{show(json.loads(json.dumps(identity[name])))}. Give another folder."
                )
        if old["made"] != made and not mixed:
            changed = [name for name in made if old["made"].get(name) != made[name]]
            raise FileError(
                f"{self.folder} was begun with another {changed[0] if changed else 'set of libraries'}: "
                f"{show(old['made'].get(changed[0]) if changed else old['made'])}. Give another folder, or say "
                "mixed=True (--mixed) to keep its cells."
            )
        return str(old["id"])

    def manifest(self) -> dict[str, Any]:
        """What the folder says it holds."""
        path = self.folder / MANIFEST
        try:
            read = json.loads(path.read_text())
            if read["id"] != identifier(read["identity"]):
                raise ValueError("its identifier does not fit its content")
        except FileNotFoundError:
            raise FileError(message(str(self.folder), "be the folder of a sweep", f"no {MANIFEST} in it")) from None
        except (OSError, ValueError, KeyError, TypeError) as problem:
            raise FileError(f"{path} is damaged ({problem}). Restore it, or begin in another folder.") from None
        return dict(read)

    def path(self, batch: int) -> Path:
        """Where a batch is kept."""
        return self.cells / f"{batch:07d}.cells"

    def put(self, batch: int, content: bytes) -> None:
        """Keep a finished batch."""
        write(self.path(batch), content)

    def get(self, batch: int, sweep: str, cells: tuple[int, ...]) -> Part:
        """A finished batch of this very sweep, or an error if it is absent, damaged or another's."""
        path = self.path(batch)
        try:
            content = path.read_bytes()
        except OSError as problem:
            raise FileError(f"{path} cannot be read: {problem.strerror}.") from None
        part = decode(content, str(path))
        if part.note.get("sweep") != sweep or part.cells != cells:
            raise FileError(f"{path} belongs to another sweep or another place in this one.")
        return part

    def fail(self, report: list[dict[str, Any]]) -> None:
        """Keep which cells failed and why; an empty report removes an old one."""
        path = self.folder / FAILED
        if report:
            write(path, json.dumps(report, indent=1, ensure_ascii=False).encode())
        else:
            path.unlink(missing_ok=True)

    @property
    def where(self) -> str:
        """Where its cells are, in words."""
        return f"kept in {self.folder}" if self.lasting else "lost, since no store was given"

    def free(self) -> int:
        """Bytes that are free on its disk."""
        place = self.folder.absolute()
        while not place.exists():
            place = place.parent
        return shutil.disk_usage(place).free


def identifier(identity: Mapping[str, Any]) -> str:
    """A short name of what is computed."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def write(path: Path, content: bytes) -> None:
    """Put the content into the file at once and for good: it is there whole after a kill and after a crash."""
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            os.fsync(folder)  # the new name too
        finally:
            os.close(folder)
    finally:
        part.unlink(missing_ok=True)


def _manifest(identity: Mapping[str, Any], made: Mapping[str, Any]) -> bytes:
    content = {"richter_sweep": 1, "id": identifier(identity), "identity": identity, "made": made}
    return json.dumps(content, indent=1, ensure_ascii=False).encode() + b"\n"
