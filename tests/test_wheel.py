"""The wheel, installed alone in a fresh environment without extras, does its main job."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    (made,) = folder.glob("*.whl")
    return made


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "richter/py.typed" in names and "richter/theory/single_neuron.py" in names
    assert all(name.startswith(("richter/", "richter-")) for name in names)


def test_a_clean_environment_without_extras_lists_and_solves(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    python = tmp_path / "env" / ("Scripts" if os.name == "nt" else "bin") / "python"
    quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    install = subprocess.run(
        [python, *quiet, "--constraint", str(ROOT / "constraints.txt"), str(wheel)], capture_output=True, text=True
    )
    if install.returncode and "No matching distribution" in install.stderr:
        pytest.skip("no package index can be reached")
    assert install.returncode == 0, install.stderr[-2000:]

    def richter(*args: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run([python, "-m", "richter", *args], capture_output=True, text=True, cwd=tmp_path)

    assert "single-neuron" in richter("list").stdout
    neuron = ["single-neuron", "--set", "a0=1", "--set", "w0=[-1,0]", "--set", "beta_star=[0,1]"]
    solved = json.loads(richter("solve", *neuron, "--times", "0,inf", "--json").stdout)
    assert solved["variables"]["phi"]["data"] == [0.0, 1.0]
    assert richter("solve", *neuron, "--out", "run.nc").returncode == 0 and (tmp_path / "run.nc").exists()
    drawn = richter("solve", *neuron, "--plot", "x.png")
    assert drawn.returncode == 3 and 'pip install "richter[plot]"' in drawn.stderr
    assert drawn.stderr.count("\n") == 1 and not (tmp_path / "x.png").exists()
