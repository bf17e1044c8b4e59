"""Files and plain data: what goes out comes back, whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from richter.errors import FileError
from richter.schema import from_plain, load, save, to_plain
from richter.theory import SingleNeuron, WideScalar


def _member() -> SingleNeuron:
    return SingleNeuron(a0=[0.0, 1.0], w0=[0.0, 0.0], beta_star=[0.0, 1.0])


def test_netcdf_round_trip(tmp_path: Path) -> None:
    ds = _member().solve([0.0, 1.0, np.inf])
    back = load(save(ds, tmp_path / "run.nc"))
    xr.testing.assert_identical(back, ds)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.nc"]


def test_json_round_trip_keeps_every_bit() -> None:
    theory = WideScalar(u0=[1.0, -0.3], w0=[[-1.0], [0.3]], x=[1.0], y=1 / 3)
    arrays = theory.arrays([0.0, 0.1, np.inf])
    text = json.dumps(to_plain(theory.name, theory.params, arrays), allow_nan=False)
    back = from_plain(json.loads(text))
    for name, (dims, value) in arrays.items():
        assert back[name].dims == dims
        np.testing.assert_array_equal(back[name].values, value)


def test_json_writes_undefined_as_null_and_infinite_as_inf() -> None:
    theory = WideScalar(u0=[1.0], w0=[[-1.0]], x=[1.0], y=1.0)
    plain = json.loads(json.dumps(to_plain(theory.name, theory.params, theory.arrays([np.inf]))))
    assert plain["variables"]["growth"]["data"] == ["inf"]
    assert plain["variables"]["t"] == {"dims": ["t"], "data": ["inf"]}
    assert plain["variables"]["alignment"]["data"] == [None]
    assert plain["dims"] == {"t": 1, "neuron": 1, "input": 1} and plain["schema"] == 1
    assert plain["params"]["gamma"] == 1.0


def test_a_failed_write_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ds = _member().solve([0.0])
    (tmp_path / "run.nc").write_text("precious")

    def fail(_: int) -> None:
        raise OSError("disk full")

    monkeypatch.setattr("os.fsync", fail)
    with pytest.raises(FileError, match="could not be written: disk full"):
        save(ds, tmp_path / "run.nc")
    assert [path.name for path in tmp_path.iterdir()] == ["run.nc"]
    assert (tmp_path / "run.nc").read_text() == "precious"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("run.txt", "must end in .nc"),
        ("nowhere/run.nc", "the folder of the file must exist"),
        ("folder.nc", "folder.nc must be a file. Got a folder."),
    ],
)
def test_wrong_places_are_refused(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / "folder.nc").mkdir()
    with pytest.raises(FileError, match=text):
        save(_member().solve([0.0]), tmp_path / name)


def test_what_is_not_a_result_is_refused(tmp_path: Path) -> None:
    (tmp_path / "x.nc").write_bytes(b"not a file of ours")
    with pytest.raises(FileError, match="is not a result that Richter can read"):
        load(tmp_path / "x.nc")
    with pytest.raises(FileError, match=r"There is no file .*absent\.nc\."):
        load(tmp_path / "absent.nc")
    other = xr.Dataset({"x": ("t", [1.0])})
    other.to_netcdf(tmp_path / "y.nc", engine="h5netcdf")
    with pytest.raises(FileError, match="the schema of .* must be 1. Got none."):
        load(tmp_path / "y.nc")
