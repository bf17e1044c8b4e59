"""sweep, report, run --all and new from the shell."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from richter import catalog
from richter.cli import main
from richter.schema import load
from richter.sweep import engine_of
from tests.report.toys import Broken, Negative, Resumable, Squares

TOY = "tests.report.toys:Squares"
FUNCTION = "tests.sweep.cells:product"


def run(capsys: pytest.CaptureFixture[str], *args: str) -> tuple[int, str, str]:
    code = main(list(args))
    out, err = capsys.readouterr()
    return code, out, err


def test_a_sweep_of_settings_says_what_was_found(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    store = str(tmp_path / "store")
    base = ["sweep", TOY, "--preset", "smoke", "--grid", "n=2,3,4", "--set", 'words=["q"]', "--engine", "here"]
    code, out, _ = run(capsys, *base, "--out", store, "--dry-run", "--json")
    planned = json.loads(out)
    assert code == 0 and planned["cells"] == 3 and planned["fits"] and not Path(store).exists()
    assert run(capsys, *base, "--out", store, "--dry-run")[1].startswith("cells   3 in 3 batches\ntime ")
    code, out, err = run(capsys, *base, "--out", store, "--json")
    made = json.loads(out)
    assert code == 0 and not err and made["findings"]["sums"] == {"holds": 1, "fails": 2}
    assert made["dims"] == {"n": 3, "x": 4} and load(made["file"]).attrs["digest"] == made["digest"]
    code, _, err = run(capsys, *base, "--out", store)
    assert code == 2 and "must be a folder without a sweep" in err and "Say --resume to continue it." in err
    code, out, _ = run(capsys, *base, "--out", store, "--resume")
    assert code == 0 and "sums: holds in 1, fails in 2" in out and "3 cells" in out
    code, _, err = run(capsys, *base[:4], "--grid", "n=2,3", "--engine", "here", "--out", store, "--resume")
    assert code == 2 and "holds another sweep" in err and err.count("\n") == 1


def test_a_sweep_of_a_function(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    grid = ["--grid", "x=1:4:3", "--grid", "k=0..1", "--engine", "here", "--set", "wait=0", "--json"]
    code, out, _ = run(capsys, "sweep", FUNCTION, *grid, "--out", str(tmp_path / "a"))
    one = json.loads(out)
    assert code == 0 and one["variables"] == ["trace", "rows", "word", "even"] and one["findings"] == {}
    together = "tests.sweep.cells:products"
    code, out, _ = run(capsys, "sweep", together, *grid, "--batch", "4", "--out", str(tmp_path / "b"))
    assert code == 0 and json.loads(out)["cells"] == 6
    fixed = ["--set", f"folder={tmp_path}", "--engine", "here", "--out", str(tmp_path / "c")]
    wrong = ["--grid", "x=1,2", "--grid", "k=0", "--attempts", "1"]
    code, out, err = run(capsys, "sweep", "tests.sweep.cells:fails_at_two", *wrong, *fixed)
    assert code == 3 and not out and "1 of 2 cells failed" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("args", "text"),
    [
        (["sweep", TOY, "--grid", "m=1"], "kun24-squares has no setting `m`"),
        (["sweep", TOY, "--grid", "n=1"], "`n` of kun24-squares must be ≥ 2"),
        (["sweep", TOY, "--grid", "n"], "`--grid` must be name=v1,v2,…"),
        (["sweep", TOY, "--grid", "n=2", "--batch", "3"], "must have neither --batch nor --seed. Got --batch"),
        (["sweep", "kun24-hyperbolid", "--grid", "n=2"], "Did you mean kun24-hyperboloid?"),
        (["sweep", "absent:f", "--grid", "n=2"], "No module `absent`"),
        (["sweep", TOY, "--grid", "n=2", "--engine", "sge"], "the engine must be process, here, dask"),
        (["sweep", TOY], "Missing option '--grid'"),
        (["run"], "`richter run` must name one experiment or say --all. Got neither."),
        (["run", TOY, "--all"], "must name one experiment or say --all"),
        (["run", "--all", "--set", "n=3"], "`richter run --all` must take every experiment as its preset says"),
        (["run", TOY, "--store", "parts"], "`--store` must be left out with tests.report.toys:Squares, which keeps no"),
        (["new", "kun24-shapes"], "the name of a new experiment must be free. Got kun24-shapes."),
        (["new", "Name"], "the name of an experiment must be lower-case words with hyphens"),
        (["report", "--from", "absent"], "`--from` must be a folder of runs"),
    ],
)
def test_wrong_use_is_one_clear_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], text: str
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, err = run(capsys, *args)
    assert code == 2 and not out and text in err and err.count("\n") == 1


@pytest.mark.parametrize("verb", ["run", "figure"])
def test_a_file_that_cannot_be_written_is_refused_before_the_work(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, verb: str
) -> None:
    def work(self: Squares, *given: object, **named: object) -> None:
        raise AssertionError("it ran")

    monkeypatch.setattr(Squares, "execute", work)
    for name in ("nowhere/x.nc" if verb == "run" else "nowhere/x.png", "x.jpg"):
        code, out, err = run(capsys, verb, TOY, "--out", name)
        assert code == 2 and not out and "must" in err and err.count("\n") == 1


@pytest.mark.parametrize(
    ("store", "words"),
    [([], "richter: stopped\n"),
     (["--store", "parts"], "richter: stopped; the same command goes on from what is kept\n")],
)  # fmt: skip
def test_an_interrupt_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, store: list[str], words: str
) -> None:
    def stop(self: Resumable, *given: object, **named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Resumable, "execute", stop)
    assert run(capsys, "run", "tests.report.toys:Resumable", *store) == (130, "", words)


def test_run_keeps_parts_and_writes_a_summary(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    name = "tests.report.toys:Resumable"
    args = ["run", name, "--set", f"folder={tmp_path}", "--set", "n=4", "--out", str(tmp_path / "r.nc")]
    args += ["--store", str(tmp_path / "parts"), "--summary", str(tmp_path / "results"), "--json"]
    assert run(capsys, *args)[0] == 3 and not (tmp_path / "r.nc").exists()
    (tmp_path / "mended").touch()
    code, out, _ = run(capsys, *args)
    assert code == 1 and json.loads(out)["file"] == str(tmp_path / "r.nc")  # sums fails
    assert json.loads((tmp_path / "results" / "kun24-resumable.json").read_text())["resumed"] is True
    assert Resumable.restore(load(tmp_path / "r.nc")).n == 4


def test_run_all_ends_with_a_table_and_the_right_code(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In this process, since workers see the whole catalog.
    monkeypatch.setattr("richter.report.runs.engine_of", lambda engine, workers: engine_of("here"))
    folder = str(tmp_path / "runs")
    for kinds, code in (([Squares], 0), ([Squares, Negative], 1), ([Squares, Negative, Broken], 3)):
        known = {kind.name: kind for kind in kinds}
        monkeypatch.setattr(catalog, "experiments", lambda known=known: known)
        assert run(capsys, "run", "--all", "--preset", "smoke", "--out", folder)[0] == code
    code, out, _ = run(capsys, "run", "--all", "--preset", "smoke", "--out", folder, "--resume")
    assert code == 3 and "could not run: ArithmeticError: it broke" in " ".join(out.split())
    assert "3 experiments at smoke" in out and "richter report --from" in out
    code, out, _ = run(capsys, "run", "--all", "--preset", "smoke", "--out", folder, "--summary", folder, "--json")
    made = {row["experiment"]: row for row in json.loads(out)["experiments"]}
    assert made["kun24-negative"]["unexpected"] == ["positive"] and made["kun24-squares"]["unexpected"] == []
    assert made["kun24-broken"]["problem"] and made["kun24-broken"]["claims"] == []
    assert (tmp_path / "runs" / "kun24-squares.json").exists()
    code, out, _ = run(capsys, "report", "--from", folder, "--out", str(tmp_path / "pages"))
    assert code == 0 and str(tmp_path / "pages" / "index.html") in out


def test_new_says_how_to_go_on(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, _ = run(capsys, "new", "kun24-cli-idea")
    assert code == 0 and 'kun24-cli-idea = "kun24_cli_idea:CliIdea"' in out
    assert "richter run kun24_cli_idea:CliIdea --preset smoke" in out
    assert run(capsys, "run", "kun24_cli_idea:CliIdea", "--preset", "smoke")[0] == 0
    assert (tmp_path / "kun24-cli-idea.nc").exists()
