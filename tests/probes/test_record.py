"""Records on disk: written whole, read by other tools, taken up where the loop goes on, whatever happened to it."""

from __future__ import annotations

import copy
import json
import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from torch import nn

from richter import schema
from richter.errors import FileError, ParameterError
from richter.probes import record_file, watch
from richter.probes.probe import Snapshot
from richter.probes.rows import Row, scalars, tabulate
from richter.schema import Variable
from tests.probes.loops import Told, loop
from tests.probes.nets import mlp

ROOT = Path(__file__).parents[2]


def _data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(24, 4, generator=g).double(), torch.randn(24, 2, generator=g).double()


def _same(one: xr.Dataset, other: xr.Dataset) -> None:
    """Equal in everything but the seconds that passed."""
    passed = {"seconds_watching", "seconds_training", "overhead", "resumed"}
    plain = [ds.assign_attrs({k: 0 for k in passed}) for ds in (one, other)]
    xr.testing.assert_identical(*plain)


def test_a_file_is_the_dataset_and_any_tool_can_read_it(tmp_path: Path, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with watch(net, probe=(x, y), rate=0.05, budget=None, file=tmp_path / "run.nc") as see:
        loop(net, x, y, see, 20)
    _same(schema.load(tmp_path / "run.nc"), see.dataset())
    assert sorted(p.name for p in tmp_path.iterdir()) == ["run.nc", "run.origin.npz"]
    # Written again by the labelled library, it is still the same.
    _same(schema.load(schema.save(see.dataset(), tmp_path / "again.nc")), see.dataset())
    # And read without it.
    table = record_file.read_table(tmp_path / "run.nc")
    _same(table.dataset(), see.dataset())
    again = tabulate(
        table.rows(), [Variable(n, v.dims[1:], v.attrs["long_name"]) for n, v in table.variables.items()], {}, {}, {}
    )
    for name, variable in table.variables.items():
        np.testing.assert_array_equal(again.variables[name].values, variable.values)


@pytest.mark.parametrize("checkpoint", [0, 7, 16])
def test_a_run_that_was_interrupted_has_the_record_of_one_that_was_not(
    checkpoint: int, tmp_path: Path, seed: int
) -> None:
    x, y = _data(seed)
    options: dict[str, Any] = {"probe": (x, y), "rate": 0.05, "budget": None}
    whole = mlp(seed)
    with watch(whole, **options) as see:
        loop(whole, x, y, see, 30)
    expected = see.dataset()

    net, kept = mlp(seed), {}

    def save_and_break(step: int) -> None:
        if step == checkpoint:
            kept.update(copy.deepcopy(net.state_dict()))
        if step == 19:
            raise KeyboardInterrupt

    save_and_break(0)
    with pytest.raises(KeyboardInterrupt), watch(net, **options, file=tmp_path / "run.nc") as see:
        for step in range(30):
            loop(net, x, y, see, step + 1, first=step)
            save_and_break(step + 1)
    left = schema.load(tmp_path / "run.nc")
    assert left.attrs["ended"] == "KeyboardInterrupt: " and left.attrs["seen_up_to"] == 19 and int(left.step[-1]) < 19

    again = mlp(seed)
    again.load_state_dict(kept)
    with watch(again, **options, file=tmp_path / "run.nc") as see:
        loop(again, x, y, see, 30, first=checkpoint)
    made = schema.load(tmp_path / "run.nc")
    assert made.attrs["resumed"] == 1 and made.attrs["ended"] == "done"
    assert len(np.unique(made.step)) == made.sizes["step"]
    np.testing.assert_array_equal(made.step, expected.step)
    exact = checkpoint == 0 or checkpoint in expected.step  # else the gradients in between are interpolated
    for name, variable in expected.data_vars.items():
        if name in ("delta_predicted", "predicted_drift", "unexplained_drift") and not exact:
            np.testing.assert_allclose(made[name], variable, atol=2e-3)  # of drifts of 0.05
        else:
            np.testing.assert_allclose(made[name], variable, rtol=1e-12, atol=1e-14, err_msg=str(name))
    np.testing.assert_allclose(made.t, expected.t, rtol=1e-12)
    assert made.attrs["seconds_training"] > left.attrs["seconds_training"]


def test_the_first_step_decides_what_is_taken_again(tmp_path: Path, seed: int) -> None:
    net, (x, _) = mlp(seed), _data(seed)
    options: dict[str, Any] = {
        "probe": x,
        "measure": ["parameter_distance"],
        "budget": None,
        "moments": range(0, 99, 5),
    }
    with watch(net, **options, file=tmp_path / "run.nc") as see:
        for step in range(1, 41):
            with torch.no_grad():
                net[0].weight += 1
            see(step)
    assert see.dataset().step[-1] == 40
    see = watch(net, **options, file=tmp_path / "run.nc")
    with pytest.raises(ParameterError, match=r"`step` must be given when a record is taken up\. Got None\."):
        see()
    see(21)
    assert see.dataset().step.values.tolist() == [0, 5, 10, 15, 20]
    see(25)
    assert see.dataset().step.values.tolist() == [0, 5, 10, 15, 20, 25]
    # A trainer that knows its step says so at once.
    see = watch(net, **options, file=tmp_path / "run.nc", step=10)
    see()
    assert see.recorder.now == 11 and see.dataset().step.values.tolist() == [0, 5, 10]


def test_another_start_is_not_taken_for_the_same_run(tmp_path: Path, seed: int) -> None:
    (x, y), file = _data(seed), tmp_path / "run.nc"
    net = mlp(seed)
    with watch(net, probe=(x, y), file=file) as see:
        loop(net, x, y, see, 5)
    before = file.read_bytes()
    see = watch(mlp(seed + 1), probe=(x, y), file=file)
    with pytest.raises(
        ParameterError, match=r"must go on behind step 0, where its record begins\. Got step 1 of a model"
    ):
        see(1)
    for other, odd in (
        ({"model": mlp(seed, (4, 3, 2))}, "parameters"),
        ({"probe": (x + 1, y)}, "probe"),
        ({"measure": ["loss"]}, "probes"),
    ):
        with pytest.raises(
            ParameterError, match=rf"must be of the same run\. Got a record whose {odd} differs\. Use an"
        ):
            watch(**{"model": mlp(seed), "probe": (x, y), "file": file, **other})
    # The very same start begins again, and may be told to.
    fresh = mlp(seed)
    with watch(fresh, probe=(x, y), file=file) as see:
        loop(fresh, x, y, see, 2)
    assert see.dataset().step.values.tolist() == [0, 1, 2]
    watch(mlp(seed + 1), probe=(x, y), file=file, resume=False)
    assert schema.load(file).step.values.tolist() == [0] and file.read_bytes() != before


def test_an_exception_saves_what_was_seen_and_stays_the_loops_own(tmp_path: Path, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    with (
        pytest.raises(ZeroDivisionError, match="^broken$"),
        watch(net, probe=(x, y), file=tmp_path / "run.nc", budget=None, moments=[0, 2, 50]) as see,
    ):
        loop(net, x, y, see, 7)
        raise ZeroDivisionError("broken")
    ds = schema.load(tmp_path / "run.nc")
    assert ds.step.values.tolist() == [0, 2] and ds.attrs["ended"] == "ZeroDivisionError: broken"
    assert ds.attrs["seen_up_to"] == 7
    # A disk that is gone does not hide the loop's own error.
    with pytest.raises(ZeroDivisionError) as caught, watch(net, probe=x, file=tmp_path / "sub.nc") as see:
        see.recorder.record.path = tmp_path / "gone" / "run.nc"
        raise ZeroDivisionError
    assert "could not be saved" in caught.value.__notes__[0] and "gone" in caught.value.__notes__[0]
    with pytest.raises(FileError, match="could not be written"), watch(net, probe=x, file=tmp_path / "sub2.nc") as see:
        see.recorder.record.path = tmp_path / "gone" / "run.nc"


def test_an_interruption_in_the_middle_of_a_look_leaves_whole_rows(tmp_path: Path, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    calls: list[int] = []

    def breaks(model: nn.Module) -> float:
        calls.append(1)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return 1.0

    with (
        pytest.raises(KeyboardInterrupt),
        watch(net, probe=(x, y), measure=["loss", Told(breaks)], file=tmp_path / "run.nc", budget=None) as see,
    ):
        loop(net.train(), x, y, see, 9)
    assert net.training  # its mode is back
    ds = schema.load(tmp_path / "run.nc")
    assert ds.step.values.tolist() == [0, 1] and np.isfinite(ds.told).all()


KILLED = """
    import sys, torch
    from richter.probes import watch
    sys.path.insert(0, {root!r})
    from tests.probes.nets import mlp
    from tests.probes.loops import loop
    net = mlp(0)
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(24, 4, generator=g).double(), torch.randn(24, 2, generator=g).double()
    with watch(net, probe=(x, y), rate=0.05, file={file!r}, budget=None, moments=range(10**6), {more}) as see:
        for step in range(10**6):
            loop(net, x, y, see, step + 1, first=step)
            print(step + 1, flush=True)
"""


def test_a_killed_process_leaves_the_last_whole_file(tmp_path: Path) -> None:
    """Killed while it writes at every step: the file is whole, and the next process goes on."""
    file = tmp_path / "run.nc"
    code = textwrap.dedent(KILLED).format(root=str(ROOT), file=str(file), more='measure=["loss", "conserved"]')
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    for step in range(1, 8):
        line = process.stdout.readline()
        assert line.decode().strip() == str(step), process.stderr.read().decode()
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert process.returncode == -signal.SIGKILL
    ds = schema.load(file)
    steps = ds.step.values
    assert len(steps) >= 8 and (steps == np.arange(len(steps))).all() and np.isfinite(ds.loss).all()
    assert ds.attrs["ended"] == "not yet"
    net, (x, y) = mlp(0), _data(0)
    loop(net, x, y, None, 5)  # the state of a checkpoint after 5 steps
    options: dict[str, Any] = {"rate": 0.05, "budget": None, "moments": range(99), "measure": ["loss", "conserved"]}
    with watch(net, probe=(x, y), file=file, **options) as see:
        loop(net, x, y, see, 9, first=5)
    made = schema.load(file)
    assert made.step.values.tolist() == list(range(10)) and made.attrs["resumed"] == 1
    whole = mlp(0)
    with watch(whole, probe=(x, y), **options) as see:
        loop(whole, x, y, see, 9)
    xr.testing.assert_allclose(made, see.dataset(), rtol=1e-9, atol=1e-13)


def test_damaged_and_foreign_files_are_refused_in_one_line(tmp_path: Path, seed: int) -> None:
    net, (x, y) = mlp(seed), _data(seed)
    file = tmp_path / "run.nc"
    open_it = lambda: watch(net, probe=(x, y), file=file)
    open_it()
    whole, origin = file.read_bytes(), record_file.origin_path(file)
    kept = origin.read_bytes()
    file.write_bytes(whole[:2000])
    with pytest.raises(FileError, match=r"run\.nc is not a record that Richter can take up: .*pass resume=False"):
        open_it()
    file.write_bytes(b"precious")
    with pytest.raises(FileError, match="is not a record that Richter can take up"):
        open_it()
    assert file.read_bytes() == b"precious"
    schema.save(xr.Dataset({"a": ("step", [1.0])}, {"step": [0]}, {"schema": 1}), file)
    with pytest.raises(FileError, match=r"run\.nc must be the record of a run\. Got another file\."):
        open_it()
    file.write_bytes(whole)
    origin.write_bytes(kept[:-300])
    with pytest.raises(FileError, match=r"run\.origin\.npz must be the origin of the record\. Got .*resume=False"):
        open_it()
    origin.unlink()
    with pytest.raises(FileError, match=r"run\.origin\.npz must be the origin of the record\. Got .*No such file"):
        open_it()
    watch(mlp(seed + 1), probe=(x, y), file=tmp_path / "other.nc")
    os.replace(tmp_path / "other.origin.npz", origin)
    with pytest.raises(FileError, match=r"must be the origin of run\.nc\. Got that of another run\."):
        open_it()
    origin.write_bytes(kept)
    assert open_it().dataset().step.values.tolist() == [0]


def test_an_origin_holds_plain_arrays_only_and_is_known_by_its_sum(tmp_path: Path) -> None:
    path = tmp_path / "run.nc"
    arrays: dict[str, Any] = {
        "a.weight": np.arange(6.0, dtype=np.float32).reshape(2, 3),
        "bits": np.array([1, 255], np.uint8),
    }
    origin = {"one": Snapshot(arrays, {"kind": "full ζ"}, {"neuron_pair": ("neuron", np.array(["a → b"]))})}
    crc = record_file.write_origin({"model": "M"}, origin, path)
    facts, read = record_file.read_origin(path, crc)
    assert facts == {"model": "M"} and read["one"].notes == {"kind": "full ζ"}
    for name, value in arrays.items():
        np.testing.assert_array_equal(read["one"].arrays[name], value)
        assert read["one"].arrays[name].dtype == value.dtype
    assert read["one"].coords["neuron_pair"][1].tolist() == ["a → b"]
    origin["one"].arrays["bits"][0] += 1
    assert record_file.write_origin({"model": "M"}, origin, path) != crc
    with pytest.raises(FileError, match="Got that of another run"):
        record_file.read_origin(path, crc)
    with np.load(record_file.origin_path(path), allow_pickle=False) as file:
        assert json.loads(str(file["index"]))["schema"] == 1
    np.savez(record_file.origin_path(path), index=np.array({"a": object()}, dtype=object))
    with pytest.raises(FileError, match="must be the origin of the record"):
        record_file.read_origin(path, crc)


def test_rows_of_different_names_are_joined_and_shapes_must_stay() -> None:
    variables = (Variable("a", ("layer",), "a"), Variable("b", ("layer",), "b"), Variable("c", ("mode",), "c"))
    rows = [Row(0, 0.0, {"a": {"x": 1.0}, "c": np.ones(2)}), Row(1, 0.5, {"b": {"y": 2.0, "x": 3.0}})]
    made = tabulate(rows, variables, {"a": {"note": "n"}}, {}, {"schema": 1}).dataset()
    assert made.layer.values.tolist() == ["x", "y"] and made.a.attrs["note"] == "n"
    np.testing.assert_array_equal(made.a, [[1, np.nan], [np.nan, np.nan]])
    np.testing.assert_array_equal(made.b, [[np.nan, np.nan], [3, 2]])
    np.testing.assert_array_equal(made.c, [[1, 1], [np.nan, np.nan]])
    rows[1].readings["c"] = np.ones(3)
    with pytest.raises(ParameterError, match=r"`c` must keep its shape, \(2,\)\. Got \(3,\)\."):
        tabulate(rows, variables, {}, {}, {})
    assert scalars(rows[1]) == {"b/y": 2.0, "b/x": 3.0}
    assert scalars(Row(0, 0, {"a": float("nan"), "b": {"x": float("inf"), "y": 1.0}})) == {"b/y": 1.0}
