"""What is installed and present on this machine."""

from __future__ import annotations

import os
import platform
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from richter import __version__

CORE = ("numpy", "scipy", "xarray", "h5netcdf", "h5py", "array-api-compat", "typer", "rich")
EXTRAS = {"torch": ("torch", "safetensors"), "sim": ("jax",), "plot": ("matplotlib", "plotly")}
DATA = {"MNIST": "mnist", "Fashion-MNIST": "fashion-mnist", "CIFAR-10": "cifar-10-batches-bin"}


def data_folder() -> Path:
    """Where data sets are looked for: `$RICHTER_DATA`, else the platform's cache folder."""
    given = os.environ.get("RICHTER_DATA")
    if given:
        return Path(given)
    if sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    elif sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA", Path.home() / "AppData" / "Local"))
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return cache / "richter" / "datasets"


def examine() -> dict[str, object]:
    """Versions, extras, threads and data sets, as plain data.

    >>> sorted(examine())
    ['data', 'extras', 'libraries', 'machine', 'schema']
    """
    folder = data_folder()
    extras = {}
    for extra, packages in EXTRAS.items():
        found = {name: _version(name) for name in packages}
        missing = [name for name, number in found.items() if number is None]
        have = ", ".join(f"{name} {number}" for name, number in found.items() if number)
        extras[extra] = have if not missing else f'missing {", ".join(missing)}: pip install "richter[{extra}]"'
    sets = {name: "present" if (folder / place).is_dir() else "absent" for name, place in DATA.items()}
    return {
        "libraries": {"richter": __version__, **{name: _version(name) or "missing" for name in CORE}},
        "extras": extras,
        "machine": {
            "python": platform.python_version(),
            "system": f"{platform.system()} {platform.machine()}",
            "cores": os.cpu_count(),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", "not set"),
        },
        "data": {"folder": str(folder), **sets},
        "schema": 1,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
