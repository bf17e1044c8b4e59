"""Runs of many experiments, their summaries, the ledger and the pages."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from richter import catalog
from richter.errors import FileError, ParameterError, UnfinishedError, UnknownNameError
from richter.report import page as blocks
from richter.report.build import build_report
from richter.report.experiment import commands, python
from richter.report.ledger import FINDINGS, UNCHECKED, entry, ledger, markdown, total
from richter.report.runs import Outcome, run_all
from richter.report.summary import read_summaries, summarise, write_summary
from richter.schema import load
from tests.report import toys
from tests.report.toys import EVIL, Negative, Resumable, Squares
from tests.test_tour import Reader

ROOT = Path(__file__).parents[2]
AT = "tests.report.toys:"


def summary_of(preset: str = "smoke", **changes: Any) -> dict[str, Any]:
    experiment = Squares.preset(preset, **changes)
    ds = experiment.execute()
    return summarise(experiment, ds, experiment.check(ds))


def test_all_run_past_a_failure_and_past_a_killed_worker(tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    names = [AT + name for name in ("Squares", "Broken", "Killer", "Negative")]
    made = run_all(names, "smoke", tmp_path, workers=2, progress=lambda what, share: told.append((what, share)))
    assert [each.name for each in made] == names
    squares, broken, killer, negative = made
    assert squares.file == tmp_path / "kun24-squares.nc" and load(squares.file).attrs["experiment"] == "kun24-squares"
    assert squares.failed == [] and negative.failed == ["positive"]  # that sums fails is known
    assert broken.problem == "ArithmeticError: it broke" and broken.summary is None and broken.file is None
    assert "its worker process died" in killer.problem
    assert sorted(path.name for path in tmp_path.glob("*.nc")) == ["kun24-negative.nc", "kun24-squares.nc"]
    assert told[0] == ("Starting", 0.0) and told[-1][0].startswith("tests.report.toys:")
    assert "of 4 experiments" in told[-1][0]


def test_runs_that_are_there_are_kept_only_if_they_are_the_same(tmp_path: Path) -> None:
    once = lambda preset, again: run_all([AT + "Squares"], preset, tmp_path, again=again, engine="here")[0]
    first = once("smoke", True)
    before = (tmp_path / "kun24-squares.nc").stat().st_mtime_ns
    assert once("smoke", False) == first and (tmp_path / "kun24-squares.nc").stat().st_mtime_ns == before
    other = once("laptop", False)
    assert other.summary and other.summary["preset"] == "laptop"
    (tmp_path / "kun24-squares.nc").write_bytes(b"damaged")
    assert once("laptop", False).summary
    with pytest.raises(UnknownNameError, match="No experiment named `kun24-square`"):
        run_all(["kun24-square"], "smoke", tmp_path, engine="here")
    with pytest.raises(ParameterError, match="the preset must be one of"):
        run_all([AT + "Squares"], "tiny", tmp_path, engine="here")


def test_a_resumable_run_continues_and_says_so(tmp_path: Path) -> None:
    experiment = Resumable(n=4, folder=str(tmp_path))
    assert Resumable.resumable() and not Squares.resumable()
    with pytest.raises(UnfinishedError, match="1 of 4 cells failed"):
        experiment.execute(store=tmp_path / "parts")
    (tmp_path / "mended").touch()
    ds = experiment.execute(store=tmp_path / "parts")
    assert ds.y.values.tolist() == [0, 1, 4, 9] and ds.attrs["resumed"] == 1
    calls = (tmp_path / "calls").read_text().split()
    assert [calls.count(x) for x in ("0.0", "1.0", "2.0", "3.0")] == [1, 1, 4, 1]
    assert "resumed" not in Resumable(n=4).execute(store=tmp_path / "other").attrs
    assert Squares(n=3).execute(store=tmp_path / "unused").attrs["experiment"] == "kun24-squares"
    assert not (tmp_path / "unused").exists()
    (made,) = run_all([AT + "Resumable"], "smoke", tmp_path / "runs", engine="here")
    assert made.summary and not (tmp_path / "runs" / "parts" / "kun24-resumable-smoke").exists()


def test_a_summary_is_written_and_read(tmp_path: Path) -> None:
    made = summary_of()
    assert made["preset"] == "smoke" and made["settings"] == {"n": 3, "words": ("a", "b")}
    assert [row["finding"] for row in made["claims"]] == ["holds", "fails", "undecided"]
    path = write_summary(made, tmp_path / "results")
    assert read_summaries(tmp_path / "results") == {"kun24-squares": json.loads(json.dumps(made))}
    assert summary_of(n=4)["preset"] == "" and read_summaries(tmp_path / "absent") == {}
    for bad, text in (("{", "is not a summary"), ("{}", "must be a summary of kun24-squares. Got without experiment")):
        path.write_text(bad)
        with pytest.raises(FileError, match=text):
            read_summaries(tmp_path / "results")
    (tmp_path / "results" / "kun24-other.json").write_text(json.dumps(made))
    path.unlink()
    with pytest.raises(FileError, match="must be a summary of kun24-other. Got of kun24-squares"):
        read_summaries(tmp_path / "results")


def test_the_ledger_claims_nothing_at_a_scale_that_was_not_run() -> None:
    made = json.loads(json.dumps(summary_of()))
    judged = entry(Squares, made)
    assert [row.finding for row in judged.rows] == ["holds", "fails", "undecided"] and judged.preset == "smoke"
    assert {row.scale for row in judged.rows} == {"3 numbers"} and judged.rows[1].known == "the sum is larger"
    changed = {**made, "settings": {**made["settings"], "n": 4}}
    assert entry(Squares, changed).preset == "other settings"
    reworded = {**made, "claims": [{**row, "says": row["says"] + "!"} for row in made["claims"]]}
    assert {row.finding for row in entry(Squares, reworded).rows} == {UNCHECKED}
    fewer = {**made, "claims": made["claims"][1:]}
    assert [row.finding for row in entry(Squares, fewer).rows] == [UNCHECKED, "fails", "undecided"]
    both = ledger([Squares, Negative], {"kun24-squares": made})
    assert [each.name for each in both] == ["kun24-negative", "kun24-squares"]
    assert total(both) == "6 claims: 1 holds, 1 fails, 1 undecided, 3 not checked"
    text = markdown(both)
    assert "| [A toy](#kun24-negative) |  |  |  |  |  | 3 |" in text and "Not run." in text
    assert "**fails** | they sum to one (KUN24 Sec. 3, XU24 Sec. 4) *Known: the sum is larger*" in text
    assert "\\| a\\*b" in text and "(none)" in text  # nothing breaks the table; the uncertainty is there
    rows = [line for line in text.splitlines() if line.startswith("| **")]
    assert len(rows) == 6 and all(line.replace("\\|", "").count("|") == 6 for line in rows)


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("report")
    names = [AT + name for name in ("Squares", "Negative")]
    run_all(names, "smoke", folder / "runs", engine="here")
    build_report([*names, AT + "Broken"], folder, runs=folder / "runs", summaries=folder / "summaries")
    return folder


def parsed(path: Path) -> Reader:
    reader = Reader()
    reader.feed(path.read_text())
    assert reader.open == []
    return reader


def test_the_pages_are_whole_escape_everything_and_load_nothing(report: Path) -> None:
    assert sorted(path.name for path in report.glob("*.html")) == [
        "index.html", "kun24-negative.html", "kun24-squares.html",
    ]  # fmt: skip
    assert sorted(path.stem for path in (report / "summaries").iterdir()) == ["kun24-negative", "kun24-squares"]
    for path in report.glob("*.html"):
        reader = parsed(path)
        ids = [attrs["id"] for _, attrs in reader.tags if "id" in attrs]
        assert len(ids) == len(set(ids)) and "<b>" not in path.read_text()
        for tag, attrs in reader.tags:
            assert tag not in ("script", "link", "iframe", "object", "form", "b")
            for name in ("src", "srcset"):
                assert attrs.get(name, "data:").startswith("data:")
            if tag == "a" and not attrs["href"].startswith("https://"):
                target, _, anchor = attrs["href"].partition("#")
                assert (report / target).exists() and (not anchor or anchor in ids)
            if tag == "img":
                assert len(attrs["alt"]) > 20
        assert str(report) not in path.read_text()


def test_the_index_counts_every_claim(report: Path) -> None:
    reader = parsed(report / "index.html")
    head, *rows = reader.tables[0]
    assert head == ["experiment", "run at", "took", *FINDINGS]
    counts = [row[3:] for row in rows]
    assert counts == [["1", "1", "1", ""], ["", "2", "1", ""], ["", "", "", "3"]]
    assert [row[1] for row in rows] == ["smoke", "smoke", "not run"]
    text = "".join(reader.words)
    assert "9 claims: 1 holds, 3 fail, 2 undecided, 3 not checked." in text and EVIL in text
    assert "Known: the sum is larger" in text and "It was not run." in text


def test_an_experiments_page_says_everything(report: Path) -> None:
    reader = parsed(report / "kun24-squares.html")
    text = "".join(reader.words)
    for needed in ("run at smoke", "smallest 0 (none)", "3 numbers", "KUN24: Kunin", "Used: Sec. 3", "Used: Sec. 4"):
        assert needed in text
    (claims,) = [rows for rows in reader.tables if rows[0][0] == "finding"]
    assert [row[0] for row in claims[1:]] == ["holds", "fails", "undecided"]
    (settings,) = [rows for rows in reader.tables if rows[0][0] == "setting"]
    assert settings[1:] == [["n (n)", "3", "numbers"], ["words", "a, b", "words"]]


def test_the_printed_lines_give_the_same_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from richter.cli import main

    monkeypatch.setattr(catalog, "experiments", lambda: {"kun24-squares": Squares})
    monkeypatch.chdir(tmp_path)
    for experiment in (Squares.preset("smoke"), Squares(n=7, words=("it's", "b"))):
        lines = commands(experiment).splitlines()
        assert len(lines) == 3
        import shlex

        for line, code in zip(lines, (1, 1, 0), strict=True):  # one of its claims fails
            assert main(shlex.split(line)[1:]) == code
        assert Squares.restore(load("kun24-squares.nc")) == experiment
        names: dict[str, Any] = {}
        exec(python(experiment), names)
        assert names["experiment"] == experiment
        assert (tmp_path / "kun24-squares.png").exists()


def test_a_report_can_run_what_it_shows(tmp_path: Path) -> None:
    shares: list[float] = []
    names, page = [AT + "Squares", AT + "Broken"], tmp_path / "made" / "index.html"
    with pytest.raises(UnfinishedError, match="kun24-broken has no page: ArithmeticError: it broke. The rest is at"):
        build_report(names, tmp_path / "made", workers=1, progress=lambda what, share: shares.append(share))
    assert shares == sorted(shares) and shares[-1] == 1.0 and page.with_name("kun24-squares.html").exists()
    assert "There is no run to judge: ArithmeticError: it broke" in page.read_text()
    assert build_report(names, tmp_path / "again", runs=tmp_path / "made" / "runs") == tmp_path / "again" / "index.html"
    (tmp_path / "made" / "runs" / "kun24-broken.nc").write_bytes(b"damaged")
    with pytest.raises(UnfinishedError, match="kun24-broken has no page: FileError: .* is not a result"):
        build_report(names, tmp_path / "once", runs=tmp_path / "made" / "runs")
    assert "is not a result" in (tmp_path / "once" / "index.html").read_text()
    assert (tmp_path / "once" / "kun24-squares.html").exists()
    with pytest.raises(ParameterError, match="`--from` must be a folder of runs"):
        build_report(None, tmp_path / "made", runs=tmp_path / "absent")
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="the folder of the report must be a folder that can be made"):
        build_report(None, tmp_path / "file")


def test_a_cloud_of_points_is_drawn_as_pixels_of_the_right_size(monkeypatch: pytest.MonkeyPatch) -> None:
    experiment = Squares.preset("smoke")
    figure = experiment.figure(experiment.execute())
    vectors = blocks.picture(figure, "alt")
    monkeypatch.setattr(blocks, "LARGE", 10)
    pixels = blocks.picture(figure, "alt")
    assert "image/svg" in vectors and "image/svg" not in pixels and pixels.count("image/png") == 4
    wide = re.findall(r'<img src="data:image/svg\+xml;base64,([^"]*)"', vectors)[0]
    points = float(re.findall(r'width="([\d.]+)pt"', base64.b64decode(wide).decode())[0])
    width = int(re.findall(r'<img src="[^"]*" width="(\d+)"', pixels)[0])
    assert width == pytest.approx(points * 96 / 72, rel=0.01)


def test_addresses_that_leave_the_folder_are_no_links() -> None:
    made = blocks.links([("x.html", "a"), ("#here", "b"), ("javascript:alert(1)", "c"), ("../x.html", "d"), ("", "e")])
    assert made.count("<a ") == 2 and "javascript" not in made and "../" not in made


@pytest.mark.skipif(not shutil.which("chromium"), reason="no chromium here")
def test_nothing_is_wider_than_a_phone(report: Path, tmp_path: Path) -> None:
    for name in ("index", "kun24-squares"):
        probe = (report / f"{name}.html").read_text().replace(
            "</body>", "<script>document.title = document.documentElement.scrollWidth</script></body>"
        )  # fmt: skip
        file = tmp_path / "probe.html"
        # A frame has the width it is given; a window has a smallest one.
        (tmp_path / "inner.html").write_text(probe)
        file.write_text(
            '<iframe src="inner.html" style="width:375px;height:600px;border:0" '
            "onload=\"document.body.setAttribute('data-wide', this.contentDocument.title)\"></iframe>"
        )
        done = subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--allow-file-access-from-files", "--dump-dom", f"file://{file}"],
            capture_output=True, text=True, timeout=60,
        )  # fmt: skip
        (width,) = re.findall(r'data-wide="(\d+)"', done.stdout)
        assert int(width) <= 375


def test_outcomes_without_a_run_fail_no_claim() -> None:
    assert Outcome(AT + "Squares", problem="x").failed == []
    assert isinstance(toys.Toy.statement, str)
