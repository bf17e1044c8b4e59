"""The tour: one page that is whole, offline, accessible, and whose numbers can be computed again."""

from __future__ import annotations

import base64
import importlib.util
import re
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from richter.errors import FileError, MissingExtraError
from richter.figure.build import number
from richter.regime import DELAYED_BELOW, LAZY_BELOW
from richter.report import page as blocks
from richter.report import tour as making
from richter.report.chapters import CHAPTERS, MEASURED, Chapter
from richter.report.chapters.chapter import compare, percent, short
from richter.report.tour import NEXT, run_tour
from richter.theory import DiagonalNetwork, ScalarNetwork, SingleNeuron, WideScalar

NETWORK = importlib.util.find_spec("torch") is not None  # the last chapter trains one
IDENTS = ["single-neuron", "modes", "scale", "width", *(["digits"] if NETWORK else [])]
needs_torch = pytest.mark.skipif(not NETWORK, reason="needs the extra torch")
VOID = {"meta", "source", "img", "br"}


@dataclass
class Reader(HTMLParser):
    """What the page holds: tags with their attributes, tables, code and text."""

    tags: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    open: list[str] = field(default_factory=list)
    tables: list[list[list[str]]] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    words: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, {name: value or "" for name, value in attrs}))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")
        if tag == "code":
            self.code.append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()

    def handle_data(self, data: str) -> None:
        if "style" in self.open:
            return
        self.words.append(data)
        if self.open and self.open[-1] in ("td", "th"):
            self.tables[-1][-1][-1] += data
        if "code" in self.open:
            self.code[-1] += data


@dataclass(frozen=True)
class Tour:
    path: Path
    source: str
    read: Reader
    seconds: float
    told: list[tuple[str, float]]

    def table(self, *first: str) -> dict[str, list[str]]:
        """The rows of the table with these first headers, by their first cell."""
        (found,) = [rows for rows in self.read.tables if tuple(rows[0][: len(first)]) == first]
        return {row[0]: row[1:] for row in found[1:]}


@pytest.fixture(scope="module")
def tour(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tour]:
    told: list[tuple[str, float]] = []
    started = time.process_time()
    path = run_tour(tmp_path_factory.mktemp("tour") / "deep" / "folder", lambda *step: told.append(step))
    seconds = time.process_time() - started  # of the processor: what else runs does not count
    source = path.read_text(encoding="utf-8")
    read = Reader()
    read.feed(source)
    yield Tour(path, source, read, seconds, told)


@pytest.fixture(scope="module")
def chapters() -> dict[str, Chapter]:
    return {chapter.ident: chapter for chapter in (build() for build in CHAPTERS.values())}


def test_the_tour_is_one_page_made_in_time(tour: Tour) -> None:
    assert tour.path.name == "index.html" and tour.path.stat().st_size < 6e6
    assert tour.seconds < 60
    assert sorted(path.name for path in tour.path.parent.iterdir()) == ["figures", "index.html"]
    assert sorted(path.stem for path in (tour.path.parent / "figures").iterdir()) == sorted(IDENTS)
    shares = [share for _, share in tour.told]
    assert shares == sorted(shares) and shares[0] == 0.0 and shares[-1] == 1.0
    assert all(len(words) <= 32 for words, _ in tour.told)


def test_the_page_is_well_formed_and_has_every_section(tour: Tour) -> None:
    assert tour.read.open == [] and tour.source.startswith("<!doctype html>")
    sections = [attrs["id"] for tag, attrs in tour.read.tags if tag == "section"]
    assert sections == [*IDENTS, "next", "references"]
    ids = [attrs["id"] for _, attrs in tour.read.tags if "id" in attrs]
    assert len(ids) == len(set(ids))
    for tag, attrs in tour.read.tags:
        if tag == "a" and attrs["href"].startswith("#"):
            assert attrs["href"][1:] in ids
    text = "".join(tour.read.words)
    for needed in ("KUN24 Fig. 3", "NAM24 Fig. 3.3", "XU24 Fig. 1", "NAM24 Sec. 6.3.1", "Right: μ(t) = s·2‖β*‖"):
        assert needed in text


def test_nothing_is_loaded_from_elsewhere(tour: Tour) -> None:
    links = []
    for tag, attrs in tour.read.tags:
        assert tag not in ("script", "link", "iframe", "object", "base", "form", "input")
        assert not [name for name in attrs if name.startswith("on")]
        for name in ("src", "srcset"):
            assert attrs.get(name, "data:").startswith("data:")
        if "href" in attrs:
            assert tag == "a"
            links.append(attrs["href"])
    assert sum(link.startswith("https://") for link in links) == 2  # the two papers on arXiv
    style = tour.source[tour.source.index("<style>") : tour.source.index("</style>")]
    assert "url(" not in style and "@import" not in style
    for drawn in images(tour):
        assert not re.findall(r"""(?:href|src|url)\s*[=(]\s*["']?(?!["']?#)[^#]""", drawn)
        outside = set(re.findall(r"https?://[^\s\"'<>]+", drawn))
        assert all(place.startswith(("http://www.w3.org/", "http://purl.org", "http://creativecommons.org")) or
                   place == "https://matplotlib.org/" for place in outside), outside  # fmt: skip


def images(tour: Tour) -> list[str]:
    found = [attrs.get("src") or attrs["srcset"] for tag, attrs in tour.read.tags if tag in ("img", "source")]
    assert len(found) == 4 * len(IDENTS)
    return [base64.b64decode(entry.split(",", 1)[1]).decode() for entry in found]


def test_the_page_can_be_read_by_everyone(tour: Tour) -> None:
    tags = tour.read.tags
    assert ("html", {"lang": "en"}) in tags
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in tags
    levels = [int(tag[1]) for tag, _ in tags if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after <= before + 1 for before, after in zip(levels, levels[1:], strict=False))
    for tag, attrs in tags:
        if tag == "img":
            assert len(attrs["alt"]) > 60
        if tag == "th":
            assert attrs["scope"] in ("col", "row")
    assert [tag for tag, _ in tags].count("caption") == len(tour.read.tables) == 8 + NETWORK
    media = [attrs["media"] for tag, attrs in tags if tag == "source"]
    assert media[:3] == [
        "(prefers-color-scheme: dark) and (max-width: 760px)",
        "(max-width: 760px)",
        "(prefers-color-scheme: dark)",
    ]
    wide, narrow = (float(re.findall(r'width="([\d.]+)pt"', drawn)[0]) for drawn in images(tour)[3:0:-2])
    assert narrow < 0.75 * 375 < wide  # a phone is 375 CSS pixels wide, a point is 4/3 of one


def test_no_path_of_this_machine_is_in_the_page(tour: Tour) -> None:
    assert str(tour.path.parent) not in tour.source and "/tmp" not in tour.source
    assert str(Path(__file__).parents[1]) not in tour.source


def test_the_neurons_numbers_can_be_computed_again(tour: Tour) -> None:
    rows = tour.table("δ", "regime")
    assert list(rows) == ["−16", "−4", "−1", "0", "1", "4", "16"]
    for text, cells in rows.items():
        delta = float(text.replace("−", "-"))
        regime = SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=delta, beta_star=[0.0, 1.0]).regime()
        wanted = [regime.evidence[name].value for name in ("kernel_change", "early_share", "kernel_distance")]
        assert cells == [regime.label, *(short(float(value)) for value in wanted)]
    labels = [cells[0] for cells in rows.values()]
    assert labels[0] == "delayed-rich" and labels[3] == "rich" and labels[-1] == "lazy"
    text = "".join(tour.read.words)
    assert f"lazy below {LAZY_BELOW:g}" in text and f"delayed below {DELAYED_BELOW:g}" in text


def test_the_modes_numbers_can_be_computed_again(tour: Tour) -> None:
    rows = tour.table("E[x²]", f"linear: {percent(0.05)}")
    for text, cells in rows.items():
        variance = float(text)
        # Eq. 3.9 and 3.10 solved for t, with a(0)b(0) = 1e-6 and S = 1.
        linear = [-np.log(1 - share) / variance for share in (0.05, 0.95)]
        layered = [np.log((1e6 - 1) * share / (1 - share)) / (2 * variance) for share in (0.05, 0.95)]
        assert cells == [short(t) for t in (*linear, *layered)]
    times = [[float(cell) for cell in cells] for cells in rows.values()]
    assert times[0][3] < times[1][2]  # in two layers the first is done before the second begins
    assert times[0][1] > times[1][0]  # in the linear model it is not
    net = DiagonalNetwork(a0=1e-3, b0=1e-3, target=np.ones(4), input_variance=[1.0, 0.5, 0.25, 0.125])
    overlap = net.regime().evidence["stage_overlap"].value
    assert isinstance(overlap, float) and f"overlap by {percent(overlap)}" in "".join(tour.read.words)


def test_the_scales_numbers_can_be_computed_again(tour: Tour) -> None:
    rows = tour.table("scale", "regime", "γ₊")
    for text, cells in rows.items():
        g = float(text)
        signs = np.repeat([1.0, -1.0], 50)
        a, b = g * signs, g * np.tile([1.0, -1.0], 50)  # half of the pairs agree: the same sums
        net = ScalarNetwork(a0=a, b0=b, target=1.0, normalisation=10.0)
        regime = net.regime()
        values = [regime.evidence[name].value for name in ("growth_end", "kernel_change")]
        assert cells == [regime.label, *(short(float(value)) for value in values)]
        # By hand: P = Q = 5 g², γ₊ = (R + S)/2P with R = √(S² + 4PQ).
        p = 100 * g**2 / 20
        assert short((np.hypot(1, 2 * p) + 1) / (2 * p)) == cells[1]
    assert [cells[0] for cells in rows.values()] == ["rich", "rich", "rich", "rich", "lazy"]


def test_the_widths_numbers_can_be_computed_again(tour: Tour) -> None:
    rows = tour.table("γ, d", "mechanism")
    assert len(rows) == 8
    rises = {key: float(cells[2]) for key, cells in rows.items()}
    for d in (10, 1000):
        for words, gamma, rate in (("γ = 1/√d", d**-0.5, 1.0), ("γ = 1/d", 1 / d, float(d))):
            net = WideScalar.random(width=d, gamma=gamma, eta_u=rate, eta_w=rate, draws=100, rng=d)
            ends = net.solve([0.0, np.inf], ["alignment"]).alignment.values
            cells = rows[f"{words}, {d}"]
            assert cells[1:3] == [short(np.median(ends[:, 1])), short(np.median(ends[:, 1] - ends[:, 0]))]
    for few, many in ((100, 1000), (1000, 10000)):
        assert 2 < rises[f"γ = 1/√d, {few}"] / rises[f"γ = 1/√d, {many}"] < 5  # 1/√d is 3.2; 100 draws
        assert rises[f"γ = 1/d, {few}"] == pytest.approx(rises[f"γ = 1/d, {many}"], rel=0.1)


def test_the_agreement_is_measured_and_close(tour: Tour, chapters: dict[str, Chapter]) -> None:
    shown = [row for rows in tour.read.tables if rows[0][1] == "largest difference" for row in rows[1:]]
    again = [item for chapter in chapters.values() for item in chapter.agreement]
    assert [row[0] for row in shown] == [item.what for item in again]
    for row, item in zip(shown, again, strict=True):
        assert row[1:] == [number(item.error, 2), str(item.points)]
        assert 0 < item.error < 1e-7  # 0 would be a comparison with itself


def test_agreement_is_relative_to_each_curve_and_sees_one_wrong_point() -> None:
    t = np.arange(3.0)
    good = xr.Dataset({"x": (("start", "t"), [[1.0, 2.0, 4.0], [1e-6, 2e-6, 4e-6]], {"symbol": "x"})}, {"t": t})
    bad = good.copy(deep=True)
    bad.x[1, 2] += 4e-8
    (item,) = compare(bad, good, ["x"], ", here")
    assert item.error == pytest.approx(0.01) and (item.what, item.points) == ("x, here", 6)
    assert compare(good, good, ["x"])[0].error == 0.0


@pytest.mark.parametrize("ident", ["single-neuron", "modes", "scale", "width"])
def test_the_printed_lines_run_and_give_the_figures_numbers(
    ident: str, tour: Tour, chapters: dict[str, Chapter], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chapter = chapters[ident]
    assert chapter.python.strip() in tour.read.code
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    exec(chapter.python, names)
    exact = names["exact"]
    panels = chapter.figure.panels
    drawn = [[m.y for m in shown.marks if m.role == "exact" and m.kind == "line"] for shown in panels]
    if ident == "single-neuron":
        for curves, name in zip(drawn, ("mu", "phi", "kernel_distance"), strict=True):
            np.testing.assert_allclose(np.array(curves), exact[name].values, rtol=1e-12)
    elif ident == "modes":
        np.testing.assert_allclose(np.array(drawn[1]), exact.output.values.T, rtol=1e-12)
        np.testing.assert_allclose(np.array(drawn[0]), names["share"].values.T, rtol=1e-12)
    elif ident == "scale":
        np.testing.assert_allclose(np.array(drawn[0]), exact.output.values, rtol=1e-12)
        np.testing.assert_allclose(np.array(drawn[1])[0, [0, -1]], names["theory"].limit().growth[[0, -1]], rtol=1e-12)
    else:
        np.testing.assert_allclose(drawn[1][-1], exact.alignment.values, rtol=1e-12)
    pictures = [path.suffix for path in tmp_path.iterdir()]
    assert pictures == ([] if ident == "width" else [".png"])


def test_the_figures_lay_exact_over_simulated(chapters: dict[str, Chapter]) -> None:
    for chapter in chapters.values():
        for shown in chapter.figure.panels:
            roles = {m.role for m in shown.marks}
            assert {"exact", "simulated"} <= roles
            assert all(m.colour is None for m in shown.marks if m.role == "exact")
            assert all(m.colour is not None for m in shown.marks if m.role == "simulated")


def test_the_commands_of_the_page_work(tour: Tour, capsys: pytest.CaptureFixture[str]) -> None:
    from richter.cli import main

    assert NEXT.strip() in tour.read.code
    for line in NEXT.strip().splitlines():
        program, *words = shlex.split(line)
        assert program == "richter"
        assert main(words) == 0, line
        assert capsys.readouterr().out


@needs_torch
def test_the_network_learns_in_two_regimes_and_the_numbers_are_its_own(tour: Tour) -> None:
    from richter.report.chapters.network import SEEDS, train

    rows = tour.table("scale", "regime", "kernel")
    assert [cells[0] for cells in rows.values()] == ["lazy", "rich"]
    for (words, found), cells in zip(train().items(), rows.values(), strict=True):
        moved = [float(ds.kernel_change_full.max()) for ds in found.runs]
        assert len(moved) == len(SEEDS) and cells[1] == short(float(np.median(moved)))
        low, high = (float(cell) for cell in cells[2].split(" to "))
        assert low <= min(moved) and max(moved) <= high
        assert (max(moved) < LAZY_BELOW) == (cells[0] == "lazy"), words
        for ds in found.runs:
            assert ds.attrs["task"] == "digits" and float(ds.kernel_change_full[0]) == 0.0
            assert ds.train_loss.values[0] == pytest.approx(0.5) and ds.train_loss.values[-1] < 0.1
            assert float(ds.test_accuracy[-1]) > 0.9
    text = "".join(tour.read.words)
    assert "What the labels do not say" in text and "Movement of the kernel is not generalisation" in text


@needs_torch
def test_the_lines_of_the_network_give_its_numbers(capsys: pytest.CaptureFixture[str], tour: Tour) -> None:
    from richter.report.chapters.network import PYTHON, train

    assert PYTHON.strip() in tour.read.code
    short_lines = PYTHON.replace("in (5.0, 0.03)", "in (5.0,)").replace("in (0, 1)", "in (0,)")
    names: dict[str, Any] = {}
    exec(short_lines, names)
    (again,) = names["runs"]
    np.testing.assert_array_equal(again.kernel_change_full, train()["τ = 5"].runs[0].kernel_change_full)
    assert capsys.readouterr().out.startswith("5.0 lazy\n")


def test_without_torch_the_rest_is_written_and_one_line_says_what_is_missing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from richter.cli import main

    def missing() -> Chapter:
        raise MissingExtraError("Training needs torch, which is not installed.")

    monkeypatch.setattr(making, "CHAPTERS", {"Modes": CHAPTERS["Modes"]})
    monkeypatch.setattr(making, "MEASURED", dict.fromkeys(MEASURED, missing))
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["tour", "--out", str(tmp_path)]) == 0
    out = capsys.readouterr().out
    assert out.count(making.ALONE) == 1 and 'pip install "richter[torch]"' in making.ALONE
    source = (tmp_path / "index.html").read_text(encoding="utf-8")
    assert 'id="modes"' in source and 'id="digits"' not in source
    assert source.count("which needs PyTorch. Type: pip install") == 1


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileError, match="the folder of the tour must be a folder that can be made"):
        run_tour(tmp_path / "file")


def test_every_block_escapes_its_text() -> None:
    evil = '<script>alert("1")</script>'
    made = blocks.page(
        evil,
        blocks.text(evil, evil),
        blocks.heading(evil),
        blocks.code(evil, evil),
        blocks.table(evil, [evil], [[evil]]),
        blocks.terms([(evil, [evil])]),
        blocks.references([(evil, evil), (evil, "javascript:alert(1)")]),
        blocks.section(evil, evil),
        blocks.contents([(evil, evil)]),
    )
    assert "<script" not in made and 'alert("' not in made
    assert "javascript:" not in made  # only https addresses become links
    assert made.count("&lt;script&gt;") > 10
