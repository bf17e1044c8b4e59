"""The verbs `scaling` and `emergence`."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from richter.cli import main
from richter.maths.emergence import emergence_in_time
from richter.theory import emergence, scaling


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_scaling_prints_tables_and_json(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys, "scaling", "--alpha", "0.3", "--alpha", "0.6", "--values", "1e3:1e6:4")
    assert code == 0 and not err and "α = 0.3" in out and "exponent -0.375" in out and "The law holds when" in out
    code, out, _ = run(capsys, "scaling", "--over", "data", "--values", "1e3,1e4,1e5", "--json")
    made = json.loads(out)
    expected = scaling("data", [1e3, 1e4, 1e5])
    assert code == 0 and made["model"] == "scaling" and made["dims"] == {"data": 3, "alpha": 1}
    np.testing.assert_array_equal(made["variables"]["loss"]["data"], expected.loss.values)
    assert made["params"]["n_s"] == "inf" and made["params"]["over"] == "data"
    code, out, _ = run(capsys, "scaling", "--table", "--json")
    rows = {row["bottleneck"]: row for row in json.loads(out)["table"]}
    assert list(rows) == ["time", "data", "parameters", "compute"]
    assert all(abs(row["exponent"] - row["fitted"]) < 2e-3 for row in rows.values())
    assert "parameters" in run(capsys, "scaling", "--table")[1]
    assert all(0 <= row["plus_minus"] < 2e-3 for row in rows.values())
    out = run(capsys, "scaling", "--values", "1,10,1e4,1e5")[1]
    assert out.count(" no ") == 2 and out.count(" yes ") == 2 and "“yes”: within 0.0001 of" in out
    assert "best N" in run(capsys, "scaling", "--over", "compute", "--values", "1e6:1e9:3")[1]


def test_emergence_calibrates_and_predicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, out, _ = run(capsys, "emergence")
    assert code == 0 and "rate multiplier ℬ = 0.04545" in out and out.count("half learned") == 5
    assert out.count("done before the next one") == 1 and out.count("overlapping the next one") == 3
    t = np.linspace(0, 1500, 40)
    file = tmp_path / "first.json"
    noise = 0.02 * np.cos(5 * np.arange(40))
    file.write_text(
        json.dumps({"x": t.tolist(), "strength": (emergence_in_time(t, 1, 5, 1e-3, 0.05, 0.04) + noise).tolist()})
    )
    code, out, _ = run(capsys, "emergence", "--measured", str(file), "--skills", "3")
    assert code == 0 and "0.04" in out and " to " in out and "misfit 0.00" in out and out.count("half learned") == 3
    code, out, _ = run(capsys, "emergence", "--over", "parameters", "--number", "3", "--json")
    made = json.loads(out)
    assert code == 0 and made["params"]["value"] == 3
    np.testing.assert_array_equal(made["variables"]["half"]["data"], emergence("parameters", calibration=3).half.values)


def test_both_draw(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    for args in (["scaling", "--over", "compute", "--values", "1e6:1e9:4"], ["emergence", "--over", "data"]):
        target = tmp_path / f"{args[0]}.svg"
        code, out, err = run(capsys, *args, "--plot", str(target))
        assert code == 0 and not out and "wrote" in err and target.stat().st_size > 1000


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["scaling", "--over", "memory"], "`over` must be one of time, data, parameters, compute. Got memory."),
        (["scaling", "--values", "1e3:x:4"], "`--values` must be like 1e3,1e4,1e5 or 1e3:1e8:11"),
        (["scaling", "--values", "0:1:4"], "`--values` must be like 1e3,1e4,1e5 or 1e3:1e8:11"),
        (["scaling", "--alpha", "0"], "`alpha` must be > 0"),
        (["emergence", "--measured", "absent.json"], "The parameter file absent.json cannot be read"),
        (["emergence", "--over", "memory"], "`over` must be one of time, data, parameters. Got memory."),
        (["emergence", "--number", "3", "--measured", "x.json"], "`--number` and `--measured` must not come together"),
        (["scaling", "--target", "inf"], "`target` must be > 0 and finite. Got inf."),
        (["emergence", "--skills", "0"], "See: richter emergence --help"),
    ],
)
def test_wrong_input_is_one_line(capsys: pytest.CaptureFixture[str], args: list[str], text: str) -> None:
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


def test_measured_files_that_miss_something(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "m.json"
    file.write_text('{"x": [1, 2, 3]}')
    code, _, err = run(capsys, "emergence", "--measured", str(file))
    assert code == 2 and "must be given `strength`" in err and err.count("\n") == 1
