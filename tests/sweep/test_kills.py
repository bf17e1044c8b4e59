"""Kill the driver, kill workers, fill the disk, damage files: nothing finished is lost, nothing partial looks whole."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter.errors import FileError, UnfinishedError
from richter.sweep import Grid, read, store, sweep
from richter.sweep.store import Store
from tests.sweep import cells
from tests.sweep.drive import GRID

ROOT = Path(__file__).parents[2]
CELLS = 24


@pytest.fixture(scope="module")
def truth() -> str:
    return str(sweep(cells.product, GRID, engine="here").attrs["digest"])


def drive(folder: Path, wait: float, *more: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "tests.sweep.drive", str(folder / "store"), str(folder), str(wait), *more]
    path = os.pathsep.join([str(ROOT), str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}
    )


def kept(folder: Path) -> set[str]:
    return {path.name for path in (folder / "store" / "cells").glob("*.cells")}


def line_of(name: str) -> str:
    """The line that a call for this file's cell leaves."""
    x, k = Grid(GRID).cell(int(name.split(".")[0])).values()
    return f"{x},{k}"


def children(pid: int) -> list[int]:
    done = subprocess.run(["ps", "-o", "pid=", "--ppid", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in done.stdout.split()]


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except FileNotFoundError:
        return True


def test_a_driver_killed_again_and_again_loses_nothing_and_repeats_only_what_was_under_way(
    tmp_path: Path, truth: str, seed: int
) -> None:
    rng = np.random.default_rng([seed, 77])
    kills = 0
    workers: list[int] = []
    safe: list[tuple[int, set[str]]] = []
    while kills < 3:
        before = kept(tmp_path)
        driver = drive(tmp_path, 0.05)
        while kept(tmp_path) == before and driver.poll() is None:
            time.sleep(0.01)
        time.sleep(float(rng.uniform(0, 0.25)))
        if driver.poll() is not None:
            break
        workers += children(driver.pid)
        driver.send_signal(signal.SIGKILL)
        driver.communicate()
        kills += 1
        done = kept(tmp_path)
        safe.append((len(cells.calls(tmp_path)), {line_of(name) for name in done}))
        assert before <= done  # nothing that was finished is gone
        if len(done) < CELLS:
            assert not (tmp_path / "store" / "sweep.nc").exists()
            with pytest.raises(UnfinishedError, match="of 24 cells of the sweep in .* are missing"):
                read(tmp_path / "store")
            assert int(read(tmp_path / "store", partial=True).finished.sum()) == len(done)
    assert kills >= 2
    out, _ = (final := drive(tmp_path, 0.0)).communicate()
    # The wait is a parameter: with another one it is another sweep, which must not use these cells.
    assert final.returncode == 2 and "holds another sweep: its fixed is" in out
    final = drive(tmp_path, 0.05)
    final.communicate()
    assert final.returncode == 0
    ds = read(tmp_path / "store")
    assert ds.attrs["missing_cells"] == 0 and (tmp_path / "digest").read_text() == ds.attrs["digest"] == truth
    made = cells.calls(tmp_path)
    assert len(set(made)) == CELLS and len(made) <= CELLS + 4 * kills  # at a kill two ran and two were being written
    assert all(not done & set(made[count:]) for count, done in safe)  # what is kept is never computed again
    assert len(list((tmp_path / "store" / "cells").iterdir())) == CELLS
    deadline = time.monotonic() + 10
    while not all(map(gone, workers)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert workers and all(map(gone, workers))  # no orphan computes on


def test_a_killed_worker_is_replaced(tmp_path: Path, truth: str) -> None:
    ds = sweep(cells.kills_its_worker_once, GRID, fixed={"folder": str(tmp_path)}, workers=2, store=tmp_path / "store")
    assert ds.attrs["digest"] == truth and len(list(tmp_path.glob("killed-*"))) == 3


def test_a_cell_that_always_kills_its_worker_is_named_and_takes_no_other_with_it(tmp_path: Path) -> None:
    with pytest.raises(UnfinishedError) as caught:
        sweep(
            cells.kills_its_worker_always, GRID, fixed={"folder": str(tmp_path)}, workers=2, attempts=2,
            store=tmp_path / "store",
        )  # fmt: skip
    said = str(caught.value)
    assert "1 of 24 cells failed, the first (tried 2 times): {'x': 1.0, 'k': 1}: its worker process died" in said
    part = read(tmp_path / "store", partial=True)
    assert int(part.finished.sum()) == CELLS - 1 and not part.finished.sel(x=1.0, k=1)
    times = Counter(cells.calls(tmp_path))
    assert times["1.0,1"] <= 3  # with its neighbour once, then twice alone
    assert all(times[name] <= 2 for name in times if name != "1.0,1")


def test_a_full_disk_stops_the_sweep_and_keeps_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, truth: str
) -> None:
    whole, count = store.write, 0

    def full(path: Path, content: bytes) -> None:
        nonlocal count
        count += 1
        if count > 10:
            path.with_name(f".{path.name}.1.part").write_bytes(content[:100])  # as far as it went
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        whole(path, content)

    monkeypatch.setattr(store, "write", full)
    with pytest.raises(
        UnfinishedError, match="The sweep stopped: No space left on device. 9 of 24 cells are kept"
    ) as e:
        sweep(cells.product, GRID, fixed={"folder": str(tmp_path)}, store=tmp_path / "store", engine="here")
    assert e.value.exit_code == 3 and len(kept(tmp_path)) == 9 and not (tmp_path / "store" / "sweep.nc").exists()
    monkeypatch.setattr(store, "write", whole)
    ds = sweep(cells.product, GRID, fixed={"folder": str(tmp_path)}, store=tmp_path / "store", engine="here")
    assert ds.attrs["digest"] == truth and max(Counter(cells.calls(tmp_path)).values()) == 2
    assert len(cells.calls(tmp_path)) == CELLS + 2 and not list((tmp_path / "store" / "cells").glob("*.part"))


@pytest.mark.parametrize(("limit", "cells_kept"), [(700, 0), (5000, CELLS)])
def test_a_real_limit_on_file_sizes_cuts_no_file_short(tmp_path: Path, limit: int, cells_kept: int, truth: str) -> None:
    # 700 bytes: no batch fits. 5000: each batch does, the whole does not.
    driver = drive(tmp_path, 0.0, str(limit))
    out, _ = driver.communicate()
    assert driver.returncode == 3 and f"{cells_kept} of 24 cells are kept" in out
    assert len(kept(tmp_path)) == cells_kept and not (tmp_path / "store" / "sweep.nc").exists()
    final = drive(tmp_path, 0.0)
    final.communicate()
    assert final.returncode == 0 and read(tmp_path / "store").attrs["digest"] == truth


def damage_nothing(folder: Path) -> None:
    """The control."""


def cut_short(folder: Path) -> None:
    content = (folder / "0000003.cells").read_bytes()
    (folder / "0000003.cells").write_bytes(content[:-1])


def empty(folder: Path) -> None:
    (folder / "0000003.cells").write_bytes(b"")


def flip(folder: Path) -> None:
    content = bytearray((folder / "0000003.cells").read_bytes())
    content[-5] ^= 1
    (folder / "0000003.cells").write_bytes(content)


def swap(folder: Path) -> None:
    """A whole file, but of another batch."""
    (folder / "0000003.cells").write_bytes((folder / "0000004.cells").read_bytes())


def of_another_sweep(folder: Path) -> None:
    """A whole file of the same batch, but with another grid."""
    sweep(cells.product, {**GRID, "x": [1.0, 2.0, 4.5]}, store=folder.parent / "x", engine="here")
    (folder / "0000003.cells").write_bytes((folder.parent / "x" / "cells" / "0000003.cells").read_bytes())


@pytest.mark.parametrize("damage", [damage_nothing, cut_short, empty, flip, swap, of_another_sweep])
def test_a_damaged_file_is_found_and_only_its_cell_computed_again(tmp_path: Path, damage: Any, truth: str) -> None:
    fixed = {"folder": str(tmp_path)}
    sweep(cells.product, GRID, fixed=fixed, store=tmp_path / "store", engine="here")
    damage(tmp_path / "store" / "cells")
    wrong = damage is not damage_nothing
    if wrong:
        with pytest.raises(UnfinishedError, match="1 of 24 cells"):
            read(tmp_path / "store")
    ds = sweep(cells.product, GRID, fixed=fixed, store=tmp_path / "store", engine="here")
    assert ds.attrs["digest"] == read(tmp_path / "store").attrs["digest"] == truth
    assert Counter(cells.calls(tmp_path))["1.0,3"] == 1 + wrong and len(cells.calls(tmp_path)) == CELLS + wrong


def test_a_damaged_manifest_a_strange_folder_and_other_code_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sweep(cells.product, GRID, store=tmp_path / "store", engine="here")
    manifest = tmp_path / "store" / "manifest.json"
    text = manifest.read_text()
    again = lambda **more: sweep(cells.product, GRID, store=tmp_path / "store", engine="here", **more)
    for bad in (text[:-20], text.replace("3.5", "3.6"), "[]"):
        manifest.write_text(bad)
        with pytest.raises(FileError, match="manifest.json is damaged"):
            again()
        with pytest.raises(FileError, match="manifest.json is damaged"):
            read(tmp_path / "store")
    manifest.unlink()
    with pytest.raises(FileError, match="must be empty or the folder of a sweep. Got it holds"):
        again()
    with pytest.raises(FileError, match="must be the folder of a sweep. Got no manifest.json in it"):
        read(tmp_path / "store")
    manifest.write_text(text)
    again()
    monkeypatch.setattr("richter.sweep.driver.made_with", lambda function: {"numpy": "0"})
    with pytest.raises(FileError, match=r"was begun with another numpy: '.*'\. Give another folder, or say mixed=True"):
        again()
    assert again(mixed=True).attrs["missing_cells"] == 0
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="cannot hold a sweep"):
        sweep(cells.product, GRID, store=tmp_path / "file", engine="here")


def test_two_drivers_do_not_share_a_folder_and_a_dead_one_leaves_no_lock(tmp_path: Path) -> None:
    place = Store(tmp_path / "store")
    with place.locked():
        with pytest.raises(UnfinishedError, match=f"Another sweep is writing into .* \\(process {os.getpid()} on"):
            sweep(cells.product, GRID, store=tmp_path / "store", engine="here")
    driver = drive(tmp_path, 0.3)
    while not kept(tmp_path):
        assert driver.poll() is None
        time.sleep(0.02)
    second = drive(tmp_path, 0.3)
    out, _ = second.communicate()
    assert second.returncode == 3 and f"(process {driver.pid} on" in out
    driver.kill()
    driver.communicate()
    with place.locked():
        pass


def test_a_stop_by_hand_ends_the_workers(tmp_path: Path) -> None:
    driver = drive(tmp_path, 300.0)
    try:
        while len(cells.calls(tmp_path)) < 1:
            assert driver.poll() is None
            time.sleep(0.02)
        driver.send_signal(signal.SIGINT)
        driver.communicate(timeout=60)  # a busy machine may be slow, but not as slow as the 300 s of the cell
    finally:
        driver.kill()
        driver.communicate()
    assert driver.returncode not in (0, -signal.SIGKILL)
