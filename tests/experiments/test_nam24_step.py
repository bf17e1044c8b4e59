"""Every claim about the features of a step can fail."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from richter.experiments.nam24_step_features import StepFeatures, _look
from tests.experiments.smoke import failing, findings, smoke

pytest.importorskip("jax")
NAME = "nam24-step-features"


def test_what_a_narrow_network_decides() -> None:
    found = findings(NAME)
    width = {"before": "undecided", "after": "undecided"}  # the table is of width 1000
    assert found == {**width, "single": "holds", "fewer": "holds", "twenty": "fails"}
    assert set(smoke(NAME)[0].known_failures) == {"twenty", "after"}


def test_features_that_stay_as_they_were_fail_control() -> None:
    _, ds = smoke(NAME)
    fixed = ds.isel(step=[0] * ds.sizes["step"]).assign_coords(step=ds.step)
    assert failing(NAME, fixed) == {"single", "fewer"}
    assert failing(NAME, ds.assign(quality=0.9 * ds.quality)) == {"single", "fewer"}


def test_the_table_is_judged_at_its_width_only_control() -> None:
    _, ds = smoke(NAME)
    wide, narrow = StepFeatures(width=1000), StepFeatures(width=100)
    table = {"quality": (3.2, 1.1), "utilisation": (1.8, 1.0), "intensity": (1.6, 1.2)}
    for name, (start, end) in table.items():
        ds = ds.assign({f"start_{name}": 0 * ds[f"start_{name}"] + start + 0.02})
        row = np.r_[np.linspace(2.0, end + 0.1, ds.sizes["step"] - 3), [end] * 3]
        ds = ds.assign({f"dimension_{name}": ds[f"dimension_{name}"] * 0 + row})
    assert wide.before(ds).finding == wide.after(ds).finding == "holds"
    assert wide.before(ds.assign(start_intensity=ds.start_intensity + 0.2)).finding == "fails"
    late = ds.assign(dimension_intensity=ds.dimension_intensity + 0.3)
    assert wide.after(late).finding == "undecided"  # still falling
    assert wide.after(late.assign(dimension_quality=ds.dimension_quality + 0.3)).finding == "fails"
    assert narrow.before(ds).finding == "undecided"


def test_shares_of_two_known_features() -> None:
    x = np.linspace(-1, 1, 500, endpoint=False) + 1 / 500
    target = np.heaviside(x, 1.0)[:, None]
    left, right = 1 - target, target  # orthogonal; the target is the second
    made = _look(np.concatenate([2 * left, right], axis=1), right.copy(), target)
    np.testing.assert_allclose(made["quality"][:3], [0, 1, 0], atol=1e-12)  # rounding
    np.testing.assert_allclose(made["intensity"][:2], [1, 0.25], rtol=1e-12)
    assert made["needed"] == 2 and abs(made["dimension_utilisation"] - 1) < 1e-12
    np.testing.assert_allclose(made["drawn"][:, 1] ** 2, 2 * right[:, 0], atol=1e-12)  # E e² = 1
    assert np.isnan(made["drawn"][:, 2]).all()


def test_a_stopped_run_goes_on_to_the_same_numbers(tmp_path: Path) -> None:
    experiment = StepFeatures(width=12, rate=0.3, steps=200, seeds=2, starts=4, examples=50)

    class Stop(Exception):
        pass

    def stop(what: str, share: float) -> None:
        if what == "run 2" and share > 0.75:
            raise Stop

    with pytest.raises(Stop):
        experiment.execute(stop, store=tmp_path)
    ds = experiment.execute(store=tmp_path)
    assert ds.attrs["resumed"] == 1
    whole = experiment.execute()
    assert ds.drop_attrs().identical(whole.drop_attrs())
