"""A cluster in this process, for all that does not end workers."""

import pytest
from distributed import Client


@pytest.fixture(scope="module")
def client():
    with Client(
        processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0"
    ) as inside:
        yield inside
