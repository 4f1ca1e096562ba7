"""Every study in its quick preset: data, figure and claims, failing only where it says so."""

import json

import numpy as np
from matplotlib.figure import Figure

import learndyn as ld
from learndyn.studies import registry, results, verdicts


def test_quick_preset(ran, tmp_path):
    assert set(ran.study.PRESETS) == {"quick", "paper"}
    seen = ran.reported
    assert seen == sorted(seen) and seen[0] >= 0 and seen[-1] <= 1 + 1e-9
    ld.save(ran.data, tmp_path / "data.nc")
    again = ld.load(tmp_path / "data.nc")
    assert again.equals(ran.data)
    check_claims(ran, ran.study.check(again))
    figure = ran.study.draw(again)
    assert isinstance(figure, Figure) and figure.axes
    assert all(a.get_xlabel() or a.get_ylabel() for a in figure.axes)


def check_claims(ran, found):
    assert found, "a study without a claim"
    listed = registry.fails(ran.study, "quick")
    assert not verdicts.complaints(found, listed, own=True)
    assert not verdicts.repeated(found)
    for claim in found:
        assert claim.source and (claim.tolerance_from or claim.status == "open")
        assert claim.status == "open" or np.isfinite(claim.measured)
    weak = {name for name in getattr(ran.study, "WEAK", {}) if isinstance(name, str)}
    assert weak <= {claim.name for claim in found}, "measured rates of claims that are not there"
    table = ran.study.CLAIMS.values()
    foreign = [c.statement for c in found if not any(sentence.says(c) for sentence in table)]
    assert not foreign, "claims that the study's table does not have"
    own = ran.study.PRESETS["quick"]
    said = json.loads(results.to_json(results.describe(ran.name, "quick", own, own), found, listed))
    assert [row["status"] for row in said["claims"]] == [claim.status for claim in found]
    assert [row["name"] for row in said["claims"] if "listed" in row] == list(listed)


def test_listed_failures_are_of_presets_and_have_reasons():
    for name in registry.names():
        study = registry.find(name)
        for preset, listed in getattr(study, "FAILS", {}).items():
            assert preset in study.PRESETS and all(listed.values())


def test_settings_keep_their_types():
    params = registry.find("bocchi2026escape/jitter").PRESETS["quick"]
    new = registry.with_settings(params, {"sizes": "30,60,90", "eta": "0.2", "runs": "3"})
    assert new.sizes == (30, 60, 90) and new.eta == 0.2 and new.runs == 3


def test_cases_report_after_each():
    seen = []
    assert list(registry.cases("abcd", seen.append)) == list("abcd")
    assert seen == [0.25, 0.5, 0.75, 1.0]
    assert list(registry.cases([1, 2], seen.append, begin=0.5, end=0.9)) == [1, 2]
    np.testing.assert_allclose(seen[4:], [0.7, 0.9])
