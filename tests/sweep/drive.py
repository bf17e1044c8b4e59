"""A driver to be killed: `python -m tests.sweep.drive STORE FOLDER WAIT [LIMIT]` sweeps 24 cells on two workers."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

from richter.errors import RichterError
from richter.sweep import sweep
from tests.sweep import cells

GRID = {"x": [1.0, 2.0, 3.5], "k": range(8)}


def main() -> int:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job inherits deaf ears
    store, folder, wait = sys.argv[1:4]
    if len(sys.argv) > 4:
        import resource

        resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[4]), resource.RLIM_INFINITY))
    try:
        ds = sweep(cells.product, GRID, fixed={"folder": folder, "wait": float(wait)}, store=store, workers=2)
    except RichterError as problem:
        print(problem)
        return problem.exit_code
    Path(folder, "digest").write_text(ds.attrs["digest"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
