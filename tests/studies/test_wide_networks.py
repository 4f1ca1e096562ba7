"""Exponents over the width that the study of wide networks fits, of data that are made up."""

import numpy as np
import pytest
import xarray as xr

from learndyn.studies.lee2019wide import widths

M = np.array([32.0, 64.0, 128.0, 256.0])


@pytest.fixture
def data():
    """Exact power laws, and runs with the mean that is predicted."""
    sizes = {"kernel": M**-0.5, "outputs": M**-0.5, "mean": 1 / M}
    columns = {name: ("width", size) for name, size in sizes.items()}
    errors = {f"{name}_error": ("width", np.full(len(M), 0.02)) for name in sizes}
    test_loss = 1 + 0.01 * np.random.default_rng(0).standard_normal((50, 2))
    losses = {"predicted": ("time", np.ones(2)), "test_loss": (("run", "time"), test_loss)}
    return xr.Dataset({**columns, **errors, **losses}, {"width": M}, {"means": 3})


def statuses(data):
    return [claim.status for claim in widths.check(data)]


def test_power_laws_hold_and_others_fail(data):
    assert statuses(data) == ["holds"] * 4
    swapped = data.assign(outputs=data["mean"], mean=data["outputs"])
    assert statuses(swapped) == ["holds", "fails", "fails", "holds"]
    assert statuses(data.assign(test_loss=1.3 * data.test_loss))[-1] == "fails"


def test_a_mean_that_scatter_hides_is_open(data):
    hidden = data.assign(mean=data["mean"].where(M != 128, 0.0))
    assert statuses(hidden) == ["holds", "holds", "open", "holds"]
