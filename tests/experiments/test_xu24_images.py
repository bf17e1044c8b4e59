"""Networks on images: the variants are those of the tool and of the paper, and every claim can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from richter.errors import DataError, ParameterError
from richter.experiments.image_runs import VARIANTS, image_task
from richter.experiments.xu24_width_on_images import FEATURES, KERNEL, WidthOnImages
from richter.maths.scaling_limits import movement_exponents
from richter.refs import XU24
from tests.experiments.smoke import failing, findings, smoke

NAME = "xu24-width-on-images"


@pytest.mark.place(XU24["Table 1"], XU24["Corollary 2"], XU24["Corollary 3"])
def test_the_variants_are_those_of_the_tool() -> None:
    pytest.importorskip("torch")
    from richter.moves.parametrise import rule as rule_of

    for name, variant in VARIANTS.items():
        tool = {"NTK": "ntk", "mean field": "mean-field+"}.get(name, name.lower())
        rule = rule_of(tool)
        assert (rule.c_gamma, rule.c_u, rule.c_w, rule.c_eta) == (
            variant.c_gamma, variant.c_u, variant.c_w, variant.c_eta,
        )  # fmt: skip
        assert rule.phase == variant.phase == ("kernel" if name in KERNEL else "feature-learning")
    assert len(KERNEL) == len(FEATURES) == 3


def test_all_variants_are_one_network_at_the_base_and_part_by_their_powers() -> None:
    experiment = WidthOnImages(base=32, draws=2)
    nets, rates = experiment.networks(32, 5, 10)
    x = np.random.default_rng(0).standard_normal((4, 5))
    out = nets(x).reshape(6, 2, 4, 10)
    np.testing.assert_allclose(out, np.broadcast_to(out[:1], out.shape), rtol=1e-12)
    assert set(rates) == {experiment.rate} and not np.allclose(out[0, 0], out[0, 1])
    wide, faster = experiment.networks(128, 5, 10)
    kaiming = list(VARIANTS).index("Kaiming+")
    assert faster[2 * kaiming] == 4 * experiment.rate
    assert np.asarray(wide.output_scale)[2 * kaiming] == pytest.approx(32**-0.5 / 4)
    assert wide.weights[1][2 * kaiming].std() == pytest.approx(0.5, rel=0.1)  # 1280 draws: ±2 %


@pytest.mark.parametrize("name", VARIANTS)
def test_the_powers_of_movement_are_those_of_many_steps(name: str) -> None:
    """Two coupled sizes that step by γη of each other from σ_u and σ_w, at two enormous widths."""
    v = VARIANTS[name]
    moved = []
    for kappa in (1e8, 1e10):
        u, w, step = kappa ** (v.c_u / 2), kappa ** (v.c_w / 2), 0.1 * kappa ** (v.c_gamma + v.c_eta)
        du = dw = 0.0  # by themselves: the smallest would be lost in the sums
        for _ in range(20):
            du, dw = du + step * (w + dw), dw + step * (u + du)
        moved.append([du / u, dw / w])
    fitted = np.log(np.array(moved[1]) / moved[0]) / np.log(100.0)
    given = movement_exponents(v.c_gamma, v.c_u, v.c_w, v.c_eta)
    np.testing.assert_allclose(fitted, [float(c) for c in given], atol=1e-3)  # lower powers at κ = 1e8


def test_images_are_inputs_of_length_one(tmp_path: Path) -> None:
    task = image_task("digits", 300, 100, pool=2)
    assert task.inputs.shape == (300, 16) and task.test_inputs.shape == (100, 16)
    assert float((task.inputs.astype(float) ** 2).sum(1).mean()) == pytest.approx(1.0, rel=1e-5)
    assert abs(float(task.inputs.mean())) < 1e-6
    with pytest.raises(ParameterError, match="`pool` must divide the images' 8 × 8 pixels. Got 3"):
        image_task("digits", 300, 100, pool=3)


def test_absent_images_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RICHTER_DATA", str(tmp_path))
    with pytest.raises(DataError, match="CIFAR-10 must be in .*richter data fetch cifar10"):
        WidthOnImages.preset("laptop").execute()


def test_every_claim_can_fail_control() -> None:
    found = findings(NAME)
    assert found["kernel"] == found["features"] == found["theory"] == "holds"
    assert found["accuracy"] == "undecided"  # the paper's numbers are CIFAR-10's
    experiment, ds = smoke(NAME)
    turn = {**dict(zip(KERNEL, FEATURES, strict=True)), **dict(zip(FEATURES, KERNEL, strict=True))}
    swapped = ds.sel(variant=[turn[str(v)] for v in ds.variant.values]).assign_coords(variant=ds.variant)
    assert {"kernel", "features", "theory"} <= failing(NAME, swapped)
    assert findings(NAME, swapped)["evolves"] == "fails"
    moving = ds.assign(kernel_distance=_jitter(ds.kernel_distance * 0 + 0.1))
    assert findings(NAME, moving)["evolves"] == "holds" and "kernel" in failing(NAME, moving)
    wider = ds.test_accuracy * 0 + 0.5 + 0.01 * np.log2(ds.width)
    assert findings(NAME, ds.assign(test_accuracy=_jitter(wider)))["larger"] == "holds"
    assert findings(NAME, ds.assign(test_accuracy=_jitter(1.2 - wider)))["larger"] == "fails"
    cifar = WidthOnImages(**{**experiment.settings, "images": "cifar10"})
    gain = xr.DataArray([0.05, 0.0, 0.10, 0.0], {"variant": ["Kaiming+", "Kaiming-", "Xavier+", "Xavier-"]}, "variant")
    flat, plus = ds.test_accuracy * 0 + 0.3, gain.reindex(variant=ds.variant, fill_value=0.0)
    judge = lambda accuracy, who=cifar: who.accuracy(ds.assign(test_accuracy=_jitter(accuracy))).finding
    assert (judge(flat + plus), judge(flat - plus), judge(flat + plus / 3)) == ("holds", "fails", "undecided")
    whole = WidthOnImages(**{**cifar.settings, "train": 50_000})
    assert judge(flat + plus / 3, whole) == "fails"


def test_what_the_fixed_kernel_costs_is_judged_from_zero_output_control() -> None:
    experiment, ds = smoke(NAME)
    assert float(ds.zero_train_loss.isel(step=0).max()) == pytest.approx(np.log(10), rel=1e-5)
    losing = _jitter(xr.where(ds.variant == "Xavier-", 0.7, 0.9) + 0 * ds.test_accuracy)
    for zero, found in ((0.7, "holds"), (0.9, "fails")):
        bent = ds.assign(test_accuracy=losing, zero_test_accuracy=_jitter(ds.zero_test_accuracy * 0 + zero))
        assert experiment.because(bent).finding == found  # type: ignore[attr-defined]
    same = ds.assign(test_accuracy=_jitter(ds.test_accuracy * 0 + 0.9))
    assert experiment.because(same).finding == "undecided"  # type: ignore[attr-defined]


def test_only_xavier_minus_starts_larger_the_wider_it_is() -> None:
    _, ds = smoke(NAME)
    first = np.log(ds.output_start.mean("draw"))
    for name, variant in VARIANTS.items():
        fitted = np.polyfit(np.log(ds.width), first.sel(variant=name).values, 1)[0]
        assert fitted == pytest.approx(variant.output, abs=0.2)  # three widths, two draws each
    assert [name for name, v in VARIANTS.items() if v.output > 0] == ["Xavier-"]


def _jitter(values: xr.DataArray) -> xr.DataArray:
    """One part in a thousand, so that intervals are not empty."""
    return values * (1 + 1e-3 * np.random.default_rng(0).standard_normal(values.shape))
