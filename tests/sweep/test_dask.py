"""The same sweep on a Dask cluster of several workers, one of them killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from richter.errors import UnfinishedError
from richter.sweep import sweep
from richter.sweep.engines import Dask
from tests.sweep import cells
from tests.sweep.drive import GRID

pytest.importorskip("distributed")
psutil = pytest.importorskip("psutil")


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    from distributed import LocalCluster

    with LocalCluster(
        n_workers=3, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
    ) as made:  # fmt: skip
        yield made


@pytest.fixture(scope="module")
def truth() -> str:
    return str(sweep(cells.product, GRID, engine="here").attrs["digest"])


def test_a_cluster_that_loses_workers_gives_the_whole_and_equal_result(
    cluster: Any, tmp_path: Path, truth: str
) -> None:
    address = str(cluster.scheduler_address).replace("tcp://", "dask://")
    before = set(cluster.scheduler_info["workers"])
    ds = sweep(
        cells.kills_its_worker_once, GRID, fixed={"folder": str(tmp_path)}, engine=address, store=tmp_path / "store"
    )
    assert ds.attrs["missing_cells"] == 0 and ds.attrs["digest"] == truth
    assert len(list(tmp_path.glob("killed-*"))) == 3  # three processes of workers were killed
    assert len(before) == 3 and len(list((tmp_path / "store" / "cells").iterdir())) == 24


def test_a_store_moves_between_engines(cluster: Any, tmp_path: Path, truth: str) -> None:
    fixed = {"folder": str(tmp_path)}
    with pytest.raises(UnfinishedError):
        sweep(cells.fails_at_two, GRID, fixed=fixed, store=tmp_path / "store", engine="here", attempts=1)
    begun = len(cells.calls(tmp_path))
    (tmp_path / "mended").touch()
    engine = Dask(cluster.scheduler_address)
    ds = sweep(cells.fails_at_two, GRID, fixed=fixed, store=tmp_path / "store", engine=engine)
    assert ds.attrs["digest"] == truth and len(cells.calls(tmp_path)) == begun + 8


def test_a_cluster_of_our_own_listens_on_loopback_alone(truth: str) -> None:
    with Dask(workers=2) as engine:
        assert engine.parallel() == 2
        here = psutil.Process()
        sockets = [s for p in [here, *here.children(recursive=True)] for s in p.net_connections("inet")]
        listening = [s.laddr.ip for s in sockets if s.status == psutil.CONN_LISTEN]
        assert len(listening) >= 3 and set(listening) == {"127.0.0.1"}
    assert sweep(cells.product, GRID, engine="dask", workers=2).attrs["digest"] == truth


def test_no_cluster_there_is_one_clear_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("richter.sweep.engines.PATIENCE", "0.3s")
    with pytest.raises(UnfinishedError, match="`--engine` must be the address of a Dask scheduler, dask://host:port"):
        sweep(cells.product, GRID, engine="dask://127.0.0.1:9")
