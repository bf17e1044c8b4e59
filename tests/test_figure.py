"""Figures as data: what the marks are, not how they look."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import xarray as xr

from richter.errors import ParameterError, UnknownNameError
from richter.figure import (
    ColourScale,
    Figure,
    Panel,
    axis_label,
    differences,
    from_plain,
    lines,
    mark,
    overlay,
    panel,
    solution_figure,
    to_plain,
)
from richter.figure.scale import derive_scale
from richter.testing.zoo import Member, members
from richter.theory import DiagonalNetwork, LinearModel, ScalarNetwork, SingleNeuron, WideScalar

T = [0.0, 0.5, 1.0, 2.0]
MEMBERS = members()


def neurons() -> SingleNeuron:
    return SingleNeuron.from_imbalance(beta0=[-1.0, 0.0], delta=[-2.0, 0.0, 2.0], beta_star=[0.0, 1.0])


def named(ds: xr.Dataset) -> xr.Dataset:
    return ds.assign_coords(imbalance=("start", [-2.0, 0.0, 2.0], {"symbol": "δ"}))


def curve(**options: Any) -> Any:
    return mark("line", [0.0, 1.0], [1.0, 2.0], **options)


def test_lines_carry_the_numbers_labels_and_colours_of_the_dataset() -> None:
    ds = named(neurons().solve([*T, np.inf]))
    made = lines(ds, "mu", by="imbalance")
    assert [m.label for m in made] == ["δ = −2", "δ = 0", "δ = 2"]
    assert [m.colour for m in made] == [-2.0, 0.0, 2.0]
    for i, m in enumerate(made):
        np.testing.assert_array_equal(m.x, T)
        np.testing.assert_array_equal(m.y, ds.mu.values[i, :-1])
        assert m.role == "exact" and m.kind == "line" and m.group == m.label
    words = [m.colour for m in lines(neurons().solve(T), "mu", by="start")]
    assert words == ["start 1", "start 2", "start 3"]


def test_lines_over_another_dimension_in_any_order() -> None:
    ds = neurons().solve(T).isel(start=0)
    first, second = lines(ds, "w", by="input")
    np.testing.assert_array_equal(second.y, ds.w.values[:, 1])
    swapped = lines(ds.transpose(..., "t"), "w", by="input")
    np.testing.assert_array_equal(swapped[0].y, first.y)
    (by_input,) = lines(ds.isel(t=1), "w", over="input")
    np.testing.assert_array_equal(by_input.x, [0.0, 1.0])


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"name": "nu"}, "no variable `nu`. Did you mean mu"),
        ({"name": "mu"}, "`mu` must have no dimension but `over` and `by` (here also start). Got by=None"),
        ({"name": "mu", "over": "input"}, "`over` must be a dimension of `mu`: start, t. Got input."),
        ({"name": "mu", "by": "delta"}, "`by` must be a dimension or coordinate of `mu`: start, t"),
    ],
)
def test_lines_say_what_is_wrong(options: dict[str, Any], says: str) -> None:
    with pytest.raises((ParameterError, UnknownNameError)) as found:
        lines(neurons().solve(T), **options)
    assert says in str(found.value)


def test_too_many_lines_are_refused() -> None:
    ds = SingleNeuron.random(beta_star=[1.0, 0.0], draws=101).solve(T)
    with pytest.raises(ParameterError, match="at most 100. Got 101 along start. Use solution_figure"):
        lines(ds, "mu", by="start")
    assert len(lines(ds.isel(start=slice(100)), "mu", by="start")) == 100


def test_overlay_lays_black_theory_over_coloured_simulation() -> None:
    theory = neurons()
    exact, simulated = named(theory.solve(T)), named(theory.simulate(T))
    made = overlay(exact, simulated, ["mu", "phi"], by="imbalance", title="A title")
    assert made.title == "A title" and len(made.panels) == 2
    for shown, name in zip(made.panels, ("mu", "phi"), strict=True):
        below, above = shown.marks[:3], shown.marks[3:]
        assert [m.role for m in shown.marks] == ["simulated"] * 3 + ["exact"] * 3
        assert [m.colour for m in below] == [-2.0, 0.0, 2.0] and [m.colour for m in above] == [None] * 3
        for i in range(3):
            np.testing.assert_array_equal(below[i].y, simulated[name].values[i])
            np.testing.assert_array_equal(above[i].y, exact[name].values[i])
            assert above[i].group == below[i].group and above[i].label == "exact solution"
        assert shown.colours == ColourScale("δ", "diverging", -2.0, 2.0, "linear")
    assert made.panels[0].y == "μ: signed size of the function, a‖w‖"
    assert made.panels[0].x == "t: time of the gradient flow"
    with pytest.raises(ParameterError, match="`names` must hold at least one variable"):
        overlay(exact, simulated, [])


def test_a_measurement_can_stand_for_the_simulation() -> None:
    ds = neurons().solve(T).isel(start=0)
    made = overlay(ds, ds, ["mu"], role="measured")
    assert [m.role for m in made.panels[0].marks] == ["measured", "exact"]


@pytest.mark.parametrize("member", MEMBERS, ids=lambda m: m.name)
def test_every_theory_has_a_default_picture(member: Member) -> None:
    ds = member.make().solve([*member.times, np.inf])
    made = solution_figure(ds)
    assert 1 <= len(made.panels) <= 6
    assert made.caption.startswith("Exact solution.") and "t = ∞" in made.caption
    assert {panel.x for panel in made.panels} == {"t: time of the gradient flow"}
    for shown in made.panels:
        assert all(m.role == "exact" and np.isfinite(m.x).all() for m in shown.marks)
        assert len(shown.marks) <= 24
        assert differences(from_plain(json.loads(json.dumps(to_plain(made)))), made, rtol=0.0) == []


def test_the_picture_of_one_start_shows_function_and_loss_first() -> None:
    ds = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).solve(T)
    made = solution_figure(ds)
    assert made.title == "Single neuron"
    assert [shown.y.split(":")[0] for shown in made.panels[:4]] == ["β", "L", "μ", "φ"]
    assert [m.label for m in made.panels[0].marks] == ["input 1", "input 2"]
    np.testing.assert_array_equal(made.panels[0].marks[1].y, ds.beta.values[:, 1])
    np.testing.assert_array_equal(made.panels[2].marks[0].y, ds.mu.values)
    linear = LinearModel(eigenvalues=[1.0, 0.5], coefficients=1.0).solve(T)
    assert solution_figure(linear).panels[0].y.startswith("c: coefficient")


def test_named_variables_and_a_simulation() -> None:
    ds = neurons().simulate(T)
    made = solution_figure(ds, ["phi", "w"], title="")
    assert made.caption.startswith("Simulated.") and made.title == ""
    assert [m.role for m in made.panels[0].marks] == ["simulated"] * 3
    assert len(made.panels[1].marks) == 6
    assert len({m.colour for m in made.panels[1].marks}) == 3
    assert "One colour per start, 2 lines each in `w`." in made.caption


def test_many_starts_are_drawn_as_median_and_bands() -> None:
    ds = SingleNeuron.random(beta_star=[1.0, 0.0, 0.0], draws=50).solve(T)
    made = solution_figure(ds, ["mu", "beta"])
    outer, inner, middle = made.panels[0].marks
    assert (outer.kind, inner.kind, middle.kind) == ("band", "band", "line")
    assert outer.high is not None and inner.high is not None
    rows = ds.mu.values
    np.testing.assert_allclose(middle.y, np.median(rows, axis=0), rtol=1e-12)
    np.testing.assert_allclose(inner.y, np.quantile(rows, 0.1, axis=0), rtol=1e-12)
    np.testing.assert_allclose(inner.high, np.quantile(rows, 0.9, axis=0), rtol=1e-12)
    np.testing.assert_array_equal(outer.y, rows.min(axis=0))
    np.testing.assert_array_equal(outer.high, rows.max(axis=0))
    assert [m.kind for m in made.panels[1].marks] == ["band", "line"] * 3
    np.testing.assert_allclose(made.panels[1].marks[3].y, np.median(ds.beta.values[..., 1], axis=0), rtol=1e-12)
    assert "Median of 50 starts; bands from 10 to 90 %, paler from the smallest to the largest." in made.caption
    twelve = solution_figure(ds.isel(start=slice(12)), ["mu"])
    assert [m.kind for m in twelve.panels[0].marks] == ["line"] * 12


def test_undefined_starts_are_left_out_of_the_bands() -> None:
    ds = SingleNeuron.random(beta_star=[1.0, 0.0], draws=20).solve(T, ["phi"])
    ds.phi[:3] = np.nan
    ds.phi[:, 2] = np.nan
    middle = solution_figure(ds, ["phi"]).panels[0].marks[-1]
    np.testing.assert_allclose(middle.y[[0, 1, 3]], np.median(ds.phi.values[3:], axis=0)[[0, 1, 3]], rtol=1e-12)
    assert np.isnan(middle.y[2])


def test_wide_variables_are_cut_to_eight_and_the_caption_says_so() -> None:
    net = WideScalar.random(width=30, gamma=0.1, draws=1).solve(T)
    made = solution_figure(net.isel(start=0), ["u"])
    assert [m.label for m in made.panels[0].marks] == [f"neuron {i}" for i in range(1, 9)]
    assert "Shown: the first 8 of 30 entries of `u`." in made.caption


def test_axes_turn_logarithmic_when_the_numbers_ask_for_it() -> None:
    net = DiagonalNetwork(a0=1e-3, b0=1e-3, target=[1.0, 1.0], input_variance=[1.0, 0.5])
    made = solution_figure(net.solve(np.r_[0.0, np.geomspace(0.01, 1e3, 60)]))
    assert all(shown.x_log for shown in made.panels)
    assert all((m.x > 0).all() for shown in made.panels for m in shown.marks)
    assert "t = 0 is not on the logarithmic axis" in made.caption
    loss = made.panels[1]
    assert loss.y.startswith("L") and loss.y_log and loss.y_range is not None
    assert loss.y_range[0] == pytest.approx(1e-12 * loss.marks[0].y.max(), rel=1e-12)  # below is round-off
    assert not made.panels[0].y_log
    even = solution_figure(net.solve(np.linspace(0.0, 20.0, 50)))
    assert not any(shown.x_log for shown in even.panels)


def test_a_single_time_is_drawn_as_points() -> None:
    made = solution_figure(ScalarNetwork(a0=0.1, b0=0.2, target=1.0).solve([1.0]))
    assert {m.kind for shown in made.panels for m in shown.marks} == {"points"}


@pytest.mark.parametrize(
    ("times", "names", "says"),
    [
        ([np.inf], None, "the times of a picture must be finite. Got only ∞."),
        (T, [], "`names` must be 1 to 6 variables. Got 0."),
        (T, ["loss"] * 7, "`names` must be 1 to 6 variables. Got 7."),
        (T, ["nope"], "The Dataset has no variable `nope`."),
    ],
)
def test_a_picture_that_cannot_be_made_says_why(times: list[float], names: list[str] | None, says: str) -> None:
    ds = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).solve(times)
    with pytest.raises((ParameterError, UnknownNameError)) as found:
        solution_figure(ds, names)
    assert says in str(found.value)


def test_a_result_without_times_is_refused() -> None:
    ds = SingleNeuron(a0=1.0, w0=[-1.0, 0.0], beta_star=[0.0, 1.0]).limit()
    with pytest.raises(ParameterError, match="a result must have times `t`"):
        solution_figure(ds)


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: mark("curve", [0], [0]), "`kind` of a mark must be one of line, points, band"),  # type: ignore[arg-type]
        (lambda: curve(role="theory"), "`role` of a mark must be one of exact, simulated, measured, target, guide"),
        (lambda: mark("line", [0, 1], [0]), "`x` and `y` of a line must have the same length. Got 2 and 1."),
        (lambda: mark("line", [[0]], [0]), "`x` of a line must be a list of numbers. Got shape (1, 1)."),
        (lambda: mark("line", ["a"], [0]), "`x` of a line must be a number or a list of numbers"),
        (lambda: mark("line"), "`x` of a line must hold at least one number. Got none."),
        (lambda: mark("band", [0], [0]), "`high`, the upper edge, must be given for a band and only there. Got none."),
        (lambda: curve(high=[0, 1]), "must be given for a band and only there. Got a line with `high`."),
        (lambda: mark("band", [0], [0], high=[0, 1]), "`y` and `high` of a band must have the same length. Got 1 and 2."),
        (lambda: mark("vline", [0], [0]), "`y` of a vline must be left out. Got 1 numbers."),
        (lambda: mark("text", [0], [0]), "`label` of a text must be its words."),
        (lambda: curve(colour=np.nan), "`colour` of a mark must be a finite number or a word. Got nan."),
        (lambda: Panel((), x="t", y="y"), "the marks of a panel must hold at least one Mark. Got none."),
        (lambda: Panel((1,), x="t", y="y"), "the marks of a panel must be a list of Mark. Got 1."),  # type: ignore[arg-type]
        (lambda: Panel((curve(),), x="", y="y"), "`x` of a panel must be the name of the axis. Got ''."),
        (lambda: Panel((curve(),), x="x", y="y", x_range=(1, 0)), "`x_range` of a panel must be two finite numbers"),
        (lambda: Panel((curve(),), x="x", y="y", y_log=True, y_range=(0, 1)), "and > 0 on a log axis. Got (0, 1)."),
        (
            lambda: Panel((curve(colour=1.0), curve(colour="a")), x="x", y="y"),
            "the colours of a panel must be all numbers or all words.",
        ),
        (
            lambda: Panel(tuple(curve(colour=str(i)) for i in range(9)), x="x", y="y"),
            "the categories of a colour scale must be at most 8. Got 9.",
        ),
        (
            lambda: Panel((curve(colour="c"),), x="x", y="y", colours=ColourScale(categories=("a", "b"))),
            "`colour` of a mark must be on the panel's scale: a, b. Got c.",
        ),
        (lambda: Figure(()), "the panels of a figure must hold at least one Panel. Got none."),
        (lambda: ColourScale(kind="sequential", low=0.0, high=1.0, spacing="log"), "must be > 0. Got 0.0."),
        (lambda: from_plain({"schema": 2}), "the schema of a figure must be 1. Got 2."),
        (lambda: from_plain({"schema": 1}), "the plain form of a figure must be as to_plain() writes it."),
    ],
)  # fmt: skip
def test_what_cannot_be_drawn_is_refused_in_one_line(make: Any, says: str) -> None:
    with pytest.raises(ParameterError) as found:
        make()
    assert says in str(found.value) and "\n" not in str(found.value)


def test_marks_cannot_be_changed_and_do_not_share_the_callers_array() -> None:
    given = np.array([1.0, 2.0])
    m = mark("line", given, given)
    given[0] = 9.0
    assert m.x[0] == 1.0
    with pytest.raises(ValueError):
        m.x[0] = 3.0


def test_the_plain_form_keeps_undefined_and_infinite_numbers() -> None:
    m = mark("line", [0, 1, 2], [np.nan, np.inf, -np.inf], role="measured", label="l", colour=2.0, group="g")
    band = mark("band", [0.0], [1.0], high=[2.0])
    shown = Panel((m, band), x="x", y="y", title="t", x_range=(0, 1), y_log=True, legend=False)
    plain = json.loads(json.dumps(to_plain(Figure((shown,), "T", "C")), allow_nan=False))
    assert plain["panels"][0]["marks"][0]["y"] == [None, "inf", "-inf"]
    again = from_plain(plain)
    assert differences(again, Figure((shown,), "T", "C"), rtol=0.0) == []
    assert again.panels[0].x_range == (0.0, 1.0) and again.panels[0].marks[1].high is not None


def test_differences_name_the_place_and_respect_the_tolerance() -> None:
    first = Figure((Panel((curve(),), x="x", y="y"),), "T")

    def changed(**options: Any) -> Figure:
        return Figure((Panel((replace(curve(), **options),), x="x", y="y"),), "T")

    assert differences(first, changed(y=np.array([1.0, 2.0 + 1e-10]))) == []
    (line,) = differences(first, changed(y=np.array([1.0, 2.0 + 1e-7])))
    assert line.startswith("figure.panels[0].marks[0].y: numbers differ by 1e-07")
    assert "at different places" in differences(first, changed(y=np.array([np.nan, 2.0])))[0]
    assert differences(first, changed(role="exact")) == ["figure.panels[0].marks[0].role: 'simulated', 'exact'"]
    longer = Figure((Panel((curve(), curve()), x="x", y="y"),), "T")
    assert differences(first, longer) == ["figure.panels[0].marks: 1 entries, 2 entries"]


def test_colour_scales_put_zero_in_the_middle_and_keep_the_order() -> None:
    scale = derive_scale([-16.0, -1.0, 0.0, 4.0])
    assert scale is not None and (scale.kind, scale.spacing) == ("diverging", "symlog")
    places = [scale.position(x) for x in (-16.0, -4.0, -1.0, 0.0, 1.0, 4.0, 16.0)]
    assert places[0] == 0.0 and places[3] == 0.5 and places[-1] == 1.0
    assert min(np.diff(places)) > 0.1  # neighbours can be told apart
    assert places == pytest.approx([1 - x for x in places[::-1]])
    log = derive_scale([0.01, 1.0, 100.0])
    assert log is not None and log.position(1.0) == pytest.approx(0.5)
    assert derive_scale([None, None]) is None


def test_axes_are_named_with_symbol_words_and_unit() -> None:
    value = xr.DataArray([0.0], attrs={"long_name": "length", "units": "m", "symbol": "l"}, name="length_of_it")
    assert axis_label(value) == "l: length (m)"
    assert axis_label(value.drop_attrs()) == "length_of_it"
    ds = neurons().solve(T)
    assert panel(ds, "loss", lines(ds, "loss", by="start"), y_log=True).y == "L: ½‖β − β*‖²"
