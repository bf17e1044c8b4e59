"""Every claim about layerwise linear networks can fail."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr

from richter.experiments.nam24_saddles import _stairs
from tests.experiments.smoke import failing, findings, smoke


@pytest.mark.parametrize(
    "name", ["nam24-sigmoids", "nam24-stages", "nam24-saddles", "nam24-linear-collapse", "nam24-growth"]
)
def test_every_claim_is_decided_and_fails_only_where_it_is_known_to(name: str) -> None:
    found = findings(name)
    assert "undecided" not in found.values()
    assert {claim for claim, finding in found.items() if finding == "fails"} == set(smoke(name)[0].known_failures)


def test_swapped_models_learn_the_other_way_control() -> None:
    _, ds = smoke("nam24-sigmoids")
    swapped = ds.isel(model=[1, 0]).assign_coords(model=ds.model)
    assert failing("nam24-sigmoids", swapped) == {"linear", "delayed", "sequence"}
    assert failing("nam24-sigmoids", ds.assign(gap=1e-6)) == {"delayed"}
    short = ds.isel(t=slice(0, 200))
    assert findings("nam24-sigmoids", short)["delayed"] == "undecided"


def test_stages_that_overlap_fail_control() -> None:
    _, ds = smoke("nam24-stages")
    assert failing("nam24-stages", ds.assign(saturation=5 * ds.saturation)) == {"stages"}
    assert failing("nam24-stages", ds.assign(overlap=0 * ds.overlap + 0.2)) == {"stages", "corrected"}
    assert failing("nam24-stages", ds.assign(overlap=1.02 * ds.overlap)) >= {"corrected"}
    assert failing("nam24-stages", ds.assign(loss=ds.loss + 1.0)) == {"drops"}


def test_a_loss_without_plateaus_fails_control() -> None:
    _, ds = smoke("nam24-saddles")
    swapped = ds.isel(scale=slice(None, None, -1)).assign_coords(scale=ds.scale)
    assert failing("nam24-saddles", swapped) >= {"drop_count", "heights"}
    assert failing("nam24-saddles", ds.assign(level=ds.level + 0.3)) == {"heights"}
    assert failing("nam24-saddles", ds.assign(drop_time=1.2 * ds.drop_time)) == {"delays"}
    assert findings("nam24-saddles", ds.assign(drops=0 * ds.drops))["delays"] == "undecided"


def test_drops_are_counted_as_they_were_made(seed: int) -> None:
    rng = np.random.default_rng([seed, 1])
    share = np.concatenate([[0.0], np.geomspace(1e-3, 1.0, 600)])
    for modes in (1, 2, 4):
        places = 2e-3 * 5.0 ** np.arange(modes)
        heights = rng.uniform(0.5, 2.0, modes)
        loss = sum(h / (1 + (share / p) ** 12) for h, p in zip(heights, places, strict=True))
        count, found, levels = _stairs(share, np.asarray(loss), modes)
        assert count == modes
        np.testing.assert_allclose(found, places, rtol=0.05)  # the grid, and neighbours
        steps = np.append(heights[::-1].cumsum()[::-1], 0.0)
        np.testing.assert_allclose(levels, steps, atol=0.02)  # plateaus between feet
    smooth = np.exp(-3 * share)
    assert _stairs(share, smooth, 2)[0] == 1 and np.isnan(_stairs(share, smooth, 2)[1]).all()


def test_features_of_full_rank_fail_control() -> None:
    _, ds = smoke("nam24-linear-collapse")
    name = "nam24-linear-collapse"
    swapped = ds.isel(scale=slice(None, None, -1)).assign_coords(scale=ds.scale)
    assert failing(name, swapped) >= {"rank", "collapse", "labels"}
    for variable in ("within_quotient", "equiangle", "duality", "orthogonal"):
        assert "collapse" in failing(name, ds.assign({variable: ds[variable] + 0.1}))
    assert failing(name, ds.assign(residual=ds.residual + 0.1)) == {"rank"}
    assert failing(name, ds.assign(drift=ds.drift + 0.1)) == {"balanced"}
    assert failing(name, ds.assign(difference=ds.difference + 0.1)) == {"balanced"}


def test_dynamics_of_the_other_kind_fail_control() -> None:
    _, ds = smoke("nam24-growth")
    name = "nam24-growth"
    assert failing(name, ds.assign(linear_gap=0 * ds.linear_gap + 1e-3)) >= {"linear"}
    assert failing(name, ds.assign(aligned=np.sqrt(ds.aligned))) >= {"downscaling", "ntk"}
    assert failing(name, ds.assign(greedy_gap=ds.greedy_gap + 0.1)) == {"greedy"}
    assert failing(name, ds.assign(growth=np.sqrt(ds.growth))) == {"greedy"}
    assert failing(name, ds.assign(over_bound=0.9 + 0 * ds.over_bound)) == {"bounded"}
    assert isinstance(ds, xr.Dataset)
