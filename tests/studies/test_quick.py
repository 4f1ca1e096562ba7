"""Every study in its quick preset: data, figure and claims, none of them failing."""

import numpy as np
import pytest
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.studies import claims as claims_room
from learndyn.studies import registry

# More than eight seconds on two free cores: `make test-all` runs them too.
LONG = {
    "bocchi2026escape/bias",
    "bocchi2026escape/escape",
    "bocchi2026escape/fig2",
    "bocchi2026escape/fig4",
    "bocchi2026escape/phases",
    "bocchi2026escape/plateau",
    "bocchi2026escape/regimes",
    "bocchi2026escape/stability",
    "bocchi2026escape/tail",
    "curvature2020linear/effective_depth",
    "curvature2020linear/fig2",
    "curvature2020linear/figS1",
    "curvature2020linear/figS2",
    "worschech2024scaling/fig4",
    "bocchi2026escape/fig1",
    "bocchi2026escape/jitter",
    "curvature2020linear/fig1",
    "curvature2020linear/fig3",
    "worschech2024scaling/equations",
    "worschech2024scaling/fig1",
    "worschech2024scaling/fig15",
    "worschech2024scaling/fig17",
    "worschech2024scaling/fig19",
    "worschech2024scaling/fig2",
    "worschech2024scaling/fig20",
    "worschech2024scaling/fig3",
    "worschech2024scaling/fig5",
    "worschech2024scaling/fig6",
    "worschech2024scaling/plateau_exact",
}


@pytest.mark.parametrize(
    "name",
    [pytest.param(n, marks=pytest.mark.slow) if n in LONG else n for n in registry.names()],
)
def test_quick_preset(name, tmp_path):
    study, seen = registry.find(name), []
    assert set(study.PRESETS) == {"quick", "paper"}
    data = study.compute(study.PRESETS["quick"], seen.append)
    assert seen == sorted(seen) and seen[0] >= 0 and seen[-1] <= 1 + 1e-9
    ld.save(data, tmp_path / "data.nc")
    again = ld.load(tmp_path / "data.nc")
    assert again.equals(data)
    found = study.check(again)
    assert found, "a study without a claim"
    failing = [f"{c.statement}: {c.measured} {c.relation} {c.expected}" for c in found
               if c.status == "fails"]  # fmt: skip
    assert not failing
    for claim in found:
        assert claim.source and claim.tolerance_from
        assert (claim.kind == "erratum") == bool(claim.printed)
        assert claim.status == "open" or np.isfinite(claim.measured)
    figure = study.draw(again)
    assert isinstance(figure, Figure) and figure.axes
    assert all(a.get_xlabel() or a.get_ylabel() for a in figure.axes)
    assert claims_room.to_json(found)


def test_settings_keep_their_types():
    params = registry.find("bocchi2026escape/jitter").PRESETS["quick"]
    new = registry.with_settings(params, {"sizes": "30,60,90", "eta": "0.2", "runs": "3"})
    assert new.sizes == (30, 60, 90) and new.eta == 0.2 and new.runs == 3


@pytest.mark.parametrize(
    ("relation", "measured", "holds"),
    [("=", 1.05, True), ("=", 1.2, False), ("≤", 1.1, True), ("≤", 1.2, False),
     ("≥", 0.9, True), ("≥", 0.8, False), ("=", float("nan"), False)],
)  # fmt: skip
def test_claims_can_fail(relation, measured, holds):
    claim = claims_room.Claim("s", "Eq. 1", relation, 1.0, measured, 0.1 + 1e-12, "theory")
    assert claim.holds is holds and claim.status == ("holds" if holds else "fails")
    assert claim._replace(why_open="not decided").status == "open"
