"""What is installed and present on this machine."""

from __future__ import annotations

import os
import platform
from importlib.metadata import PackageNotFoundError, version

from richter import __version__
from richter.tasks.sets import SETS, data_folder

CORE = ("numpy", "scipy", "xarray", "h5netcdf", "h5py", "array-api-compat", "typer", "rich")
EXTRAS = {"torch": ("torch", "safetensors"), "sim": ("jax",), "plot": ("matplotlib", "plotly"), "data": ("pooch",)}


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
    sets = {each.title: each.state(folder) for each in SETS.values()}
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
