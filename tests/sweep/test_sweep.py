"""A sweep gives every cell once, labelled, the same whoever computes it, and says what cannot be."""

from __future__ import annotations

import json
import os
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from richter.errors import FileError, ParameterError, UnfinishedError, UnknownNameError
from richter.schema import load
from richter.sweep import Grid, cores, plan, read, sweep
from richter.sweep.machine import THREADS, free_memory
from richter.sweep.part import Part, decode, encode, gather
from tests.sweep import cells

GRID = {"x": [1.0, 2.0, 3.5], "k": range(4)}


def test_a_grid_counts_its_cells_and_its_batches_cover_each_once() -> None:
    grid = Grid({"a": [1, 2]}, b=np.array([0.5, 1.5, 2.5]), c=["x", "y"])
    assert grid.shape == (2, 3, 2) and len(grid) == grid.size == 12
    assert [grid.cell(i) for i in range(12)] == list(grid)
    assert type(grid.cell(3)["b"]) is float
    for at_most, apart in ((1, []), (5, []), (32, ["b"]), (2, ["a", "c"])):
        batches = grid.batches(at_most, apart)
        assert sorted(cell for batch in batches for cell in batch) == list(range(12))
        assert max(map(len, batches)) <= at_most
        for batch in batches:
            assert all(len({grid.cell(cell)[name] for cell in batch}) == 1 for name in apart)


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: Grid({}), "a grid must have at least one dimension"),
        (lambda: Grid(a=[]), "dimension `a` must have at least one value"),
        (lambda: Grid(a="word"), "dimension `a` must be a list of values. Got 'word'"),
        (lambda: Grid(a=[1, 1.0]), "the values of dimension `a` must differ"),
        (lambda: Grid(a=[float("nan")]), "must be a finite number, a word or a list of them. Got nan"),
        (lambda: Grid({"a b": [1]}), "a dimension of a grid must be a name"),
        (lambda: Grid(a=range(4000), b=range(4000)), "the cells of a grid must be at most 10000000. Got 16000000"),
        (lambda: Grid.parse(["a"]), "`--grid` must be name=v1,v2,…. Got a."),
        (lambda: Grid.parse(["a=1", "a=2"]), "`--grid` must name `a` once"),
        (lambda: Grid.parse(["a=5..1"]), "must rise: first..last. Got a=5..1"),
        (lambda: Grid.parse(["a=0:1:3"]), "must be first:last:count with 0 < first < last"),
        (lambda: Grid.parse(["a=[1,"]), "a list in `--grid` must be JSON"),
        (lambda: Grid(a=[1]).batches(0), "the size of a batch must be a whole number ≥ 1"),
        (lambda: sweep(len, {"a": [1]}, fixed={"a": 2}, engine="here"), "`a` must be fixed or a dimension"),
        (lambda: sweep(len, {"a": [1]}, seed=-1), "`seed` must be a whole number ≥ 0"),
        (lambda: sweep(len, {"a": [1]}, attempts=0), "`attempts` must be a whole number ≥ 1"),
        (lambda: sweep(len, {"a": [1]}, workers=0), "`workers` must be a whole number ≥ 1"),
        (lambda: sweep(len, {"a": [1]}, engine="slurm"), "must be process, here, dask, dask://host:port"),
        (lambda: sweep(lambda a: a, {"a": [1]}), "must be importable by name, not a lambda"),
        (lambda: sweep("len", {"a": [1]}), "the function of a sweep must be callable"),  # type: ignore[arg-type]
    ],
)
def test_wrong_use_is_one_clear_line(make: Any, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        make()
    assert text in str(caught.value) and "\n" not in str(caught.value)


def test_an_unknown_dimension_apart() -> None:
    with pytest.raises(UnknownNameError, match="The grid has no dimension `widht`. Did you mean width"):
        Grid(width=[1]).batches(2, ["widht"])


def test_bits_do_not_depend_on_the_number_of_workers_nor_on_the_engine(tmp_path: Path) -> None:
    one = sweep(cells.product, GRID, workers=1)
    two = sweep(cells.product, GRID, workers=2, store=tmp_path / "store")
    assert one.attrs["digest"] == two.attrs["digest"]
    for name in one.variables:
        np.testing.assert_array_equal(one[name].values, two[name].values)
    assert one["trace"].dims == ("x", "k") and one.rows.dims == ("x", "k", "row")
    assert one.word.sel(x=3.5, k=1).item() == "x3.5" and one.even.dtype == bool
    for x in GRID["x"]:
        for k in GRID["k"]:
            truth = cells.product(x, k)  # type: ignore[arg-type]
            assert one["trace"].sel(x=x, k=k).item() == pytest.approx(truth["trace"], rel=1e-12)
    assert load(tmp_path / "store" / "sweep.nc").identical(two)
    other = sweep(cells.product, {**GRID, "x": [1.0, 2.0, 3.0]}, workers=1)
    assert other.attrs["digest"] != one.attrs["digest"]


def test_batches_are_the_grids_own(tmp_path: Path) -> None:
    both = [sweep(cells.products, GRID, batch=5, workers=n, fixed={"folder": str(tmp_path)}) for n in (1, 2)]
    assert both[0].attrs["digest"] == both[1].attrs["digest"]
    assert sorted(cells.calls(tmp_path)) == ["batch-of-2"] * 2 + ["batch-of-5"] * 4
    truth = cells.products([{"x": 2.0, "k": 3}])
    np.testing.assert_allclose(both[0].rows.sel(x=2.0, k=3).values, truth["rows"][1][0], rtol=1e-12)


def test_any_executor_will_do() -> None:
    truth = sweep(cells.product, GRID, engine="here").attrs["digest"]
    with ThreadPoolExecutor(3) as threads:
        assert sweep(cells.product, GRID, engine=threads).attrs["digest"] == truth
        assert threads.submit(len, []).result() == 0  # it stays open


def test_datasets_of_different_lengths_are_filled_up_and_keep_their_labels() -> None:
    ds = sweep(cells.dataset, {"x": [1.0, 2.0], "n": [2, 3]}, engine="here")
    assert ds.y.dims == ("x", "n", "t") and ds.y.attrs["long_name"] == "a parabola"
    np.testing.assert_array_equal(ds.y.sel(x=2.0, n=2), [0, 4, np.nan])
    np.testing.assert_array_equal(ds.t_by_cell.sel(x=1.0, n=3), [0, 0.5, 1])
    assert "t" not in ds.coords and ds.n_of.sel(n=3, x=1.0) == 3
    same = sweep(cells.fixed_times, {"x": [1.0, 2.0], "n": [2, 3]}, engine="here")
    assert same.t.values.tolist() == [0, 1, 2] and "t_by_cell" not in same


def test_a_cells_seed_depends_on_its_number_alone() -> None:
    few = sweep(cells.seeded, {"x": [1, 2, 3]}, seed=7, engine="here").value.values
    assert np.unique(few).size == 3
    np.testing.assert_array_equal(sweep(cells.seeded, {"x": [1, 2]}, seed=7, engine="here").value, few[:2])
    assert not np.isin(sweep(cells.seeded, {"x": [1, 2, 3]}, seed=8, engine="here").value, few).any()


def test_workers_have_one_thread_and_the_caller_keeps_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("NPROC", raising=False)
    before = {name: os.environ.get(name) for name in THREADS}
    ds = sweep(cells.threads, {"x": [1]}, workers=1)
    assert ds.omp.item() == "1" and ds.cores.item() == 1
    assert {name: os.environ.get(name) for name in THREADS} == before
    monkeypatch.setenv("RICHTER_WORKERS", "many")
    with pytest.raises(ParameterError, match=r"\$RICHTER_WORKERS must be a whole number"):
        cores()
    assert (free_memory() or 1) > 0


def test_failures_are_tried_again_capped_and_reported(tmp_path: Path) -> None:
    fixed = {"folder": str(tmp_path)}
    store = tmp_path / "store"
    with pytest.raises(UnfinishedError) as caught:
        sweep(cells.fails_at_two, GRID, fixed=fixed, store=store, engine="here", attempts=2)
    said = str(caught.value)
    assert "4 of 12 cells failed, the first (tried 2 times): {'x': 2.0, 'k': 0}" in said
    assert "ArithmeticError: two is too many" in said and "The other 8 are kept in" in said
    report = json.loads((store / "failed.json").read_text())
    assert [row["cells"] for row in report] == [[{"x": 2.0, "k": k}] for k in range(4)]
    assert {row["attempts"] for row in report} == {2} and "two is too many" in report[0]["trace"]
    assert not (store / "sweep.nc").exists() and len(cells.calls(tmp_path)) == 8 + 2 * 4
    with pytest.raises(UnfinishedError, match="4 of 12 cells of the sweep"):
        read(store)
    part = read(store, partial=True)
    assert part.attrs["missing_cells"] == 4 and part.finished.values.sum() == 8
    assert np.isnan(part["trace"].sel(x=2.0)).all() and np.isfinite(part["trace"].sel(x=1.0)).all()
    assert (part.word.sel(x=2.0) == "").all() and np.isnan(part.even.sel(x=2.0)).all()
    (tmp_path / "mended").touch()
    ds = sweep(cells.fails_at_two, GRID, fixed=fixed, store=store, engine="here")
    assert not (store / "failed.json").exists() and len(cells.calls(tmp_path)) == 8 + 2 * 4 + 4
    assert read(store).identical(ds) and "finished" not in ds
    assert ds.attrs["digest"] == sweep(cells.product, GRID, engine="here").attrs["digest"]


def test_a_passing_failure_is_overcome_and_wrong_use_is_not_repeated(tmp_path: Path) -> None:
    ds = sweep(cells.fails_twice, GRID, fixed={"folder": str(tmp_path)}, engine="here")
    assert ds.attrs["missing_cells"] == 0
    with pytest.raises(UnfinishedError, match=r"tried once.*TypeError: never right.*lost, since no store was given\."):
        sweep(cells.is_used_wrongly, {"x": [1], "k": [0]}, fixed={"folder": str(tmp_path)}, engine="here")
    assert len(cells.calls(tmp_path)) == 1
    with pytest.raises(UnfinishedError, match="StrangeError: one"):
        sweep(cells.raises_strangely, {"x": [1], "k": [0]}, workers=1)


def test_a_plan_measures_and_writes_nothing(tmp_path: Path) -> None:
    fixed = {"wait": 0.1}
    store = tmp_path / "store"
    made = plan(cells.product, GRID, fixed=fixed, store=store, workers=2)
    assert (made.cells, made.batches, made.done_cells) == (12, 12, 0) and made.workers in (1, 2)
    assert 0.1 <= made.batch_seconds < made.first_seconds
    rounds = 12 / made.workers
    assert made.seconds == pytest.approx(rounds * made.batch_seconds + made.first_seconds - made.batch_seconds)
    assert made.fits and 0 < made.disk_bytes < 1e5 and made.worker_bytes > 1e7 and not store.exists()
    sweep(cells.product, GRID, fixed=fixed, store=store, workers=2)
    size = sum(file.stat().st_size for file in (store / "cells").iterdir())
    assert made.disk_bytes / 2 == pytest.approx(size, rel=0.02)
    assert plan(cells.product, GRID, fixed=fixed, store=store, engine="here").done_cells == 12
    assert "of which 12 are done" in plan(cells.product, GRID, fixed=fixed, store=store, engine="here").words()[0]


@pytest.mark.parametrize(
    ("result", "together", "text"),
    [
        ({}, False, "must hold at least one variable"),
        ({"y": object()}, False, "`y` of a cell must be real numbers, truth values or words"),
        ({"y": 1j}, False, "`y` of a cell must be real numbers"),
        ({"y": (("t", "s"), np.zeros(3))}, False, "the dims of `y` must be 1 names"),
        ({"y": (("t",), np.zeros(3)), "z": (("t",), np.zeros(4))}, False, "dimension `t` must have one size"),
        ({"y": np.zeros(3)}, True, "`y` must have the 2 cells of the batch as its first axis. Got shape (3,)"),
    ],
)  # fmt: skip
def test_results_that_cannot_be_kept(result: Any, together: bool, text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        gather(result, (0, 1) if together else (0,), together, ["x"])
    assert text in str(caught.value)


def test_names_of_the_grid_stay_its_own() -> None:
    part = gather({"x": 1.0, "y": (("x",), np.zeros(2))}, (0,), False, ["x"])
    assert set(part.variables) == {"x_of_cell", "y"} and part.variables["y"][0] == ("x_of_cell",)


def test_a_file_gives_back_every_kind_and_finds_every_flipped_bit() -> None:
    kinds = (np.float32, np.float64, np.int8, np.uint16, np.int64, bool)
    variables: dict[str, Any] = {np.dtype(k).name: (("t",), np.arange(6).reshape(2, 3).astype(k)) for k in kinds}
    variables["word"] = ((), np.array(["é", "long word"]))
    variables["nan"] = ((), np.array([np.nan, np.inf]))
    variables["none"] = (("empty",), np.zeros((2, 0)))
    part = Part((3, 5), variables, {"t": np.array([0.0, 0.1, 0.3])}, {"nan": {"says": "ü"}}, {"sweep": "s"})
    content = encode(part)
    again = decode(content, "it")
    assert again.cells == part.cells and again.attrs == part.attrs and again.note == part.note
    for name, (dims, array) in variables.items():
        assert again.variables[name][0] == dims and again.variables[name][1].dtype == array.dtype
        np.testing.assert_array_equal(again.variables[name][1], array)
    for at in [0, 10, 40, 85, *range(100, len(content), 97), len(content) - 1]:
        with pytest.raises(FileError, match="it is damaged"):
            decode(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :], "it")
        with pytest.raises(FileError, match="it is damaged"):
            decode(content[:at], "it")


def test_a_pool_that_is_not_ours_is_not_replaced(tmp_path: Path) -> None:
    import multiprocessing

    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        with pytest.raises(UnfinishedError, match="The given executor broke. .* cells are kept in"):
            sweep(
                cells.kills_its_worker_always, GRID, fixed={"folder": str(tmp_path)}, engine=pool, store=tmp_path / "s"
            )


def test_the_examples_of_the_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import re

    monkeypatch.chdir(tmp_path)
    page = (Path(__file__).parents[2] / "docs/sweeps.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.S)
    exec(compile(block, "docs/sweeps.md", "exec", dont_inherit=True), {"__name__": "example"})
