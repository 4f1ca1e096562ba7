"""Catapults of losses whose events are known."""

import numpy as np
import pytest
import xarray as xr

from learndyn.analysis import find_catapults

SHAPE = np.log(4) * np.array([0.5, 1.0, 0.8, 0.4, 0.1])  # of a spike, in ln loss


def falling(length, noise, rng):
    return -3 * np.arange(length) / length + noise * rng.standard_normal(length)


@pytest.mark.parametrize("seed", [5, 6, 7])
def test_known_spikes_are_found_where_they_are(seed):
    rng = np.random.default_rng(seed)
    x, at = falling(400, 0.03, rng), [40, 150, 310]
    for a in at:
        x[a : a + len(SHAPE)] += SHAPE
    found = find_catapults(np.exp(x))
    assert [s.peak for s in found.spikes] == pytest.approx([a + 1 for a in at], abs=1)
    for spike in found.spikes:
        assert spike.onset < spike.peak < spike.end <= spike.peak + 4
        assert 3 < spike.rise < 6 and np.isnan(spike.kernel_drop) and np.isnan(spike.top_share)
    assert found.excesses is None and found.spike_match is None and found.steps_above is None


@pytest.mark.parametrize("seed", [15, 16, 17])
def test_noise_around_a_falling_curve_has_no_spikes(seed):
    rng = np.random.default_rng(seed)
    t = np.arange(500)
    for curve in (-5 * t / 500, -np.log1p(t), np.zeros(500)):
        for noise in (0.01, 0.1, 0.5):
            assert not find_catapults(np.exp(curve + noise * rng.standard_normal(500))).spikes


def test_noise_that_follows_itself_is_taken_as_noise():
    """AR(1) with 0.8: bends over one step alone would call most of these histories spiked."""
    rng, spiked = np.random.default_rng(18), 0
    for _ in range(40):
        x = np.zeros(800)
        for t in range(1, 800):
            x[t] = 0.8 * x[t - 1] + 0.1 * rng.standard_normal()
        spiked += bool(find_catapults(np.exp(x)).spikes)
    assert spiked <= 1


def test_a_spike_at_the_very_beginning_and_two_in_a_row():
    loss = np.r_[1.0, 4.0, 12.0, 6.0, 1.0, 0.5, 5.0, 0.4, 0.3, 0.2]
    found = find_catapults(loss, noise=1e-6)
    assert [(s.onset, s.peak, s.end) for s in found.spikes] == [(0, 2, 4), (5, 6, 7)]
    assert found.spikes[0].rise == 12 and found.spikes[1].rise == 10
    assert found.threshold == pytest.approx(1.1)


def test_kernel_drop_share_and_both_definitions_of_a_record():
    """One excess of two steps lies in the first rise, and a second spike has none."""
    loss = np.r_[1.0, 4.0, 12.0, 6.0, 1.0, 0.5, 5.0, 0.4, 0.3, 0.2]
    steps = np.arange(100, 110)
    critical = np.r_[1.0, 1.0, 3.0, np.full(7, 4.0)]
    record = xr.Dataset(
        {
            "error": (("run", "time"), loss[None]),
            "kernel_norm": (("run", "time"), np.r_[2.0, 2.0, 2.0, 1.0, 0.5, 1, 1, 2, 2, 2][None]),
            "loss_top": (("run", "time"), np.r_[0.5, 3.0, 10.4, np.full(7, 0.1)][None]),
            "rate": (("run", "time"), np.full((1, 10), 2.0)),
            "critical_rate": (("run", "time"), critical[None]),
            "batch_loss": (("run", "time"), loss[None]),
            "batch_loss_after": (("run", "time"), np.r_[np.nan, 2.0, 8.0, np.zeros(7)][None]),
        },
        {"step": ("time", steps)},
    )
    found = find_catapults(record, noise=1e-6)
    first, second = found.spikes
    assert found.excesses and found.increase_match and found.spike_match and found.batch_match
    assert (first.onset, first.peak, first.end) == (100, 102, 104)
    assert first.kernel_drop == 0.75 and first.top_share == pytest.approx(0.9)
    assert second.kernel_drop == -1.0
    assert [tuple(e) for e in found.excesses] == [(100, 101, 2.0)] and found.steps_above == 2
    # Rises at steps 0, 1 and 5 of nine; two of nine steps are above; of stretches of two and of one
    # step 2 of 9 and 2 of 10 have an excess.
    assert tuple(found.increase_match) == pytest.approx((2 / 3, 2 / 9, 3))
    assert tuple(found.spike_match) == pytest.approx((0.5, (2 / 9 + 2 / 10) / 2, 2))
    assert tuple(found.batch_match) == pytest.approx((1.0, 2 / 9, 2))


def test_the_excess_of_a_rule_is_beyond_rounding():
    found = find_catapults(np.ones(5), rate=1 + 5e-9, critical_rate=1.0)
    assert found.steps_above == 0
    assert find_catapults(np.ones(5), rate=1 + 2e-8, critical_rate=1.0).steps_above == 5


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_divergence_is_reported_at_its_step(bad):
    loss = np.r_[1.0, 3.0, 1.0, 0.9, 0.8, 9.0, bad, 1.0]
    found = find_catapults(loss, noise=1e-6)
    assert found.diverged_at == 6 and found.unreturned is None
    assert [s.peak for s in found.spikes] == [1]
    assert find_catapults(np.r_[1.0, bad, bad]).diverged_at == 1


def test_a_rise_that_does_not_return_is_not_a_spike():
    found = find_catapults(np.r_[np.linspace(1, 0.5, 30), np.full(30, 5.0)])
    assert not found.spikes and found.unreturned == 29


def test_gaps_between_recorded_steps_leave_no_match():
    record = xr.Dataset({"error": ("time", np.ones(4))}, {"step": ("time", [0, 10, 20, 30])})
    found = find_catapults(record, rate=2.0, critical_rate=1.0)
    assert found.steps_above is None and found.increase_match is None


def recorded(diverged_at=np.nan, **changes):
    """As a recorder writes it: a value is missing at a call, a probe is read now and then."""
    loss, gap = np.r_[1.0, np.nan, 4.0, 12.0, 6.0, 1.0, 0.5, np.nan], np.nan
    curves = {"loss": loss, "rate": np.full(8, 2.0)}
    curves |= {"critical_rate": [1.0, gap, 1.0, gap, 4.0, gap, 4.0, gap], **changes}
    return xr.Dataset(
        {name: (("run", "time"), np.asarray(curve)[None]) for name, curve in curves.items()}
        | {"diverged_at": ("run", [diverged_at])},
        {"time": np.arange(8.0), "step": ("time", np.arange(8))},
    )


def test_missing_losses_are_left_out_and_are_no_divergence():
    found = find_catapults(recorded(), noise=1e-6)
    assert [(s.onset, s.peak, s.end) for s in found.spikes] == [(0, 3, 5)]
    assert found.diverged_at is None and found.unreturned is None
    found = find_catapults(recorded(diverged_at=7.0), noise=1e-6)
    assert found.diverged_at == 7 and len(found.spikes) == 1


def test_an_infinite_loss_of_a_run_that_goes_on_hides_no_spike():
    loss = np.r_[1.0, np.inf, 1.0, 2.0, 12.0, 6.0, 1.0, 0.5]
    found = find_catapults(recorded(loss=loss), noise=1e-6)
    assert [s.peak for s in found.spikes] == [4] and found.diverged_at is None


def test_a_rate_that_is_not_known_at_every_step_leaves_no_match():
    loss = np.r_[1.0, 2.0, 4.0, 12.0, 6.0, 1.0, 0.5, 0.4]
    found = find_catapults(recorded(loss=loss), noise=1e-6)
    assert found.excesses is None and found.steps_above is None and found.spike_match is None
    whole = find_catapults(recorded(loss=loss, critical_rate=np.full(8, 1.0)), noise=1e-6)
    assert whole.steps_above == 8 and len(found.spikes) == len(whole.spikes) == 1


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: find_catapults([1.0, 2.0]), "record: got 2 losses; allowed are at least 3"),
        (lambda: find_catapults(np.ones((2, 3))), "record: got a loss of shape (2, 3)"),
        (lambda: find_catapults([1.0, -2.0, 1.0]), "record: got the loss -2"),
        (lambda: find_catapults(np.ones(4), rise=1.0), "rise: got 1.0; allowed is a number above"),
        (lambda: find_catapults(np.ones(4), back=0.0), "back: got 0.0"),
        (lambda: find_catapults(np.ones(4), noise=-1.0), "noise: got -1.0"),
        (
            lambda: find_catapults(np.ones(4), rate=1.0, critical_rate=np.ones(3)),
            "critical_rate: got shape (3,); allowed is one entry per step, 4",
        ),
        (
            lambda: find_catapults(xr.Dataset({"accuracy": ("time", np.ones(4))})),
            "variable: got None; allowed is one of accuracy",
        ),
        (
            lambda: find_catapults(xr.Dataset({"loss": ("time", np.ones(4))}), variable="error"),
            "variable: got 'error'; allowed is one of loss",
        ),
        (
            lambda: find_catapults(xr.Dataset({"error": (("run", "time"), np.ones((2, 4)))})),
            "run: got None; allowed is one of the record's 2",
        ),
    ],
)
def test_bad_input_is_one_line(make, said):
    with pytest.raises(ValueError, match=r"\A[^\n]*\Z") as caught:
        make()
    assert said in str(caught.value)


def test_steps_before_an_optimiser_has_a_state_are_not_above():
    loss, critical = np.exp(-0.1 * np.arange(9.0)), np.full(9, 2.0)
    critical[0], critical[3:5] = np.nan, 0.5
    found = find_catapults(loss, rate=1.0, critical_rate=critical)
    assert [(e.onset, e.end) for e in found.excesses] == [(3, 4)] and found.steps_above == 2
    critical[6] = np.nan
    assert find_catapults(loss, rate=1.0, critical_rate=critical).excesses is None
    assert find_catapults(loss, rate=1.0, critical_rate=np.full(9, np.nan)).excesses is None
